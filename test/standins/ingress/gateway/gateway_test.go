// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

const (
	apiHost   = "api.live.example"
	relayHost = "etcd-main-0--ns.ingress.seed-b.example"
)

// backend is a TLS server on an address of its own that says its name, then echoes.
type backend struct {
	net.Listener

	name string
}

func newBackend(ip, port, name string, certificate tls.Certificate) *backend {
	GinkgoHelper()
	listener, err := tls.Listen("tcp", net.JoinHostPort(ip, port),
		&tls.Config{Certificates: []tls.Certificate{certificate}})
	Expect(err).NotTo(HaveOccurred())
	b := &backend{Listener: listener, name: name}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := io.WriteString(conn, name+"\n"); err == nil {
					_, _ = io.Copy(conn, conn)
				}
			}()
		}
	}()
	DeferCleanup(func() { _ = listener.Close() })
	return b
}

func selfSigned() (tls.Certificate, *x509.CertPool) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{apiHost, relayHost},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	leaf, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

var _ = Describe("Gateway", func() {
	var (
		certificate tls.Certificate
		roots       *x509.CertPool
		kube        client.Client
		gw          *gateway.Gateway
		address     string
		admin       *httptest.Server
		port        string
		slice       *discoveryv1.EndpointSlice
		stop        context.CancelFunc
		served      chan error
	)

	expose := func(name string, hosts ...string) *istionetworkingv1beta1.VirtualService {
		GinkgoHelper()
		g, vs := exposed(name, 1, hosts...)
		Expect(kube.Create(context.Background(), g)).To(Succeed())
		Expect(kube.Create(context.Background(), vs)).To(Succeed())
		return vs
	}
	endpoint := func(ip string, ready, terminating bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{
			Ready: ptr.To(ready), Serving: ptr.To(true), Terminating: ptr.To(terminating),
		}}
	}
	setEndpoints := func(endpoints ...discoveryv1.Endpoint) {
		GinkgoHelper()
		slice.Endpoints = endpoints
		Expect(kube.Update(context.Background(), slice)).To(Succeed())
	}
	// dial opens a connection by way of the gateway and returns it with the name of the backend.
	dial := func(serverName string) (*tls.Conn, string, error) {
		dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots, ServerName: serverName}}
		ctx, cancel := context.WithTimeout(context.Background(), patience.Eventually)
		defer cancel()
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, "", err
		}
		DeferCleanup(func() { _ = conn.Close() })
		name := make([]byte, 2)
		_, err = io.ReadFull(conn, name)
		return conn.(*tls.Conn), strings.TrimSpace(string(name)), err
	}
	echo := func(conn net.Conn, content []byte) (time.Duration, error) {
		begin := time.Now()
		go func() { _, _ = conn.Write(content) }()
		answer := make([]byte, len(content))
		if _, err := io.ReadFull(conn, answer); err != nil {
			return 0, err
		}
		if !bytes.Equal(answer, content) {
			return 0, errors.New("answer differs")
		}
		return time.Since(begin), nil
	}
	request := func(method, path, body string) (int, string) {
		GinkgoHelper()
		req, err := http.NewRequest(method, admin.URL+path, strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(req)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(content)
	}

	BeforeEach(func(ctx SpecContext) {
		certificate, roots = selfSigned()
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme,
			istionetworkingv1alpha3.AddToScheme, istionetworkingv1beta1.AddToScheme} {
			Expect(add(scheme)).To(Succeed())
		}
		kube = fakeclient.NewClientBuilder().WithScheme(scheme).Build()

		first := newBackend("127.0.0.1", "0", "a", certificate)
		_, port, _ = net.SplitHostPort(first.Addr().String())
		newBackend("127.0.0.2", port, "b", certificate)
		meta := metav1.ObjectMeta{Namespace: shootNamespace, Name: "kube-apiserver"}
		Expect(kube.Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "other", Port: 8132}, {Name: "kube-apiserver", Port: 443},
		}}})).To(Succeed())
		slice = &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace, Name: "kube-apiserver-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "kube-apiserver"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{
				{Name: ptr.To("other"), Port: ptr.To[int32](1)},
				{Name: ptr.To("kube-apiserver"), Port: ptr.To(int32(first.Addr().(*net.TCPAddr).Port))},
			},
			Endpoints: []discoveryv1.Endpoint{endpoint("127.0.0.1", true, false)},
		}
		Expect(kube.Create(ctx, slice)).To(Succeed())
		expose("kube-apiserver", apiHost, relayHost)

		gw = &gateway.Gateway{Log: logr.Discard(), Identity: identity, Backends: gateway.Backends{Reader: kube},
			Faults: gateway.NewFaults()}
		admin = httptest.NewServer(gw.AdminHandler())
		DeferCleanup(admin.Close)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address = listener.Addr().String()
		serveCtx, cancel := context.WithCancel(context.Background())
		serving, result := gw, make(chan error, 1)
		stop, served = cancel, result
		go func() { result <- serving.Serve(serveCtx, listener, 100*time.Millisecond) }()
		DeferCleanup(cancel)
		Expect(gw.Sync(ctx)).To(Succeed())
	})

	It("should be ready once it knows its routes", func(ctx SpecContext) {
		status, _ := request(http.MethodGet, "/healthz/ready", "")
		Expect(status).To(Equal(http.StatusOK))
		fresh := &gateway.Gateway{Log: logr.Discard(), Faults: gateway.NewFaults()}
		Expect(fresh.Ready()).To(BeFalse())
	})

	It("should route by SNI and leave TLS and half-close alone", func() {
		conn, name, err := dial(apiHost)
		Expect(err).NotTo(HaveOccurred())
		Expect(name).To(Equal("a"))
		_, err = echo(conn, bytes.Repeat([]byte("x"), 4<<20))
		Expect(err).NotTo(HaveOccurred())
		_, err = conn.Write([]byte("last"))
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.CloseWrite()).To(Succeed())
		Expect(conn.NetConn().(*net.TCPConn).CloseWrite()).To(Succeed())
		Expect(io.ReadAll(conn)).To(Equal([]byte("last")))
		Eventually(func() map[string]int { return gw.Status().Connections }).Should(BeEmpty())
	})

	It("should reset unknown names and plain text", func() {
		_, _, err := dial("api.other.example")
		Expect(err).To(MatchError(syscall.ECONNRESET))
		conn, err := net.Dial("tcp", address)
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(patience.Eventually))
		_, err = conn.Read(make([]byte, 1))
		Expect(err).To(MatchError(syscall.ECONNRESET))
	})

	It("should follow changed routes for new connections and keep present ones", func(ctx SpecContext) {
		conn, _, err := dial(apiHost)
		Expect(err).NotTo(HaveOccurred())
		vs := &istionetworkingv1beta1.VirtualService{}
		Expect(kube.Get(ctx, client.ObjectKey{Namespace: shootNamespace, Name: "kube-apiserver"}, vs)).To(Succeed())
		Expect(kube.Delete(ctx, vs)).To(Succeed())
		Expect(gw.Sync(ctx)).To(Succeed())
		Expect(gw.Status().Routes).To(BeEmpty())

		_, _, err = dial(apiHost)
		Expect(err).To(MatchError(syscall.ECONNRESET))
		_, err = echo(conn, []byte("still here"))
		Expect(err).NotTo(HaveOccurred())
		Expect(gw.Status().Connections).To(HaveKeyWithValue(apiHost, 1))
	})

	It("should choose among ready endpoints", func() {
		setEndpoints(endpoint("127.0.0.1", true, false), endpoint("127.0.0.2", true, false))
		names := map[string]bool{}
		for range 40 {
			conn, name, err := dial(apiHost)
			Expect(err).NotTo(HaveOccurred())
			names[name] = true
			Expect(conn.Close()).To(Succeed())
		}
		Expect(names).To(HaveLen(2))
	})

	It("should give no new connection to endpoints that end or are not ready", func() {
		conn, name, err := dial(apiHost)
		Expect(err).NotTo(HaveOccurred())
		Expect(name).To(Equal("a"))
		setEndpoints(endpoint("127.0.0.1", false, true), endpoint("127.0.0.2", true, false))
		for range 5 {
			_, name, err := dial(apiHost)
			Expect(err).NotTo(HaveOccurred())
			Expect(name).To(Equal("b"))
		}
		_, err = echo(conn, []byte("the old connection continues"))
		Expect(err).NotTo(HaveOccurred())

		setEndpoints(endpoint("127.0.0.1", false, true), endpoint("127.0.0.2", false, false))
		_, _, err = dial(apiHost)
		Expect(err).To(MatchError(syscall.ECONNRESET))
	})

	It("should try another endpoint when one refuses", func() {
		setEndpoints(endpoint("127.0.0.3", true, false), endpoint("127.0.0.2", true, false),
			endpoint("127.0.0.4", true, false))
		for range 10 {
			_, name, err := dial(apiHost)
			Expect(err).NotTo(HaveOccurred())
			Expect(name).To(Equal("b"))
		}
	})

	It("should end open connections when the time to drain is over", func() {
		conn, _, err := dial(apiHost)
		Expect(err).NotTo(HaveOccurred())
		stop()
		Eventually(served).Should(Receive(BeNil()))
		_, err = conn.Read(make([]byte, 1))
		Expect(err).To(HaveOccurred())
		_, err = net.Dial("tcp", address)
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
	})

	Describe("faults", func() {
		const seedToSeed = `{"sni": "*.ingress.*", `

		addFault := func(body string) {
			GinkgoHelper()
			status, answer := request(http.MethodPost, "/faults", body)
			Expect(status).To(Equal(http.StatusOK), answer)
		}
		// within expects an answer that nothing delays.
		within := func(conn net.Conn) {
			GinkgoHelper()
			Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
			_, err := echo(conn, []byte("x"))
			Expect(err).NotTo(HaveOccurred())
			Expect(conn.SetDeadline(time.Time{})).To(Succeed())
		}
		lift := func() {
			GinkgoHelper()
			status, _ := request(http.MethodDelete, "/faults", "")
			Expect(status).To(Equal(http.StatusOK))
		}

		It("should add latency to present and new connections, only where it matches, and take it away", func() {
			present, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			other, _, err := dial(apiHost)
			Expect(err).NotTo(HaveOccurred())
			addFault(seedToSeed + `"latency": "200ms"}`)

			Expect(echo(present, []byte("x"))).To(BeNumerically(">=", 400*time.Millisecond))
			fresh, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			Expect(echo(fresh, []byte("x"))).To(BeNumerically(">=", 400*time.Millisecond))
			lift()
			for _, conn := range []net.Conn{present, fresh} {
				_, err := echo(conn, []byte("x")) // may wait for what is on its way
				Expect(err).NotTo(HaveOccurred())
			}

			By("not delaying what does not match, nor anything that comes after the fault")
			// An answer that were delayed by it would come when the test is long over.
			addFault(seedToSeed + `"latency": "1h"}`)
			within(other)
			lift()
			within(present)
			within(fresh)
		})

		It("should not limit throughput by latency", func() {
			conn, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			addFault(seedToSeed + `"latency": "3s"}`)
			// 128 chunks each way, one after the other, would take more than ten minutes.
			Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
			Expect(echo(conn, bytes.Repeat([]byte("0123456789abcdef"), 1<<17))).To(BeNumerically(">=", 6*time.Second))
		})

		It("should lose no byte while faults come and go", func() {
			conn, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			done := make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(done)
				for i := range 20 {
					Expect(gw.Faults.Add(gateway.Fault{SNI: "*",
						Latency: metav1.Duration{Duration: time.Duration(i%3+1) * time.Millisecond}})).To(Succeed())
					time.Sleep(5 * time.Millisecond)
					Expect(gw.Faults.Add(gateway.Fault{SNI: "*", Cut: gateway.CutFreeze})).To(Succeed())
					time.Sleep(5 * time.Millisecond)
					gw.Faults.Reset()
					time.Sleep(5 * time.Millisecond)
				}
			}()
			content := make([]byte, 1<<20)
			_, _ = rand.Read(content)
			for finished := false; !finished; {
				select {
				case <-done:
					finished = true
				default:
				}
				_, err := echo(conn, content)
				Expect(err).NotTo(HaveOccurred())
			}
		})

		It("should reset when cut by resetting", func() {
			present, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			addFault(seedToSeed + `"cut": "reset"}`)
			_, err = present.Read(make([]byte, 1))
			Expect(err).To(MatchError(syscall.ECONNRESET))
			_, _, err = dial(relayHost)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			_, _, err = dial(apiHost)
			Expect(err).NotTo(HaveOccurred())
			lift()
			_, _, err = dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
		})

		It("should be silent when cut by freezing, and continue afterwards", func() {
			present, _, err := dial(relayHost)
			Expect(err).NotTo(HaveOccurred())
			addFault(seedToSeed + `"cut": "freeze"}`)
			_, err = present.Write([]byte("x"))
			Expect(err).NotTo(HaveOccurred())
			Expect(present.SetReadDeadline(time.Now().Add(150 * time.Millisecond))).To(Succeed())
			_, err = present.Read(make([]byte, 1))
			Expect(err).To(MatchError(os.ErrDeadlineExceeded))

			fresh := make(chan error, 1)
			go func() { _, _, err := dial(relayHost); fresh <- err }()
			Consistently(fresh, "150ms").ShouldNot(Receive())
			lift()
			Eventually(fresh).Should(Receive(BeNil()))
			Expect(present.SetReadDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
			answer := make([]byte, 1)
			_, err = io.ReadFull(present, answer)
			Expect(err).NotTo(HaveOccurred())
			Expect(answer).To(Equal([]byte("x")))
		})

		It("should lift the faults that are named, and no others", func() {
			lift := func(query string) int {
				status, _ := request(http.MethodDelete, "/faults?"+query, "")
				return status
			}
			addFault(seedToSeed + `"cut": "freeze"}`)
			addFault(seedToSeed + `"latency": "1s"}`)
			Expect(lift("latency=2s")).To(Equal(http.StatusOK))
			Expect(lift("cut=freeze")).To(Equal(http.StatusOK))
			_, answer := request(http.MethodGet, "/faults", "")
			Expect(answer).To(MatchJSON(`[{"sni": "*.ingress.*", "latency": "1s"}]`))
			for _, query := range []string{"latency=soon", "latency=-1s", "cut=sideways", "cut=", "sni=*"} {
				Expect(lift(query)).To(Equal(http.StatusBadRequest), query)
			}
			Expect(lift("latency=1000ms")).To(Equal(http.StatusOK))
			_, answer = request(http.MethodGet, "/faults", "")
			Expect(answer).To(MatchJSON(`[]`))
		})

		It("should show and refuse", func() {
			addFault(seedToSeed + `"cut": "freeze", "latency": "1s"}`)
			_, answer := request(http.MethodGet, "/faults", "")
			Expect(answer).To(MatchJSON(`[{"sni": "*.ingress.*", "latency": "1s", "cut": "freeze"}]`))
			var status gateway.Status
			_, answer = request(http.MethodGet, "/status", "")
			Expect(json.Unmarshal([]byte(answer), &status)).To(Succeed())
			Expect(status.Routes).To(HaveLen(2))
			Expect(status.Faults).To(HaveLen(1))
			for _, body := range []string{"", `{}`, `{"sni": "*"}`, `{"sni": "[", "cut": "reset"}`,
				`{"sni": "*", "cut": "other"}`, `{"sni": "*", "latency": "-1s"}`, `{"sni": "*", "delay": "1s"}`} {
				code, _ := request(http.MethodPost, "/faults", body)
				Expect(code).To(Equal(http.StatusBadRequest), body)
			}
		})
	})
})
