// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	. "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	memberHost = "etcd-main-0.etcd-main-peer.ns.svc"
	clientHost = "etcd-main-client.ns.svc"
)

// member serves the few calls of etcd's API that the client makes, and records the server names that it was asked for.
type member struct {
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer

	lock        sync.Mutex
	serverNames []string
	id, leader  uint64
	refuse      error
	alone       bool
	updated     *etcdserverpb.MemberUpdateRequest
	// busy, if set, keeps the member from answering for its status until it is closed.
	busy chan struct{}
}

func (m *member) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: 7, MemberId: m.id, Revision: 42}
}

func (m *member) MemberList(
	_ context.Context, request *etcdserverpb.MemberListRequest,
) (*etcdserverpb.MemberListResponse, error) {
	if m.alone && request.Linearizable {
		return nil, errors.New("etcdserver: no leader")
	}
	return &etcdserverpb.MemberListResponse{Header: m.header(), Members: []*etcdserverpb.Member{
		{ID: m.id, Name: "seed-a-etcd-main-0", PeerURLs: []string{"https://" + memberHost + ":2380"}},
		{ID: 9, PeerURLs: []string{"https://elsewhere:2381"}, IsLearner: true},
	}}, m.refuse
}

func (m *member) MemberPromote(
	context.Context, *etcdserverpb.MemberPromoteRequest,
) (*etcdserverpb.MemberPromoteResponse, error) {
	return nil, m.refuse
}

func (m *member) MemberRemove(
	context.Context, *etcdserverpb.MemberRemoveRequest,
) (*etcdserverpb.MemberRemoveResponse, error) {
	return nil, m.refuse
}

func (m *member) MemberUpdate(
	_ context.Context, request *etcdserverpb.MemberUpdateRequest,
) (*etcdserverpb.MemberUpdateResponse, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.updated = request
	return &etcdserverpb.MemberUpdateResponse{Header: m.header()}, m.refuse
}

func (m *member) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	m.lock.Lock()
	busy := m.busy
	m.lock.Unlock()
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &etcdserverpb.StatusResponse{Header: m.header(), Leader: m.leader, Version: "3.5.27", DbSize: 300,
		DbSizeInUse: 200, Errors: []string{"NOSPACE"}}, nil
}

func (m *member) Alarm(_ context.Context, request *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	if request.Action != etcdserverpb.AlarmRequest_GET {
		return nil, errors.New("alarms are only to be read")
	}
	return &etcdserverpb.AlarmResponse{Header: m.header(), Alarms: []*etcdserverpb.AlarmMember{
		{MemberID: 5, Alarm: etcdserverpb.AlarmType_NOSPACE},
		{MemberID: 9, Alarm: etcdserverpb.AlarmType_CORRUPT},
	}}, m.refuse
}

func (m *member) MoveLeader(
	context.Context, *etcdserverpb.MoveLeaderRequest,
) (*etcdserverpb.MoveLeaderResponse, error) {
	return nil, m.refuse
}

func (m *member) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: m.header()}, m.refuse
}

func (m *member) names() []string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return append([]string(nil), m.serverNames...)
}

type places struct {
	service []Endpoint
	member  Endpoint
	err     error
}

func (p places) Service(context.Context) ([]Endpoint, error)      { return p.service, p.err }
func (p places) Member(context.Context, Member) (Endpoint, error) { return p.member, p.err }

