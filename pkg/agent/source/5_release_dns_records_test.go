// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Releasing DNS records", func() {
	var (
		ctx        = context.Background()
		m          *migration.Migration
		deps       *source.Deps
		seedClient client.Client
		functions  interceptor.Funcs
		etcd       = func(name string) client.Object {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		}
		record = func(name string, mutate ...func(*extensionsv1alpha1.DNSRecord)) *extensionsv1alpha1.DNSRecord {
			r := &extensionsv1alpha1.DNSRecord{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
					Finalizers: []string{"extensions.gardener.cloud/dnsrecord"}},
				Status: extensionsv1alpha1.DNSRecordStatus{DefaultStatus: extensionsv1alpha1.DefaultStatus{
					LastOperation: &gardencorev1beta1.LastOperation{
						State: gardencorev1beta1.LastOperationStateSucceeded,
					},
				}},
			}
			for _, f := range mutate {
				f(r)
			}
			return r
		}
		setUp = func(records ...client.Object) {
			seedClient = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(
				functions).WithObjects(records...).WithObjects(etcd("etcd-main"), etcd("etcd-events")).Build()
			deps = newDeps()
			deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seedClient).WithAPIReader(seedClient).
				Build()
		}
		exists = func(name string) bool {
			err := seedClient.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name},
				&extensionsv1alpha1.DNSRecord{})
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			return !apierrors.IsNotFound(err)
		}
	)

	BeforeEach(func() {
		functions = interceptor.Funcs{}
		m = &migration.Migration{Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
			Status:     gardencorev1beta1.ShootStatus{TechnicalID: namespace},
		}}
	})

	It("should remove the shoot's objects and keep those of the exposure", func() {
		setUp(record("live-external"), record("live-internal"), record("livecpm-relay-etcd-main-0"))
		outcome, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(exists("live-external")).To(BeFalse())
		Expect(exists("live-internal")).To(BeFalse())
		Expect(exists("livecpm-relay-etcd-main-0")).To(BeTrue())
	})

	It("should take the finalizers off before it deletes, so no controller sees a deletion", func() {
		var order []string
		functions.Patch = func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if _, ok := obj.(*extensionsv1alpha1.DNSRecord); !ok {
				return c.Patch(ctx, obj, patch, opts...)
			}
			order = append(order, "patch")
			Expect(obj.GetFinalizers()).To(BeEmpty())
			Expect(obj.GetAnnotations()).To(HaveKeyWithValue("confirmation.gardener.cloud/deletion", "true"))
			return c.Patch(ctx, obj, patch, opts...)
		}
		functions.Delete = func(ctx context.Context, c client.WithWatch, obj client.Object,
			opts ...client.DeleteOption) error {
			order = append(order, "delete")
			options := (&client.DeleteOptions{}).ApplyOptions(opts)
			Expect(options.Preconditions.ResourceVersion).To(HaveValue(Equal(obj.GetResourceVersion())))
			Expect(options.Preconditions.UID).To(HaveValue(Equal(obj.GetUID())))
			return c.Delete(ctx, obj, opts...)
		}
		setUp(record("live-external"))
		_, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(order).To(Equal([]string{"patch", "delete"}))
	})

	It("should keep etcd-druid from restarting what will be retired", func() {
		setUp()
		_, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"etcd-main", "etcd-events"} {
			e := &druidcorev1alpha1.Etcd{}
			Expect(seedClient.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, e)).To(Succeed())
			Expect(e.Annotations).To(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
		}
	})

	It("should name the only member of the destination when all else is done, and not before", func() {
		config := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-config"},
				Data: map[string]string{"etcd.conf.yaml": "initial-cluster: " + name + "-0=http://here:2380\n"}}
		}
		named := func() bool {
			GinkgoHelper()
			events := config("etcd-events")
			Expect(seedClient.Get(ctx, client.ObjectKeyFromObject(events), events)).To(Succeed())
			return strings.Contains(events.Data["etcd.conf.yaml"], ",seed-b-etcd-events-0=http://")
		}
		m.Shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
		m.Role, m.SourceSeed, m.DestinationSeed = steps.Source, "seed-a", "seed-b"
		busy := record("live-external", func(r *extensionsv1alpha1.DNSRecord) {
			r.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
		})
		setUp(busy, config("etcd-main"), config("etcd-events"))
		_, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(named()).To(BeFalse())
		busy.Annotations = nil
		Expect(seedClient.Update(ctx, busy)).To(Succeed())
		outcome, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(named()).To(BeTrue())

		setUp()
		_, err = source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).To(MatchError(ContainSubstring("failed to name the members of the destination")))
	})

	It("should have nothing to do when it is repeated", func() {
		setUp()
		outcome, err := source.ReleaseDNSRecords(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})

	DescribeTable("waits while the record's controller may be writing",
		func(mutate func(*extensionsv1alpha1.DNSRecord)) {
			setUp(record("live-external", mutate))
			outcome, err := source.ReleaseDNSRecords(ctx, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Finished()).To(BeFalse())
			Expect(outcome.Reason).To(Equal(steps.ReasonReleasingDNSRecords))
			Expect(exists("live-external")).To(BeTrue())
		},
		Entry("an operation is requested", func(r *extensionsv1alpha1.DNSRecord) {
			r.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
		}),
		Entry("the last operation is in progress", func(r *extensionsv1alpha1.DNSRecord) {
			r.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		}),
		Entry("nothing was done yet", func(r *extensionsv1alpha1.DNSRecord) { r.Status.LastOperation = nil }),
		Entry("the latest generation was not observed", func(r *extensionsv1alpha1.DNSRecord) { r.Generation = 2 }),
	)
})

var _ = DescribeTable("The DNS records of the source are released", func(waiting string, states ...string) {
	var seen []extensionsv1alpha1.DNSRecord
	for _, state := range states {
		record := extensionsv1alpha1.DNSRecord{ObjectMeta: metav1.ObjectMeta{Name: state}}
		record.Status.LastOperation = &gardencorev1beta1.LastOperation{
			State: gardencorev1beta1.LastOperationStateSucceeded,
		}
		switch state {
		case "processing":
			record.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		case "requested":
			record.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
		case "unseen":
			record.Generation = 2
		case "untouched":
			record.Status.LastOperation = nil
		case "deleted":
			record.Status.LastOperation, record.DeletionTimestamp = nil, &metav1.Time{}
		}
		seen = append(seen, record)
	}
	Expect(source.WaitingForDNSRecords(seen)).To(Equal(waiting))
},
	Entry("when none is left", ""),
	Entry("not while one is there", "DNSRecord settled still exists", "settled"),
	Entry("not while one is being deleted", "DNSRecord deleted still exists", "deleted"),
	Entry("not while a controller works on one",
		"The controller of DNSRecord processing is still working on it", "settled", "processing"),
	Entry("not while a controller has a request", "The controller of DNSRecord requested is still working on it",
		"requested"),
	Entry("not while a controller has not seen a change", "The controller of DNSRecord unseen is still working on it",
		"unseen"),
	Entry("not before a controller has done anything", "The controller of DNSRecord untouched is still working on it",
		"untouched"),
)
