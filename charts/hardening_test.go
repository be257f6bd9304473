// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
)

// What every pod of the charts has to be, however the charts are configured. The relay, which the agent deploys, has
// the same in pkg/tunnel/exposure.
var _ = Describe("Hardening", func() {
	type values = map[string]any

	variants := map[string]func() []client.Object{
		"livecpm-agent": func() []client.Object { return render(charts.Agent, nil) },
		"livecpm-agent, one replica, with image vector overwrites": func() []client.Object {
			return render(charts.Agent, values{"replicaCount": 1, "gardenlet": values{
				"imageVectorOverwrite":           values{"configMapName": "overwrite"},
				"componentImageVectorOverwrites": values{"configMapName": "components"},
			}})
		},
		"livecpm-agent without roles": func() []client.Object {
			return render(charts.Agent, values{"rbac": values{"enabled": false}})
		},
		"livecpm-controller-manager": func() []client.Object {
			return render(charts.Garden, values{"controllerManager": values{"enabled": true}})
		},
		"livecpm-controller-manager with a kubeconfig": func() []client.Object {
			return render(charts.Garden,
				values{"controllerManager": values{"enabled": true,
					"gardenKubeconfig": values{"secretName": "virtual-garden"}},
					"virtualGarden": values{"enabled": false}})
		},
		"livecpm-controller-manager with a requested token": func() []client.Object {
			// The Secret, which is for Gardener to fill, has a test of its own.
			return slices.DeleteFunc(render(charts.Garden,
				values{"controllerManager": values{"enabled": true,
					"gardenKubeconfig": values{"tokenRequestor": values{"enabled": true}}},
					"virtualGarden": values{"enabled": false}}),
				func(object client.Object) bool {
					return object.GetName() == "shoot-access-livecpm-controller-manager"
				})
		},
	}

	each := func(check func(objects []client.Object)) {
		GinkgoHelper()
		for name, objects := range variants {
			By(name)
			check(objects())
		}
	}

	It("should run one Deployment with one container and nothing else", func() {
		each(func(objects []client.Object) {
			spec := only[*appsv1.Deployment](objects).Spec.Template.Spec
			Expect(spec.Containers).To(HaveLen(1))
			Expect(spec.InitContainers).To(BeEmpty())
			Expect(spec.EphemeralContainers).To(BeEmpty())
			for _, object := range objects {
				switch object.(type) {
				case *corev1.Pod, *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.Secret:
					Fail(fmt.Sprintf("unexpected %T", object))
				}
			}
		})
	})

	It("should run nothing as root and give no way to become it", func() {
		each(func(objects []client.Object) {
			spec := only[*appsv1.Deployment](objects).Spec.Template.Spec
			Expect(spec.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
			for _, id := range []*int64{spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup,
				spec.SecurityContext.FSGroup} {
				Expect(id).To(HaveValue(BeNumerically(">", 0)))
			}
			Expect(spec.SecurityContext.SupplementalGroups).To(BeEmpty())
			Expect(spec.SecurityContext.Sysctls).To(BeEmpty())
			context := spec.Containers[0].SecurityContext
			Expect(context.Privileged).To(BeNil())
			Expect(context.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
			Expect(context.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
			Expect(context.Capabilities.Add).To(BeEmpty())
			// What the container says would win over what the pod says.
			Expect(context.RunAsUser).To(BeNil())
			Expect(context.RunAsNonRoot).To(BeNil())
			Expect(context.SeccompProfile).To(BeNil())
			Expect(context.ProcMount).To(BeNil())
		})
	})

	It("should use the runtime's seccomp profile, and say that Gardener need not set one", func() {
		each(func(objects []client.Object) {
			template := only[*appsv1.Deployment](objects).Spec.Template
			Expect(template.Spec.SecurityContext.SeccompProfile).
				To(HaveValue(Equal(corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault})))
			Expect(template.Labels).To(HaveKeyWithValue("seccompprofile.resources.gardener.cloud/skip", "true"))
		})
	})

	It("should share nothing with the node", func() {
		each(func(objects []client.Object) {
			spec := only[*appsv1.Deployment](objects).Spec.Template.Spec
			Expect(spec.HostNetwork || spec.HostPID || spec.HostIPC).To(BeFalse())
			Expect(spec.ShareProcessNamespace).To(BeNil())
			for _, port := range spec.Containers[0].Ports {
				Expect(port.HostPort).To(BeZero())
				Expect(port.ContainerPort).To(BeNumerically(">", 1024))
			}
			for _, volume := range spec.Volumes {
				source := volume.VolumeSource
				if source.Projected != nil {
					for _, part := range source.Projected.Sources {
						Expect(part.ConfigMap != nil || part.Secret != nil).To(BeTrue(), volume.Name)
					}
					continue
				}
				Expect(source.ConfigMap != nil || source.Secret != nil || source.EmptyDir != nil).To(BeTrue(),
					volume.Name)
			}
		})
	})

	It("should write nowhere but into a small /tmp", func() {
		each(func(objects []client.Object) {
			spec := only[*appsv1.Deployment](objects).Spec.Template.Spec
			Expect(spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
			writable := map[string]bool{}
			for _, mount := range spec.Containers[0].VolumeMounts {
				if !mount.ReadOnly {
					Expect(mount.MountPath).To(Equal("/tmp"))
					writable[mount.Name] = true
				}
				Expect(mount.SubPath).To(BeEmpty(), "a sub path is not renewed with its Secret")
			}
			for _, volume := range spec.Volumes {
				Expect(volume.EmptyDir != nil).To(Equal(writable[volume.Name]))
				if volume.EmptyDir != nil {
					Expect(volume.EmptyDir.SizeLimit.Value()).To(BeNumerically(">", 0))
				}
				if volume.Projected != nil {
					Expect(volume.Projected.DefaultMode).To(HaveValue(BeEquivalentTo(0o440)))
					for _, part := range volume.Projected.Sources {
						if part.Secret != nil {
							Expect(part.Secret.Items).NotTo(BeEmpty(), "only what is used of a Secret")
						}
					}
				}
				if volume.Secret != nil {
					Expect(volume.Secret.DefaultMode).To(HaveValue(BeEquivalentTo(0o440)))
					Expect(volume.Secret.Items).NotTo(BeEmpty(), "only what is used of a Secret")
				}
			}
		})
	})

	It("should mount a token only where the API server of the own cluster is asked", func() {
		each(func(objects []client.Object) {
			account := only[*corev1.ServiceAccount](objects)
			Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse()),
				"no other pod gets a token by accident")
			deployment := only[*appsv1.Deployment](objects)
			spec := deployment.Spec.Template.Spec
			Expect(spec.ServiceAccountName).To(Equal(account.Name))
			kubeconfigOnly := deployment.Name == "livecpm-controller-manager" && hasVolume(spec, "garden-kubeconfig")
			Expect(spec.AutomountServiceAccountToken).To(HaveValue(Equal(!kubeconfigOnly)))
			Expect(deployment.Spec.Template.Labels).
				To(HaveKeyWithValue("projected-token-mount.resources.gardener.cloud/skip", "true"))
		})
	})

	It("should request what it needs and bound its memory, not its CPU", func() {
		each(func(objects []client.Object) {
			resources := only[*appsv1.Deployment](objects).Spec.Template.Spec.Containers[0].Resources
			Expect(resources.Requests.Cpu().IsZero()).To(BeFalse())
			Expect(resources.Requests.Memory().IsZero()).To(BeFalse())
			Expect(resources.Limits.Memory().Cmp(*resources.Requests.Memory())).To(BeNumerically(">", 0))
			Expect(resources.Limits).NotTo(HaveKey(corev1.ResourceCPU), "leader election would miss its deadlines")
		})
	})

	It("should let nobody in but Gardener's Prometheus, and him to the metrics only", func() {
		each(func(objects []client.Object) {
			deployment := only[*appsv1.Deployment](objects)
			policy := only[*networkingv1.NetworkPolicy](objects)
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			Expect(err).NotTo(HaveOccurred())
			Expect(selector.Matches(labels.Set(deployment.Spec.Template.Labels))).To(BeTrue())
			Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress))
			Expect(policy.Spec.Ingress).To(BeEmpty())

			service := only[*corev1.Service](objects)
			var allowed []networkingv1.NetworkPolicyPort
			for key, value := range service.Annotations {
				Expect(key).To(HavePrefix("networking.resources.gardener.cloud/from-all-"))
				Expect(key).To(HaveSuffix("-scrape-targets-allowed-ports"))
				Expect(json.Unmarshal([]byte(value), &allowed)).To(Succeed())
			}
			metrics := deployment.Spec.Template.Spec.Containers[0].Ports[0]
			Expect(metrics.Name).To(Equal("metrics"))
			Expect(allowed).To(ConsistOf(networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP),
				Port: new(intstr.FromInt32(metrics.ContainerPort))}))
			Expect(service.Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
			Expect(service.Spec.Ports).To(HaveLen(1))
			Expect(service.Spec.Ports[0].TargetPort).To(Equal(intstr.FromString("metrics")))
		})
	})

	It("should ask Gardener's policies for the ways out that it takes", func() {
		const allowed = "allowed"
		Expect(only[*appsv1.Deployment](render(charts.Agent, nil)).Spec.Template.Labels).To(And(
			HaveKeyWithValue("networking.gardener.cloud/to-dns", allowed),
			HaveKeyWithValue("networking.gardener.cloud/to-runtime-apiserver", allowed),
			HaveKeyWithValue("networking.gardener.cloud/to-public-networks", allowed),
			HaveKeyWithValue("networking.gardener.cloud/to-private-networks", allowed),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-all-shoots-kube-apiserver-tcp-443", allowed),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-all-shoots-livecpm-relay-tcp-22379", allowed),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-all-shoots-etcd-main-client-tcp-2379", allowed),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-all-shoots-etcd-events-client-tcp-2379", allowed),
		))
		runtime := only[*appsv1.Deployment](variants["livecpm-controller-manager"]()).Spec.Template.Labels
		Expect(runtime).To(HaveKeyWithValue("networking.gardener.cloud/to-runtime-apiserver", allowed))
		Expect(runtime).NotTo(HaveKey("networking.gardener.cloud/to-public-networks"))
		virtual := only[*appsv1.Deployment](variants["livecpm-controller-manager with a kubeconfig"]()).
			Spec.Template.Labels
		Expect(virtual).To(HaveKeyWithValue(
			"networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443", allowed))
		Expect(virtual).NotTo(HaveKey("networking.gardener.cloud/to-runtime-apiserver"))
	})

	It("should pass nothing secret by environment or arguments", func() {
		each(func(objects []client.Object) {
			container := only[*appsv1.Deployment](objects).Spec.Template.Spec.Containers[0]
			Expect(container.EnvFrom).To(BeEmpty())
			for _, variable := range container.Env {
				Expect(variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil).To(BeTrue(), variable.Name)
			}
			Expect(container.Args).To(HaveEach(HavePrefix("--config=")))
		})
	})
})

func hasVolume(spec corev1.PodSpec, name string) bool {
	for _, volume := range spec.Volumes {
		if volume.Name == name {
			return true
		}
	}
	return false
}
