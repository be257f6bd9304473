// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	kubeapiserver "github.com/gardener/gardener/pkg/component/kubernetes/apiserver"
	"github.com/gardener/gardener/pkg/component/kubernetes/apiserverexposure"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/source"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Draining the connections of clients before the etcds move", func() {
	var (
		ctx   = context.Background()
		now   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		clock *testclock.FakeClock
		deps  *source.Deps
		m     *migration.Migration
		key   = client.ObjectKey{Namespace: gatewayNamespace, Name: namespace + "-livecpm-drained"}
		six   = map[string]int{"main": 3, "events": 3}

		innerKey = client.ObjectKey{Namespace: gatewayNamespace, Name: namespace + "-apiserver-proxy"}
	)
	// cluster has all members of the destination, and so many of the source.
	cluster := func(etcdRole string, members int) *fake.Cluster {
		var names []string
		for ordinal := range members {
			names = append(names, fmt.Sprintf("seed-a-etcd-%s-%d", etcdRole, ordinal))
		}
		for ordinal := range 3 {
			names = append(names, fmt.Sprintf("seed-b-etcd-%s-%d", etcdRole, ordinal))
		}
		return fake.New(func(name string) string {
			port := 2380
			if strings.HasPrefix(name, "seed-b-") {
				port = 2381
			}
			return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:%d", name[len("seed-a-"):], etcdRole, namespace, port)
		}, names...)
	}
	// setUp puts the objects beside a namespace with the annotation, if it has any.
	setUp := func(recorded string, members map[string]int, objects ...client.Object) {
		GinkgoHelper()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: "1"}}
		if recorded != "" {
			ns.Annotations = map[string]string{source.AnnotationClientsDrained: recorded}
		}
		clock = testclock.NewFakeClock(now)
		deps = newDeps(append(objects, ns)...)
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return cluster(etcdRole, members[etcdRole]), nil
		}
		step, found := steps.Get(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
		Expect(found).To(BeTrue())
		m = &migration.Migration{
			Log: logr.Discard(), Clock: clock, Role: steps.Source, Step: step,
			SourceSeed: "seed-a", DestinationSeed: "seed-b",
			Shoot: &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
				Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}},
		}
		deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(m.Shoot.DeepCopy()).
			Build()
		shootObject := &shoot.Shoot{ControlPlaneNamespace: namespace}
		shootObject.SetInfo(m.Shoot)
		deps.Botanist = &botanist.Botanist{Operation: &gardeneroperation.Operation{
			Logger: logr.Discard(), Shoot: shootObject, Config: gatewayConfig(), Seed: seedOf("seed-a"),
			SeedClientSet: deps.SeedClientSet, GardenClient: deps.Garden,
		}}
	}
	asked := func(reason steps.Reason) {
		m.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{{
			Type:   gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
			Status: gardencorev1beta1.ConditionProgressing, Reason: string(reason),
		}}}
	}
	recorded := func() string {
		GinkgoHelper()
		ns := &corev1.Namespace{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Name: namespace}, ns)).To(Succeed())
		return ns.Annotations[source.AnnotationClientsDrained]
	}
	filter := func() (*istionetworkingv1alpha3.EnvoyFilter, error) {
		out := &istionetworkingv1alpha3.EnvoyFilter{}
		return out, deps.SeedClientSet.Client().Get(ctx, key, out)
	}
	drain := func() steps.Outcome {
		GinkgoHelper()
		asked(steps.ReasonDrainingClients)
		outcome, err := source.MoveEtcd(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonDrainingClients))
		Expect(outcome.Finished()).To(BeFalse())
		now := &gardencorev1beta1.Shoot{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), now)).To(Succeed())
		m.Shoot.Annotations = now.Annotations
		return outcome
	}

	It("should change the filter chains of the kube-apiserver and keep them where Envoy ends TLS", func() {
		setUp("", six, exposed(atGateway)...)
		Expect(drain().Message).To(ContainSubstring("until 2026-11-20T12:01:10Z"))
		Expect(recorded()).To(Equal("2026-11-20T12:00:10Z"), "istiod has ten seconds to hand it to the Envoys")

		written, err := filter()
		Expect(err).NotTo(HaveOccurred())
		Expect(written.OwnerReferences).To(ConsistOf(And(HaveField("Kind", "Namespace"), HaveField("Name", namespace))))
		Expect(written.Spec.Priority).To(Equal(int32(100)))
		Expect(written.Spec.WorkloadSelector.Labels).To(Equal(map[string]string{"istio": "ingressgateway"}))
		var names []string
		for _, patch := range written.Spec.ConfigPatches {
			Expect(patch.ApplyTo.String()).To(Equal("FILTER_CHAIN"))
			Expect(patch.Match.Context.String()).To(Equal("GATEWAY"))
			Expect(patch.Patch.Operation.String()).To(Equal("MERGE"))
			Expect(patch.Patch.Value.AsMap()).To(Equal(map[string]any{"metadata": map[string]any{
				"filter_metadata": map[string]any{"livecpm.gardener.cloud": map[string]any{"drained": true}}}}),
				"nothing that Envoy acts on")
			names = append(names, patch.Match.GetListener().FilterChain.Sni)
		}
		Expect(names).To(ConsistOf(apiHost, "api.live.internal.example"))
	})

	// listener returns what Gardener's EnvoyFilter for clients inside of the shoot adds, as it is in the seed now.
	listener := func() map[string]any {
		GinkgoHelper()
		out := &istionetworkingv1alpha3.EnvoyFilter{}
		Expect(deps.SeedClientSet.Client().Get(ctx, innerKey, out)).To(Succeed())
		for _, patch := range out.Spec.ConfigPatches {
			if patch.ApplyTo.String() == "LISTENER" {
				return patch.Patch.Value.AsMap()
			}
		}
		Fail("it adds no listener")
		return nil
	}

	It("should tell clients inside of the shoot as well, by Gardener's own EnvoyFilter with their listener", func() {
		setUp("", six, append(exposed(atGateway), innerDoor())...)
		before := listener()
		drain()

		after := listener()
		chain := after["filter_chains"].([]any)[0].(map[string]any)
		Expect(chain).To(HaveKeyWithValue("metadata", map[string]any{
			"filter_metadata": map[string]any{"livecpm.gardener.cloud": map[string]any{"drained": true}}}))
		delete(chain, "metadata")
		Expect(after).To(Equal(before), "nothing else changes")
	})

	It("should leave an EnvoyFilter alone that adds no listener, and tell the others", func() {
		inner := innerDoor()
		inner.Spec.ConfigPatches = inner.Spec.ConfigPatches[1:]
		setUp("", six, append(exposed(atGateway), inner)...)
		drain()
		Expect(recorded()).To(Equal("2026-11-20T12:00:10Z"))
	})

	It("should not count as told if clients inside of the shoot could not be told", func() {
		setUp("", six, append(exposed(atGateway), innerDoor())...)
		seed := interceptor.NewClient(deps.SeedClientSet.Client().(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption) error {
				if client.ObjectKeyFromObject(object) == innerKey {
					return errors.New("denied")
				}
				return c.Patch(ctx, object, patch, options...)
			},
		})
		deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		asked(steps.ReasonDrainingClients)
		_, err := source.MoveEtcd(ctx, deps, m)
		Expect(err).To(MatchError(ContainSubstring("failed to change EnvoyFilter " + innerKey.String())))
		Expect(recorded()).To(BeEmpty())
	})

	It("should not begin again after a restart of the agent", func() {
		setUp("2026-11-20T11:59:40Z", six, exposed(atGateway)...)
		Expect(drain().Message).To(ContainSubstring("until 2026-11-20T12:00:40Z"))
		Expect(recorded()).To(Equal("2026-11-20T11:59:40Z"))
		_, err := filter()
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})

	It("should begin again if what is recorded is malformed", func() {
		setUp("yesterday", six, exposed(atGateway)...)
		drain()
		Expect(recorded()).To(Equal("2026-11-20T12:00:10Z"))
	})

	It("should leave clients alone where nothing is exposed, and say so", func() {
		setUp("", six, server(), serverPod("old"))
		Expect(drain().Message).To(ContainSubstring("not exposed any more"))
		Expect(recorded()).To(Equal("never"))
		Expect(m.Shoot.Annotations).NotTo(HaveKey(steps.AnnotationSourceClients))
		Expect(source.BeforeRetirement(ctx, deps, m)).To(BeZero())
	})

	Context("where the kube-apiserver ends TLS", func() {
		deployment := func() *appsv1.Deployment {
			GinkgoHelper()
			out := server()
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(out), out)).To(Succeed())
			return out
		}

		It("should restart it, and tell the destination when all clients have left", func() {
			setUp("", six, append(exposed(atServer), server(), serverPod("old-1"), serverPod("old-2"))...)
			Expect(drain().Message).To(ContainSubstring("2 are to go"))
			Expect(recorded()).To(Equal("never"))
			Expect(m.Shoot.Annotations).To(HaveKeyWithValue(steps.AnnotationSourceClients, "Leaving"))
			_, err := filter()
			Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			begun := deployment()
			Expect(begun.Spec.Template.Annotations).NotTo(BeEmpty())
			Expect(begun.Spec.Strategy.RollingUpdate.MaxSurge.String()).To(Equal("100%"))
			Expect(begun.Spec.MinReadySeconds).To(Equal(int32(20)), "none starts while another one ends")
			Expect(begun.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()).To(BeZero())

			seed := deps.SeedClientSet.Client()
			Expect(seed.Delete(ctx, serverPod("old-1"))).To(Succeed())
			restarted := serverPod("new-1")
			restarted.Annotations = begun.Spec.Template.Annotations
			Expect(seed.Create(ctx, restarted)).To(Succeed())
			Expect(drain().Message).To(ContainSubstring("1 are to go"))
			Expect(deployment()).To(Equal(begun), "it restarts once")

			evicted := serverPod("old-2")
			Expect(seed.Get(ctx, client.ObjectKeyFromObject(evicted), evicted)).To(Succeed())
			evicted.Status.Phase = corev1.PodFailed
			Expect(seed.Status().Update(ctx, evicted)).To(Succeed())
			Expect(drain().Message).To(ContainSubstring("clients have left"))
			Expect(m.Shoot.Annotations).To(HaveKeyWithValue(steps.AnnotationSourceClients, "Left"))
			Expect(source.BeforeRetirement(ctx, deps, m)).To(BeZero())

			deps.Botanist = nil
			Expect(drain().Message).To(ContainSubstring("clients have left"), "there is nothing more to do")
		})

		It("should not restart anything before the destination knows of it", func() {
			setUp("never", six, append(exposed(atServer), server(), serverPod("old-1"))...)
			Expect(deps.Garden.Delete(ctx, m.Shoot)).To(Succeed())
			asked(steps.ReasonDrainingClients)
			_, err := source.MoveEtcd(ctx, deps, m)
			Expect(err).To(MatchError(ContainSubstring("failed to say that the clients of Shoot garden-demo/live")))
			Expect(deployment().Spec.Template.Annotations).To(BeEmpty())
		})

		It("should have nothing to do without a kube-apiserver", func() {
			setUp("never", six, exposed(atServer)...)
			drain()
			Expect(m.Shoot.Annotations).To(HaveKeyWithValue(steps.AnnotationSourceClients, "Left"))
		})

		It("should spare step 7 the wait for requests when they have left", func() {
			setUp("never", six, append(exposed(atServer), server())...)
			metav1.SetMetaDataAnnotation(&m.Shoot.ObjectMeta, steps.AnnotationSourceClients, "Left")
			m.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{{
				Type:   gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
				Status: gardencorev1beta1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
			}}}
			_, err := source.CleanUp(ctx, deps, m)
			Expect(err).To(MatchError(ContainSubstring("failed to read project")), "it goes on")
		})
	})

	It("should not record a drain that has failed", func() {
		setUp("", six, exposed(atGateway)...)
		deps.Botanist = nil
		asked(steps.ReasonDrainingClients)
		_, err := source.MoveEtcd(ctx, deps, m)
		Expect(err).To(MatchError("no botanist"))
		Expect(recorded()).To(BeEmpty())
	})

	DescribeTable("lets the first member stay until clients have left", func(
		recorded string, members map[string]int, wait time.Duration,
	) {
		setUp(recorded, members, exposed(atGateway)...)
		Expect(source.BeforeRetirement(ctx, deps, m)).To(Equal(wait))
		_, err := filter()
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	},
		Entry("they have left", "2026-11-20T11:59:00Z", six, time.Duration(0)),
		Entry("they leave", "2026-11-20T11:59:20Z", six, 20*time.Second),
		Entry("Envoy is told a moment ago", "2026-11-20T12:00:05Z", six, 65*time.Second),
		Entry("one member has gone", "2026-11-20T11:59:20Z", map[string]int{"main": 3, "events": 2}, time.Duration(0)),
		Entry("one member has gone, and nobody has asked", "", map[string]int{"main": 2, "events": 3},
			time.Duration(0)),
		Entry("all members have gone", "", map[string]int{}, time.Duration(0)),
	)

	It("should wait with the reason that it is asked with", func() {
		setUp("2026-11-20T11:59:20Z", six, exposed(atGateway)...)
		asked(steps.ReasonReadyForSourceMemberRemoval)
		outcome, err := source.MoveEtcd(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		Expect(outcome.RequeueAfter).To(Equal(20 * time.Second))
		Expect(outcome.Message).To(ContainSubstring("until 2026-11-20T12:00:20Z"))
	})

	It("should not wait with six voters if nobody has asked, and drain nevertheless", func() {
		setUp("", six, exposed(atGateway)...)
		Expect(source.BeforeRetirement(ctx, deps, m)).To(BeZero())
		_, err := filter()
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded()).To(BeEmpty(), "an agent that takes over must not wait either")
	})

	It("should not keep members because of a drain that is too late anyhow and fails", func() {
		setUp("", six, exposed(atGateway)...)
		deps.Botanist = nil
		Expect(source.BeforeRetirement(ctx, deps, m)).To(BeZero())
	})

	DescribeTable("spares step 7 the wait for requests", func(recorded string, spared bool) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Namespace: namespace}}
		setUp(recorded, six, deployment)
		m.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{{
			Type:   gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
			Status: gardencorev1beta1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		}}}
		outcome, err := source.CleanUp(ctx, deps, m)
		if spared {
			// It goes on, which it cannot without a garden.
			Expect(err).To(MatchError(ContainSubstring("failed to read project")))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForClientsToLeave))
	},
		Entry("if they have left", "2026-11-20T11:59:00Z", true),
		Entry("not while they leave", "2026-11-20T11:59:01Z", false),
		Entry("not if they could not be told to", "never", false),
		Entry("not if nobody has asked", "", false),
		Entry("not if nobody knows since when", "yesterday", false),
	)
})

