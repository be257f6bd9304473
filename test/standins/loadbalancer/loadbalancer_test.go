// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

const (
	apiHost   = "api.live.example"
	relayHost = "etcd-main-0--ns.ingress.seed-b.example"
	// interval is longer than that of the health checks.
	interval = 9 * time.Second
)

var (
	first  = netip.MustParseAddr("127.0.0.11")
	second = netip.MustParseAddr("127.0.0.12")
	third  = netip.MustParseAddr("127.0.0.13")
	// machine and neighbour open the connections.
	machine   = netip.MustParseAddr("127.0.0.1")
	neighbour = netip.MustParseAddr("127.0.0.2")
)

// nodes are servers on the same port of several addresses. They hand over what they accept, and answer health checks.
type nodes struct {
	port, health int32
	accepted     chan *net.TCPConn

	mu   sync.Mutex
	sick map[string]bool
}

func (n *nodes) setSick(node netip.Addr, sick bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sick[node.String()] = sick
}

func (n *nodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sick[host] || r.URL.Path != "/healthz" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// listenAll listens on the same free port of all addresses.
func listenAll(addresses ...netip.Addr) (listeners []net.Listener, port int32) {
	GinkgoHelper()
	Eventually(func() error {
		for _, listener := range listeners {
			_ = listener.Close()
		}
		listeners, port = nil, 0
		for _, address := range addresses {
			listener, err := net.Listen("tcp4", netip.AddrPortFrom(address, uint16(port)).String())
			if err != nil {
				return err
			}
			port = int32(listener.Addr().(*net.TCPAddr).Port)
			listeners = append(listeners, listener)
		}
		return nil
	}).Should(Succeed())
	for _, listener := range listeners {
		DeferCleanup(func() { _ = listener.Close() })
	}
	return listeners, port
}

func newNodes(addresses ...netip.Addr) *nodes {
	GinkgoHelper()
	n := &nodes{accepted: make(chan *net.TCPConn, 100), sick: map[string]bool{}}
	var listeners, health []net.Listener
	listeners, n.port = listenAll(addresses...)
	health, n.health = listenAll(addresses...)
	for _, listener := range listeners {
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				n.accepted <- conn.(*net.TCPConn)
			}
		}()
	}
	for _, listener := range health {
		server := &http.Server{Handler: n, ReadHeaderTimeout: patience.Eventually}
		go func() { _ = server.Serve(listener) }()
		DeferCleanup(server.Close)
	}
	return n
}

func echoAll(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, conn)
}

// echo sends the content and waits for it to come back.
func echo(conn net.Conn, content []byte) (time.Duration, error) {
	begin := time.Now()
	go func() { _, _ = conn.Write(content) }()
	answer := make([]byte, len(content))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0, err
	}
	if !bytes.Equal(answer, content) {
		return 0, errors.New("answer differs")
	}
	return time.Since(begin), nil
}

// hello returns the ClientHello of a client that wants the server.
func hello(serverName string) []byte {
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: serverName}).Handshake() //nolint:gosec // nobody answers
	}()
	record := make([]byte, 16<<10)
	n, err := far.Read(record)
	Expect(err).NotTo(HaveOccurred())
	return record[:n]
}

// fixture is a load balancer of seed-b in front of nodes, and another one of seed-a.
type fixture struct {
	*nodes

	who     *loadbalancer.Who
	faults  *loadbalancer.Faults
	front   *loadbalancer.Front
	clock   *testclock.FakeClock
	admin   *httptest.Server
	address string
	public  int32
	stop    func()
	stopped chan struct{}
	target  loadbalancer.Target
	ctx     context.Context
}

