// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	memberHost = "etcd-main-local"
	clientHost = "etcd-main-client.ns.svc"
)

// pki are the certificates of an etcd, and a client of another one.
type pki struct {
	authority, otherAuthority     []byte
	server, client, otherClient   *secretsutils.Certificate
	serverPair, clientPair, other tls.Certificate
	pool                          *x509.CertPool
}

// certificates are made once: keys of this size take their time.
var certificates *pki

func newPKI() *pki {
	GinkgoHelper()
	authority := func(name string) *secretsutils.Certificate {
		certificate, err := (&secretsutils.CertificateSecretConfig{Name: name, CommonName: name,
			CertType: secretsutils.CACert}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		return certificate
	}
	issue := func(
		by *secretsutils.Certificate, certType secretsutils.CertType, names ...string,
	) (*secretsutils.Certificate, tls.Certificate) {
		certificate, err := (&secretsutils.CertificateSecretConfig{Name: "leaf", CommonName: "leaf", CertType: certType,
			DNSNames: names, SigningCA: by}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		pair, err := tls.X509KeyPair(certificate.CertificatePEM, certificate.PrivateKeyPEM)
		Expect(err).NotTo(HaveOccurred())
		return certificate, pair
	}
	ca, otherCA := authority("ca-etcd"), authority("ca-other")
	p := &pki{authority: ca.CertificatePEM, otherAuthority: otherCA.CertificatePEM, pool: x509.NewCertPool()}
	Expect(p.pool.AppendCertsFromPEM(ca.CertificatePEM)).To(BeTrue())
	p.server, p.serverPair = issue(ca, secretsutils.ServerCert, memberHost, clientHost)
	p.client, p.clientPair = issue(ca, secretsutils.ClientCert)
	p.otherClient, p.other = issue(otherCA, secretsutils.ClientCert)
	return p
}

// clientTLS is that of a client of etcd.
func (p *pki) clientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.pool, Certificates: []tls.Certificate{p.clientPair},
		ServerName: clientHost}
}

// store is what the members of a cluster have in common: the events, of which the revision is the number.
type store struct {
	mu      sync.Mutex
	events  []*mvccpb.Event
	changed chan struct{}
}

func (s *store) put(key, value []byte) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision := int64(len(s.events) + 1)
	s.events = append(s.events, &mvccpb.Event{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{Key: key, Value: value,
		CreateRevision: revision, ModRevision: revision, Version: 1}})
	close(s.changed)
	s.changed = make(chan struct{})
	return revision
}

// from returns the events from the revision on, and what is closed when there are more.
func (s *store) from(revision int64) ([]*mvccpb.Event, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[min(int(revision)-1, len(s.events)):], s.changed
}

func (s *store) revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.events))
}

// member serves what is needed of etcd's API. When it stops, requests under way are cut off, as etcd does.
type member struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	etcdserverpb.UnimplementedMaintenanceServer

	store   *store
	id      uint64
	address string
	server  *grpc.Server

	mu      sync.Mutex
	learner bool
	leader  uint64
	// block, if set, is what writes wait for.
	block chan struct{}
	// calls are those received, under way those not ended.
	calls, underWay, watches int
}

// etcd is a cluster.
type etcd struct {
	store   *store
	members []*member
}

func newEtcd(size int) *etcd {
	GinkgoHelper()
	e := &etcd{store: &store{changed: make(chan struct{})}}
	for i := range size {
		m := &member{store: e.store, id: uint64(i + 1), leader: 1, address: "127.0.0.1:0"}
		e.members = append(e.members, m)
		m.start()
		DeferCleanup(m.stop)
	}
	return e
}

func (m *member) start() {
	GinkgoHelper()
	var listener net.Listener
	Eventually(func() (err error) { // at a restart, the port may still have connections
		listener, err = net.Listen("tcp", m.address)
		return err
	}).Should(Succeed())
	m.address = listener.Addr().String()
	m.server = grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20),
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: certificates.pool,
			Certificates: []tls.Certificate{certificates.serverPair}})))
	etcdserverpb.RegisterKVServer(m.server, m)
	etcdserverpb.RegisterWatchServer(m.server, m)
	etcdserverpb.RegisterMaintenanceServer(m.server, m)
	server := m.server
	go func() { _ = server.Serve(listener) }()
}

