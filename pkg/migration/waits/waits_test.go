// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package waits_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

var _ = Describe("Wait", func() {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	told := func(reason steps.Reason, message string) waits.Wait {
		GinkgoHelper()
		wait, ok := waits.Told(string(reason), message)
		Expect(ok).To(BeTrue())
		return wait
	}

	DescribeTable("should be a sentence that can be read again",
		func(wait waits.Wait, reason steps.Reason, expected string) {
			Expect(wait.String()).To(Equal(expected))
			Expect(told(reason, wait.String())).To(Equal(wait))
			Expect(told(steps.ReasonDeadlineExceeded, string(reason)+": "+wait.String()+". The step takes longer "+
				"than its deadline of 30m0s.")).To(Equal(wait), "past its deadline")
			for _, other := range []steps.Reason{steps.ReasonStarted, steps.ReasonRollingEtcd} {
				_, ok := waits.Told(string(other), wait.String())
				Expect(ok).To(BeFalse(), "of another reason")
			}
			for _, other := range []string{"", "Waiting until all name servers lead to 10.0.0.2", wait.String()[5:],
				"Something else takes until 2026-11-26T12:00:00Z"} {
				_, ok := waits.Told(string(reason), other)
				Expect(ok).To(BeFalse(), "about something else: "+other)
			}
		},
		Entry("for caches", waits.ForCaches(now, 2*time.Minute, 30*time.Second), steps.ReasonWaitingForDNS,
			"Caches may name the source until 2026-11-26T12:02:30Z (TTL 2m0s and a margin of 30s)"),
		Entry("for caches that keep nothing", waits.ForCaches(now, 0, 30*time.Second), steps.ReasonWaitingForDNS,
			"Caches may name the source until 2026-11-26T12:00:30Z (TTL 0s and a margin of 30s)"),
		Entry("for clients that were told", waits.Since(now, 70*time.Second, waits.Drain), steps.ReasonDrainingClients,
			"Clients that have kept a connection to the source may leave it until 2026-11-26T12:01:10Z (1m10s in all)"),
		Entry("for clients that cannot be told", waits.Since(now, time.Minute, waits.Clients),
			steps.ReasonWaitingForClientsToLeave, "Requests on connections to the source's kube-apiserver may finish "+
				"until 2026-11-26T12:01:00Z (1m0s in all)"),
		Entry("for clients of a gateway that is closed", waits.Since(now, time.Minute, waits.Gateway),
			steps.ReasonSourceControllersStopped, "The ingress gateway takes no new connections; requests on kept "+
				"ones may finish until 2026-11-26T12:01:00Z (1m0s in all)"),
	)

	It("should understand an agent that does not say how long it waits as a whole", func() {
		wait, ok := waits.Told(string(steps.ReasonDrainingClients),
			"Clients that have kept a connection to the source may leave it until 2026-11-26T12:01:10Z")
		Expect(ok).To(BeTrue())
		Expect(wait.Until).To(Equal(now.Add(70 * time.Second)))
		Expect(wait.Total).To(BeZero())
		Expect(wait.Passed(now)).To(BeZero())
	})

	It("should count down, and not below nothing", func() {
		wait := waits.Since(now, time.Minute, waits.Drain)
		Expect(wait.Left(now.Add(37 * time.Second))).To(Equal(23 * time.Second))
		Expect(wait.Passed(now.Add(37 * time.Second))).To(Equal(37 * time.Second))
		Expect(wait.Left(now.Add(time.Hour))).To(BeZero())
		Expect(wait.Passed(now.Add(time.Hour))).To(Equal(time.Minute))
	})
})
