// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

var _ = Describe("ParseDestination", func() {
	It("should read the destinations of Gardener's clients", func() {
		Expect(gateway.ParseDestination("outbound|1194||vpn-seed-server.shoot--foo--bar.svc.cluster.local")).
			To(Equal(gateway.Target{Namespace: "shoot--foo--bar", Service: "vpn-seed-server", Port: 1194}))
	})

	DescribeTable("should refuse", func(value string) {
		_, err := gateway.ParseDestination(value)
		Expect(err).To(HaveOccurred())
	},
		Entry("nothing", ""),
		Entry("another direction", "inbound|1194||a.b.svc.cluster.local"),
		Entry("a subset", "outbound|1194|v1|a.b.svc.cluster.local"),
		Entry("no port", "outbound|||a.b.svc.cluster.local"),
		Entry("a port out of range", "outbound|70000||a.b.svc.cluster.local"),
		Entry("a host elsewhere", "outbound|443||www.example.com"),
		Entry("no namespace", "outbound|443||a.svc.cluster.local"),
		Entry("too many labels", "outbound|443||a.b.c.svc.cluster.local"),
	)
})
