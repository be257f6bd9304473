// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	gardenercharts "github.com/gardener/gardener/charts"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
	agentconfigv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	release   = "livecpm"
	namespace = "garden"
)

// strict refuses fields that the types do not have and fields that occur twice.
var strict = serializer.NewCodecFactory(kubernetesscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

func render(chart string, values map[string]any) []client.Object {
	GinkgoHelper()
	installed := charts.Release{Chart: chart, Name: release, Namespace: namespace, Kubernetes: "v1.36.3"}
	manifests, err := installed.Render(values)
	Expect(err).NotTo(HaveOccurred())

	objects := make([]client.Object, 0, len(manifests))
	for _, manifest := range manifests {
		object, _, err := strict.Decode([]byte(manifest.Content), nil, nil)
		Expect(err).NotTo(HaveOccurred(), manifest.Name+"\n"+manifest.Content)
		objects = append(objects, object.(client.Object))
	}
	return objects
}

// only returns the one object of the type.
func only[T client.Object](objects []client.Object) T {
	GinkgoHelper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	Expect(found).To(HaveLen(1))
	return found[0]
}

func names(objects []client.Object) []string {
	out := make([]string, 0, len(objects))
	for _, object := range objects {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", object), "*")+" "+object.GetName())
	}
	return out
}

var _ = Describe("livecpm-garden", func() {
	It("should be the gate, which fails closed, and the policy against removal", func() {
		objects := render(charts.Garden, nil)
		Expect(names(objects)).To(ConsistOf(
			"v1.ValidatingAdmissionPolicy "+gate.PolicyName,
			"v1.ValidatingAdmissionPolicyBinding "+gate.PolicyName,
			"v1.ValidatingAdmissionPolicy "+removalguard.PolicyName,
			"v1.ValidatingAdmissionPolicyBinding "+removalguard.PolicyName,
			"v1.ValidatingAdmissionPolicy "+removalguard.ReplacementPolicyName,
			"v1.ValidatingAdmissionPolicyBinding "+removalguard.ReplacementPolicyName,
		))

		policy := called[*admissionregistrationv1.ValidatingAdmissionPolicy](objects, gate.PolicyName)
		Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)))
		Expect(policy.Spec.MatchConstraints.NamespaceSelector).To(BeNil())
		Expect(policy.Spec.MatchConstraints.ObjectSelector).To(BeNil())

		doors := map[admissionregistrationv1.OperationType][]string{}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			for _, operation := range rule.Operations {
				doors[operation] = append(doors[operation], rule.Resources...)
			}
		}
		Expect(doors).To(HaveKeyWithValue(admissionregistrationv1.Update,
			ConsistOf("shoots", "shoots/status", "shoots/binding")))
		Expect(doors).To(HaveKeyWithValue(admissionregistrationv1.Delete, ConsistOf("shoots")))

		binding := called[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](objects, gate.PolicyName)
		Expect(binding.Spec.PolicyName).To(Equal(gate.PolicyName))
		Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
		Expect(binding.Spec.MatchResources).To(BeNil())
	})

	It("should name the steps of the model", func() {
		policy := called[*admissionregistrationv1.ValidatingAdmissionPolicy](render(charts.Garden, nil),
			gate.PolicyName)
		quoted := regexp.MustCompile(`c\.type == '([^']+)'`)
		named := func(expression string) []string {
			var out []string
			for _, match := range quoted.FindAllStringSubmatch(expression, -1) {
				out = append(out, match[1])
			}
			return out
		}
		variables, found := map[string]string{}, []string{}
		for _, variable := range policy.Spec.Variables {
			variables[variable.Name] = variable.Expression
			found = append(found, named(variable.Expression)...)
		}
		for _, validation := range policy.Spec.Validations {
			found = append(found, named(validation.Expression)...)
		}

		var beforeHandOver string
		var noReturn, shrinks string
		table := steps.Table()
		for i, step := range table {
			if step.HandsOver {
				beforeHandOver = table[i-1].String()
			}
			if step.PointOfNoReturn {
				noReturn = step.String()
				Expect(table[i-1].String()).To(Equal(steps.LastAbortable().String()))
			}
			if step.Has(steps.WhenForced) {
				shrinks = step.String()
			}
		}
		Expect(named(variables["begun"])).To(Equal([]string{steps.First().String(), steps.Last().String()}))
		Expect(named(variables["abortable"])).To(Equal([]string{noReturn}),
			"an abort is accepted until this step begins")
		Expect(variables["abortable"]).To(ContainSubstring("c.status != 'Unknown'"))
		Expect(named(variables["forcing"])).To(Equal([]string{shrinks}), "or, with force-shrink, this one")
		Expect(named(variables["sourceLosable"])).To(Equal([]string{noReturn, steps.Last().String()}),
			"a lost source is abandoned between these two")
		aborts := steps.AbortTable()
		Expect(variables["released"]).To(
			ContainSubstring("== '" + string(aborts[len(aborts)-1].Finish.Reason) + "'"))
		// The constraint belongs to Gardener.
		Expect(found).To(ConsistOf(steps.First().String(), steps.Last().String(), noReturn, shrinks, beforeHandOver,
			noReturn, steps.Last().String(), string(gardencorev1beta1.ShootReadyForMigration)))
	})

	It("should tell the way out with every refusal", func() {
		for _, validation := range called[*admissionregistrationv1.ValidatingAdmissionPolicy](
			render(charts.Garden, nil), gate.PolicyName).Spec.Validations {
			Expect(validation.Message).To(HavePrefix("livecpm gate: "))
			Expect(strings.SplitN(validation.Message, ". ", 2)).To(HaveLen(2),
				"what is denied, then what to do: "+validation.Message)
			Expect(validation.Reason).To(HaveValue(Equal(metav1.StatusReasonForbidden)))
		}
	})

	It("should refuse removal by the ConfigMap that the controller manager writes, "+
		"and refuse nothing without it", func() {
		objects := render(charts.Garden, map[string]any{"registration": map[string]any{"name": "other"}})
		policy := called[*admissionregistrationv1.ValidatingAdmissionPolicy](objects, removalguard.PolicyName)
		Expect(policy.Spec.ParamKind).
			To(HaveValue(Equal(admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"})))
		Expect(policy.Spec.MatchConstraints.ResourceRules).To(ConsistOf(And(
			HaveField("Operations", ConsistOf(admissionregistrationv1.Delete)),
			HaveField("Resources",
				ConsistOf("controllerregistrations", "controllerdeployments", "controllerinstallations")),
		)))
		Expect(policy.Spec.MatchConditions).
			To(ConsistOf(HaveField("Expression", And(ContainSubstring("registrationRef.?name.orValue('') == 'other'"),
				ContainSubstring("metadata.name == 'other'")))))

		binding := called[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](objects, removalguard.PolicyName)
		Expect(binding.Spec.PolicyName).To(Equal(policy.Name))
		Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
		Expect(binding.Spec.ParamRef).To(HaveValue(Equal(admissionregistrationv1.ParamRef{
			Name: removalguard.ConfigMapName, Namespace: "garden",
			ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
		})))
	})

	It("should give agents that gardenlets install what the seed authorizer does not, and no more", func() {
		objects := render(charts.Garden, map[string]any{
			"registration": map[string]any{"name": "other"},
			"rbac": map[string]any{
				"extension": map[string]any{"enabled": true, "seedsInSeveralRegions": []any{"seed-a", "seed-b"}},
			},
		})
		role := only[*rbacv1.ClusterRole](objects)
		Expect(role.Labels).To(HaveKeyWithValue("authorization.gardener.cloud/custom-extensions-permissions", "true"))
		selector := &metav1.LabelSelector{}
		Expect(json.Unmarshal(
			[]byte(role.Annotations["authorization.gardener.cloud/extensions-serviceaccount-selector"]), selector)).
			To(Succeed())
		Expect(selector).To(
			Equal(&metav1.LabelSelector{
				MatchLabels: map[string]string{"controllerregistration.core.gardener.cloud/name": "other"},
			}))
		Expect(permissions(role.Rules[0])).To(ConsistOf("core.gardener.cloud/seeds get"))
		Expect(role.Rules).To(HaveLen(1))

		regions := only[*rbacv1.Role](objects)
		Expect(regions.Namespace).To(Equal("garden"))
		Expect(regions.Rules).To(ConsistOf(WithTransform(permissions, ConsistOf("/configmaps list"))))
		Expect(only[*rbacv1.RoleBinding](objects).Subjects).To(ConsistOf(
			rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group",
				Name: "system:serviceaccounts:seed-seed-a"},
			rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group",
				Name: "system:serviceaccounts:seed-seed-b"},
		))

		objects = render(charts.Garden,
			map[string]any{"rbac": map[string]any{"extension": map[string]any{"enabled": true}}})
		Expect(names(objects)).NotTo(ContainElement(HavePrefix("v1.Role ")))
	})

	It("should give agents with a gardenlet's identity nothing but reading", func() {
		for _, object := range render(charts.Garden, map[string]any{"rbac": map[string]any{"enabled": true}}) {
			for _, rule := range rulesOf(object) {
				Expect(rule.Verbs).To(HaveEach(BeElementOf("get", "list")))
			}
		}
	})

	It("should bind all roles to the subjects", func() {
		objects := render(charts.Garden, map[string]any{"rbac": map[string]any{
			"enabled": true, "ownIdentity": true,
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "agent", "namespace": "livecpm"}},
		}})
		subject := ConsistOf(And(HaveField("Kind", "ServiceAccount"), HaveField("Name", "agent")))
		Expect(only[*rbacv1.ClusterRoleBinding](objects).Subjects).To(subject)
		Expect(only[*rbacv1.RoleBinding](objects).Subjects).To(subject)
		var deleted []string
		for _, object := range objects {
			for _, rule := range rulesOf(object) {
				Expect(rule.Verbs).NotTo(
					ContainElement(BeElementOf("*", "deletecollection", "escalate", "bind", "impersonate")))
				Expect(rule.Resources).NotTo(ContainElement("*"))
				for _, permission := range permissions(rule) {
					if resource, ok := strings.CutSuffix(permission, " delete"); ok {
						deleted = append(deleted, resource)
					}
				}
			}
		}
		Expect(deleted).To(ConsistOf("/secrets", "core.gardener.cloud/shootstates",
			"core.gardener.cloud/backupentries"), "as the gardenlet does with what belongs to a shoot")
	})
})

