// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

var _ = Describe("sessions between the relays", func() {
	var (
		innerCA, outerCA *authority
		target           *etcd
		files            config.TLS
		near, far        *config.Config
		stopFar          func() error
	)

	BeforeEach(func() {
		innerCA, outerCA = newAuthority("etcd"), newAuthority("relay")
		files = outerCA.write(GinkgoT().TempDir(), outerName)
		target = newEtcd(innerCA)
		DeferCleanup(target.Close)
		far = farConfig(files, target.Addr().String())
		near = nearConfig(files, far.Far.Port)
		stopFar = start(far, clock.RealClock{})
		DeferCleanup(func() { Expect(stopFar()).To(Succeed()) })
		stopNear := start(near, clock.RealClock{})
		DeferCleanup(func() { Expect(stopNear()).To(Succeed()) })
	})

	connect := func() {
		GinkgoHelper()
		conn, err := dial(innerCA, near.Near[0].Port, innerName)
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(closeWrite(conn)).To(Succeed())
		Expect(io.ReadAll(conn)).To(BeEmpty())
	}
	// handshakes returns how many were full ones and how many resumed a session.
	handshakes := func(cfg *config.Config, direction string) []string {
		count := func(resumed string) string {
			return metric(cfg,
				`livecpm_relay_handshakes_total{direction="`+direction+`",resumed="`+resumed+`"}`)
		}
		return []string{count("false"), count("true")}
	}
	// replaceFar lets another relay take the place of the far one.
	replaceFar := func(files config.TLS) {
		GinkgoHelper()
		Expect(stopFar()).To(Succeed())
		replaced := *far
		replaced.TLS = files
		far = &replaced
		stopFar = start(far, clock.RealClock{})
	}

	It("should be resumed, also at another relay with the same files", func() {
		for range 3 {
			connect()
		}
		Expect(handshakes(near, "near")).To(Equal([]string{"1", "2"}))
		Expect(handshakes(far, "far")).To(Equal([]string{"1", "2"}))

		replaceFar(files)
		connect()
		Expect(handshakes(near, "near")).To(Equal([]string{"1", "3"}))
		Expect(handshakes(far, "far")).To(Equal([]string{"", "1"}))
	})

	It("should begin again with a full handshake when the other relay has another key", func() {
		connect()
		replaceFar(outerCA.write(GinkgoT().TempDir(), outerName))
		connect()
		Expect(handshakes(far, "far")).To(Equal([]string{"1", ""}))
		connect()
		Expect(handshakes(far, "far")).To(Equal([]string{"1", "1"}))
	})

	It("should not be trusted when the other relay has another authority", func() {
		connect()
		replaceFar(newAuthority("relay").write(GinkgoT().TempDir(), outerName))
		_, err := dial(innerCA, near.Near[0].Port, innerName)
		Expect(err).To(HaveOccurred())
		Expect(metric(near, `livecpm_relay_handshake_failures_total{cause="certificate",direction="near"}`)).
			To(Equal("1"))
	})

	DescribeTable("should have the certificate that they began with verified again",
		func(change func(*x509.VerifyOptions), problem string) {
			options := x509.VerifyOptions{Roots: outerCA.pool(), DNSName: outerName,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
			change(&options)
			state := tls.ConnectionState{DidResume: true,
				PeerCertificates: []*x509.Certificate{outerCA.keyPair(outerName).Leaf}}
			if problem == "" {
				Expect(relay.VerifyAgain(options)(state)).To(Succeed())
			} else {
				Expect(relay.VerifyAgain(options)(state)).To(MatchError(ContainSubstring(problem)))
			}

			state.DidResume = false
			Expect(relay.VerifyAgain(options)(state)).To(Succeed(), "a full handshake has verified it")
		},
		Entry("a good one", func(*x509.VerifyOptions) {}, ""),
		Entry("when another authority is trusted",
			func(o *x509.VerifyOptions) { o.Roots = newAuthority("relay").pool() }, "unknown authority"),
		Entry("when it has expired", func(o *x509.VerifyOptions) { o.CurrentTime = time.Now().Add(2 * time.Hour) },
			"expired or is not yet valid"),
		Entry("when another name is dialed", func(o *x509.VerifyOptions) { o.DNSName = "elsewhere.example" },
			"not elsewhere.example"),
		Entry("when it is for another use",
			func(o *x509.VerifyOptions) { o.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
			"incompatible key usage"),
	)

	It("should not be resumed without a certificate", func() {
		err := relay.VerifyAgain(x509.VerifyOptions{Roots: outerCA.pool()})(tls.ConnectionState{DidResume: true})
		Expect(err).To(MatchError(ContainSubstring("no certificate")))
	})
})
