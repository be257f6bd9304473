// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Endpoint is a place where a member, or a service in front of several, can be asked.
type Endpoint struct {
	// Address is "host:port".
	Address string
	// ServerName is sent as SNI and must be among the names of the server's certificate. The relay routes by it.
	ServerName string
}

// Locator finds the endpoints of a cluster. The places change while pods come and go, so it is asked before each call.
type Locator interface {
	// Service returns endpoints behind which any healthy member may answer, the preferred one first.
	Service(ctx context.Context) ([]Endpoint, error)
	// Member returns the endpoint of exactly one member.
	Member(ctx context.Context, member Member) (Endpoint, error)
}

// New returns a Cluster that is reached with the given TLS configuration at the places that the locator finds. A
// timeout of zero means DefaultTimeout.
func New(tlsConfig *tls.Config, locator Locator, timeout time.Duration) Cluster {
	return &writer{newReader(tlsConfig, locator, timeout, (&net.Dialer{Timeout: timeoutOf(timeout)}).DialContext)}
}

// Dial connects to the address of an endpoint.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// NewReader is New for those who only look. What it returns has no method that changes the cluster. Endpoints are
// connected to with the given function.
func NewReader(tlsConfig *tls.Config, locator Locator, timeout time.Duration, dial Dial) Reader {
	return newReader(tlsConfig, locator, timeout, dial)
}

func newReader(tlsConfig *tls.Config, locator Locator, timeout time.Duration, dial Dial) *reader {
	return &reader{tls: tlsConfig, locator: locator, timeout: timeoutOf(timeout), dial: dial,
		clients: map[Endpoint]*connection{}}
}

func timeoutOf(timeout time.Duration) time.Duration { return cmp.Or(timeout, DefaultTimeout) }

// reader holds the connections and asks the questions.
type reader struct {
	tls     *tls.Config
	locator Locator
	timeout time.Duration
	dial    Dial

	lock    sync.Mutex
	clients map[Endpoint]*connection
}

// connection is a client of one endpoint.
type connection struct {
	*clientv3.Client

	// late is how many questions in a row were not answered in time.
	late int
}

// maxLate is how many questions in a row may end without an answer in time before the connection is made again.
const maxLate = 3

// writer changes the membership through the connections of a reader.
type writer struct {
	*reader
}

var (
	_ Reader  = (*reader)(nil)
	_ Cluster = (*writer)(nil)
)

func (r *reader) List(ctx context.Context) (Membership, error) {
	var out Membership
	err := r.onService(ctx, "list the etcd members", func(ctx context.Context, client *clientv3.Client) error {
		// MemberList of the client is linearizable by default: a member cut off from the others does not answer it.
		response, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		out = toMembership(response)
		return nil
	})
	return out, err
}

func (r *reader) ListOf(ctx context.Context, member Member) (Membership, error) {
	endpoint, err := r.locator.Member(ctx, member)
	if err != nil {
		return Membership{}, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var out Membership
	if err := r.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		response, err := client.MemberList(ctx, clientv3.WithSerializable())
		if err == nil {
			out = toMembership(response)
		}
		return err
	}); err != nil {
		r.failed(endpoint, err)
		return Membership{},
			fmt.Errorf("failed to get the member list of etcd member %s at %s: %w", member, endpoint.Address, err)
	}
	return out, nil
}

func toMembership(response *clientv3.MemberListResponse) Membership {
	out := Membership{ClusterID: response.Header.GetClusterId(), Members: make([]Member, 0, len(response.Members))}
	for _, m := range response.Members {
		out.Members = append(out.Members, toMember(m))
	}
	return out
}

func toMember(m *etcdserverpb.Member) Member {
	return Member{ID: m.GetID(), Name: m.GetName(), PeerURLs: m.GetPeerURLs(), Learner: m.GetIsLearner()}
}

