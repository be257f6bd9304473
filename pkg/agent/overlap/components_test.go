// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap_test

import (
	"context"
	"net"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/component/kubernetes/apiserverexposure"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/gardenlet/operation/garden"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
)

const namespace = "shoot--demo--live"

// only returns the one object of the type.
func only[T client.Object](objects []client.Object) T {
	GinkgoHelper()
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	Expect(found).To(HaveLen(1))
	return found[0]
}

var _ = Describe("The twins of Gardener's components", func() {
	var (
		ctx  = context.Background()
		seed client.Client
		b    *botanist.Botanist
	)

	cidr := func(text string) net.IPNet {
		_, out, err := net.ParseCIDR(text)
		Expect(err).NotTo(HaveOccurred())
		return *out
	}
	env := func(container corev1.Container, name string) string {
		for _, variable := range container.Env {
			if variable.Name == name {
				return variable.Value
			}
		}
		return ""
	}
	// everything returns the names of all objects that the template refers to.
	references := func(spec corev1.PodSpec) []string {
		out := []string{spec.ServiceAccountName}
		for _, volume := range spec.Volumes {
			switch {
			case volume.Secret != nil:
				out = append(out, volume.Secret.SecretName)
			case volume.ConfigMap != nil:
				out = append(out, volume.ConfigMap.Name)
			case volume.Projected != nil:
				for _, source := range volume.Projected.Sources {
					out = append(out, source.Secret.Name)
				}
			}
		}
		return out
	}
	expectOwnNames := func(name string, objects []client.Object) {
		GinkgoHelper()
		for _, object := range objects {
			Expect(object.GetName()).To(HavePrefix("livecpm-"), "%T", object)
			Expect(object.GetNamespace()).To(Equal("kube-system"), "%T", object)
			Expect(object.GetLabels()).To(HaveKeyWithValue(overlap.LabelTwin, name), "%T", object)
			// The resource manager deletes what has this label and no workload of its own that refers to it.
			Expect(object.GetLabels()).NotTo(HaveKey("resources.gardener.cloud/garbage-collectable-reference"), "%T",
				object)
			for key := range object.GetAnnotations() {
				Expect(key).NotTo(HavePrefix("reference.resources.gardener.cloud/"))
			}
		}
	}

	newBotanist := func(ha bool, clients int) *botanist.Botanist {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}).Build()
		manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, seed, "gardenlet",
			secretsmanager.WithCASecretAutoRotation(), secretsmanager.WithNamespaces(namespace))
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"ca-vpn", "ca"} {
			_, err := manager.Generate(ctx, &secretsutils.CertificateSecretConfig{Name: name, CommonName: name,
				CertType: secretsutils.CACert}, secretsmanager.Persist())
			Expect(err).NotTo(HaveOccurred())
		}

		shoot := &shootpkg.Shoot{
			ControlPlaneNamespace:      namespace,
			InternalClusterDomain:      new("live.demo.internal.example.com"),
			ExternalClusterDomain:      new("live.demo.example.com"),
			VPNHighAvailabilityEnabled: ha, VPNHighAvailabilityNumberOfSeedServers: 2,
			VPNHighAvailabilityNumberOfShootClients: clients,
			WantsVerticalPodAutoscaler:              true,
			Networks: &shootpkg.Networks{
				Pods: []net.IPNet{cidr("100.64.0.0/11")}, Services: []net.IPNet{cidr("100.104.0.0/13")},
				Nodes: []net.IPNet{cidr("10.250.0.0/16")},
			},
		}
		shoot.SetInfo(&gardencorev1beta1.Shoot{Spec: gardencorev1beta1.ShootSpec{
			Networking: &gardencorev1beta1.Networking{
				IPFamilies: []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4},
			},
			DNS:        &gardencorev1beta1.DNS{Domain: new("live.demo.example.com")},
			Kubernetes: gardencorev1beta1.Kubernetes{Version: "1.34.1"},
		}})
		seedObject := &seedpkg.Seed{}
		seedObject.SetInfo(&gardencorev1beta1.Seed{
			Spec: gardencorev1beta1.SeedSpec{Networks: gardencorev1beta1.SeedNetworks{Pods: "10.1.0.0/16"}},
		})
		return &botanist.Botanist{Operation: &gardeneroperation.Operation{
			Logger: logr.Discard(), Shoot: shoot, Seed: seedObject, SecretsManager: manager,
			Garden:        &garden.Garden{InternalDomain: &gardenerutils.Domain{Provider: "local"}},
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(seed).WithVersion("v1.34.1").Build(),
		}}
	}

	Describe("of the VPN client", func() {
		It("should connect as many clients behind the regular ones, with certificates of their own", func() {
			b = newBotanist(true, 4)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			objects, err := components.VPN(ctx, "livecpm-vpn.live.demo.internal.example.com", 2)
			Expect(err).NotTo(HaveOccurred())
			expectOwnNames(overlap.VPN, objects)

			statefulSet := only[*appsv1.StatefulSet](objects)
			Expect(statefulSet.Name).To(Equal("livecpm-vpn-shoot"))
			Expect(*statefulSet.Spec.Replicas).To(Equal(int32(2)))
			Expect(statefulSet.Spec.Ordinals.Start).To(Equal(int32(2)))
			pod := statefulSet.Spec.Template
			Expect(pod.Spec.Containers).To(HaveLen(3))
			for _, container := range pod.Spec.Containers[:2] {
				Expect(env(container, "ENDPOINT")).To(Equal("livecpm-vpn.live.demo.internal.example.com"))
				Expect(env(container, "REVERSED_VPN_HEADER")).
					To(MatchRegexp(`^outbound\|1194\|\|vpn-seed-server-[01]\.shoot--demo--live\.svc\.cluster\.local$`))
				var mounts []string
				for _, mount := range container.VolumeMounts {
					mounts = append(mounts, mount.MountPath)
				}
				// The client looks for its certificate by its ordinal.
				Expect(mounts).To(ContainElements("/srv/secrets/vpn-client-2", "/srv/secrets/vpn-client-3"))
				Expect(mounts).NotTo(ContainElement("/srv/secrets/vpn-client-0"))
			}
			Expect(env(pod.Spec.Containers[2], "HA_VPN_CLIENTS")).To(Equal("2"))

			// The regular one's objects must not find these pods, and these must not find the regular ones.
			Expect(pod.Labels).To(HaveKeyWithValue("app", "livecpm-vpn-shoot"))
			Expect(statefulSet.Spec.Selector.MatchLabels).
				To(Equal(map[string]string{"app": "livecpm-vpn-shoot", overlap.LabelTwin: overlap.VPN}))
			Expect(only[*policyv1.PodDisruptionBudget](objects).Spec.Selector.MatchLabels).
				To(HaveKeyWithValue("app", "livecpm-vpn-shoot"))
			Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue("worker.gardener.cloud/system-components", "true"))
			Expect(pod.Spec.Tolerations).To(ConsistOf(corev1.Toleration{Operator: corev1.TolerationOpExists}))

			names := map[string]bool{}
			secrets := 0
			for _, object := range objects {
				names[object.GetName()] = true
				if _, ok := object.(*corev1.Secret); ok {
					secrets++
				}
			}
			Expect(secrets).To(Equal(4), "CA, key and two certificates")
			for _, reference := range references(pod.Spec) {
				Expect(names).To(HaveKey(reference))
			}
		})

		It("should connect one client where the VPN is not highly available", func() {
			b = newBotanist(false, 4)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			objects, err := components.VPN(ctx, "livecpm-vpn.example.com", 2)
			Expect(err).NotTo(HaveOccurred())
			expectOwnNames(overlap.VPN, objects)
			deployment := only[*appsv1.Deployment](objects)
			Expect(*deployment.Spec.Replicas).To(Equal(int32(1)))
			Expect(env(deployment.Spec.Template.Spec.Containers[0], "ENDPOINT")).To(Equal("livecpm-vpn.example.com"))
		})

		It("should open the network for its own pods only", func() {
			b = newBotanist(true, 4)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			objects, err := components.VPN(ctx, "livecpm-vpn.example.com", 2)
			Expect(err).NotTo(HaveOccurred())
			policies := map[string]*networkingv1.NetworkPolicy{}
			for _, object := range objects {
				if policy, ok := object.(*networkingv1.NetworkPolicy); ok {
					policies[policy.Name] = policy
				}
			}
			Expect(policies["livecpm-gardener.cloud--allow-vpn"].Spec.PodSelector.MatchLabels).
				To(Equal(map[string]string{"app": "livecpm-vpn-shoot"}))
			fromSeed := policies["livecpm-gardener.cloud--allow-from-seed"]
			Expect(fromSeed.Spec.PodSelector.MatchLabels).
				To(HaveKeyWithValue("networking.gardener.cloud/from-seed", "allowed"))
			Expect(fromSeed.Spec.Ingress[0].From[0].PodSelector.MatchLabels).
				To(HaveKeyWithValue("app", "livecpm-vpn-shoot"))
		})

		It("should write nothing into the seed but secrets, and leave the botanist its client", func() {
			b = newBotanist(true, 4)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.SeedClientSet.Client()).To(BeIdenticalTo(seed))
			_, err = components.VPN(ctx, "livecpm-vpn.example.com", 2)
			Expect(err).NotTo(HaveOccurred())
			secrets := &corev1.SecretList{}
			Expect(seed.List(ctx, secrets)).To(Succeed())
			for _, secret := range secrets.Items {
				Expect(secret.Labels).To(HaveKeyWithValue("managed-by", "secrets-manager"))
			}
		})

		It("should need more clients than the regular ones", func() {
			b = newBotanist(true, 2)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			_, err = components.VPN(ctx, "livecpm-vpn.example.com", 2)
			Expect(err).To(MatchError(ContainSubstring("the shoot has 2 clients in all, 2 of them regular ones")))
		})
	})

	Describe("of the apiserver-proxy", func() {
		It("should serve another address on every node without getting in the way of the regular one", func() {
			b = newBotanist(true, 2)
			components, err := overlap.NewComponents(b)
			Expect(err).NotTo(HaveOccurred())
			objects, err := components.APIServerProxy(ctx, "240.4.5.6")
			Expect(err).NotTo(HaveOccurred())
			expectOwnNames(overlap.APIServerProxy, objects)

			config := only[*corev1.ConfigMap](objects).Data["envoy.yaml"]
			Expect(config).To(ContainSubstring("address: 240.4.5.6"))
			Expect(config).To(ContainSubstring("address: api.live.demo.internal.example.com"))
			Expect(config).To(ContainSubstring(apiserverexposure.GetAPIServerProxyTargetClusterName(namespace)))
			Expect(config).NotTo(ContainSubstring("16910"))

			daemonSet := only[*appsv1.DaemonSet](objects)
			pod := daemonSet.Spec.Template
			Expect(pod.Spec.HostNetwork).To(BeTrue())
			var interfaces []string
			for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				for _, arg := range container.Args {
					if strings.HasPrefix(arg, "--interface=") {
						interfaces = append(interfaces, strings.TrimPrefix(arg, "--interface="))
					}
					Expect(arg).NotTo(ContainSubstring("--ip-address=240.1"))
				}
				for _, port := range container.Ports {
					Expect(port.HostPort).To(Equal(int32(16912)))
					Expect(port.ContainerPort).To(Equal(int32(16912)))
				}
				if container.ReadinessProbe != nil {
					Expect(container.ReadinessProbe.HTTPGet.Port.IntValue()).To(Equal(16912))
				}
			}
			Expect(interfaces).To(ConsistOf("livecpm-proxy", "livecpm-proxy"))
			Expect(len(interfaces[0])).To(BeNumerically("<=", 15), "the kernel takes no longer names")
			Expect(pod.Labels).To(HaveKeyWithValue("role", "livecpm-apiserver-proxy"))
			Expect(daemonSet.Spec.Selector.MatchLabels).To(HaveKeyWithValue("role", "livecpm-apiserver-proxy"))
			Expect(pod.Spec.NodeSelector).To(BeEmpty(), "it has to be on every node")

			names := map[string]bool{}
			for _, object := range objects {
				names[object.GetName()] = true
				Expect(object).NotTo(BeAssignableToTypeOf(&corev1.Service{}))
			}
			for _, reference := range references(pod.Spec) {
				Expect(names).To(HaveKey(reference))
			}
		})
	})
})
