// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/test/landscape/native/nativetest"
	"github.com/livecpm/livecpm/test/standins/machine/container"
)

// gatewayConfig leads CONNECT to the cluster that the header names, as Gardener's EnvoyFilter http-proxy does it.
const gatewayConfig = `
static_resources:
  listeners:
  - name: http-proxy
    address: {socket_address: {address: 0.0.0.0, port_value: 8443}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: gateway
          http_protocol_options: {accept_http_10: true}
          upgrade_configs: [{upgrade_type: CONNECT}]
          route_config:
            virtual_hosts:
            - name: http-proxy
              domains: ["*"]
              routes:
              - match: {connect_matcher: {}, headers: [{name: X-Gardener-Destination, present_match: true}]}
                route:
                  cluster_header: X-Gardener-Destination
                  upgrade_configs: [{upgrade_type: CONNECT, connect_config: {}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: outbound|1194||vpn-seed-server.shoot--demo--workers.svc.cluster.local
    type: STATIC
    connect_timeout: 5s
    load_assignment:
      cluster_name: x
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.1.0.2, port_value: 1194}}}}]}]
`

const (
	serverPod, clientPod, kubelet = "10.1.0.2", "10.181.0.2", "10.180.0.2"
	proxyAddress                  = serverPod + ":9443"
	kubeletAddress                = kubelet + ":10250"
)

