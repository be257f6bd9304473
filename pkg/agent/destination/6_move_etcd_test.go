// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// defragmentsLate is a cluster of five members in which a defragmentation begins after the first look at all of them.
type defragmentsLate struct {
	*fake.Cluster

	asked atomic.Int32
}

func (c *defragmentsLate) Defragmenting(context.Context, etcdclient.Member) (bool, error) {
	return c.asked.Add(1) > 5, nil
}

// leaping is a clock on which waits are over at once.
type leaping struct{ *testclock.FakeClock }

func (c *leaping) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	over := make(chan time.Time, 1)
	over <- c.Now()
	return over
}

var _ = Describe("Moving the etcds", func() {
	var (
		clusters map[string]*fake.Cluster
		reported []steps.Reason
		attempt  context.Context
		end      context.CancelFunc
		deps     *destination.Deps
		m        *migration.Migration

		etcd = func(name string, replicas int32) client.Object {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
				Spec: druidcorev1alpha1.EtcdSpec{Replicas: replicas}}
		}
		members = func(etcdRole string, source, dest int) []string {
			var out []string
			for ordinal := range source {
				out = append(out, fmt.Sprintf("seed-a-etcd-%s-%d", etcdRole, ordinal))
			}
			for ordinal := range dest {
				out = append(out, fmt.Sprintf("seed-b-etcd-%s-%d", etcdRole, ordinal))
			}
			return out
		}
		peerURL = func(name string) string {
			port := 2380
			if strings.HasPrefix(name, "seed-b-") {
				port = 2381
			}
			etcdRole := strings.Split(name, "-")[3]
			return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:%d", name[len("seed-a-"):], etcdRole, namespace, port)
		}
		setUp = func(mainSource, mainDest, eventsSource, eventsDest int, annotations map[string]string) {
			clusters = map[string]*fake.Cluster{
				"main":   fake.New(peerURL, members("main", mainSource, mainDest)...),
				"events": fake.New(peerURL, members("events", eventsSource, eventsDest)...),
			}
			deps = newDeps(etcd("etcd-main", 2), etcd("etcd-events", 2),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: annotations}})
			// However long a busy machine takes: a test ends the attempt when it has seen enough.
			deps.Timings.JoinTimeout = time.Minute
			deps.Timings.PollInterval = time.Millisecond
			attempt, end = context.WithCancel(ctx)
			DeferCleanup(end)
			deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				return clusters[etcdRole], nil
			}
			m = newMigration()
			m.Clock = clock.RealClock{}
			reported = nil
			m.Report = func(_ context.Context, reason steps.Reason, _ string) error {
				if len(reported) == 0 || reported[len(reported)-1] != reason {
					reported = append(reported, reason)
					return nil
				}
				// It has looked again, and nothing has changed.
				end()
				return nil
			}
		}
		joinLast = func() {
			GinkgoHelper()
			id, err := clusters["events"].AddLearner(peerURL("seed-b-etcd-events-2"))
			Expect(err).NotTo(HaveOccurred())
			clusters["events"].Start(id, "seed-b-etcd-events-2")
			clusters["events"].CatchUp(id)
		}
		retireFirst = func() {
			GinkgoHelper()
			for _, member := range clusters["events"].Members() {
				if member.Name == "seed-a-etcd-events-2" {
					clusters["events"].SetUp(member.Name, false)
					Expect(clusters["events"].Remove(ctx, member.ID)).To(Succeed())
				}
			}
		}
		replicas = func(name string) int32 {
			e := &druidcorev1alpha1.Etcd{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, e)).
				To(Succeed())
			return e.Spec.Replicas
		}
		scale = func(name string) {
			GinkgoHelper()
			e := &druidcorev1alpha1.Etcd{}
			key := client.ObjectKey{Namespace: namespace, Name: name}
			Expect(deps.SeedClientSet.Client().Get(ctx, key, e)).To(Succeed())
			e.Spec.Replicas = 3
			Expect(deps.SeedClientSet.Client().Update(ctx, e)).To(Succeed())
		}
		outlived = map[string]string{
			destination.AnnotationFormerTTL: "1s",
			destination.AnnotationMovedAt:   "2026-01-01T00:00:00Z",
			destination.AnnotationDrain:     "2026-01-01T00:00:00Z",
		}
		remove = func(etcdRole string) {
			list, err := clusters[etcdRole].List(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, member := range slices.Backward(list.Members) {
				if strings.HasPrefix(member.Name, "seed-a-") {
					Expect(clusters[etcdRole].Remove(ctx, member.ID)).To(Succeed())
					return
				}
			}
		}
	)

	It("should be done at once when the source's members are gone", func() {
		setUp(0, 3, 0, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})

	It("should not join the last member while caches may name the source", func() {
		setUp(3, 2, 3, 2, map[string]string{
			destination.AnnotationFormerTTL: "2m0s",
			destination.AnnotationMovedAt:   time.Now().UTC().Format(time.RFC3339),
		})
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForDNS))
		Expect(replicas("etcd-main")).To(Equal(int32(2)))
		Expect(clusters["main"].Leader()).To(HavePrefix("seed-a-"))
	})

	Describe("with an obstacle", func() {
		skew := func() {
			m.Obstacle = func(context.Context) (steps.Reason, string) {
				return steps.ReasonVersionSkew, "the versions differ"
			}
		}

		It("should hold before the DNS records move", func() {
			setUp(3, 2, 3, 2, nil)
			skew()
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonVersionSkew))
			Expect(outcome.Message).To(Equal("the versions differ"))
			Expect(outcome.Finished()).To(BeFalse())
		})

		It("should hold before the last members join, though it appeared after the step began", func() {
			setUp(3, 2, 3, 2, outlived)
			asked := 0
			m.Obstacle = func(context.Context) (steps.Reason, string) {
				if asked++; asked == 1 {
					return "", ""
				}
				return steps.ReasonVersionSkew, "the versions differ"
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonVersionSkew))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
			Expect(replicas("etcd-main")).To(Equal(int32(2)))
		})

		It("should not hold with six voters", func() {
			setUp(3, 3, 3, 2, outlived)
			scale("etcd-main")
			skew()
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		})

		It("should not hold once a last member was asked for, although it has not joined yet", func() {
			setUp(3, 2, 3, 2, outlived)
			scale("etcd-events")
			skew()
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
		})

		It("should not hold if it cannot tell whether members move", func() {
			setUp(3, 3, 3, 3, outlived)
			scale("etcd-main")
			skew()
			opened := deps.NewCluster
			deps.NewCluster = func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error) {
				deps.NewCluster = opened
				return nil, errors.New("unreachable")
			}
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).To(MatchError(ContainSubstring("unreachable")), "the step judges by itself")
		})

		DescribeTable("holds before the kube-apiserver is rolled out", func(forced string) {
			setUp(3, 2, 3, 2, nil)
			m.Shoot.Annotations[steps.AnnotationForceShrink] = forced
			skew()
			outcome, err := destination.StartKubeAPIServer(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonVersionSkew))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		},
			Entry("with members in both seeds", "false"),
			Entry("with the request to move them before", "true"),
		)

		It("should hold when the members of the source were forced out before", func() {
			setUp(0, 3, 0, 3, nil)
			scale("etcd-main")
			scale("etcd-events")
			skew()
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonVersionSkew))
		})
	})

	Describe("with the request to move them before the kube-apiserver starts", func() {
		// settle lets etcd-druid report an Etcd as ready.
		settle := func(name string) {
			GinkgoHelper()
			e := &druidcorev1alpha1.Etcd{}
			key := client.ObjectKey{Namespace: namespace, Name: name}
			Expect(deps.SeedClientSet.Client().Get(ctx, key, e)).To(Succeed())
			e.Status.ObservedGeneration, e.Status.Ready = &e.Generation, new(true)
			e.Status.Conditions = []druidcorev1alpha1.Condition{{
				Type: druidcorev1alpha1.ConditionTypeAllMembersUpdated, Status: druidcorev1alpha1.ConditionTrue}}
			Expect(deps.SeedClientSet.Client().Update(ctx, e)).To(Succeed())
		}
		start := func() steps.Outcome {
			GinkgoHelper()
			m.Shoot.Annotations[steps.AnnotationForceShrink] = "true"
			outcome, err := destination.StartKubeAPIServer(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			return outcome
		}

		It("should ask for no last member until etcd-druid reports both etcds", func() {
			setUp(3, 2, 3, 2, nil)
			settle("etcd-events")
			outcome := start()
			Expect(outcome.Finished()).To(BeFalse())
			Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
			Expect(outcome.Message).To(HavePrefix(
				"The last members do not join yet: etcd-druid does not report etcd-main as ready: "))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
			Expect(reported).To(BeEmpty())

			settle("etcd-main")
			Expect(start().Message).NotTo(ContainSubstring("etcd-druid"))
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
		})

		It("should keep no members waiting that move for what is reported of the other Etcd", func() {
			setUp(3, 2, 3, 3, nil)
			scale("etcd-events")
			Expect(start().Message).NotTo(ContainSubstring("etcd-druid"))
		})

		It("should not wait for a report on an Etcd whose last member was asked for", func() {
			setUp(3, 2, 2, 3, nil)
			settle("etcd-main")
			scale("etcd-events")
			Expect(start().Message).NotTo(ContainSubstring("etcd-druid"))
			Expect(replicas("etcd-main")).To(Equal(int32(3)))
		})
	})

	It("should ask for the last members and wait for them", func() {
		setUp(3, 2, 3, 2, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
		Expect(replicas("etcd-events")).To(Equal(int32(3)))
		Expect(replicas("etcd-main")).To(Equal(int32(2)), "that of etcd-main comes after that of etcd-events")
		Expect(reported).NotTo(ContainElement(steps.ReasonReadyForSourceMemberRemoval))
		for etcdRole, cluster := range clusters {
			Expect(cluster.Leader()).To(Equal("seed-a-etcd-"+etcdRole+"-0"),
				"leadership moves when the destination is a quorum by itself")
		}
	})

	Context("when the source gives no sign of life", func() {
		var messages []string

		// silent lets the source have been seen last at a time, as the garden says, and notes what is reported.
		silent := func(seen func(ctx context.Context) (time.Time, error)) {
			m.PeerSeen = seen
			report := m.Report
			messages = nil
			m.Report = func(ctx context.Context, reason steps.Reason, message string) error {
				messages = append(messages, message)
				return report(ctx, reason, message)
			}
		}
		at := func(offset time.Duration) func(context.Context) (time.Time, error) {
			return func(context.Context) (time.Time, error) { return time.Now().Add(offset), nil }
		}

		DescribeTable("stays at five voters", func(seen func(context.Context) (time.Time, error), why string) {
			setUp(3, 2, 3, 2, outlived)
			silent(seen)
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Finished()).To(BeFalse())
			Expect(outcome.Reason).To(Equal(steps.ReasonSourceSilent))
			Expect(outcome.Message).To(
				And(ContainSubstring("the last member of etcd-events joins after a sign of life"),
					ContainSubstring(why), ContainSubstring("etcd-main: ")))
			Expect(reported).To(Equal([]steps.Reason{steps.ReasonSourceSilent}))
			for _, name := range []string{"etcd-main", "etcd-events"} {
				Expect(replicas(name)).To(Equal(int32(2)))
			}
		},
			Entry("if it was seen too long ago", at(-2*time.Minute), "was last seen at"),
			Entry("if its clock is wrong", at(2*time.Minute), "the clocks of the seeds differ"),
			Entry("if it was never seen", func(context.Context) (time.Time, error) { return time.Time{}, nil },
				"never given one"),
			Entry("if the garden does not answer",
				func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no garden") }, "no garden"),
		)

		It("should add the last member when it does", func() {
			setUp(3, 2, 3, 2, outlived)
			asked := 0
			silent(func(context.Context) (time.Time, error) {
				if asked++; asked < 3 {
					return time.Time{}, nil
				}
				return time.Now(), nil
			})
			m.Report = func(_ context.Context, reason steps.Reason, _ string) error {
				reported = append(reported, reason)
				if reason == steps.ReasonJoiningLastEtcdMember {
					end()
				}
				return nil
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
			Expect(reported[0]).To(Equal(steps.ReasonSourceSilent))
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
			Expect(asked).To(Equal(3), "it is looked for once for each cluster")
		})

		It("should keep asking the source to retire its members of the other cluster", func() {
			setUp(3, 2, 2, 3, outlived)
			silent(at(-2 * time.Minute))
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
			Expect(outcome.Message).To(ContainSubstring("the last member of etcd-main joins after a sign of life"))
			Expect(replicas("etcd-main")).To(Equal(int32(2)))
		})

		It("should add a member that does not make them six", func() {
			setUp(2, 2, 0, 2, outlived)
			silent(at(-2 * time.Minute))
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
		})
	})

	Context("when something else speaks against the last member", func() {
		var message string

		BeforeEach(func() {
			setUp(3, 2, 3, 2, outlived)
			m.Report = func(_ context.Context, reason steps.Reason, text string) error {
				message = text
				reported = append(reported, reason)
				if len(reported) > 5 {
					end()
				}
				return nil
			}
		})

		It("should wait for a defragmentation before anything is begun", func() {
			clusters["main"].SetDefragmenting("seed-a-etcd-main-1", true)
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonEtcdDefragmenting))
			Expect(outcome.Message).To(Equal("The last members do not join yet: etcd-main: seed-a-etcd-main-1 is " +
				"being defragmented"))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		})

		It("should wait for one that begins later, right before each member is asked for", func() {
			late := &defragmentsLate{Cluster: clusters["events"]}
			deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				if etcdRole == "events" {
					return late, nil
				}
				return clusters[etcdRole], nil
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonEtcdDefragmenting))
			Expect(message).To(ContainSubstring("the last member does not join yet: etcd-events: "))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		})

		It("should wait for a member of the source that is down", func() {
			clusters["events"].SetUp("seed-a-etcd-events-1", false)
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForSourceEtcd))
			Expect(message).To(ContainSubstring("the last member of etcd-events joins when these are healthy, or " +
				"when the source has retired them: seed-a-etcd-events-1"))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		})

		It("should ask the source to retire it if that lasts", func() {
			m.Clock = &leaping{FakeClock: testclock.NewFakeClock(time.Now())}
			clusters["events"].SetUp("seed-a-etcd-events-1", false)
			m.Report = func(_ context.Context, reason steps.Reason, text string) error {
				if reported = append(reported, reason); reason == steps.ReasonReadyForSourceMemberRemoval {
					message = text
					end()
				}
				return nil
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(reported[0]).To(Equal(steps.ReasonWaitingForSourceEtcd))
			Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
			Expect(message).To(ContainSubstring("seed-a-etcd-events-1"))
			Expect(replicas("etcd-events")).To(Equal(int32(2)), "it joins when that one has left")
		})
	})

	It("should not let the first member that leaves have leadership", func() {
		setUp(3, 2, 3, 2, outlived)
		list, err := clusters["main"].List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters["main"].MoveLeader(ctx, list.Members[0], list.Members[2].ID)).To(Succeed())
		Expect(clusters["main"].Leader()).To(Equal("seed-a-etcd-main-2"))
		_, err = destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should not begin with the last members while the seeds are overloaded, and say so", func() {
		setUp(3, 2, 3, 2, outlived)
		clusters["events"].SetTook("seed-a-etcd-events-0", 2300*time.Millisecond)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonSeedOverloaded))
		Expect(outcome.Message).To(Equal("The last members do not join yet: seed-a-etcd-events-0 answered in 2.3 s, " +
			"more than 1 s: the seed is overloaded"))
		Expect(outcome.RequeueAfter).To(BeNumerically(">", 0))
		Expect(replicas("etcd-events")).To(Equal(int32(2)))

		clusters["events"].SetTook("seed-a-etcd-events-0", time.Second)
		outcome, err = destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
		Expect(replicas("etcd-events")).To(Equal(int32(3)))
	})

	Context("while clients wait for the kube-apiserver of the destination", func() {
		var (
			shown []string
			asked int
		)
		// takes lets requests take as long as given, the last time from then on.
		takes := func(times ...time.Duration) {
			deps.Clients = func(context.Context) (time.Duration, error) {
				asked++
				return times[min(asked, len(times))-1], nil
			}
		}

		BeforeEach(func() {
			setUp(3, 2, 3, 2, outlived)
			m.Clock = &leaping{FakeClock: testclock.NewFakeClock(time.Now())}
			shown, asked = nil, 0
			m.Report = func(_ context.Context, reason steps.Reason, message string) error {
				shown = append(shown, fmt.Sprintf("%s: %s", reason, message))
				if reason == steps.ReasonJoiningLastEtcdMember {
					end()
				}
				return nil
			}
		})

		It("should begin with the last members when they are served soon", func() {
			takes(2300*time.Millisecond, 1200*time.Millisecond, time.Second)
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
			Expect(shown[:2]).To(Equal([]string{
				"SeedOverloaded: the last members do not join yet: the kube-apiserver of the destination answered in " +
					"2.3 s, more than 1 s: the seed is overloaded",
				"SeedOverloaded: the last members do not join yet: the kube-apiserver of the destination answered in " +
					"1.2 s, more than 1 s: the seed is overloaded",
			}))
			Expect(asked).To(Equal(3))
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
		})

		It("should not wait for longer than two minutes, as the cause may not pass", func() {
			takes(2300 * time.Millisecond)
			m.PeerSeen = func(context.Context) (time.Time, error) { return m.Clock.Now(), nil }
			began := m.Clock.Now()
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
			Expect(m.Clock.Since(began)).To(BeNumerically("~", 2*time.Minute, 10*time.Second))
		})

		It("should not wait for a kube-apiserver that fails", func() {
			deps.Clients = func(context.Context) (time.Duration, error) { return 0, errors.New("no such webhook") }
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas("etcd-events")).To(Equal(int32(3)))
		})

		It("should count one that does not answer as slow", func() {
			deps.Clients = func(context.Context) (time.Duration, error) {
				if asked++; asked == 1 {
					return 15 * time.Second, context.DeadlineExceeded
				}
				return 0, nil
			}
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(shown[0]).To(ContainSubstring("the kube-apiserver of the destination did not answer within 15.0 s"))
			Expect(asked).To(Equal(2))
		})

		It("should begin with the last member of the other cluster when they are served soon again", func() {
			takes(time.Second, 2300*time.Millisecond, 1200*time.Millisecond, time.Second)
			m.PeerSeen = func(context.Context) (time.Time, error) { return m.Clock.Now(), nil }
			joined := false
			m.Report = func(_ context.Context, reason steps.Reason, message string) error {
				if joined && (len(shown) == 0 || shown[len(shown)-1] != message) {
					shown = append(shown, message)
				}
				if replicas("etcd-main") == 3 {
					end()
				}
				switch {
				case !joined:
					joined = true
					Expect(asked).To(Equal(1))
					joinLast()
				case reason == steps.ReasonReadyForSourceMemberRemoval:
					retireFirst()
				}
				return nil
			}
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas("etcd-main")).To(Equal(int32(3)))
			Expect(asked).To(Equal(4))
			Expect(shown).To(ContainElements(
				HaveSuffix("; the last member of etcd-main does not join yet: the kube-apiserver of the destination "+
					"answered in 2.3 s, more than 1 s: the seed is overloaded"),
				HaveSuffix("; the last member of etcd-main does not join yet: the kube-apiserver of the destination "+
					"answered in 1.2 s, more than 1 s: the seed is overloaded")))
		})

		It("should hold for an obstacle that appears meanwhile", func() {
			takes(2300 * time.Millisecond)
			m.Obstacle = func(context.Context) (steps.Reason, string) {
				if asked == 0 {
					return "", ""
				}
				return steps.ReasonVersionSkew, "the versions differ"
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonVersionSkew))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		})

		It("should hold when the way to it cannot be found", func() {
			deps.NoWay = errors.New("the gateway has no address")
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).To(MatchError("the gateway has no address"))
			Expect(replicas("etcd-events")).To(Equal(int32(2)))
		})

		It("should not keep a member waiting that was asked for", func() {
			scale("etcd-events")
			takes(time.Hour)
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
			Expect(asked).To(BeZero())
		})
	})

	It("should ask the source before it looks after the last member of the other cluster", func() {
		setUp(3, 2, 3, 2, outlived)
		var happened []string
		m.PeerSeen = func(context.Context) (time.Time, error) {
			happened = append(happened, "looked after the source")
			return time.Now(), nil
		}
		joined := false
		m.Report = func(_ context.Context, reason steps.Reason, _ string) error {
			happened = append(happened, string(reason))
			switch {
			case reason == steps.ReasonReadyForSourceMemberRemoval && replicas("etcd-main") == 3:
				end()
			case reason == steps.ReasonReadyForSourceMemberRemoval:
				retireFirst()
			case !joined:
				joined = true
				joinLast()
			}
			return nil
		}
		_, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(slices.Compact(happened)).To(Equal([]string{"looked after the source", "JoiningLastEtcdMember",
			"ReadyForSourceMemberRemoval", "looked after the source", "ReadyForSourceMemberRemoval"}))
	})

	It("should let the last members join one after the other also if the source has lost members", func() {
		setUp(2, 2, 2, 2, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
		Expect(replicas("etcd-events")).To(Equal(int32(3)))
		Expect(replicas("etcd-main")).To(Equal(int32(2)))
	})

	It("should ask the source as soon as the first of the clusters has all members of the destination", func() {
		setUp(3, 2, 3, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		Expect(reported).To(Equal([]steps.Reason{steps.ReasonReadyForSourceMemberRemoval}))
		Expect(replicas("etcd-main")).To(Equal(int32(2)), "etcd-events has six voters")
		Expect(outcome.Message).To(ContainSubstring(
			"the last member of etcd-main joins when a member of the source has left etcd-events"))
	})

	It("should ask for the last member of the other cluster when the first one has no six voters any more", func() {
		setUp(3, 2, 2, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		Expect(replicas("etcd-main")).To(Equal(int32(3)))
	})

	It("should say that a quorum is lost while it waits for the source, and keep the reason that the source acts on",
		func() {
			setUp(3, 3, 3, 2, outlived)
			var messages []string
			m.Report = func(_ context.Context, reason steps.Reason, message string) error {
				Expect(reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
				messages = append(messages, message)
				if strings.Contains(message, string(steps.ReasonQuorumLost)) {
					end()
				}
				for ordinal := range 3 {
					clusters["main"].SetUp(fmt.Sprintf("seed-a-etcd-main-%d", ordinal), false)
				}
				return nil
			}
			outcome, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
			Expect(messages[0]).NotTo(ContainSubstring("QuorumLost"))
			Expect(messages[len(messages)-1]).
				To(ContainSubstring(
					"etcd-main: QuorumLost: no leader is known: 6 voters (3 in the source, 3 in the destination)"))
			Expect(outcome.Message).To(ContainSubstring("etcd-main: QuorumLost"))
		})

	Context("when a kube-apiserver waits for its restart", func() {
		var (
			pod *corev1.Pod
			// left reports whether it still waits.
			left = func() bool {
				GinkgoHelper()
				err := deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
				Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
				return err == nil
			}
		)

		BeforeEach(func() {
			setUp(3, 2, 3, 2, outlived)
			pod = kubeAPIServerPod("kube-apiserver-1", "kubernetes", 7, crashLooping())
			Expect(deps.SeedClientSet.Client().Create(ctx, pod)).To(Succeed())
		})

		It("should replace it when the etcds answer", func() {
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(left()).To(BeFalse())
		})

		It("should leave it alone as long as one of them has no quorum", func() {
			for ordinal := range 3 {
				clusters["main"].SetUp(fmt.Sprintf("seed-a-etcd-main-%d", ordinal), false)
			}
			_, err := destination.MoveEtcd(attempt, deps, m)
			Expect(err).To(MatchError(ContainSubstring("failed to look at etcd-main")))
			Expect(left()).To(BeTrue())
		})
	})

	It("should switch DNS although the source's members were made to leave before", func() {
		setUp(0, 3, 0, 3, map[string]string{
			destination.AnnotationFormerTTL: "2m0s",
			destination.AnnotationMovedAt:   time.Now().UTC().Format(time.RFC3339),
		})
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForDNS))
	})

	It("should make the source's members leave before DNS is switched, if that is asked for", func() {
		setUp(3, 2, 3, 2, nil)
		outcome, err := destination.ShrinkEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonJoiningLastEtcdMember))
		Expect(replicas("etcd-events")).To(Equal(int32(3)))

		setUp(3, 3, 2, 3, nil)
		outcome, err = destination.ShrinkEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))

		setUp(0, 3, 0, 3, nil)
		outcome, err = destination.ShrinkEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})

	It("should continue asking after a restart in the middle of the retirement", func() {
		setUp(2, 3, 1, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
	})

	It("should take leadership when the first member of the source has left both", func() {
		setUp(2, 3, 2, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		for etcdRole, cluster := range clusters {
			Expect(cluster.Leader()).To(Equal("seed-b-etcd-" + etcdRole + "-0"))
		}
	})

	It("should leave leadership where it is while the seeds are overloaded, and say so", func() {
		setUp(2, 3, 2, 3, outlived)
		clusters["main"].SetTook("seed-b-etcd-main-0", 2300*time.Millisecond)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval), "the source acts on it")
		Expect(outcome.Message).To(
			ContainSubstring("seed-b-etcd-main-0 answered in 2.3 s, more than 1 s: the seed is overloaded"))
		Expect(clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should say what it waits for with leadership", func() {
		setUp(2, 3, 3, 3, outlived)
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Message).To(
			ContainSubstring("waiting until the first member of the source has left etcd-events as well"))
		Expect(clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should see the source retire", func() {
		setUp(3, 3, 3, 3, outlived)
		asked, ask := context.WithCancel(context.Background())
		m.Report = func(_ context.Context, reason steps.Reason, _ string) error {
			Expect(reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
			reported = append(reported, reason)
			ask()
			return nil
		}
		go func() {
			defer GinkgoRecover()
			<-asked.Done() // as the source does
			for range 3 {
				remove("main")
				remove("events")
			}
		}()
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(reported).NotTo(BeEmpty())
	})
})

var _ = DescribeTable("The source may have begun to retire its members", func(begun bool, members ...quorum.Member) {
	Expect(destination.AllVote(members, naming.MembersPerSeed)).To(Equal(begun))
},
	Entry("not without members", false),
	Entry("not with the members of the source alone", false, quorum.Member{Side: quorum.Source},
		quorum.Member{Side: quorum.Source}, quorum.Member{Side: quorum.Source}),
	Entry("not with two members of the destination", false, quorum.Member{Side: quorum.Source},
		quorum.Member{Side: quorum.Destination}, quorum.Member{Side: quorum.Destination}),
	Entry("not while the third one is a learner", false, quorum.Member{Side: quorum.Destination},
		quorum.Member{Side: quorum.Destination}, quorum.Member{Side: quorum.Destination, Learner: true}),
	Entry("with all members of the destination, healthy or not", true, quorum.Member{Side: quorum.Source},
		quorum.Member{Side: quorum.Destination, Healthy: true}, quorum.Member{Side: quorum.Destination},
		quorum.Member{Side: quorum.Destination}),
)
