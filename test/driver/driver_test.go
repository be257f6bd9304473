// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/driver"
)

var _ = Describe("Connect", func() {
	It("should give a client that reads whatever a specification looks at in garden and seeds", func() {
		for _, object := range []runtime.Object{
			&corev1.PodList{}, &appsv1.StatefulSetList{}, &policyv1.PodDisruptionBudgetList{},
			&networkingv1.NetworkPolicyList{}, &druidcorev1alpha1.EtcdList{}, &extensionsv1alpha1.DNSRecordList{},
			&resourcesv1alpha1.ManagedResourceList{}, &gardencorev1beta1.ShootList{},
		} {
			_, _, err := driver.Scheme.ObjectKinds(object)
			Expect(err).NotTo(HaveOccurred())
		}
	})
})

var _ = Describe("StepTimeline", func() {
	var (
		begin    time.Time
		timeline *driver.StepTimeline
	)

	BeforeEach(func() {
		begin = time.Now()
		timeline = driver.NewStepTimeline(begin)
	})

	// conditions returns the full set of which the first n are True.
	conditions := func(n int) []gardencorev1beta1.Condition {
		var out []gardencorev1beta1.Condition
		for i, step := range steps.Table() {
			status := gardencorev1beta1.ConditionUnknown
			if i < n {
				status = gardencorev1beta1.ConditionTrue
			}
			out = append(out, gardencorev1beta1.Condition{Type: step.Condition, Status: status})
		}
		return out
	}

	It("should ignore what an earlier migration left", func() {
		timeline.Observe(recording.LookAt(begin.Add(time.Second)), conditions(8))
		Expect(timeline.Report()).To(BeEmpty())
	})

	It("should measure each step from the end of the one before", func() {
		timeline.Observe(recording.LookAt(begin.Add(time.Second)), conditions(0))
		timeline.Observe(recording.LookAt(begin.Add(10*time.Second)), conditions(1))
		timeline.Observe(recording.LookAt(begin.Add(11*time.Second)), conditions(1))
		timeline.Observe(recording.LookAt(begin.Add(30*time.Second)), conditions(2))
		Expect(timeline.Report()).To(HaveExactElements(
			And(HaveField("Condition", steps.Table()[0].Condition), HaveField("Seconds", 10.0),
				HaveField("Owner", string(steps.Source))),
			And(HaveField("Condition", steps.Table()[1].Condition), HaveField("Seconds", 20.0),
				HaveField("Owner", string(steps.Destination))),
		))

		states := timeline.States(begin.Add(35 * time.Second))
		Expect(states).To(HaveLen(8))
		Expect(states[1].Finished).To(BeTrue())
		Expect(states[2].Current).To(BeTrue())
		Expect(states[2].Elapsed).To(Equal(5 * time.Second))
		Expect(states[3].Current).To(BeFalse())
	})

	It("should take the last step from a set that is all True", func() {
		timeline.Observe(recording.LookAt(begin.Add(time.Second)), conditions(7))
		timeline.Observe(recording.LookAt(begin.Add(2*time.Second)), conditions(8))
		Expect(timeline.Report()).To(HaveLen(8))
	})
})

