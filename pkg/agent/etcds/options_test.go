// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package etcds_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/etcds"
)

var _ = Describe("New", func() {
	It("should name what is missing", func() {
		_, err := etcds.New(etcds.Options{SeedName: "seed-a"})
		Expect(err).To(MatchError("failed to set up the access to etcd: these options are missing: " +
			"SeedClient, SeedPods, Clock"))
	})
})
