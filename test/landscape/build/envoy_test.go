// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/images/tarball"
	. "github.com/livecpm/livecpm/test/landscape/build"
)

var _ = Describe("EnvoyFiles", func() {
	It("should be the program and what it is linked with, each at its path", func() {
		dir := GinkgoT().TempDir()
		for _, name := range []string{"envoy", "libraries/lib64/loader.so.2", "libraries/lib/machine/libc.so.6"} {
			file := filepath.Join(dir, name)
			Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
			Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		}
		Expect(EnvoyFiles(dir, "/usr/local/bin/envoy")).To(ConsistOf(
			tarball.File{Path: "/usr/local/bin/envoy", Source: filepath.Join(dir, "envoy")},
			tarball.File{Path: "/lib64/loader.so.2", Source: filepath.Join(dir, "libraries/lib64/loader.so.2")},
			tarball.File{Path: "/lib/machine/libc.so.6",
				Source: filepath.Join(dir, "libraries/lib/machine/libc.so.6")},
		))
	})

	It("should refuse a program without its libraries, which would not start", func() {
		dir := GinkgoT().TempDir()
		_, err := EnvoyFiles(dir, "/envoy")
		Expect(err).To(MatchError(ContainSubstring("libraries")))
		Expect(os.Mkdir(filepath.Join(dir, "libraries"), 0o755)).To(Succeed())
		_, err = EnvoyFiles(dir, "/envoy")
		Expect(err).To(MatchError(ContainSubstring("there are none")))
	})
})
