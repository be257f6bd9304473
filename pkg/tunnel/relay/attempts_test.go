// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/test/patience"
)

// What somebody may try who reaches a port of the relay. docs/security.md lists these specs by their texts.
var _ = Describe("Attempts", func() {
	const (
		otherOuterName = "etcd-main-0--shoot--demo--other.ingress.seed-b.example"
		otherInnerName = "etcd-main-0.etcd-main-peer.shoot--demo--other.svc"
	)

	var (
		innerCA, outerCA *authority
		target           *etcd
		near, far        *config.Config
		protocols        = []string{"livecpm-relay/1"}
	)

	BeforeEach(func() {
		innerCA, outerCA = newAuthority("etcd"), newAuthority("relay")
		files := outerCA.write(GinkgoT().TempDir(), outerName)
		target = newEtcd(innerCA)
		DeferCleanup(target.Close)
		far = farConfig(files, target.Addr().String())
		near = nearConfig(files, far.Far.Port)
	})

	run := func(configs ...*config.Config) {
		for _, cfg := range configs {
			stop := start(cfg, clock.RealClock{})
			DeferCleanup(func() { Expect(stop()).To(Succeed()) })
		}
	}
	failures := func(cfg *config.Config, direction, cause string) func() string {
		return func() string {
			return metric(cfg, `livecpm_relay_handshake_failures_total{cause="`+cause+`",direction="`+direction+`"}`)
		}
	}
	// stillServes makes a connection as etcd does, and tells how many have reached the target until then.
	stillServes := func() int {
		GinkgoHelper()
		conn, err := dial(innerCA, near.Near[0].Port, innerName)
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(closeWrite(conn)).To(Succeed())
		Expect(io.ReadAll(conn)).To(BeEmpty())
		return int(target.accepted.Load())
	}
	// outer makes an outer connection as the relay of the other seed does, with the first message answered.
	outer := func(serverName string, certificates ...tls.Certificate) (*tls.Conn, error) {
		conn, err := tls.Dial("tcp", address(far.Far.Port), &tls.Config{
			InsecureSkipVerify: true, // #nosec G402 -- Whoever tries does not care.
			ServerName:         serverName, Certificates: certificates, NextProtos: protocols,
		})
		if err != nil {
			return nil, err
		}
		DeferCleanup(func() { _ = conn.Close() })
		return conn, nil
	}
	// turnedAway expects that the connection ends without a byte of an answer.
	turnedAway := func(conn net.Conn) {
		GinkgoHelper()
		_ = conn.SetReadDeadline(time.Now().Add(patience.Eventually))
		answer, err := io.ReadAll(conn)
		Expect(answer).To(BeEmpty())
		if err != nil {
			Expect(err).NotTo(MatchError(ContainSubstring("i/o timeout")))
		}
	}
	plain := func(port int32) net.Conn {
		GinkgoHelper()
		conn, err := net.Dial("tcp", address(port))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = conn.Close() })
		return conn
	}

	Describe("from outside the seed", func() {
		BeforeEach(func() { run(near, far) })

		It("should show no certificate to a wrong server name", func() {
			for _, name := range []string{"elsewhere.example", "etcd-main-0.ingress.seed-b.example", ""} {
				_, err := outer(name)
				Expect(err).To(HaveOccurred())
			}
			Eventually(failures(far, "far", "unknown_server_name")).Should(Equal("3"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should not know another shoot, whatever its relay's certificate", func() {
			other := newAuthority("relay of the other shoot").keyPair(otherOuterName)
			_, err := outer(otherOuterName, other)
			Expect(err).To(HaveOccurred())
			_, err = outer(otherOuterName, outerCA.keyPair(outerName))
			Expect(err).To(HaveOccurred())
			Eventually(failures(far, "far", "unknown_server_name")).Should(Equal("2"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should refuse the certificate of another shoot's relay", func() {
			conn, err := outer(outerName, newAuthority("relay of the other shoot").keyPair(otherOuterName))
			if err == nil { // with TLS 1.3 the client hears of it after its own handshake
				turnedAway(conn)
			}
			Eventually(failures(far, "far", "certificate")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should drop plain text from outside", func() {
			conn := plain(far.Far.Port)
			_, _ = conn.Write([]byte("GET /v3/kv/range HTTP/1.1\r\nHost: " + outerName + "\r\n\r\n"))
			_ = conn.SetReadDeadline(time.Now().Add(patience.Eventually))
			_, err := io.ReadAll(conn)
			Expect(err).To(Or(BeNil(), MatchError(syscall.ECONNRESET)))
			Eventually(failures(far, "far", "not_tls")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})
	})

	Describe("with a certificate of this shoot's relays", func() {
		It("should drop plain text inside", func() {
			run(near, far)
			conn, err := outer(outerName, outerCA.keyPair(outerName))
			Expect(err).NotTo(HaveOccurred())
			_, err = conn.Write([]byte("GET /health HTTP/1.1\r\nHost: etcd\r\n\r\n"))
			Expect(err).NotTo(HaveOccurred())
			turnedAway(conn)
			Eventually(failures(far, "far", "not_tls")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should drop another server name inside", func() {
			run(near, far)
			for _, name := range []string{otherInnerName, "kubernetes.default.svc",
				"etcd-events-0.etcd-events-peer.shoot--demo--live.svc"} {
				conn, err := outer(outerName, outerCA.keyPair(outerName))
				Expect(err).NotTo(HaveOccurred())
				Expect(tls.Client(conn, &tls.Config{ServerName: name, RootCAs: innerCA.pool()}).Handshake()).
					NotTo(Succeed())
			}
			Eventually(failures(far, "far", "unknown_server_name")).Should(Equal("3"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should drop who says nothing inside", func() {
			far.Limits.HandshakeTimeout.Duration = slowHandshake
			run(near, far)
			conn, err := outer(outerName, outerCA.keyPair(outerName))
			Expect(err).NotTo(HaveOccurred())
			turnedAway(conn)
			Eventually(failures(far, "far", "timeout")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})
	})

	Describe("from the shoot's namespace", func() {
		It("should dial nobody for a server name that is not a member of the shoot", func() {
			run(near, far)
			for _, name := range []string{otherInnerName, "kubernetes.default.svc", "etcd-main-0"} {
				_, err := dial(innerCA, near.Near[0].Port, name)
				Expect(err).To(MatchError(syscall.ECONNRESET), name)
			}
			Eventually(failures(near, "near", "unknown_server_name")).Should(Equal("3"))
			Expect(stillServes()).To(Equal(1))
			Expect(metric(far, "livecpm_relay_connections_total")).To(Equal("1"),
				"the other relay has seen none of them")
		})

		It("should dial nobody for a connection without a server name", func() {
			run(near, far)
			_, err := tls.Dial("tcp", address(near.Near[0].Port),
				&tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- Nothing answers.
			Expect(err).To(HaveOccurred())
			Eventually(failures(near, "near", "unknown_server_name")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should drop plain text from inside", func() {
			run(near, far)
			conn := plain(near.Near[0].Port)
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			turnedAway(conn)
			Eventually(failures(near, "near", "not_tls")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})
	})

	Describe("by patience", func() {
		It("should end slow handshakes on every port", func() {
			far.Limits.HandshakeTimeout.Duration, near.Limits.HandshakeTimeout.Duration = slowHandshake, slowHandshake
			run(near, far)
			for _, port := range []int32{far.Far.Port, near.Near[0].Port} {
				silent, begun := plain(port), plain(port)
				_, err := begun.Write([]byte{22, 3, 1, 2, 0, 1, 0})
				Expect(err).NotTo(HaveOccurred())
				Expect(closed(silent)).To(Succeed())
				Expect(closed(begun)).To(Succeed())
			}
			Eventually(failures(far, "far", "timeout")).Should(Equal("2"))
			Eventually(failures(near, "near", "timeout")).Should(Equal("2"))
			Expect(stillServes()).To(Equal(1))
		})
	})

	Describe("by number", func() {
		It("should let the oldest handshakes give way in a flood, and serve on", func() {
			near.Limits.MaxHandshakes, far.Limits.MaxHandshakes = 4, 4
			// Nobody is dropped for being slow.
			near.Limits.HandshakeTimeout.Duration, far.Limits.HandshakeTimeout.Duration = time.Hour, time.Hour
			run(near, far)
			for _, flooded := range []struct {
				direction string
				cfg       *config.Config
				port      int32
			}{{"far", far, far.Far.Port}, {"near", near, near.Near[0].Port}} {
				var flood []net.Conn
				for range 20 {
					flood = append(flood, plain(flooded.port))
				}
				Expect(closed(flood[0])).To(Succeed())
				Eventually(func() (int, error) {
					return strconv.Atoi(metric(flooded.cfg, "livecpm_relay_refused_connections_total"))
				}).Should(BeNumerically(">=", 16))
				stillServes()
				Expect(failures(flooded.cfg, flooded.direction, "closed")()).To(BeEmpty(),
					"what gave way is counted once")
			}
			Expect(target.accepted.Load()).To(BeEquivalentTo(2))
		})

		It("should keep established connections when the limit is reached, and refuse the next", func() {
			near.Limits.MaxConnections = 2
			run(near, far)
			var open []*tls.Conn
			for range 2 {
				conn, err := dial(innerCA, near.Near[0].Port, innerName)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(func() { _ = conn.Close() })
				open = append(open, conn)
			}
			for range 3 {
				_, err := dial(innerCA, near.Near[0].Port, innerName)
				Expect(err).To(MatchError(syscall.ECONNRESET))
			}
			Expect(metric(near, "livecpm_relay_refused_connections_total")).To(Equal("3"))
			for _, conn := range open {
				_, err := conn.Write([]byte("here"))
				Expect(err).NotTo(HaveOccurred())
				Expect(closeWrite(conn)).To(Succeed())
				Expect(io.ReadAll(conn)).To(Equal([]byte("here")))
			}
		})
	})

	Describe("on the log", func() {
		It("should write one line of a kind at a time, and how many it has left out", func() {
			var (
				mu    sync.Mutex
				lines []string
				fake  = clocktesting.NewFakeClock(time.Now())
			)
			stop := startLogging(near, fake, funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(args, "Dropped connection") {
					lines = append(lines, args)
				}
			}, funcr.Options{}))
			DeferCleanup(func() { Expect(stop()).To(Succeed()) })
			told := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return append([]string{}, lines...)
			}

			for range 5 {
				conn := plain(near.Near[0].Port)
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				turnedAway(conn)
			}
			Eventually(failures(near, "near", "not_tls")).Should(Equal("5"))
			Eventually(told).Should(ConsistOf(ContainSubstring(`"omitted"=0`)))
			_, err := dial(innerCA, near.Near[0].Port, otherInnerName)
			Expect(err).To(HaveOccurred())
			Eventually(told).Should(HaveLen(2), "another kind has its own line")

			fake.Step(10 * time.Second)
			conn := plain(near.Near[0].Port)
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			turnedAway(conn)
			Eventually(told).Should(HaveLen(3))
			Expect(told()[2]).To(ContainSubstring(`"omitted"=4`))
		})
	})

	Describe("with what was recorded or kept", func() {
		It("should not accept the recorded bytes of a relay", func() {
			recorded := record(address(far.Far.Port))
			near.Near[0].Routes[0].Remote.Port = recorded.port()
			run(near, far)
			Expect(stillServes()).To(Equal(1))
			Expect(recorded.bytes()).NotTo(BeEmpty())

			conn := plain(far.Far.Port)
			_, _ = conn.Write(recorded.bytes())
			Expect(closed(conn)).To(Succeed())
			Expect(stillServes()).To(Equal(2), "the replay did not get to the target")
		})

		It("should resume no session that began with other files", func() {
			kept := &oneSession{}
			certificate := outerCA.keyPair(outerName)
			// visit goes through a relay to the target, as whoever has kept a session.
			visit := func(to *config.Config, serverName string) (*tls.Conn, error) {
				conn, err := tls.Dial("tcp", address(to.Far.Port), &tls.Config{
					InsecureSkipVerify: true, // #nosec G402 -- Whoever tries does not care.
					ServerName:         serverName, NextProtos: protocols, ClientSessionCache: kept,
					Certificates: []tls.Certificate{certificate},
				})
				if err != nil {
					return nil, err
				}
				DeferCleanup(func() { _ = conn.Close() })
				// Tickets come after the handshake, with the first bytes that are read.
				return conn, tls.Client(conn, &tls.Config{ServerName: innerName, RootCAs: innerCA.pool()}).Handshake()
			}
			run(near, far)
			for _, resumed := range []bool{false, true} {
				conn, err := visit(far, outerName)
				Expect(err).NotTo(HaveOccurred())
				Expect(conn.ConnectionState().DidResume).To(Equal(resumed))
			}

			By("not for another name")
			_, err := visit(far, otherOuterName)
			Expect(err).To(HaveOccurred())
			Eventually(failures(far, "far", "unknown_server_name")).Should(Equal("1"))

			By("with a full handshake for another key of the same authority")
			renewed := farConfig(outerCA.write(GinkgoT().TempDir(), outerName), target.Addr().String())
			run(renewed)
			conn, err := visit(renewed, outerName)
			Expect(err).NotTo(HaveOccurred())
			Expect(conn.ConnectionState().DidResume).To(BeFalse())

			By("not with those of another authority of the same name")
			later := farConfig(newAuthority("relay").write(GinkgoT().TempDir(), outerName), target.Addr().String())
			run(later)
			_, err = visit(later, outerName)
			Expect(err).To(HaveOccurred())
			Eventually(failures(later, "far", "certificate")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(4), "three visits and this one")
		})

		It("should refuse the certificates of an earlier migration", func() {
			earlier := outerCA.keyPair(outerName)
			outerCA = newAuthority("relay") // of the same name: that is how every migration's is called
			files := outerCA.write(GinkgoT().TempDir(), outerName)
			near.TLS, far.TLS = files, files
			run(near, far)
			conn, err := outer(outerName, earlier)
			if err == nil {
				turnedAway(conn)
			}
			Eventually(failures(far, "far", "certificate")).Should(Equal("1"))
			Expect(stillServes()).To(Equal(1))
		})

		It("should answer nobody any more after its end", func() {
			stop := start(far, clock.RealClock{})
			Expect(stop()).To(Succeed())
			_, err := outer(outerName, outerCA.keyPair(outerName))
			Expect(err).To(MatchError(syscall.ECONNREFUSED))
		})
	})
})

// oneSession keeps the last session, whatever server it is of.
type oneSession struct {
	mu   sync.Mutex
	last *tls.ClientSessionState
}

func (s *oneSession) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.last != nil
}

func (s *oneSession) Put(_ string, state *tls.ClientSessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = state
}

// recorder is a proxy that keeps what a dialer has sent.
type recorder struct {
	net.Listener

	mu   sync.Mutex
	sent bytes.Buffer
}

func record(to string) *recorder {
	GinkgoHelper()
	r := &recorder{Listener: must(net.Listen("tcp", "127.0.0.1:0"))}
	DeferCleanup(r.Close)
	go func() {
		for {
			conn, err := r.Accept()
			if err != nil {
				return
			}
			next, err := net.Dial("tcp", to)
			if err != nil {
				_ = conn.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(io.MultiWriter(next, r), conn)
				_ = next.(*net.TCPConn).CloseWrite()
			}()
			go func() {
				_, _ = io.Copy(conn, next)
				_ = conn.Close()
			}()
		}
	}()
	return r
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent.Len() > 1<<20 { // the first connections are what is to be kept
		return len(p), nil
	}
	return r.sent.Write(p)
}

func (r *recorder) port() int32 { return int32(r.Addr().(*net.TCPAddr).Port) }

func (r *recorder) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.sent.Bytes())
}
