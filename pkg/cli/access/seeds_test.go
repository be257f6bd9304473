// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("OpenSeeds", func() {
	DescribeTable("should refuse what is no name and path", func(flag string) {
		_, err := access.OpenSeeds([]string{flag})
		Expect(err).To(MatchError(ContainSubstring("as in seed-a=/path")))
	},
		Entry("no path", "seed-a"),
		Entry("empty path", "seed-a="),
		Entry("no name", "=/path"),
	)

	It("should say whose kubeconfig it could not read", func() {
		_, err := access.OpenSeeds([]string{"seed-a=/does/not/exist"})
		Expect(err).To(MatchError(ContainSubstring("failed to read the kubeconfig of seed seed-a")))
	})
})
