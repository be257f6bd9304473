// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Relay", func() {
	var (
		innerCA, outerCA *authority
		files            config.TLS
		target           *etcd
		near, far        *config.Config
		stopNear         func() error
		stopFar          func() error
	)

	BeforeEach(func() {
		innerCA, outerCA = newAuthority("etcd"), newAuthority("relay")
		files = outerCA.write(GinkgoT().TempDir(), outerName)
		target = newEtcd(innerCA)
		DeferCleanup(func() { _ = target.Close() }) // some tests close it themselves
		far = farConfig(files, target.Addr().String())
		near = nearConfig(files, far.Far.Port)
		stopNear, stopFar = start(near, clock.RealClock{}), start(far, clock.RealClock{})
		DeferCleanup(func() {
			Expect(stopNear()).To(Succeed())
			Expect(stopFar()).To(Succeed())
		})
	})

	roundTrip := func(serverName string, content []byte) ([]byte, error) {
		conn, err := dial(innerCA, near.Near[0].Port, serverName)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if _, err := conn.Write(content); err != nil {
			return nil, err
		}
		if err := closeWrite(conn); err != nil {
			return nil, err
		}
		return io.ReadAll(conn)
	}

	Describe("from seed to seed", func() {
		It("should carry the inner TLS untouched, with half-close", func() {
			answer, err := roundTrip(innerName, []byte("hello"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(answer)).To(Equal("hello"))
			Expect(target.serverNames()).To(ConsistOf(innerName))

			Eventually(func() string { return metric(near, `livecpm_relay_open_connections{direction="near"`) }).
				Should(Equal("0"))
			Expect(metric(near, `livecpm_relay_connections_total{direction="near",route="`+outerName+`"}`)).
				To(Equal("1"))
			Expect(metric(far, `livecpm_relay_connections_total{direction="far",route="`+outerName+`"}`)).To(Equal("1"))
			Expect(metric(far, `livecpm_relay_bytes_total{direction="far",flow="sent"`)).NotTo(BeElementOf("", "0"))
		})

		It("should match wildcards of inner server names", func() {
			// The certificate does not have this name, but the handshake comes as far as showing it.
			_, err := roundTrip("etcd-main-2.etcd-main-peer.shoot--demo--live.svc.cluster.local", nil)
			var verification *tls.CertificateVerificationError
			Expect(errors.As(err, &verification)).To(BeTrue(), "%v", err)
		})

		It("should carry large transfers both ways", func() {
			content := make([]byte, 32<<20)
			_, _ = rand.Read(content)
			answer, err := roundTrip(innerName, content)
			Expect(err).NotTo(HaveOccurred())
			Expect(sha256.Sum256(answer)).To(Equal(sha256.Sum256(content)))
		})

		It("should carry many connections at once", func() {
			results := make(chan error)
			for i := range 50 {
				go func() {
					content := bytes.Repeat([]byte{byte(i)}, 10_000)
					answer, err := roundTrip(innerName, content)
					if err == nil && !bytes.Equal(answer, content) {
						err = errors.New("answer of another connection")
					}
					results <- err
				}()
			}
			for range 50 {
				Expect(<-results).To(Succeed())
			}
		})
	})

	Describe("near side", func() {
		It("should drop unknown inner server names", func() {
			_, err := roundTrip("etcd-main-0.elsewhere", nil)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(metric(near,
				`livecpm_relay_handshake_failures_total{cause="unknown_server_name",direction="near"}`)).To(Equal("1"))
		})

		It("should drop plain text", func() {
			conn, err := net.Dial("tcp", address(near.Near[0].Port))
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: etcd\r\n\r\n"))
			// The time for a handshake is an hour: it is not why this connection ends.
			Expect(near.Limits.HandshakeTimeout.Duration).To(BeNumerically(">", patience.Eventually))
			Expect(closed(conn)).To(Succeed())
			Expect(metric(near, `livecpm_relay_handshake_failures_total{cause="not_tls",direction="near"}`)).
				To(Equal("1"))
		})

		It("should drop a slow ClientHello", func() {
			Expect(stopNear()).To(Succeed())
			near.Limits.HandshakeTimeout.Duration = slowHandshake
			DeferCleanup(start(near, clock.RealClock{}))
			begin := time.Now() // before its time begins
			conn, err := net.Dial("tcp", address(near.Near[0].Port))
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			_, _ = conn.Write([]byte{22, 3, 1})
			Expect(closed(conn)).To(Succeed())
			Expect(time.Since(begin)).To(BeNumerically(">=", slowHandshake))
			Expect(metric(near, `livecpm_relay_handshake_failures_total{cause="timeout",direction="near"}`)).
				To(Equal("1"))
		})

		It("should reset the connection at once when the other seed cannot be reached", func() {
			Expect(stopFar()).To(Succeed())
			Expect(stopNear()).To(Succeed())
			// Who waited for it would wait for longer than any test.
			near.Limits.DialTimeout.Duration = time.Hour
			DeferCleanup(start(near, clock.RealClock{}))
			_, err := roundTrip(innerName, nil)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(metric(near, `livecpm_relay_dial_failures_total{direction="near",route="`+outerName+`"}`)).
				To(Equal("1"))
		})

		It("should not trust a relay of another authority", func() {
			Expect(stopFar()).To(Succeed())
			far.TLS = newAuthority("other").write(GinkgoT().TempDir(), outerName)
			DeferCleanup(start(far, clock.RealClock{}))
			_, err := roundTrip(innerName, nil)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(metric(near, `livecpm_relay_handshake_failures_total{cause="certificate",direction="near"}`)).
				To(Equal("1"))
		})
	})

	Describe("far side", func() {
		handshake := func(cfg *tls.Config) error {
			GinkgoHelper()
			cfg.RootCAs = outerCA.pool()
			conn, err := tls.Dial("tcp", address(far.Far.Port), cfg)
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience.Eventually))
			_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 a server's verdict comes after the client's handshake
			Expect(err).NotTo(MatchError(os.ErrDeadlineExceeded), "silence is no verdict")
			return err
		}
		protocols := []string{"livecpm-relay/1"}

		It("should demand a client certificate", func() {
			Expect(handshake(&tls.Config{ServerName: outerName, NextProtos: protocols})).NotTo(Succeed())
			Eventually(func() string {
				return metric(far, `livecpm_relay_handshake_failures_total{cause="certificate",direction="far"}`)
			}).Should(Equal("1"))
			Expect(target.serverNames()).To(BeEmpty())
		})

		It("should refuse a client certificate of another authority", func() {
			other := newAuthority("other").keyPair(outerName)
			Expect(handshake(&tls.Config{ServerName: outerName, NextProtos: protocols,
				Certificates: []tls.Certificate{other}})).NotTo(Succeed())
			Eventually(func() string {
				return metric(far, `livecpm_relay_handshake_failures_total{cause="certificate",direction="far"}`)
			}).Should(Equal("1"))
		})

		It("should refuse unknown server names, older TLS and other protocols", func() {
			own := []tls.Certificate{outerCA.keyPair(outerName)}
			Expect(handshake(&tls.Config{ServerName: "elsewhere", NextProtos: protocols, Certificates: own})).
				NotTo(Succeed())
			Expect(handshake(&tls.Config{ServerName: outerName, NextProtos: protocols, Certificates: own,
				MaxVersion: tls.VersionTLS12})).NotTo(Succeed())
			Expect(handshake(&tls.Config{ServerName: outerName, NextProtos: []string{"h2"}, Certificates: own})).
				NotTo(Succeed())
			Expect(handshake(&tls.Config{ServerName: outerName, Certificates: own})).NotTo(Succeed())
			Eventually(func() string {
				return metric(far,
					`livecpm_relay_handshake_failures_total{cause="unknown_server_name",direction="far"}`)
			}).Should(Equal("1"))
			Expect(metric(far, `livecpm_relay_connections_total`)).To(BeEmpty())
		})

		It("should drop a slow handshake", func() {
			Expect(stopFar()).To(Succeed())
			far.Limits.HandshakeTimeout.Duration = slowHandshake
			DeferCleanup(start(far, clock.RealClock{}))
			begin := time.Now() // before its time begins
			conn, err := net.Dial("tcp", address(far.Far.Port))
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			Expect(closed(conn)).To(Succeed())
			Expect(time.Since(begin)).To(BeNumerically(">=", slowHandshake))
		})

		It("should pass the failure on when the target is down", func() {
			Expect(target.Close()).To(Succeed())
			_, err := roundTrip(innerName, nil)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(metric(far, `livecpm_relay_dial_failures_total{direction="far",route="`+outerName+`"}`)).
				To(Equal("1"))
		})
	})

	Describe("limits", func() {
		It("should reset what exceeds them and leave the rest alone", func() {
			Expect(stopNear()).To(Succeed())
			near.Limits.MaxConnections = 2
			DeferCleanup(start(near, clock.RealClock{}))

			for range 2 {
				conn, err := dial(innerCA, near.Near[0].Port, innerName)
				Expect(err).NotTo(HaveOccurred())
				defer conn.Close()
			}
			_, err := dial(innerCA, near.Near[0].Port, innerName)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(metric(near, "livecpm_relay_refused_connections_total")).To(Equal("1"))
		})

		It("should not let silent strangers take the place of established connections", func() {
			Expect(stopNear()).To(Succeed())
			near.Limits.MaxConnections = 1
			DeferCleanup(start(near, clock.RealClock{}))

			conn, err := dial(innerCA, near.Near[0].Port, innerName)
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			stranger, err := net.Dial("tcp", address(near.Near[0].Port))
			Expect(err).NotTo(HaveOccurred())
			defer stranger.Close()
			Expect(closedWithin(stranger, 200*time.Millisecond)).NotTo(Succeed(),
				"a stranger is heard although all slots are taken")
			Expect(closeWrite(conn)).To(Succeed())
			_, err = io.ReadAll(conn)
			Expect(err).NotTo(HaveOccurred())
		})
	})

	Describe("certificates", func() {
		It("should take changed files into use for new connections and keep the old ones meanwhile", func() {
			Expect(stopNear()).To(Succeed())
			Expect(stopFar()).To(Succeed())
			fake := clocktesting.NewFakeClock(time.Now())
			stopNear, stopFar := start(near, fake), start(far, fake)
			DeferCleanup(func() {
				stopped := make(chan struct{})
				var stepping sync.WaitGroup
				stepping.Go(func() { // draining waits on this clock too
					for {
						select {
						case <-stopped:
							return
						case <-time.After(20 * time.Millisecond):
							fake.Step(time.Second)
						}
					}
				})
				Expect(stopNear()).To(Succeed())
				Expect(stopFar()).To(Succeed())
				close(stopped)
				stepping.Wait()
			})
			before, err := dial(innerCA, near.Near[0].Port, innerName)
			Expect(err).NotTo(HaveOccurred())
			defer before.Close()

			By("ignoring files that do not fit together")
			Expect(os.WriteFile(files.CertFile, []byte("torn"), 0o600)).To(Succeed())
			// Both relays have to wait for their time to look. Nothing else waits on this clock.
			Eventually(fake.Waiters).Should(Equal(2))
			fake.Step(10 * time.Second)
			Eventually(func() string {
				return metric(near, `livecpm_relay_certificate_reloads_total{result="failure"}`)
			}).Should(Equal("1"))
			Eventually(func() string {
				return metric(far, `livecpm_relay_certificate_reloads_total{result="failure"}`)
			}).Should(Equal("1"))
			Expect(roundTrip(innerName, []byte("still"))).To(Equal([]byte("still")))

			By("changing to a new authority")
			outerCA = newAuthority("renewed")
			renewed := outerCA.write(GinkgoT().TempDir(), outerName)
			for from, to := range map[string]string{renewed.CAFile: files.CAFile, renewed.CertFile: files.CertFile,
				renewed.KeyFile: files.KeyFile} {
				content, err := os.ReadFile(from)
				Expect(err).NotTo(HaveOccurred())
				Expect(os.WriteFile(to, content, 0o600)).To(Succeed())
			}
			fake.Step(10 * time.Second)
			Eventually(func() string {
				return metric(near, `livecpm_relay_certificate_reloads_total{result="success"}`)
			}).Should(Equal("1"))
			Eventually(func() string {
				return metric(far, `livecpm_relay_certificate_reloads_total{result="success"}`)
			}).Should(Equal("1"))
			Expect(roundTrip(innerName, []byte("new"))).To(Equal([]byte("new")))
			Expect(metric(near, `livecpm_relay_handshakes_total{direction="near",resumed="false"}`)).To(Equal("2"),
				"the first one, and this one: no session outlives the files that it began with")
			conn, err := tls.Dial("tcp", address(far.Far.Port),
				&tls.Config{RootCAs: outerCA.pool(), ServerName: outerName, NextProtos: []string{"livecpm-relay/1"}})
			Expect(err).NotTo(HaveOccurred(), "the far side shows a certificate of the new authority")
			_ = conn.Close() // the far side, missing a client certificate, may have been faster

			By("not having touched the connection from before")
			_, err = before.Write([]byte("old"))
			Expect(err).NotTo(HaveOccurred())
			Expect(closeWrite(before)).To(Succeed())
			Expect(io.ReadAll(before)).To(Equal([]byte("old")))
		})

		It("should not start without them", func() {
			near.TLS.KeyFile = "/nowhere/tls.key"
			_, err := relay.New(near, logr.Discard(), clock.RealClock{})
			Expect(err).To(MatchError(ContainSubstring("/nowhere/tls.key")))
		})
	})

	Describe("end", func() {
		It("should drain: refuse new connections, let open ones end, then reset the rest", func() {
			Expect(stopNear()).To(Succeed())
			near.Limits.DrainTimeout.Duration = time.Hour
			clk := clocktesting.NewFakeClock(time.Now())
			stop := start(near, clk)
			ending, err := dial(innerCA, near.Near[0].Port, innerName)
			Expect(err).NotTo(HaveOccurred())
			lasting, err := dial(innerCA, near.Near[0].Port, innerName)
			Expect(err).NotTo(HaveOccurred())

			done := make(chan error, 1)
			go func() { done <- stop() }()
			Eventually(func() error {
				conn, err := net.Dial("tcp", address(near.Near[0].Port))
				if err == nil {
					_ = conn.Close()
				}
				return err
			}).Should(MatchError(syscall.ECONNREFUSED))
			Expect(closeWrite(ending)).To(Succeed())
			Expect(io.ReadAll(ending)).To(BeEmpty())
			Consistently(done).ShouldNot(Receive(), "one of them is still open")
			// It may just be about to wait.
			Eventually(func() chan error { clk.Step(time.Hour); return done }).Should(Receive(BeNil()))
			_, err = io.ReadAll(lasting)
			Expect(err).To(MatchError(syscall.ECONNRESET))
		})

		It("should serve health", func() {
			response, err := http.Get("http://" + address(near.Health.Port) + "/healthz")
			Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			Expect(response.StatusCode).To(Equal(http.StatusOK))
		})

		It("should fail to start when a port is taken", func() {
			r, err := relay.New(near, logr.Discard(), clock.RealClock{})
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Start(GinkgoT().Context())).To(MatchError(syscall.EADDRINUSE))
		})
	})
})
