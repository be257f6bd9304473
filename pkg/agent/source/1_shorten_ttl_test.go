// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The TTL of the source's DNS records", func() {
	const (
		external = "live-external"
		internal = "live-internal"
		ingress  = "live-ingress"
	)
	var (
		ctx    = context.Background()
		m      *migration.Migration
		deps   *source.Deps
		record = func(name string, ttl int64) *extensionsv1alpha1.DNSRecord {
			return &extensionsv1alpha1.DNSRecord{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
					Finalizers: []string{"extensions.gardener.cloud/dnsrecord"}},
				Spec: extensionsv1alpha1.DNSRecordSpec{TTL: ptr.To(ttl)},
				Status: extensionsv1alpha1.DNSRecordStatus{DefaultStatus: extensionsv1alpha1.DefaultStatus{
					LastOperation: &gardencorev1beta1.LastOperation{
						State: gardencorev1beta1.LastOperationStateSucceeded,
					},
				}},
			}
		}
		etcd = func(name string) client.Object {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		}
		// setUp makes a landscape in which the agent of the destination wants the TTL.
		setUp = func(wanted time.Duration, records ...client.Object) {
			value, err := seedfacts.Encode(seedfacts.Agent{Waits: &seedfacts.Waits{
				ShortTTL: metav1.Duration{Duration: wanted},
			}})
			Expect(err).NotTo(HaveOccurred())
			deps = newDeps(append(records, etcd("etcd-main"), etcd("etcd-events"))...)
			deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
				&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b",
					Annotations: map[string]string{seedfacts.AnnotationAgent: value}}}).Build()
		}
		read = func(name string) *extensionsv1alpha1.DNSRecord {
			GinkgoHelper()
			out := &extensionsv1alpha1.DNSRecord{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, out)).
				To(Succeed())
			return out
		}
		ttlOf = func(name string) int64 { GinkgoHelper(); return *read(name).Spec.TTL }
		// settle does what the record's controller does.
		settle = func(name string, state gardencorev1beta1.LastOperationState) {
			GinkgoHelper()
			settled := read(name)
			delete(settled.Annotations, "gardener.cloud/operation")
			settled.Status.LastOperation.State = state
			Expect(deps.SeedClientSet.Client().Update(ctx, settled)).To(Succeed())
		}
	)

	BeforeEach(func() {
		m = &migration.Migration{
			Shoot: &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
				Status:     gardencorev1beta1.ShootStatus{TechnicalID: namespace},
			},
			SourceSeed: "seed-a", DestinationSeed: "seed-b",
			Clock: testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		}
	})

	It("should become short for the records that lead clients, and be carried out by their controller", func() {
		setUp(30*time.Second, record(external, 120), record(internal, 120), record(ingress, 120))
		Expect(source.ShortenTTL(ctx, deps, m)).To(Succeed())
		for _, name := range []string{external, internal} {
			Expect(ttlOf(name)).To(Equal(int64(30)))
			Expect(read(name).Annotations).To(And(HaveKeyWithValue("gardener.cloud/operation", "reconcile"),
				HaveKeyWithValue(source.AnnotationFormerTTL, "120"),
				HaveKeyWithValue("gardener.cloud/timestamp", "2026-11-20T12:00:00Z")))
		}
		Expect(ttlOf(ingress)).To(Equal(int64(120)))
	})

	DescribeTable("stays as it is",
		func(wanted time.Duration, change func(*extensionsv1alpha1.DNSRecord)) {
			unchanged := record(external, 120)
			change(unchanged)
			ttl := *unchanged.Spec.TTL
			setUp(wanted, unchanged)
			Expect(source.ShortenTTL(ctx, deps, m)).To(Succeed())
			Expect(ttlOf(external)).To(Equal(ttl))
			Expect(read(external).Annotations).NotTo(HaveKey(source.AnnotationFormerTTL))
		},
		Entry("if the destination wants none that is short, or knows of none", time.Duration(0),
			func(*extensionsv1alpha1.DNSRecord) {}),
		Entry("if the destination wants a longer one", 3*time.Minute, func(*extensionsv1alpha1.DNSRecord) {}),
		Entry("if it is short already", 30*time.Second,
			func(r *extensionsv1alpha1.DNSRecord) { r.Spec.TTL = ptr.To[int64](20) }),
		Entry("if it is longer than the destination can know", 30*time.Second,
			func(r *extensionsv1alpha1.DNSRecord) { r.Spec.TTL = ptr.To[int64](300) }),
		Entry("while the record's controller is at work", 30*time.Second, func(r *extensionsv1alpha1.DNSRecord) {
			r.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		}),
	)

	It("should be found out from the destination's agent, or stay", func() {
		setUp(30*time.Second, record(external, 120))
		m.DestinationSeed = "seed-c"
		Expect(source.ShortenTTL(ctx, deps, m)).To(MatchError(ContainSubstring("failed to read seed seed-c")))
		Expect(ttlOf(external)).To(Equal(int64(120)))
	})

	It("should be that of before after an abort", func() {
		setUp(30*time.Second, record(external, 120), record(internal, 60))
		Expect(source.ShortenTTL(ctx, deps, m)).To(Succeed())
		Expect(source.GiveTTLsBack(ctx, deps, m)).To(Succeed())
		Expect(ttlOf(external)).To(Equal(int64(120)))
		Expect(ttlOf(internal)).To(Equal(int64(60)))
		for _, name := range []string{external, internal} {
			Expect(read(name).Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
			Expect(read(name).Annotations).NotTo(HaveKey(source.AnnotationFormerTTL))
		}
	})

	It("should not be given back twice", func() {
		setUp(30*time.Second, record(external, 120))
		Expect(source.GiveTTLsBack(ctx, deps, m)).To(Succeed())
		Expect(read(external).Annotations).NotTo(HaveKey("gardener.cloud/operation"))
	})

	It("should say how to go back if what was remembered cannot be read", func() {
		broken := record(external, 30)
		broken.Annotations = map[string]string{source.AnnotationFormerTTL: "long"}
		setUp(30*time.Second, broken)
		Expect(source.GiveTTLsBack(ctx, deps, m)).To(MatchError(ContainSubstring(
			"correct it, or remove it to keep the TTL of 30 s")))
	})

	It("should hold no migration whose provider refuses the short one", func() {
		setUp(30*time.Second, record(external, 120))
		Expect(source.ShortenTTL(ctx, deps, m)).To(Succeed())
		settle(external, gardencorev1beta1.LastOperationStateError)

		outcome, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReleasingDNSRecords))
		Expect(ttlOf(external)).To(Equal(int64(120)))
		settle(external, gardencorev1beta1.LastOperationStateSucceeded)

		outcome, err = source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})
})
