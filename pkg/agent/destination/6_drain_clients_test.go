// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Letting the clients leave the source", func() {
	var (
		clock    *testclock.FakeClock
		deps     *destination.Deps
		m        *migration.Migration
		messages []string
	)
	// setUp has clusters with all members of the source, and so many of the destination.
	setUp := func(members int, annotations map[string]string) {
		clock = testclock.NewFakeClock(now)
		deps = newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: annotations}})
		deps.Timings.GatewayDrain = time.Minute
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			var names []string
			for ordinal := range 3 {
				names = append(names, fmt.Sprintf("seed-a-etcd-%s-%d", etcdRole, ordinal))
			}
			for ordinal := range members {
				names = append(names, fmt.Sprintf("seed-b-etcd-%s-%d", etcdRole, ordinal))
			}
			return fake.New(func(name string) string {
				port := 2380
				if strings.HasPrefix(name, "seed-b-") {
					port = 2381
				}
				return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:%d", name[len("seed-a-"):], etcdRole, namespace,
					port)
			}, names...), nil
		}
		messages = nil
		m = newMigration()
		m.Clock = clock
		m.Report = func(_ context.Context, reason steps.Reason, message string) error {
			messages = append(messages, string(reason)+": "+message)
			return nil
		}
	}
	recorded := func() string {
		GinkgoHelper()
		ns := &corev1.Namespace{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Name: namespace}, ns)).To(Succeed())
		return ns.Annotations[destination.AnnotationDrain]
	}
	drain := func() steps.Outcome {
		GinkgoHelper()
		outcome, err := destination.DrainClients(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		return outcome
	}

	It("should ask the source, and wait until the time is up", func() {
		setUp(2, nil)
		outcome := drain()
		Expect(outcome.Reason).To(Equal(steps.ReasonDrainingClients))
		Expect(outcome.RequeueAfter).To(Equal(10 * time.Second))
		Expect(outcome.Message).To(ContainSubstring("until "+now.Add(70*time.Second).UTC().Format(time.RFC3339)),
			"the drain and what istiod needs")
		Expect(messages).To(HaveExactElements(HavePrefix("DrainingClients: ")))
		Expect(recorded()).To(Equal(now.UTC().Format(time.RFC3339)))

		clock.Step(69 * time.Second)
		Expect(drain().RequeueAfter).To(Equal(time.Second))
		clock.Step(time.Second)
		Expect(drain().Finished()).To(BeTrue())
		Expect(messages).To(HaveLen(1), "the outcome says it")
	})

	It("should wait for kube-apiservers of the source that restart for their clients, but not forever", func() {
		setUp(2, map[string]string{destination.AnnotationDrain: now.Add(-70 * time.Second).UTC().Format(time.RFC3339)})
		m.Shoot.Annotations = map[string]string{steps.AnnotationSourceClients: "Leaving"}
		outcome := drain()
		Expect(outcome.Reason).To(Equal(steps.ReasonDrainingClients))
		Expect(outcome.Message).To(ContainSubstring("until " + now.Add(8*time.Minute).UTC().Format(time.RFC3339)))

		m.Shoot.Annotations[steps.AnnotationSourceClients] = "Left"
		Expect(drain().Finished()).To(BeTrue())

		m.Shoot.Annotations[steps.AnnotationSourceClients] = "Leaving"
		clock.Step(8 * time.Minute)
		Expect(drain().Finished()).To(BeTrue(), "a pod that cannot start must not stop the migration")
	})

	It("should go on with the wait of an agent before it", func() {
		setUp(2, map[string]string{destination.AnnotationDrain: now.Add(-65 * time.Second).UTC().Format(time.RFC3339)})
		Expect(drain().RequeueAfter).To(Equal(5 * time.Second))
	})

	It("should begin again if what is recorded is malformed", func() {
		setUp(2, map[string]string{destination.AnnotationDrain: "yesterday"})
		Expect(drain().Finished()).To(BeFalse())
		Expect(recorded()).To(Equal(now.UTC().Format(time.RFC3339)))
	})

	It("should not count the time before the source has been asked", func() {
		setUp(2, nil)
		m.Report = func(context.Context, steps.Reason, string) error { return context.DeadlineExceeded }
		_, err := destination.DrainClients(ctx, deps, m)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(recorded()).To(BeEmpty())
	})

	It("should not ask when members of the source may leave already", func() {
		setUp(3, nil)
		Expect(drain().Finished()).To(BeTrue())
		Expect(messages).To(BeEmpty())
		Expect(recorded()).To(BeEmpty())
	})

	It("should not guess whether they do", func() {
		setUp(2, nil)
		deps.NewCluster = func(context.Context, string) (etcdclient.Cluster, error) { return nil, context.Canceled }
		_, err := destination.DrainClients(ctx, deps, m)
		Expect(err).To(MatchError(context.Canceled))
		Expect(recorded()).To(BeEmpty())
	})

	It("should come before the last members join", func() {
		setUp(2, map[string]string{
			destination.AnnotationFormerTTL: "1s", destination.AnnotationMovedAt: "2026-01-01T00:00:00Z",
		})
		outcome, err := destination.MoveEtcd(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonDrainingClients))
	})
})
