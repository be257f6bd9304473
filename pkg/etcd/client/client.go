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
	return NewThrough(tlsConfig, locator, timeout, (&net.Dialer{Timeout: cmp.Or(timeout, DefaultTimeout)}).DialContext)
}

// Dial connects to the address of an endpoint.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// NewThrough returns a Cluster whose endpoints are connected to with the given function.
func NewThrough(tlsConfig *tls.Config, locator Locator, timeout time.Duration, dial Dial) Cluster {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	return &cluster{tls: tlsConfig, locator: locator, timeout: timeout, dial: dial,
		clients: map[Endpoint]*clientv3.Client{}}
}

type cluster struct {
	tls     *tls.Config
	locator Locator
	timeout time.Duration
	dial    Dial

	lock    sync.Mutex
	clients map[Endpoint]*clientv3.Client
}

func (c *cluster) List(ctx context.Context) (Membership, error) {
	var out Membership
	err := c.onService(ctx, "list the etcd members", func(ctx context.Context, client *clientv3.Client) error {
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

func (c *cluster) ListOf(ctx context.Context, member Member) (Membership, error) {
	endpoint, err := c.locator.Member(ctx, member)
	if err != nil {
		return Membership{}, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var out Membership
	if err := c.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		response, err := client.MemberList(ctx, clientv3.WithSerializable())
		if err == nil {
			out = toMembership(response)
		}
		return err
	}); err != nil {
		c.drop(endpoint)
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

func (c *cluster) Status(ctx context.Context, member Member) (Status, error) {
	endpoint, err := c.locator.Member(ctx, member)
	if err != nil {
		return Status{}, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var response *clientv3.StatusResponse
	if err := c.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
		// The client's own method dials again for each question: a handshake of TLS, several times per second and
		// member.
		var err error
		response, err = clientv3.NewMaintenanceFromMaintenanceClient(
			etcdserverpb.NewMaintenanceClient(client.ActiveConnection()), client).Status(ctx, url(endpoint))
		return err
	}); err != nil {
		// A member that has just come back is not to be waited for until the old connection tries again.
		c.drop(endpoint)
		return Status{}, fmt.Errorf("failed to get the status of etcd member %s at %s: %w", member, endpoint.Address,
			err)
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
	}, nil
}

func (c *cluster) HashKV(ctx context.Context, member Member, revision int64) (uint32, int64, error) {
	endpoint, err := c.locator.Member(ctx, member)
	if err != nil {
		return 0, 0, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	var response *clientv3.HashKVResponse
	if err := c.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
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

func (c *cluster) Health(ctx context.Context) error {
	return c.onService(ctx, "read from etcd", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Get(ctx, "livecpm-health")
		return err
	})
}

func (c *cluster) Promote(ctx context.Context, id uint64) error {
	return c.onService(ctx,
		fmt.Sprintf("promote etcd member %x", id), func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberPromote(ctx, id)
			return err
		})
}

func (c *cluster) Remove(ctx context.Context, id uint64) error {
	return c.onService(ctx,
		fmt.Sprintf("remove etcd member %x", id), func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberRemove(ctx, id)
			return err
		})
}

func (c *cluster) MoveLeader(ctx context.Context, leader Member, to uint64) error {
	endpoint, err := c.locator.Member(ctx, leader)
	if err != nil {
		return fmt.Errorf("failed to locate etcd member %s: %w", leader, err)
	}
	if err := c.on(ctx, endpoint, func(ctx context.Context, client *clientv3.Client) error {
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

func (c *cluster) Close() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	var errs []error
	for endpoint, client := range c.clients {
		errs = append(errs, client.Close())
		delete(c.clients, endpoint)
	}
	return errors.Join(errs...)
}

// onService tries the endpoints of the service one after the other until one answers. An answer that is a refusal ends
// the search: another member would refuse as well.
func (c *cluster) onService(ctx context.Context, verb string, do func(context.Context, *clientv3.Client) error) error {
	endpoints, err := c.locator.Service(ctx)
	if err != nil {
		return fmt.Errorf("failed to %s: failed to locate the service: %w", verb, err)
	}
	if len(endpoints) == 0 {
		return fmt.Errorf("failed to %s: there is no endpoint to ask", verb)
	}
	var errs []error
	for _, endpoint := range endpoints {
		err := c.on(ctx, endpoint, do)
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

func (c *cluster) on(ctx context.Context, endpoint Endpoint, do func(context.Context, *clientv3.Client) error) error {
	client, err := c.client(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return do(ctx, client)
}

// drop closes the client of the endpoint, so that the next question dials at once.
func (c *cluster) drop(endpoint Endpoint) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if client, ok := c.clients[endpoint]; ok {
		_ = client.Close()
		delete(c.clients, endpoint)
	}
}

func (c *cluster) client(endpoint Endpoint) (*clientv3.Client, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if client, ok := c.clients[endpoint]; ok {
		return client, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{url(endpoint)},
		TLS:       c.tls.Clone(),
		// gRPC derives the server name from the endpoint, whatever the TLS configuration says. So the endpoint is made
		// of the name, and the dialer knows where that is.
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.dial(ctx, "tcp", endpoint.Address)
		}), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: c.timeout,
		})},
		// A member that is down shows up at once. Callers look again soon anyway.
		MaxUnaryRetries:      1,
		DialTimeout:          c.timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		// What goes wrong is returned to the caller, who logs it with its context.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create an etcd client for %s: %w", endpoint.Address, err)
	}
	c.clients[endpoint] = client
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
