// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"errors"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var _ = Describe("Of", func() {
	member := func(id, leader, cluster uint64, name string) etcdclient.MemberInspection {
		return etcdclient.MemberInspection{
			Member: etcdclient.Member{ID: id, Name: name},
			Status: etcdclient.Status{ClusterID: cluster, MemberID: id, LeaderID: leader},
		}
	}
	etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}}

	DescribeTable("should tell what is wrong with a member",
		func(spoil func(*etcdclient.MemberInspection), problem string) {
			inspection := etcdclient.Inspection{ClusterID: 7,
				Members: []etcdclient.MemberInspection{member(1, 1, 7, "a"), member(2, 1, 7, "b"),
					member(3, 1, 7, "c")}}
			spoil(&inspection.Members[2])
			Expect(inspection.Leader()).To(BeNumerically("==", 1))
			Expect(preflight.EtcdViewOf(etcd, inspection, nil).Members).To(HaveExactElements(
				HaveField("Problem", ""), HaveField("Problem", ""), HaveField("Problem", problem)))
		},
		Entry("nothing", func(*etcdclient.MemberInspection) {}, ""),
		Entry("it does not answer", func(m *etcdclient.MemberInspection) { m.StatusError = errors.New("away") },
			"away"),
		Entry("another cluster", func(m *etcdclient.MemberInspection) { m.Status.ClusterID = 8 },
			"it belongs to cluster 8, not to 7"),
		Entry("no leader", func(m *etcdclient.MemberInspection) { m.Status.LeaderID = 0 }, "it knows no leader"),
		Entry("another leader", func(m *etcdclient.MemberInspection) { m.Status.LeaderID = 3 },
			"it follows 3, the others follow 1"),
	)

	DescribeTable("should tell what is known of a member's defragmentation",
		func(spoil func(*etcdclient.MemberInspection), status preflight.Status, evidence string) {
			inspection := etcdclient.Inspection{ClusterID: 7,
				Members: []etcdclient.MemberInspection{member(1, 1, 7, "a"), member(2, 1, 7, "b"),
					member(3, 1, 7, "c")}}
			spoil(&inspection.Members[2])
			world := fit()
			world.Etcds[0] = preflight.EtcdViewOf(etcd, inspection, nil)
			Expect(find(preflight.EvaluateStep(world, steps.First()), steps.EtcdDefragmentation)).To(And(
				HaveField("Status", status), HaveField("Evidence", ContainSubstring(evidence))))
		},
		Entry("it is not defragmented", func(*etcdclient.MemberInspection) {}, preflight.Pass,
			"no member is being defragmented or is about to be"),
		Entry("it is", func(m *etcdclient.MemberInspection) { m.Defragmenting = true }, preflight.Fail,
			"member c of etcd-main is being defragmented"),
		Entry("its metrics cannot be read",
			func(m *etcdclient.MemberInspection) { m.DefragmentingError = errors.New("timeout") },
			preflight.Unknown, "member c of etcd-main: timeout"),
		Entry("its etcd has no such metric",
			func(m *etcdclient.MemberInspection) {
				m.DefragmentingError = fmt.Errorf("failed to read: %w", etcdclient.ErrNoMetric)
			}, preflight.Pass, "members of etcd-main publish no metric"),
		Entry("it does not answer at all, which its health tells",
			func(m *etcdclient.MemberInspection) {
				m.StatusError, m.DefragmentingError = errors.New("away"), errors.New("away")
			}, preflight.Pass, "no member is being defragmented"),
	)

	It("should have the schedule decide where a member publishes nothing", func() {
		inspection := etcdclient.Inspection{ClusterID: 7,
			Members: []etcdclient.MemberInspection{member(1, 1, 7, "a"), member(2, 1, 7, "b"), member(3, 1, 7, "c")}}
		inspection.Members[0].DefragmentingError = etcdclient.ErrNoMetric
		scheduled := etcd.DeepCopy()
		scheduled.Spec.Etcd.DefragmentationSchedule = new("6 5 * * *")
		world := fit()
		world.Etcds[0] = preflight.EtcdViewOf(scheduled, inspection, nil)
		Expect(find(preflight.EvaluateStep(world, steps.First()), steps.EtcdDefragmentation)).To(And(
			HaveField("Status", preflight.Fail), HaveField("Evidence", ContainSubstring("is scheduled for"))))
	})

	It("should hold a step for an unhealthy member wherever its defragmentation would", func() {
		for _, step := range steps.Table() {
			if step.GuardOf(steps.EtcdDefragmentation).Effect == steps.Holds {
				Expect(step.GuardOf(steps.EtcdHealth).Effect).To(Equal(steps.Holds), "%s", step.Condition)
			}
		}
	})

	It("should keep why there is no member list", func() {
		view := preflight.EtcdViewOf(etcd, etcdclient.Inspection{}, errors.New("no quorum"))
		Expect(view.Error).To(MatchError("no quorum"))
		Expect(view.Quota).To(BeNumerically("==", 8<<30))
	})
})
