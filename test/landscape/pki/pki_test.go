// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/livecpm/livecpm/test/landscape/pki"
)

var _ = Describe("PKI", func() {
	var dir string

	BeforeEach(func() { dir = GinkgoT().TempDir() })

	leaf := func(pair *pki.Pair) *x509.Certificate {
		block, _ := pem.Decode(pair.Cert)
		ExpectWithOffset(1, block).NotTo(BeNil())
		certificate, err := x509.ParseCertificate(block.Bytes)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return certificate
	}

	It("should issue certificates that serve the requested names and authenticate the requested user", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		Expect(ca.File()).To(Equal(filepath.Join(dir, "ca.crt")))
		pair, err := ca.Ensure("server", pki.Request{CommonName: "someone", Organizations: []string{"some", "groups"},
			DNSNames: []string{"a.example"}, IPs: []string{"10.0.0.1"}})
		Expect(err).NotTo(HaveOccurred())

		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(ca.CertPEM)).To(BeTrue())
		certificate := leaf(pair)
		for _, name := range []string{"a.example", "10.0.0.1"} {
			_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "b.example"})
		Expect(err).To(HaveOccurred())
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		Expect(err).NotTo(HaveOccurred())
		Expect(certificate.Subject.CommonName).To(Equal("someone"))
		Expect(certificate.Subject.Organization).To(ConsistOf("some", "groups"))
		_, err = tls.X509KeyPair(pair.Cert, pair.Key)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should keep what exists", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		pair, err := ca.Ensure("client", pki.Request{CommonName: "someone"})
		Expect(err).NotTo(HaveOccurred())
		again, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		Expect(again.CertPEM).To(Equal(ca.CertPEM))
		Expect(again.Ensure("client", pki.Request{CommonName: "someone"})).To(Equal(pair))
	})

	It("should make a pair again that a crash left incomplete", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		pair, err := ca.Ensure("client", pki.Request{CommonName: "someone"})
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Remove(pair.KeyFile)).To(Succeed())
		again, err := ca.Ensure("client", pki.Request{CommonName: "someone"})
		Expect(err).NotTo(HaveOccurred())
		_, err = tls.LoadX509KeyPair(again.CertFile, again.KeyFile)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should keep keys to root", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		pair, err := ca.Ensure("client", pki.Request{CommonName: "someone"})
		Expect(err).NotTo(HaveOccurred())
		key, _, err := pki.EnsureSigningKey(dir, "service-account")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range []string{filepath.Join(dir, "ca.key"), pair.KeyFile, key} {
			info, err := os.Stat(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), file)
		}
	})

	It("should refuse an address that is none", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		_, err = ca.Ensure("server", pki.Request{IPs: []string{"here"}})
		Expect(err).To(MatchError(ContainSubstring(`"here" is not an IP address`)))
	})

	It("should write a kubeconfig that needs no other file", func() {
		ca, err := pki.EnsureCA(dir, "ca")
		Expect(err).NotTo(HaveOccurred())
		pair, err := ca.Ensure("admin", pki.Request{CommonName: "admin"})
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(dir, "deep", "kubeconfig")
		Expect(pki.EnsureKubeconfig(file, "https://10.0.0.1:6443", ca, pair)).To(Succeed())
		before, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.BuildConfigFromFlags("", file)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://10.0.0.1:6443"))
		Expect(config.CAData).To(Equal(ca.CertPEM))
		Expect(config.CertData).To(Equal(pair.Cert))
		Expect(config.KeyData).To(Equal(pair.Key))

		Expect(pki.EnsureKubeconfig(file, "https://10.0.0.1:6443", ca, pair)).To(Succeed())
		after, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.SameFile(before, after)).To(BeTrue(), "an unchanged file is not written again")
	})
})
