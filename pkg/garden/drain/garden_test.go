// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	gardenindexer "github.com/gardener/gardener/pkg/api/indexer"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/drain"
	pure "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/test/seedlook"
	"github.com/livecpm/livecpm/test/simulation"
)

const namespace = "garden-demo"

// begin is the time at first.
var begin = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// fakeGarden is a garden with a reconciler. What is served from the cache can be held back.
type fakeGarden struct {
	client.WithWatch
	*drain.Reconciler

	clock  *testclock.FakeClock
	events chan string
	// refusal is what the API server answers to changes of a seed name, failure to every write of the kind.
	refusal error
	failure map[string]error
	// stale are the Shoots that the cache has; nil if it is up to date.
	stale []gardencorev1beta1.Shoot
	// writes are the kinds of the writes in their order, projects counts how often the scheduler has looked.
	writes   []string
	projects int
}

// newGarden returns a garden with a project and what is given.
func newGarden(objects ...client.Object) *fakeGarden {
	recorder := events.NewFakeRecorder(1000)
	f := &fakeGarden{
		clock: testclock.NewFakeClock(begin), events: recorder.Events,
		failure: map[string]error{},
	}
	f.WithWatch = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
		WithStatusSubresource(&gardencorev1beta1.Seed{}, &gardencorev1beta1.Shoot{}).
		WithIndex(&gardencorev1beta1.Project{}, gardencore.ProjectNamespace, gardenindexer.ProjectNamespaceIndexerFunc).
		WithObjects(
			&gardencorev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
				Spec: gardencorev1beta1.ProjectSpec{Namespace: new(namespace)}},
			&gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "local"},
				Spec: gardencorev1beta1.CloudProfileSpec{Type: "local"}},
		).WithObjects(objects...).Build()

	f.Reconciler = &drain.Reconciler{
		Client: interceptor.NewClient(f.WithWatch, f.interception()), APIReader: f.WithWatch,
		Recorder: recorder, Clock: f.clock,
		Namespace: "garden", Strategy: "SameRegion", Period: 30 * time.Second,
		Budget: pure.Budget{PerSource: 2, PerDestination: 2, Total: 5, Failures: 3, Attempts: 3,
			RetryAfter: 10 * time.Minute},
	}
	return f
}

// interception serves the Shoots that the cache has, counts, and answers writes as it is told.
func (f *fakeGarden) interception() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			switch list := list.(type) {
			case *gardencorev1beta1.ShootList:
				if f.stale != nil {
					list.Items = append([]gardencorev1beta1.Shoot{}, f.stale...)
					return nil
				}
			case *gardencorev1beta1.ProjectList:
				f.projects++
			}
			if err := f.failure[fmt.Sprintf("list %T", list)]; err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			if err := f.write("create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			if err := f.write("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, object client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption) error {
			if subResource == "binding" && f.refusal != nil {
				return f.refusal
			}
			if err := f.write(subResource, object); err != nil {
				return err
			}
			if subResource == "binding" {
				return c.Patch(ctx, object, patch)
			}
			return c.SubResource(subResource).Patch(ctx, object, patch, options...)
		},
	}
}

