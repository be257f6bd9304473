// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"io"
	"net"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// tcpPair returns both ends of a connection.
func tcpPair() (dialed, accepted *net.TCPConn) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	other, err := listener.Accept()
	Expect(err).NotTo(HaveOccurred())
	return conn.(*net.TCPConn), other.(*net.TCPConn)
}

var _ = Describe("Join", func() {
	var (
		client, near, far, server *net.TCPConn
		sent, received            int
		done                      chan error
	)

	BeforeEach(func() {
		client, near = tcpPair()
		far, server = tcpPair()
		sent, received, done = 0, 0, make(chan error, 1)
		go func() {
			done <- wire.Join(near, far, func(n int) { sent += n }, func(n int) { received += n })
		}()
		DeferCleanup(func() { _, _ = client.Close(), server.Close() })
	})

	It("should pass on the end of one direction while the other continues", func() {
		_, err := client.Write([]byte("question"))
		Expect(err).NotTo(HaveOccurred())
		Expect(client.CloseWrite()).To(Succeed())
		Expect(io.ReadAll(server)).To(Equal([]byte("question")))
		Expect(done).NotTo(Receive())

		_, err = server.Write([]byte("the answer"))
		Expect(err).NotTo(HaveOccurred())
		Expect(server.Close()).To(Succeed())
		Expect(io.ReadAll(client)).To(Equal([]byte("the answer")))
		Eventually(done).Should(Receive(BeNil()))
		Expect([]int{sent, received}).To(Equal([]int{8, 10}))
	})

	It("should reset both sides when one is reset", func() {
		wire.Reset(server)
		_, err := client.Read(make([]byte, 1))
		Expect(err).To(MatchError(syscall.ECONNRESET))
		Eventually(done).Should(Receive(HaveOccurred()))
	})
})
