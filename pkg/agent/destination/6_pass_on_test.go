// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Moving etcds with one member", func() {
	const former, successor = "seed-a-etcd-main-0", "seed-b-etcd-main-0"
	var (
		clusters map[string]*fake.Cluster
		reports  []string
		// onReport answers what the agent shows, and may end the attempt.
		onReport func(reason steps.Reason, message string)
		attempt  context.Context
		end      context.CancelFunc
		deps     *destination.Deps
		m        *migration.Migration
		outlived = map[string]string{
			destination.AnnotationFormerTTL: "1s",
			destination.AnnotationMovedAt:   "2020-01-01T00:00:00Z",
			destination.AnnotationDrain:     "2020-01-01T00:00:00Z",
		}
	)

	setUp := func(annotations map[string]string) {
		clusters = map[string]*fake.Cluster{}
		objects := []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: annotations}}}
		for _, etcdRole := range naming.EtcdRoles {
			clusters[etcdRole] = fake.New(
				func(string) string { return naming.PlainPeerURL(steps.Source, namespace, etcdRole) },
				naming.MemberName("seed-a", etcdRole, 0))
			objects = append(objects, &druidcorev1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Name: naming.EtcdName(etcdRole), Namespace: namespace}})
		}
		deps = newDeps(objects...)
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return clusters[etcdRole], nil
		}
		deps.Timings.JoinTimeout = time.Minute
		attempt, end = context.WithCancel(ctx)
		DeferCleanup(end)
		m = newMigration()
		m.Shoot.Annotations[steps.AnnotationWithGap] = "true"
		clock := &leaping{testclock.NewFakeClock(now)}
		m.Clock = clock
		m.PeerSeen = func(context.Context) (time.Time, error) { return clock.Now(), nil }
		reports, onReport = nil, func(steps.Reason, string) { end() }
		m.Report = func(_ context.Context, reason steps.Reason, message string) error {
			if line := string(reason) + ": " + message; len(reports) == 0 || reports[len(reports)-1] != line {
				reports = append(reports, line)
			}
			onReport(reason, message)
			return nil
		}
	}
	replicas := func(etcdRole string) int32 {
		GinkgoHelper()
		e := &druidcorev1alpha1.Etcd{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace,
			Name: naming.EtcdName(etcdRole)}, e)).To(Succeed())
		return e.Spec.Replicas
	}
	// join lets the member of the destination join as a learner that has caught up.
	join := func(etcdRole string) uint64 {
		GinkgoHelper()
		id, err := clusters[etcdRole].AddLearner(naming.PlainPeerURL(steps.Destination, namespace, etcdRole))
		Expect(err).NotTo(HaveOccurred())
		clusters[etcdRole].Start(id, naming.MemberName("seed-b", etcdRole, 0))
		clusters[etcdRole].CatchUp(id)
		return id
	}
	move := func() steps.Outcome {
		GinkgoHelper()
		outcome, err := destination.MoveEtcd(attempt, deps, m)
		Expect(err).NotTo(HaveOccurred())
		return outcome
	}

	It("should ask for the members when clients have moved, and pass both etcds on when both members have the data",
		func() {
			setUp(outlived)
			onReport = func(reason steps.Reason, _ string) {
				if reason != steps.ReasonReadyForSourceMemberRemoval || len(clusters["main"].Names()) > 1 {
					return
				}
				Expect(replicas("main")).To(BeEquivalentTo(1))
				Expect(replicas("events")).To(BeEquivalentTo(1))
				join("events")
				join("main")
			}
			outcome := move()
			Expect(outcome.Finished()).To(BeTrue(), outcome.Message)
			Expect(outcome.Message).To(Equal("Both etcds consist of the one member of the destination"))
			Expect(clusters["main"].Calls()).To(Equal([]string{"promote " + successor,
				"move leadership " + former + " -> " + successor, "remove " + former}))
			Expect(clusters["events"].Names()).To(Equal([]string{"seed-b-etcd-events-0"}))
			Expect(reports).To(HaveEach(HavePrefix(string(steps.ReasonReadyForSourceMemberRemoval))),
				"the source acts on that reason")
		})

	It("should keep one voter until etcd would remove the member of the source at once", func() {
		setUp(outlived)
		var joined, waited time.Time
		onReport = func(_ steps.Reason, message string) {
			switch {
			case joined.IsZero():
				join("main")
				join("events")
				joined = m.Clock.Now()
			case strings.Contains(message, "when it has been connected for five seconds"):
				Expect(clusters["main"].Calls()).To(BeEmpty())
				Expect(clusters["events"].Calls()).To(BeEmpty())
				waited = m.Clock.Now()
			}
		}
		Expect(move().Finished()).To(BeTrue())
		Expect(waited).NotTo(BeZero())
		Expect(m.Clock.Since(joined)).To(BeNumerically(">=", 5*time.Second))
		Expect(m.Clock.Since(joined)).To(BeNumerically("<", 10*time.Second))
	})

	It("should have no member before", func() {
		setUp(nil)
		Expect(destination.MembersToJoin(m)).To(BeZero())
		Expect(destination.MembersToJoin(newMigration())).To(BeEquivalentTo(2))
	})

	It("should not ask for them while caches may name the source", func() {
		setUp(map[string]string{
			destination.AnnotationFormerTTL: "2m0s",
			destination.AnnotationMovedAt:   now.UTC().Format(time.RFC3339),
		})
		Expect(move().Reason).To(Equal(steps.ReasonWaitingForDNS))
		Expect(replicas("main")).To(BeZero())
	})

	It("should not ask for them without a sign of life of the source", func() {
		setUp(outlived)
		m.PeerSeen = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no answer") }
		Expect(move().Reason).To(Equal(steps.ReasonSourceSilent))
		Expect(reports).To(ContainElement(And(HavePrefix(string(steps.ReasonSourceSilent)),
			ContainSubstring("the member of etcd-events joins after a sign of life of the source: no answer"))))
		Expect(replicas("main")).To(BeZero())
		Expect(replicas("events")).To(BeZero())
	})

	It("should hold before it asks for them, and not afterwards", func() {
		setUp(outlived)
		m.Obstacle = func(context.Context) (steps.Reason, string) {
			return steps.ReasonVersionSkew, "the versions differ"
		}
		Expect(move().Reason).To(Equal(steps.ReasonVersionSkew))
		Expect(replicas("events")).To(BeZero())

		setUp(outlived)
		for _, etcdRole := range naming.EtcdRoles {
			e := &druidcorev1alpha1.Etcd{}
			key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
			Expect(deps.SeedClientSet.Client().Get(ctx, key, e)).To(Succeed())
			e.Spec.Replicas = 1
			Expect(deps.SeedClientSet.Client().Update(ctx, e)).To(Succeed())
			join(etcdRole)
		}
		m.Obstacle = func(context.Context) (steps.Reason, string) {
			return steps.ReasonVersionSkew, "the versions differ"
		}
		onReport = func(steps.Reason, string) {}
		Expect(move().Finished()).To(BeTrue())
	})

	It("should keep one voter in a cluster until the member of the other one answers, too", func() {
		setUp(outlived)
		joined := false
		onReport = func(_ steps.Reason, message string) {
			switch {
			case !joined:
				join("main")
				joined = true
			case strings.Contains(message, "becomes a voter when that of etcd-events answers as well"):
				end()
			}
		}
		Expect(move().Finished()).To(BeFalse())
		Expect(clusters["main"].Calls()).To(BeEmpty())
	})

	It("should keep one voter while the source is silent, and continue with two whatever it says", func() {
		setUp(outlived)
		alive := true
		m.PeerSeen = func(context.Context) (time.Time, error) {
			if alive {
				return m.Clock.Now(), nil
			}
			return time.Time{}, nil
		}
		onReport = func(_ steps.Reason, message string) {
			switch {
			case alive:
				alive = false
				join("events")
				join("main")
			case strings.Contains(message, "becomes a voter after a sign of life of the source"):
				end()
			}
		}
		Expect(move().Finished()).To(BeFalse())
		Expect(clusters["main"].Calls()).To(BeEmpty())

		attempt, end = context.WithCancel(ctx)
		DeferCleanup(end)
		onReport = func(steps.Reason, string) {}
		for _, etcdRole := range naming.EtcdRoles { // as the sidecars do
			list, err := clusters[etcdRole].List(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(clusters[etcdRole].Promote(ctx, list.Members[1].ID)).To(Succeed())
		}
		Expect(move().Finished()).To(BeTrue())
	})

	It("should show a lost quorum as what it is, and keep the reason on which the source acts", func() {
		setUp(outlived)
		joined := false
		onReport = func(_ steps.Reason, message string) {
			switch {
			case !joined:
				joined = true
				join("events")
				Expect(clusters["main"].Promote(ctx, join("main"))).To(Succeed())
				clusters["main"].SetUp(former, false)
			case strings.Contains(message, "etcd-main: QuorumLost: "):
				end()
			}
		}
		Expect(move().Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		Expect(clusters["main"].Names()).To(HaveLen(2))
	})
})
