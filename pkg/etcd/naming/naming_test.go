// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package naming_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Naming", func() {
	It("should give a member of the two seeds the same host, and peer URLs that differ", func() {
		source := naming.PeerURL(steps.Source, "shoot--p--s", "main", 1)
		destination := naming.PeerURL(steps.Destination, "shoot--p--s", "main", 1)
		Expect(source).To(Equal("https://etcd-main-1.etcd-main-peer.shoot--p--s.svc:2380"))
		Expect(destination).To(Equal("https://etcd-main-1.etcd-main-peer.shoot--p--s.svc:2381"))
	})

	It("should give an only member no TLS between peers", func() {
		Expect(naming.PlainPeerURL(steps.Source, "ns", "main")).
			To(Equal("http://etcd-main-0.etcd-main-peer.ns.svc:2380"))
		Expect(naming.PlainPeerURL(steps.Destination, "ns", "events")).
			To(Equal("http://etcd-events-0.etcd-events-peer.ns.svc:2381"))
	})

	It("should give a member of the two seeds names that differ", func() {
		Expect(naming.MemberName("seed-a", "events", 2)).To(Equal("seed-a-etcd-events-2"))
		Expect(naming.MemberName("seed-b", "events", 2)).To(Equal("seed-b-etcd-events-2"))
	})

	It("should give a member of an Etcd without a prefix the name of its pod", func() {
		Expect(naming.MemberName("", "main", 0)).To(Equal("etcd-main-0"))
	})

	DescribeTable("OrdinalOf", func(name, prefix, etcdRole string, expected int) {
		ordinal, ok := naming.OrdinalOf(name, prefix, etcdRole)
		Expect(ok).To(Equal(expected >= 0))
		Expect(ordinal).To(Equal(expected))
	},
		Entry("with the prefix", "seed-a-etcd-main-2", "seed-a", "main", 2),
		Entry("without any", "etcd-main-2", "", "main", 2),
		Entry("without the prefix that it should have", "etcd-main-2", "seed-a", "main", -1),
		Entry("with a prefix that it should not have", "seed-a-etcd-main-2", "", "main", -1),
		Entry("with another prefix", "seed-b-etcd-main-2", "seed-a", "main", -1),
		Entry("of the other etcd", "etcd-events-0", "", "main", -1),
		Entry("of a fourth member", "etcd-main-3", "", "main", -1),
		Entry("with a number in other digits", "etcd-main-01", "", "main", -1),
		Entry("with a sign", "etcd-main-+1", "", "main", -1),
		Entry("with something behind the number", "etcd-main-1-0", "", "main", -1),
		Entry("with two prefixes", "seed-a-seed-a-etcd-main-1", "seed-a", "main", -1),
		Entry("that has not started", "", "", "main", -1),
	)

	It("should know how many members the etcds of a shoot have", func() {
		shoot := &gardencorev1beta1.Shoot{}
		Expect(naming.MembersOf(shoot)).To(Equal(3))
		shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
		Expect(naming.MembersOf(shoot)).To(Equal(1))
	})

	It("should name the services", func() {
		Expect(naming.ClientHost("ns", "main")).To(Equal("etcd-main-client.ns.svc"))
		Expect(naming.MemberHost("ns", "main", 0)).To(Equal("etcd-main-0.etcd-main-peer.ns.svc"))
	})

	It("should lead to the other seed through the relay", func() {
		Expect(naming.RelayClientAddress("ns")).To(Equal("livecpm-relay.ns.svc:22379"))
		Expect(naming.SourceClientEndpoint("ns", "main")).
			To(Equal("https://source-client.etcd-main-peer.ns.svc:22379"))
	})
})
