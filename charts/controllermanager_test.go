// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

var _ = Describe("livecpm-garden's controller manager", func() {
	type values = map[string]any

	// with renders the chart with the controller manager and the given values of it.
	with := func(controllerManager values, others ...values) []client.Object {
		GinkgoHelper()
		all := values{"controllerManager": values{"enabled": true}}
		for key, value := range controllerManager {
			all["controllerManager"].(values)[key] = value
		}
		for _, other := range others {
			for key, value := range other {
				all[key] = value
			}
		}
		return render(charts.Garden, all)
	}
	configOf := func(objects []client.Object) *configv1alpha1.ControllerManagerConfiguration {
		GinkgoHelper()
		config, err := configv1alpha1.DecodeControllerManager(
			[]byte(only[*corev1.ConfigMap](objects).Data["config.yaml"]))
		Expect(err).NotTo(HaveOccurred())
		return config
	}
	off, virtual := values{"enabled": false}, []any{
		"v1.ValidatingAdmissionPolicy " + gate.PolicyName,
		"v1.ValidatingAdmissionPolicyBinding " + gate.PolicyName,
		"v1.ValidatingAdmissionPolicy " + removalguard.PolicyName,
		"v1.ValidatingAdmissionPolicyBinding " + removalguard.PolicyName,
		"v1.ValidatingAdmissionPolicy " + removalguard.ReplacementPolicyName,
		"v1.ValidatingAdmissionPolicyBinding " + removalguard.ReplacementPolicyName,
		"v1.ClusterRole livecpm:controller-manager",
		"v1.ClusterRoleBinding livecpm:controller-manager",
		"v1.Role livecpm:controller-manager",
		"v1.RoleBinding livecpm:controller-manager",
		"v1.Role livecpm:controller-manager:history",
		"v1.RoleBinding livecpm:controller-manager:history",
		"v1.Role livecpm:controller-manager:removal",
		"v1.RoleBinding livecpm:controller-manager:removal",
		"v1.Role livecpm:controller-manager:drain",
		"v1.RoleBinding livecpm:controller-manager:drain",
	}
	runtime := []any{
		"v1.ConfigMap livecpm-controller-manager",
		"v1.ServiceAccount livecpm-controller-manager",
		"v1.Service livecpm-controller-manager",
		"v1.Deployment livecpm-controller-manager",
		"v1.PodDisruptionBudget livecpm-controller-manager",
		"v1.NetworkPolicy allow-egress-from-livecpm-controller-manager",
	}

	It("should have all parts where virtual garden and runtime are one cluster", func() {
		Expect(names(with(nil))).To(ConsistOf(append(append([]any{}, virtual...), runtime...)...))
	})

	It("should split into what is for the virtual garden and what is for the runtime cluster", func() {
		Expect(names(with(nil, values{"runtime": off}))).To(ConsistOf(virtual...))
		Expect(names(with(nil, values{"virtualGarden": off}))).To(ConsistOf(runtime...))
		Expect(names(with(nil, values{"virtualGarden": off, "rbac": values{"enabled": true}}))).
			To(ConsistOf(runtime...), "the agents' access is to the virtual garden")
		Expect(names(render(charts.Garden, values{"virtualGarden": off}))).To(BeEmpty())
	})

	It("should run with no privileges on the node", func() {
		deployment := only[*appsv1.Deployment](with(nil))
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))

		pod := deployment.Spec.Template.Spec
		Expect(pod.HostNetwork || pod.HostPID || pod.HostIPC).To(BeFalse())
		Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
		Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
		Expect(pod.Containers).To(HaveLen(1))
		container := pod.Containers[0]
		Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
		Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
		Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
		Expect(container.LivenessProbe.HTTPGet.Path).To(Equal("/healthz"))
		Expect(container.ReadinessProbe.HTTPGet.Path).To(Equal("/readyz"))
		Expect(container.Resources.Requests).NotTo(BeEmpty())
		Expect(container.VolumeMounts).To(HaveEach(HaveField("ReadOnly", BeTrue())))
		Expect(container.VolumeMounts).To(HaveLen(len(pod.Volumes)))
	})

	It("should write a configuration that the controller manager accepts and that fits "+
		"Deployment and permissions", func() {
		objects := with(nil)
		config := configOf(objects)
		Expect(config.GardenClientConnection.Kubeconfig).To(BeEmpty())
		Expect(config.Controllers.GateWatchdog.Restore).To(HaveValue(BeTrue()))

		pod := only[*appsv1.Deployment](objects).Spec.Template.Spec
		Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeTrue()))
		Expect(pod.ServiceAccountName).To(Equal(only[*corev1.ServiceAccount](objects).Name))
		Expect(pod.Containers[0].Args).To(ConsistOf("--config=/etc/livecpm-controller-manager/config/config.yaml"))
		Expect(pod.Containers[0].Ports).To(ConsistOf(
			HaveField("ContainerPort", BeEquivalentTo(config.Server.Metrics.Port)),
			HaveField("ContainerPort", BeEquivalentTo(config.Server.HealthProbes.Port)),
		))
		role := called[*rbacv1.Role](objects, "livecpm:controller-manager")
		Expect(role.Namespace).To(Equal(config.LeaderElection.ResourceNamespace))
		Expect(role.Rules).To(ContainElement(HaveField("ResourceNames", ConsistOf(config.LeaderElection.ResourceName))))
		// The defaults of the API and of the chart name the same lease.
		defaults := &configv1alpha1.ControllerManagerConfiguration{}
		configv1alpha1.SetControllerManagerDefaults(defaults)
		Expect(config.LeaderElection).To(Equal(defaults.LeaderElection))

		subject := ConsistOf(And(HaveField("Kind", "ServiceAccount"), HaveField("Name", "livecpm-controller-manager"),
			HaveField("Namespace", namespace)))
		Expect(only[*rbacv1.ClusterRoleBinding](objects).Subjects).To(subject)
		Expect(called[*rbacv1.RoleBinding](objects, "livecpm:controller-manager").Subjects).To(subject)
		Expect(called[*rbacv1.RoleBinding](objects, "livecpm:controller-manager:drain").Subjects).To(subject)
	})

	It("should reach a virtual garden with a kubeconfig and somebody's identity", func() {
		objects := with(values{
			"gardenKubeconfig": values{"secretName": "virtual-garden", "key": "config"},
			"subjects": []any{
				values{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "watchdog"},
			},
		})
		file := configOf(objects).GardenClientConnection.Kubeconfig
		pod := only[*appsv1.Deployment](objects).Spec.Template.Spec
		Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Containers[0].VolumeMounts).To(ContainElement(WithTransform(func(mount corev1.VolumeMount) bool {
			return strings.HasPrefix(file, mount.MountPath+"/")
		}, BeTrue())))
		Expect(pod.Volumes).To(ContainElement(HaveField("VolumeSource.Secret", And(
			HaveField("SecretName", "virtual-garden"),
			HaveField("Items", ConsistOf(corev1.KeyToPath{Key: "config", Path: "kubeconfig"})),
		))))
		subject := ConsistOf(And(HaveField("Kind", "User"), HaveField("Name", "watchdog")))
		Expect(only[*rbacv1.ClusterRoleBinding](objects).Subjects).To(subject)
		Expect(called[*rbacv1.RoleBinding](objects, "livecpm:controller-manager").Subjects).To(subject)
		Expect(called[*rbacv1.RoleBinding](objects, "livecpm:controller-manager:drain").Subjects).To(subject)
	})

	It("should reach a virtual garden with a token that Gardener requests and keeps fresh", func() {
		requestor := values{"gardenKubeconfig": values{"tokenRequestor": values{"enabled": true,
			"server": "https://virtual-garden.example"}}}
		objects := with(requestor)

		// What Gardener's own components have for the virtual garden.
		own := gardenerutils.NewShootAccessSecret("livecpm-controller-manager", namespace)
		secret := only[*corev1.Secret](objects)
		Expect(secret.Name).To(Equal(own.Secret.Name))
		Expect(secret.Labels).To(And(HaveKeyWithValue(resourcesv1alpha1.ResourceManagerClass, own.Class),
			HaveKeyWithValue(resourcesv1alpha1.ResourceManagerPurpose, resourcesv1alpha1.LabelPurposeTokenRequest)))
		Expect(secret.Annotations).To(Equal(map[string]string{
			resourcesv1alpha1.ServiceAccountName:           own.ServiceAccountName,
			resourcesv1alpha1.ServiceAccountNamespace:      metav1.NamespaceSystem,
			resourcesv1alpha1.ServiceAccountInjectCABundle: "true",
		}))
		Expect(secret.Data).To(BeEmpty(), "an upgrade would take the token away")
		Expect(secret.StringData).To(BeEmpty())

		file := configOf(objects).GardenClientConnection.Kubeconfig
		pod := only[*appsv1.Deployment](objects).Spec.Template.Spec
		Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		mount := pod.Containers[0].VolumeMounts[1]
		Expect(file).To(Equal(mount.MountPath + "/kubeconfig"))
		volume := pod.Volumes[1]
		Expect(volume.Name).To(Equal(mount.Name))
		Expect(volume.Projected.Sources).To(ConsistOf(
			HaveField("ConfigMap", And(HaveField("Name", "livecpm-controller-manager"),
				HaveField("Items", ConsistOf(corev1.KeyToPath{Key: "kubeconfig", Path: "kubeconfig"})))),
			HaveField("Secret", And(HaveField("Name", secret.Name), HaveField("Items", ConsistOf(
				corev1.KeyToPath{Key: resourcesv1alpha1.DataKeyToken, Path: "token"},
				corev1.KeyToPath{Key: resourcesv1alpha1.DataKeyCABundle, Path: "bundle.crt"})))),
		))
		kubeconfig, err := clientcmd.Load([]byte(only[*corev1.ConfigMap](objects).Data["kubeconfig"]))
		Expect(err).NotTo(HaveOccurred())
		Expect(kubernetes.ValidateConfigWithAllowList(*kubeconfig, []string{kubernetes.AuthTokenFile})).To(Succeed())
		current := kubeconfig.Contexts[kubeconfig.CurrentContext]
		Expect(kubeconfig.Clusters[current.Cluster].Server).To(Equal("https://virtual-garden.example"))
		Expect(kubeconfig.Clusters[current.Cluster].CertificateAuthority).To(Equal("bundle.crt"))
		Expect(kubeconfig.AuthInfos[current.AuthInfo].TokenFile).To(Equal("token"))

		// The Job that is asked before a removal goes the same way.
		job := only[*batchv1.Job](withHooks(charts.Garden, values{"controllerManager": values{"enabled": true,
			"gardenKubeconfig": requestor["gardenKubeconfig"]}}))
		Expect(job.Spec.Template.Spec.Volumes).To(Equal(pod.Volumes))
		Expect(job.Spec.Template.Labels).To(
			HaveKey("networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443"))
		subject := ConsistOf(And(HaveField("Kind", "ServiceAccount"), HaveField("Name", own.ServiceAccountName),
			HaveField("Namespace", metav1.NamespaceSystem)))
		Expect(only[*rbacv1.ClusterRoleBinding](objects).Subjects).To(subject)
		Expect(called[*rbacv1.RoleBinding](objects, "livecpm:controller-manager").Subjects).To(subject)
		Expect(names(with(requestor, values{"runtime": off}))).
			To(ConsistOf(virtual...), "the Secret is beside the pods")
	})

	It("should refuse two ways to the virtual garden", func() {
		installed := charts.Release{Chart: charts.Garden, Name: release, Namespace: namespace, Kubernetes: "v1.36.3"}
		_, err := installed.Render(values{"controllerManager": values{"enabled": true, "gardenKubeconfig": values{
			"secretName": "virtual-garden", "tokenRequestor": values{"enabled": true}}}})
		Expect(err).To(MatchError(ContainSubstring("there is one way to the garden")))
	})

	It("should be allowed to write nothing but the two objects of the gate, what a drain moves and tells, "+
		"what is in flight and what was, entries of former backups, events and its lease", func() {
		Expect(granted(with(nil))).To(ConsistOf(
			"core.gardener.cloud/seeds patch", "core.gardener.cloud/seeds/status patch",
			"core.gardener.cloud/shoots patch", "core.gardener.cloud/shoots/binding patch",
			"/configmaps create", "/configmaps patch", "/configmaps delete",
			"/configmaps create", "/configmaps patch livecpm-in-flight",
			"/configmaps create", "/configmaps patch livecpm-history",
			"admissionregistration.k8s.io/validatingadmissionpolicies create",
			"admissionregistration.k8s.io/validatingadmissionpolicybindings create",
			"admissionregistration.k8s.io/validatingadmissionpolicies update livecpm-gate",
			"admissionregistration.k8s.io/validatingadmissionpolicybindings update livecpm-gate",
			"core.gardener.cloud/shoots/status patch",
			"/events create", "events.k8s.io/events create", "events.k8s.io/events patch",
			"core.gardener.cloud/backupentries create",
			"core.gardener.cloud/backupentries patch",
			"core.gardener.cloud/backupentries/status patch",
			"coordination.k8s.io/leases create",
			"coordination.k8s.io/leases update livecpm-controller-manager-leader-election",
		))
	})

	It("should not be allowed to drain where that is switched off", func() {
		objects := with(values{"config": values{"controllers": values{"drain": values{"enabled": false}}}})
		Expect(configOf(objects).Controllers.Drain.Enabled).To(HaveValue(BeFalse()))
		Expect(granted(objects)).NotTo(ContainElement(Or(
			ContainSubstring("seeds"), Equal("/configmaps patch"), Equal("/configmaps delete"),
			ContainSubstring("shoots patch"), ContainSubstring("shoots/binding"),
		)))
		Expect(granted(objects)).To(ContainElement("core.gardener.cloud/shoots/status patch"))
	})

	It("should not be allowed to write down what is in flight where that is switched off", func() {
		objects := with(values{"config": values{"controllers": values{"removalGuard": values{"enabled": false}}}})
		Expect(configOf(objects).Controllers.RemovalGuard.Enabled).To(HaveValue(BeFalse()))
		Expect(granted(objects)).NotTo(ContainElement(HaveSuffix(removalguard.ConfigMapName)))
		Expect(names(objects)).NotTo(ContainElement(ContainSubstring(":removal")))
		Expect(called[*rbacv1.Role](with(nil), "livecpm:controller-manager:removal").Namespace).To(Equal("garden"))
	})

	It("should not be allowed to create BackupEntries where that is switched off", func() {
		objects := with(values{"config": values{"controllers": values{"formerBackups": values{"enabled": false}}}})
		Expect(configOf(objects).Controllers.FormerBackups.Enabled).To(HaveValue(BeFalse()))
		Expect(granted(objects)).NotTo(ContainElement(ContainSubstring("backupentries")))
	})

	It("should not be allowed to write the objects of the gate where it only reports", func() {
		objects := with(values{"config": values{"controllers": values{"gateWatchdog": values{"restore": false}}}})
		Expect(configOf(objects).Controllers.GateWatchdog.Restore).To(HaveValue(BeFalse()))
		Expect(granted(objects)).NotTo(ContainElement(HavePrefix("admissionregistration.k8s.io/")))
		Expect(only[*rbacv1.ClusterRole](objects).Rules).To(ContainElement(And(
			HaveField("Resources", ContainElement("validatingadmissionpolicies")),
			HaveField("Verbs", ConsistOf("get", "list", "watch")),
		)))
	})

	It("should select the pods with Service, PodDisruptionBudget, NetworkPolicy and Deployment alike, "+
		"and not those of the agent", func() {
		objects := with(nil)
		deployment := only[*appsv1.Deployment](objects)
		podLabels := labels.Set(deployment.Spec.Template.Labels)
		agentLabels := labels.Set(only[*appsv1.Deployment](render(charts.Agent, nil)).Spec.Template.Labels)

		selectors := []labels.Selector{labels.SelectorFromSet(only[*corev1.Service](objects).Spec.Selector)}
		for _, selector := range []*metav1.LabelSelector{
			deployment.Spec.Selector,
			only[*policyv1.PodDisruptionBudget](objects).Spec.Selector,
			&only[*networkingv1.NetworkPolicy](objects).Spec.PodSelector,
			deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
		} {
			parsed, err := metav1.LabelSelectorAsSelector(selector)
			Expect(err).NotTo(HaveOccurred())
			selectors = append(selectors, parsed)
		}
		for _, selector := range selectors {
			Expect(selector.Empty()).To(BeFalse())
			Expect(selector.Matches(podLabels)).To(BeTrue())
			Expect(selector.Matches(agentLabels)).To(BeFalse())
		}
	})

	It("should roll when the configuration changes, spread over zones and need no budget for one replica", func() {
		checksum := func(objects []client.Object) string {
			return only[*appsv1.Deployment](objects).Spec.Template.Annotations["checksum/config"]
		}
		Expect(checksum(with(values{"config": values{"logLevel": "debug"}}))).NotTo(Equal(checksum(with(nil))))
		Expect(only[*appsv1.Deployment](with(values{"zones": 3})).Spec.Template.Spec.TopologySpreadConstraints).
			To(HaveLen(2))
		Expect(names(with(values{"replicaCount": 1}))).NotTo(ContainElement(ContainSubstring("PodDisruptionBudget")))
	})

	It("should mount what the drain's webhook is told with, if there is a Secret", func() {
		secrets := func(objects []client.Object) (out []string) {
			for _, volume := range only[*appsv1.Deployment](objects).Spec.Template.Spec.Volumes {
				if volume.Secret != nil {
					out = append(out, volume.Name+" "+volume.Secret.SecretName)
				}
			}
			return out
		}
		Expect(secrets(with(nil))).To(BeEmpty())
		objects := with(values{"drainWebhook": values{"secretName": "hook"}})
		Expect(secrets(objects)).To(Equal([]string{"drain-webhook hook"}))
		Expect(only[*appsv1.Deployment](objects).Spec.Template.Spec.Containers[0].VolumeMounts).
			To(ContainElement(corev1.VolumeMount{Name: "drain-webhook", ReadOnly: true,
				MountPath: "/etc/livecpm-controller-manager/webhook"}))
	})

	It("should let the pods reach the API server and DNS only", func() {
		egress := only[*networkingv1.NetworkPolicy](
			with(values{"networkPolicy": values{"apiServerPorts": []any{8443}}})).Spec.Egress
		var ports []string
		for _, rule := range egress {
			Expect(rule.Ports).NotTo(BeEmpty())
			for _, port := range rule.Ports {
				ports = append(ports, string(*port.Protocol)+" "+port.Port.String())
			}
		}
		Expect(ports).To(ConsistOf("UDP 53", "TCP 53", "UDP 8053", "TCP 8053", "TCP 8443"))
	})
})

// granted spells out what the roles permit beyond reading, with the name if a rule is bound to one.
func granted(objects []client.Object) []string {
	out := []string{}
	for _, object := range objects {
		for _, rule := range rulesOf(object) {
			for _, permission := range permissions(rule) {
				switch verb := permission[strings.LastIndex(permission, " ")+1:]; {
				case verb == "get" || verb == "list" || verb == "watch":
				case len(rule.ResourceNames) > 0:
					out = append(out, permission+" "+strings.Join(rule.ResourceNames, ","))
				default:
					out = append(out, permission)
				}
			}
		}
	}
	return out
}

// called returns the only object of the type that has the name.
func called[T client.Object](objects []client.Object, name string) T {
	GinkgoHelper()
	var out []T
	for _, object := range objects {
		if typed, ok := object.(T); ok && typed.GetName() == name {
			out = append(out, typed)
		}
	}
	Expect(out).To(HaveLen(1))
	return out[0]
}
