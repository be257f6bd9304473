// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"net"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

const namespace = "shoot--demo--live"

// dialer connects to nothing and records what it is asked for.
type dialer struct {
	asked []string
	err   error
}

func (d *dialer) Dial(_ context.Context, namespace, pod string, _ int) (net.Conn, error) {
	d.asked = append(d.asked, namespace+"/"+pod)
	if d.err != nil {
		return nil, d.err
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

var _ = Describe("Members", func() {
	var (
		ctx     = context.Background()
		cluster *fake.Cluster
		forward *dialer
		locator etcdclient.Locator
		dial    etcdclient.Dial
		opened  int
		openErr error

		etcd = func(seed string) *druidcorev1alpha1.Etcd {
			return &druidcorev1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"},
				Spec:       druidcorev1alpha1.EtcdSpec{MemberNamePrefix: new(seed)},
			}
		}
		pod = func(name string, phase corev1.PodPhase) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
					OwnerReferences: []metav1.OwnerReference{
						{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "etcd-main", Controller: new(true)},
					}},
				Status: corev1.PodStatus{Phase: phase},
			}
		}
		seed = func(objects ...client.Object) access.Seed {
			return access.Seed{Reader: fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
				WithObjects(objects...).Build(), Dialer: forward}
		}
		members = func(seeds access.Seeds) *inspect.Members {
			m := inspect.NewMembers(seeds)
			inspect.SetOpen(m, func(l etcdclient.Locator, d etcdclient.Dial) (etcdclient.Reader, error) {
				opened++
				locator, dial = l, d
				return cluster, openErr
			})
			return m
		}
	)

	BeforeEach(func() {
		forward, opened, openErr = &dialer{}, 0, nil
		cluster = fake.New(func(name string) string { return "https://" + name + ":2380" }, "seed-a-etcd-main-0",
			"seed-a-etcd-main-1", "seed-b-etcd-main-0")
	})

	It("should find the members wherever they run, and keep its connections", func() {
		m := members(access.Seeds{
			"seed-a": seed(etcd("seed-a"), pod("etcd-main-0", corev1.PodRunning),
				pod("etcd-main-1", corev1.PodPending)),
			"seed-b": seed(etcd("seed-b"), pod("etcd-main-0", corev1.PodRunning)),
		})
		for range 2 {
			etcds := m.Ask(ctx, namespace, "seed-a", "seed-b", "seed-c")
			Expect(etcds).To(HaveLen(1))
			Expect(etcds[0].Err).NotTo(HaveOccurred())
			Expect(etcds[0]).To(And(HaveField("Role", "main"), HaveField("Reached", true)))
			Expect(etcds[0].Resources).To(And(HaveLen(2), HaveKey("seed-a"), HaveKey("seed-b")))
			Expect(etcds[0].Inspection.Members).To(HaveLen(3))
		}
		Expect(opened).To(Equal(1))

		const serverName = "etcd-main-client." + namespace + ".svc"
		Expect(locator.Service(ctx)).To(Equal([]etcdclient.Endpoint{
			{Address: "seed-a/etcd-main-0:2379", ServerName: serverName},
			{Address: "seed-b/etcd-main-0:2379", ServerName: serverName},
		}))
		endpoint, err := locator.Member(ctx, etcdclient.Member{Name: "seed-b-etcd-main-0"})
		Expect(err).NotTo(HaveOccurred())
		Expect(endpoint.Address).To(Equal("seed-b/etcd-main-0:2379"))
		_, err = locator.Member(ctx, etcdclient.Member{Name: "seed-a-etcd-main-1"})
		Expect(err).To(MatchError(ContainSubstring("no pod of seed-a-etcd-main-1 runs")))

		conn, err := dial(ctx, "tcp", endpoint.Address)
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.Close()).To(Succeed())
		Expect(forward.asked).To(Equal([]string{namespace + "/etcd-main-0"}))
		_, err = dial(ctx, "tcp", "seed-a/etcd-main-7:2379")
		Expect(err).To(MatchError(ContainSubstring("no longer runs")))
	})

	It("should distinguish an etcd without a quorum from one that it cannot reach", func() {
		m := members(access.Seeds{"seed-a": seed(etcd("seed-a"), pod("etcd-main-0", corev1.PodRunning))})
		cluster.SetUp("seed-a-etcd-main-0", false)
		cluster.SetUp("seed-a-etcd-main-1", false)
		forward.err = errors.New("not permitted")
		etcds := m.Ask(ctx, namespace, "seed-a")
		Expect(etcds).To(ConsistOf(And(HaveField("Err", HaveOccurred()), HaveField("Reached", false))))

		_, err := dial(ctx, "tcp", "seed-a/etcd-main-0:2379")
		Expect(err).To(MatchError("not permitted"))
		Expect(m.Ask(ctx, namespace, "seed-a")).To(ConsistOf(HaveField("Reached", false)))

		forward.err = nil
		conn, err := dial(ctx, "tcp", "seed-a/etcd-main-0:2379")
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.Close()).To(Succeed())
		Expect(m.Ask(ctx, namespace, "seed-a")).
			To(ConsistOf(And(HaveField("Err", HaveOccurred()), HaveField("Reached", true))))
	})

	It("should say why it has no client", func() {
		openErr = errors.New("secrets are forbidden")
		m := members(access.Seeds{"seed-a": seed(etcd("seed-a"))})
		Expect(m.Ask(ctx, namespace, "seed-a")).To(ConsistOf(And(
			HaveField("Err", MatchError(ContainSubstring("secrets are forbidden"))), HaveField("Reached", false))))
	})

	It("should have nothing to say of an etcd that no seed has", func() {
		Expect(members(access.Seeds{"seed-a": seed()}).Ask(ctx, namespace, "seed-a")).To(BeEmpty())
	})
})

