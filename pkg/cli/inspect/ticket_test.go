// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/ticket"
)

var _ = Describe("TicketReader", func() {
	var (
		ctx     = context.Background()
		begin   = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
		clk     *testclock.FakeClock
		shoot   *gardencorev1beta1.Shoot
		past    history.History
		objects []client.Object
		refuse  func(client.Object) error
		seeds   access.Seeds
		reader  func() inspect.TicketReader
	)

	// migrate lets the migration go as far as the steps that have finished; each takes a minute.
	migrate := func(finished int) {
		GinkgoHelper()
		all := conditions.Initialize(clk, nil)
		for _, step := range steps.Table()[:finished] {
			for _, change := range []conditions.Change{
				{Status: gardencorev1beta1.ConditionProgressing, Reason: steps.ReasonStarted, Message: "at work"},
				{Status: gardencorev1beta1.ConditionTrue, Reason: steps.ReasonCompleted, Message: "done"},
			} {
				change.Step, change.Role = step, step.Owner
				var err error
				all, err = conditions.Apply(clk, all, change)
				Expect(err).NotTo(HaveOccurred())
				clk.Step(30 * time.Second)
			}
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: all}
	}
	seed := func(name string) *gardencorev1beta1.Seed {
		value, err := seedfacts.Encode(seedfacts.Agent{Release: "v0.1.0", Gardener: "v1.150.0", Relay: "relay:1"})
		Expect(err).NotTo(HaveOccurred())
		return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			seedfacts.AnnotationAgent: value, steps.SeedAnnotationProtocols: "1"}},
			Status: gardencorev1beta1.SeedStatus{Gardener: &gardencorev1beta1.Gardener{Version: "v1.150.0"}}}
	}
	read := func() ticket.Facts {
		GinkgoHelper()
		facts, err := reader().Read(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		return facts
	}
	unknown := func(facts ticket.Facts) []string {
		out := []string{}
		for _, missing := range facts.Unknown {
			Expect(missing.Why).NotTo(BeEmpty())
			out = append(out, missing.What)
		}
		return out
	}

	BeforeEach(func() {
		clk, refuse, seeds = testclock.NewFakeClock(begin), nil, access.Seeds{}
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", UID: "1",
				Annotations: map[string]string{}, ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: "gardener-apiserver", Time: &metav1.Time{Time: begin.Add(time.Hour)},
						FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:region":{}}}`)},
					{Manager: "kubectl-livecpm", Time: &metav1.Time{Time: begin.Add(-2 * time.Second)},
						FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:seedName":{}}}`)},
				}},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-b"), TechnicalID: namespace},
		}
		migrate(8)
		ended := begin.Add(7*time.Minute + 30*time.Second)
		past = history.History{Kind: "LiveMigrationHistory", Records: []history.Record{
			{Namespace: "garden-demo", Name: "live", UID: "1", Source: "seed-z", Destination: "seed-a",
				Result: history.Succeeded, Started: new(begin.Add(-time.Hour)),
				Ended: new(begin.Add(-50 * time.Minute))},
			{Namespace: "garden-demo", Name: "live", UID: "1", Source: "seed-a", Destination: "seed-b",
				RequestedBy: "alice@example.org", Result: history.Succeeded, Started: &begin, Ended: &ended,
				Steps: []history.Step{{Condition: string(steps.First().Condition), Seconds: 30}}},
			{Namespace: "garden-demo", Name: "other", UID: "2", Source: "seed-q", Result: history.Succeeded},
		}}
		objects = []client.Object{seed("seed-a"), seed("seed-b"),
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "one"},
				InvolvedObject: corev1.ObjectReference{Kind: "Shoot", Name: "live"}, Reason: "PreparingDestination",
				Message:   "DestinationEtcdPeersJoined is Progressing: a message",
				EventTime: metav1.NewMicroTime(begin.Add(70 * time.Second))}}
		reader = func() inspect.TicketReader {
			content, err := past.Encode()
			Expect(err).NotTo(HaveOccurred())
			kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: history.ConfigMapName},
				Data: map[string]string{history.Key: content}}
			involved := func(of func(*corev1.Event) string) client.IndexerFunc {
				return func(object client.Object) []string { return []string{of(object.(*corev1.Event))} }
			}
			c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
				WithObjects(append(objects, kept)...).
				WithIndex(&corev1.Event{}, "involvedObject.kind",
					involved(func(e *corev1.Event) string { return e.InvolvedObject.Kind })).
				WithIndex(&corev1.Event{}, "involvedObject.name",
					involved(func(e *corev1.Event) string { return e.InvolvedObject.Name })).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
						options ...client.GetOption) error {
						if refuse != nil {
							if err := refuse(object); err != nil {
								return err
							}
						}
						return c.Get(ctx, key, object, options...)
					}}).Build()
			members := inspect.NewMembers(seeds)
			inspect.SetOpen(members, func(etcdclient.Locator, etcdclient.Dial) (etcdclient.Reader, error) {
				return fake.New(func(name string) string { return "https://" + name + ":2380" }, "seed-b-etcd-main-1",
					"seed-b-etcd-main-0"), nil
			})
			return inspect.TicketReader{Garden: &access.Garden{Client: c}, Seeds: seeds, Members: members, Clock: clk,
				Plugin: view.Program{Release: "v0.2.0", Gardener: "v1.150.0"}}
		}
	})

	It("should take from the history what the Shoot does not keep", func() {
		facts := read()
		Expect(facts).To(And(HaveField("Source", "seed-a"), HaveField("Destination", "seed-b"),
			HaveField("Result", "Succeeded"), HaveField("Over", true), HaveField("Started", HaveValue(Equal(begin))),
			HaveField("Seconds", int64(450)), HaveField("MadeBy", "v0.2.0")))
		Expect(facts.Requested).To(Equal(ticket.Requested{By: "alice@example.org", With: "kubectl-livecpm",
			At: new(begin.Add(-2 * time.Second))}))
		Expect(facts.Steps).To(HaveLen(8))
		Expect(facts.Steps[0].Seconds).To(HaveValue(Equal(int64(30))))
		Expect(facts.Steps[1].Reasons).To(ContainElement(HaveField("Reason", "PreparingDestination")))
		Expect(facts.Versions.Source).To(Equal(ticket.SeedVersions{Agent: "v0.1.0", AgentGardener: "v1.150.0",
			Gardenlet: "v1.150.0", Relay: "relay:1"}))
		Expect(unknown(facts)).To(ConsistOf("the version of the chart", "the version of gardener-apiserver",
			"the etcd members before the migration", "the etcd members after the migration", "what clients noticed"))
	})

	It("should not take the record of another migration", func() {
		past.Records = past.Records[:1]
		facts := read()
		Expect(facts).To(And(HaveField("Source", BeEmpty()), HaveField("Started", BeNil())))
		Expect(unknown(facts)).To(ContainElements("the source", "when the migration began",
			"the record of livecpm-controller-manager", "who requested the migration",
			"with which program it was requested"))
	})

	It("should say that it could not read the history", func() {
		refuse = func(object client.Object) error {
			if _, ok := object.(*corev1.ConfigMap); ok {
				return errors.New("forbidden")
			}
			return nil
		}
		facts := read()
		Expect(facts.Unknown).To(ContainElement(And(HaveField("What", "the record of livecpm-controller-manager"),
			HaveField("Why", ContainSubstring("forbidden")))))
	})

	It("should not name who has set the seed's name for something else", func() {
		shoot.ManagedFields[1].Time = &metav1.Time{Time: begin.Add(time.Hour)}
		facts := read()
		Expect(facts.Requested).To(Equal(ticket.Requested{By: "alice@example.org"}))
		Expect(unknown(facts)).To(ContainElement("with which program it was requested"))
	})

	It("should name the drain that has started it, and no earlier one", func() {
		past.Records[1].RequestedBy = ""
		shoot.Annotations[drain.AnnotationStartedBy] = "seed-a"
		shoot.Annotations[drain.AnnotationStartedAt] = drain.FormatTime(begin.Add(-time.Minute))
		Expect(read().Requested.By).To(Equal("the drain of seed seed-a"))
		shoot.Annotations[drain.AnnotationStartedAt] = drain.FormatTime(begin.Add(-24 * time.Hour))
		Expect(read().Requested.By).To(BeEmpty())
	})

	It("should have the members of the baseline, and those that the seed has now", func() {
		seeds["seed-b"] = access.Seed{Reader: fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithObjects(
				&druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main-0",
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet",
						Name: "etcd-main", Controller: new(true)}}},
					Status: corev1.PodStatus{Phase: corev1.PodRunning}}).Build(),
			Dialer: &dialer{}}
		r := reader()
		r.Baseline = &inspect.Baseline{Seed: "seed-a", ClusterIDs: map[string]string{"etcd-main": "1a"},
			Members: map[string][]string{"etcd-main": {"seed-a-etcd-main-0"}}}
		facts, err := r.Read(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		Expect(facts.Etcds).To(HaveExactElements(And(HaveField("Name", "etcd-main"), HaveField("IDBefore", "1a"),
			HaveField("IDAfter", Not(BeEmpty())),
			HaveField("Before", HaveExactElements(ticket.Member{Name: "seed-a-etcd-main-0"})),
			HaveField("After", HaveExactElements(ticket.Member{Name: "seed-b-etcd-main-0"},
				ticket.Member{Name: "seed-b-etcd-main-1"})))))
		Expect(unknown(facts)).NotTo(ContainElement(ContainSubstring("etcd members")))
	})

	It("should tell how far one is that is in flight, and not take its members for those after it", func() {
		shoot.Annotations = map[string]string{steps.AnnotationIntent: "true", steps.AnnotationRequestedBy: "bob"}
		shoot.Status.SeedName = new("seed-a")
		migrate(2)
		past = history.History{Kind: "LiveMigrationHistory"}
		facts := read()
		Expect(facts).To(And(HaveField("Result", "Processing"), HaveField("Over", false), HaveField("Ended", BeNil()),
			HaveField("Source", "seed-a"), HaveField("Requested.By", "bob")))
		Expect(facts.Unknown).To(ContainElement(ticket.Unknown{What: "the etcd members after the migration",
			Why: "the migration is not over"}))
	})

	It("should refuse a probe beside another migration, and a shoot without any", func() {
		r := reader()
		r.Probe = []byte(`{"details":{"phases":{"during":"2020-01-01T00:00:00Z"}}}`)
		_, err := r.Read(ctx, shoot)
		Expect(err).To(MatchError(ContainSubstring("another migration")))
		shoot.Status.LiveMigration = nil
		_, err = r.Read(ctx, shoot)
		Expect(err).To(MatchError(ContainSubstring("has no conditions of a live migration")))
	})
})
