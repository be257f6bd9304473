// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"
	"fmt"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("The addresses of a deployed relay", func() {
	var (
		ctx = context.Background()
		c   client.WithWatch
	)
	values := func(namespace string, role steps.Role) Values {
		return Values{Namespace: namespace, Role: role, Image: "relay", TLSSecretName: "tls",
			Domain: "ingress.seed-a.example", PeerDomain: "ingress.seed-b.example",
			Istio: Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway"}}
	}
	deploy := func(namespace string, role steps.Role) *appsv1.StatefulSet {
		GinkgoHelper()
		Expect(New(logr.Discard(), c, values(namespace, role)).Deploy(ctx)).To(Succeed())
		statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
		return statefulSet
	}
	// run has the pod of an ordinal run at an address, instead of the one that there was.
	run := func(c client.Client, namespace string, ordinal int, address string) {
		GinkgoHelper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", Name, ordinal),
				Labels: map[string]string{"app": Name}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address,
				Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}},
		}
		Expect(client.IgnoreNotFound(c.Delete(ctx, pod.DeepCopy()))).To(Succeed())
		Expect(c.Create(ctx, pod)).To(Succeed())
	}
	slice := func(namespace, name string) *discoveryv1.EndpointSlice {
		GinkgoHelper()
		out := &discoveryv1.EndpointSlice{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, out)).To(Succeed())
		return out
	}
	addresses := func(s *discoveryv1.EndpointSlice) []string {
		var out []string
		for _, endpoint := range s.Endpoints {
			out = append(out, endpoint.Addresses...)
		}
		return out
	}

	BeforeEach(func() { c = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build() })

	It("should follow its pods in either role with nothing but what is in the seed", func() {
		deploy("shoot--demo--leaves", steps.Source)
		deploy("shoot--demo--comes", steps.Destination)
		Expect(c.Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "other",
			Labels: map[string]string{LabelKey: LabelValue}}})).To(Succeed())
		relays, err := ListDeployed(ctx, c)
		Expect(err).NotTo(HaveOccurred())
		Expect(relays).To(ConsistOf(HaveField("Namespace", "shoot--demo--leaves"),
			HaveField("Namespace", "shoot--demo--comes")))

		for _, address := range []string{"10.1.0.1", "10.1.0.9"} {
			for i := range relays {
				run(c, relays[i].Namespace, 1, address)
				Expect(SyncDeployed(ctx, c, clock.RealClock{}, &relays[i])).To(Succeed())
			}
			leaving, coming := slice("shoot--demo--leaves", "etcd-main-peer-livecpm-relay"),
				slice("shoot--demo--comes", "etcd-events-peer-livecpm-relay")
			Expect(addresses(leaving)).To(Equal([]string{address}))
			Expect(leaving.Ports).To(ConsistOf(HaveField("Port", HaveValue(BeEquivalentTo(2381)))))
			Expect(addresses(coming)).To(Equal([]string{address, address}), "and the host of the source cluster")
			Expect(coming.Endpoints).To(ContainElement(HaveField("Hostname", HaveValue(Equal("source-client")))))
			Expect(coming.Ports).To(ConsistOf(HaveField("Port", HaveValue(BeEquivalentTo(2380)))))
		}
	})

	It("should follow them at the client services only where these lead to the relay", func() {
		relay := deploy("shoot--demo--live", steps.Source)
		run(c, "shoot--demo--live", 0, "10.1.0.1")
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--demo--live", Name: "etcd-main-client-livecpm-relay"},
			&discoveryv1.EndpointSlice{})).To(MatchError(ContainSubstring("not found")))
		Expect(New(logr.Discard(), c, values("shoot--demo--live", steps.Source)).KeepClientService(ctx)).To(Succeed())
		run(c, "shoot--demo--live", 0, "10.1.0.2")
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(Succeed())
		Expect(addresses(slice("shoot--demo--live", "etcd-main-client-livecpm-relay"))).
			To(Equal([]string{"10.1.0.2"}))
	})

	It("should go with the relay, even if they are written in the moment of its removal", func() {
		relay := deploy("shoot--demo--live", steps.Source)
		run(c, "shoot--demo--live", 0, "10.1.0.1")
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(Succeed())
		Expect(slice("shoot--demo--live", "etcd-main-peer-livecpm-relay").OwnerReferences).To(ConsistOf(And(
			HaveField("Kind", "StatefulSet"), HaveField("Name", Name), HaveField("UID", relay.UID))))

		relay.DeletionTimestamp = new(metav1.Now())
		run(c, "shoot--demo--live", 0, "10.1.0.2")
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(Succeed())
		Expect(addresses(slice("shoot--demo--live", "etcd-main-peer-livecpm-relay"))).To(Equal([]string{"10.1.0.1"}))
	})

	It("should not be replaced by older ones when two write them at the same time", func() {
		relay := deploy("shoot--demo--live", steps.Source)
		run(c, "shoot--demo--live", 0, "10.1.0.1")
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(Succeed())

		run(c, "shoot--demo--live", 0, "10.1.0.2")
		overtaken := false
		slow := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, under client.WithWatch, list client.ObjectList, opts ...client.ListOption,
			) error {
				err := under.List(ctx, list, opts...)
				if _, pods := list.(*corev1.PodList); pods && !overtaken {
					// After it has read the pods, the pod moves, and somebody else publishes it first.
					overtaken = true
					run(under, "shoot--demo--live", 0, "10.1.0.3")
					Expect(SyncDeployed(ctx, under, clock.RealClock{}, relay)).To(Succeed())
				}
				return err
			},
		})
		Expect(SyncDeployed(ctx, slow, clock.RealClock{}, relay)).To(Succeed())
		Expect(overtaken).To(BeTrue())
		Expect(addresses(slice("shoot--demo--live", "etcd-main-peer-livecpm-relay"))).To(Equal([]string{"10.1.0.3"}))
	})

	It("should not be published on a port that is a guess", func() {
		relay := deploy("shoot--demo--live", steps.Source)
		run(c, "shoot--demo--live", 0, "10.1.0.1")
		for i := range relay.Spec.Template.Spec.Containers[0].Ports {
			relay.Spec.Template.Spec.Containers[0].Ports[i].ContainerPort = 1
		}
		Expect(SyncDeployed(ctx, c, clock.RealClock{}, relay)).To(MatchError(And(
			ContainSubstring("StatefulSet shoot--demo--live/livecpm-relay"), ContainSubstring("no port peer"))))
		slices := &discoveryv1.EndpointSliceList{}
		Expect(c.List(ctx, slices)).To(Succeed())
		Expect(slices.Items).To(BeEmpty())
	})
})
