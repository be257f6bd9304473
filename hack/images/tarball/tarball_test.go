// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tarball_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/images/tarball"
)

// entries reads a tar file into memory.
func entries(content []byte) (names []string, files map[string][]byte, headers map[string]*tar.Header) {
	files, headers = map[string][]byte{}, map[string]*tar.Header{}
	for reader := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return names, files, headers
		}
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		data, err := io.ReadAll(reader)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		names, files[header.Name], headers[header.Name] = append(names, header.Name), data, header
	}
}

// validateLayout has the library read the layout back: what leads to a blob has its digest and its size. The library
// takes layers for compressed ones, so it must not look into them.
func validateLayout(content []byte) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	_, files, _ := entries(content)
	for name, data := range files {
		file := filepath.Join(folder, name)
		Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, data, 0o600)).To(Succeed())
	}
	index, err := layout.ImageIndexFromPath(folder)
	Expect(err).NotTo(HaveOccurred())
	Expect(validate.Index(index, validate.Fast)).To(Succeed())
}

var _ = Describe("Tarball", func() {
	var (
		dir    string
		binary string
		image  tarball.Image
	)

	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		binary = filepath.Join(dir, "program")
		Expect(os.WriteFile(binary, []byte("machine code"), 0o700)).To(Succeed())
		image = tarball.Image{
			Refs: []string{"r.example/b:2", "r.example/a:1"},
			Files: []tarball.File{{Path: "usr/local/bin/program", Source: binary},
				{Path: "/data.txt", Data: []byte("data"), Mode: 0o600}},
			Entrypoint: []string{"/usr/local/bin/program"},
			User:       "65532",
		}
	})

	write := func() []byte {
		var out bytes.Buffer
		ExpectWithOffset(1, tarball.Write(&out, image)).To(Succeed())
		return out.Bytes()
	}

	It("should give the same bytes for the same content, whatever the times, modes and order", func() {
		first := write()
		Expect(os.Chtimes(binary, time.Now(), time.Now().Add(-time.Hour))).To(Succeed())
		Expect(os.Chmod(binary, 0o755)).To(Succeed())
		image.Files[0], image.Files[1] = image.Files[1], image.Files[0]
		image.Refs[0], image.Refs[1] = image.Refs[1], image.Refs[0]
		Expect(write()).To(Equal(first))
		Expect(os.WriteFile(binary, []byte("other machine code"), 0o755)).To(Succeed())
		Expect(write()).NotTo(Equal(first))
	})

	It("should be a consistent OCI layout with one entry for each reference", func() {
		_, files, _ := entries(write())
		validateLayout(write())
		Expect(files).To(HaveKey("oci-layout"))
		var index struct {
			Manifests []struct {
				Digest      string
				Size        int
				Annotations map[string]string
			}
		}
		Expect(json.Unmarshal(files["index.json"], &index)).To(Succeed())
		Expect(index.Manifests).To(HaveLen(2))
		Expect(index.Manifests[0].Annotations).To(HaveKeyWithValue("io.containerd.image.name", "r.example/a:1"))
		Expect(index.Manifests[1].Annotations).To(HaveKeyWithValue("io.containerd.image.name", "r.example/b:2"))
		digest, err := image.Digest()
		Expect(err).NotTo(HaveOccurred())
		Expect(index.Manifests[0].Digest).To(Equal(digest))
		Expect(string(files["manifest.json"])).To(And(ContainSubstring(`"RepoTags":["r.example/a:1","r.example/b:2"]`),
			ContainSubstring(`"Layers":["blobs/sha256/`), ContainSubstring(`"Config":"blobs/sha256/`)))

		blob := func(digest string) []byte {
			content, ok := files["blobs/sha256/"+digest[len("sha256:"):]]
			ExpectWithOffset(1, ok).To(BeTrue(), digest)
			sum := sha256.Sum256(content)
			ExpectWithOffset(1, "sha256:"+hex.EncodeToString(sum[:])).To(Equal(digest))
			return content
		}
		var manifest struct {
			Config struct{ Digest string }
			Layers []struct {
				Digest string
				Size   int
			}
		}
		content := blob(digest)
		Expect(content).To(HaveLen(index.Manifests[0].Size))
		Expect(json.Unmarshal(content, &manifest)).To(Succeed())
		var config struct {
			Config struct {
				User       string
				Entrypoint []string
				WorkingDir string
			}
			Rootfs struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		Expect(json.Unmarshal(blob(manifest.Config.Digest), &config)).To(Succeed())
		Expect(config.Config.User).To(Equal("65532"))
		Expect(config.Config.WorkingDir).To(Equal("/"))
		Expect(config.Config.Entrypoint).To(Equal([]string{"/usr/local/bin/program"}))
		Expect(config.Rootfs.DiffIDs).To(ConsistOf(manifest.Layers[0].Digest))

		layer := blob(manifest.Layers[0].Digest)
		Expect(layer).To(HaveLen(manifest.Layers[0].Size))
		names, layerFiles, headers := entries(layer)
		Expect(names).To(Equal([]string{"etc/", "home/", "home/nonroot/", "tmp/", "usr/", "usr/local/",
			"usr/local/bin/", "data.txt", "etc/group", "etc/passwd", "usr/local/bin/program"}))
		Expect(layerFiles["usr/local/bin/program"]).To(BeEquivalentTo("machine code"))
		Expect(headers["usr/local/bin/program"].Mode).To(BeEquivalentTo(0o755))
		Expect(headers["data.txt"].Mode).To(BeEquivalentTo(0o600))
		Expect(headers["home/nonroot/"].Mode).To(BeEquivalentTo(0o777))
		Expect(headers["tmp/"].Mode).To(BeEquivalentTo(0o1777))
	})

	It("should write a file once, and replace older ones of the same name", func() {
		out := filepath.Join(dir, "images")
		first, digest, err := tarball.WriteFile(out, "app", image)
		Expect(err).NotTo(HaveOccurred())
		Expect(image.Digest()).To(Equal(digest))
		before, err := os.Stat(first)
		Expect(err).NotTo(HaveOccurred())
		again, _, err := tarball.WriteFile(out, "app", image)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(first))
		after, err := os.Stat(again)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.SameFile(before, after)).To(BeTrue())

		other, _, err := tarball.WriteFile(out, "app-two", image)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(binary, []byte("newer machine code"), 0o755)).To(Succeed())
		second, _, err := tarball.WriteFile(out, "app", image)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Glob(filepath.Join(out, "*"))).To(ConsistOf(second, other))
	})

	DescribeTable("should refuse what makes no image", func(change func(*tarball.Image), message string) {
		change(&image)
		Expect(tarball.Write(io.Discard, image)).To(MatchError(ContainSubstring(message)))
	},
		Entry("no reference", func(i *tarball.Image) { i.Refs = nil }, "no reference"),
		Entry("no tag", func(i *tarball.Image) { i.Refs = []string{"r.example:5000/a"} }, "no tag"),
		Entry("a file twice", func(i *tarball.Image) { i.Files = append(i.Files, tarball.File{Path: "data.txt"}) },
			"twice"),
		Entry("a missing file",
			func(i *tarball.Image) { i.Files = []tarball.File{{Path: "a", Source: "/nonexistent"}} }, "failed to open"),
	)

	Describe("for several architectures", func() {
		type descriptor struct {
			MediaType, Digest string
			Size              int
			Platform          struct{ Architecture, OS string }
			Annotations       map[string]string
		}
		type index struct{ Manifests []descriptor }

		built := func(architecture, code string) tarball.Image {
			one := image
			one.Architecture = architecture
			one.Files = []tarball.File{{Path: "program", Data: []byte(code)}}
			return one
		}

		It("should be a layout in which every reference leads to an index of the images", func() {
			var out, again bytes.Buffer
			digest, err := tarball.WriteMulti(&out, built("amd64", "a"), built("arm64", "b"))
			Expect(err).NotTo(HaveOccurred())
			_, err = tarball.WriteMulti(&again, built("amd64", "a"), built("arm64", "b"))
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Bytes()).To(Equal(out.Bytes()))

			validateLayout(out.Bytes())
			_, files, _ := entries(out.Bytes())
			read := func(d descriptor, into any) {
				GinkgoHelper()
				content, ok := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
				Expect(ok).To(BeTrue(), d.Digest)
				sum := sha256.Sum256(content)
				Expect(d.Digest).To(Equal("sha256:" + hex.EncodeToString(sum[:])))
				Expect(content).To(HaveLen(d.Size))
				if into != nil {
					Expect(json.Unmarshal(content, into)).To(Succeed())
				}
			}
			var outer, inner index
			Expect(json.Unmarshal(files["index.json"], &outer)).To(Succeed())
			Expect(outer.Manifests).To(HaveLen(2))
			for _, named := range outer.Manifests {
				Expect(named.Digest).To(Equal(digest))
				Expect(named.MediaType).To(Equal("application/vnd.oci.image.index.v1+json"))
				read(named, &inner)
			}
			Expect([]string{outer.Manifests[0].Annotations["io.containerd.image.name"],
				outer.Manifests[1].Annotations["io.containerd.image.name"]}).To(ConsistOf(image.Refs[0], image.Refs[1]))

			Expect(inner.Manifests).To(HaveLen(2))
			for n, architecture := range []string{"amd64", "arm64"} {
				Expect(inner.Manifests[n].Platform.Architecture).To(Equal(architecture))
				Expect(inner.Manifests[n].Platform.OS).To(Equal("linux"))
				Expect(inner.Manifests[n].Annotations).To(BeEmpty())
				var manifest struct {
					Config descriptor
					Layers []descriptor
				}
				read(inner.Manifests[n], &manifest)
				var config struct{ Architecture string }
				read(manifest.Config, &config)
				Expect(config.Architecture).To(Equal(architecture))
				Expect(manifest.Layers).To(HaveLen(1))
				read(manifest.Layers[0], nil)
				alone, err := built(architecture, []string{"a", "b"}[n]).Digest()
				Expect(err).NotTo(HaveOccurred())
				Expect(inner.Manifests[n].Digest).To(Equal(alone))
			}
		})

		It("should refuse images that do not belong together", func() {
			_, err := tarball.WriteMulti(io.Discard)
			Expect(err).To(MatchError(ContainSubstring("no image")))
			_, err = tarball.WriteMulti(io.Discard, built("amd64", "a"), built("amd64", "b"))
			Expect(err).To(MatchError("there are two images for amd64"))
			other := built("arm64", "b")
			other.Refs = []string{"r.example/other:1"}
			_, err = tarball.WriteMulti(io.Discard, built("amd64", "a"), other)
			Expect(err).To(MatchError(ContainSubstring("other references")))
		})
	})
})
