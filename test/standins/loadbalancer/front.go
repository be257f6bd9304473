// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer stands in for the load balancer that a provider puts in front of a Service: outside of the
// cluster, on layer 4. It owns public addresses, hands each connection to the node port of a healthy node, and passes
// on bytes, ends and resets as they come. It is also what adds latency to the ways between the seeds, and cuts them.
package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

const (
	// dialTimeout is how long a node may take to accept a connection. Nodes are one hop away.
	dialTimeout = 5 * time.Second
	// backlogPause is between two attempts to accept when something is short, file descriptors for instance.
	backlogPause = 10 * time.Millisecond
)

// keepAlive is long: a load balancer has no opinion about silence before its idle timeout, 350 s in AWS. What ends a
// dead connection before that is what the two ends of it do.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 350 * time.Second, Interval: 10 * time.Second, Count: 3}

// Target says where the connections of a Service go.
type Target struct {
	// Ports are the node ports by the public port.
	Ports map[int32]int32
	// Nodes are the addresses of the nodes.
	Nodes []netip.Addr
	// HealthPort is the port of each node that answers GET /healthz with 200 if the node may have connections.
	HealthPort int32
}

// Front is the load balancer of one seed.
type Front struct {
	// Log gets what is worth knowing later: new targets, and connections that no node takes.
	Log logr.Logger
	// Clock is that of the health checks.
	Clock clock.WithTicker

	seed    string
	address netip.Addr
	faults  *Faults

	mu        sync.Mutex
	target    Target
	health    map[netip.Addr]*health
	listeners map[int32]*net.TCPListener
	open      map[connection]int
	// present are the links that there are, ended what has happened to those that were.
	present map[*link]struct{}
	ended   disturbances
	links   sync.WaitGroup
	due     chan struct{} // asks for health checks at once
}

// NewFront returns the load balancer with the public address of the seed. It has no Service yet.
func NewFront(log logr.Logger, seed string, address netip.Addr, faults *Faults) *Front {
	return &Front{Log: log, Clock: clock.RealClock{}, seed: seed, address: address, faults: faults,
		health: map[netip.Addr]*health{}, listeners: map[int32]*net.TCPListener{}, open: map[connection]int{},
		present: map[*link]struct{}{}, ended: disturbances{}, due: make(chan struct{}, 1)}
}

// Run checks the health of the nodes until the context ends, and waits for the end of all connections then.
func (f *Front) Run(ctx context.Context) {
	defer f.faults.watch(f.hide)()
	ticker := f.Clock.NewTicker(checkInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f.checkAll(ctx)
		select {
		case <-ticker.C():
		case <-f.due:
		case <-ctx.Done():
		}
	}
	f.links.Wait()
}

// Set makes the target that of new connections, and accepts connections at its public ports only. Present connections
// stay where they are. When it returns without an error, the load balancer answers. It serves until the context ends.
func (f *Front) Set(ctx context.Context, target Target) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for port, listener := range f.listeners {
		if _, wanted := target.Ports[port]; !wanted {
			_ = listener.Close()
			delete(f.listeners, port)
		}
	}
	for port := range target.Ports {
		if _, there := f.listeners[port]; there {
			continue
		}
		config := net.ListenConfig{KeepAliveConfig: keepAlive}
		config.SetMultipathTCP(false) // its sockets take no filters
		listener, err := config.Listen(ctx, "tcp4", netip.AddrPortFrom(f.address, uint16(port)).String())
		if err != nil {
			return fmt.Errorf("failed to accept connections to %s: %w", f.seed, err)
		}
		f.listeners[port] = listener.(*net.TCPListener)
		if err := f.hideListener(f.listeners[port]); err != nil {
			_ = listener.Close()
			delete(f.listeners, port)
			return err
		}
		f.links.Go(func() { f.serve(ctx, port, listener) })
	}
	health := map[netip.Addr]*health{}
	for _, node := range target.Nodes {
		health[node] = f.known(node)
	}
	f.target, f.health = target, health
	select {
	case f.due <- struct{}{}:
	default:
	}
	return nil
}

// serve accepts connections until the listener is closed or the context ends.
func (f *Front) serve(ctx context.Context, port int32, listener net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			f.Log.Info("Failed to accept a connection", "port", port, "reason", err.Error())
			time.Sleep(backlogPause)
			continue
		}
		f.links.Go(func() { f.handle(ctx, port, conn.(*net.TCPConn)) })
	}
}

