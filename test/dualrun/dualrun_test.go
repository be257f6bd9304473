// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dualrun_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/dualrun"
	"github.com/livecpm/livecpm/test/patience"
)

const namespace = "shoot--demo--live"

var _ = Describe("Looking at both seeds", func() {
	var (
		ctx = context.Background()
		now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		key = client.ObjectKey{Namespace: "garden-demo", Name: "live"}
	)

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }
	pod := func(name, ownerKind, owner, hash string, running bool) *corev1.Pod {
		out := &corev1.Pod{ObjectMeta: meta(name)}
		out.Labels = map[string]string{"pod-template-hash": hash}
		out.OwnerReferences = []metav1.OwnerReference{{Kind: ownerKind, Name: owner}}
		if running {
			out.Status.ContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}
		}
		return out
	}
	lastOperation := func(kind gardencorev1beta1.LastOperationType,
		state gardencorev1beta1.LastOperationState) extensionsv1alpha1.DefaultStatus {
		return extensionsv1alpha1.DefaultStatus{
			LastOperation: &gardencorev1beta1.LastOperation{Type: kind, State: state},
		}
	}
	extension := func(name, kind string, status extensionsv1alpha1.DefaultStatus) *extensionsv1alpha1.Extension {
		return &extensionsv1alpha1.Extension{
			ObjectMeta: meta(name),
			Spec:       extensionsv1alpha1.ExtensionSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: kind}},
			Status:     extensionsv1alpha1.ExtensionStatus{DefaultStatus: status},
		}
	}
	shootIn := func(step int, seed string) *gardencorev1beta1.Shoot {
		shoot := &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace, UID: "uid", SeedName: &seed,
				LiveMigration: &gardencorev1beta1.LiveMigration{}},
		}
		for i, conditionType := range steps.ConditionTypes() {
			status := gardencorev1beta1.ConditionUnknown
			switch {
			case i+1 < step:
				status = gardencorev1beta1.ConditionTrue
			case i+1 == step:
				status = gardencorev1beta1.ConditionProgressing
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: conditionType, Status: status})
		}
		return shoot
	}
	registration := &gardencorev1beta1.ControllerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "early"},
		Spec: gardencorev1beta1.ControllerRegistrationSpec{Resources: []gardencorev1beta1.ControllerResource{
			{Kind: "Extension", Type: "early", Lifecycle: &gardencorev1beta1.ControllerResourceLifecycle{
				Reconcile: new(gardencorev1beta1.BeforeKubeAPIServer),
			}},
			{Kind: "Extension", Type: "late"},
		}},
	}
	newReader := func(shoot *gardencorev1beta1.Shoot, source, destination []client.Object) *dualrun.Reader {
		build := func(objects []client.Object) client.Client {
			return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		}
		return &dualrun.Reader{
			Garden: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot,
				registration).Build(),
			Source: build(source), Destination: build(destination), DestinationSeed: "seed-b", Shoot: key,
			Now: func() time.Time { return now },
		}
	}
	seen := func(objects ...client.Object) map[steps.Components][]string {
		GinkgoHelper()
		sample, err := newReader(shootIn(1, "seed-a"), objects, nil).Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		out := map[steps.Components][]string{}
		for name, running := range sample.Running {
			Expect(running).NotTo(HaveKey(steps.Destination))
			out[name] = running[steps.Source]
		}
		return out
	}

	DescribeTable("sees who is at work", func(name steps.Components, object client.Object) {
		Expect(seen(object)).To(HaveLen(1))
		Expect(seen(object)[name]).To(HaveLen(1))
	},
		Entry("a Deployment by its pod", steps.KubeControllerManager,
			pod("kube-controller-manager-5d-x", "ReplicaSet", "kube-controller-manager-5d", "5d", true)),
		Entry("a pod that is being deleted", steps.ResourceManager, func() client.Object {
			out := pod("gardener-resource-manager-5d-x", "ReplicaSet", "gardener-resource-manager-5d", "5d", true)
			out.DeletionTimestamp, out.Finalizers = &metav1.Time{Time: now}, []string{"x"}
			return out
		}()),
		Entry("machine-controller-manager", steps.MachineControllerManager,
			pod("machine-controller-manager-5d-x", "ReplicaSet", "machine-controller-manager-5d", "5d", true)),
		Entry("a highly available VPN server", steps.VPNServer,
			pod("vpn-seed-server-0", "StatefulSet", "vpn-seed-server", "", true)),
		Entry("an etcd member", steps.Etcd, pod("etcd-main-0", "StatefulSet", "etcd-main", "", true)),
		Entry("the dependency-watchdog by its access", steps.DependencyWatchdog,
			&corev1.Secret{ObjectMeta: meta("shoot-access-dependency-watchdog-probe")}),
		Entry("an early extension", steps.EarlyExtensions, extension("a", "early", extensionsv1alpha1.DefaultStatus{})),
		Entry("another extension", steps.Extensions,
			extension("a", "late", lastOperation(gardencorev1beta1.LastOperationTypeReconcile,
				gardencorev1beta1.LastOperationStateSucceeded))),
		Entry("an extension that is being migrated", steps.Extensions,
			extension("a", "late", lastOperation(gardencorev1beta1.LastOperationTypeMigrate,
				gardencorev1beta1.LastOperationStateProcessing))),
		Entry("a Worker", steps.Worker, &extensionsv1alpha1.Worker{ObjectMeta: meta("live")}),
		Entry("an Infrastructure", steps.Infrastructure, &extensionsv1alpha1.Infrastructure{ObjectMeta: meta("live")}),
		Entry("a ControlPlane", steps.ControlPlane, &extensionsv1alpha1.ControlPlane{ObjectMeta: meta("live")}),
		Entry("a Network", steps.NodeExtensions, &extensionsv1alpha1.Network{ObjectMeta: meta("live")}),
		Entry("an OperatingSystemConfig", steps.NodeExtensions,
			&extensionsv1alpha1.OperatingSystemConfig{ObjectMeta: meta("live")}),
		Entry("a ContainerRuntime", steps.NodeExtensions,
			&extensionsv1alpha1.ContainerRuntime{ObjectMeta: meta("live")}),
		Entry("a DNSRecord", steps.DNSRecords, &extensionsv1alpha1.DNSRecord{ObjectMeta: meta("live-external")}),
		Entry("the backup entry", steps.BackupEntry,
			&extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: namespace + "--uid"}}),
	)

	DescribeTable("sees who is not", func(object client.Object) {
		Expect(seen(object)).To(BeEmpty())
	},
		Entry("a pod that has not started",
			pod("kube-controller-manager-5d-x", "ReplicaSet", "kube-controller-manager-5d", "5d", false)),
		Entry("a pod of something else", pod("plutono-5d-x", "ReplicaSet", "plutono-5d", "5d", true)),
		Entry("a pod of a job", pod("etcd-main-compactor", "Job", "etcd-main-compactor", "", true)),
		Entry("an extension that has been migrated",
			extension("a", "late", lastOperation(gardencorev1beta1.LastOperationTypeMigrate,
				gardencorev1beta1.LastOperationStateSucceeded))),
		Entry("a DNSRecord that is being deleted", func() client.Object {
			out := &extensionsv1alpha1.DNSRecord{ObjectMeta: meta("live-external")}
			out.DeletionTimestamp, out.Finalizers = &metav1.Time{Time: now}, []string{"x"}
			return out
		}()),
		Entry("a DNSRecord of the migration itself", &extensionsv1alpha1.DNSRecord{ObjectMeta: meta("livecpm-vpn")}),
		Entry("the backup entry of another shoot",
			&extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: "source-" + namespace + "--uid"}}),
	)

	Describe("at a resource manager that is to answer webhooks only", func() {
		answering := func() *corev1.Pod {
			out := pod("livecpm-webhooks-5d-x", "ReplicaSet", "livecpm-webhooks-5d", "5d", true)
			out.Spec.ServiceAccountName = "livecpm-webhooks"
			return out
		}
		lease := func(name, holder string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: meta(name),
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		}
		held := lease("livecpm-webhooks", "nobody: these resource managers only answer webhooks")

		It("should believe it by its Lease, which nobody gets", func() {
			Expect(seen(answering(), held, lease("gardener-resource-manager", "gardener-resource-manager-6f-y_uid"))).
				To(BeEmpty())
		})

		DescribeTable("takes it for one that acts without that evidence", func(objects ...client.Object) {
			Expect(seen(objects...)).To(Equal(map[steps.Components][]string{
				steps.ResourceManager: {"Pod livecpm-webhooks-5d-x"}}))
		},
			Entry("no Lease", answering()),
			Entry("another Lease", answering(), lease("another", ownership.WebhookServerHolder)),
			Entry("a Lease that is free", answering(), lease("livecpm-webhooks", "")),
			Entry("a Lease that it has", answering(), lease("livecpm-webhooks", "livecpm-webhooks-5d-x_uid")),
			Entry("a Lease that another one has", answering(), lease("livecpm-webhooks", "livecpm-webhooks-5d-z_uid")),
			Entry("the Lease of those that act", answering(), held,
				lease("gardener-resource-manager", "livecpm-webhooks-5d-x_uid")),
			Entry("the rights of those that act", func() client.Object {
				out := answering()
				out.Spec.ServiceAccountName = "gardener-resource-manager"
				return out
			}(), held),
		)

		It("should take every other pod for one that acts, whatever a Lease says", func() {
			acting := pod("gardener-resource-manager-5d-x", "ReplicaSet", "gardener-resource-manager-5d", "5d", true)
			acting.Spec.ServiceAccountName = "livecpm-webhooks"
			Expect(seen(acting, held)).To(HaveKey(steps.ResourceManager))
		})

		It("should count a violation if it acts beside the one of the other seed", func() {
			acting := pod("gardener-resource-manager-5d-x", "ReplicaSet", "gardener-resource-manager-5d", "5d", true)
			judge := func(destination ...client.Object) []ownership.Violation {
				GinkgoHelper()
				sample, err := newReader(shootIn(5, "seed-a"), []client.Object{acting}, destination).Sample(ctx)
				Expect(err).NotTo(HaveOccurred())
				return ownership.Judge(sample)
			}
			Expect(judge(answering(), held)).To(BeEmpty())
			Expect(judge(answering())).To(ConsistOf(And(HaveField("Set", steps.ResourceManager),
				HaveField("Overlap", true))))
		})

		It("should not judge when it could not read the Leases", func() {
			reader := newReader(shootIn(5, "seed-a"), nil, nil)
			reader.Source = interceptor.NewClient(reader.Source.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					if _, leases := list.(*coordinationv1.LeaseList); leases {
						return errors.New("no answer")
					}
					return c.List(ctx, list, options...)
				},
			})
			_, err := reader.Sample(ctx)
			Expect(err).To(MatchError(ContainSubstring("failed to list the leases")))
		})
	})

	It("should tell the phases before and after the look", func() {
		reader := newReader(shootIn(7, "seed-a"), nil, nil)
		reader.Source = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					opts ...client.ListOption) error {
					reader.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
						WithObjects(shootIn(8, "seed-a")).Build()
					return c.List(ctx, list, opts...)
				},
			}).Build()
		sample, err := reader.Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.From).To(Equal(ownership.Phase(6)))
		Expect(sample.To).To(Equal(ownership.Phase(7)))
		Expect(sample.Time).To(Equal(now))
	})

	It("should tell when the source asks for the destination's controllers, before and after the look", func() {
		asking := func(reason steps.Reason) *gardencorev1beta1.Shoot {
			shoot := shootIn(7, "seed-a")
			shoot.Status.LiveMigration.Conditions[6].Reason = string(reason)
			return shoot
		}
		scheduler := pod("kube-scheduler-5d-x", "ReplicaSet", "kube-scheduler-5d", "5d", true)
		reader := newReader(asking(steps.ReasonStoppingSourceControlPlane), nil, []client.Object{scheduler})
		sample, err := reader.Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.AskedFrom).To(BeFalse())
		Expect(sample.AskedTo).To(BeFalse())
		Expect(ownership.Judge(sample)).To(HaveLen(1))

		reader.Source = interceptor.NewClient(reader.Source.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				reader.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
					WithObjects(asking(steps.ReasonSourceControllersStopped)).Build()
				return c.List(ctx, list, options...)
			},
		})
		sample, err = reader.Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.AskedFrom).To(BeFalse())
		Expect(sample.AskedTo).To(BeTrue())
		Expect(ownership.Judge(sample)).To(BeEmpty())

		sample, err = reader.Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.AskedFrom).To(BeTrue())
	})

	It("should know a shoot that was handed over", func() {
		sample, err := newReader(shootIn(9, "seed-b"), nil, nil).Sample(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.From).To(Equal(ownership.After))
	})

	Describe("again and again", func() {
		run := func(reader *dualrun.Reader) dualrun.Result {
			GinkgoHelper()
			timeoutCtx, expire := patience.Expiring(ctx)
			var looks atomic.Int32
			reader.Garden = interceptor.NewClient(reader.Garden.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					options ...client.GetOption) error {
					// Each sample begins and ends with the Shoot.
					if looks.Add(1) > 40 {
						expire()
					}
					return c.Get(ctx, key, object, options...)
				},
			})
			return reader.Run(timeoutCtx, 10*time.Millisecond)
		}
		worker := func() *extensionsv1alpha1.Worker { return &extensionsv1alpha1.Worker{ObjectMeta: meta("live")} }

		It("should look at once when a step begins, also while another look takes its time", func() {
			var (
				reader             = newReader(shootIn(4, "seed-a"), nil, nil)
				timeoutCtx, expire = context.WithCancel(ctx)
				begun, next        = make(chan struct{}), make(chan struct{})
				lists              atomic.Int32
			)
			defer expire()
			reader.Destination = interceptor.NewClient(reader.Destination.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					if lists.Add(1) == 1 {
						close(begun)
						<-next
					}
					return c.List(ctx, list, options...)
				},
			})
			results := make(chan dualrun.Result, 1)
			go func() { results <- reader.Run(timeoutCtx, 10*time.Millisecond) }()
			<-begun
			garden, step := reader.Garden.(client.Client), 4
			Eventually(func(g Gomega) int32 {
				shoot := &gardencorev1beta1.Shoot{}
				g.Expect(garden.Get(ctx, key, shoot)).To(Succeed())
				step = 9 - step // to step 5, back, and so on
				shoot.Status = shootIn(step, "seed-a").Status
				g.Expect(garden.Update(ctx, shoot)).To(Succeed())
				return lists.Load()
			}).WithTimeout(patience.Eventually).WithPolling(50 * time.Millisecond).Should(BeNumerically(">", 1))
			close(next)
			expire()
			Eventually(results).WithTimeout(patience.Eventually).Should(Receive())
		})

		It("should be content with one owner", func() {
			result := run(newReader(shootIn(4, "seed-a"), []client.Object{worker()}, nil))
			Expect(result.Err(2, ownership.Phase(3))).To(Succeed())
		})

		It("should fail on an overlap", func() {
			result := run(newReader(shootIn(4, "seed-a"), []client.Object{worker()}, []client.Object{worker()}))
			Expect(result.Err(2)).
				To(MatchError(ContainSubstring(
					"worker was at work in both seeds at the same time between step 4 and step 4")))
		})

		It("should fail if it has seen too little", func() {
			result := run(newReader(shootIn(4, "seed-a"), nil, nil))
			Expect(result.Err(100000)).To(MatchError(ContainSubstring("instead of at least 100000")))
			Expect(result.Err(1, ownership.Phase(3), ownership.Phase(5))).
				To(MatchError(ContainSubstring("not looked at in step 6")))
		})

		It("should fail if a seed cannot be looked at", func() {
			reader := newReader(shootIn(4, "seed-a"), nil, nil)
			reader.Source = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
				WithInterceptorFuncs(interceptor.Funcs{
					List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
						return errors.New("unreachable")
					},
				}).Build()
			Expect(run(reader).Err(0)).
				To(
					MatchError(ContainSubstring("failed to look at the source: failed to list the pods in namespace " +
						"shoot--demo--live: unreachable")))
		})
	})
})
