// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package etcds_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/etcds"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/seedpods"
)

var _ = Describe("Views", func() {
	const namespace = "shoot--demo--live"

	var (
		ctx      = context.Background()
		shoot    *gardencorev1beta1.Shoot
		clusters map[string]*fake.Cluster
	)

	etcd := func(name string) *druidcorev1alpha1.Etcd {
		return &druidcorev1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: druidcorev1alpha1.EtcdSpec{
				MemberNamePrefix: new("seed-a"),
				Etcd: druidcorev1alpha1.EtcdConfig{Quota: new(resource.MustParse("4Gi")),
					DefragmentationSchedule: new("0 1 * * *")},
			},
		}
	}
	look := func(seed string, existing ...*druidcorev1alpha1.Etcd) ([]preflight.EtcdView, error) {
		builder := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme)
		for _, e := range existing {
			builder.WithObjects(e)
		}
		seedClient := builder.Build()
		access, err := etcds.New(etcds.Options{
			SeedClient: seedClient, SeedName: seed,
			SeedPods: func(namespace string) joint.Pods { return seedpods.New(seedClient, namespace) },
			Clock:    testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)),
			NewCluster: func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				if clusters[etcdRole] == nil {
					return nil, errors.New("no certificates")
				}
				return clusters[etcdRole], nil
			},
		})
		Expect(err).NotTo(HaveOccurred())
		return access.Views(ctx, shoot)
	}

	BeforeEach(func() {
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo",
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a"), TechnicalID: namespace},
		}
		clusters = map[string]*fake.Cluster{}
		for _, role := range []string{"main", "events"} {
			var names []string
			for _, ordinal := range []string{"0", "1", "2"} {
				names = append(names, "seed-a-etcd-"+role+"-"+ordinal)
			}
			clusters[role] = fake.New(func(name string) string { return "https://" + name + ":2380" }, names...)
		}
	})

	It("should tell what an Etcd is configured with and what its members say", func() {
		clusters["main"].SetDatabase("seed-a-etcd-main-1", 30, 20)
		clusters["main"].SetDefragmenting("seed-a-etcd-main-2", true)
		events := etcd("etcd-events")
		events.Spec = druidcorev1alpha1.EtcdSpec{}

		views, err := look("seed-a", etcd("etcd-main"), events)
		Expect(err).NotTo(HaveOccurred())
		Expect(views).To(HaveLen(2))
		Expect(views[0]).To(Equal(preflight.EtcdView{
			Name: "etcd-main", MemberNamePrefix: "seed-a", Quota: 4 << 30, DefragmentationSchedule: "0 1 * * *",
			Members: []preflight.EtcdMemberView{
				{Name: "seed-a-etcd-main-0", Version: "3.5.27"},
				{Name: "seed-a-etcd-main-1", Version: "3.5.27", DBSize: 30, DBSizeInUse: 20},
				{Name: "seed-a-etcd-main-2", Version: "3.5.27", Defragmenting: true},
			},
		}))
		Expect(views[1]).To(And(HaveField("Name", "etcd-events"), HaveField("MemberNamePrefix", ""),
			HaveField("Quota", int64(8<<30)), HaveField("DefragmentationSchedule", "")))
	})

	It("should tell which members are not healthy, and not blame them for an alarm", func() {
		clusters["main"].SetUp("seed-a-etcd-main-2", false)
		clusters["main"].RaiseAlarm("seed-a-etcd-main-0", etcdclient.AlarmNoSpace)
		id, err := clusters["events"].AddLearner("https://new:2381")
		Expect(err).NotTo(HaveOccurred())

		views, err := look("seed-a", etcd("etcd-main"), etcd("etcd-events"))
		Expect(err).NotTo(HaveOccurred())
		Expect(views[0].Alarms).To(ConsistOf(preflight.EtcdAlarm{Member: "seed-a-etcd-main-0", Type: "NOSPACE"}))
		Expect(views[0].Members).To(HaveExactElements(HaveField("Problem", ""), HaveField("Problem", ""),
			HaveField("Problem", fake.ErrDown.Error())))
		Expect(views[1].Members).
			To(ContainElement(preflight.EtcdMemberView{Name: etcdclient.Member{ID: id}.String(), Learner: true,
				Problem: "it has not started"}))
	})

	It("should name the raiser of an alarm also when it has left", func() {
		clusters["main"].RaiseAlarm("seed-a-etcd-main-2", etcdclient.AlarmCorrupt)
		list, err := clusters["main"].List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters["main"].Remove(ctx, list.Members[2].ID)).To(Succeed())
		views, err := look("seed-a", etcd("etcd-main"), etcd("etcd-events"))
		Expect(err).NotTo(HaveOccurred())
		Expect(views[0].Alarms).To(
			ConsistOf(preflight.EtcdAlarm{Member: etcdclient.Member{ID: list.Members[2].ID}.String(), Type: "CORRUPT"}))
	})

	It("should continue to the next etcd when one has no quorum", func() {
		clusters["main"].SetUp("seed-a-etcd-main-0", false)
		clusters["main"].SetUp("seed-a-etcd-main-1", false)
		views, err := look("seed-a", etcd("etcd-main"), etcd("etcd-events"))
		Expect(err).NotTo(HaveOccurred())
		Expect(views[0].Error).To(MatchError(fake.ErrTimeout))
		Expect(views[1].Error).NotTo(HaveOccurred())
		Expect(views[1].Members).To(HaveLen(3))
	})

	It("should leave out an Etcd that the destination does not have yet", func() {
		Expect(look("seed-b")).To(BeEmpty())
		Expect(look("seed-b", etcd("etcd-events"))).To(ConsistOf(HaveField("Name", "etcd-events")))
	})

	DescribeTable("fails when it cannot look", func(message string, prepare func() ([]preflight.EtcdView, error)) {
		_, err := prepare()
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("no Etcd in the source", "failed to get Etcd shoot--demo--live/etcd-main",
			func() ([]preflight.EtcdView, error) { return look("seed-a") }),
		Entry("no client", "failed to set up a client for etcd-events: no certificates",
			func() ([]preflight.EtcdView, error) {
				clusters["events"] = nil
				return look("seed-a", etcd("etcd-main"), etcd("etcd-events"))
			}),
		Entry("another seed",
			"seed seed-c has no part", func() ([]preflight.EtcdView, error) { return look("seed-c") }),
	)
})
