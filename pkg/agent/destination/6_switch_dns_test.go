// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/dns"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

// alias is a zone in which the API server's name is an alias to a load balancer: asked for addresses, its name server
// answers with those of the load balancer; it has no CNAME. It is silent for the first questions.
type alias struct{ silent int }

func (a *alias) Ask(_ context.Context, _, recordType string) ([]dns.Answer, error) {
	if a.silent > 0 {
		a.silent--
		return nil, errors.New("failed to ask name server ns2")
	}
	answer := dns.Answer{Server: "ns1"}
	if recordType == "A" {
		answer.Values = []string{"10.0.1.1"}
	}
	return []dns.Answer{answer}, nil
}

var _ = Describe("Waiting for the name servers", func() {
	It("should say which server is silent, and accept addresses in place of a CNAME", func() {
		var messages []string
		m := newMigration()
		m.Report = func(_ context.Context, reason steps.Reason, message string) error {
			Expect(reason).To(Equal(steps.ReasonWaitingForDNS))
			messages = append(messages, message)
			return nil
		}
		Expect(destination.RecordWait{Servers: &alias{silent: 2}, Name: "api.shoot.example.org",
			Address: "after.elb.example.net",
			Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: patience.Eventually},
		}.Wait(ctx, m)).To(Succeed())
		waiting := "Waiting until all name servers lead to after.elb.example.net"
		Expect(messages).To(Equal([]string{waiting, waiting + ": failed to ask name server ns2",
			waiting + ": failed to ask name server ns2"}))
	})

	It("should not wait forever, and say for what", func() {
		m := newMigration()
		m.Report = func(context.Context, steps.Reason, string) error { return nil }
		Expect(destination.RecordWait{Servers: &alias{silent: 1 << 30}, Name: "api.shoot.example.org",
			Address: "10.0.1.1",
			Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: 50 * time.Millisecond},
		}.Wait(ctx, m)).To(MatchError(ContainSubstring(
			"DNS record api.shoot.example.org has not moved yet: failed to ask name server ns2")))
	})
})