var _ = Describe("FillMembers", func() {
	var (
		seeds  []summary.Seed
		member = func(id, leader, index uint64, name string) etcdclient.MemberInspection {
			return etcdclient.MemberInspection{
				Member: etcdclient.Member{ID: id, Name: name},
				Status: etcdclient.Status{ClusterID: 7, MemberID: id, LeaderID: leader, RaftIndex: index,
					RaftAppliedIndex: index, DBSize: 4096},
			}
		}
	)

	BeforeEach(func() {
		seeds = nil
		for _, name := range []string{"seed-a", "seed-b"} {
			seeds = append(seeds, summary.Seed{Name: name, Etcds: []summary.Etcd{{
				Name: "etcd-main", MemberNamePrefix: name, Members: []summary.Member{{Name: name + "-reported"}},
			}}})
		}
	})

	It("should show members without a prefix in the seed whose Etcd is older than that", func() {
		seeds[0].Etcds[0].MemberNamePrefix = ""
		inspect.FillMembers(seeds, []inspect.Etcd{{Role: "main", Inspection: etcdclient.Inspection{
			ClusterID: 7, Members: []etcdclient.MemberInspection{member(1, 1, 42, "etcd-main-0"),
				member(2, 1, 42, "seed-b-etcd-main-0")},
		}}})
		Expect(seeds[0].Etcds[0].Members).To(ConsistOf(HaveField("Name", "etcd-main-0")))
		Expect(seeds[1].Etcds[0].Members).To(ConsistOf(HaveField("Name", "seed-b-etcd-main-0")))
	})

	It("should show each member in its seed, with what it says", func() {
		learner := member(3, 1, 40, "seed-b-etcd-main-0")
		learner.Learner = true
		silent := member(2, 0, 0, "seed-a-etcd-main-1")
		silent.StatusError = errors.New("away")
		unstarted := etcdclient.MemberInspection{Member: etcdclient.Member{ID: 0xff, Learner: true},
			StatusError: etcdclient.ErrNotStarted}
		inspect.FillMembers(seeds, []inspect.Etcd{{Role: "main", Inspection: etcdclient.Inspection{
			ClusterID: 7, Members: []etcdclient.MemberInspection{unstarted, silent, learner,
				member(1, 1, 42, "seed-a-etcd-main-0")},
		}}})
		Expect(seeds[0].Etcds[0].Members).To(Equal([]summary.Member{
			{Name: "seed-a-etcd-main-0", Role: summary.RoleLeader, Status: "Ready", Lag: new(uint64(0)),
				DBSize: new(int64(4096))},
			{Name: "seed-a-etcd-main-1", Role: summary.RoleVoter, Status: "Unknown"},
		}))
		Expect(seeds[1].Etcds[0].Members).To(Equal([]summary.Member{
			{Name: "seed-b-etcd-main-0", Role: summary.RoleLearner, Status: "Ready", Lag: new(uint64(2)),
				DBSize: new(int64(4096))},
			{Name: "ff", Role: summary.RoleLearner, Status: "Unknown"},
		}))
	})

	It("should leave what etcd-druid reports if the members could not be asked", func() {
		inspect.FillMembers(seeds, []inspect.Etcd{{Role: "main", Err: errors.New("not permitted")}})
		Expect(seeds[0].Etcds[0]).To(And(HaveField("Unasked", "not permitted"),
			HaveField("Members", ConsistOf(HaveField("Name", "seed-a-reported")))))
	})
})