func (m *member) stop() { m.server.Stop() }

// set changes the member.
func (m *member) set(change func(m *member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// blocked lets writes wait until the returned function is called.
func (m *member) blocked() (release func()) {
	block := make(chan struct{})
	m.set(func(m *member) { m.block = block })
	release = sync.OnceFunc(func() {
		m.set(func(m *member) { m.block = nil })
		close(block)
	})
	DeferCleanup(release)
	return release
}

func (m *member) received() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func (m *member) atWork() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.underWay
}

func (m *member) watched() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches
}

// begin counts a call until the returned function is called. Writes wait if they are blocked.
func (m *member) begin(ctx context.Context) (end func(), err error) {
	m.mu.Lock()
	m.calls++
	m.underWay++
	block := m.block
	m.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return func() { m.set(func(m *member) { m.underWay-- }) }, err
}

func (m *member) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: 7, MemberId: m.id, Revision: m.store.revision()}
}

func (m *member) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: m.id}, Leader: m.leader,
		IsLearner: m.learner}, nil
}

// Range answers with what the key asks for.
func (m *member) Range(
	ctx context.Context, request *etcdserverpb.RangeRequest,
) (*etcdserverpb.RangeResponse, error) {
	end, err := m.begin(ctx)
	defer end()
	if err != nil {
		return nil, err
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-header", strings.Join(sent["x-sent"], ","), "x-bin", "\x00\x01"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "t", "x-agent", strings.Join(sent["x-agent"], ",")))
	switch string(request.Key) {
	case "fail":
		failure, err := status.New(codes.OutOfRange, "etcdserver: not so").WithDetails(durationpb.New(5))
		if err != nil {
			return nil, err
		}
		return nil, failure.Err()
	case "deadline":
		deadline, _ := ctx.Deadline()
		return nil, status.Error(codes.OutOfRange, time.Until(deadline).Round(time.Hour).String())
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &etcdserverpb.RangeResponse{Header: m.header(), Count: int64(len(request.Key)),
		Kvs: []*mvccpb.KeyValue{{Key: request.Key}}}, nil
}

func (m *member) Put(ctx context.Context, request *etcdserverpb.PutRequest) (*etcdserverpb.PutResponse, error) {
	end, err := m.begin(ctx)
	defer end()
	if err != nil {
		return nil, err
	}
	m.store.put(request.Key, request.Value)
	return &etcdserverpb.PutResponse{Header: m.header()}, nil
}

// Txn carries out what is to be done on success.
func (m *member) Txn(ctx context.Context, request *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	end, err := m.begin(ctx)
	defer end()
	if err != nil {
		return nil, err
	}
	for _, op := range request.Success {
		m.store.put(op.GetRequestPut().Key, op.GetRequestPut().Value)
	}
	return &etcdserverpb.TxnResponse{Header: m.header(), Succeeded: true}, nil
}

// Watch serves one watch per stream.
func (m *member) Watch(server etcdserverpb.Watch_WatchServer) error {
	request, err := server.Recv()
	if err != nil {
		return err
	}
	create := request.GetCreateRequest()
	if create == nil {
		return errors.New("a watch must be created first")
	}
	m.set(func(m *member) { m.watches++ })
	defer m.set(func(m *member) { m.watches-- })
	next := create.StartRevision
	if next == 0 {
		next = m.store.revision() + 1
	}
	if err := server.Send(&etcdserverpb.WatchResponse{Header: m.header(), Created: true}); err != nil {
		return err
	}
	for {
		events, changed := m.store.from(next)
		if len(events) > 0 {
			next += int64(len(events))
			if err := server.Send(&etcdserverpb.WatchResponse{Header: m.header(), Events: events}); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-server.Context().Done():
			return server.Context().Err()
		}
	}
}
