// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/images"
)

var _ = Describe("Images", func() {
	var (
		ctx     = context.Background()
		options images.Options
	)

	BeforeEach(func() {
		bundle := filepath.Join(GinkgoT().TempDir(), "ca.crt")
		Expect(os.WriteFile(bundle, []byte("authorities"), 0o600)).To(Succeed())
		options = images.Options{
			Repository: "../..",
			Out:        GinkgoT().TempDir(),
			Registry:   "livecpm.local",
			Version:    "v1.2.3+dirty",
			ExtraTags:  []string{"latest"},
			CABundle:   bundle,
			Commands:   []images.Command{{Name: "hello", Package: "./hack/images/testdata/hello"}},
		}
	})

	It("should give the same bytes twice", func() {
		first, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		firstBytes, err := os.ReadFile(first[0].File)
		Expect(err).NotTo(HaveOccurred())

		options.Out = GinkgoT().TempDir()
		second, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		secondBytes, err := os.ReadFile(second[0].File)
		Expect(err).NotTo(HaveOccurred())

		Expect(second[0].Digest).To(Equal(first[0].Digest))
		Expect(bytes.Equal(firstBytes, secondBytes)).To(BeTrue(), "the tarballs differ")
	})

	It("should put the program, the authorities and the user into the image and nothing of the builder", func() {
		built, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(built[0].References).
			To(Equal([]string{"livecpm.local/hello:v1.2.3-dirty", "livecpm.local/hello:latest"}))
		Expect(built[0].File).To(Equal(filepath.Join(options.Out, "hello.tar")))

		entries := readTar(built[0].File)
		var index struct {
			Manifests []struct {
				Digest      string
				Annotations map[string]string
			}
		}
		Expect(json.Unmarshal(entries["index.json"], &index)).To(Succeed())
		Expect(index.Manifests).To(HaveLen(2))
		var names []string
		for _, manifest := range index.Manifests {
			Expect(manifest.Digest).To(Equal(built[0].Digest))
			names = append(names, manifest.Annotations["io.containerd.image.name"])
		}
		Expect(names).To(ConsistOf(built[0].References))

		var manifest struct {
			Config struct{ Digest string }
			Layers []struct{ Digest string }
		}
		Expect(json.Unmarshal(entries[blob(built[0].Digest)], &manifest)).To(Succeed())
		var config struct {
			Config struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			} `json:"config"`
		}
		Expect(json.Unmarshal(entries[blob(manifest.Config.Digest)], &config)).To(Succeed())
		Expect(config.Config.User).To(Equal("65532:65532"))
		Expect(config.Config.Entrypoint).To(Equal([]string{"/hello"}))
		Expect(config.Config.Labels).To(HaveKeyWithValue("org.opencontainers.image.version", "v1.2.3+dirty"))

		Expect(manifest.Layers).To(HaveLen(1))
		layer := filepath.Join(GinkgoT().TempDir(), "layer.tar")
		Expect(os.WriteFile(layer, entries[blob(manifest.Layers[0].Digest)], 0o600)).To(Succeed())
		files := readTar(layer)
		Expect(files).To(HaveKeyWithValue("etc/ssl/certs/ca-certificates.crt", []byte("authorities")))
		Expect(string(files["etc/passwd"])).To(ContainSubstring("nonroot:x:65532:65532"))

		working, err := os.Getwd()
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Contains(files["hello"], []byte(working))).To(BeFalse(), "the binary tells where it was built")

		hello := filepath.Join(GinkgoT().TempDir(), "hello")
		Expect(os.WriteFile(hello, files["hello"], 0o700)).To(Succeed())
		output, err := exec.Command(hello).CombinedOutput()
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.TrimSpace(string(output))).To(MatchRegexp(`^v1\.\d+\.\d+$`),
			"the binary has to report Gardener's version")
	})

	It("should write what the image consists of, the same twice", func() {
		built, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(built[0].SBOMs).To(ConsistOf(filepath.Join(options.Out, "hello.cdx.json")))
		content, err := os.ReadFile(built[0].SBOMs[0])
		Expect(err).NotTo(HaveOccurred())
		document := &cyclonedx.BOM{}
		Expect(cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(document)).
			To(Succeed())
		Expect(document.SerialNumber).To(HavePrefix("urn:uuid:"))
		Expect(document.Metadata.Component.Version).To(Equal("v1.2.3+dirty"))
		Expect(*document.Metadata.Component.Properties).
			To(ContainElement(cyclonedx.Property{Name: "livecpm:digest", Value: built[0].Digest}))

		// What the module files say about a module that the program is linked with.
		output, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Sum}}", "k8s.io/component-base").Output()
		Expect(err).NotTo(HaveOccurred())
		version, sum, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
		Expect(*document.Components).To(ContainElements(
			HaveField("PackageURL", "pkg:golang/"+images.Main+"@v1.2.3+dirty"),
			HaveField("PackageURL", MatchRegexp(`^pkg:golang/std@\d+\.\d+`)),
			And(HaveField("PackageURL", "pkg:golang/k8s.io/component-base@"+version),
				HaveField("Properties", HaveValue(ConsistOf(cyclonedx.Property{Name: "livecpm:go:sum", Value: sum})))),
		))
		Expect(*document.Components).NotTo(ContainElement(HaveField("Name", "github.com/onsi/gomega")),
			"what only tests need is not shipped")
		Expect(*(*document.Dependencies)[0].Dependencies).To(HaveLen(len(*document.Components)))

		options.Out = GinkgoT().TempDir()
		again, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.ReadFile(again[0].SBOMs[0])).To(Equal(content))
	})

	It("should make one image for several architectures, with a bill of materials for each", func() {
		options.Architectures = []string{"amd64", "arm64"}
		built, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(built).To(HaveLen(1))
		Expect(built[0].SBOMs).
			To(Equal([]string{filepath.Join(options.Out, "hello_linux_amd64.cdx.json"),
				filepath.Join(options.Out, "hello_linux_arm64.cdx.json")}))

		entries := readTar(built[0].File)
		var index struct {
			Manifests []struct {
				Digest   string
				Platform struct{ Architecture string }
			}
		}
		Expect(json.Unmarshal(entries[blob(built[0].Digest)], &index)).To(Succeed())
		Expect(index.Manifests).To(HaveLen(2))
		for n, architecture := range options.Architectures {
			Expect(index.Manifests[n].Platform.Architecture).To(Equal(architecture))
			document := &cyclonedx.BOM{}
			content, err := os.ReadFile(built[0].SBOMs[n])
			Expect(err).NotTo(HaveOccurred())
			Expect(cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(document)).
				To(Succeed())
			Expect(*document.Metadata.Component.Properties).
				To(ContainElement(cyclonedx.Property{Name: "livecpm:digest", Value: index.Manifests[n].Digest}))
		}
		Expect(index.Manifests[0].Digest).NotTo(Equal(index.Manifests[1].Digest), "both hold the same program")
	})

	It("should change the digest with the authorities", func() {
		first, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(options.CABundle, []byte("others"), 0o600)).To(Succeed())
		second, err := images.Build(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(second[0].Digest).NotTo(Equal(first[0].Digest))
	})

	It("should refuse what it cannot build", func() {
		broken := options
		broken.CABundle = "/nonexistent"
		_, err := images.Build(ctx, broken)
		Expect(err).To(MatchError(ContainSubstring("ca-certificates")))

		broken = options
		broken.Version = "not a tag"
		_, err = images.Build(ctx, broken)
		Expect(err).To(MatchError(ContainSubstring(`failed to make a tag of version "not a tag"`)))

		broken = options
		broken.Commands = []images.Command{{Name: "x", Package: "./nonexistent"}}
		_, err = images.Build(ctx, broken)
		Expect(err).To(MatchError(ContainSubstring("failed to build ./nonexistent")))
		Expect(filepath.Join(options.Out, "x.tar")).NotTo(BeAnExistingFile())
	})

	Describe("Version", func() {
		It("should be what git says", func() {
			version, err := images.Version(ctx, "../..")
			Expect(err).NotTo(HaveOccurred())
			Expect(version).NotTo(BeEmpty())
		})

		It("should be the file VERSION where there is no repository", func() {
			dir := GinkgoT().TempDir()
			_, err := images.Version(ctx, dir)
			Expect(err).To(MatchError(ContainSubstring("there is no file VERSION")))

			Expect(os.WriteFile(filepath.Join(dir, "VERSION"), []byte("v0.1.0-dev\n"), 0o600)).To(Succeed())
			Expect(images.Version(ctx, dir)).To(Equal("v0.1.0-dev"))
		})
	})
})

func readTar(file string) map[string][]byte {
	GinkgoHelper()
	handle, err := os.Open(file)
	Expect(err).NotTo(HaveOccurred())
	defer handle.Close()

	out := map[string][]byte{}
	for reader := tar.NewReader(handle); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return out
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(header.ModTime.Unix()).To(BeZero())
		Expect(header.Uid).To(BeZero())
		content, err := io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
		if header.Typeflag == tar.TypeReg {
			out[header.Name] = content
		}
	}
}

func blob(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }
