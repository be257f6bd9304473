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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
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
		publisher = &agent.Publisher{Log: logr.Discard(), Reader: c, Writer: c, SeedName: seedA,
			Facts: []agent.Fact{agent.TLSTermination(true)}, Clock: clk}
	})

	It("should say on its Seed where TLS ends, and write no more than that takes", func() {
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(published()).To(Equal(map[string]string{"other": "kept", seedfacts.AnnotationTLSTermination: "true"}))
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(writes.Load()).To(Equal(int32(1)))

		publisher.Facts = []agent.Fact{agent.TLSTermination(false)}
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(published()).To(HaveKeyWithValue(seedfacts.AnnotationTLSTermination, "false"))
		Expect(writes.Load()).To(Equal(int32(2)))
	})

	DescribeTable("should say what the configurations of the gardenlet and of the agent have",
		func(fact agent.Fact, annotation, value string) {
			publisher.Facts = []agent.Fact{fact}
			Expect(publisher.Publish(ctx)).To(Succeed())
			Expect(published()).To(HaveKeyWithValue(annotation, value))
		},
		Entry("handlers of ExposureClasses", agent.ExposureClassHandlers([]string{"dmz", "intranet"}),
			seedfacts.AnnotationExposureClassHandlers, `["dmz","intranet"]`),
		Entry("no handler of ExposureClasses", agent.ExposureClassHandlers(nil),
			seedfacts.AnnotationExposureClassHandlers, "[]"),
		Entry("extensions for access control", agent.AccessControl([]string{"other", "acl"}),
			seedfacts.AnnotationAccessControl, "acl,other"),
		Entry("what it speaks", agent.Protocols(steps.Protocols{Oldest: 2, Newest: 3}), steps.SeedAnnotationProtocols,
			"2-3"),
		Entry("what it is", agent.Build(seedfacts.Agent{Release: "v0.1.0", Gardener: "v1.150.0",
			Relay: "relay:v0.1.0"}),
			seedfacts.AnnotationAgent, `{"release":"v0.1.0","gardener":"v1.150.0","relay":"relay:v0.1.0"}`),
		Entry("for how long it waits", agent.Build(seedfacts.Agent{Release: "v0.1.0", Gardener: "v1.150.0",
			Relay: "relay:v0.1.0", Waits: &seedfacts.Waits{DNSMargin: metav1.Duration{Duration: 30 * time.Second},
				Drain:        metav1.Duration{Duration: 70 * time.Second},
				DrainTimeout: metav1.Duration{Duration: time.Minute},
				GatewayDrain: metav1.Duration{Duration: time.Minute}}}),
			seedfacts.AnnotationAgent, `{"release":"v0.1.0","gardener":"v1.150.0","relay":"relay:v0.1.0",`+
				`"waits":{"dnsMargin":"30s","drain":"1m10s","drainTimeout":"1m0s","gatewayDrain":"1m0s"}}`),
		Entry("that it migrates shoots with workers", agent.Workers(true), seedfacts.AnnotationWorkers, "true"),
		Entry("that it does not", agent.Workers(false), seedfacts.AnnotationWorkers, "false"),
		Entry("no extension for access control", agent.AccessControl(nil), seedfacts.AnnotationAccessControl, ""),
	)

	It("should write several facts at once", func() {
		publisher.Facts = append(publisher.Facts, agent.Protocols(steps.Protocols{Oldest: 1, Newest: 1}))
		Expect(publisher.Publish(ctx)).To(Succeed())
		Expect(published()).To(And(HaveKeyWithValue(seedfacts.AnnotationTLSTermination, "true"),
			HaveKeyWithValue(steps.SeedAnnotationProtocols, "1")))
		Expect(writes.Load()).To(Equal(int32(1)))
	})

	It("should give what is written to whoever finds out what should be, and leave it if that fails", func() {
		var failure error
		publisher.Facts = []agent.Fact{{Annotation: "fact",
			Value: func(_ context.Context, current string) (string, error) { return current + "more", failure }}}
		for _, expected := range []string{"more", "moremore"} {
			Expect(publisher.Publish(ctx)).To(Succeed())
			Expect(published()).To(HaveKeyWithValue("fact", expected))
		}
		failure = errors.New("nobody knows")
		Expect(publisher.Publish(ctx)).
			To(MatchError("failed to find out what annotation fact of Seed seed-a has to say: nobody knows"))
		Expect(published()).To(HaveKeyWithValue("fact", "moremore"))
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
		Expect(published()).NotTo(HaveKey(seedfacts.AnnotationTLSTermination))
		clk.Step(time.Minute)
		Eventually(published).Should(HaveKey(seedfacts.AnnotationTLSTermination))

		seed := &gardencorev1beta1.Seed{}
		Expect(publisher.Reader.Get(ctx, client.ObjectKey{Name: seedA}, seed)).To(Succeed())
		seed.Annotations = nil
		Expect(publisher.Writer.Update(ctx, seed)).To(Succeed())
		clk.Step(time.Minute)
		Eventually(published).Should(HaveKey(seedfacts.AnnotationTLSTermination))
	})
})