func newFixture() *fixture {
	GinkgoHelper()
	f := &fixture{nodes: newNodes(first, second), who: loadbalancer.NewWho(), clock: testclock.NewFakeClock(time.Now()),
		stopped: make(chan struct{})}
	f.who.Set("machine", machine)
	f.who.Set("seed-a", neighbour)
	f.who.Set("seed-b")
	f.faults = loadbalancer.NewFaults(f.who, "seed-a", "seed-b")
	f.faults.Clock = f.clock
	f.front = loadbalancer.NewFront(logr.Discard(), "seed-b", third, f.faults)
	f.front.Clock = f.clock
	f.admin = httptest.NewServer(loadbalancer.AdminHandler(logr.Discard(), f.faults, f.front))
	DeferCleanup(f.admin.Close)
	listeners, public := listenAll(third) // finds a free port
	Expect(listeners[0].Close()).To(Succeed())
	f.public = public
	f.address = netip.AddrPortFrom(third, uint16(public)).String()
	f.target = loadbalancer.Target{Ports: map[int32]int32{public: f.port}, Nodes: []netip.Addr{first},
		HealthPort: f.health}
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx, f.stop = ctx, cancel
	go func() {
		defer close(f.stopped)
		f.front.Run(ctx)
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(f.stopped).Should(BeClosed())
	})
	Expect(f.front.Set(ctx, f.target)).To(Succeed())
	return f
}

func (f *fixture) healthy() map[string]bool { return f.front.Status().Nodes }

// from opens a connection to the public address with the given address.
func (f *fixture) from(address netip.Addr) (*net.TCPConn, error) {
	dialer := &net.Dialer{Timeout: patience.Eventually,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0))}
	conn, err := dialer.Dial("tcp4", f.address)
	if err != nil {
		return nil, err
	}
	DeferCleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn), nil
}

// pair opens a connection and returns both ends of it.
func (f *fixture) pair(address netip.Addr) (client, backend *net.TCPConn) {
	GinkgoHelper()
	client, err := f.from(address)
	Expect(err).NotTo(HaveOccurred())
	Eventually(f.accepted).Should(Receive(&backend))
	DeferCleanup(func() { _ = backend.Close() })
	return client, backend
}

// echoing opens a connection that begins with a ClientHello for the server, and echoes that and everything else.
func (f *fixture) echoing(address netip.Addr, serverName string) *net.TCPConn {
	GinkgoHelper()
	client, backend := f.pair(address)
	go echoAll(backend)
	_, err := echo(client, hello(serverName))
	Expect(err).NotTo(HaveOccurred())
	return client
}

func (f *fixture) request(method, path, body string) (int, string) {
	GinkgoHelper()
	request, err := http.NewRequest(method, f.admin.URL+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

func (f *fixture) add(body string) {
	GinkgoHelper()
	status, answer := f.request(http.MethodPost, "/faults", body)
	Expect(status).To(Equal(http.StatusOK), answer)
}

func (f *fixture) lift() {
	GinkgoHelper()
	status, answer := f.request(http.MethodDelete, "/faults", "")
	Expect(status).To(Equal(http.StatusOK), answer)
}

// expectNoHandshakeUntilLifted expects that a new connection from the address is answered only when the faults are
// lifted.
func (f *fixture) expectNoHandshakeUntilLifted(address netip.Addr) {
	GinkgoHelper()
	dialed := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		_, err := f.from(address)
		dialed <- err
	}()
	Consistently(dialed, "200ms").ShouldNot(Receive())
	f.lift()
	Eventually(dialed).Should(Receive(BeNil()))
}

// within expects an answer that nothing delays.
func within(conn net.Conn) {
	GinkgoHelper()
	Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
	_, err := echo(conn, []byte("x"))
	Expect(err).NotTo(HaveOccurred())
	Expect(conn.SetDeadline(time.Time{})).To(Succeed())
}

// silent expects that nothing arrives.
func silent(conn net.Conn) {
	GinkgoHelper()
	Expect(conn.SetReadDeadline(time.Now().Add(150 * time.Millisecond))).To(Succeed())
	_, err := conn.Read(make([]byte, 1))
	Expect(err).To(MatchError(os.ErrDeadlineExceeded))
	Expect(conn.SetReadDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
}

// unacknowledged returns how many segments the peer's kernel has not acknowledged.
func unacknowledged(conn *net.TCPConn) uint32 {
	GinkgoHelper()
	raw, err := conn.SyscallConn()
	Expect(err).NotTo(HaveOccurred())
	var info *unix.TCPInfo
	Expect(raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})).To(Succeed())
	Expect(err).NotTo(HaveOccurred())
	return info.Unacked
}

