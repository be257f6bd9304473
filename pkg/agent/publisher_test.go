// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Publisher", func() {
	var (
		ctx       context.Context
		refusals  atomic.Int32 // how many patches are still refused
		writes    atomic.Int32
		publisher *agent.Publisher
		clk       *testclock.FakeClock
	)
	published := func() map[string]string {
		GinkgoHelper()
		seed := &gardencorev1beta1.Seed{}
		Expect(publisher.Reader.Get(ctx, client.ObjectKey{Name: seedA}, seed)).To(Succeed())
		return seed.Annotations
	}

	BeforeEach(func() {
		ctx = context.Background()
		refusals.Store(0)
		writes.Store(0)
		seed := seed(seedA, version)
		seed.Annotations = map[string]string{"other": "kept"}
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(seed).
			WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch,
				object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if refusals.Add(-1) >= 0 {
					return errors.New("forbidden")
				}
				writes.Add(1)
				return c.Patch(ctx, object, patch, options...)
			}}).Build()
		clk = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		publisher = &agent.Publisher{Log: logr.Discard(), Reader: c, Writer: c, SeedName: seedA, TLSTermination: true,
			Clock: clk}
	})

	It("should say on its Seed where TLS ends, and write no more than that takes", func() {
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(published()).To(Equal(map[string]string{"other": "kept", steps.SeedAnnotationTLSTermination: "true"}))
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(writes.Load()).To(Equal(int32(1)))

		publisher.TLSTermination = false
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(published()).To(HaveKeyWithValue(steps.SeedAnnotationTLSTermination, "false"))
	})

	It("should name the Seed that it could not read or write", func() {
		refusals.Store(1)
		Expect(publisher.Publish(ctx)).To(MatchError(ContainSubstring("failed to annotate Seed seed-a")))
		publisher.SeedName = "gone"
		Expect(publisher.Publish(ctx)).To(MatchError(ContainSubstring("failed to read Seed gone")))
	})

	It("should try again, and write again what somebody has removed", func() {
		refusals.Store(1)
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- publisher.Start(running) }()
		DeferCleanup(func() {
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		})
		Eventually(refusals.Load).Should(BeNumerically("<=", 0))
		Eventually(clk.HasWaiters).Should(BeTrue())
		Expect(published()).NotTo(HaveKey(steps.SeedAnnotationTLSTermination))
		clk.Step(time.Minute)
		Eventually(published).Should(HaveKey(steps.SeedAnnotationTLSTermination))

		seed := &gardencorev1beta1.Seed{}
		Expect(publisher.Reader.Get(ctx, client.ObjectKey{Name: seedA}, seed)).To(Succeed())
		seed.Annotations = nil
		Expect(publisher.Writer.Update(ctx, seed)).To(Succeed())
		clk.Step(time.Minute)
		Eventually(published).Should(HaveKey(steps.SeedAnnotationTLSTermination))
	})
})
