// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("GenerateTLS", func() {
	const namespace, domain = "shoot--demo--live", "ingress.seed-a.example"

	var (
		ctx  = context.Background()
		seed client.Client
	)

	BeforeEach(func() {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	})

	generate := func() *corev1.Secret {
		GinkgoHelper()
		manager, err := secretsmanager.New(ctx, logr.Discard(), testclock.NewFakeClock(time.Now()), seed, "gardenlet",
			secretsmanager.WithNamespaces(namespace))
		Expect(err).NotTo(HaveOccurred())
		secret, err := GenerateTLS(ctx, manager, namespace, domain)
		Expect(err).NotTo(HaveOccurred())
		return secret
	}

	It("should make a pair whose key is cheap to sign with, and which both serves and dials", func() {
		secret := generate()
		pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		Expect(err).NotTo(HaveOccurred())
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		Expect(ok).To(BeTrue(), "%T", pair.PrivateKey)
		Expect(key.Curve).To(Equal(elliptic.P256()))

		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(secret.Data["ca.crt"])).To(BeTrue())
		_, certificate := CertificateConfigs(namespace, domain)
		Expect(certificate.DNSNames).NotTo(BeEmpty())
		for _, name := range certificate.DNSNames {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			Expect(err).NotTo(HaveOccurred(), name)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		Expect(err).NotTo(HaveOccurred())
	})

	It("should keep the pair as long as its authority and its names are the same", func() {
		first := generate()
		Expect(generate().Name).To(Equal(first.Name))
		Expect(generate().Data).To(Equal(first.Data))

		authorities := &corev1.SecretList{}
		Expect(seed.List(ctx, authorities, client.MatchingLabels{secretsmanager.LabelKeyName: SecretNameCA})).
			To(Succeed())
		Expect(authorities.Items).To(HaveLen(1))
		Expect(seed.Delete(ctx, &authorities.Items[0])).To(Succeed())
		Expect(generate().Name).NotTo(Equal(first.Name))
	})

	It("should not make one that nobody has signed", func() {
		_, certificate := CertificateConfigs(namespace, domain)
		_, err := certificate.Generate()
		Expect(err).To(MatchError(ContainSubstring("has no authority")))
		var config secretsutils.ConfigInterface = certificate
		Expect(config.GetName()).To(Equal(Name))
	})
})
