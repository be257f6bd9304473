// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/go-logr/logr"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/program/pod"
)

const (
	// askInterval is the pause between two questions for a member's status, and askAgain that after one that has not
	// been answered well: a leader is elected in less than a second, and requests wait meanwhile.
	askInterval = time.Second
	askAgain    = 200 * time.Millisecond
	// askTimeout is how long an answer may take.
	askTimeout = 2 * time.Second
	// misses is the number of bad answers in a row after which a member is not used any more. One of them may be
	// chance.
	misses = 2
	// dialTimeout is how long a connection may take to be accepted. It is within the cluster.
	dialTimeout = time.Second
	// connectTimeout is how long accepting and the TLS handshake may take together.
	connectTimeout = 3 * time.Second
	// openTimeout is how long a request may wait for its connection, which there is already. Nothing has been sent
	// then, so it can go to another member.
	openTimeout = 500 * time.Millisecond
	// replay is how many bytes of a request are kept to send it again when the member says that it has not looked at
	// it.
	replay = 16 << 20
)

// member is a member of etcd and the connection to it.
type member struct {
	config.Member

	log  logr.Logger
	conn *grpc.ClientConn
	// again wakes up whoever asks for the status.
	again chan struct{}

	// The rest belongs to the traffic, which locks it.

	// connection counts the connections that have broken. An answer that came over one of them says nothing.
	connection int
	bad        int
	eligible   bool
	unary      int
	streams    map[*call]struct{}
	drain      *drain
}

func newMember(cfg config.Member, certs *pod.Certificates, log logr.Logger) (*member, error) {
	m := &member{Member: cfg, log: log.WithValues("member", cfg.Ordinal, "address", cfg.Address),
		again: make(chan struct{}, 1), streams: map[*call]struct{}{}}
	var err error
	// The name is resolved at every attempt: a pod that restarts gets another address.
	m.conn, err = grpc.NewClient("passthrough:///"+cfg.Address,
		grpc.WithContextDialer(dialAny),
		grpc.WithTransportCredentials(&memberCredentials{certificates: certs, serverName: cfg.ServerName}),
		grpc.WithAuthority(cfg.ServerName),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		// Not more often than etcd allows. The time-out also bounds how long sent bytes may go without an answer of the
		// other host.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	return m, err
}

// upstream is a request at a member.
type upstream struct {
	grpc.ClientStream

	cancel context.CancelFunc
}

var (
	passOn     = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	passOnWith = []grpc.CallOption{
		grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32),
		grpc.MaxRetryRPCBufferSize(replay),
	}
)

// open begins a request. When it fails, no message was sent.
func (m *member) open(ctx context.Context, method string) (*upstream, error) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(openTimeout, cancel)
	stream, err := m.conn.NewStream(ctx, passOn, method, passOnWith...)
	if err == nil && !timer.Stop() {
		err = status.Error(codes.Unavailable, "the connection took too long")
	}
	if err != nil {
		timer.Stop()
		cancel()
		return nil, err
	}
	return &upstream{stream, cancel}, nil
}

func (m *member) connected() bool { return m.conn.GetState() == connectivity.Ready }

// follow keeps the member connected and tells the traffic when the connection breaks, until the context ends.
func (m *member) follow(ctx context.Context, t *traffic) {
	for {
		state := m.conn.GetState()
		switch state {
		case connectivity.Ready:
			select {
			case m.again <- struct{}{}:
			default:
			}
		case connectivity.Idle:
			t.broken(m)
			m.conn.Connect()
		default:
			t.broken(m)
		}
		if !m.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// ask asks for the member's status and tells the traffic, until the context ends.
func (m *member) ask(ctx context.Context, t *traffic, clk clock.Clock) {
	maintenance := etcdserverpb.NewMaintenanceClient(m.conn)
	for {
		connection := t.connection(m)
		err := look(ctx, maintenance)
		if ctx.Err() != nil {
			return
		}
		t.answered(m, connection, err)
		pause := askInterval
		if err != nil {
			pause = askAgain
		}
		timer := clk.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.again:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// look returns why a member is not to be used, if so.
func look(ctx context.Context, maintenance etcdserverpb.MaintenanceClient) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := maintenance.Status(ctx, &etcdserverpb.StatusRequest{})
	switch {
	case err != nil:
		return err
	case answer.IsLearner:
		return errors.New("the member is a learner")
	case answer.Leader == 0:
		return errors.New("the member has no leader")
	}
	return nil
}

// dialAny returns a connection to the address of the host that accepts first. A host may have the addresses of several
// pods, of which one serves the port.
func dialAny(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	return dialFirst(ctx, ips, port)
}

// dialFirst returns a connection to the address that accepts first.
func dialFirst(ctx context.Context, ips []string, port string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(ips))
	for _, ip := range ips {
		go func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
			results <- result{conn, err}
		}()
	}
	var failures []error
	for n := range ips {
		r := <-results
		if r.err != nil {
			failures = append(failures, r.err)
			continue
		}
		go func() { // whoever else accepts is not needed
			for range len(ips) - n - 1 {
				if r := <-results; r.conn != nil {
					_ = r.conn.Close()
				}
			}
		}()
		return r.conn, nil
	}
	return nil, errors.Join(failures...)
}
