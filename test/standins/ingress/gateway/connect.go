// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
	"github.com/livecpm/livecpm/test/standins/accept"
)

// destinationHeader tells where a client of the HTTP proxy wants to. Gardener's apiserver-proxy and VPN clients set it,
// and its EnvoyFilter makes the gateway follow it.
const destinationHeader = "X-Gardener-Destination"

// ParseDestination reads the name that Istio gives a target:
// outbound|1194||vpn-seed-server.shoot--foo--bar.svc.cluster.local.
func ParseDestination(value string) (Target, error) {
	parts := strings.Split(value, "|")
	if len(parts) != 4 || parts[0] != "outbound" || parts[2] != "" {
		return Target{}, fmt.Errorf("%q does not read like outbound|<port>||<service>.<namespace>.svc.cluster.local",
			value)
	}
	port, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil {
		return Target{}, fmt.Errorf("%q has no port: %w", value, err)
	}
	host, found := strings.CutSuffix(parts[3], ".svc.cluster.local")
	service, namespace, cut := strings.Cut(host, ".")
	if !found || !cut || service == "" || namespace == "" || strings.Contains(namespace, ".") {
		return Target{}, fmt.Errorf("%q does not name a Service of the cluster", value)
	}
	return Target{Namespace: namespace, Service: service, Port: uint32(port)}, nil
}

// ServeConnect accepts the clients of the HTTP proxy until the context ends. They ask for their destination by CONNECT;
// everything after the answer is handed through untouched.
func (g *Gateway) ServeConnect(ctx context.Context, listener net.Listener) error {
	return accept.Each(ctx, listener, func(conn net.Conn) {
		go func() {
			defer func() { _ = conn.Close() }()
			if err := g.connect(ctx, conn.(*net.TCPConn)); err != nil && !errors.Is(err, io.EOF) {
				g.Log.Info("Dropped a client of the HTTP proxy", "client", conn.RemoteAddr().String(), "reason",
					err.Error())
			}
		}()
	})
}

func (g *Gateway) connect(ctx context.Context, conn *net.TCPConn) error {
	_ = conn.SetReadDeadline(time.Now().Add(helloTimeout))
	buffered := bufio.NewReader(conn)
	request, err := http.ReadRequest(buffered)
	if err != nil {
		return err
	}
	refuse := func(code int, err error) error {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", code, http.StatusText(code))
		return err
	}
	if request.Method != http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, fmt.Errorf("it asked for %s", request.Method))
	}
	target, err := ParseDestination(request.Header.Get(destinationHeader))
	if err != nil {
		return refuse(http.StatusNotFound, err)
	}
	backend, err := g.Backends.Dial(ctx, target)
	if err != nil {
		return refuse(http.StatusServiceUnavailable, err)
	}
	defer func() { _ = backend.Close() }()
	defer context.AfterFunc(ctx, func() { _ = backend.Close(); _ = conn.Close() })()
	name := "CONNECT " + target.String()
	g.count(name, 1)
	defer g.count(name, -1)
	if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Time{})
	_ = conn.SetKeepAliveConfig(wire.KeepAlive)
	go func() {
		_, _ = io.Copy(backend, buffered)
		_ = backend.CloseWrite()
	}()
	_, err = io.Copy(conn, backend)
	return err
}
