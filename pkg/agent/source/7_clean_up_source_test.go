// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/source"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

const namespace = "shoot--demo--live"

func newDeps(objects ...client.Object) *source.Deps {
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
	return &source.Deps{
		Garden:        fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build(),
		SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build(),
		Clock:         testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		Timings:       flows.DefaultTimings(),
	}
}

// destinationClusters opens clusters of which the members of the destination are left, and the first one leads. They
// take as long to answer as it is said for their names.
func destinationClusters(
	took map[string]time.Duration,
) func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error) {
	return func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
		var names []string
		for ordinal := range 3 {
			names = append(names, fmt.Sprintf("seed-b-etcd-%s-%d", etcdRole, ordinal))
		}
		cluster := fakecluster.New(func(name string) string {
			return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:2381", name[len("seed-b-"):], etcdRole, namespace)
		}, names...)
		for name, d := range took {
			cluster.SetTook(name, d)
		}
		return cluster, nil
	}
}

var _ = Describe("Cleaning up", func() {
	var (
		ctx        = context.Background()
		now        = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		ns         = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Namespace: namespace}}
		cluster    = &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		conditions = func(status gardencorev1beta1.ConditionStatus, since time.Time) []gardencorev1beta1.Condition {
			return []gardencorev1beta1.Condition{{
				Type: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete, Status: status,
				LastTransitionTime: metav1.NewTime(since),
			}}
		}
	)

	Context("which extensions are told by the Cluster", func() {
		botanistOf := func(deps *source.Deps) *botanist.Botanist {
			of := &shootpkg.Shoot{ControlPlaneNamespace: namespace}
			of.SetInfo(&gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
				Status: gardencorev1beta1.ShootStatus{LastOperation: &gardencorev1beta1.LastOperation{
					Type: gardencorev1beta1.LastOperationTypeLiveMigrate}},
			})
			return &botanist.Botanist{Operation: &gardeneroperation.Operation{
				Logger: logr.Discard(), Shoot: of, SeedClientSet: deps.SeedClientSet,
			}}
		}

		It("should say Migrate, as in a classic migration", func() {
			deps := newDeps(ns.DeepCopy(), cluster.DeepCopy())
			Expect(source.AnnounceMigration(ctx, deps, botanistOf(deps))).To(Succeed())
			told, err := gardenerextensions.GetShoot(ctx, deps.SeedClientSet.Client(), namespace)
			Expect(err).NotTo(HaveOccurred())
			Expect(told.Status.LastOperation).To(HaveValue(And(
				HaveField("Type", gardencorev1beta1.LastOperationTypeMigrate),
				HaveField("State", gardencorev1beta1.LastOperationStateProcessing))))
		})

		It("should not bring the Cluster back", func() {
			deps := newDeps(ns.DeepCopy())
			Expect(source.AnnounceMigration(ctx, deps, botanistOf(deps))).To(Succeed())
			_, err := gardenerextensions.GetShoot(ctx, deps.SeedClientSet.Client(), namespace)
			Expect(apierrors.IsNotFound(err)).To(BeTrue())
		})
	})

	DescribeTable("reads what is left", func(objects []client.Object, want source.Remains) {
		Expect(source.ReadRemains(ctx, newDeps(objects...), namespace)).To(Equal(want))
	},
		Entry("everything", []client.Object{ns, deployment, cluster},
			source.Remains{Namespace: true, KubeAPIServer: true, Cluster: true}),
		Entry("a controller", []client.Object{ns, deployment, cluster, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager", Namespace: namespace}}},
			source.Remains{Namespace: true, KubeAPIServer: true, Cluster: true,
				Controllers: "deployment shoot--demo--live/kube-controller-manager still has pods"}),
		Entry("kube-apiserver is stopping", []client.Object{ns, cluster, func() client.Object {
			d := deployment.DeepCopy()
			d.Finalizers = []string{metav1.FinalizerDeleteDependents}
			d.DeletionTimestamp = &metav1.Time{Time: now}
			return d
		}()}, source.Remains{Namespace: true, Cluster: true}),
		Entry("namespace is terminating", []client.Object{cluster, func() client.Object {
			n := ns.DeepCopy()
			n.Status.Phase = corev1.NamespaceTerminating
			return n
		}()}, source.Remains{Namespace: true, Terminating: true, Cluster: true}),
		Entry("only the Cluster", []client.Object{cluster}, source.Remains{Cluster: true}),
		Entry("only the namespace", []client.Object{ns}, source.Remains{Namespace: true}),
		Entry("nothing", nil, source.Remains{Gone: true}),
	)

	It("should be done when nothing is left", func() {
		m := &migration.Migration{
			Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}},
			Clock: testclock.NewFakeClock(now),
		}
		outcome, err := source.CleanUp(ctx, newDeps(), m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})

	It("should leave the kube-apiserver alone until its clients had time to leave", func() {
		m := &migration.Migration{
			Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
				TechnicalID: namespace,
				LiveMigration: &gardencorev1beta1.LiveMigration{
					Conditions: conditions(gardencorev1beta1.ConditionTrue, now.Add(-time.Minute)),
				},
			}},
			Clock: testclock.NewFakeClock(now),
		}
		deps := newDeps(ns, deployment, cluster)
		deps.Timings.DrainTimeout = 5 * time.Minute
		outcome, err := source.CleanUp(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForClientsToLeave))
		Expect(outcome.RequeueAfter).To(Equal(10 * time.Second))
		Expect(outcome.Message).To(ContainSubstring("2026-11-20T12:04:00Z"))
	})

	It("should not wait for clients again when it has told the destination that the controllers have stopped", func() {
		cleanUp, found := steps.Get(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup)
		Expect(found).To(BeTrue())
		due := func(reason steps.Reason) time.Time {
			GinkgoHelper()
			m := &migration.Migration{Clock: testclock.NewFakeClock(now), Step: cleanUp,
				Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
					TechnicalID: namespace,
					LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: append(
						conditions(gardencorev1beta1.ConditionTrue, now), gardencorev1beta1.Condition{
							Type: cleanUp.Condition, Status: gardencorev1beta1.ConditionProgressing,
							Reason: string(reason)})},
				}}}
			at, err := source.ClientsDue(ctx, newDeps(ns, deployment, cluster), m)
			Expect(err).NotTo(HaveOccurred())
			return at
		}
		Expect(due(steps.ReasonStoppingSourceControlPlane)).To(Equal(now.Add(time.Minute)))
		Expect(due(steps.ReasonSourceControllersStopped)).To(BeZero())
		Expect(due(steps.ReasonDeletingSourceResources)).To(BeZero())
	})

	DescribeTable("tells by what is left how far it has come",
		func(left source.Remains, reason steps.Reason) {
			Expect(source.StageOf(left)).To(Equal(reason))
		},
		Entry("everything", source.Remains{Namespace: true, KubeAPIServer: true, Controllers: "deployment x"},
			steps.ReasonStoppingSourceControlPlane),
		Entry("a controller that outlives the kube-apiserver", source.Remains{Namespace: true, Controllers: "pod x"},
			steps.ReasonStoppingSourceControlPlane),
		Entry("the kube-apiserver", source.Remains{Namespace: true, KubeAPIServer: true},
			steps.ReasonSourceControllersStopped),
		Entry("objects", source.Remains{Namespace: true}, steps.ReasonDeletingSourceResources),
	)

	It("should never take back that the controllers have stopped", func() {
		var (
			reported      []steps.Reason
			begun, resume = make(chan struct{}), make(chan struct{})
		)
		m := &migration.Migration{Log: logr.Discard(),
			Report: func(_ context.Context, reason steps.Reason, message string) error {
				if message == "progress" {
					close(begun)
					<-resume
				}
				reported = append(reported, reason)
				return nil
			}}
		at := source.NewStage(m, source.Remains{KubeAPIServer: true, Controllers: "deployment x"})
		done := make(chan struct{}, 2)
		go func() {
			defer GinkgoRecover()
			Expect(at.Report(ctx, "progress")).To(Succeed())
			done <- struct{}{}
		}()
		Eventually(begun, patience.Eventually).Should(BeClosed())
		go func() {
			at.Enter(ctx, steps.ReasonSourceControllersStopped)
			done <- struct{}{}
		}()
		Consistently(done, "50ms").ShouldNot(Receive())
		close(resume)
		Eventually(done, patience.Eventually).Should(Receive())
		Eventually(done, patience.Eventually).Should(Receive())
		at.Enter(ctx, steps.ReasonStoppingSourceControlPlane)
		at.Enter(ctx, steps.ReasonSourceControllersStopped)
		Expect(at.Report(ctx, "more")).To(Succeed())
		Expect(reported).To(Equal([]steps.Reason{steps.ReasonStoppingSourceControlPlane,
			steps.ReasonSourceControllersStopped, steps.ReasonSourceControllersStopped}))
	})

	Context("of an overloaded seed", func() {
		const message = "seed-b-etcd-main-0 answered in 2.3 s, more than 1 s: the seed is overloaded"
		var (
			clock    *testclock.FakeClock
			m        *migration.Migration
			deps     *source.Deps
			reported []string
		)

		BeforeEach(func() {
			clock, reported = testclock.NewFakeClock(now), nil
			m = &migration.Migration{
				Log: logr.Discard(), Role: steps.Source, SourceSeed: "seed-a", DestinationSeed: "seed-b", Clock: clock,
				Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
					TechnicalID: namespace,
					LiveMigration: &gardencorev1beta1.LiveMigration{
						Conditions: conditions(gardencorev1beta1.ConditionTrue, now.Add(-time.Hour)),
					},
				}},
				Report: func(_ context.Context, reason steps.Reason, message string) error {
					reported = append(reported, string(reason)+": "+message)
					return nil
				},
			}
			deps = newDeps(ns, deployment, cluster)
			deps.NewCluster = destinationClusters(map[string]time.Duration{
				"seed-b-etcd-main-0": 2300 * time.Millisecond})
		})

		It("should not begin before the etcds answer soon", func() {
			outcome, err := source.CleanUp(ctx, deps, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(steps.ReasonSeedOverloaded))
			Expect(outcome.Message).To(Equal("The source's control plane does not stop yet: " + message))
			Expect(outcome.RequeueAfter).To(BeNumerically(">", 0))
		})

		It("should not begin when nobody knows how soon they answer", func() {
			deps.NewCluster = func(context.Context, string) (etcdclient.Cluster, error) {
				return nil, errors.New("no certificate")
			}
			_, err := source.CleanUp(ctx, deps, m)
			Expect(err).To(MatchError(ContainSubstring("no certificate")))
		})

		It("should wait with the end of the kube-apiserver, but not for long: no controllers run", func() {
			done := make(chan error, 1)
			go func() { done <- source.UntilPrompt(ctx, deps, m) }()
			for range 6 {
				Eventually(clock.HasWaiters, patience.Eventually).Should(BeTrue())
				Expect(done).NotTo(Receive())
				clock.Step(5 * time.Second)
			}
			Eventually(done, patience.Eventually).Should(Receive(BeNil()))
			Expect(reported).To(HaveEach("SeedOverloaded: " + message))
			Expect(reported).NotTo(BeEmpty())
		})

		It("should end the kube-apiserver as soon as the etcds answer soon", func() {
			deps.NewCluster = destinationClusters(nil)
			Expect(source.UntilPrompt(ctx, deps, m)).To(Succeed())
			Expect(reported).To(BeEmpty())
		})

		It("should give up with the context", func() {
			ended, end := context.WithCancel(ctx)
			end()
			Expect(source.UntilPrompt(ended, deps, m)).To(MatchError(context.Canceled))
		})
	})

	It("should count the time from the end of the step that waited for DNS caches", func() {
		Expect(source.DrainedAt(conditions(gardencorev1beta1.ConditionTrue, now), time.Minute)).
			To(Equal(now.Add(time.Minute)))
		_, err := source.DrainedAt(conditions(gardencorev1beta1.ConditionProgressing, now), time.Minute)
		Expect(err).To(MatchError(ContainSubstring("is not True")))
		_, err = source.DrainedAt(nil, time.Minute)
		Expect(err).To(HaveOccurred())
	})

	It("should wait for secrets that the resource manager still holds", func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "managedresource-x", Namespace: namespace,
			Finalizers: []string{"resources.gardener.cloud/gardener-resource-manager"}}}
		timeoutCtx, expire := patience.Expiring(ctx)
		looked := interceptor.NewClient(newDeps(secret).SeedClientSet.Client().(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				defer expire()
				return c.List(ctx, list, options...)
			},
		})
		Expect(source.WaitUntilSecretsGone(timeoutCtx, looked, namespace, time.Millisecond)).
			To(MatchError(ContainSubstring("managedresource-x still has finalizer")))

		secret.Finalizers = []string{"other"}
		Expect(source.WaitUntilSecretsGone(ctx, newDeps(secret).SeedClientSet.Client(), namespace, time.Millisecond)).
			To(Succeed())
	})
})
