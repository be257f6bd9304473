// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer_test

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/livecpm/livecpm/test/landscape/loadbalancer"
)

var _ = Describe("Controller", func() {
	var (
		ctx        = context.Background()
		clientset  *fake.Clientset
		controller *loadbalancer.Controller
		ensured    chan struct{}
		service    *corev1.Service
	)

	BeforeEach(func() {
		clientset, ensured = fake.NewClientset(), make(chan struct{}, 100)
		controller = &loadbalancer.Controller{Log: logr.Discard(), Client: clientset, IP: "10.250.0.21",
			EnsureAddress: func() error {
				ensured <- struct{}{}
				return nil
			}}
		service = &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: loadbalancer.Namespace, Name: loadbalancer.Name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}
	})

	create := func() *corev1.Service {
		created, err := clientset.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return created
	}
	ingress := func() []corev1.LoadBalancerIngress {
		current, err := clientset.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return current.Status.LoadBalancer.Ingress
	}

	It("should give the gateway its address", func() {
		Expect(controller.Reconcile(ctx, create())).To(Succeed())
		Expect(ingress()).To(Equal([]corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}))
		Expect(ensured).To(HaveLen(1))
	})

	It("should give the gateway a host name where clouds do", func() {
		created := create()
		Expect(controller.Reconcile(ctx, created)).To(Succeed())
		created.Status.LoadBalancer.Ingress = ingress()
		controller.Hostname = "seed-a.lb.livecpm.example"
		Expect(controller.Reconcile(ctx, created)).To(Succeed())
		Expect(ingress()).To(Equal([]corev1.LoadBalancerIngress{{Hostname: "seed-a.lb.livecpm.example"}}))
		Expect(ensured).To(HaveLen(2), "the name leads to the address")
	})

	It("should leave other types of Services alone", func() {
		service.Spec.Type = corev1.ServiceTypeClusterIP
		Expect(controller.Reconcile(ctx, create())).To(Succeed())
		Expect(ingress()).To(BeEmpty())
		Expect(ensured).To(BeEmpty())
	})

	It("should not publish an address that nobody answers for", func() {
		controller.EnsureAddress = func() error { return errors.New("no") }
		Expect(controller.Reconcile(ctx, create())).To(MatchError("no"))
		Expect(ingress()).To(BeEmpty())
	})

	It("should serve until it is told to stop", func() {
		running, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			controller.Run(running)
		}()
		// The fake's watch does not begin with what is there: wait for it.
		Eventually(func() bool {
			for _, action := range clientset.Actions() {
				if action.GetVerb() == "watch" {
					return true
				}
			}
			return false
		}).Should(BeTrue())
		create()
		Eventually(ingress).Should(Equal([]corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}))
		cancel()
		Eventually(done).Should(BeClosed())
	})
})
