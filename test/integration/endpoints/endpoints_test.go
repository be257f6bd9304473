// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package endpoints_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/test/patience"
)

// address is what all kube-apiservers publish. Nobody has it.
const address = "192.0.2.10"

var _ = Describe("Two kube-apiservers with one address", Ordered, func() {
	var (
		ctx         = context.Background()
		environment *envtest.Environment
		c           client.Client
		watcher     kubernetes.Interface
	)
	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		environment = &envtest.Environment{ControlPlaneStartTimeout: patience.Start,
			ControlPlaneStopTimeout: patience.Stop}
		environment.ControlPlane.GetAPIServer().Configure().Set("advertise-address", address)
		config, err := environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		c, err = client.New(config, client.Options{Scheme: scheme.Scheme})
		Expect(err).NotTo(HaveOccurred())
		watcher, err = kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
	})

	published := func(g Gomega) []string {
		slice := &discoveryv1.EndpointSlice{}
		g.Expect(c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, slice)).
			To(Succeed())
		var out []string
		for _, endpoint := range slice.Endpoints {
			out = append(out, endpoint.Addresses...)
		}
		return out
	}
	// emptied has a second kube-apiserver come and go, and reports whether there was no address in the meantime.
	emptied := func() bool {
		GinkgoHelper()
		second := &envtest.APIServer{EtcdURL: environment.ControlPlane.Etcd.URL, StartTimeout: patience.Start,
			StopTimeout: patience.Stop}
		second.Configure().Set("advertise-address", address)
		Expect(second.Start()).To(Succeed())
		stopped := false
		defer func() {
			if !stopped {
				_ = second.Stop()
			}
		}()
		// Before its first look it has nothing that it could take away. The address is there already, so that does not
		// tell; it looks every ten seconds.
		time.Sleep(11 * time.Second)
		Eventually(published).Should(Equal([]string{address}))

		changes, err := watcher.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Watch(ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "kubernetes").String()})
		Expect(err).NotTo(HaveOccurred())
		var empty atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for event := range changes.ResultChan() {
				if slice, ok := event.Object.(*discoveryv1.EndpointSlice); ok && len(slice.Endpoints) == 0 {
					empty.Store(true)
				}
			}
		}()
		stopped = true
		Expect(second.Stop()).To(Succeed())
		// The first one has looked again by then.
		time.Sleep(11 * time.Second)
		changes.Stop()
		<-done
		Eventually(published).Should(Equal([]string{address}))
		return empty.Load()
	}
	kept := func() *corev1.Endpoints { //nolint:staticcheck // It is what kube-apiservers write.
		GinkgoHelper()
		object := &corev1.Endpoints{} //nolint:staticcheck // It is what kube-apiservers write.
		Expect(c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, object)).
			To(Succeed())
		return object
	}

	It("should lose it for a while when one of them ends", func() {
		// Not every time: the first one may look just as the second one takes the address away.
		Eventually(emptied).WithTimeout(5*time.Minute).WithPolling(time.Second).Should(BeTrue(),
			"kube-apiservers do not do any more what this package is there for")
	})

	It("should not let anybody take the last address away", func() {
		Expect(overlap.KeepEndpoints(ctx, c)).To(Succeed())
		Expect(overlap.KeepEndpoints(ctx, c)).To(Succeed())
		Eventually(func() error {
			object := kept()
			object.Subsets = nil
			return c.Update(ctx, object, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("the last one behind the Service default/kubernetes stays")))
		object := kept()
		object.Subsets[0].NotReadyAddresses, object.Subsets[0].Addresses = object.Subsets[0].Addresses, nil
		Expect(c.Update(ctx, object, client.DryRunAll)).To(MatchError(ContainSubstring("stays")))
	})

	It("should let addresses be replaced, and leave other endpoints alone", func() {
		object := kept()
		object.Subsets[0].Addresses[0].IP = "192.0.2.11"
		Expect(c.Update(ctx, object, client.DryRunAll)).To(Succeed())
		//nolint:staticcheck // It is what kube-apiservers write.
		other := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "other"},
			Subsets: []corev1.EndpointSubset{
				{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.12"}}},
			},
		}
		Expect(c.Create(ctx, other)).To(Succeed())
		other.Subsets = nil
		Expect(c.Update(ctx, other)).To(Succeed())
	})

	It("should not lose it any more when one of them ends", func() {
		Expect(emptied()).To(BeFalse())
	})

	It("should leave nothing behind", func() {
		Expect(overlap.ReleaseEndpoints(ctx, c)).To(Succeed())
		Expect(overlap.ReleaseEndpoints(ctx, c)).To(Succeed())
		for _, list := range []client.ObjectList{&admissionregistrationv1.ValidatingAdmissionPolicyList{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}} {
			Expect(c.List(ctx, list)).To(Succeed())
			Expect(list).To(HaveField("Items", BeEmpty()))
		}
		Eventually(func() error {
			object := kept()
			object.Subsets = nil
			return c.Update(ctx, object, client.DryRunAll)
		}).Should(Succeed())
	})
})
