// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"os"
	"path/filepath"
	"runtime/debug"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/release"
)

var _ = Describe("Version", func() {
	DescribeTable("should name the commit of a program that is of no release",
		func(expected string, settings ...debug.BuildSetting) {
			Expect(release.Of(&debug.BuildInfo{Settings: settings})).To(Equal(expected))
		},
		Entry("unknown", "devel"),
		Entry("clean", "devel-0123456789ab", debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"},
			debug.BuildSetting{Key: "vcs.modified", Value: "false"}),
		Entry("changed", "devel-0123456789ab-dirty", debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"},
			debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	)

	It("should not fail without any information", func() {
		Expect(release.Of(nil)).To(Equal("devel"))
		Expect(release.Version()).NotTo(BeEmpty())
	})

	It("should be stamped by everything that builds programs to be shipped", func() {
		const stamp = "-X github.com/livecpm/livecpm/pkg/release.version="
		for _, file := range []string{"Makefile", "hack/images/images.go"} {
			content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content)).To(ContainSubstring(stamp), file)
		}
	})
})
