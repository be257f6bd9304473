// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("The record of the ingress domain", func() {
	var (
		ctx     = context.Background()
		record  *extensionsv1alpha1.DNSRecord
		gateway *corev1.Service
		values  = Values{Namespace: namespace, Role: steps.Source, Image: "relay",
			TLSSecretName: "tls", Domain: "ingress.seed-a.example", PeerDomain: "ingress.seed-b.example",
			Istio: Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway"}}
	)
	exposed := func(objects ...client.Object) (client.WithWatch, Interface) {
		c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		return c, New(logr.Discard(), c, values)
	}

	BeforeEach(func() {
		// As the gardenlet makes it.
		record = &extensionsv1alpha1.DNSRecord{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "seed-ingress", Generation: 1},
			Spec: extensionsv1alpha1.DNSRecordSpec{Name: "*.ingress.seed-a.example",
				RecordType: extensionsv1alpha1.DNSRecordTypeA, Values: []string{"10.250.0.21"}},
		}
		record.Status.ObservedGeneration = 1
		record.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded}
		gateway = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress",
			Name: "istio-ingressgateway"}}
		gateway.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}
	})

	lead := func(to ...corev1.LoadBalancerIngress) { gateway.Status.LoadBalancer.Ingress = to }

	DescribeTable("serves", func(change func()) {
		change()
		c, _ := exposed(record, gateway)
		Expect(CheckRecord(ctx, c, values)).To(Succeed())
	},
		Entry("with an address", func() {}),
		Entry("with a host name", func() {
			record.Spec.RecordType = extensionsv1alpha1.DNSRecordTypeCNAME
			record.Spec.Values = []string{"lb.cloud.example"}
			lead(corev1.LoadBalancerIngress{Hostname: "lb.cloud.example"})
		}),
		Entry("with an IPv6 address", func() {
			record.Spec.RecordType = extensionsv1alpha1.DNSRecordTypeAAAA
			record.Spec.Values = []string{"2001:db8::21"}
			lead(corev1.LoadBalancerIngress{IP: "2001:db8::21"})
		}),
		Entry("with one of two addresses", func() {
			lead(corev1.LoadBalancerIngress{IP: "2001:db8::21"}, corev1.LoadBalancerIngress{IP: "10.250.0.21"})
		}),
	)

	DescribeTable("does not serve", func(problem string, change func()) {
		change()
		c, _ := exposed(record, gateway)
		Expect(CheckRecord(ctx, c, values)).To(MatchError(ContainSubstring(problem)))
	},
		Entry("another name", "DNSRecord garden/seed-ingress is for api.example instead of *.ingress.seed-a.example",
			func() { record.Spec.Name = "api.example" }),
		Entry("the gateway of another ExposureClass or zone", "leads to 10.250.0.22, which is no address of Service "+
			"istio-ingress/istio-ingressgateway", func() { record.Spec.Values = []string{"10.250.0.22"} }),
		Entry("a gateway that has lost its load balancer", "leads to 10.250.0.21, which is no address",
			func() { lead() }),
		Entry("nothing", "leads nowhere", func() { record.Spec.Values = nil }),
		Entry("while it is written", "is not ready", func() { record.Generation = 2 }),
		Entry("after an error of its provider", "is not ready", func() {
			record.Status.LastError = &gardencorev1beta1.LastError{Description: "forbidden"}
		}),
	)

	It("should not be taken for granted", func() {
		c, _ := exposed(gateway)
		Expect(CheckRecord(ctx, c, values)).To(MatchError(ContainSubstring(
			"failed to get DNSRecord garden/seed-ingress, by which the other seed finds the ingress gateway")))
		c, _ = exposed(record)
		Expect(CheckRecord(ctx, c, values)).To(MatchError(ContainSubstring("failed to get Service istio-ingress/")))
	})

	It("should be waited for with the relay", func() {
		c, e := exposed(record, gateway)
		Expect(e.Deploy(ctx)).To(Succeed())
		relay := &appsv1.StatefulSet{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, relay)).To(Succeed())
		relay.Status = appsv1.StatefulSetStatus{ObservedGeneration: relay.Generation, Replicas: 3, ReadyReplicas: 3,
			UpdatedReplicas: 3, CurrentReplicas: 3}
		Expect(c.Status().Update(ctx, relay)).To(Succeed())
		Expect(e.Wait(ctx)).To(Succeed())

		record.Spec.Values = nil
		Expect(c.Update(ctx, record)).To(Succeed())
		waiting, cancel := context.WithCancel(ctx)
		e = New(logr.Discard(), interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context,
			c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*extensionsv1alpha1.DNSRecord); ok {
				cancel()
				return c.Get(context.WithoutCancel(ctx), key, object, opts...)
			}
			return c.Get(ctx, key, object, opts...)
		}}), Values{Namespace: namespace, Role: steps.Source, Domain: "ingress.seed-a.example",
			Istio: Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway"}})
		Expect(e.Wait(waiting)).To(MatchError(ContainSubstring("leads nowhere")))
	})
})
