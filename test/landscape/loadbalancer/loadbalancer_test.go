// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/test/landscape/loadbalancer"
	standin "github.com/livecpm/livecpm/test/standins/loadbalancer"
)

// front remembers its target and whether the address was there before it.
type front struct {
	mu      sync.Mutex
	target  standin.Target
	refuses error
}

func (f *front) Set(_ context.Context, target standin.Target) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	return f.refuses
}

func (f *front) get() standin.Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.target
}

var _ = Describe("Controller", func() {
	var (
		clientset *fake.Clientset
		served    *front
		ensured   chan struct{}
		refuses   error
		hostname  string
		service   *corev1.Service
		nodes     chan []netip.Addr
		begin     func()
	)

	node := func(name, address string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}}}
	}

	BeforeEach(func() {
		clientset = fake.NewClientset(
			node("one", "10.250.0.31", nil),
			node("two", "10.250.0.32", nil),
			node("three", "10.250.0.33", map[string]string{corev1.LabelNodeExcludeBalancers: "true"}))
		served, ensured, nodes = &front{}, make(chan struct{}, 1), make(chan []netip.Addr, 1)
		refuses, hostname = nil, ""
		service = &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: loadbalancer.Gateway.Namespace, Name: loadbalancer.Gateway.Name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
				{Name: "tls", Port: 443, NodePort: 30443}, {Name: "proxy", Port: 8443, NodePort: 30843},
				{Name: "quic", Protocol: corev1.ProtocolUDP, Port: 443, NodePort: 30444}}},
		}
		begin = func() {
			controller := &loadbalancer.Controller{Log: logr.Discard(), Client: clientset,
				Service: loadbalancer.Gateway, Address: netip.MustParseAddr("10.250.0.21"),
				Front: served, Hostname: hostname,
				EnsureAddress: func() error {
					select {
					case ensured <- struct{}{}:
					default:
					}
					return refuses
				},
				Nodes: func(addresses []netip.Addr) {
					select {
					case nodes <- addresses:
					default:
					}
				}}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- controller.Run(ctx) }()
			DeferCleanup(func() {
				cancel()
				Eventually(done).Should(Receive(BeNil()))
			})
		}
	})

	create := func(ctx context.Context) {
		GinkgoHelper()
		_, err := clientset.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	ingress := func(ctx context.Context) []corev1.LoadBalancerIngress {
		GinkgoHelper()
		current, err := clientset.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return current.Status.LoadBalancer.Ingress
	}
	addresses := func(values ...string) []netip.Addr {
		var list []netip.Addr
		for _, value := range values {
			list = append(list, netip.MustParseAddr(value))
		}
		return list
	}
	proxied := []corev1.LoadBalancerIngress{
		{IP: "10.250.0.21", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)},
	}

	It("should serve the TCP ports on all nodes that may be used, and publish the address", func(ctx SpecContext) {
		create(ctx)
		begin()
		Eventually(func() []corev1.LoadBalancerIngress { return ingress(ctx) }).Should(Equal(proxied))
		Expect(served.get()).To(Equal(standin.Target{Ports: map[int32]int32{443: 30443, 8443: 30843},
			Nodes: addresses("10.250.0.31", "10.250.0.32"), HealthPort: 10256}))
		Expect(ensured).NotTo(BeEmpty())
		Expect(nodes).To(Receive(Equal(addresses("10.250.0.31", "10.250.0.32", "10.250.0.33"))))
	})

	It("should ask the Service's own health port if traffic stays on the node", func(ctx SpecContext) {
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		service.Spec.HealthCheckNodePort = 31000
		begin()
		create(ctx)
		Eventually(func() []corev1.LoadBalancerIngress { return ingress(ctx) }).Should(Equal(proxied))
		Expect(served.get().HealthPort).To(BeEquivalentTo(31000))
	})

	It("should give the gateway a host name where clouds do", func(ctx SpecContext) {
		hostname = "seed-a.lb.livecpm.example"
		create(ctx)
		begin()
		Eventually(func() []corev1.LoadBalancerIngress { return ingress(ctx) }).
			Should(Equal([]corev1.LoadBalancerIngress{{Hostname: "seed-a.lb.livecpm.example"}}))
		Expect(ensured).NotTo(BeEmpty(), "the name leads to the address")
	})

	It("should take back an address that kube-proxy would bind", func(ctx SpecContext) {
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}
		create(ctx)
		begin()
		Eventually(func() []corev1.LoadBalancerIngress { return ingress(ctx) }).Should(Equal(proxied))
	})

	It("should follow nodes that come and go, and the end of the Service", func(ctx SpecContext) {
		create(ctx)
		begin()
		Eventually(served.get).Should(HaveField("Nodes", HaveLen(2)))
		_, err := clientset.CoreV1().Nodes().Create(ctx, node("four", "10.250.0.34", nil), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(served.get).Should(HaveField("Nodes", HaveLen(3)))
		Expect(clientset.CoreV1().Nodes().Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		Eventually(served.get).Should(HaveField("Nodes", Equal(addresses("10.250.0.32", "10.250.0.34"))))
		Expect(clientset.CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})).
			To(Succeed())
		Eventually(served.get).Should(BeZero())
	})

	It("should leave other types of Services alone", func(ctx SpecContext) {
		service.Spec.Type = corev1.ServiceTypeClusterIP
		create(ctx)
		begin()
		Eventually(nodes).Should(Receive())
		Consistently(ensured, "100ms").ShouldNot(Receive())
		Expect(ingress(ctx)).To(BeEmpty())
	})

	It("should wait for the node ports", func(ctx SpecContext) {
		service.Spec.Ports[1].NodePort = 0
		create(ctx)
		begin()
		Eventually(nodes).Should(Receive())
		Consistently(ensured, "100ms").ShouldNot(Receive())
		service.Spec.Ports[1].NodePort = 30843
		_, err := clientset.CoreV1().Services(service.Namespace).Update(ctx, service, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []corev1.LoadBalancerIngress { return ingress(ctx) }).Should(Equal(proxied))
	})

	It("should not publish an address that nobody answers for", func(ctx SpecContext) {
		refuses = errors.New("no address")
		create(ctx)
		begin()
		for range 3 { // it tries again
			Eventually(ensured).Should(Receive())
		}
		Expect(ingress(ctx)).To(BeEmpty())
	})

	It("should not publish an address at which nothing listens", func(ctx SpecContext) {
		served.refuses = errors.New("no listener")
		create(ctx)
		begin()
		for range 3 {
			Eventually(ensured).Should(Receive())
		}
		Expect(ingress(ctx)).To(BeEmpty())
	})
})
