// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// zone is a zone with two name servers, which publish the API server's name with a TTL each. The second one may be a
// cache, or silent.
type zone struct {
	first, second time.Duration
	cache, silent bool
}

func (z *zone) Ask(_ context.Context, _, recordType string) ([]dns.Answer, error) {
	answers := []dns.Answer{
		{Server: "ns1", TTL: z.first, Authoritative: true},
		{Server: "ns2", TTL: z.second, Authoritative: !z.cache},
	}
	for i := range answers {
		if recordType != "A" {
			answers[i].TTL = 0
			continue
		}
		answers[i].Values = []string{"10.0.0.1"}
	}
	if z.silent {
		answers[1] = dns.Answer{Server: "ns2", Err: errors.New("failed to ask name server ns2")}
	}
	return answers, nil
}

var _ = Describe("The TTL with which caches keep the address of the source", func() {
	const configured = 2 * time.Minute
	var (
		servers *zone
		deps    *destination.Deps
		m       *migration.Migration
		clock   *testclock.FakeClock
		ttl     destination.TTL
		// seedOf returns the Seed of a source whose gardenlet gives its records the TTL.
		seedOf = func(ttl time.Duration) *gardencorev1beta1.Seed {
			value, err := seedfacts.Encode(seedfacts.Agent{Waits: &seedfacts.Waits{
				RecordTTL: metav1.Duration{Duration: ttl},
			}})
			Expect(err).NotTo(HaveOccurred())
			return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: m.SourceSeed,
				Annotations: map[string]string{seedfacts.AnnotationAgent: value}}}
		}
		setUp = func(garden ...client.Object) {
			deps = newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(garden...).
				Build()
			deps.Timings.PollInterval = time.Millisecond
			ttl = destination.TTL{Deps: deps, Servers: servers, Name: "api.shoot.example.org", Config: configured}
		}
		remembered = func() *corev1.Namespace {
			ns := &corev1.Namespace{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Name: namespace}, ns)).To(Succeed())
			return ns
		}
		cachedFor = func() time.Duration {
			GinkgoHelper()
			out, err := ttl.CachedFor(ctx, m, remembered())
			Expect(err).NotTo(HaveOccurred())
			return out
		}
	)

	BeforeEach(func() {
		servers = &zone{first: 30 * time.Second, second: 30 * time.Second}
		m = newMigration()
		clock = testclock.NewFakeClock(now)
		m.Clock = clock
		m.Report = func(context.Context, steps.Reason, string) error { return nil }
		setUp(seedOf(configured))
	})

	It("should be the former one as long as nobody has seen a shorter one", func() {
		Expect(cachedFor()).To(Equal(configured), "shortened, but nobody knows since when")
	})

	It("should be that of the source's gardenlet if that gives its records more", func() {
		setUp(seedOf(5 * time.Minute))
		Expect(cachedFor()).To(Equal(5 * time.Minute))
	})

	It("should run out from when all name servers were first seen to publish a shorter one", func() {
		Expect(ttl.Look(ctx, m)).To(Succeed())
		clock.Step(40 * time.Second)
		Expect(ttl.Look(ctx, m)).To(Succeed(), "it is remembered")
		Expect(cachedFor()).To(Equal(81*time.Second), "what caches have taken before")
		clock.Step(10 * time.Minute)
		Expect(cachedFor()).To(Equal(30*time.Second), "what they take now")
	})

	It("should not run out by a clock that was set back", func() {
		Expect(ttl.Look(ctx, m)).To(Succeed())
		clock.SetTime(now.Add(-time.Hour))
		Expect(cachedFor()).To(Equal(configured))
	})

	DescribeTable("is not seen to be shorter",
		func(change func(*zone), problem string) {
			change(servers)
			Expect(ttl.Look(ctx, m)).To(MatchError(ContainSubstring(problem)))
			Expect(remembered().Annotations).NotTo(HaveKey(destination.AnnotationShortTTL))
		},
		Entry("while one name server publishes the former one",
			func(z *zone) { z.second = configured }, "they publish 2m0s, and had 2m0s"),
		Entry("while one is silent", func(z *zone) { z.silent = true }, "failed to ask name server ns2"),
		Entry("where one only has it in its cache",
			func(z *zone) { z.cache = true }, "name server ns2 is not responsible for the name"),
	)

	DescribeTable("is the former one again if a name server",
		func(change func(*zone)) {
			Expect(ttl.Look(ctx, m)).To(Succeed())
			clock.Step(10 * time.Minute)
			change(servers)
			Expect(cachedFor()).To(Equal(configured))
		},
		Entry("publishes it again", func(z *zone) { z.first = configured }),
		Entry("turns out to be a cache", func(z *zone) { z.cache = true }),
	)

	It("should not be guessed where the agent of the source tells nothing", func() {
		seed := seedOf(configured)
		seed.Annotations = nil
		setUp(seed)
		_, err := ttl.CachedFor(ctx, m, remembered())
		Expect(err).To(MatchError(ContainSubstring("Seed seed-a has no annotation " + seedfacts.AnnotationAgent)))
	})

	It("should be known without the Seed of a source that was lost and removed", func() {
		setUp()
		Expect(cachedFor()).To(Equal(configured))
	})
})