var _ = Describe("The way from a kube-apiserver into the shoot", func() {
	var (
		image, envoyImage   string
		rendered            *rendered
		world, seed, inside *container.Network
		server, client      *container.Container
		callers             chan string
	)

	network := func() *container.Network {
		GinkgoHelper()
		made, err := container.NewNetwork()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(made.Close)
		return made
	}
	// connected returns the network of a pod or node that is connected with the world.
	connected := func(name, address string) *container.Network {
		GinkgoHelper()
		pod := network()
		Expect(world.Do(func() error {
			return pod.Connect(container.Plug{Name: name, Pod: netip.MustParseAddr(address),
				Gateway: netip.MustParseAddr("169.254.1.1")})
		})).To(Succeed())
		return pod
	}
	start := func(c *container.Container) *container.Process {
		GinkgoHelper()
		process, err := c.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { process.Stop(10 * time.Second) })
		return process
	}
	// finish runs a container that is to end by itself.
	finish := func(c container.Container, args ...string) error {
		GinkgoHelper()
		c.Args = args
		return start(&c).Err()
	}
	entrypoint := func(name string) []string {
		return []string{"/bin/sh", "-c",
			fmt.Sprintf("/bin/%s && exec /usr/sbin/openvpn --config /open%s.config", name, name)}
	}

	BeforeEach(func() {
		program := filepath.Join(GinkgoT().TempDir(), "vpn")
		build := exec.Command("go", "build", "-o", program, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := build.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
		image = nativetest.OpenVPNImage(program, "/bin/vpn-server", "/bin/vpn-client")
		envoyImage = nativetest.EnvoyImage()
		rendered = render()

		world = network()
		Expect(world.Do(func() error {
			return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
		})).To(Succeed())
		seed, inside = connected("seed", serverPod), connected("shoot", clientPod)
		callers = make(chan string, 100)
		node := connected("node", kubelet)
		var listener net.Listener
		Expect(node.Do(func() (err error) {
			listener, err = net.Listen("tcp", kubeletAddress)
			return err
		})).To(Succeed())
		answering := &http.Server{ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				host, _, _ := net.SplitHostPort(r.RemoteAddr)
				callers <- host
				_, _ = io.WriteString(w, "the kubelet answers "+r.URL.Path)
			})}
		go func() { _ = answering.Serve(listener) }()
		DeferCleanup(answering.Close)

		status := GinkgoT().TempDir()
		server = &container.Container{Image: image, Args: entrypoint("vpn-server"), Env: env(rendered.server),
			Network: seed, Output: GinkgoWriter, Mounts: []container.Mount{
				{Source: rendered.serverCertificates, Target: "/srv/secrets/vpn-server"},
				{Source: rendered.tlsAuth, Target: "/srv/secrets/tlsauth"}, {Source: status, Target: "/srv/status"},
			}}
		client = &container.Container{Image: image, Args: entrypoint("vpn-client"), Env: env(rendered.client),
			Network: inside, Output: GinkgoWriter, Mounts: []container.Mount{
				{Source: rendered.clientCertificates, Target: "/srv/secrets/vpn-client"},
				{Source: rendered.tlsAuth, Target: "/srv/secrets/tlsauth"},
			}}
		gateway := filepath.Join(GinkgoT().TempDir(), "envoy.yaml")
		Expect(os.WriteFile(gateway, []byte(gatewayConfig), 0o600)).To(Succeed())
		start(&container.Container{Image: envoyImage, Network: world,
			Args:   []string{"envoy", "--use-dynamic-base-id", "--concurrency", "1", "-c", "/etc/envoy/envoy.yaml"},
			Mounts: []container.Mount{{Source: gateway, Target: "/etc/envoy/envoy.yaml"}}})
		start(&container.Container{Image: envoyImage, Network: seed,
			Args: rendered.proxy.Command,
			User: &syscall.Credential{Uid: 65532, Gid: v1beta1constants.EnvoyVPNGroupId},
			Mounts: []container.Mount{{Source: rendered.proxyConfig, Target: "/etc/envoy"},
				{Source: rendered.serverCertificates, Target: "/srv/secrets/envoy-proxy"}}})
	})

	// ask asks the kubelet as a kube-apiserver does: by CONNECT, over TLS.
	ask := func() (answer string, err error) {
		var conn net.Conn
		if err := world.Do(func() (err error) {
			conn, err = net.DialTimeout("tcp", proxyAddress, 10*time.Second)
			return err
		}); err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		secured := tls.Client(conn, rendered.apiServer)
		if _, err := fmt.Fprintf(secured, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", kubeletAddress,
			kubeletAddress); err != nil {
			return "", err
		}
		buffered := bufio.NewReader(secured)
		response, err := http.ReadResponse(buffered, &http.Request{Method: http.MethodConnect})
		if err != nil {
			return "", err
		}
		if response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("the proxy answers %s", response.Status)
		}
		if _, err := fmt.Fprintf(secured, "GET /logs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			return "", err
		}
		if response, err = http.ReadResponse(buffered, nil); err != nil {
			return "", err
		}
		content, err := io.ReadAll(response.Body)
		return string(content), err
	}

	It("should be open with what Gardener renders for both sides, and again after another server has come", func() {
		Expect(finish(*server, rendered.setUpServer...)).To(Succeed())
		Expect(finish(*server, "/bin/vpn-server", "liveness")).NotTo(Succeed(), "there is no server")
		first := start(server)
		_, err := ask()
		Expect(err).To(HaveOccurred(), "there is no client")

		Expect(finish(*client, rendered.setUpClient...)).To(Succeed())
		start(client)
		Eventually(ask).Should(Equal("the kubelet answers /logs"))
		Expect(callers).To(Receive(Equal(clientPod)), "it is the client in the shoot that asks")
		Eventually(func() error { return finish(*server, "/bin/vpn-server", "liveness") }).Should(Succeed())
		Expect(finish(*server, "/bin/vpn-server", "readiness")).To(Succeed())

		By("letting another server take the place of the first one")
		first.Stop(10 * time.Second)
		Expect(first.Err()).To(Succeed(), "OpenVPN ends by itself when it is told to")
		_, err = ask()
		Expect(err).To(HaveOccurred())
		start(server)
		Eventually(ask).Should(Equal("the kubelet answers /logs"))
	})

	It("should be closed to the shoot", func() {
		Expect(finish(*server, rendered.setUpServer...)).To(Succeed())
		start(server)
		Expect(finish(*client, rendered.setUpClient...)).To(Succeed())
		start(client)
		Eventually(ask).Should(Equal("the kubelet answers /logs"))
		// What a program in the shoot sends into the tunnel is for the pod of the server.
		dial := func(address string) error {
			return inside.Do(func() error {
				conn, err := net.DialTimeout("tcp", address, 3*time.Second)
				if err == nil {
					_ = conn.Close()
				}
				return err
			})
		}
		Expect(dial("[fd8f:6d53:b97a:1::1]:9443")).NotTo(Succeed())
		Expect(dial("241.1.0.2:9443")).NotTo(Succeed())
		Expect(dial(proxyAddress)).To(Succeed(), "besides the tunnel, there is a way in this test")
	})
})

var _ = Describe("The configuration that Gardener renders for envoy", func() {
	It("should be accepted by envoy for the proxy beside the VPN server", func() {
		rendered := render()
		validate := &container.Container{Image: nativetest.EnvoyImage(), Output: GinkgoWriter,
			Args: append(rendered.proxy.Command, "--mode", "validate"),
			Mounts: []container.Mount{{Source: rendered.proxyConfig, Target: "/etc/envoy"},
				{Source: rendered.serverCertificates, Target: "/srv/secrets/envoy-proxy"}}}
		process, err := validate.Start()
		Expect(err).NotTo(HaveOccurred())
		Expect(process.Err()).To(Succeed())
	})
})

func env(container corev1.Container) []string {
	var out []string
	for _, variable := range container.Env {
		out = append(out, variable.Name+"="+variable.Value)
	}
	return out
}

func pool(pem []byte) *x509.CertPool {
	GinkgoHelper()
	out := x509.NewCertPool()
	Expect(out.AppendCertsFromPEM(pem)).To(BeTrue())
	return out
}