func (r *reader) Status(ctx context.Context, member Member) (Status, error) {
	endpoint, err := r.locator.Member(ctx, member)
	if err != nil {
		return Status{}, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var (
		response *clientv3.StatusResponse
		asked    = time.Now()
	)
	err = r.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		// The client's own method dials again for each question: a handshake of TLS, several times per second and
		// member.
		var err error
		response, err = clientv3.NewMaintenanceFromMaintenanceClient(
			etcdserverpb.NewMaintenanceClient(client.ActiveConnection()), client).Status(ctx, url(endpoint))
		return err
	})
	took := time.Since(asked)
	if err != nil {
		r.failed(endpoint, err)
		return Status{Took: took}, fmt.Errorf("failed to get the status of etcd member %s at %s: %w", member,
			endpoint.Address, err)
	}
	if got := response.Header.GetMemberId(); got != member.ID {
		return Status{}, fmt.Errorf("failed to get the status of etcd member %s: member %x answered at %s", member, got,
			endpoint.Address)
	}
	return Status{
		ClusterID:        response.Header.GetClusterId(),
		MemberID:         response.Header.GetMemberId(),
		LeaderID:         response.Leader,
		Learner:          response.IsLearner,
		Version:          response.Version,
		Revision:         response.Header.GetRevision(),
		RaftTerm:         response.RaftTerm,
		RaftIndex:        response.RaftIndex,
		RaftAppliedIndex: response.RaftAppliedIndex,
		DBSize:           response.DbSize,
		DBSizeInUse:      response.DbSizeInUse,
		Errors:           response.Errors,
		Took:             took,
	}, nil
}

func (r *reader) HashKV(ctx context.Context, member Member, revision int64) (uint32, int64, error) {
	endpoint, err := r.locator.Member(ctx, member)
	if err != nil {
		return 0, 0, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var response *clientv3.HashKVResponse
	if err := r.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		var err error
		response, err = client.HashKV(ctx, url(endpoint), revision)
		return err
	}); err != nil {
		return 0, 0, fmt.Errorf("failed to get the hash of etcd member %s at revision %d: %w", member, revision, err)
	}
	if got := response.Header.GetMemberId(); got != member.ID {
		return 0, 0, fmt.Errorf("failed to get the hash of etcd member %s: member %x answered at %s", member, got,
			endpoint.Address)
	}
	return response.Hash, response.CompactRevision, nil
}

func (r *reader) Health(ctx context.Context) error {
	return r.onService(ctx, "read from etcd", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Get(ctx, "livecpm-health")
		return err
	})
}

func (w *writer) Promote(ctx context.Context, id uint64) error {
	return w.onService(ctx,
		fmt.Sprintf("promote etcd member %x", id), func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberPromote(ctx, id)
			return err
		})
}

func (w *writer) Remove(ctx context.Context, id uint64) error {
	return w.onService(ctx,
		fmt.Sprintf("remove etcd member %x", id), func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberRemove(ctx, id)
			return err
		})
}

func (w *writer) UpdatePeerURLs(ctx context.Context, id uint64, peerURLs []string) error {
	return w.onService(ctx, fmt.Sprintf("set the peer URLs of etcd member %x to %v", id, peerURLs),
		func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberUpdate(ctx, id, peerURLs)
			return err
		})
}

func (w *writer) MoveLeader(ctx context.Context, leader Member, to uint64) error {
	endpoint, err := w.locator.Member(ctx, leader)
	if err != nil {
		return fmt.Errorf("failed to locate etcd member %s: %w", leader, err)
	}
	if err := w.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MoveLeader(ctx, to)
		return err
	}); err != nil {
		if refusal, ok := translate(err); ok {
			err = refusal
		}
		return fmt.Errorf("failed to transfer leadership from etcd member %s to %x: %w", leader, to, err)
	}
	return nil
}

func (r *reader) Close() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	var errs []error
	for endpoint, client := range r.clients {
		errs = append(errs, client.Close())
		delete(r.clients, endpoint)
	}
	return errors.Join(errs...)
}

