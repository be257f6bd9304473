// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// helloTimeout is how long a client may take to say which server it wants.
const helloTimeout = 10 * time.Second

// Gateway accepts connections and routes them by SNI.
type Gateway struct {
	Log      logr.Logger
	Identity Identity
	Backends Backends
	Faults   *Faults

	table atomic.Pointer[Table]

	mu          sync.Mutex
	connections map[string]int // by route's SNI
	problems    []string
}

// Sync reads all objects again and replaces the routes. Present connections stay as they are, as Envoy keeps them.
func (g *Gateway) Sync(ctx context.Context) error {
	gateways, virtualServices := &istionetworkingv1beta1.GatewayList{}, &istionetworkingv1beta1.VirtualServiceList{}
	if err := g.Backends.Reader.List(ctx, gateways); err != nil {
		return fmt.Errorf("failed to list Gateways: %w", err)
	}
	if err := g.Backends.Reader.List(ctx, virtualServices); err != nil {
		return fmt.Errorf("failed to list VirtualServices: %w", err)
	}
	filters := &istionetworkingv1alpha3.EnvoyFilterList{}
	if err := g.Backends.Reader.List(ctx, filters, client.InNamespace(g.Identity.Namespace)); err != nil {
		return fmt.Errorf("failed to list EnvoyFilters: %w", err)
	}
	table, problems := BuildTable(g.Identity, gateways.Items, virtualServices.Items)
	table.RemoveFilterChains(g.Identity, filters.Items)
	for _, problem := range problems {
		g.Log.Info("Ignored part of the configuration", "problem", problem)
	}
	g.logChanges(g.table.Swap(table), table)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = problems
	return nil
}

func (g *Gateway) logChanges(before, after *Table) {
	known := map[Route]bool{}
	if before != nil {
		for _, route := range before.Routes {
			known[route] = true
		}
	}
	for _, route := range after.Routes {
		if !known[route] {
			g.Log.Info("Added route", "sni", route.SNI, "target", route.Target.String(), "virtualService", route.Source)
		}
		delete(known, route)
	}
	for route := range known {
		g.Log.Info("Removed route", "sni", route.SNI, "target", route.Target.String(), "virtualService", route.Source)
	}
}

// Status is a picture of the gateway for people and tests.
type Status struct {
	Routes      []Route        `json:"routes"`
	Problems    []string       `json:"problems,omitempty"`
	Faults      []Fault        `json:"faults,omitempty"`
	Connections map[string]int `json:"connections"`
}

// Status returns the present Status.
func (g *Gateway) Status() Status {
	status := Status{Routes: []Route{}, Faults: g.Faults.List(), Connections: map[string]int{}}
	if table := g.table.Load(); table != nil {
		status.Routes = table.Routes
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	status.Problems = g.problems
	for sni, n := range g.connections {
		status.Connections[sni] = n
	}
	return status
}

// Ready reports whether there are routes to serve by: an empty table counts when it was read.
func (g *Gateway) Ready() bool { return g.table.Load() != nil }

// Serve accepts connections until the context ends, then gives the open ones drain to end by themselves.
func (g *Gateway) Serve(ctx context.Context, listener net.Listener, drain time.Duration) error {
	// Connections outlive ctx by the drain period.
	connections, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var open sync.WaitGroup
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // out of file descriptors, for instance
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return fmt.Errorf("failed to accept: %w", err)
		}
		open.Go(func() { g.handle(connections, conn.(*net.TCPConn)) })
	}
	drained := make(chan struct{})
	go func() { open.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drain):
		cancel()
		<-drained
	}
	return nil
}

func (g *Gateway) handle(ctx context.Context, conn *net.TCPConn) {
	log := g.Log.WithValues("client", conn.RemoteAddr().String())
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	_ = conn.SetReadDeadline(time.Now().Add(helloTimeout))
	hello, err := wire.ReadHello(conn)
	stop()
	if err != nil {
		// Load balancers and probes connect and say nothing: not worth a line at the usual level.
		log.V(1).Info("Dropped connection without a ClientHello", "reason", err.Error())
		wire.Reset(conn)
		return
	}
	log = log.WithValues("sni", hello.ServerName)
	var route Route
	found := false
	if table := g.table.Load(); table != nil {
		route, found = table.Lookup(hello.ServerName)
	}
	if !found {
		log.Info("Dropped connection without a route")
		wire.Reset(conn)
		return
	}
	if err := g.untilThawed(ctx, hello.ServerName); err != nil {
		wire.Reset(conn)
		return
	}
	backend, err := g.Backends.Dial(ctx, route.Target)
	if err != nil {
		log.Info("Dropped connection", "target", route.Target.String(), "reason", err.Error())
		wire.Reset(conn)
		return
	}
	g.count(route.SNI, 1)
	defer g.count(route.SNI, -1)
	_ = conn.SetKeepAliveConfig(wire.KeepAlive)
	l := &link{serverName: hello.ServerName, client: conn, backend: backend, faults: g.Faults}
	if err := l.run(ctx, hello.Raw); err != nil {
		log.V(1).Info("Connection ended with an error", "target", route.Target.String(), "reason", err.Error())
	}
}

// untilThawed holds a new connection back for as long as its traffic is cut by freezing.
func (g *Gateway) untilThawed(ctx context.Context, serverName string) error {
	for {
		fault, changed := g.Faults.of(serverName)
		switch fault.Cut {
		case CutReset:
			return errCut
		case CutFreeze:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return nil
		}
	}
}

func (g *Gateway) count(sni string, delta int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.connections == nil {
		g.connections = map[string]int{}
	}
	if g.connections[sni] += delta; g.connections[sni] == 0 {
		delete(g.connections, sni)
	}
}

// Objects are the kinds that a Gateway reads.
func Objects() []client.Object {
	return []client.Object{&istionetworkingv1beta1.Gateway{}, &istionetworkingv1beta1.VirtualService{},
		&istionetworkingv1alpha3.EnvoyFilter{}}
}