var _ = Describe("MemberTimeline", func() {
	member := func(names ...string) []driver.Member {
		var out []driver.Member
		for _, name := range names {
			out = append(out, driver.Member{Name: strings.TrimSuffix(name, "?"), Learner: strings.HasSuffix(name, "?")})
		}
		return out
	}

	It("should tell voters from learners, the window of six and the cluster ID", func() {
		begin := time.Now()
		timeline := &driver.MemberTimeline{}
		at := 0
		observe := func(id uint64, names ...string) {
			timeline.Observe(recording.LookAt(begin.Add(time.Duration(at)*time.Second)), id, member(names...))
			at++
		}
		observe(1, "seed-a-0", "seed-a-1", "seed-a-2")
		observe(1, "seed-a-2", "seed-a-1", "seed-a-0")
		observe(1, "seed-a-0", "seed-a-1", "seed-a-2", "seed-b-0?")
		observe(1, "seed-a-0", "seed-a-1", "seed-a-2", "seed-b-0")
		observe(1, "seed-a-0", "seed-a-1", "seed-a-2", "seed-b-0", "seed-b-1", "seed-b-2")
		observe(1, "seed-a-0", "seed-a-1", "seed-a-2", "seed-b-0", "seed-b-1", "seed-b-2")
		Expect(timeline.BySeed("seed-a", "seed-b")).To(Equal(map[string]string{"seed-a": "●●●", "seed-b": "●●●"}))
		observe(1, "seed-a-1", "seed-a-2", "seed-b-0", "seed-b-1", "seed-b-2")

		report := timeline.Report()
		Expect(report.Voters).To(Equal([]int{3, 4, 6, 5}))
		Expect(report.SixMemberWindowSeconds).To(Equal(2.0))
		Expect(report.ClusterIDUnchanged).To(BeTrue())
		Expect(timeline.Changes()).To(HaveLen(5))

		observe(2, "seed-b-0?")
		Expect(timeline.Report().ClusterIDUnchanged).To(BeFalse())
		Expect(timeline.BySeed("seed-a", "seed-b")).To(Equal(map[string]string{"seed-a": "", "seed-b": "○"}))
	})

	It("should tell between which looks the members have changed", func() {
		begin := time.Now()
		timeline := &driver.MemberTimeline{}
		look := func(began, ended int, names ...string) {
			timeline.Observe(recording.Look{Began: begin.Add(time.Duration(began) * time.Second),
				Ended: begin.Add(time.Duration(ended) * time.Second)}, 1, member(names...))
		}
		look(0, 1, "a")
		look(2, 5, "a")
		look(6, 9, "a", "b")
		Expect(timeline.Changes()).To(HaveExactElements(
			And(HaveField("Since", time.Time{}), HaveField("Time", begin.Add(time.Second))),
			And(HaveField("Since", begin.Add(2*time.Second)), HaveField("Time", begin.Add(9*time.Second)))))
	})

	It("should count members without a prefix for the first seed, and those that have not started for none", func() {
		timeline := &driver.MemberTimeline{}
		timeline.Observe(recording.LookAt(time.Now()), 1, member("etcd-main-0", "etcd-main-1", "etcd-main-2",
			"seed-b-etcd-main-0", "unstarted-ff?"))
		Expect(timeline.BySeed("seed-a", "seed-b")).To(Equal(map[string]string{"seed-a": "●●●", "seed-b": "●"}))
	})

	It("should not call the cluster ID of a cluster that was never seen unchanged", func() {
		Expect((&driver.MemberTimeline{}).Report().ClusterIDUnchanged).To(BeFalse())
	})
})

var _ = Describe("DNS changes", func() {
	It("should count updates that left a name without a record since the trigger", func() {
		file := filepath.Join(GinkgoT().TempDir(), "changes")
		Expect(os.WriteFile(file,
			[]byte(`{"time":"2030-01-01T10:00:00Z","name":"api.example.","type":"A","old":["1"],"new":[],"ttl":120}
{"time":"2030-01-01T11:00:00Z","name":"api.example.","type":"A","old":["1"],"new":["2"],"ttl":120}
{"time":"2030-01-01T11:01:00Z","name":"other.example.","type":"A","old":["1"],"new":[],"ttl":120}
{"time":"2030-01-01T11:02:00Z","name":"api.example.","type":"TXT","old":["1"],"new":[],"ttl":120}
{"time":"2030-01-01T11:03:00Z","name":"api.example.","type":"A","old":["2"],"new":[],"ttl":120}
`), 0o600)).To(Succeed())
		changes, err := driver.ReadDNSChanges(file, time.Date(2030, 1, 1, 10, 30, 0, 0, time.UTC),
			[]string{"api.example"})
		Expect(err).NotTo(HaveOccurred())
		Expect(changes).To(HaveLen(3))
		Expect(driver.MomentsWithoutRecord(changes)).To(BeNumerically("==", 1))
	})

	It("should fail when the log is missing", func() {
		_, err := driver.ReadDNSChanges(filepath.Join(GinkgoT().TempDir(), "none"), time.Now(), nil)
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

var _ = Describe("InCloud", func() {
	DescribeTable("should tell a shoot's machines from what it has in a seed",
		func(object inventory.Object, expected bool) {
			Expect(driver.InCloud(object, "shoot--demo--workers")).To(Equal(expected))
		},
		Entry("a machine", inventory.Object{Resource: "pods", Namespace: "infra-shoot--demo--workers",
			Name: "machine-shoot--demo--workers-one-z1-a"}, true),
		Entry("their namespace", inventory.Object{Resource: "namespaces", Name: "infra-shoot--demo--workers"}, true),
		Entry("their addresses",
			inventory.Object{Resource: "ippools", Name: "shoot-machine-pods-shoot--demo--workers-ipv4"}, true),
		Entry("the shoot's namespace", inventory.Object{Resource: "namespaces", Name: "shoot--demo--workers"}, false),
		Entry("a Machine", inventory.Object{Resource: "machines", Namespace: "shoot--demo--workers", Name: "a"}, false),
		Entry("something of the cluster",
			inventory.Object{Resource: "clusterrolebindings", Name: "x-shoot--demo--workers"}, false),
		Entry("another shoot's",
			inventory.Object{Resource: "ippools", Name: "shoot-machine-pods-shoot--demo--workers2-ipv4"}, false),
	)
})
