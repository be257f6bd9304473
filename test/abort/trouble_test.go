// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// testFault counts how often it was injected and healed.
type testFault struct {
	course           fault.Course
	injected, healed atomic.Int32
	// injectErr is what every injection comes to, unhealed how many attempts to heal fail.
	injectErr error
	unhealed  atomic.Int32
	// struck and over are when it was injected and healed. A heal waits for hold, if that is set.
	struck, over time.Time
	hold         chan struct{}
}

func (f *testFault) Name() string                          { return "test" }
func (f *testFault) Family() string                        { return "test" }
func (f *testFault) Applies(steps.Step, fault.Moment) bool { return true }
func (f *testFault) Course() fault.Course                  { return f.course }

func (f *testFault) Inject(context.Context, *fault.Targets) error {
	f.injected.Add(1)
	f.struck = time.Now()
	return f.injectErr
}

func (f *testFault) Heal(context.Context, *fault.Targets) error {
	if f.unhealed.Add(-1) >= 0 {
		return errors.New("not yet")
	}
	if f.hold != nil {
		<-f.hold
	}
	f.over = time.Now()
	f.healed.Add(1)
	return nil
}

var _ = Describe("A fault beside an abort", func() {
	It("should be over after its time, whether or not the abort is completed", func(ctx SpecContext) {
		f := &testFault{course: fault.Course{Lasts: 10 * time.Millisecond}}
		end, cancel, err := abort.Strike(ctx, f)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.injected.Load()).To(BeEquivalentTo(1))
		Eventually(f.healed.Load).Should(BeEquivalentTo(1))
		Expect(end(ctx)).To(Succeed())
		cancel()
		Expect(f.healed.Load()).To(BeEquivalentTo(1))
	})

	It("should end with the abort if it lasts through a step", func(ctx SpecContext) {
		f := &testFault{course: fault.Course{Lasts: time.Hour, ThroughStep: true}}
		end, cancel, err := abort.Strike(ctx, f)
		Expect(err).NotTo(HaveOccurred())
		defer cancel()
		Consistently(f.healed.Load, 50*time.Millisecond).Should(BeZero())
		Expect(end(ctx)).To(Succeed())
		Expect(f.healed.Load()).To(BeEquivalentTo(1))
	})

	It("should be waited for until it is over", func(ctx SpecContext) {
		f := &testFault{course: fault.Course{Lasts: 100 * time.Millisecond}, hold: make(chan struct{})}
		end, cancel, err := abort.Strike(ctx, f)
		Expect(err).NotTo(HaveOccurred())
		defer cancel()
		release := sync.OnceFunc(func() { close(f.hold) })
		defer release()
		ended := make(chan error, 1)
		go func() { ended <- end(ctx) }()
		Consistently(ended, 200*time.Millisecond).ShouldNot(Receive(), "it is not healed")
		release()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(f.healed.Load()).To(BeEquivalentTo(1))
		Expect(f.over.Sub(f.struck)).To(BeNumerically(">=", f.course.Lasts))
	})

	It("should be ended before its time when the test is given up, and be tried again until that succeeds",
		func(ctx SpecContext) {
			f := &testFault{course: fault.Course{Lasts: time.Hour}}
			f.unhealed.Store(1)
			givenUp, giveUp := context.WithCancel(ctx)
			end, cancel, err := abort.Strike(givenUp, f)
			Expect(err).NotTo(HaveOccurred())
			giveUp()
			Expect(end(givenUp)).To(MatchError(context.Canceled))
			cancel()
			Expect(f.healed.Load()).To(BeEquivalentTo(1))
		})

	It("should be healed if it has struck only in part", func(ctx SpecContext) {
		f := &testFault{course: fault.Course{Lasts: time.Hour}, injectErr: errors.New("no such pod")}
		_, _, err := abort.Strike(ctx, f)
		Expect(err).To(MatchError("failed to inject test: no such pod"))
		Expect(f.healed.Load()).To(BeEquivalentTo(1))
	})
})

var _ = DescribeTable("Suits", func(name, moment, problem string) {
	f, _ := fault.Get(name)
	var at abort.Moment
	for _, m := range abort.Moments() {
		if m.Name == moment {
			at = m
		}
	}
	Expect(at.Name).To(Equal(moment))
	err := abort.Suits(f, at)
	if problem == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(ContainSubstring(problem)))
},
	Entry("no fault", "", "in the first step", ""),
	Entry("a cut while members join", "cut-60s", "with members joined", ""),
	Entry("an agent at any time", "agent-kill-both", "before the first step", ""),
	Entry("a cut where nothing crosses it", "cut-60s", "in the first step",
		"cut-60s has nothing to hit in the first step (SourceEtcdPreparedForPeerJoin): choose other moments"),
	Entry("a garden that cannot be asked", "garden-stop-60s", "with members joined",
		"the abort is asked for in the garden"),
	Entry("a garden without its etcd", "garden-etcd-stop-60s", "with members joined",
		"the abort is asked for in the garden"),
	Entry("a controller that would be another pod afterwards", "kube-controller-manager-kill-source",
		"with members joined", "none of those from before"),
	Entry("a gateway, whose pods belong to no shoot", "gateway-kill-source", "with members joined", ""),
	Entry("a pod that would be another one afterwards", "apiserver-delete-source", "with members joined",
		"none of those from before"),
)
