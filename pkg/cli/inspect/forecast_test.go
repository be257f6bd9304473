// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

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
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("Forecast", func() {
	var (
		ctx      = context.Background()
		clock    *testclock.FakePassiveClock
		shoot    *gardencorev1beta1.Shoot
		reads    int
		refused  bool
		forecast *inspect.Forecast
	)
	const move = 5
	answer := func(ttl time.Duration) answering {
		return answering{"api.live.example.org": {{Server: "ns1", TTL: ttl, Values: []string{"10.0.0.1"}}}}
	}

	BeforeEach(func() {
		clock = testclock.NewFakePassiveClock(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
		reads, refused = 0, false
		shoot = newShoot()
		shoot.UID = "1"
		shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		shoot.Spec.SeedName = new("seed-b")
		shoot.Status.AdvertisedAddresses = []gardencorev1beta1.ShootAdvertisedAddress{
			{Name: "external", URL: "https://api.live.example.org"}}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clock, nil)}

		past := history.History{Records: []history.Record{{UID: "1", Source: "seed-a", Destination: "seed-b",
			Result: history.Succeeded, Steps: []history.Step{{Condition: steps.First().String(), Seconds: 77}}}}}
		past.Kind = "LiveMigrationHistory"
		content, err := past.Encode()
		Expect(err).NotTo(HaveOccurred())
		agent, err := seedfacts.Encode(seedfacts.Agent{Waits: &seedfacts.Waits{
			DNSMargin: metav1.Duration{Duration: 10 * time.Second},
			Drain:     metav1.Duration{Duration: 20 * time.Second}}})
		Expect(err).NotTo(HaveOccurred())
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b",
				Annotations: map[string]string{seedfacts.AnnotationAgent: agent}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: history.ConfigMapName},
				Data: map[string]string{history.Key: content}},
		).WithInterceptorFuncs(calls.Before(func(calls.Call) error {
			if reads++; refused {
				return errors.New("not permitted")
			}
			return nil
		})).Build()
		forecast = &inspect.Forecast{Garden: &access.Garden{Client: c}, Clock: clock,
			NameServers: answer(40 * time.Second)}
	})

	It("should know history, waits and TTL, and read the garden from time to time only", func() {
		e := forecast.Of(ctx, shoot, nil)
		Expect(e.Steps[0]).To(And(HaveField("Seconds", 77.0), HaveField("Basis", summary.BasisShoot)))
		Expect(e.Steps[move].WaitSeconds).To(Equal(40.0 + 10 + 20))
		seen := reads
		forecast.NameServers = answer(time.Hour)
		Expect(forecast.Of(ctx, shoot, nil)).To(Equal(e), "name servers are asked once")
		Expect(reads).To(Equal(seen))
		clock.SetTime(clock.Now().Add(10 * time.Minute))
		forecast.Of(ctx, shoot, nil)
		Expect(reads).To(BeNumerically(">", seen))
	})

	It("should count the size of the database that was seen", func() {
		before := forecast.Of(ctx, shoot, nil).Seconds
		seeds := []summary.Seed{{Etcds: []summary.Etcd{{Members: []summary.Member{{Name: "a"},
			{Name: "b", DBSize: new(int64(4 << 30))}, {Name: "c", DBSize: new(int64(1))}}}}}}
		Expect(inspect.LargestDatabase(seeds)).To(BeEquivalentTo(4 << 30))
		Expect(forecast.Of(ctx, shoot, seeds).Seconds).To(BeNumerically(">", before+60))
	})

	It("should do without what may not be read, and without name servers", func() {
		refused, forecast.NameServers = true, nil
		e := forecast.Of(ctx, shoot, nil)
		Expect(e.Basis).To(Equal(summary.BasisBenchmark))
		Expect(e.Seconds).To(Equal((expected.Facts{}).Plan().Seconds))
	})

	It("should not ask name servers once DNS may lead to the destination", func() {
		all := steps.Conditions(shoot)
		for i, step := range steps.Table()[:move+1] {
			status := gardencorev1beta1.ConditionTrue
			if i == move {
				status = gardencorev1beta1.ConditionProgressing
			}
			var err error
			all, err = conditions.Apply(clock, all, conditions.Change{Step: step, Role: step.Owner, Status: status,
				Reason: steps.ReasonStarted})
			Expect(err).NotTo(HaveOccurred())
		}
		shoot.Status.LiveMigration.Conditions = all
		Expect(forecast.Of(ctx, shoot, nil).Steps[move].WaitSeconds).To(Equal(120.0+10+20), "the default TTL")
	})

	It("should expect nothing where nothing is under way", func() {
		shoot.Annotations, shoot.Status.SeedName = nil, shoot.Spec.SeedName
		Expect(forecast.Of(ctx, shoot, nil)).To(BeNil())
		Expect(reads).To(BeZero())
	})
})

var _ = Describe("Plan with a past", func() {
	It("should expect what past migrations took, with the waits of this one", func() {
		in := fit()
		in.TTLs = []inspect.RecordTTL{{TTL: metav1.Duration{Duration: time.Minute}},
			{TTL: metav1.Duration{Duration: 5 * time.Minute}}, {Unknown: "silent"}}
		p, err := inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Basis).To(Equal(summary.BasisBenchmark))
		Expect(p.Steps[5].WaitSeconds).To(Equal(300.0+30+70), "the longest TTL, and the default waits")

		for range 3 {
			record := history.Record{Source: "seed-b", Destination: "seed-a", Result: history.Succeeded}
			for _, step := range steps.Table() {
				record.Steps = append(record.Steps, history.Step{Condition: step.String(), Seconds: 500})
			}
			in.Past = append(in.Past, record)
		}
		p, err = inspect.Plan(in, "seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Basis).To(Equal(summary.BasisSeeds))
		Expect(p.Steps[0]).To(And(HaveField("ExpectedSeconds", 500.0), HaveField("Samples", 3)))
		Expect(p.ExpectedSeconds).To(Equal(8 * 500.0))
	})
})
