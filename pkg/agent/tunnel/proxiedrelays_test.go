// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/test/landscape/native/nativetest"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/program"
)

// Headers of the PROXY protocol, as a load balancer sends them for a client at 203.0.113.7 or 2001:db8::7.
const (
	headerV1  = "PROXY TCP4 203.0.113.7 198.51.100.22 40000 443\r\n"
	header6V1 = "PROXY TCP6 2001:db8::7 2001:db8::16 40000 443\r\n"
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	headerV2  = signature + "\x21\x11\x00\x0c\xcb\x00\x71\x07\xc6\x33\x64\x16\x9c\x40\x01\xbb"
	header6V2 = signature + "\x21\x21\x00\x24" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x16" + "\x9c\x40\x01\xbb"
)

const ipv4, ipv6 = "127.0.0.1", "::1"

func at(address string, port int32) string { return net.JoinHostPort(address, strconv.Itoa(int(port))) }

// Both relays, Envoy and what it does before it looks for the server name (Gardener's own listener filters) are real.
// What istiod makes of Gateway and VirtualService is written here: the server names, and where they lead.
var _ = Describe("A relay that dials the other one over a load balancer", func() {
	var (
		ctx    = context.Background()
		seed   client.Client
		served config.FarRoute
		ca     *secretsutils.Certificate
		files  config.TLS
		inner  string
		near   int32
		// local is the address at which all programs of the spec listen.
		local string
	)

	// accept serves each connection until the spec ends.
	accept := func(listener net.Listener, serve func(net.Conn)) string {
		DeferCleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go serve(conn)
			}
		}()
		return listener.Addr().String()
	}
	// listen returns a listener at a free port.
	listen := func() net.Listener {
		GinkgoHelper()
		listener, err := net.Listen("tcp", net.JoinHostPort(local, "0"))
		Expect(err).NotTo(HaveOccurred())
		return listener
	}
	// loadBalancer sends the header before what the client says.
	loadBalancer := func(header, gateway string) int32 {
		address := accept(listen(), func(conn net.Conn) {
			defer conn.Close()
			behind, err := net.Dial("tcp", gateway)
			if err != nil {
				return
			}
			defer behind.Close()
			if _, err := io.WriteString(behind, header); err != nil {
				return
			}
			var both sync.WaitGroup
			both.Go(func() { _, _ = io.Copy(behind, conn); _ = behind.(*net.TCPConn).CloseWrite() })
			both.Go(func() { _, _ = io.Copy(conn, behind); _ = conn.(*net.TCPConn).CloseWrite() })
			both.Wait()
		})
		return int32(netip.MustParseAddrPort(address).Port())
	}
	run := func(cfg *config.Config) {
		GinkgoHelper()
		cfg.TLS = files
		cfg.Health.Port, cfg.Metrics.Port = int32(program.FreePort()), int32(program.FreePort())
		config.SetDefaults(cfg)
		Expect(config.Validate(cfg)).To(BeEmpty())
		made, err := relay.New(cfg, logr.Discard(), clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- made.Start(running) }()
		DeferCleanup(func() {
			stop()
			Eventually(ended).Should(Receive(BeNil()))
		})
		Eventually(func() (*http.Response, error) {
			return http.Get(fmt.Sprintf("http://%s/readyz", at(local, cfg.Health.Port)))
		}).Should(HaveHTTPStatus(http.StatusOK))
	}
	// etcd is a member: a TLS server that sends back what it gets.
	etcd := func() string {
		GinkgoHelper()
		certificate, err := (&secretsutils.CertificateSecretConfig{Name: "etcd", CommonName: "etcd",
			DNSNames: []string{inner}, CertType: secretsutils.ServerCert, SigningCA: ca}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		pair, err := tls.X509KeyPair(certificate.CertificatePEM, certificate.PrivateKeyPEM)
		Expect(err).NotTo(HaveOccurred())
		return accept(tls.NewListener(listen(), &tls.Config{Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12}), func(conn net.Conn) {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		})
	}
	// asked returns what etcd has sent back to a member of the other seed.
	asked := func() (string, error) {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca.CertificatePEM) {
			return "", errors.New("there is no certificate of the authority")
		}
		dialer := &net.Dialer{Timeout: patience.Eventually}
		conn, err := tls.DialWithDialer(dialer, "tcp", at(local, near),
			&tls.Config{ServerName: inner, RootCAs: roots, MinVersion: tls.VersionTLS12})
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "vote"); err != nil {
			return "", err
		}
		answer := make([]byte, len("vote"))
		_, err = io.ReadFull(conn, answer)
		return string(answer), err
	}
	// connect lets the relays know each other by a gateway with the listener filters.
	connect := func(filters, header string) {
		GinkgoHelper()
		far := int32(program.FreePort())
		served.Target = etcd()
		run(&config.Config{Far: config.Far{Port: far, Routes: []config.FarRoute{served}}})
		near = int32(program.FreePort())
		run(&config.Config{Near: []config.Near{{Port: near, Routes: []config.NearRoute{{InnerSNI: served.InnerSNI,
			Remote: config.Remote{Host: local, ServerName: served.ServerName,
				Port: loadBalancer(header, startGateway(ctx, seed, filters, at(local, far)))}}}}}})
	}

	BeforeEach(func() {
		seed = deployTunnel(ctx, proxied)
		configMap := &corev1.ConfigMap{}
		Expect(seed.Get(ctx, tunnelKey, configMap)).To(Succeed())
		deployed := &config.Config{}
		Expect(yaml.UnmarshalStrict([]byte(configMap.Data["config.yaml"]), deployed)).To(Succeed())
		served = deployed.Far.Routes[0]
		inner = strings.Replace(served.InnerSNI[0], "*", "etcd-main-0", 1)

		authority, own := exposure.CertificateConfigs(namespace, "ingress.seed-a.example")
		var err error
		ca, err = authority.GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		own.SigningCA = ca
		certificate, err := own.GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		folder := GinkgoT().TempDir()
		files = config.TLS{CAFile: filepath.Join(folder, "ca.crt"), CertFile: filepath.Join(folder, "tls.crt"),
			KeyFile: filepath.Join(folder, "tls.key")}
		for file, content := range map[string][]byte{files.CAFile: ca.CertificatePEM,
			files.CertFile: certificate.CertificatePEM, files.KeyFile: certificate.PrivateKeyPEM} {
			Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
		}
	})

	DescribeTable("should reach etcd through Gardener's listener filters, with whatever the load balancer sends",
		func(address, header string) {
			local = address
			connect(listenerFilters(ctx), header)
			Expect(asked()).To(Equal("vote"))
		},
		Entry("the header of version 1", ipv4, headerV1),
		Entry("the header of version 2", ipv4, headerV2),
		Entry("none, as from a pod whose packets do not leave the cluster", ipv4, ""),
		Entry("the header of version 1, over IPv6", ipv6, header6V1),
		Entry("the header of version 2, over IPv6", ipv6, header6V2),
		Entry("none, over IPv6", ipv6, ""),
	)

	It("should not reach it without these filters, which shows that the header is in the way", func() {
		local = ipv4
		connect(`[{"name": "tls", "typed_config": {"@type": "`+tlsInspector+`"}}]`, headerV1)
		_, err := asked()
		Expect(err).To(Or(MatchError(io.EOF), MatchError(syscall.ECONNRESET)), "nobody has answered")
	})
})