var _ = Describe("livecpm-agent", func() {
	It("should have all parts", func() {
		Expect(names(render(charts.Agent, nil))).To(ConsistOf(
			"v1.ConfigMap livecpm-agent",
			"v1.ServiceAccount livecpm-agent",
			"v1.Service livecpm-agent",
			"v1.Deployment livecpm-agent",
			"v1.PodDisruptionBudget livecpm-agent",
			"v1.NetworkPolicy allow-all-egress-from-livecpm-agent",
			"v1.Role livecpm-agent",
			"v1.RoleBinding livecpm-agent",
			"v1.ClusterRole livecpm:agent",
			"v1.ClusterRoleBinding livecpm:agent",
		))
	})

	It("should run the agent with no privileges on the node", func() {
		deployment := only[*appsv1.Deployment](render(charts.Agent, nil))
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))

		pod := deployment.Spec.Template.Spec
		Expect(pod.HostNetwork || pod.HostPID || pod.HostIPC).To(BeFalse())
		Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
		Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
		Expect(pod.PriorityClassName).To(Equal("gardener-system-critical"))
		Expect(pod.Containers).To(HaveLen(1))

		container := pod.Containers[0]
		Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
		Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
		Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
		Expect(container.LivenessProbe).NotTo(BeNil())
		Expect(container.ReadinessProbe).NotTo(BeNil())
		Expect(container.Resources.Requests).NotTo(BeEmpty())

		mounted := map[string]bool{}
		for _, mount := range container.VolumeMounts {
			mounted[mount.Name] = true
			Expect(mount.ReadOnly || mount.MountPath == "/tmp").To(BeTrue())
		}
		for _, volume := range pod.Volumes {
			Expect(mounted).To(HaveKey(volume.Name))
			Expect(volume.HostPath).To(BeNil())
		}
		Expect(mounted).To(HaveLen(len(pod.Volumes)))
	})

	It("should select the pods with Service, PodDisruptionBudget, NetworkPolicy and Deployment alike", func() {
		objects := render(charts.Agent, nil)
		deployment := only[*appsv1.Deployment](objects)
		podLabels := labels.Set(deployment.Spec.Template.Labels)

		Expect(labels.SelectorFromSet(only[*corev1.Service](objects).Spec.Selector).Matches(podLabels)).To(BeTrue())
		for _, selector := range []*metav1.LabelSelector{
			deployment.Spec.Selector,
			only[*policyv1.PodDisruptionBudget](objects).Spec.Selector,
			&only[*networkingv1.NetworkPolicy](objects).Spec.PodSelector,
			deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
		} {
			parsed, err := metav1.LabelSelectorAsSelector(selector)
			Expect(err).NotTo(HaveOccurred())
			Expect(parsed.Matches(podLabels)).To(BeTrue())
			Expect(parsed.Empty()).To(BeFalse())
		}
	})

	It("should write a component configuration that the agent accepts and that fits the mounts", func() {
		objects := render(charts.Agent, map[string]any{
			"relay": map[string]any{"image": map[string]any{"ref": "livecpm.local/livecpm-relay:v1"},
				"imagePullSecrets": []any{map[string]any{"name": "registry"},
					map[string]any{"name": "mirror", "namespace": "registries"}}},
			"config": map[string]any{
				"dns": map[string]any{"margin": "5s", "resolvers": []any{"10.0.0.1:53"}},
				"controllers": map[string]any{"liveMigration": map[string]any{
					"stepDeadlines": map[string]any{"SourceSeedCleanup": "1h"}, "workers": false,
				}},
			},
		})
		config := decodeConfig(objects)
		Expect(agentconfigv1alpha1.Validate(config)).To(BeEmpty())
		Expect(config.Relay).To(Equal(agentconfigv1alpha1.Relay{Image: "livecpm.local/livecpm-relay:v1",
			ImagePullSecrets: []agentconfigv1alpha1.SecretReference{{Namespace: namespace, Name: "registry"},
				{Namespace: "registries", Name: "mirror"}}}))
		Expect(config.LeaderElection.ResourceNamespace).To(Equal(namespace))
		Expect(config.DNS.Margin.Seconds()).To(BeEquivalentTo(5))
		Expect(config.Controllers.LiveMigration.Workers).To(HaveValue(BeFalse()))

		// Every file that the configuration names is mounted.
		container := only[*appsv1.Deployment](objects).Spec.Template.Spec.Containers[0]
		for _, file := range []string{config.GardenClientConnection.Kubeconfig, config.Gardenlet.ConfigurationFile,
			strings.TrimPrefix(container.Args[0], "--config=")} {
			Expect(container.VolumeMounts).To(ContainElement(WithTransform(func(mount corev1.VolumeMount) bool {
				return strings.HasPrefix(file, mount.MountPath+"/")
			}, BeTrue())), file)
		}
		Expect(container.Ports).To(ConsistOf(
			HaveField("ContainerPort", BeEquivalentTo(config.Server.Metrics.Port)),
			HaveField("ContainerPort", BeEquivalentTo(config.Server.HealthProbes.Port)),
		))
		// The role for the leases names them: that of migrations, and that of the relays.
		Expect(only[*rbacv1.Role](objects).Rules).
			To(ContainElement(HaveField("ResourceNames", ConsistOf(config.LeaderElection.ResourceName,
				config.LeaderElection.ResourceName+"-relays"))))
	})

	It("should roll when the configuration changes", func() {
		checksum := func(values map[string]any) string {
			return only[*appsv1.Deployment](render(charts.Agent, values)).Spec.Template.Annotations["checksum/config"]
		}
		Expect(checksum(map[string]any{"config": map[string]any{"logLevel": "debug"}})).NotTo(Equal(checksum(nil)))
	})

	It("should share the gardenlet's image vector overwrites", func() {
		objects := render(charts.Agent, map[string]any{"gardenlet": map[string]any{
			"imageVectorOverwrite":           map[string]any{"configMapName": "overwrite"},
			"componentImageVectorOverwrites": map[string]any{"configMapName": "overwrite-components"},
		}})
		pod := only[*appsv1.Deployment](objects).Spec.Template.Spec
		Expect(pod.Containers[0].Env).To(ContainElements(
			corev1.EnvVar{Name: "IMAGEVECTOR_OVERWRITE",
				Value: "/etc/livecpm-agent/imagevector-overwrite/images_overwrite.yaml"},
			corev1.EnvVar{Name: "IMAGEVECTOR_OVERWRITE_COMPONENTS",
				Value: "/etc/livecpm-agent/imagevector-overwrite-components/components.yaml"},
		))
		Expect(pod.Volumes).To(ContainElements(
			HaveField("VolumeSource.ConfigMap.LocalObjectReference.Name", "overwrite"),
			HaveField("VolumeSource.ConfigMap.LocalObjectReference.Name", "overwrite-components"),
		))
	})

	It("should spread over zones and need no budget for one replica", func() {
		Expect(only[*appsv1.Deployment](render(charts.Agent, map[string]any{"zones": 3})).
			Spec.Template.Spec.TopologySpreadConstraints).To(HaveLen(2))
		Expect(names(render(charts.Agent, map[string]any{"replicaCount": 1}))).
			NotTo(ContainElement(ContainSubstring("PodDisruptionBudget")))
	})

	It("should ask for no permission with a wildcard", func() {
		for _, object := range render(charts.Agent, nil) {
			for _, rule := range rulesOf(object) {
				for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
					Expect(list).NotTo(ContainElement("*"))
				}
				Expect(rule.Verbs).NotTo(ContainElement("impersonate"))
			}
		}
	})

	// ceiling is what the gardenlet may do in the seed.
	ceiling := func() map[string]bool {
		GinkgoHelper()
		rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderEmbeddedFS(
			gardenercharts.ChartGardenlet, gardenercharts.ChartPathGardenlet, "gardenlet", namespace, map[string]any{
				"config": map[string]any{"seedConfig": map[string]any{"metadata": map[string]any{"name": "seed"},
					"spec": map[string]any{"provider": map[string]any{"zones": []any{"a"}}}}},
			})
		Expect(err).NotTo(HaveOccurred())
		out := map[string]bool{}
		for _, manifest := range rendered.Manifests {
			if !strings.Contains(manifest.Name, "/clusterrole-") ||
				!strings.Contains(manifest.Content, "kind: ClusterRole") {
				continue
			}
			object, _, err := strict.Decode([]byte(manifest.Content), nil, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, rule := range object.(*rbacv1.ClusterRole).Rules {
				// Names restrict the gardenlet to single objects; the shoots' objects have others.
				for _, permission := range permissions(rule) {
					out[permission] = true
				}
			}
		}
		Expect(out).NotTo(BeEmpty())
		return out
	}

	It("should stay below the gardenlet's permissions in the seed", func() {
		var above []string
		ceiling := ceiling()
		for _, object := range render(charts.Agent, nil) {
			if role, ok := object.(*rbacv1.ClusterRole); ok {
				for _, rule := range role.Rules {
					for _, permission := range permissions(rule) {
						if !ceiling[permission] {
							above = append(above, permission)
						}
					}
				}
			}
		}
		Expect(above).To(HaveEach(Or(HavePrefix("discovery.k8s.io/endpointslices "), Equal("/pods get"))))

		// A drop-in gardenlet gets just that.
		var given []string
		for _, rule := range only[*rbacv1.ClusterRole](render(charts.Agent, map[string]any{"dropIn": true})).Rules {
			given = append(given, permissions(rule)...)
		}
		Expect(given).To(ConsistOf(above))
	})

	It("should give a drop-in gardenlet the lease that all agents of the seed share", func() {
		pod, dropIn := render(charts.Agent, nil), render(charts.Agent, map[string]any{"dropIn": true})
		Expect(names(dropIn)).To(ConsistOf("v1.ClusterRole livecpm:gardenlet",
			"v1.ClusterRoleBinding livecpm:gardenlet", "v1.Role livecpm-gardenlet", "v1.RoleBinding livecpm-gardenlet"))
		Expect(names(pod)).NotTo(ContainElements(names(dropIn)),
			"where both are installed, one would take the permissions of the other away")
		Expect(only[*rbacv1.Role](dropIn).Rules).To(Equal(only[*rbacv1.Role](pod).Rules))
		Expect(only[*rbacv1.Role](dropIn).Namespace).To(Equal("garden"))
		Expect(only[*rbacv1.RoleBinding](pod).Subjects).To(ConsistOf(HaveField("Name", "livecpm-agent")))
		for _, subjects := range [][]rbacv1.Subject{only[*rbacv1.RoleBinding](dropIn).Subjects,
			only[*rbacv1.ClusterRoleBinding](dropIn).Subjects} {
			Expect(subjects).To(
				ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: "garden", Name: "gardenlet"}))
		}
	})

	It("should adopt what the gardenlet has where it is told to, with nothing to mount", func() {
		objects := render(charts.Agent, map[string]any{"gardenlet": map[string]any{
			"adopt": true, "configMap": map[string]any{"name": ""},
			"gardenKubeconfig": map[string]any{"secretName": ""},
			"deployment":       map[string]any{"namespace": "seed-system"},
		}})
		config := decodeConfig(objects)
		Expect(agentconfigv1alpha1.Validate(config)).To(BeEmpty())
		Expect(config.Gardenlet.Source).
			To(Equal(&agentconfigv1alpha1.GardenletSource{Namespace: "seed-system", Deployment: "gardenlet"}))
		pod := only[*appsv1.Deployment](objects).Spec.Template.Spec
		Expect(pod.InitContainers).
			To(ConsistOf(And(HaveField("Name", "adopt"),
				HaveField("SecurityContext.ReadOnlyRootFilesystem", HaveValue(BeTrue())))))
		for _, volume := range pod.Volumes {
			Expect(volume.Secret).To(BeNil())
		}
	})

	It("should cover all kinds of extensions, which upstream's code lists when it saves the state of a shoot", func() {
		granted := map[string]bool{}
		for _, object := range render(charts.Agent, nil) {
			for _, rule := range rulesOf(object) {
				for _, permission := range permissions(rule) {
					granted[permission] = true
				}
			}
		}
		for kind := range extensionsv1alpha1.AllExtensionKinds {
			// They have no state that moves with a shoot.
			if kind == extensionsv1alpha1.BackupBucketResource || kind == extensionsv1alpha1.BastionResource {
				continue
			}
			plural, _ := meta.UnsafeGuessKindToResource(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind))
			Expect(granted).To(HaveKey("extensions.gardener.cloud/" + plural.Resource + " list"))
		}
	})

	It("should refuse to render without what it cannot do without", func() {
		installed := charts.Release{Chart: charts.Agent, Name: release, Namespace: namespace, Kubernetes: "v1.36.3"}
		_, err := installed.Render(map[string]any{
			"gardenlet": map[string]any{"configMap": map[string]any{"name": ""}},
		})
		Expect(err).To(MatchError(
			ContainSubstring(".Values.gardenlet.configMap.name is required unless .Values.gardenlet.adopt is true")))
	})
})

func decodeConfig(objects []client.Object) *agentconfigv1alpha1.AgentConfiguration {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(agentconfigv1alpha1.AddToScheme(scheme)).To(Succeed())
	config := &agentconfigv1alpha1.AgentConfiguration{}
	_, _, err := serializer.NewCodecFactory(scheme,
		serializer.EnableStrict).UniversalDecoder(agentconfigv1alpha1.SchemeGroupVersion).
		Decode([]byte(only[*corev1.ConfigMap](objects).Data["config.yaml"]), nil, config)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// permissions spells a rule out, one line for each combination of group, resource and verb.
func permissions(rule rbacv1.PolicyRule) []string {
	var out []string
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			out = append(out, url+" "+verb)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				out = append(out, group+"/"+resource+" "+verb)
			}
		}
	}
	return out
}

func rulesOf(object client.Object) []rbacv1.PolicyRule {
	switch role := object.(type) {
	case *rbacv1.ClusterRole:
		return role.Rules
	case *rbacv1.Role:
		return role.Rules
	}
	return nil
}