// server is the Deployment of the kube-apiserver.
func server() *appsv1.Deployment {
	labels := kubeapiserver.GetLabels()
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Namespace: namespace},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}},
	}
}

// serverPod is one of its pods from before the restart.
func serverPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
		Labels: server().Spec.Template.Labels}}
}

// innerDoor is the EnvoyFilter with the listener for clients inside of the shoot, made by Gardener's own component.
func innerDoor() *istionetworkingv1alpha3.EnvoyFilter {
	GinkgoHelper()
	ctx := context.Background()
	seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: "uid-1"}}).Build()
	for _, name := range []string{"ca", "ca-client", "kube-apiserver-current"} {
		Expect(seed.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).
			To(Succeed())
	}
	component := apiserverexposure.NewSNI(seed, "kube-apiserver", namespace,
		fakesecretsmanager.New(seed, namespace), func() *apiserverexposure.SNIValues {
			return &apiserverexposure.SNIValues{
				Hosts:               []string{apiHost},
				APIServerProxy:      &apiserverexposure.APIServerProxy{APIServerClusterIP: "10.2.170.21"},
				IstioTLSTermination: true,
				IstioIngressGateway: apiserverexposure.IstioIngressGateway{Namespace: gatewayNamespace,
					Labels: map[string]string{"istio": "ingressgateway"}},
			}
		})
	Expect(component.Deploy(ctx)).To(Succeed())
	objects, err := managedresources.GetObjects(ctx, seed, namespace, "kube-apiserver-sni")
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if filter, ok := object.(*istionetworkingv1alpha3.EnvoyFilter); ok &&
			strings.HasSuffix(filter.Name, "-apiserver-proxy") {
			return filter
		}
	}
	Fail("Gardener's component has no such EnvoyFilter")
	return nil
}
