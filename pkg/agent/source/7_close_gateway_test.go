// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	gardeneristio "github.com/gardener/gardener/pkg/utils/istio"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/source"
)

const (
	apiHost          = "api.live.example"
	gatewayNamespace = "istio-ingress"
	gatewayAddress   = "192.0.2.1"
)

// gatewayConfig is the part of the gardenlet's configuration that names the ingress gateway.
func gatewayConfig() *gardenletconfigv1alpha1.GardenletConfiguration {
	name, ns := "istio-ingressgateway", gatewayNamespace
	return &gardenletconfigv1alpha1.GardenletConfiguration{SNI: &gardenletconfigv1alpha1.SNI{
		Ingress: &gardenletconfigv1alpha1.SNIIngress{ServiceName: &name, Namespace: &ns,
			Labels: map[string]string{"istio": "ingressgateway"}},
	}}
}

// seedOf returns a seed with one zone, which has no zonal gateways.
func seedOf(name string) *seedpkg.Seed {
	seed := &seedpkg.Seed{}
	seed.SetInfo(&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return seed
}

// tlsEnd is where the TLS of clients ends.
type tlsEnd int

const (
	atServer tlsEnd = iota
	atGateway
)

// exposed returns what exposes a kube-apiserver, made by the functions that Gardener makes it with.
func exposed(end tlsEnd) []client.Object {
	GinkgoHelper()
	var (
		meta     = metav1.ObjectMeta{Name: "kube-apiserver", Namespace: namespace}
		gateway  = &istionetworkingv1beta1.Gateway{ObjectMeta: meta}
		routes   = &istionetworkingv1beta1.VirtualService{ObjectMeta: meta}
		hosts    = []string{apiHost, "api.live.internal.example"}
		selector = map[string]string{"istio": "ingressgateway"}
	)
	if end == atGateway {
		Expect(gardeneristio.GatewayWithMutualTLS(gateway, nil, selector, []gardeneristio.ServerConfig{
			{Hosts: hosts, PortName: "tls", TLSSecret: "tls"},
		})()).To(Succeed())
		Expect(gardeneristio.VirtualServiceForTLSTermination(routes, nil, []string{gatewayNamespace}, hosts,
			"kube-apiserver", 443, "kube-apiserver", "kube-apiserver-connection-upgrade", "connection-upgrade")()).
			To(Succeed())
	} else {
		Expect(gardeneristio.GatewayWithTLSPassthrough(gateway, nil, selector, hosts)()).To(Succeed())
		Expect(gardeneristio.VirtualServiceWithSNIMatch(routes, nil, []string{gatewayNamespace}, hosts,
			"kube-apiserver", 443, "kube-apiserver")()).To(Succeed())
	}
	return []client.Object{gateway, routes, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-ingressgateway", Namespace: gatewayNamespace},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: gatewayAddress}},
		}},
	}}
}

var _ = Describe("Looking whether the ingress gateway takes clients", func() {
	// serve answers on a loopback address with a certificate for the name, or hangs up if there is none.
	serve := func(name string) string {
		GinkgoHelper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if name != "" {
			certificate, err := (&secretsutils.CertificateSecretConfig{
				Name: "server", CommonName: name, DNSNames: []string{name}, CertType: secretsutils.CACert,
			}).GenerateCertificate()
			Expect(err).NotTo(HaveOccurred())
			pair, err := tls.X509KeyPair(certificate.CertificatePEM, certificate.PrivateKeyPEM)
			Expect(err).NotTo(HaveOccurred())
			config.Certificates = []tls.Certificate{pair}
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				if name != "" {
					_ = tls.Server(conn, config).Handshake()
				}
				_ = conn.Close()
			}
		}()
		return listener.Addr().String()
	}
	ctx := context.Background()

	It("should not take it for closed while the shoot's certificate is shown", func() {
		Expect(source.CheckClosed(ctx, serve(apiHost), apiHost)).To(MatchError(ContainSubstring("still takes")))
	})

	It("should take it for closed when it hangs up, or shows the certificate of somebody else", func() {
		Expect(source.CheckClosed(ctx, serve(""), apiHost)).To(Succeed())
		Expect(source.CheckClosed(ctx, serve("other.example"), apiHost)).To(Succeed())
	})

	It("should not conclude anything from a gateway that it cannot reach or that does not answer", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(source.CheckClosed(short, listener.Addr().String(), apiHost)).
			To(MatchError(ContainSubstring("failed to look")))
		Expect(listener.Close()).To(Succeed())
		Expect(source.CheckClosed(ctx, listener.Addr().String(), apiHost)).
			To(MatchError(ContainSubstring("failed to look")))
	})
})

var errStillOpen = errors.New("still open")
