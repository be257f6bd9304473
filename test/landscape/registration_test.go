// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/chartrenderer"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	. "github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("The registration of the agent", func() {
	var cfg *config.Config

	BeforeEach(func() {
		var err error
		cfg, err = config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
	})

	register := func(
		digests map[string]string,
	) (*gardencorev1beta1.ControllerRegistration, *gardencorev1.ControllerDeployment, string) {
		GinkgoHelper()
		objects, fingerprint, err := AgentRegistration(cfg, digests)
		Expect(err).NotTo(HaveOccurred())
		registration, deployment := &gardencorev1beta1.ControllerRegistration{}, &gardencorev1.ControllerDeployment{}
		Expect(objects).To(HaveLen(2))
		for _, object := range objects {
			into := map[string]any{"ControllerRegistration": registration,
				"ControllerDeployment": deployment}[object.GetKind()]
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)).
				To(Succeed())
		}
		return registration, deployment, fingerprint
	}

	// installed renders the chart as a gardenlet does.
	installed := func(deployment *gardencorev1.ControllerDeployment) map[string]*unstructured.Unstructured {
		GinkgoHelper()
		values := map[string]any{}
		Expect(json.Unmarshal(deployment.Helm.Values.Raw, &values)).To(Succeed())
		values["gardener"] = map[string]any{"seed": map[string]any{"name": "seed-a"}}
		rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderArchive(
			deployment.Helm.RawChart, "livecpm", "extension-livecpm-abcde", values)
		Expect(err).NotTo(HaveOccurred())
		out := map[string]*unstructured.Unstructured{}
		for _, manifest := range rendered.Manifests {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(manifest.Content), object)).To(Succeed())
			out[object.GetKind()] = object
		}
		return out
	}

	It("should let the gardenlets install the agent with the images and values of the landscape", func() {
		registration, deployment, fingerprint := register(map[string]string{"livecpm-agent": "sha256:a"})
		Expect(registration.Spec.Deployment.Policy).
			To(HaveValue(Equal(gardencorev1beta1.ControllerDeploymentPolicyAlways)))
		Expect(registration.Spec.Deployment.DeploymentRefs).
			To(ConsistOf(gardencorev1beta1.DeploymentRef{Name: deployment.Name}))
		Expect(deployment.InjectGardenKubeconfig).To(HaveValue(BeTrue()))

		objects := installed(deployment)
		agent := &appsv1.Deployment{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects["Deployment"].Object, agent)).To(Succeed())
		pod := agent.Spec.Template
		Expect(pod.Annotations).To(HaveKeyWithValue(FingerprintAnnotation, fingerprint))
		Expect(pod.Spec.Containers).To(ConsistOf(HaveField("Image", "livecpm.local/livecpm-agent:landscape")))
		Expect(pod.Spec.InitContainers).To(ConsistOf(HaveField("Image", "livecpm.local/livecpm-agent:landscape")))

		data, _, err := unstructured.NestedString(objects["ConfigMap"].Object, "data", "config.yaml")
		Expect(err).NotTo(HaveOccurred())
		agentConfig, err := configv1alpha1.Decode([]byte(data))
		Expect(err).NotTo(HaveOccurred())
		Expect(agentConfig.Relay.Image).To(Equal("livecpm.local/livecpm-relay:landscape"))
		Expect(agentConfig.DNS.Resolvers).To(ConsistOf(cfg.Garden.IP + ":53"))
		Expect(agentConfig.Flows.DrainTimeout.Duration.String()).To(Equal("20s"))
	})

	It("should have another fingerprint for another image only", func() {
		_, _, first := register(map[string]string{"livecpm-agent": "sha256:a", "livecpm-relay": "sha256:b"})
		_, _, same := register(map[string]string{"livecpm-relay": "sha256:b", "livecpm-agent": "sha256:a"})
		_, _, other := register(map[string]string{"livecpm-agent": "sha256:c", "livecpm-relay": "sha256:b"})
		Expect(same).To(Equal(first))
		Expect(other).NotTo(Equal(first))
	})

	bindings := func(name string) (subjects [][]rbacv1.Subject, selects bool) {
		GinkgoHelper()
		installed := charts.Release{Chart: charts.Garden, Name: charts.Garden,
			Namespace: "garden", Kubernetes: "v1.36.3"}
		manifests, err := installed.Render(GardenChartValues(cfg))
		Expect(err).NotTo(HaveOccurred())
		for _, manifest := range manifests {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(manifest.Content), object)).To(Succeed())
			Expect(object.GetKind()).NotTo(Equal("Deployment"), "the garden has no node")
			if object.GetName() == "livecpm:extension" && object.GetKind() == "ClusterRole" {
				selects = object.GetAnnotations()["authorization.gardener.cloud/extensions-serviceaccount-selector"] ==
					`{"matchLabels":{"controllerregistration.core.gardener.cloud/name":"livecpm"}}`
			}
			if object.GetName() != name ||
				(object.GetKind() != "ClusterRoleBinding" && object.GetKind() != "RoleBinding") {
				continue
			}
			binding := &rbacv1.ClusterRoleBinding{}
			Expect(yaml.Unmarshal([]byte(manifest.Content), binding)).To(Succeed())
			subjects = append(subjects, binding.Subjects)
		}
		return subjects, selects
	}
	agents := []rbacv1.Subject{
		{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "system:serviceaccounts:seed-seed-a"},
		{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "system:serviceaccounts:seed-seed-b"},
	}

	It("should give the agents of the landscape what the seed authorizer does not", func() {
		own, selects := bindings("livecpm:agent")
		Expect(own).To(BeEmpty())
		Expect(selects).To(BeTrue())
		regions, _ := bindings("livecpm:extension")
		Expect(regions).To(Equal([][]rbacv1.Subject{agents}))
	})

	It("should give the agents of the landscape everything where no seed authorizer is", func() {
		cfg.Authorizers = false
		own, selects := bindings("livecpm:agent")
		Expect(own).To(Equal([][]rbacv1.Subject{agents, agents}))
		Expect(selects).To(BeTrue())
	})

	Describe("of gardenlets that are the agents", func() {
		BeforeEach(func() { cfg.Gardenlet = config.GardenletDropIn })

		It("should bring permissions into the seeds and no pods", func() {
			_, deployment, _ := register(map[string]string{"livecpm-relay": "sha256:b"})
			objects := installed(deployment)
			Expect(objects).NotTo(HaveKey("Deployment"))
			binding := &rbacv1.ClusterRoleBinding{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects["ClusterRoleBinding"].Object,
				binding)).To(Succeed())
			Expect(binding.Subjects).
				To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: "garden", Name: "gardenlet"}))
		})

		It("should let the gardenlets read in the garden what no seed may by itself", func() {
			seeds, _ := bindings("livecpm:agent")
			Expect(seeds).
				To(ContainElement(ConsistOf(rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group",
					Name: "gardener.cloud:system:seeds"})))
		})

		It("should run the relay's image only", func() {
			Expect(SeedCommands(cfg.Gardenlet)).To(ConsistOf(HaveField("Name", "livecpm-relay")))
			Expect(SeedCommands(config.GardenletUpstream)).
				To(ConsistOf(HaveField("Name", "livecpm-relay"), HaveField("Name", "livecpm-agent")))
		})
	})

	Describe("what is awaited", func() {
		DescribeTable("of gardenlets that are the agents",
			func(host, holder string, age time.Duration, matches types.GomegaMatcher) {
				now := time.Now()
				Expect(CheckDropIn(&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent-leader-election",
						Labels: map[string]string{agent.LabelHost: host}},
					Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
						RenewTime: &metav1.MicroTime{Time: now.Add(-age)}},
				}, now)).To(matches)
			},
			Entry("the lease that they hold", string(agent.HostGardenlet), "gardenlet-1", time.Second, Succeed()),
			Entry("not one that pods hold", string(agent.HostPod), "livecpm-agent-1", time.Second,
				MatchError(ContainSubstring(`in "livecpm-agent"`))),
			Entry("not one that they held", string(agent.HostGardenlet), "gardenlet-1", time.Minute,
				MatchError(ContainSubstring("1m0s ago"))),
			Entry("not one that they have given back", string(agent.HostGardenlet), "", time.Second,
				MatchError(ContainSubstring("by nobody"))),
		)

		deployed := func(fingerprint string, want, available int32) *appsv1.Deployment {
			return &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent", Generation: 2},
				Spec: appsv1.DeploymentSpec{
					Replicas: &want,
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{
							Annotations: map[string]string{FingerprintAnnotation: fingerprint},
						},
					},
				},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: available, UpdatedReplicas: available,
					AvailableReplicas: available},
			}
		}

		It("should be all replicas of just this installation", func() {
			Expect(CheckAgent(deployed("now", 2, 2), "now")).To(Succeed())
			Expect(CheckAgent(deployed("before", 2, 2), "now")).
				To(MatchError(ContainSubstring(`comes from installation "before"`)))
			Expect(CheckAgent(deployed("now", 2, 1), "now")).To(MatchError(ContainSubstring("1 of 2 replicas")))
			rolling := deployed("now", 2, 2)
			rolling.Status.Replicas = 3
			Expect(CheckAgent(rolling, "now")).NotTo(Succeed())
			unseen := deployed("now", 2, 2)
			unseen.Status.ObservedGeneration = 1
			Expect(CheckAgent(unseen, "now")).NotTo(Succeed())
		})

		installation := func(registration, seed string,
			healthy gardencorev1beta1.ConditionStatus) gardencorev1beta1.ControllerInstallation {
			condition := func(kind gardencorev1beta1.ConditionType,
				status gardencorev1beta1.ConditionStatus) gardencorev1beta1.Condition {
				return gardencorev1beta1.Condition{Type: kind, Status: status, Message: "because"}
			}
			return gardencorev1beta1.ControllerInstallation{
				ObjectMeta: metav1.ObjectMeta{Name: registration + "-" + seed},
				Spec: gardencorev1beta1.ControllerInstallationSpec{
					RegistrationRef: corev1.ObjectReference{Name: registration},
					SeedRef:         &corev1.ObjectReference{Name: seed},
				},
				Status: gardencorev1beta1.ControllerInstallationStatus{Conditions: []gardencorev1beta1.Condition{
					condition(gardencorev1beta1.ControllerInstallationValid, gardencorev1beta1.ConditionTrue),
					condition(gardencorev1beta1.ControllerInstallationInstalled, gardencorev1beta1.ConditionTrue),
					condition(gardencorev1beta1.ControllerInstallationHealthy, healthy),
					condition(gardencorev1beta1.ControllerInstallationProgressing, gardencorev1beta1.ConditionFalse),
				}},
			}
		}

		It("should be the installation of this seed, in order by all of its conditions", func() {
			installations := []gardencorev1beta1.ControllerInstallation{
				installation("provider-local", "seed-a", gardencorev1beta1.ConditionFalse),
				installation("livecpm", "seed-b", gardencorev1beta1.ConditionFalse),
				installation("livecpm", "seed-a", gardencorev1beta1.ConditionTrue),
				{Spec: gardencorev1beta1.ControllerInstallationSpec{
					RegistrationRef: corev1.ObjectReference{Name: "livecpm"},
				}},
			}
			Expect(CheckInstallation(installations, "seed-a")).To(Succeed())
			Expect(CheckInstallation(installations, "seed-b")).
				To(MatchError("ControllerInstallation livecpm-seed-b: Healthy is False: because"))
			Expect(CheckInstallation(installations, "seed-c")).
				To(MatchError(ContainSubstring("no ControllerInstallation of livecpm for seed seed-c")))
			installations[2].Status.Conditions = installations[2].Status.Conditions[:3]
			Expect(CheckInstallation(installations, "seed-a")).
				To(MatchError(ContainSubstring("no condition Progressing yet")))
		})
	})

	DescribeTable("an agent that is there already",
		func(release string, gone bool) {
			agent := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent", UID: "1"},
				Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2),
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"release": release}}},
			}
			c := fake.NewClientBuilder().WithScheme(kubernetesscheme.Scheme).WithObjects(agent).Build()
			Expect(RemoveForeignAgent(context.Background(), c, client.ObjectKeyFromObject(agent))).To(Succeed())
			Expect(apierrors.IsNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(agent), agent))).
				To(Equal(gone))
			Expect(RemoveForeignAgent(context.Background(), c, client.ObjectKey{Namespace: "garden", Name: "another"})).
				To(Succeed())
		},
		Entry("should stay if a gardenlet has installed it", "livecpm", false),
		Entry("should go if it is of another release, whose pods it would continue to select", "livecpm-agent", true),
	)
})
