// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

var _ = DescribeTable(
	"Bearable", func(first string, firstAt fault.Moment, second string, secondAt fault.Moment, problem string) {
		f, ok := fault.Get(first)
		Expect(ok).To(BeTrue())
		g, ok := fault.Get(second)
		Expect(ok).To(BeTrue())
		reason, bearable := fault.Bearable(f, g, firstAt, secondAt)
		Expect(reason).To(Equal(problem))
		Expect(bearable).To(Equal(problem == ""))
	},
	Entry("two momentary ones", "agent-kill-both", fault.Boundary, "relay-kill-source", fault.Boundary, ""),
	Entry("a momentary one and one that lasts", "agent-kill-both", fault.Boundary, "cut-60s", fault.Boundary, ""),
	Entry("a momentary one before one that lasts", "etcd-kill-source", fault.Boundary, "garden-stop-60s", fault.Inside,
		""),
	Entry("one that keeps a moment from being seen", "garden-stop-60s", fault.Boundary, "agent-kill-source",
		fault.Inside, "the first one hides the moment of the second"),
	Entry("one that keeps a reason from being seen", "garden-etcd-stop-60s", fault.Boundary, "agent-kill-source",
		fault.Moment("WaitingForDNS"), "the first one hides the moment of the second"),
	Entry("an alarm that has to be raised during resets", "reset-5s", fault.Boundary, "quota-full-30s", fault.Inside,
		"one of them needs the quorum that the other one may take"),
	Entry("one that lasts before another", "cut-60s", fault.Boundary, "agent-kill-source", fault.Inside, ""),
	Entry("one that lasts before another one that does", "rtt-50ms", fault.Boundary, "garden-stop-60s", fault.Inside,
		""),
	Entry("two of a kind", "relay-kill-source", fault.Boundary, "relay-kill-destination", fault.Inside,
		"they are of one kind"),
	Entry("two that keep the step waiting", "version-skew-source", fault.Inside, "garden-stop-60s", fault.Inside,
		"both keep the step waiting"),
	Entry("two that last, of which neither keeps the step waiting", "cut-60s", fault.Boundary, "rtt-50ms",
		fault.Boundary, ""),
	Entry("a full quota at a distance", "rtt-180ms", fault.Boundary, "quota-full-30s", fault.Inside, ""),
	Entry("a member less at a distance", "etcd-kill-source", fault.Inside, "rtt-180ms", fault.Inside, ""),
	Entry("an alarm that has to be raised during a cut", "cut-60s", fault.Boundary, "quota-full-30s", fault.Inside,
		"one of them needs the quorum that the other one may take"),
	Entry("an alarm that has to be disarmed during a cut", "quota-full-30s", fault.Boundary, "cut-60s", fault.Boundary,
		"one of them needs the quorum that the other one may take"),
	Entry("one that keeps the step from beginning", "agent-kill-source", fault.Boundary, "version-skew-source",
		fault.Boundary,
		"one of them keeps the step from beginning, in whose beginning the other one is to strike"),
	Entry("one that keeps the step from beginning before one inside it", "version-skew-source", fault.Boundary,
		"rtt-50ms", fault.Inside, ""),
	Entry("one that keeps the step waiting, and one for which that is too long", "garden-stop-60s", fault.Boundary,
		"cut-5s", fault.Boundary,
		"one of them is over while the other one keeps the step waiting"),
	Entry("one that keeps the step waiting, and one that outlasts that", "rtt-50ms", fault.Inside,
		"version-skew-source", fault.Inside, ""),
	Entry("one that ends the other", "version-skew-source", fault.Boundary, "gardenlet-restart-source", fault.Boundary,
		"a gardenlet that starts reports its true version"),
	Entry("a container that is killed, and is to stand still", "agent-kill-both", fault.Boundary, "agent-stop-source",
		fault.Boundary, "both hit the agent"),
	Entry("a container that stands still, and is killed later in the step", "relay-stop-destination",
		fault.Moment("DrainingClients"), "relay-kill-source", fault.Inside, "both hit the relay"),
	Entry("a gateway", "gateway-stop-source", fault.Boundary, "gateway-kill-source", fault.Inside,
		"both hit the gateway"),
	Entry("a kube-apiserver", "apiserver-stop-source", fault.Boundary, "apiserver-delete-source", fault.Inside,
		"both hit the kube-apiserver"),
	Entry("one inside that may keep a reason from being seen", "agent-kill-source", fault.Moment("WaitingForDNS"),
		"garden-stop-60s", fault.Inside, "the second one may hide the moment of the first"),
	Entry("one at a reason that may keep the midst from being seen", "garden-stop-60s",
		fault.Moment("WaitingForDNS"), "agent-kill-source", fault.Inside,
		"the first one hides the moment of the second"),
	Entry("two that weaken etcd", "etcd-kill-source", fault.Boundary, "cut-5s", fault.Inside, "both weaken etcd"),
	Entry("a cut that comes back, and another one", "cut-again-3s", fault.Boundary, "reset-5s", fault.Inside,
		"both weaken etcd"),
)

var _ = DescribeTable("Long", func(name string, expected bool) {
	f, ok := fault.Get(name)
	Expect(ok).To(BeTrue())
	Expect(fault.Long(f)).To(Equal(expected))
},
	Entry("ten minutes", "cut-10m", true),
	Entry("a minute", "cut-60s", false),
	Entry("as long as the step", "rtt-180ms", false),
	Entry("a moment", "relay-kill-source", false),
)