var _ = Describe("Client", Ordered, func() {
	var (
		ctx                  = context.Background()
		server               *member
		address, deadAddress string
		metricsAddress       string
		metrics              string
		metricsStatus        int
		ca, clientSecret     *corev1.Secret
		tlsConfig            *tls.Config
	)

	BeforeAll(func() { // keys of this size take their time
		authority, err := (&secretsutils.CertificateSecretConfig{Name: "ca-etcd", CommonName: "ca-etcd",
			CertType: secretsutils.CACert}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		issue := func(certType secretsutils.CertType, names ...string) map[string][]byte {
			certificate, err := (&secretsutils.CertificateSecretConfig{Name: "leaf", CommonName: "leaf",
				CertType: certType, DNSNames: names, SigningCA: authority}).GenerateCertificate()
			Expect(err).NotTo(HaveOccurred())
			return certificate.SecretData()
		}
		ca = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca-etcd-bundle-1"},
			Data: map[string][]byte{"bundle.crt": authority.CertificatePEM}}
		clientSecret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-client-1"},
			Data: issue(secretsutils.ClientCert)}
		tlsConfig, err = TLSFromSecrets(ca, clientSecret)
		Expect(err).NotTo(HaveOccurred())

		server = &member{id: 5, leader: 5}
		serving := issue(secretsutils.ServerCert, memberHost, clientHost)
		pair, err := tls.X509KeyPair(serving["tls.crt"], serving["tls.key"])
		Expect(err).NotTo(HaveOccurred())
		pool := x509.NewCertPool()
		Expect(pool.AppendCertsFromPEM(authority.CertificatePEM)).To(BeTrue())
		grpcServer := grpc.NewServer(
			grpc.Creds(credentials.NewTLS(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
				GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					server.lock.Lock()
					defer server.lock.Unlock()
					server.serverNames = append(server.serverNames, hello.ServerName)
					return nil, nil
				}, Certificates: []tls.Certificate{pair}})))
		etcdserverpb.RegisterClusterServer(grpcServer, server)
		etcdserverpb.RegisterMaintenanceServer(grpcServer, server)
		etcdserverpb.RegisterKVServer(grpcServer, server)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		go func() { _ = grpcServer.Serve(listener) }()
		DeferCleanup(grpcServer.Stop)
		address = listener.Addr().String()

		// etcd serves metrics and gRPC on one port; here they are on two.
		web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path != "/metrics" || request.TLS.ServerName != memberHost ||
				len(request.TLS.PeerCertificates) == 0 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(metricsStatus)
			_, _ = w.Write([]byte(metrics))
		}))
		web.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		web.EnableHTTP2 = true // as etcd does
		web.StartTLS()
		DeferCleanup(web.Close)
		metricsAddress = web.Listener.Addr().String()

		dead, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		deadAddress = dead.Addr().String()
		Expect(dead.Close()).To(Succeed())
	})

	BeforeEach(func() { server.refuse, server.alone, metricsStatus = nil, false, http.StatusOK })

	// within returns a cluster that waits so long for an answer.
	within := func(limit time.Duration, p places) Cluster {
		c := New(tlsConfig, p, limit)
		DeferCleanup(c.Close)
		return c
	}
	// cluster is for those who answer, however busy the machine is; dead for those who do not, which takes the time.
	cluster := func(p places) Cluster { return within(patience.Eventually, p) }
	dead := func(p places) Cluster { return within(2*time.Second, p) }

	It("should list members and ask one of them, each with the server name of the endpoint", func() {
		c := cluster(places{service: []Endpoint{{Address: address, ServerName: clientHost}},
			member: Endpoint{Address: address, ServerName: memberHost}})
		list, err := c.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(list).To(Equal(Membership{ClusterID: 7, Members: []Member{
			{ID: 5, Name: "seed-a-etcd-main-0", PeerURLs: []string{"https://" + memberHost + ":2380"}},
			{ID: 9, PeerURLs: []string{"https://elsewhere:2381"}, Learner: true},
		}}))
		Expect(server.names()).To(HaveEach(clientHost))

		status, err := c.Status(ctx, list.Members[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Took).To(BeNumerically(">", 0))
		status.Took = 0
		Expect(status).To(Equal(Status{ClusterID: 7, MemberID: 5, LeaderID: 5, Version: "3.5.27", Revision: 42,
			DBSize: 300, DBSizeInUse: 200, Errors: []string{"NOSPACE"}}))
		Expect(server.names()).To(ContainElement(memberHost))
		Expect(c.Health(ctx)).To(Succeed())
	})

	It("should give those who only look nothing to change the cluster with", func() {
		at := places{service: []Endpoint{{Address: address, ServerName: clientHost}}}
		r := NewReader(tlsConfig, at, 2*time.Second, (&net.Dialer{}).DialContext)
		DeferCleanup(r.Close)
		list, err := r.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Members).To(HaveLen(2))
		_, changes := r.(Writer)
		Expect(changes).To(BeFalse())
	})

	It("should have the list of a member that has lost the others only from that member", func() {
		server.alone = true
		c := cluster(places{service: []Endpoint{{Address: address, ServerName: clientHost}},
			member: Endpoint{Address: address, ServerName: memberHost}})
		_, err := c.List(ctx)
		Expect(err).To(MatchError(ContainSubstring("no leader")))
		list, err := c.ListOf(ctx, Member{Name: "seed-a-etcd-main-0"})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Members).To(HaveLen(2))
		Expect(list.ClusterID).To(BeEquivalentTo(7))
	})

	It("should say whose list it could not have", func() {
		c := dead(places{member: Endpoint{Address: deadAddress, ServerName: memberHost}})
		_, err := c.ListOf(ctx, Member{Name: "seed-a-etcd-main-0"})
		Expect(err).To(MatchError(
			ContainSubstring("failed to get the member list of etcd member seed-a-etcd-main-0 at " + deadAddress)))
	})

	It("should ask a member again over the same connection, and over a new one after a failure", func() {
		c := cluster(places{member: Endpoint{Address: address, ServerName: memberHost}})
		handshakes := func() int { return len(server.names()) }
		ask := func() {
			GinkgoHelper()
			_, err := c.Status(ctx, Member{ID: 5})
			Expect(err).NotTo(HaveOccurred())
		}
		ask()
		connected := handshakes()
		ask()
		ask()
		Expect(handshakes()).To(Equal(connected))

		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err := c.Status(cancelled, Member{ID: 5})
		Expect(err).To(HaveOccurred())
		ask()
		Expect(handshakes()).To(BeNumerically(">", connected))
	})

	It("should keep the connection to a member that is only late, unless it is so again and again", func() {
		c := cluster(places{member: Endpoint{Address: address, ServerName: memberHost}})
		ask := func(ctx context.Context) error {
			_, err := c.Status(ctx, Member{ID: 5})
			return err
		}
		askBusy := func() {
			GinkgoHelper()
			late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			Expect(ask(late)).To(MatchError(ContainSubstring("xceeded")))
		}
		setBusy := func(busy chan struct{}) {
			server.lock.Lock()
			defer server.lock.Unlock()
			server.busy = busy
		}
		DeferCleanup(setBusy, (chan struct{})(nil))

		Expect(ask(ctx)).To(Succeed())
		connected := len(server.names())
		for range 2 {
			busy := make(chan struct{})
			setBusy(busy)
			askBusy()
			askBusy()
			close(busy)
			Expect(ask(ctx)).To(Succeed())
		}
		Expect(server.names()).To(HaveLen(connected))

		setBusy(make(chan struct{}))
		for range 3 {
			askBusy()
		}
		setBusy(nil)
		Expect(ask(ctx)).To(Succeed())
		Expect(len(server.names())).To(BeNumerically(">", connected))
	})

	It("should continue to the next endpoint when one does not answer", func() {
		c := within(10*time.Second, places{service: []Endpoint{{Address: deadAddress, ServerName: clientHost},
			{Address: address, ServerName: clientHost}}})
		_, err := c.List(ctx)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should name what failed where when nobody answers", func() {
		c := dead(places{service: []Endpoint{{Address: deadAddress, ServerName: clientHost}}})
		_, err := c.List(ctx)
		Expect(err).
			To(MatchError(And(ContainSubstring("failed to list the etcd members"), ContainSubstring(deadAddress))))
	})

	It("should tell for how long it has waited for a member in vain", func() {
		c := dead(places{member: Endpoint{Address: deadAddress, ServerName: memberHost}})
		ended, end := context.WithTimeout(ctx, 10*time.Millisecond)
		defer end()
		status, err := c.Status(ended, Member{ID: 5})
		Expect(err).To(HaveOccurred())
		Expect(status.Took).To(BeNumerically(">", 0))
	})

	It("should not take one member for another", func() {
		c := cluster(places{member: Endpoint{Address: address, ServerName: memberHost}})
		_, err := c.Status(ctx, Member{ID: 6, Name: "seed-a-etcd-main-1"})
		Expect(err).To(MatchError(ContainSubstring("member 5 answered")))
	})

	DescribeTable("recognizes refusals", func(refusal error, expected error, call func(Cluster) error) {
		server.refuse = refusal
		c := cluster(places{service: []Endpoint{{Address: address, ServerName: clientHost}},
			member: Endpoint{Address: address, ServerName: memberHost}})
		err := call(c)
		Expect(errors.Is(err, expected)).To(BeTrue(), "%v", err)
	},
		Entry("learner not ready", rpctypes.ErrGRPCLearnerNotReady,
			ErrLearnerNotReady, func(c Cluster) error { return c.Promote(context.Background(), 9) }),
		Entry("not a learner", rpctypes.ErrGRPCMemberNotLearner,
			ErrNotLearner, func(c Cluster) error { return c.Promote(context.Background(), 9) }),
		Entry("unknown member", rpctypes.ErrGRPCMemberNotFound,
			ErrMemberNotFound, func(c Cluster) error { return c.Remove(context.Background(), 9) }),
		Entry("unhealthy", rpctypes.ErrGRPCUnhealthy,
			ErrUnhealthy, func(c Cluster) error { return c.Remove(context.Background(), 9) }),
		Entry("not enough started members", rpctypes.ErrGRPCMemberNotEnoughStarted,
			ErrUnhealthy, func(c Cluster) error { return c.Remove(context.Background(), 9) }),
		Entry("unknown member to update", rpctypes.ErrGRPCMemberNotFound, ErrMemberNotFound,
			func(c Cluster) error {
				return c.UpdatePeerURLs(context.Background(), 9, []string{"https://other:2380"})
			}),
		Entry("not the leader", rpctypes.ErrGRPCNotLeader,
			ErrNotLeader, func(c Cluster) error { return c.MoveLeader(context.Background(), Member{ID: 5}, 9) }),
		Entry("bad transferee", rpctypes.ErrGRPCBadLeaderTransferee,
			ErrBadTransferee, func(c Cluster) error { return c.MoveLeader(context.Background(), Member{ID: 5}, 9) }),
	)

	It("should update the peer URLs of one member", func() {
		c := cluster(places{service: []Endpoint{{Address: address, ServerName: clientHost}}})
		urls := []string{"https://a:2380", "https://a:2381"}
		Expect(c.UpdatePeerURLs(ctx, 9, urls)).To(Succeed())
		Expect(server.updated).To(And(HaveField("ID", uint64(9)), HaveField("PeerURLs", urls)))
		server.refuse = errors.New("no")
		Expect(c.UpdatePeerURLs(ctx, 9, urls)).To(MatchError(
			ContainSubstring("failed to set the peer URLs of etcd member 9 to [https://a:2380 https://a:2381]")))
	})

	It("should list alarms with who raised them", func() {
		c := cluster(places{service: []Endpoint{{Address: address, ServerName: clientHost}}})
		Expect(c.Alarms(ctx)).To(Equal([]Alarm{{MemberID: 5, Type: AlarmNoSpace}, {MemberID: 9, Type: AlarmCorrupt}}))
		server.refuse = errors.New("no")
		_, err := c.Alarms(ctx)
		Expect(err).To(MatchError(ContainSubstring("failed to list the etcd alarms")))
	})

	DescribeTable("reads from a member's metrics whether it is being defragmented",
		func(content string, expected bool) {
			metrics = content
			c := cluster(places{member: Endpoint{Address: metricsAddress, ServerName: memberHost}})
			Expect(c.Defragmenting(ctx, Member{ID: 5, Name: "seed-a-etcd-main-0"})).To(Equal(expected))
		},
		Entry("it is", "# TYPE etcd_disk_defrag_inflight gauge\netcd_disk_defrag_inflight 1\nother 5\n", true),
		Entry("it is not", "other 5\netcd_disk_defrag_inflight 0\n", false),
		Entry("the number is written with an exponent", "etcd_disk_defrag_inflight 1e+00\n", true),
	)

	DescribeTable("says so when the metrics do not tell",
		func(status int, content, address string, expected OmegaMatcher) {
			metrics, metricsStatus = content, status
			if address == "" {
				address = metricsAddress
			}
			c := cluster(places{member: Endpoint{Address: address, ServerName: memberHost}})
			_, err := c.Defragmenting(ctx, Member{ID: 5, Name: "seed-a-etcd-main-0"})
			Expect(err).To(expected)
			Expect(err).To(MatchError(
				ContainSubstring("failed to read etcd_disk_defrag_inflight of etcd member seed-a-etcd-main-0")))
		},
		Entry("another etcd", http.StatusOK, "etcd_disk_defrag_inflight_total 1\n", "", MatchError(ErrNoMetric)),
		Entry("no etcd", http.StatusOK, "other 5\n", "",
			And(MatchError(ContainSubstring("no metric of etcd")), Not(MatchError(ErrNoMetric)))),
		Entry("more than is read", http.StatusOK, strings.Repeat("etcd_other 1\n", 2<<20), "",
			And(MatchError(ContainSubstring("longer than")), Not(MatchError(ErrNoMetric)))),
		Entry("not a number", http.StatusOK, "etcd_disk_defrag_inflight yes\n", "",
			MatchError(ContainSubstring("invalid syntax"))),
		Entry("refused", http.StatusForbidden, "", "", MatchError(ContainSubstring("403"))),
		Entry("nobody there", http.StatusOK, "", "127.0.0.1:1", MatchError(ContainSubstring("127.0.0.1:1"))),
	)

	It("should tell a member that serves gRPC alone from one whose metrics cannot be read", func() {
		c := cluster(places{member: Endpoint{Address: address, ServerName: memberHost}})
		_, err := c.Defragmenting(ctx, Member{ID: 5, Name: "seed-a-etcd-main-0"})
		Expect(err).To(MatchError(ErrNoMetric))

		c = cluster(places{member: Endpoint{Address: address, ServerName: "elsewhere"}})
		_, err = c.Defragmenting(ctx, Member{ID: 5, Name: "seed-a-etcd-main-0"})
		Expect(err).To(HaveOccurred())
		Expect(err).NotTo(MatchError(ErrNoMetric))
	})

	It("should ask for no metrics of a member that it cannot find", func() {
		c := cluster(places{err: errors.New("no idea")})
		_, err := c.Defragmenting(ctx, Member{ID: 5, Name: "seed-a-etcd-main-0"})
		Expect(err).To(MatchError("failed to locate etcd member seed-a-etcd-main-0: no idea"))
	})

	It("should take the secrets that an Etcd refers to", func() {
		etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main"}}
		seed := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(ca, clientSecret).Build()
		_, err := TLSFromEtcd(ctx, seed, etcd)
		Expect(err).To(MatchError(ContainSubstring("has no TLS for clients")))

		etcd.Spec.Etcd.ClientUrlTLS = &druidcorev1alpha1.TLSConfig{
			TLSCASecretRef: druidcorev1alpha1.SecretReference{
				SecretReference: corev1.SecretReference{Name: ca.Name}, DataKey: new("bundle.crt"),
			},
			ClientTLSSecretRef: corev1.SecretReference{Name: clientSecret.Name},
		}
		config, err := TLSFromEtcd(ctx, seed, etcd)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Certificates).To(HaveLen(1))
	})

	It("should reject secrets without certificates", func() {
		_, err := TLSFromSecrets(&corev1.Secret{}, clientSecret)
		Expect(err).To(MatchError(ContainSubstring("holds no CA certificate")))
		_, err = TLSFromSecrets(ca, &corev1.Secret{})
		Expect(err).To(MatchError(ContainSubstring("failed to read the client certificate")))
	})
})
