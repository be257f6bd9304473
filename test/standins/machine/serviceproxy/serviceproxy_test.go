// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package serviceproxy_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/machine/serviceproxy"
)

// endpoint greets with its name and then sends back what it is sent.
func endpoint(name string) string {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, name)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

var _ = Describe("Forwarder", func() {
	var (
		forwarder *serviceproxy.Forwarder
		address   string
		choose    atomic.Pointer[func(n int) int]
	)

	BeforeEach(func() {
		ctx, cancel := context.WithCancel(context.Background())
		choose.Store(new(rand.IntN))
		forwarder = &serviceproxy.Forwarder{Log: logr.Discard(), Choose: func(n int) int { return (*choose.Load())(n) }}
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address = listener.Addr().String()
		ended := make(chan error, 1)
		go func() { ended <- forwarder.Serve(ctx, listener) }()
		DeferCleanup(func() {
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		})
	})

	connect := func() net.Conn {
		GinkgoHelper()
		conn, err := net.Dial("tcp", address)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = conn.Close() })
		Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
		return conn
	}
	read := func(conn net.Conn, n int) string {
		GinkgoHelper()
		buffer := make([]byte, n)
		_, err := io.ReadFull(conn, buffer)
		Expect(err).NotTo(HaveOccurred())
		return string(buffer)
	}

	It("should lead new connections to the endpoints of now, and leave old ones where they are", func() {
		forwarder.Set([]string{endpoint("one")})
		old := connect()
		Expect(read(old, 3)).To(Equal("one"))
		forwarder.Set([]string{endpoint("two")})
		Expect(read(connect(), 3)).To(Equal("two"))
		_, err := io.WriteString(old, "still there")
		Expect(err).NotTo(HaveOccurred())
		Expect(read(old, 11)).To(Equal("still there"))
	})

	It("should remember where a connection was led to, whether somebody answers there or not", func() {
		one := endpoint("one")
		forwarder.Set([]string{one})
		conn := connect()
		Expect(read(conn, 3)).To(Equal("one"))
		Expect(forwarder.LedTo(conn.LocalAddr().String())).To(Equal(one))
		Expect(conn.Close()).To(Succeed())
		Expect(forwarder.LedTo(conn.LocalAddr().String())).To(Equal(one))
		forwarder.Set([]string{"127.0.0.1:1"})
		Eventually(func() string {
			refused, err := net.Dial("tcp", address)
			if err != nil {
				return "" // The refusal may show while connecting already.
			}
			defer func() { _ = refused.Close() }()
			return forwarder.LedTo(refused.LocalAddr().String())
		}).Should(Equal("127.0.0.1:1"))
		Expect(forwarder.LedTo("127.0.0.1:2")).To(BeEmpty())
	})

	It("should choose among several", func() {
		var asked atomic.Int64
		choose.Store(new(func(n int) int { return int(asked.Add(1)) % n }))
		forwarder.Set([]string{endpoint("one"), endpoint("two")})
		Expect(read(connect(), 3)).To(Equal("two"))
		Expect(read(connect(), 3)).To(Equal("one"))

		choose.Store(new(rand.IntN))
		seen := map[string]bool{}
		Eventually(func() map[string]bool {
			seen[read(connect(), 3)] = true
			return seen
		}).Should(HaveLen(2), "at random")
	})

	It("should disconnect at once where nobody answers, and where there is no endpoint", func() {
		// That may show while connecting already.
		disconnected := func() error {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(patience.Eventually)); err != nil {
				return nil
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		}
		Expect(disconnected()).To(MatchError(ContainSubstring("reset")))
		forwarder.Set([]string{"127.0.0.1:1"})
		Expect(disconnected()).To(MatchError(ContainSubstring("reset")))
	})
})

func slice(name, serviceName string, ready *bool, addresses ...string) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(443))},
			{Name: new("other"), Port: new(int32(80))}},
	}
	for _, address := range addresses {
		out.Endpoints = append(out.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{address},
				Conditions: discoveryv1.EndpointConditions{Ready: ready}})
	}
	return out
}

var _ = Describe("Endpoints", func() {
	It("should be those that are ready, each once", func() {
		Expect(serviceproxy.Endpoints([]any{
			slice("a", "kubernetes", new(true), "240.0.0.2", "240.0.0.1"),
			slice("b", "kubernetes", nil, "240.0.0.1", "fd00::1"),
			slice("c", "kubernetes", new(false), "240.0.0.9"), slice("d", "another", new(true), "240.0.0.8"),
		})).To(Equal([]string{"240.0.0.1:443", "240.0.0.2:443", "[fd00::1]:443"}))
	})
})

var _ = Describe("Follow", func() {
	It("should tell the endpoints and their changes", func() {
		ctx, cancel := context.WithCancel(context.Background())
		client := fake.NewClientset(slice("kubernetes", "kubernetes", new(true), "240.0.0.1"))
		told, ended := make(chan []string, 100), make(chan error, 1)
		go func() { ended <- serviceproxy.Follow(ctx, client, func(endpoints []string) { told <- endpoints }) }()
		Eventually(told).Should(Receive(Equal([]string{"240.0.0.1:443"})))

		slices := client.DiscoveryV1().EndpointSlices("default")
		_, err := slices.Update(ctx, slice("kubernetes", "kubernetes", new(true), "240.0.0.2"), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(told).Should(Receive(Equal([]string{"240.0.0.2:443"})))
		Expect(slices.Delete(ctx, "kubernetes", metav1.DeleteOptions{})).To(Succeed())
		Eventually(told).Should(Receive(BeEmpty()))
		cancel()
		Eventually(ended).Should(Receive(MatchError(context.Canceled)))
	})
})

var _ = Describe("Address", func() {
	service := func(ip, port string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: port, Port: 443}}},
		}
	}

	It("should be that of the Service", func() {
		address, err := serviceproxy.Address(context.Background(), fake.NewClientset(service("10.113.0.1", "https")))
		Expect(err).NotTo(HaveOccurred())
		Expect(address.String()).To(Equal("10.113.0.1:443"))
	})

	DescribeTable("should say what is missing", func(service *corev1.Service, message string) {
		client := fake.NewClientset()
		if service != nil {
			client = fake.NewClientset(service)
		}
		_, err := serviceproxy.Address(context.Background(), client)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("the Service", nil, "there is no Service"),
		Entry("its address", service("None", "https"), "failed to read the address"),
		Entry("its port", service("10.113.0.1", "http"), "has no port https"),
	)
})
