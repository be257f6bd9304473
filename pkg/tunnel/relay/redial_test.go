// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

var _ = Describe("redialing a member that does not answer", func() {
	const pause = 250 * time.Millisecond
	var (
		innerCA   *authority
		target    *etcd
		near, far *config.Config
		clk       *clocktesting.FakeClock
		stopFar   func() error
	)

	BeforeEach(func() {
		outerCA := newAuthority("relay")
		innerCA = newAuthority("etcd")
		files := outerCA.write(GinkgoT().TempDir(), outerName)
		target = newStreamingEtcd(innerCA)
		DeferCleanup(func() { _ = target.Close() })
		far = farConfig(files, target.Addr().String())
		near = nearConfig(files, far.Far.Port)
		near.Near[0].RedialPause = metav1.Duration{Duration: pause}
		clk = clocktesting.NewFakeClock(time.Now())
		stopFar = start(far, clock.RealClock{})
		DeferCleanup(func() { Expect(stopFar()).To(Succeed()) })
		stopNear := start(near, clk)
		DeferCleanup(func() { Expect(stopNear()).To(Succeed()) })
	})

	connect := func() error {
		conn, err := dial(innerCA, near.Near[0].Port, innerName)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	farFailures := func() string {
		return metric(far, `livecpm_relay_dial_failures_total{direction="far",route="`+outerName+`"}`)
	}
	nearFailures := func() string {
		return metric(near, `livecpm_relay_dial_failures_total{direction="near",route="`+outerName+`"}`)
	}

	It("should ask the other seed only now and then", func() {
		Expect(connect()).To(Succeed())
		Expect(target.Close()).To(Succeed())
		Expect(connect()).To(MatchError(syscall.ECONNRESET))
		Expect(farFailures()).To(Equal("1"))

		By("keeping the next ones until the pause is over, and refusing them then")
		ended := make(chan error, 5)
		for range cap(ended) {
			go func() { ended <- connect() }()
		}
		Eventually(nearFailures).Should(Equal("5"))
		clk.Step(pause - time.Millisecond)
		Consistently(ended).ShouldNot(Receive())
		Expect(farFailures()).To(Equal("1"))
		clk.Step(time.Millisecond)
		for range cap(ended) {
			Eventually(ended).Should(Receive(MatchError(syscall.ECONNRESET)))
		}

		By("asking again after the pause")
		Expect(connect()).To(MatchError(syscall.ECONNRESET))
		Expect(farFailures()).To(Equal("2"))

		By("serving the member that has come back when the pause is over")
		back, err := tls.Listen("tcp", target.Addr().String(),
			&tls.Config{Certificates: []tls.Certificate{innerCA.keyPair(innerName)}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(back.Close)
		go func() {
			for {
				conn, err := back.Accept()
				if err != nil {
					return
				}
				go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
			}
		}()
		clk.Step(pause)
		for range 3 {
			Expect(connect()).To(Succeed())
		}
		Expect(farFailures()).To(Equal("2"))
	})

	It("should do the same when the other relay cannot be reached", func() {
		Expect(stopFar()).To(Succeed())
		Expect(connect()).To(MatchError(syscall.ECONNRESET))
		Expect(nearFailures()).To(Equal("1"))
		stopFar = start(far, clock.RealClock{})
		ended := make(chan error, 1)
		go func() { ended <- connect() }()
		Eventually(nearFailures).Should(Equal("2"))
		clk.Step(pause)
		Eventually(ended).Should(Receive(MatchError(syscall.ECONNRESET)))
		Expect(connect()).To(Succeed())
	})

	It("should not take a dialer that gives up for a member that does not answer", func() {
		hanging, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(hanging.Close)
		accepted := make(chan net.Conn, 2)
		go func() {
			for {
				conn, err := hanging.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		Expect(stopFar()).To(Succeed())
		far.Far.Routes[0].Target = hanging.Addr().String()
		stopFar = start(far, clock.RealClock{})

		for range 2 {
			conn, err := net.Dial("tcp", address(near.Near[0].Port))
			Expect(err).NotTo(HaveOccurred())
			handshake := make(chan error, 1)
			go func() {
				handshake <- tls.Client(conn, &tls.Config{RootCAs: innerCA.pool(), ServerName: innerName}).Handshake()
			}()
			var reached net.Conn
			Eventually(accepted).Should(Receive(&reached))
			Expect(conn.(*net.TCPConn).SetLinger(0)).To(Succeed())
			Expect(conn.Close()).To(Succeed())
			Expect(<-handshake).NotTo(Succeed())
			Eventually(func() string { return metric(near, `livecpm_relay_open_connections{direction="near"`) }).
				Should(Equal("0"))
			_ = reached.Close()
		}
		Expect(nearFailures()).To(BeEmpty())
	})
})