const tlsInspector = "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"

// proxied is a seed behind load balancers that send the header of the PROXY protocol.
var proxied = seedWorld{zones: "ab", namespaceZones: "b", handlers: []string{"intranet"}, handler: "intranet"}

// listenerFilters returns those that Gardener gives the default gateway of such a seed, as JSON.
func listenerFilters(ctx context.Context) string {
	GinkgoHelper()
	for _, object := range deployed(ctx, proxied) {
		filter, ok := object.(*istionetworkingv1alpha3.EnvoyFilter)
		if ok && filter.Namespace == "istio-ingress" && filter.Name == "proxy-protocol-sni" {
			content, err := filter.Spec.ConfigPatches[0].Patch.Value.Fields["listener_filters"].MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			return string(content)
		}
	}
	Fail("there is no filter for the PROXY protocol")
	return ""
}

// startGateway runs Envoy with the listener filters. It leads the server names of the tunnel's Gateway to the relay, if
// its VirtualService does so. It returns Envoy's address, which is beside the relay's, when it listens.
func startGateway(ctx context.Context, seed client.Client, filters, relay string) string {
	GinkgoHelper()
	gateway, routes := &istionetworkingv1beta1.Gateway{}, &istionetworkingv1beta1.VirtualService{}
	Expect(seed.Get(ctx, tunnelKey, gateway)).To(Succeed())
	Expect(seed.Get(ctx, tunnelKey, routes)).To(Succeed())
	Expect(routes.Spec.Tls[0].Match[0].SniHosts).To(ConsistOf(gateway.Spec.Servers[0].Hosts))
	names, err := json.Marshal(gateway.Spec.Servers[0].Hosts)
	Expect(err).NotTo(HaveOccurred())
	behind := netip.MustParseAddrPort(relay)
	own := netip.AddrPortFrom(behind.Addr(), uint16(program.FreePort())) // #nosec G115 -- It is a port.
	content := fmt.Sprintf(`{"static_resources": {
		"listeners": [{"name": "gateway", "address": {"socket_address": {"address": %q, "port_value": %d}},
			"listener_filters": %s, "filter_chains": [{"filter_chain_match": {"server_names": %s}, "filters": [
				{"name": "tcp", "typed_config": {"stat_prefix": "tunnel", "cluster": "relay", "@type":
					"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"}}]}]}],
		"clusters": [{"name": "relay", "type": "STATIC", "connect_timeout": "5s", "load_assignment": {
			"cluster_name": "relay", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address":
				{"address": %q, "port_value": %d}}}}]}]}}]}}`, own.Addr(), own.Port(), filters, names, behind.Addr(),
		behind.Port())
	file := filepath.Join(GinkgoT().TempDir(), "envoy.json")
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	envoy := exec.Command(nativetest.EnvoyProgram(), "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l",
		"warning")
	envoy.Stdout, envoy.Stderr = GinkgoWriter, GinkgoWriter
	Expect(envoy.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = envoy.Process.Kill()
		_ = envoy.Wait()
	})
	Eventually(func() error {
		conn, err := net.Dial("tcp", own.String())
		if err == nil {
			err = conn.Close()
		}
		return err
	}).Should(Succeed())
	return own.String()
}