func (f *fakeGarden) write(what string, object client.Object) error {
	kind := fmt.Sprintf("%s %s", what, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1beta1."))
	if err := f.failure[kind]; err != nil {
		return err
	}
	f.writes = append(f.writes, kind+" "+object.GetName())
	return nil
}

// restart puts another process in the place of the one before, with nothing in its memory.
func (f *fakeGarden) restart() {
	old := f.Reconciler
	f.Reconciler = &drain.Reconciler{
		Client: old.Client, APIReader: old.APIReader, Recorder: old.Recorder, Clock: old.Clock,
		Namespace: old.Namespace, Strategy: old.Strategy, Period: old.Period, Budget: old.Budget,
		Notices: old.Notices,
	}
}

// reconcile makes one pass that must succeed.
// reconcile makes a pass over the garden, after the agents have looked at their seeds, as they do all the time.
func (f *fakeGarden) reconcile() reconcile.Result {
	GinkgoHelper()
	seeds := &gardencorev1beta1.SeedList{}
	Expect(f.WithWatch.List(context.Background(), seeds)).To(Succeed())
	for i := range seeds.Items {
		seedlook.Again(&seeds.Items[i], f.clock.Now())
		Expect(f.WithWatch.Update(context.Background(), &seeds.Items[i])).To(Succeed())
	}
	result, err := f.Reconcile(context.Background(), reconcile.Request{})
	Expect(err).NotTo(HaveOccurred())
	return result
}

func (f *fakeGarden) seed(name string) *gardencorev1beta1.Seed {
	GinkgoHelper()
	seed := &gardencorev1beta1.Seed{}
	Expect(f.Get(context.Background(), client.ObjectKey{Name: name}, seed)).To(Succeed())
	return seed
}

func (f *fakeGarden) shoot(name string) *gardencorev1beta1.Shoot {
	GinkgoHelper()
	shoot := &gardencorev1beta1.Shoot{}
	Expect(f.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, shoot)).To(Succeed())
	return shoot
}

// changeSeed changes a Seed as somebody else would.
func (f *fakeGarden) changeSeed(name string, change func(*gardencorev1beta1.Seed)) {
	GinkgoHelper()
	seed := f.seed(name)
	status := seed.DeepCopy()
	change(seed)
	change(status)
	Expect(f.Update(context.Background(), seed)).To(Succeed())
	status.ResourceVersion = seed.ResourceVersion
	Expect(f.Status().Update(context.Background(), status)).To(Succeed())
}

// changeShoot changes a Shoot as somebody else would.
func (f *fakeGarden) changeShoot(name string, change func(*gardencorev1beta1.Shoot)) {
	GinkgoHelper()
	shoot := f.shoot(name)
	status := shoot.DeepCopy()
	change(shoot)
	change(status)
	Expect(f.Update(context.Background(), shoot)).To(Succeed())
	status.ResourceVersion = shoot.ResourceVersion
	Expect(f.Status().Update(context.Background(), status)).To(Succeed())
}

// arrive lets the shoots be where they are on their way to.
func (f *fakeGarden) arrive(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		f.changeShoot(name, func(s *gardencorev1beta1.Shoot) {
			simulation.Arrive(s, f.clock.Now())
			delete(s.Annotations, "migration.gardener.cloud/live-migrate")
		})
	}
}

func (f *fakeGarden) configMap(seed string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	return configMap, f.Get(context.Background(), client.ObjectKey{Namespace: "garden", Name: "livecpm-drain-" + seed},
		configMap)
}

// table returns the rows of the published table by name.
func (f *fakeGarden) table(seed string) map[string]pure.TableRow {
	GinkgoHelper()
	configMap, err := f.configMap(seed)
	Expect(err).NotTo(HaveOccurred())
	table, err := pure.DecodeTable(configMap.Data["table.json"])
	Expect(err).NotTo(HaveOccurred())
	out := map[string]pure.TableRow{}
	for _, row := range table.Shoots {
		out[row.Name] = row
	}
	return out
}

// moving returns the shoots that are on their way, with their destination.
func (f *fakeGarden) moving() map[string]string {
	GinkgoHelper()
	shoots := &gardencorev1beta1.ShootList{}
	Expect(f.List(context.Background(), shoots)).To(Succeed())
	out := map[string]string{}
	for _, shoot := range shoots.Items {
		if *shoot.Spec.SeedName != *shoot.Status.SeedName {
			out[shoot.Name] = *shoot.Spec.SeedName
		}
	}
	return out
}

// told returns the events since the last call.
func (f *fakeGarden) told() []string {
	var out []string
	for {
		select {
		case event := <-f.events:
			out = append(out, event)
		default:
			return out
		}
	}
}

