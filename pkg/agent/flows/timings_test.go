// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration/expected"
)

var _ = Describe("Timings", func() {
	It("should wait as those expect who know nothing of the configuration", func() {
		Expect(flows.DefaultTimings().Waits()).To(Equal(expected.DefaultWaits()))
	})
})
