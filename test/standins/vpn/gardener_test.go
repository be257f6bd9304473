// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/networking/vpn/seedserver"
	"github.com/gardener/gardener/pkg/component/networking/vpn/shoot"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const namespace = "shoot--demo--workers"

// rendered is what Gardener's components make for the VPN, with folders of what the pods mount.
type rendered struct {
	server, client, proxy                                        corev1.Container
	setUpServer, setUpClient                                     []string
	serverCertificates, clientCertificates, tlsAuth, proxyConfig string
	// apiServer is how a kube-apiserver greets the proxy.
	apiServer *tls.Config
}

func render() *rendered {
	GinkgoHelper()
	ctx := context.Background()
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	secrets := fakesecretsmanager.New(c, namespace)
	authority := certificate("ca-vpn", secretsutils.CACert, nil)
	ca := authority.SecretData()
	Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca-vpn"},
		Data: map[string][]byte{"ca.crt": ca["ca.crt"], "ca.key": ca["ca.key"],
			"bundle.crt": ca["ca.crt"]}})).To(Succeed())

	network := func(cidr string) []net.IPNet {
		_, network, err := net.ParseCIDR(cidr)
		Expect(err).NotTo(HaveOccurred())
		return []net.IPNet{*network}
	}
	nodes, pods, services := network("10.180.0.0/16"), network("10.181.0.0/16"), network("10.113.0.0/16")
	server := seedserver.New(c, namespace, secrets, func() string { return "istio-ingress" }, seedserver.Values{
		SeedPodNetwork: "10.1.0.0/16", Replicas: 1,
		Network: seedserver.NetworkValues{NodeCIDRs: nodes, PodCIDRs: pods, ServiceCIDRs: services,
			IPFamilies: []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4}},
	})
	Expect(server.Deploy(ctx)).To(Succeed())
	// The real manager of secrets finds them by their names without a checksum.
	made := &corev1.SecretList{}
	Expect(c.List(ctx, made, client.MatchingLabels{"name": seedserver.SecretNameTLSAuth})).To(Succeed())
	Expect(made.Items).To(HaveLen(1))
	Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: seedserver.SecretNameTLSAuth}, Data: made.Items[0].Data})).To(Succeed())
	Expect(shoot.New(c, namespace, secrets, shoot.Values{
		SeedPodNetwork: "10.1.0.0/16",
		ReversedVPN: shoot.ReversedVPNValues{Endpoint: "169.254.1.1",
			Header:     "outbound|1194||vpn-seed-server." + namespace + ".svc.cluster.local",
			IPFamilies: []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4}},
		Network: shoot.NetworkValues{NodeCIDRs: nodes, PodCIDRs: pods, ServiceCIDRs: services},
	}).Deploy(ctx)).To(Succeed())

	out := &rendered{tlsAuth: GinkgoT().TempDir(), proxyConfig: GinkgoT().TempDir(),
		serverCertificates: GinkgoT().TempDir(), clientCertificates: GinkgoT().TempDir()}
	out.readServer(ctx, c)
	out.readClient(ctx, c)
	// The fake manager of secrets signs nothing.
	issued := certificate("kube-apiserver-http-proxy", secretsutils.ClientCert, authority).SecretData()
	pair, err := tls.X509KeyPair(issued["tls.crt"], issued["tls.key"])
	Expect(err).NotTo(HaveOccurred())
	out.apiServer = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "vpn-seed-server",
		RootCAs:      pool(ca["ca.crt"]),
		Certificates: []tls.Certificate{pair}}
	for folder, issued := range map[string]*secretsutils.Certificate{
		out.serverCertificates: certificate("vpn-seed-server", secretsutils.ServerCert, authority),
		out.clientCertificates: certificate("vpn-shoot-client", secretsutils.ClientCert, authority),
	} {
		for name, content := range issued.SecretData() {
			mount(folder, name, content)
		}
		mount(folder, "ca.crt", ca["ca.crt"])
	}
	return out
}

func certificate(
	name string, kind secretsutils.CertType, by *secretsutils.Certificate,
) *secretsutils.Certificate {
	GinkgoHelper()
	issued, err := (&secretsutils.CertificateSecretConfig{Name: name, CommonName: name, CertType: kind, SigningCA: by,
		DNSNames: []string{name}}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	return issued
}

func (r *rendered) readServer(ctx context.Context, c client.Client) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "vpn-seed-server"}, deployment)).To(Succeed())
	spec := deployment.Spec.Template.Spec
	Expect(spec.Containers).To(HaveLen(2))
	r.server, r.proxy, r.setUpServer = spec.Containers[0], spec.Containers[1], spec.InitContainers[0].Command
	for _, volume := range spec.Volumes {
		if volume.ConfigMap != nil {
			config := &corev1.ConfigMap{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: volume.ConfigMap.Name}, config)).
				To(Succeed())
			mount(r.proxyConfig, "envoy.yaml", []byte(config.Data["envoy.yaml"]))
		}
		if volume.Secret != nil {
			found := &corev1.Secret{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: volume.Secret.SecretName}, found)).
				To(Succeed())
			for name, content := range found.Data {
				mount(r.tlsAuth, name, content)
			}
		}
	}
}

func (r *rendered) readClient(ctx context.Context, c client.Client) {
	GinkgoHelper()
	objects, err := managedresources.GetObjects(ctx, c, namespace, "shoot-core-vpn-shoot")
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			spec := deployment.Spec.Template.Spec
			r.client, r.setUpClient = spec.Containers[0], spec.InitContainers[0].Command
		}
	}
	Expect(r.client.Env).NotTo(BeEmpty())
}

// mount makes files that everybody may read: who runs the programs is not who runs the test.
func mount(folder, name string, content []byte) {
	GinkgoHelper()
	for parent := folder; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		Expect(os.Chmod(parent, 0o755)).To(Succeed())
	}
	Expect(os.WriteFile(filepath.Join(folder, name), content, 0o644)).To(Succeed())
}
