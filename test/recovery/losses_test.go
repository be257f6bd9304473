// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"context"
	"errors"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/recovery"
)

var _ = Describe("Scenarios", func() {
	It("should be of one kind each, with all that it takes", func() {
		names := map[string]bool{}
		for _, scenario := range recovery.Scenarios() {
			Expect(names).NotTo(HaveKey(scenario.Name))
			names[scenario.Name] = true
			kinds := 0
			for _, is := range []bool{scenario.LosesQuorum(), len(scenario.Losses) > 0, scenario.Back != "",
				scenario.Alone} {
				if is {
					kinds++
				}
			}
			Expect(kinds).To(Equal(1), scenario.Name)
			if len(scenario.Losses) == 0 {
				Expect(steps.Index(scenario.Step)).To(BeNumerically(">=", 0), scenario.Name)
			}
		}
	})

	It("should have losses in the order of the steps, so that none waits for a moment that is over", func() {
		for _, scenario := range recovery.Scenarios() {
			last := -1
			for _, loss := range scenario.Losses {
				at := steps.Index(loss.Step)
				Expect(at).To(BeNumerically(">", last), "%s: %s", scenario.Name, loss)
				last = at
				if loss.Kind != recovery.Garden {
					Expect(recovery.Sides).To(ContainElement(loss.Role), "%s: %s", scenario.Name, loss)
				}
				step, known := steps.Get(loss.Step)
				Expect(known).To(BeTrue())
				Expect(step.HandsOver || !loss.Amid).To(BeTrue(), "%s: %s", scenario.Name, loss)
			}
		}
	})

	It("should ask for several nodes only where one is lost", func() {
		asking := 0
		for _, scenario := range recovery.Scenarios() {
			if scenario.NeedsNodes() {
				asking++
				Expect(scenario.Losses).To(ContainElement(HaveField("Kind", recovery.Node)))
			}
		}
		Expect(asking).To(Equal(1))
	})
})

var _ = Describe("Losses", func() {
	const (
		fifth = gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords
		last  = gardencorev1beta1.ShootLiveMigrationMigrationCompleted
	)

	It("should each have a verdict of their own", func() {
		volume := recovery.Loss{Kind: recovery.Volume, Role: steps.Source, Step: fifth}
		amid := recovery.Loss{Kind: recovery.Volume, Role: steps.Destination, Step: last, Amid: true}
		passed := recovery.Verdict{Loss: volume, Tried: true, Took: 61 * time.Second}
		Expect(passed.String()).To(Equal("passed: volume of the source before MigrateDNSRecords, after 1m1s"))
		Expect(recovery.Judge([]recovery.Verdict{passed})).To(Succeed())

		err := recovery.Judge([]recovery.Verdict{
			passed,
			{Loss: recovery.Loss{Kind: recovery.Garden, Step: fifth}, Tried: true, Err: errors.New("no way")},
			{Loss: amid, Err: errors.New("no such step")},
		})
		Expect(err).To(MatchError("failed: garden before MigrateDNSRecords, after 0s: no way\n" +
			"not tried: volume of the destination in MigrationCompleted: no such step"))
		Expect(recovery.Judge([]recovery.Verdict{{Loss: amid}})).To(HaveOccurred(), "what was not tried has not passed")
	})

	It("should pause the migration before they happen, but not for one in the middle of a step", func() {
		Expect(recovery.PauseFor(nil)).To(BeEmpty())
		Expect(recovery.PauseFor([]recovery.Loss{{Step: fifth}, {Step: last}})).To(Equal(fifth))
		Expect(recovery.PauseFor([]recovery.Loss{{Step: last, Amid: true}})).To(BeEmpty())
	})

	peers := func(ports ...string) map[string][]string {
		out := map[string][]string{}
		for i, port := range ports {
			name := "seed-b-etcd-main-" + string(rune('0'+i))
			for _, each := range strings.Split(port, "+") {
				out[name] = append(out[name], "https://etcd-main.svc:"+each)
			}
		}
		return out
	}
	It("should happen in the last step when the first member has restarted and no other one", func() {
		Expect(recovery.AmidRoll(peers("2381", "2381", "2381"), "seed-b")).To(BeFalse())
		Expect(recovery.AmidRoll(peers("2381", "2381", "2380+2381"), "seed-b")).To(BeFalse(), "it is about to restart")
		Expect(recovery.AmidRoll(peers("2381", "2381", "2380"), "seed-b")).To(BeTrue())
		Expect(recovery.AmidRoll(peers("2381", "2380+2381", "2380"), "seed-b")).To(BeTrue())
		Expect(recovery.AmidRoll(nil, "seed-b")).To(BeFalse())
		_, err := recovery.AmidRoll(peers("2381", "2380", "2380"), "seed-b")
		Expect(err).To(MatchError(ContainSubstring("member 1 of etcd-main has restarted before the loss")))
	})

	DescribeTable("a member has joined again", func(now map[string]uint64, learners int, joined bool) {
		missing := recovery.Missing(now, learners, map[string]uint64{"a-1": 7})
		if joined {
			Expect(missing).To(BeEmpty())
		} else {
			Expect(missing).NotTo(BeEmpty())
		}
	},
		Entry("with another identifier", map[string]uint64{"a-0": 1, "a-1": 8}, 0, true),
		Entry("not with the same one", map[string]uint64{"a-0": 1, "a-1": 7}, 0, false),
		Entry("not as long as it is gone", map[string]uint64{"a-0": 1}, 0, false),
		Entry("not as long as it has no vote", map[string]uint64{"a-0": 1, "a-1": 8}, 1, false),
	)
})

var _ = Describe("Replacing a relay", func() {
	relay := func(uid types.UID, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "livecpm-relay-1", UID: uid},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}

	It("should wait for another pod that is ready", func(ctx SpecContext) {
		kube := fake.NewClientset(relay("one", corev1.ConditionTrue))
		short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		Expect(recovery.ReplaceRelay(short, kube, "shoot", 1)).To(MatchError(ContainSubstring("the next pod")))
		Expect(kube.Tracker().Add(relay("two", corev1.ConditionTrue))).To(Succeed())
		done := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			done <- recovery.ReplaceRelay(ctx, kube, "shoot", 1)
		}()
		Eventually(func() error {
			_, err := kube.CoreV1().Pods("shoot").Get(ctx, "livecpm-relay-1", metav1.GetOptions{})
			return err
		}).WithTimeout(patience.Eventually).Should(HaveOccurred())
		Expect(kube.Tracker().Add(relay("three", corev1.ConditionTrue))).To(Succeed())
		Eventually(done).WithTimeout(patience.Eventually).Should(Receive(BeNil()))
	})

	It("should say which relay there is not", func(ctx SpecContext) {
		Expect(recovery.ReplaceRelay(ctx, fake.NewClientset(), "shoot", 2)).
			To(MatchError(ContainSubstring("livecpm-relay-2")))
	})
})
