// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package streams_test

import (
	"context"
	"net"
	"net/http/httptest"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/machine/hollow"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

var _ = Describe("Streams through a real kube-apiserver to the kubelet of a hollow node", func() {
	It("should stay open, and be opened again when they break", func(ctx SpecContext) {
		environment := &envtest.Environment{ControlPlaneStartTimeout: patience.Start,
			ControlPlaneStopTimeout: patience.Stop}
		access, err := environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		client, err := kubernetes.NewForConfig(access)
		Expect(err).NotTo(HaveOccurred())

		kubelet := httptest.NewUnstartedServer((&hollow.Node{Log: logr.Discard(), Name: "machine-a"}).KubeletHandler())
		way := &listener{Listener: kubelet.Listener}
		kubelet.Listener = way
		kubelet.StartTLS()
		DeferCleanup(kubelet.Close)
		host, text, err := net.SplitHostPort(kubelet.Listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		port, err := strconv.ParseInt(text, 10, 32)
		Expect(err).NotTo(HaveOccurred())
		node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-a"}},
			metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: incluster.Name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Pods(incluster.Name).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "client-a"},
			Spec: corev1.PodSpec{NodeName: node.Name,
				Containers: []corev1.Container{{Name: incluster.Container, Image: incluster.Image}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		streams := demo.NewStreams(client, access)
		running, stop := context.WithCancel(ctx)
		DeferCleanup(stop)
		Expect(streams.Prepare(running)).To(Succeed())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			streams.Run(running)
		}()
		DeferCleanup(func() {
			stop()
			Eventually(ended).Should(BeClosed())
		})
		Eventually(streams.Report).Should(HaveExactElements(
			SatisfyAll(HaveField("Kind", "logs"), HaveField("Opened", 1)),
			SatisfyAll(HaveField("Kind", "exec"), HaveField("Opened", 1)),
			SatisfyAll(HaveField("Kind", "port-forward"), HaveField("Opened", 1))))
		Expect(streams.Report()).To(HaveEach(HaveField("Errors", BeEmpty())))

		way.cut()
		Eventually(streams.Report).Should(HaveEach(SatisfyAll(HaveField("Broken", 1), HaveField("Opened", 2))))
		Expect(streams.Report()).To(HaveEach(HaveField("Refused", 0)))
	})
})

// listener keeps what it accepts, to cut all of it: a server does not know of connections that are streams.
type listener struct {
	net.Listener

	mu       sync.Mutex
	accepted []net.Conn
}

// Accept accepts a connection, and keeps it.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted = append(l.accepted, conn)
	}
	return conn, err
}

// cut closes all connections.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.accepted {
		_ = conn.Close()
	}
	l.accepted = nil
}
