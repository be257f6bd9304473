// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"os"
	"path/filepath"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

var _ = Describe("Ports", func() {
	It("should refuse one that cannot be, and one that is taken", func() {
		ports := pod.Ports{}
		Expect(ports.Use(8080, field.NewPath("metrics", "port"))).To(BeEmpty())
		Expect(ports.Use(8080, field.NewPath("health", "port")).ToAggregate()).
			To(MatchError(ContainSubstring("is the port of metrics.port already")))
		Expect(ports.Use(65536, field.NewPath("port")).ToAggregate()).To(MatchError(ContainSubstring("port: Invalid")))
	})
})

var _ = DescribeTable("HostOf", func(address, host, problem string) {
	got, err := pod.HostOf(address)
	if problem != "" {
		Expect(err).To(MatchError(problem))
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(host))
},
	Entry("a name", "etcd-main-0.ns.svc.:2379", "etcd-main-0.ns.svc.", ""),
	Entry("no port", "etcd-main-0", "", "must be host:port"),
	Entry("port 0", "etcd-main-0:0", "", "port must be between 1 and 65535"),
	Entry("a port that is too large", "etcd-main-0:65536", "", "port must be between 1 and 65535"),
)

var _ = Describe("LoadCertificates", func() {
	It("should keep the order of the pairs, and refuse a key that does not fit", func() {
		folder := GinkgoT().TempDir()
		write := func(name string, content []byte) string {
			file := filepath.Join(folder, name)
			Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
			return file
		}
		ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca",
			CertType: secretsutils.CACert}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		var pairs []pod.Pair
		for _, name := range []string{"one", "two"} {
			certificate, err := (&secretsutils.CertificateSecretConfig{Name: name, CommonName: name,
				CertType: secretsutils.ServerClientCert, SigningCA: ca}).GenerateCertificate()
			Expect(err).NotTo(HaveOccurred())
			pairs = append(pairs, pod.Pair{CertFile: write(name+".crt", certificate.CertificatePEM),
				KeyFile: write(name+".key", certificate.PrivateKeyPEM)})
		}
		authorities := write("ca.crt", ca.CertificatePEM)
		metrics := pod.CertificateMetrics{
			Reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reloads"}, []string{"result"}),
			Expiry:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "expiry"}),
		}

		certs, err := pod.LoadCertificates(metrics, authorities, pairs...)
		Expect(err).NotTo(HaveOccurred())
		Expect(certs.Current().Certificates).To(HaveLen(2))
		for i, name := range []string{"one", "two"} {
			Expect(certs.Current().Certificates[i].Leaf.Subject.CommonName).To(Equal(name))
		}

		By("deriving keys that belong to all of the files and to one purpose")
		key := func(purpose string, pairs ...pod.Pair) [32]byte {
			GinkgoHelper()
			certs, err := pod.LoadCertificates(metrics, authorities, pairs...)
			Expect(err).NotTo(HaveOccurred())
			derived, err := certs.Current().Derive(purpose)
			Expect(err).NotTo(HaveOccurred())
			return derived
		}
		Expect(key("tickets", pairs...)).To(Equal(key("tickets", pairs...)))
		Expect(key("tickets", pairs...)).NotTo(Equal(key("others", pairs...)))
		Expect(key("tickets", pairs[0])).NotTo(Equal(key("tickets", pairs[1])))

		pairs[1].KeyFile = pairs[0].KeyFile
		_, err = pod.LoadCertificates(metrics, authorities, pairs...)
		Expect(err).To(MatchError(ContainSubstring("failed to load certificate " + pairs[1].CertFile)))
	})
})