// newSeed returns a Seed that is fit for shoots.
func newSeed(name string, changes ...func(*gardencorev1beta1.Seed)) *gardencorev1beta1.Seed {
	seed := &gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec: gardencorev1beta1.SeedSpec{
			Provider: gardencorev1beta1.SeedProvider{Type: "local", Region: "region", Zones: []string{"0"}},
			Backup:   &gardencorev1beta1.Backup{Provider: "local"},
			DNS: gardencorev1beta1.SeedDNS{
				Internal: &gardencorev1beta1.SeedDNSProviderConfig{Domain: "internal.livecpm.example"},
			},
			Ingress: &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".livecpm.example"},
			Settings: &gardencorev1beta1.SeedSettings{
				Scheduling: &gardencorev1beta1.SeedSettingScheduling{Visible: true},
			},
		},
		Status: gardencorev1beta1.SeedStatus{
			Gardener:      &gardencorev1beta1.Gardener{Version: "v1.150.0"},
			LastOperation: &gardencorev1beta1.LastOperation{Type: "Reconcile", State: "Succeeded"},
			Conditions: []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.GardenletReady, Status: gardencorev1beta1.ConditionTrue},
				{Type: gardencorev1beta1.SeedSystemComponentsHealthy, Status: gardencorev1beta1.ConditionTrue},
				{Type: gardencorev1beta1.SeedBackupBucketsReady, Status: gardencorev1beta1.ConditionTrue},
			},
		},
	}
	seedlook.InOrder(seed, begin)
	for _, change := range changes {
		change(seed)
	}
	return seed
}

// asked asks for the drain of a Seed. The annotations come in pairs.
func asked(annotations ...string) func(*gardencorev1beta1.Seed) {
	return func(s *gardencorev1beta1.Seed) {
		s.Annotations = maps.Clone(s.Annotations)
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations["migration.gardener.cloud/drain"] = "true"
		for i := 0; i < len(annotations); i += 2 {
			s.Annotations["migration.gardener.cloud/drain-"+annotations[i]] = annotations[i+1]
		}
	}
}

func cancelled(s *gardencorev1beta1.Seed) {
	delete(s.Annotations, "migration.gardener.cloud/drain")
}

// newShoot returns a Shoot in seed-a that can go live.
func newShoot(name string, changes ...func(*gardencorev1beta1.Shoot)) *gardencorev1beta1.Shoot {
	shoot := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-of-" + name),
			Annotations: map[string]string{"own": "kept"}},
		Spec: gardencorev1beta1.ShootSpec{
			CloudProfile: &gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "local"},
			ControlPlane: &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{
				FailureTolerance: gardencorev1beta1.FailureTolerance{Type: gardencorev1beta1.FailureToleranceTypeNode},
			}},
			Provider: gardencorev1beta1.Provider{Type: "local"},
			Purpose:  new(gardencorev1beta1.ShootPurposeDevelopment),
			Region:   "region",
			SeedName: new("seed-a"),
		},
		Status: gardencorev1beta1.ShootStatus{
			SeedName:      new("seed-a"),
			LastOperation: &gardencorev1beta1.LastOperation{Type: "Reconcile", State: "Succeeded"},
		},
	}
	for _, change := range changes {
		change(shoot)
	}
	return shoot
}

func single(s *gardencorev1beta1.Shoot) { s.Spec.ControlPlane = nil }
func withGap(s *gardencorev1beta1.Shoot) {
	s.Annotations["migration.gardener.cloud/live-migrate-with-gap"] = "true"
}
func hibernated(s *gardencorev1beta1.Shoot) {
	s.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(true)}
	s.Status.IsHibernated = true
}

// window sets a maintenance time window that begins with the given hour and lasts two hours.
func window(hour int) func(*gardencorev1beta1.Shoot) {
	return func(s *gardencorev1beta1.Shoot) {
		s.Spec.Maintenance = &gardencorev1beta1.Maintenance{TimeWindow: &gardencorev1beta1.MaintenanceTimeWindow{
			Begin: fmt.Sprintf("%02d0000+0000", hour), End: fmt.Sprintf("%02d0000+0000", hour+2),
		}}
	}
}
