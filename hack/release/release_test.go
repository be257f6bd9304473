// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/hack/images"
	"github.com/livecpm/livecpm/hack/krew"
	"github.com/livecpm/livecpm/hack/release"
)

// hello stands for the programs: what they cost to compile for all platforms is not what is tested here.
const hello = "./hack/images/testdata/hello"

var _ = Describe("Build", func() {
	ctx := context.Background()

	newOptions := func() release.Options {
		GinkgoHelper()
		bundle := filepath.Join(GinkgoT().TempDir(), "ca.crt")
		Expect(os.WriteFile(bundle, []byte("authorities"), 0o600)).To(Succeed())
		return release.Options{
			Repository: "../..", Changelog: "hack/release/testdata/CHANGELOG.md",
			Out: filepath.Join(GinkgoT().TempDir(), "release"), Version: "v1.2.3",
			Registry: "registry.example.com:5000/us", CABundle: bundle,
			Commands: []images.Command{{Name: "hello", Package: hello}},
			// One platform is compiled; the program is the same for all.
			Compile: func(ctx context.Context, program images.Program) error {
				Expect(program.Package).To(Equal("./cmd/kubectl-livecpm"))
				program.Package, program.OS, program.Architecture = hello, "linux", "amd64"
				return images.Compile(ctx, program)
			},
		}
	}

	DescribeTable("the notes", func(version, expected string) {
		const changelog = "# Changelog\n\n## Unreleased\n\n- New\n\n## v1.2.3 (2026-03-04)\n\n### Added\n\n- One\n\n" +
			"## v1.2.2\n\n## v1.2.1\n- Old\n"
		notes, err := release.Notes(changelog, version)
		if expected == "" {
			Expect(err).To(MatchError(ContainSubstring(`"## ` + version + `"`)))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(Equal(expected))
	},
		Entry("are those of the version, with a date", "v1.2.3", "### Added\n\n- One\n"),
		Entry("are those of the last version in the file", "v1.2.1", "- Old\n"),
		Entry("are asked for where there are none", "v1.2.2", ""),
		Entry("are asked for where there is no section", "v1.2.4", ""),
		Entry("are not those of a longer version", "v1.2", ""),
	)

	It("should refuse a version of which the repository's changelog says nothing, before it compiles anything", func() {
		options := newOptions()
		options.Changelog, options.Version = "CHANGELOG.md", "v99.0.0"
		Expect(release.Build(ctx, options)).To(MatchError(And(
			ContainSubstring("CHANGELOG.md"), ContainSubstring(`"## v99.0.0"`),
		)))
	})

	// A release takes ten seconds with the race detector: these specs look at one.
	Context("when it has made a release", Ordered, func() {
		var options release.Options

		BeforeAll(func() {
			options = newOptions()
			Expect(release.Build(ctx, options)).To(Succeed())
		})

		read := func(name string) []byte {
			GinkgoHelper()
			content, err := os.ReadFile(filepath.Join(options.Out, name))
			Expect(err).NotTo(HaveOccurred())
			return content
		}

		It("should have all files, and checksums of each", func() {
			expected := []string{
				"LICENSE", "licences.md", release.NotesFile, "controllerregistration.yaml", "livecpm-agent-1.2.3.tgz",
				"livecpm-garden-1.2.3.tgz",
				"hello.tar", "hello_linux_amd64.cdx.json", "hello_linux_arm64.cdx.json", krew.ManifestFile,
				release.ChecksumFile,
			}
			for _, platform := range krew.Platforms {
				expected = append(expected, platform.Archive(),
					"kubectl-livecpm_"+platform.OS+"_"+platform.Arch+".cdx.json")
			}
			var written []string
			entries, err := os.ReadDir(options.Out)
			Expect(err).NotTo(HaveOccurred())
			for _, entry := range entries {
				written = append(written, entry.Name())
			}
			Expect(written).To(ConsistOf(expected))

			lines := strings.Split(strings.TrimSuffix(string(read(release.ChecksumFile)), "\n"), "\n")
			Expect(lines).To(HaveLen(len(expected) - 1))
			Expect(slices.IsSortedFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })).
				To(BeTrue())
			for _, line := range lines {
				sum, name, found := strings.Cut(line, "  ")
				Expect(found).To(BeTrue(), line)
				actual := sha256.Sum256(read(name))
				Expect(sum).To(Equal(hex.EncodeToString(actual[:])), name)
			}
			for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64",
				"windows/amd64", "windows/arm64"} {
				system, architecture, _ := strings.Cut(platform, "/")
				Expect(krew.Platforms).To(ContainElement(krew.Platform{OS: system, Arch: architecture}))
			}
		})

		It("should have charts whose images are those of the release", func() {
			for chart, expected := range map[string][]string{
				"livecpm-agent": {"registry.example.com:5000/us/livecpm-agent:v1.2.3",
					"registry.example.com:5000/us/livecpm-relay:v1.2.3"},
				"livecpm-garden": {"registry.example.com:5000/us/livecpm-controller-manager:v1.2.3"},
			} {
				archive := read(chart + "-1.2.3.tgz")
				metadata := map[string]any{}
				Expect(yaml.Unmarshal(fileIn(archive, chart+"/Chart.yaml"), &metadata)).To(Succeed())
				Expect(metadata).To(And(HaveKeyWithValue("version", "1.2.3"), HaveKeyWithValue("appVersion", "v1.2.3"),
					HaveKeyWithValue("name", chart)))

				rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderArchive(
					archive, "livecpm", "garden", map[string]any{
						"gardenlet":         map[string]any{"adopt": true},
						"controllerManager": map[string]any{"enabled": true},
					})
				Expect(err).NotTo(HaveOccurred())
				var found []string
				for _, manifest := range rendered.Manifests {
					for _, match := range regexp.MustCompile(`image: (\S*livecpm\S*)`).FindAllStringSubmatch(
						manifest.Content, -1) {
						found = append(found, match[1])
					}
				}
				slices.Sort(found)
				Expect(slices.Compact(found)).To(Equal(expected))
			}
		})

		It("should register the chart that is in it", func() {
			for document := range strings.SplitSeq(string(read("controllerregistration.yaml")), "\n---\n") {
				deployment := &gardencorev1.ControllerDeployment{}
				Expect(yaml.Unmarshal([]byte(document), deployment)).To(Succeed())
				if deployment.Kind != "ControllerDeployment" {
					continue
				}
				Expect(deployment.Helm.RawChart).To(Equal(read("livecpm-agent-1.2.3.tgz")))
				Expect(deployment.Helm.Values.Raw).
					To(
						MatchJSON(
							`{"image":{"ref":"registry.example.com:5000/us/livecpm-agent:v1.2.3"},"relay":{"image":{"ref":"registry.example.com:5000/us/livecpm-relay:v1.2.3"}}}`))
				return
			}
			Fail("no ControllerDeployment")
		})

		It("should make the same bytes again", func() {
			again := newOptions()
			Expect(release.Build(ctx, again)).To(Succeed())
			checksums, err := os.ReadFile(filepath.Join(again.Out, release.ChecksumFile))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(checksums)).To(Equal(string(read(release.ChecksumFile))))
		})
	})

	DescribeTable("refuses before it compiles anything",
		func(change func(*release.Options), message string) {
			options := newOptions()
			change(&options)
			options.Compile = func(context.Context, images.Program) error { return errors.New("compiled") }
			Expect(release.Build(ctx, options)).To(MatchError(ContainSubstring(message)))
		},
		Entry("no version", func(o *release.Options) { o.Version = "" }, "VERSION=v0.1.0"),
		Entry("a version of no semantics", func(o *release.Options) { o.Version = "main" }, "semantic version"),
		Entry("a registry that no reference can begin with", func(o *release.Options) {
			o.Registry = "https://registry"
		}, "registry.example.com/livecpm"),
		Entry("a folder with something in it", func(o *release.Options) { o.Out = "." }, "remove it first"),
	)
})

// fileIn returns a file of a packed chart.
func fileIn(archive []byte, name string) []byte {
	GinkgoHelper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	Expect(err).NotTo(HaveOccurred())
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		Expect(err).NotTo(HaveOccurred(), "there is no "+name)
		if header.Name == name {
			content, err := io.ReadAll(reader)
			Expect(err).NotTo(HaveOccurred())
			return content
		}
	}
}