// read returns the next read's error, within patience.
func read(conn net.Conn) error {
	GinkgoHelper()
	Expect(conn.SetReadDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
	_, err := conn.Read(make([]byte, 1))
	return err
}

var _ = Describe("Front", func() {
	var f *fixture

	BeforeEach(func() { f = newFixture() })

	It("should hand on what comes, and the end of one direction while the other continues", func() {
		client, backend := f.pair(machine)
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go func() {
			_, _ = client.Write(content)
			_ = client.CloseWrite()
		}()
		Expect(io.ReadAll(backend)).To(Equal(content))
		_, err := backend.Write([]byte("still here"))
		Expect(err).NotTo(HaveOccurred())
		answer := make([]byte, len("still here"))
		_, err = io.ReadFull(client, answer)
		Expect(err).NotTo(HaveOccurred())
		Expect(backend.CloseWrite()).To(Succeed())
		Expect(read(client)).To(MatchError(io.EOF))
		Eventually(func() []loadbalancer.Connections { return f.front.Status().Connections }).Should(BeEmpty())
	})

	It("should know no protocol: a server may speak first, and a client may be silent or send anything", func() {
		client, backend := f.pair(machine)
		_, err := backend.Write([]byte("220 ready"))
		Expect(err).NotTo(HaveOccurred())
		greeting := make([]byte, len("220 ready"))
		_, err = io.ReadFull(client, greeting)
		Expect(err).NotTo(HaveOccurred())
		go echoAll(backend)
		_, err = echo(client, []byte("EHLO\r\n"))
		Expect(err).NotTo(HaveOccurred())

		client, backend = f.pair(machine)
		begin := hello(relayHost)
		_, err = client.Write(begin[:len(begin)-1])
		Expect(err).NotTo(HaveOccurred())
		Expect(client.CloseWrite()).To(Succeed())
		Expect(io.ReadAll(backend)).To(Equal(begin[:len(begin)-1]))
	})

	It("should pass on a reset of the client", func() {
		client, backend := f.pair(machine)
		Expect(client.SetLinger(0)).To(Succeed())
		Expect(client.Close()).To(Succeed())
		Expect(read(backend)).To(MatchError(syscall.ECONNRESET))
	})

	It("should pass on a reset of the server", func() {
		client, backend := f.pair(machine)
		Expect(backend.SetLinger(0)).To(Succeed())
		Expect(backend.Close()).To(Succeed())
		Expect(read(client)).To(MatchError(syscall.ECONNRESET))
	})

	It("should pass on a reset that comes after an end, when nobody sends any more", func() {
		client, backend := f.pair(machine)
		Expect(client.CloseWrite()).To(Succeed())
		Expect(read(backend)).To(MatchError(io.EOF))
		Expect(client.SetLinger(0)).To(Succeed())
		Expect(client.Close()).To(Succeed())
		Eventually(func() []loadbalancer.Connections { return f.front.Status().Connections }).Should(BeEmpty())
		_, err := backend.Write([]byte("x"))
		Expect(err).To(Or(MatchError(syscall.ECONNRESET), MatchError(syscall.EPIPE)))
	})

	It("should reset new connections that no node takes", func() {
		f.target.Nodes = []netip.Addr{third} // where nothing listens
		Expect(f.front.Set(f.ctx, f.target)).To(Succeed())
		client, err := f.from(machine)
		if err == nil { // the reset may come before the program knows that it is connected
			err = read(client)
		}
		Expect(err).To(MatchError(syscall.ECONNRESET))
	})

	It("should keep present connections when the target changes, and refuse at ports that are gone", func() {
		client := f.echoing(machine, apiHost)
		f.target.Nodes = []netip.Addr{second}
		Expect(f.front.Set(f.ctx, f.target)).To(Succeed())
		within(client)
		_, backend := f.pair(machine)
		Expect(backend.LocalAddr().(*net.TCPAddr).AddrPort().Addr()).To(Equal(second))
		Expect(f.front.Set(f.ctx, loadbalancer.Target{})).To(Succeed())
		_, err := f.from(machine)
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		within(client)
	})

	It("should give connections to healthy nodes only, and to all if there are none", func() {
		f.setSick(first, true)
		f.target.Nodes = []netip.Addr{first, second}
		Expect(f.front.Set(f.ctx, f.target)).To(Succeed())
		Eventually(f.healthy).Should(HaveKeyWithValue(second.String(), true))
		tick := func() {
			Eventually(f.clock.HasWaiters).Should(BeTrue())
			f.clock.Step(interval)
		}
		Eventually(func() map[string]bool { tick(); return f.healthy() }).
			Should(HaveKeyWithValue(first.String(), false))
		took := func() map[netip.Addr]bool {
			taken := map[netip.Addr]bool{}
			for range 30 {
				client, backend := f.pair(machine)
				taken[backend.LocalAddr().(*net.TCPAddr).AddrPort().Addr()] = true
				_, _ = client.Close(), backend.Close()
			}
			return taken
		}
		Expect(took()).To(Equal(map[netip.Addr]bool{second: true}))

		By("counting on a node again after one check")
		f.setSick(first, false)
		Eventually(func() map[string]bool { tick(); return f.healthy() }).
			Should(HaveKeyWithValue(first.String(), true))
		Expect(took()).To(HaveLen(2))

		By("trying all if all are sick")
		f.setSick(first, true)
		f.setSick(second, true)
		Eventually(func() map[string]bool { tick(); return f.healthy() }).
			Should(Equal(map[string]bool{first.String(): false, second.String(): false}))
		Expect(took()).To(HaveLen(2))
	})

	It("should show what it does", func() {
		f.echoing(machine, relayHost)
		f.echoing(neighbour, apiHost)
		f.pair(netip.MustParseAddr("127.0.0.3"))
		Expect(f.front.Status()).To(Equal(loadbalancer.Status{Seed: "seed-b", Address: third.String(),
			Ports: map[int32]int32{f.public: f.port}, Nodes: f.healthy(),
			Connections: []loadbalancer.Connections{
				{From: "elsewhere", Count: 1},
				{From: "machine", ServerName: relayHost, Count: 1},
				{From: "seed-a", ServerName: apiHost, Count: 1},
			}}))
		_, answer := f.request(http.MethodGet, "/status", "")
		Expect(answer).To(ContainSubstring(relayHost))
	})

	It("should reset everything when it ends", func() {
		client, backend := f.pair(machine)
		f.stop()
		Expect(read(client)).To(MatchError(syscall.ECONNRESET))
		Expect(read(backend)).To(MatchError(syscall.ECONNRESET))
		Eventually(f.stopped).Should(BeClosed())
		_, err := f.from(machine)
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
	})
})

var _ = Describe("faults", func() {
	const seedToSeed = `{"sni": "*.ingress.*", `

	var f *fixture

	BeforeEach(func() { f = newFixture() })

	It("should add latency to present and new connections, only where it matches, and take it away", func() {
		present, other := f.echoing(machine, relayHost), f.echoing(machine, apiHost)
		f.add(seedToSeed + `"latency": "200ms"}`)
		Expect(echo(present, []byte("x"))).To(BeNumerically(">=", 400*time.Millisecond))
		fresh := f.echoing(machine, relayHost)
		Expect(echo(fresh, []byte("x"))).To(BeNumerically(">=", 400*time.Millisecond))
		f.lift()
		for _, conn := range []net.Conn{present, fresh} {
			_, err := echo(conn, []byte("x")) // may wait for what is on its way
			Expect(err).NotTo(HaveOccurred())
		}

		By("not delaying what does not match, nor anything that comes after the fault")
		// An answer that were delayed by it would come when the test is long over.
		f.add(seedToSeed + `"latency": "1h"}`)
		within(other)
		f.lift()
		within(present)
		within(fresh)
	})

	DescribeTable("should add latency to one direction", func(direction string) {
		present := f.echoing(machine, relayHost)
		f.add(`{"to": ["seed-b"], "from": ["machine"], "direction": "` + direction + `", "latency": "200ms"}`)
		Expect(echo(present, []byte("x"))).To(BeNumerically(">=", 200*time.Millisecond))
		client, backend := f.pair(machine)
		times := map[string]time.Duration{}
		for name, way := range map[string][]*net.TCPConn{
			"upstream": {client, backend}, "downstream": {backend, client},
		} {
			begin := time.Now()
			_, err := way[0].Write([]byte("x"))
			Expect(err).NotTo(HaveOccurred())
			Expect(read(way[1])).To(Succeed())
			times[name] = time.Since(begin)
		}
		Expect(times[direction]).To(BeNumerically(">=", 200*time.Millisecond))

		By("leaving the other direction alone")
		f.lift()
		f.add(`{"direction": "` + direction + `", "latency": "1h"}`)
		from, to := client, backend
		if direction == "upstream" {
			from, to = backend, client
		}
		_, err := from.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(to)).To(Succeed())
	},
		Entry("to the server", "upstream"),
		Entry("to the client", "downstream"),
	)

	It("should let a handshake take a round trip", func() {
		f.add(`{"from": ["machine"], "latency": "1h"}`)
		_, err := f.from(machine)
		Expect(err).NotTo(HaveOccurred())
		Consistently(f.accepted, "150ms").ShouldNot(Receive())
		f.echoing(neighbour, apiHost) // others go on
		f.lift()
		Eventually(f.accepted).Should(Receive())
		f.add(`{"latency": "100ms"}`)
		begin := time.Now()
		f.pair(machine)
		Expect(time.Since(begin)).To(BeNumerically(">=", 200*time.Millisecond))
	})

	It("should not limit throughput by latency", func() {
		conn := f.echoing(machine, relayHost)
		f.add(seedToSeed + `"latency": "3s"}`)
		// 64 chunks each way, one after the other, would take more than six minutes.
		Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
		Expect(echo(conn, bytes.Repeat([]byte("0123456789abcdef"), 1<<17))).To(BeNumerically(">=", 6*time.Second))
	})

	It("should delay ends and resets like data", func() {
		f.add(`{"direction": "upstream", "latency": "300ms"}`)
		client, backend := f.pair(machine)
		begin := time.Now()
		Expect(client.CloseWrite()).To(Succeed())
		Expect(read(backend)).To(MatchError(io.EOF))
		Expect(time.Since(begin)).To(BeNumerically(">=", 300*time.Millisecond))

		client, backend = f.pair(machine)
		_, err := client.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(backend)).To(Succeed())
		begin = time.Now()
		Expect(client.SetLinger(0)).To(Succeed())
		Expect(client.Close()).To(Succeed())
		Expect(read(backend)).To(MatchError(syscall.ECONNRESET))
		Expect(time.Since(begin)).To(BeNumerically(">=", 300*time.Millisecond))
	})

	It("should lose no byte while faults come and go", func() {
		conn := f.echoing(machine, relayHost)
		done := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for i := range 20 {
				Expect(f.faults.Add(loadbalancer.Fault{
					Latency: metav1.Duration{Duration: time.Duration(i%3+1) * time.Millisecond}})).To(Succeed())
				time.Sleep(5 * time.Millisecond)
				Expect(f.faults.Add(loadbalancer.Fault{Cut: loadbalancer.CutFreeze})).To(Succeed())
				time.Sleep(5 * time.Millisecond)
				Expect(f.faults.Lift(loadbalancer.Selection{})).To(Succeed())
				time.Sleep(5 * time.Millisecond)
			}
		}()
		content := make([]byte, 1<<20)
		_, _ = rand.Read(content)
		for finished := false; !finished; {
			select {
			case <-done:
				finished = true
			default:
			}
			_, err := echo(conn, content)
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("should reset when cut by resetting", func() {
		present, other := f.echoing(machine, relayHost), f.echoing(machine, apiHost)
		f.add(seedToSeed + `"cut": "reset"}`)
		Expect(read(present)).To(MatchError(syscall.ECONNRESET))
		fresh, err := f.from(machine)
		Expect(err).NotTo(HaveOccurred())
		_, err = fresh.Write(hello(relayHost))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(fresh)).To(MatchError(syscall.ECONNRESET))
		within(other)
		Eventually(f.accepted).Should(Receive()) // the node saw that connection, but not what it was for
		f.echoing(machine, apiHost)
		f.lift()
		f.echoing(machine, relayHost)
	})

	It("should be silent when cut by freezing, and continue afterwards", func() {
		present := f.echoing(machine, relayHost)
		f.add(seedToSeed + `"cut": "freeze"}`)
		_, err := present.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		silent(present)

		By("not acknowledging anything, as a network that drops packets")
		Expect(unacknowledged(present)).NotTo(BeZero())

		By("holding back the ClientHello of a new connection")
		fresh, backend := f.pair(machine)
		begin := hello(relayHost)
		_, err = fresh.Write(begin)
		Expect(err).NotTo(HaveOccurred())
		silent(backend)
		f.lift()
		received := make([]byte, len(begin))
		_, err = io.ReadFull(backend, received)
		Expect(err).NotTo(HaveOccurred())
		Expect(received).To(Equal(begin))
		answer := make([]byte, 1)
		Expect(present.SetReadDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
		_, err = io.ReadFull(present, answer)
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(Equal([]byte("x")))
		Eventually(func() uint32 { return unacknowledged(present) }).Should(BeZero())
	})

	It("should come back when it is time, until it is lifted", func() {
		present, waiters := f.echoing(neighbour, relayHost), f.clock.Waiters()
		f.add(seedToSeed + `"cut": "freeze", "every": "20s", "for": "3s"}`)
		// It waits for its time again after it has changed.
		pass := func(time time.Duration) {
			f.clock.Step(time)
			Eventually(f.clock.Waiters).Should(Equal(waiters + 1))
		}
		pass(0)
		for range 2 {
			_, err := present.Write([]byte("x"))
			Expect(err).NotTo(HaveOccurred())
			silent(present)
			pass(3 * time.Second)
			Expect(read(present)).To(Succeed())
			within(present)
			_, answer := f.request(http.MethodGet, "/faults", "")
			Expect(answer).To(ContainSubstring(`"every": "20s"`), "it has not been lifted")
			pass(17 * time.Second)
		}
		pass(3 * time.Second)
		f.lift()
		f.clock.Step(20 * time.Second)
		within(present)
	})

	It("should cut off one client, and let the others continue", func() {
		present, other := f.echoing(neighbour, apiHost), f.echoing(machine, apiHost)
		f.add(`{"to": ["seed-b"], "from": ["seed-a"], "cut": "freeze"}`)
		_, err := present.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		silent(present)
		within(other)
		f.echoing(machine, relayHost)

		By("not even answering the handshake of a new connection")
		f.expectNoHandshakeUntilLifted(neighbour)
		Expect(read(present)).To(Succeed())
	})

	It("should cut off a client whose address becomes known later", func() {
		f.add(`{"from": ["seed-b"], "cut": "freeze"}`)
		f.echoing(neighbour, apiHost)
		f.who.Set("seed-a")
		Expect(f.who.Set("seed-b", neighbour)).To(BeTrue())
		f.faults.Refresh()
		f.expectNoHandshakeUntilLifted(neighbour)
	})

	It("should freeze one direction", func() {
		client, backend := f.pair(machine)
		f.add(`{"direction": "upstream", "cut": "freeze"}`)
		_, err := client.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		silent(backend)
		_, err = backend.Write([]byte("y"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(client)).To(Succeed())
		f.lift()
		Expect(read(backend)).To(Succeed())

		f.add(`{"direction": "downstream", "cut": "freeze"}`)
		_, err = backend.Write([]byte("y"))
		Expect(err).NotTo(HaveOccurred())
		silent(client)
		_, err = client.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(backend)).To(Succeed())
		f.lift()
		Expect(read(client)).To(Succeed())
	})

	It("should lose a part of the packets, so that all arrives late", func() {
		client := f.echoing(machine, relayHost)
		f.add(seedToSeed + `"loss": 50}`)
		for range 20 {
			Expect(client.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
			_, err := echo(client, []byte("x"))
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(f.front.Status().Disturbed).To(ConsistOf(And(HaveField("From", "machine"),
			HaveField("ServerName", relayHost), HaveField("Dropped", BeNumerically(">", 0)))))
		status, answer := f.request(http.MethodDelete, "/faults?loss=50", "")
		Expect(status).To(Equal(http.StatusOK), answer)
		Expect(f.faults.List()).To(BeEmpty())
		before := f.front.Status().Disturbed[0].Dropped
		within(client)
		Expect(f.front.Status().Disturbed[0].Dropped).To(Equal(before))
	})

	It("should count what it does, also of connections that have ended", func() {
		frozen, other := f.echoing(machine, relayHost), f.echoing(neighbour, apiHost)
		f.add(seedToSeed + `"cut": "freeze"}`)
		_, err := frozen.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		dropped := func() uint64 {
			for _, d := range f.front.Status().Disturbed {
				if d.ServerName == relayHost {
					return d.Dropped
				}
			}
			return 0
		}
		Eventually(dropped).Should(BeNumerically(">", 0))
		f.lift()
		Expect(read(frozen)).To(Succeed())

		f.add(`{"sni": "` + apiHost + `", "latency": "1ms"}`)
		Expect(other.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
		_, err = echo(other, []byte("x"))
		Expect(err).NotTo(HaveOccurred())
		f.lift()
		f.add(`{"cut": "reset"}`)
		Expect(read(frozen)).To(MatchError(syscall.ECONNRESET))
		Eventually(func() []loadbalancer.Connections { return f.front.Status().Connections }).Should(BeEmpty())
		Expect(f.front.Status().Disturbed).To(ConsistOf(
			And(HaveField("From", "machine"), HaveField("ServerName", relayHost),
				HaveField("Dropped", BeNumerically(">", 0)), HaveField("Reset", BeEquivalentTo(1))),
			And(HaveField("From", "seed-a"), HaveField("ServerName", apiHost), HaveField("Dropped", BeZero()),
				HaveField("Delayed", BeNumerically(">=", 2)), HaveField("Reset", BeEquivalentTo(1)))))
	})

	It("should not let ends and resets through a cut", func() {
		client, backend := f.pair(machine)
		_, err := client.Write([]byte("x"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(backend)).To(Succeed())
		f.add(`{"cut": "freeze"}`)
		silent(client)
		Expect(client.SetLinger(0)).To(Succeed())
		Expect(client.Close()).To(Succeed())
		silent(backend)
		f.lift()
		// The reset is lost for good. It is sent again when something arrives that nobody is there for.
		_, err = backend.Write([]byte("y"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(backend)).To(MatchError(syscall.ECONNRESET))
	})

	It("should lift the faults that are named, and no others", func() {
		lift := func(query string) int {
			status, _ := f.request(http.MethodDelete, "/faults?"+query, "")
			return status
		}
		f.add(seedToSeed + `"cut": "freeze"}`)
		f.add(seedToSeed + `"latency": "1s"}`)
		Expect(lift("latency=2s")).To(Equal(http.StatusOK))
		Expect(lift("cut=freeze")).To(Equal(http.StatusOK))
		_, answer := f.request(http.MethodGet, "/faults", "")
		Expect(answer).To(MatchJSON(`[{"sni": "*.ingress.*", "latency": "1s"}]`))
		for _, query := range []string{"latency=soon", "latency=-1s", "latency=0s", "cut=sideways", "cut=", "sni=*",
			"to=seed-c", "to=", "cut=freeze&cut=reset"} {
			Expect(lift(query)).To(Equal(http.StatusBadRequest), query)
		}
		Expect(lift("latency=1000ms&to=seed-a")).To(Equal(http.StatusOK))
		_, answer = f.request(http.MethodGet, "/faults", "")
		Expect(answer).To(MatchJSON(`[{"to": ["seed-b"], "sni": "*.ingress.*", "latency": "1s"}]`))
		Expect(lift("to=seed-b")).To(Equal(http.StatusOK))
		_, answer = f.request(http.MethodGet, "/faults", "")
		Expect(answer).To(MatchJSON(`[]`))
	})

	It("should show and refuse", func() {
		f.add(seedToSeed + `"cut": "freeze", "latency": "1s"}`)
		_, answer := f.request(http.MethodGet, "/faults", "")
		Expect(answer).To(MatchJSON(`[{"sni": "*.ingress.*", "latency": "1s", "cut": "freeze"}]`))
		for _, body := range []string{"", `{}`, `{"sni": "*"}`, `{"sni": "[", "cut": "reset"}`,
			`{"cut": "other"}`, `{"latency": "-1s"}`, `{"delay": "1s"}`, `{"cut": "freeze", "direction": "up"}`,
			`{"cut": "reset", "direction": "upstream"}`, `{"cut": "reset", "to": ["seed-c"]}`,
			`{"cut": "reset", "from": ["nobody"]}`, `{"loss": 100}`, `{"loss": -1}`,
			`{"cut": "freeze", "every": "20s"}`, `{"cut": "freeze", "for": "3s"}`,
			`{"cut": "freeze", "every": "3s", "for": "3s"}`, `{"every": "20s", "for": "3s"}`} {
			code, _ := f.request(http.MethodPost, "/faults", body)
			Expect(code).To(Equal(http.StatusBadRequest), body)
		}
		Expect(f.faults.List()).To(HaveLen(1))
	})
})
