// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

var _ = Describe("A fault that comes back", func() {
	var (
		targets *fakes
		f       fault.Fault
	)

	BeforeEach(func() {
		targets = newFakes()
		var ok bool
		f, ok = fault.Get("agent-kill-again-both")
		Expect(ok).To(BeTrue())
		fault.ComesBackAfter(f, 20*time.Millisecond)
	})

	// lead makes an agent of a seed the leader.
	lead := func(ctx context.Context, role steps.Role, agent string) {
		GinkgoHelper()
		leases := targets.seeds[role].CoordinationV1().Leases("garden")
		lease, err := leases.Get(ctx, "livecpm-agent-leader-election", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity = ptr.To(agent + "_2c3d")
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	inForce := func(ctx context.Context) bool {
		GinkgoHelper()
		inForce, err := f.(fault.Fleeting).InForce(ctx, &targets.Targets)
		Expect(err).NotTo(HaveOccurred())
		return inForce
	}

	It("should kill who takes over as well, until it is healed", func(ctx SpecContext) {
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		Expect(inForce(ctx)).To(BeFalse(), "it has struck only once")
		targets.TakeProofs()
		Expect(f.(fault.Witnessed).Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(BeEmpty())

		lead(ctx, steps.Source, "livecpm-agent-0")
		lead(ctx, steps.Destination, "livecpm-agent-0")
		Eventually(inForce).WithContext(ctx).WithTimeout(time.Minute).Should(BeTrue())
		Expect(f.(fault.Witnessed).Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(ConsistOf("it struck 2 times"))

		Expect(f.Heal(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.killed()).To(ConsistOf("source livecpm-agent-1 agent", "source livecpm-agent-0 agent",
			"destination livecpm-agent-1 agent", "destination livecpm-agent-0 agent"))
		Expect(f.Heal(ctx, &targets.Targets)).To(Succeed(), "it is over")
	})

	It("should be refused where there is nothing to hit, as the fault itself is", func(ctx SpecContext) {
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(f.Heal(ctx, &targets.Targets)).To(Succeed()) })
		other, _ := fault.Get("agent-kill-again-both")
		Expect(other.Inject(ctx, &targets.Targets)).To(MatchError(ContainSubstring("livecpm-agent-1")))
		Expect(other.Heal(ctx, &targets.Targets)).To(Succeed())
	})

	It("should end while its context does, and say so if a strike does not", func(ctx SpecContext) {
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		over, cancel := context.WithCancel(ctx)
		cancel()
		// Whichever of the two the call sees first, nothing strikes after a healing that has succeeded.
		if f.Heal(over, &targets.Targets) != nil {
			Expect(f.Heal(ctx, &targets.Targets)).To(Succeed())
		}
		Expect(targets.killed()).To(HaveLen(2))
	})
})
