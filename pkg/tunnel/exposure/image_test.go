// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("Image", func() {
	const configured = "livecpm.local/livecpm-relay:v1"

	DescribeTable("should be the configured one unless Gardener's image vector says otherwise",
		func(overwrite, expected string) {
			file := ""
			if overwrite != "" {
				file = filepath.Join(GinkgoT().TempDir(), "images_overwrite.yaml")
				Expect(os.WriteFile(file, []byte(overwrite), 0o600)).To(Succeed())
			}
			GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", file)
			Expect(Image(configured)).To(Equal(expected))
		},
		Entry("without an overwrite", "", configured),
		Entry("with an overwrite of other images", "images: [{name: etcd-druid, ref: 'registry.example/druid:v1'}]",
			configured),
		Entry("with an empty one", "images: []", configured),
		Entry("with a reference", "images: [{name: livecpm-relay, ref: 'registry.example/livecpm-relay@sha256:"+
			"0123456789012345678901234567890123456789012345678901234567890123'}]",
			"registry.example/livecpm-relay@sha256:0123456789012345678901234567890123456789012345678901234567890123"),
		Entry("with repository and tag",
			"images: [{name: livecpm-relay, repository: registry.example/livecpm-relay, tag: v2}]",
			"registry.example/livecpm-relay:v2"),
	)

	It("should name what it cannot read", func() {
		file := filepath.Join(GinkgoT().TempDir(), "missing.yaml")
		GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", file)
		_, err := Image(configured)
		Expect(err).To(MatchError(And(ContainSubstring("IMAGEVECTOR_OVERWRITE"), ContainSubstring("missing.yaml"))))
	})
})
