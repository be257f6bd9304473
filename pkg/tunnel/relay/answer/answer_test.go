// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package answer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/test/program"
)

const (
	member = "etcd-main-0.etcd-main-peer.livecpm-probe-1.svc"
	outer  = "etcd-main-0-client--livecpm-probe-1.ingress.seed-b.example"
)

// tickingClock moves by a millisecond each time that somebody looks at it.
type tickingClock struct {
	lock sync.Mutex
	now  time.Time
}

func (c *tickingClock) Now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *tickingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// side is one of the two seeds: its authority, and a certificate of that.
type side struct{ authority, certificate *secretsutils.Certificate }

func newSide() side {
	GinkgoHelper()
	authority, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca",
		CertType: secretsutils.CACert}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	certificate, err := (&secretsutils.CertificateSecretConfig{Name: "relay", CommonName: "relay",
		CertType: secretsutils.ServerClientCert, SigningCA: authority, DNSNames: []string{member, outer}}).
		GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	return side{authority, certificate}
}

// files writes what the side has, with the authority of the other one, as a Secret volume has it.
func (s side) files(other side) (ca, certificate, key string) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	for name, content := range map[string][]byte{"ca.crt": other.authority.CertificatePEM,
		"tls.crt": s.certificate.CertificatePEM, "tls.key": s.certificate.PrivateKeyPEM} {
		Expect(os.WriteFile(filepath.Join(folder, name), content, 0o600)).To(Succeed())
	}
	return filepath.Join(folder, "ca.crt"), filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
}

// question asks the other side by way of the port.
func (s side) question(other side, port int32) answer.Question {
	GinkgoHelper()
	certificate, err := tls.X509KeyPair(s.certificate.CertificatePEM, s.certificate.PrivateKeyPEM)
	Expect(err).NotTo(HaveOccurred())
	authorities := x509.NewCertPool()
	Expect(authorities.AppendCertsFromPEM(other.authority.CertificatePEM)).To(BeTrue())
	return answer.Question{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
		},
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, ServerName: member, RootCAs: authorities,
			Certificates: []tls.Certificate{certificate}},
		Clock: &tickingClock{now: begin},
	}
}

func address(port int32) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func freePort() int32 { return int32(program.FreePort()) }

// begin is the time of the one who asks.
var begin = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

var _ = Describe("Answerer", func() {
	var (
		ctx       = context.Background()
		here      side
		there     side
		answering answer.Options
	)

	// run runs a program until the end of the spec, and waits until it is ready.
	run := func(start func(context.Context) error, healthPort int32) {
		GinkgoHelper()
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- start(running) }()
		DeferCleanup(func() {
			stop()
			Eventually(done).Should(Receive(BeNil()))
		})
		Eventually(func() error {
			response, err := http.Get("http://" + address(healthPort) + "/readyz")
			if err == nil {
				_ = response.Body.Close()
			}
			return err
		}).Should(Succeed())
	}

	BeforeEach(func() {
		here, there = newSide(), newSide()
		answering = answer.Options{Port: freePort(), HealthPort: freePort()}
		answering.CAFile, answering.CertFile, answering.KeyFile = there.files(here)
		a, err := answer.New(answering, logr.Discard(),
			testclock.NewFakeClock(begin.Add(90*time.Second)))
		Expect(err).NotTo(HaveOccurred())
		run(a.Start, answering.HealthPort)
	})

	It("should be measured through the relays of both seeds", func() {
		ca, certificate, key := there.files(here)
		far := &config.Config{TLS: config.TLS{CAFile: ca, CertFile: certificate, KeyFile: key},
			Health: config.Endpoint{Port: freePort()}, Metrics: config.Endpoint{Port: freePort()},
			Far: config.Far{Port: freePort(), Routes: []config.FarRoute{{ServerName: outer,
				InnerSNI: []string{member}, Target: address(answering.Port)}}}}
		ca, certificate, key = here.files(there)
		near := &config.Config{TLS: config.TLS{CAFile: ca, CertFile: certificate, KeyFile: key},
			Health: config.Endpoint{Port: freePort()}, Metrics: config.Endpoint{Port: freePort()},
			Near: []config.Near{{Port: freePort(), Routes: []config.NearRoute{{InnerSNI: []string{member},
				Remote: config.Remote{Host: "127.0.0.1", Port: far.Far.Port, ServerName: outer}}}}}}
		for _, cfg := range []*config.Config{far, near} {
			config.SetDefaults(cfg)
			Expect(config.Validate(cfg)).To(BeEmpty())
			r, err := relay.New(cfg, logr.Discard(), clock.RealClock{})
			Expect(err).NotTo(HaveOccurred())
			run(r.Start, cfg.Health.Port)
		}

		got, err := answer.Measure(ctx, here.question(there, near.Near[0].Port))
		Expect(err).NotTo(HaveOccurred())
		// Who asks looks at the clock once before and once after each question.
		Expect(got.RoundTrip).To(Equal(time.Millisecond))
		// The second question was asked in the third millisecond, and was half a millisecond on its way.
		Expect(got.ClockSkew).To(Equal(90*time.Second - 3*time.Millisecond - got.RoundTrip/2))
		Expect(got.Received).To(BeNumerically(">", 0))
		Expect(got.Sent).To(BeNumerically(">", 0))
	})

	It("should not answer whom the other seed does not know", func() {
		stranger := newSide()
		question := stranger.question(there, answering.Port)
		_, err := answer.Measure(ctx, question)
		Expect(err).To(MatchError(ContainSubstring("failed to ask the other seed for the time")))
	})

	It("should not be believed by whom does not know it", func() {
		_, err := answer.Measure(ctx, here.question(newSide(), answering.Port))
		Expect(err).To(MatchError(ContainSubstring("failed to complete the TLS handshake with " + member)))
	})

	It("should send no more than it may at once", func() {
		question := here.question(there, answering.Port)
		client := &http.Client{Transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				raw, err := question.Dial(ctx)
				if err != nil {
					return nil, err
				}
				return tls.Client(raw, question.TLS), nil
			}}}
		for _, count := range []string{"", "-1", fmt.Sprint(answer.MaxBytes + 1)} {
			response, err := client.Get("https://" + member + "/bytes?count=" + count)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(http.StatusBadRequest), count)
		}
	})

	It("should not be made of files that do not fit together", func() {
		answering.KeyFile = answering.CertFile
		_, err := answer.New(answering, logr.Discard(), clock.RealClock{})
		Expect(err).To(MatchError(ContainSubstring("failed to load certificate")))
	})

	It("should not be measured where nobody is", func() {
		_, err := answer.Measure(ctx, here.question(there, freePort()))
		Expect(err).To(MatchError(ContainSubstring("failed to connect to the relay of this seed")))
	})
})
