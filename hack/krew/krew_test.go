// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package krew_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/hack/krew"
)

// filesIn writes the files of an archive to the folder.
func filesIn(folder string) krew.Files {
	GinkgoHelper()
	out := krew.Files{License: filepath.Join(folder, "l"), Completion: filepath.Join(folder, "c")}
	Expect(os.WriteFile(out.License, []byte("licence"), 0o600)).To(Succeed())
	Expect(os.WriteFile(out.Completion, []byte("script"), 0o600)).To(Succeed())
	return out
}

// unpack returns contents and modes of the files in an archive by their names.
func unpack(data []byte) map[string]string {
	GinkgoHelper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	Expect(err).NotTo(HaveOccurred())
	reader, found := tar.NewReader(unzipped), map[string]string{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
		found[header.Name] = string(content) + " " + header.FileInfo().Mode().Perm().String()
	}
}

var _ = Describe("Pack", func() {
	It("should pack the executable and the licence, the same way each time", func() {
		folder := GinkgoT().TempDir()
		binary, files := filepath.Join(folder, "b"), filesIn(folder)
		Expect(os.WriteFile(binary, []byte("executable"), 0o600)).To(Succeed())
		platform := krew.Platform{OS: "windows", Arch: "amd64"}
		sum, err := krew.Pack(platform, binary, files, folder)
		Expect(err).NotTo(HaveOccurred())
		data, err := os.ReadFile(filepath.Join(folder, "kubectl-livecpm_windows_amd64.tar.gz"))
		Expect(err).NotTo(HaveOccurred())
		actual := sha256.Sum256(data)
		Expect(sum).To(Equal(hex.EncodeToString(actual[:])))

		later := time.Now().Add(time.Hour)
		Expect(os.Chtimes(binary, later, later)).To(Succeed())
		Expect(krew.Pack(platform, binary, files, folder)).To(Equal(sum))
		Expect(unpack(data)).To(Equal(map[string]string{"kubectl-livecpm.exe": "executable -rwxr-xr-x",
			"LICENSE": "licence -rw-r--r--"}))
	})

	It("should pack the script for completion where a shell runs it", func() {
		folder := GinkgoT().TempDir()
		binary := filepath.Join(folder, "b")
		Expect(os.WriteFile(binary, []byte("executable"), 0o600)).To(Succeed())
		platform := krew.Platform{OS: "linux", Arch: "amd64"}
		_, err := krew.Pack(platform, binary, filesIn(folder), folder)
		Expect(err).NotTo(HaveOccurred())
		data, err := os.ReadFile(filepath.Join(folder, platform.Archive()))
		Expect(err).NotTo(HaveOccurred())
		Expect(unpack(data)).To(HaveKeyWithValue("kubectl_complete-livecpm", "script -rwxr-xr-x"))
	})

	It("should find the files in the repository", func() {
		files := krew.FilesOf(filepath.Join("..", ".."))
		Expect(files.License).To(BeARegularFile())
		Expect(os.ReadFile(files.Completion)).To(ContainSubstring("kubectl livecpm __complete"))
	})

	It("should say what it could not read", func() {
		_, err := krew.Pack(krew.Platforms[0], "/does/not/exist", krew.Files{}, GinkgoT().TempDir())
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

var _ = Describe("Build", func() {
	It("should pack every platform and write a manifest that fits", func() {
		folder := GinkgoT().TempDir()
		out := filepath.Join(folder, "out")
		written, err := krew.Build("v0.1.0", filesIn(folder), out, func(platform krew.Platform, binary string) error {
			return os.WriteFile(binary, []byte(platform.OS+platform.Arch), 0o600)
		})
		Expect(err).NotTo(HaveOccurred())
		var expected []string
		for _, platform := range krew.Platforms {
			expected = append(expected, platform.Archive())
		}
		Expect(written).To(Equal(append(expected, "livecpm.yaml")))
		entries, err := os.ReadDir(out)
		Expect(err).NotTo(HaveOccurred())
		Expect(entries).To(HaveLen(len(written)))

		manifest, err := os.ReadFile(filepath.Join(out, "livecpm.yaml"))
		Expect(err).NotTo(HaveOccurred())
		for _, platform := range krew.Platforms {
			data, err := os.ReadFile(filepath.Join(out, platform.Archive()))
			Expect(err).NotTo(HaveOccurred())
			sum := sha256.Sum256(data)
			Expect(string(manifest)).To(ContainSubstring(hex.EncodeToString(sum[:])))
		}
	})

	It("should compile nothing for a version that krew refuses, and end with what does not compile", func() {
		_, err := krew.Build("main", krew.Files{}, GinkgoT().TempDir(), func(krew.Platform, string) error {
			Fail("compiled")
			return nil
		})
		Expect(err).To(MatchError(ContainSubstring("semantic versions")))
		broken := errors.New("broken")
		_, err = krew.Build("v0.1.0", krew.Files{},
			GinkgoT().TempDir(), func(krew.Platform, string) error { return broken })
		Expect(err).To(MatchError(broken))
	})
})

var _ = Describe("Manifest", func() {
	sums := func() map[krew.Platform]string {
		out := map[krew.Platform]string{}
		for _, platform := range krew.Platforms {
			out[platform] = "sum-of-" + platform.OS + "-" + platform.Arch
		}
		return out
	}

	It("should name each archive with its checksum", func() {
		data, err := krew.Manifest("v0.1.0", sums())
		Expect(err).NotTo(HaveOccurred())
		var manifest struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			Spec             struct {
				Version, ShortDescription string
				Platforms                 []struct {
					Selector struct{ MatchLabels map[string]string }
					URI      string
					SHA256   string
					Bin      string
				}
			}
		}
		Expect(yaml.Unmarshal(data, &manifest)).To(Succeed())
		Expect(manifest).To(And(HaveField("Kind", "Plugin"), HaveField("Metadata.Name", "livecpm"),
			HaveField("Spec.Version", "v0.1.0")))
		// The index of krew does not take longer ones.
		Expect(len(manifest.Spec.ShortDescription)).To(BeNumerically("<=", 50))
		Expect(manifest.Spec.Platforms).To(HaveLen(len(krew.Platforms)))
		for i, platform := range krew.Platforms {
			actual := manifest.Spec.Platforms[i]
			Expect(actual.Selector.MatchLabels).To(Equal(map[string]string{"os": platform.OS, "arch": platform.Arch}))
			Expect(actual.URI).To(HaveSuffix("/v0.1.0/" + platform.Archive()))
			Expect(actual.SHA256).To(Equal("sum-of-" + platform.OS + "-" + platform.Arch))
			Expect(actual.Bin).To(Equal(platform.Binary()))
		}
	})

	It("should refuse a version that krew does not take, and a platform without an archive", func() {
		for _, version := range []string{"", "0.1.0", "v1", "main"} {
			_, err := krew.Manifest(version, sums())
			Expect(err).To(MatchError(ContainSubstring("semantic versions")), version)
		}
		incomplete := sums()
		delete(incomplete, krew.Platforms[0])
		_, err := krew.Manifest("v0.1.0", incomplete)
		Expect(err).To(MatchError("there is no archive for linux/amd64"))
	})
})
