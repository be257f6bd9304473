// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardenerkubernetes "github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	relayNamespace = "shoot--demo--live"
	agentUser      = "system:serviceaccount:garden:livecpm-agent"
)

// The agent runs with the permissions of its chart, and with a garden that nobody reaches.
var _ = Describe("The relays of a seed whose garden does not answer", Ordered, func() {
	var (
		ctx    = context.Background()
		config *rest.Config
		c      client.Client
	)
	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		environment := &envtest.Environment{ControlPlaneStartTimeout: patience.Start,
			ControlPlaneStopTimeout: patience.Stop}
		var err error
		config, err = environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		c, err = client.New(config, client.Options{Scheme: gardenerkubernetes.SeedScheme})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"garden", relayNamespace} {
			Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}
		permit(ctx, c)
		Expect(c.Create(ctx, relayStatefulSet())).To(Succeed())
	})

	// start starts an agent, and returns what ends it. Its garden never answers.
	start := func() func() {
		GinkgoHelper()
		agentConfig := &configv1alpha1.AgentConfiguration{}
		configv1alpha1.SetDefaults(agentConfig)
		impersonated := rest.CopyConfig(config)
		impersonated.Impersonate = rest.ImpersonationConfig{UserName: agentUser}
		log := zap.New(zap.WriteTo(GinkgoWriter))
		seedSide, err := setup.NewSeedSide(log, agentConfig, impersonated, agent.HostGardenlet)
		Expect(err).NotTo(HaveOccurred())

		running, cancel := context.WithCancel(ctx)
		ended, connected := make(chan error, 1), make(chan *setup.Environment, 1)
		go func() { ended <- seedSide.Start(running) }()
		go func() {
			connected <- seedSide.Connect(running, logr.Discard(), clock.RealClock{}, func() (*setup.Environment,
				error) {
				return nil, errors.New("the garden does not answer")
			})
		}()
		Consistently(func() error { return seedSide.Ready(nil) }).WithTimeout(time.Second).
			Should(MatchError(ContainSubstring("the garden has not been reached")))
		stop := func() {
			GinkgoHelper()
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
			Eventually(connected).Should(Receive(BeNil()))
		}
		DeferCleanup(cancel)
		return stop
	}
	// move has the relay of an ordinal run at an address.
	move := func(ordinal int, address string) {
		GinkgoHelper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: relayNamespace, Name: fmt.Sprintf("%s-%d", exposure.Name, ordinal),
				Labels: map[string]string{"app": exposure.Name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "relay", Image: "relay"}},
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: exposure.ConditionInUse}}},
		}
		Expect(client.IgnoreNotFound(c.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)))).To(Succeed())
		Expect(c.Create(ctx, pod)).To(Succeed())
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address,
			PodIPs: []corev1.PodIP{{IP: address}}}
		Expect(c.Status().Update(ctx, pod)).To(Succeed())
	}
	published := func(host string) func(Gomega) []string {
		return func(g Gomega) []string {
			slice := &discoveryv1.EndpointSlice{}
			g.Expect(c.Get(ctx, client.ObjectKey{Namespace: relayNamespace, Name: "etcd-main-peer-livecpm-relay"},
				slice)).To(Succeed())
			var out []string
			for _, endpoint := range slice.Endpoints {
				if endpoint.Hostname != nil && *endpoint.Hostname == host {
					out = append(out, endpoint.Addresses...)
				}
			}
			return out
		}
	}

	It("should be published at their new addresses when they move, also by an agent that starts meanwhile", func() {
		for ordinal := range 3 {
			move(ordinal, fmt.Sprintf("10.1.0.%d", ordinal+1))
		}
		stop := start()
		for ordinal := range 3 {
			Eventually(published(fmt.Sprintf("etcd-main-%d", ordinal))).
				Should(Equal([]string{fmt.Sprintf("10.1.0.%d", ordinal+1)}))
		}
		move(1, "10.1.0.21")
		Eventually(published("etcd-main-1")).Should(Equal([]string{"10.1.0.21"}))

		stop()
		move(2, "10.1.0.31")
		Consistently(published("etcd-main-2")).WithTimeout(time.Second).Should(Equal([]string{"10.1.0.3"}),
			"nobody but the agent does it")
		stop = start()
		Eventually(published("etcd-main-2")).Should(Equal([]string{"10.1.0.31"}))
		stop()
	})

	It("should be in use as soon as nobody knows another address, by a permission for these pods alone", func() {
		// inUse is the status of the condition of a relay.
		inUse := func(ordinal int) func(Gomega) corev1.ConditionStatus {
			return func(g Gomega) corev1.ConditionStatus {
				pod := &corev1.Pod{}
				g.Expect(c.Get(ctx, client.ObjectKey{Namespace: relayNamespace,
					Name: fmt.Sprintf("%s-%d", exposure.Name, ordinal)}, pod)).To(Succeed())
				for _, condition := range pod.Status.Conditions {
					if condition.Type == exposure.ConditionInUse {
						return condition.Status
					}
				}
				return ""
			}
		}
		stop := start()
		// It has never moved; the others have.
		Eventually(inUse(0)).Should(Equal(corev1.ConditionTrue))
		Eventually(inUse(1)).Should(Equal(corev1.ConditionFalse))
		Eventually(inUse(2)).Should(Equal(corev1.ConditionFalse))
		move(0, "10.1.0.41")
		Eventually(published("etcd-main-0")).Should(Equal([]string{"10.1.0.41"}))
		Eventually(inUse(0)).Should(Equal(corev1.ConditionFalse))
		stop()

		impersonated := rest.CopyConfig(config)
		impersonated.Impersonate = rest.ImpersonationConfig{UserName: agentUser}
		asAgent, err := client.New(impersonated, client.Options{Scheme: gardenerkubernetes.SeedScheme})
		Expect(err).NotTo(HaveOccurred())
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: relayNamespace, Name: "other"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}}}
		Expect(c.Create(ctx, other)).To(Succeed())
		patch := client.MergeFrom(other.DeepCopy())
		other.Status.Message = "changed"
		Expect(apierrors.IsForbidden(asAgent.Status().Patch(ctx, other, patch))).To(BeTrue())
	})

	It("should be the work of one agent at a time, whoever leads migrations", func() {
		stop := start()
		lease := func(name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}}
		}
		relays, migrations := lease("livecpm-agent-leader-election-relays"), lease("livecpm-agent-leader-election")
		Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(relays), relays)).To(Succeed())
			g.Expect(relays.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
		}).Should(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(migrations), migrations)).
			To(MatchError(ContainSubstring("not found")), "it is for those who have reached the garden")
		stop()
	})
})

// permit gives the agent's service account what its chart gives it.
func permit(ctx context.Context, c client.Client) {
	GinkgoHelper()
	installed := charts.Release{Chart: charts.Agent, Name: "livecpm-agent", Namespace: "garden", Kubernetes: "v1.36.3"}
	manifests, err := installed.Render(nil)
	Expect(err).NotTo(HaveOccurred())
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(manifest.Content), &object.Object)).To(Succeed())
		if object.GroupVersionKind().Group == rbacv1.GroupName {
			Expect(c.Create(ctx, object)).To(Succeed(), manifest.Content)
		}
	}
}

// relayStatefulSet is a relay as the source deploys it, in as much as its pods' addresses depend on it.
func relayStatefulSet() *appsv1.StatefulSet {
	labels := map[string]string{"app": exposure.Name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: relayNamespace, Name: exposure.Name,
			Labels: map[string]string{exposure.LabelKey: exposure.LabelValue}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "relay", Image: "relay",
					Ports: []corev1.ContainerPort{{Name: "peer", ContainerPort: 2381}}}}},
			},
		},
	}
}
