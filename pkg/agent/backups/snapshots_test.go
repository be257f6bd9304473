// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/backups"
)

var _ = Describe("Snapshots", func() {
	const (
		namespace = "shoot--demo--live"
		period    = 5 * time.Minute
	)
	var (
		ctx   = context.Background()
		begin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		clock *testclock.FakeClock
	)

	// backedUp returns the main etcd of a seed that has the leader and saves snapshots, as etcd-druid shows it at a
	// time.
	backedUp := func(at time.Time) *druidcorev1alpha1.Etcd {
		etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: namespace}}
		etcd.Spec.Backup.Store = &druidcorev1alpha1.StoreSpec{
			Provider: ptr.To(druidcorev1alpha1.StorageProvider("local"))}
		etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: period}
		etcd.Status.Members = []druidcorev1alpha1.EtcdMemberStatus{
			{Name: "seed-a-etcd-main-0", Role: ptr.To(druidcorev1alpha1.EtcdRoleMember),
				Status: druidcorev1alpha1.EtcdMemberStatusReady},
			{Name: "seed-a-etcd-main-1", Role: ptr.To(druidcorev1alpha1.EtcdRoleLeader),
				Status: druidcorev1alpha1.EtcdMemberStatusReady},
		}
		etcd.Status.Conditions = []druidcorev1alpha1.Condition{{
			Type: druidcorev1alpha1.ConditionTypeBackupReady, Status: druidcorev1alpha1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(begin.Add(-time.Hour)), LastUpdateTime: metav1.NewTime(at),
			Message: "Snapshot backup succeeded",
		}}
		return etcd
	}
	snapshots := func(seed client.Client) *backups.Snapshots {
		GinkgoHelper()
		room, err := backups.New(backups.Options{GardenAPIReader: seed, SeedName: "seed-a",
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()})
		Expect(err).NotTo(HaveOccurred())
		out, err := backups.NewSnapshots(backups.SnapshotsOptions{Backups: room, Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		return out
	}

	BeforeEach(func() { clock = testclock.NewFakeClock(begin) })

	DescribeTable("should be told when they fail for two periods", func(mutate func(*druidcorev1alpha1.Etcd),
		problem string) {
		etcd := backedUp(begin)
		mutate(etcd)
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(etcd).Build()
		s := snapshots(seed)
		Expect(s.Problem(ctx, namespace)).To(BeEmpty(), "a leader that has just come needs its time")
		clock.Step(2 * period)
		Expect(s.Problem(ctx, namespace)).To(Equal(problem))
	},
		Entry("they succeed", func(e *druidcorev1alpha1.Etcd) {}, ""),
		Entry("they fail", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Conditions[0].Status = druidcorev1alpha1.ConditionFalse
			e.Status.Conditions[0].Message = "Stale snapshot leases. Not renewed in a long time"
		},
			"BackupReady of Etcd shoot--demo--live/etcd-main is False since 2026-11-20T11:00:00Z: Stale snapshot "+
				"leases. Not renewed in a long time"),
		Entry("nobody can tell", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Conditions[0].Status = druidcorev1alpha1.ConditionUnknown
			e.Status.Conditions[0].Message = "Cannot determine etcd backup status"
		},
			"BackupReady of Etcd shoot--demo--live/etcd-main is Unknown since 2026-11-20T11:00:00Z: Cannot determine "+
				"etcd backup status"),
		Entry("etcd-druid says nothing", func(e *druidcorev1alpha1.Etcd) { e.Status.Conditions = nil },
			"etcd-druid does not tell whether Etcd shoot--demo--live/etcd-main is backed up"),
		Entry("etcd-druid has stopped while all was well", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Conditions[0].LastUpdateTime = metav1.NewTime(begin.Add(-time.Hour))
		}, "etcd-druid has not looked at the snapshots of Etcd shoot--demo--live/etcd-main since 2026-11-20T11:00:00Z"),
		Entry("the leader is in the other seed, whose sidecar saves them", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Members[1].Role = ptr.To(druidcorev1alpha1.EtcdRoleMember)
			e.Status.Conditions[0].Status = druidcorev1alpha1.ConditionFalse
		}, ""),
		Entry("a member that is gone was the leader", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Members[1].Status = druidcorev1alpha1.EtcdMemberStatusUnknown
			e.Status.Conditions[0].Status = druidcorev1alpha1.ConditionFalse
		}, ""),
		Entry("the seed keeps no backups", func(e *druidcorev1alpha1.Etcd) {
			e.Spec.Backup.Store = nil
			e.Status.Conditions = nil
		}, ""),
	)

	It("should be reported where the leader is, and nowhere else", func() {
		etcd := backedUp(begin)
		Expect(backups.Reported(etcd)).To(HaveValue(HaveField("Status", druidcorev1alpha1.ConditionTrue)))
		etcd.Status.Members[1].Role = ptr.To(druidcorev1alpha1.EtcdRoleMember)
		Expect(backups.Reported(etcd)).To(BeNil(), "those of the other seed save them")
		etcd.Status.Members[1].Role = ptr.To(druidcorev1alpha1.EtcdRoleLeader)
		etcd.Status.Conditions = nil
		Expect(backups.Reported(etcd)).To(BeNil(), "etcd-druid says nothing")
	})

	It("should be given their time again when they have succeeded in between", func() {
		etcd := backedUp(begin)
		etcd.Status.Conditions[0].Status = druidcorev1alpha1.ConditionUnknown
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(etcd).Build()
		s := snapshots(seed)
		set := func(status druidcorev1alpha1.ConditionStatus) {
			GinkgoHelper()
			Expect(seed.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			etcd.Status.Conditions[0].Status = status
			etcd.Status.Conditions[0].LastUpdateTime = metav1.NewTime(clock.Now())
			Expect(seed.Update(ctx, etcd)).To(Succeed())
			Expect(s.Problem(ctx, namespace)).To(BeEmpty())
		}
		set(druidcorev1alpha1.ConditionUnknown)
		clock.Step(period)
		set(druidcorev1alpha1.ConditionTrue)
		clock.Step(period)
		set(druidcorev1alpha1.ConditionUnknown)
		clock.Step(2 * period)
		Expect(s.Problem(ctx, namespace)).NotTo(BeEmpty())
	})

	It("should not be asked for of an etcd that is not there, and not be guessed if it cannot be read", func() {
		Expect(snapshots(fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()).
			Problem(ctx, namespace)).To(BeEmpty())

		_, err := snapshots(fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(
			interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
				...client.GetOption) error {
				return context.DeadlineExceeded
			}}).Build()).Problem(ctx, namespace)
		Expect(err).To(MatchError(ContainSubstring("failed to read Etcd shoot--demo--live/etcd-main")))
	})

	It("should not be looked at without what that takes", func() {
		_, err := backups.NewSnapshots(backups.SnapshotsOptions{Clock: clock})
		Expect(err).To(MatchError(ContainSubstring("Backups")))
	})
})