// onService tries the endpoints of the service one after the other until one answers. An answer that is a refusal ends
// the search: another member would refuse as well.
func (r *reader) onService(ctx context.Context, verb string, do func(context.Context, *clientv3.Client) error) error {
	endpoints, err := r.locator.Service(ctx)
	if err != nil {
		return fmt.Errorf("failed to %s: failed to locate the service: %w", verb, err)
	}
	if len(endpoints) == 0 {
		return fmt.Errorf("failed to %s: there is no endpoint to ask", verb)
	}
	var errs []error
	for _, endpoint := range endpoints {
		err := r.on(ctx, endpoint, do)
		if err == nil {
			return nil
		}
		if refusal, ok := translate(err); ok {
			return fmt.Errorf("failed to %s: %w", verb, refusal)
		}
		errs = append(errs, fmt.Errorf("%s (%s): %w", endpoint.Address, endpoint.ServerName, err))
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("failed to %s: %w", verb, errors.Join(errs...))
}

func (r *reader) on(ctx context.Context, endpoint Endpoint, do func(context.Context, *clientv3.Client) error) error {
	client, err := r.client(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := do(ctx, client); err != nil {
		return err
	}
	r.answered(endpoint)
	return nil
}

// failed closes the client of an endpoint at which a question has failed, so that the next one dials at once: a member
// that has just come back is not to be waited for until the old connection tries again.
//
// A member that is connected and only late keeps its connection, unless it is late again and again: it has too much to
// do already, and a handshake is far more work for it, and for the relays in between, than the question.
func (r *reader) failed(endpoint Endpoint, err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	c, ok := r.clients[endpoint]
	if !ok {
		return
	}
	if c.late++; isLate(err) && c.late < maxLate && c.ActiveConnection().GetState() == connectivity.Ready {
		return
	}
	_ = c.Close()
	delete(r.clients, endpoint)
}

func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// answered notes that the endpoint has answered in time.
func (r *reader) answered(endpoint Endpoint) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if c, ok := r.clients[endpoint]; ok {
		c.late = 0
	}
}

func (r *reader) client(endpoint Endpoint) (*clientv3.Client, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if known, ok := r.clients[endpoint]; ok {
		return known.Client, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{url(endpoint)},
		TLS:       r.tls.Clone(),
		// gRPC derives the server name from the endpoint, whatever the TLS configuration says. So the endpoint is made
		// of the name, and the dialer knows where that is.
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return r.dial(ctx, "tcp", endpoint.Address)
		}), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: r.timeout,
		})},
		// A member that is down shows up at once. Callers look again soon anyway.
		MaxUnaryRetries:      1,
		DialTimeout:          r.timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		// What goes wrong is returned to the caller, who logs it with its context.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create an etcd client for %s: %w", endpoint.Address, err)
	}
	r.clients[endpoint] = &connection{Client: client}
	return client, nil
}

func url(endpoint Endpoint) string {
	_, port, _ := net.SplitHostPort(endpoint.Address)
	return "https://" + net.JoinHostPort(endpoint.ServerName, port)
}

// translate returns the sentinel error for a refusal that callers act on, and false for any other error.
func translate(err error) (error, bool) {
	for _, known := range []struct{ etcd, ours error }{
		{rpctypes.ErrMemberLearnerNotReady, ErrLearnerNotReady},
		{rpctypes.ErrMemberNotLearner, ErrNotLearner},
		{rpctypes.ErrMemberNotFound, ErrMemberNotFound},
		{rpctypes.ErrUnhealthy, ErrUnhealthy},
		{rpctypes.ErrMemberNotEnoughStarted, ErrUnhealthy},
		{rpctypes.ErrNotLeader, ErrNotLeader},
		{rpctypes.ErrBadLeaderTransferee, ErrBadTransferee},
	} {
		if errors.Is(err, known.etcd) {
			return known.ours, true
		}
	}
	return nil, false
}
