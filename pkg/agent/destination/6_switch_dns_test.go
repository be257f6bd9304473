// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

// alias is a zone in which the API server's name is an alias to a load balancer: asked for addresses, its name servers
// answer with those of the load balancer; they have no CNAME. The second one is silent for the first questions.
type alias struct {
	lock   sync.Mutex
	silent int
}

func (a *alias) Ask(_ context.Context, _, recordType string) ([]dns.Answer, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	answers := []dns.Answer{{Server: "ns1", TTL: 90 * time.Second}, {Server: "ns2", TTL: 90 * time.Second}}
	for i := range answers {
		if recordType == "A" {
			answers[i].Values = []string{"10.0.1.1"}
		}
	}
	if a.silent > 0 {
		a.silent--
		answers[1] = dns.Answer{Server: "ns2", Err: errors.New("failed to ask name server ns2")}
	}
	return answers, nil
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
		// A look asks for three types of records, of the name and then of the load balancer.
		Expect(destination.RecordWait{Servers: &alias{silent: 12}, Name: "api.shoot.example.org",
			Address: "after.elb.example.net",
			Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: patience.Eventually,
				NameServerPatience: time.Hour},
		}.Wait(ctx, m)).To(Succeed())
		waiting := "Waiting until all name servers lead to after.elb.example.net"
		silent := waiting + ": failed to ask name server ns2 (waiting for it for at most 1h0m0s)"
		Expect(messages).To(Equal([]string{waiting, silent, silent}))
	})

	It("should wait for one silent server with a bound, also for its TTL", func() {
		m := newMigration()
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
		wait := destination.RecordWait{Garden: garden, Servers: &alias{silent: 1 << 30}, Name: "api.shoot.example.org",
			Address: "10.0.1.1",
			Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: patience.Eventually,
				NameServerPatience: time.Second},
		}
		clock := testclock.NewFakeClock(time.Now())
		m.Clock = clock
		m.Report = func(context.Context, steps.Reason, string) error {
			clock.Step(400 * time.Millisecond)
			return nil
		}
		Expect(wait.Wait(ctx, m)).To(Succeed())
		Expect(wait.FormerTTL(ctx, m)).To(Equal(90 * time.Second))
	})

	It("should not wait forever, and say for what", func() {
		m := newMigration()
		m.Report = func(context.Context, steps.Reason, string) error { return nil }
		Expect(destination.RecordWait{Servers: &alias{}, Name: "api.shoot.example.org",
			Address: "10.0.1.2",
			Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: 50 * time.Millisecond},
		}.Wait(ctx, m)).To(MatchError(ContainSubstring(
			"DNS record api.shoot.example.org has not moved yet: name server ns1 answers [10.0.1.1] instead of")))
	})
})