func (f *Front) handle(ctx context.Context, port int32, conn *net.TCPConn) {
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	l := &link{to: f.seed, from: f.faults.who.Name(client.Addr()), client: conn, faults: f.faults}
	log := f.Log.WithValues("client", client.String(), "port", port)
	f.enter(l)
	defer f.leave(l)
	backend, err := f.connect(ctx, l, port)
	if err != nil {
		log.Info("Reset a new connection", "from", l.from, "reason", err.Error())
		wire.Reset(conn)
		return
	}
	l.backend = backend
	what := connection{to: l.to, from: l.from}
	f.count(what, 1)
	l.named = func(serverName string) {
		f.count(what, -1)
		what.serverName = serverName
		f.count(what, 1)
	}
	err = l.run(ctx)
	f.count(what, -1)
	log.V(1).Info("Connection ended", "from", l.from, "error", err)
}

// connect opens the connection to a node, as soon as the faults in force let the client's handshake through.
func (f *Front) connect(ctx context.Context, l *link, port int32) (*net.TCPConn, error) {
	if err := l.admit(ctx); err != nil {
		return nil, err
	}
	backend, err := f.choose(port)
	if err != nil {
		return nil, err
	}
	// A dial that the end of the load balancer interrupts closes its socket, which the node may have accepted already.
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: resetOnClose}
	conn, err := dialer.DialContext(ctx, "tcp4", backend.String())
	if err != nil {
		return nil, fmt.Errorf("failed to reach node: %w", err)
	}
	if err := conn.(*net.TCPConn).SetLinger(-1); err != nil {
		wire.Reset(conn)
		return nil, fmt.Errorf("failed to let a connection end in an orderly way: %w", err)
	}
	return conn.(*net.TCPConn), nil
}

// resetOnClose lets a socket end with an RST whenever it is closed.
func resetOnClose(_, _ string, raw syscall.RawConn) error {
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	return errors.Join(controlErr, err)
}

// choose returns the node port that gets a new connection. If no node is healthy, all may get it: so do the load
// balancers of AWS and GCP.
func (f *Front) choose(port int32) (netip.AddrPort, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodePort, ok := f.target.Ports[port]
	if !ok || len(f.target.Nodes) == 0 {
		return netip.AddrPort{}, fmt.Errorf("port %d leads to no node", port)
	}
	nodes := slices.DeleteFunc(slices.Clone(f.target.Nodes), func(node netip.Addr) bool {
		return !f.health[node].healthy
	})
	if len(nodes) == 0 {
		nodes = f.target.Nodes
	}
	return netip.AddrPortFrom(nodes[rand.IntN(len(nodes))], uint16(nodePort)), nil
}

// hide lets the public address be silent for those who cannot reach it.
func (f *Front) hide() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for port, listener := range f.listeners {
		if err := f.hideListener(listener); err != nil {
			f.Log.Error(err, "Failed to let a public port be silent", "port", port)
		}
	}
}

func (f *Front) hideListener(listener *net.TCPListener) error {
	names, all := f.faults.unreachable(f.seed)
	if all {
		return drop(listener)
	}
	if addresses := f.faults.who.Addresses(names...); len(addresses) > 0 {
		return dropFrom(listener, addresses)
	}
	return pass(listener)
}

func (f *Front) count(what connection, delta int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[what] += delta; f.open[what] == 0 {
		delete(f.open, what)
	}
}

// Status is a picture of a load balancer for people and tests.
type Status struct {
	Seed    string `json:"seed"`
	Address string `json:"address"`
	// Ports are the public ports with their node ports.
	Ports map[int32]int32 `json:"ports"`
	// Nodes are the nodes; those that are healthy get connections.
	Nodes map[string]bool `json:"nodes"`
	// Connections are the open ones.
	Connections []Connections `json:"connections"`
	// Disturbed is what faults have done to connections so far, one entry for each kind that they have met.
	Disturbed []Disturbed `json:"disturbed,omitempty"`
}

// Connections counts open connections of a kind.
type Connections struct {
	From string `json:"from"`
	// ServerName is that of the ClientHello, if there was one.
	ServerName string `json:"serverName,omitempty"`
	Count      int    `json:"count"`
}

// Status returns the present Status.
func (f *Front) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := Status{Seed: f.seed, Address: f.address.String(), Ports: maps.Clone(f.target.Ports),
		Nodes: map[string]bool{}, Connections: []Connections{}, Disturbed: f.disturbed()}
	for node, health := range f.health {
		status.Nodes[node.String()] = health.healthy
	}
	for what, n := range f.open {
		status.Connections = append(status.Connections, Connections{what.from, what.serverName, n})
	}
	slices.SortFunc(status.Connections, func(a, b Connections) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ServerName, b.ServerName))
	})
	return status
}
