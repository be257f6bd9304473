// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

const namespace = "shoot--demo--live"

var _ = Describe("Exposure", func() {
	var (
		ctx    = context.Background()
		c      client.Client
		values Values
		e      Interface
	)

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	get := func(object client.Object) {
		GinkgoHelper()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	}
	relayPod := func(ordinal int, mutate ...func(*corev1.Pod)) {
		GinkgoHelper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", Name, ordinal),
				Labels: map[string]string{"app": Name}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.1.0.%d", ordinal+1),
				Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}},
		}
		for _, m := range mutate {
			m(pod)
		}
		Expect(c.Create(ctx, pod)).To(Succeed())
	}
	hostsOf := func(slice *discoveryv1.EndpointSlice) map[string][]string {
		out := map[string][]string{}
		for _, endpoint := range slice.Endpoints {
			host := ""
			if endpoint.Hostname != nil {
				host = *endpoint.Hostname
			}
			out[host] = append(out[host], endpoint.Addresses...)
		}
		return out
	}

	BeforeEach(func() {
		c = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress", Name: "istio-ingressgateway"},
			Status: corev1.ServiceStatus{
				LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}},
			},
		}).Build()
		values = Values{
			Namespace: namespace, Role: steps.Source, Image: "livecpm.local/livecpm-relay:1",
			TLSSecretName: "livecpm-relay-abc",
			Domain:        "ingress.seed-a.example", PeerDomain: "ingress.seed-b.example",
			Istio: Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway",
				Labels: map[string]string{"istio": "ingressgateway"}},
		}
	})

	JustBeforeEach(func() { e = New(logr.Discard(), c, values) })

	Describe("#Deploy", func() {
		relayConfig := func() *config.Config {
			GinkgoHelper()
			configMap := &corev1.ConfigMap{ObjectMeta: meta(Name)}
			get(configMap)
			cfg := &config.Config{}
			Expect(yaml.UnmarshalStrict([]byte(configMap.Data["config.yaml"]), cfg)).To(Succeed())
			config.SetDefaults(cfg)
			Expect(config.Validate(cfg)).To(BeEmpty())
			Expect(config.ValidateShoot(cfg)).To(BeEmpty())
			return cfg
		}
		remote := func(cfg *config.Config, port int32, name string) config.Remote {
			for _, near := range cfg.Near {
				if near.Port != port {
					continue
				}
				for _, route := range near.Routes {
					for _, inner := range route.InnerSNI {
						if inner == name {
							return route.Remote
						}
					}
				}
			}
			return config.Remote{}
		}
		target := func(cfg *config.Config, name string) string {
			for _, route := range cfg.Far.Routes {
				if route.ServerName == name {
					return route.Target
				}
			}
			return ""
		}

		It("should route from the source to the destination", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			cfg := relayConfig()
			Expect(cfg.Near).To(HaveLen(2))
			Expect(cfg.Near[0].RedialPause.Duration).To(Equal(250 * time.Millisecond))
			Expect(cfg.Near[1].RedialPause.Duration).To(BeZero())
			for _, route := range cfg.Near[1].Routes {
				pause := 250 * time.Millisecond
				if strings.Contains(route.InnerSNI[0], "source-client") {
					pause = 0 // the services for clients have several members
				}
				Expect(route.RedialPause.Duration).To(Equal(pause), route.Remote.ServerName)
			}
			Expect(remote(cfg, 2381, "etcd-main-1.etcd-main-peer.shoot--demo--live.svc")).To(Equal(config.Remote{
				Host: "etcd-main-1--shoot--demo--live.ingress.seed-b.example", Port: 443,
				ServerName: "etcd-main-1--shoot--demo--live.ingress.seed-b.example"}))
			Expect(remote(cfg, 22379, "etcd-events-2.etcd-events-peer.shoot--demo--live.svc").ServerName).
				To(Equal("etcd-events-2-client--shoot--demo--live.ingress.seed-b.example"))
			for _, name := range []string{"etcd-main-client", "etcd-main-client.shoot--demo--live.svc.cluster.local",
				"source-client.etcd-main-peer.shoot--demo--live.svc"} {
				Expect(remote(cfg, 22379, name)).To(Equal(config.Remote{
					Host: "etcd-main-0--shoot--demo--live.ingress.seed-b.example", Port: 443,
					ServerName: "etcd-main-client--shoot--demo--live.ingress.seed-b.example"}), name)
			}
			Expect(target(cfg, "etcd-main-1--shoot--demo--live.ingress.seed-a.example")).
				To(Equal("etcd-main-1.etcd-main-peer.shoot--demo--live.svc.cluster.local.:2380"))
			Expect(target(cfg, "etcd-main-1-client--shoot--demo--live.ingress.seed-a.example")).
				To(Equal("etcd-main-1.etcd-main-peer.shoot--demo--live.svc.cluster.local.:2379"))
			Expect(target(cfg, "etcd-events-client--shoot--demo--live.ingress.seed-a.example")).
				To(Equal("etcd-events-client.shoot--demo--live.svc.cluster.local.:2379"))
		})

		It("should tell connections apart by their host where members have no TLS between peers, and clients as ever",
			func() {
				values.PlainPeers = true
				innerOf := func(peers bool) config.Inner {
					return map[bool]config.Inner{true: config.InnerHTTP}[peers]
				}
				Expect(New(logr.Discard(), c, values).Deploy(ctx)).To(Succeed())
				cfg := relayConfig()
				for _, near := range cfg.Near {
					Expect(near.Inner).To(Equal(innerOf(near.Port == 2381)), "port %d", near.Port)
				}
				for _, route := range cfg.Far.Routes {
					Expect(route.Inner).To(Equal(innerOf(strings.HasSuffix(route.Target, ":2380"))), route.Target)
				}
				Expect(config.Validate(cfg)).To(BeEmpty())
			})

		Context("in the destination", func() {
			BeforeEach(func() {
				values.Role, values.Domain, values.PeerDomain = steps.Destination, values.PeerDomain, values.Domain
			})

			It("should be the mirror image", func() {
				Expect(e.Deploy(ctx)).To(Succeed())
				cfg := relayConfig()
				Expect(remote(cfg, 2380, "etcd-events-0.etcd-events-peer.shoot--demo--live.svc").Host).
					To(Equal("etcd-events-0--shoot--demo--live.ingress.seed-a.example"))
				Expect(remote(cfg, 2381, "etcd-events-0.etcd-events-peer.shoot--demo--live.svc").Host).To(BeEmpty())
				Expect(target(cfg, "etcd-main-1--shoot--demo--live.ingress.seed-b.example")).
					To(Equal("etcd-main-1.etcd-main-peer.shoot--demo--live.svc.cluster.local.:2381"))
			})
		})

		It("should accept for a target what the relay of the other seed accepts for it, and nothing else", func() {
			configOf := func(values Values) *config.Config {
				GinkgoHelper()
				Expect(New(logr.Discard(), c, values).Deploy(ctx)).To(Succeed())
				return relayConfig()
			}
			mirrored := values
			mirrored.Role, mirrored.Domain, mirrored.PeerDomain = steps.Destination, values.PeerDomain, values.Domain
			source, destination := configOf(values), configOf(mirrored)
			for _, way := range []struct{ from, to *config.Config }{{source, destination}, {destination, source}} {
				dialed := map[string][]string{}
				for _, near := range way.from.Near {
					for _, route := range near.Routes {
						dialed[route.Remote.ServerName] = append(dialed[route.Remote.ServerName], route.InnerSNI...)
					}
				}
				Expect(way.to.Far.Routes).To(HaveLen(len(dialed)))
				for _, route := range way.to.Far.Routes {
					Expect(route.InnerSNI).To(ConsistOf(dialed[route.ServerName]), route.ServerName)
				}
			}
		})

		It("should open the ingress gateway for exactly what the relay and its certificate serve", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			_, certificate := CertificateConfigs(namespace, values.Domain)
			var served []string
			for _, route := range relayConfig().Far.Routes {
				served = append(served, route.ServerName)
			}
			Expect(certificate.DNSNames).To(ConsistOf(served))
			Expect(certificate.CertType).To(Equal(secretsutils.ServerClientCert))

			gateway := &istionetworkingv1beta1.Gateway{ObjectMeta: meta(Name)}
			get(gateway)
			Expect(gateway.Spec.Servers).To(HaveLen(1))
			Expect(gateway.Spec.Servers[0].Hosts).To(ConsistOf(served))
			Expect(gateway.Spec.Selector).To(Equal(values.Istio.Labels))
			virtualService := &istionetworkingv1beta1.VirtualService{ObjectMeta: meta(Name)}
			get(virtualService)
			Expect(virtualService.Spec.Hosts).To(ConsistOf(served))
			Expect(virtualService.Spec.Tls[0].Route[0].Destination.Host).
				To(Equal("livecpm-relay.shoot--demo--live.svc.cluster.local"))
			Expect(virtualService.Spec.Tls[0].Route[0].Destination.Port.Number).To(Equal(uint32(8443)))

		})

		It("should make no DNSRecord: the wildcard of the ingress domain covers all names of either side", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			records := &extensionsv1alpha1.DNSRecordList{}
			Expect(c.List(ctx, records, client.InNamespace(namespace))).To(Succeed())
			Expect(records.Items).To(BeEmpty())

			_, certificate := CertificateConfigs(namespace, values.Domain)
			for _, host := range certificate.DNSNames {
				Expect(host).To(MatchRegexp(`^[^.]+\.ingress\.seed-a\.example$`), "a wildcard covers one label")
			}
			for _, near := range relayConfig().Near {
				for _, route := range near.Routes {
					Expect(route.Remote.Host).
						To(MatchRegexp(`^etcd-(main|events)-[012]--shoot--demo--live\.ingress\.seed-b\.example$`))
				}
			}
		})

		It("should run a hardened relay that rolls when its configuration changes", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(Name)}
			get(statefulSet)
			Expect(*statefulSet.Spec.Replicas).To(Equal(int32(3)))
			Expect(statefulSet.Spec.PodManagementPolicy).To(Equal(appsv1.ParallelPodManagement))
			pod := statefulSet.Spec.Template.Spec
			Expect(*pod.AutomountServiceAccountToken).To(BeFalse())
			Expect(*pod.SecurityContext.RunAsNonRoot).To(BeTrue())
			Expect(*pod.SecurityContext.RunAsUser).To(Equal(int64(65532)))
			Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
			Expect(*pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
			Expect(*pod.Containers[0].SecurityContext.AllowPrivilegeEscalation).To(BeFalse())
			Expect(pod.Containers[0].SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
			Expect(pod.HostNetwork || pod.HostPID || pod.HostIPC).To(BeFalse())
			Expect(*pod.EnableServiceLinks).To(BeFalse())
			Expect(pod.Containers[0].Resources.Requests).
				To(And(HaveKey(corev1.ResourceCPU), HaveKey(corev1.ResourceMemory)))
			Expect(pod.Containers[0].VolumeMounts).To(HaveEach(HaveField("ReadOnly", BeTrue())))
			Expect(pod.Volumes[1].Secret.DefaultMode).To(HaveValue(BeEquivalentTo(0o440)))
			Expect(pod.Volumes[1].Secret.SecretName).To(Equal("livecpm-relay-abc"))
			Expect(pod.Containers[0].Args).
				To(
					Equal([]string{"--config=" +
						filepath.Join(pod.Containers[0].VolumeMounts[0].MountPath, "config.yaml")}))
			Expect(relayConfig().TLS.CertFile).To(HavePrefix(pod.Containers[0].VolumeMounts[1].MountPath))
			checksum := statefulSet.Spec.Template.Annotations["checksum/config"]
			get(&policyv1.PodDisruptionBudget{ObjectMeta: meta(Name)})

			values.PeerDomain = "ingress.elsewhere.example"
			Expect(New(logr.Discard(), c, values).Deploy(ctx)).To(Succeed())
			get(statefulSet)
			Expect(statefulSet.Spec.Template.Annotations["checksum/config"]).NotTo(Equal(checksum))
		})

		It("should give the relay the memory that its limits can take, and let the collector know of it", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(Name)}
			get(statefulSet)
			container := statefulSet.Spec.Template.Spec.Containers[0]
			limit := container.Resources.Limits.Memory().Value()
			limits, ports := relayConfig().Limits, int64(len(relayConfig().Near)+1)
			Expect(int64(limits.MaxConnections)*128<<10 + int64(limits.MaxHandshakes)*ports*200<<10).
				To(BeNumerically("<", limit*8/10))
			Expect(container.Resources.Limits).NotTo(HaveKey(corev1.ResourceCPU), "etcd's heartbeats would wait")
			Expect(container.Env).To(ConsistOf(HaveField("Name", "GOMEMLIMIT")))
			soft, err := resource.ParseQuantity(strings.TrimSuffix(container.Env[0].Value, "B"))
			Expect(err).NotTo(HaveOccurred())
			Expect(soft.Value()).To(And(BeNumerically("<", limit), BeNumerically(">", limit*8/10)))
		})

		It("should let nobody in but etcd, the API server, the gateway and the shoot's Prometheus, "+
			"and only to the ports for them", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			policies := &networkingv1.NetworkPolicyList{}
			Expect(c.List(ctx, policies, client.InNamespace(namespace))).To(Succeed())
			relay := labels.Set{"app": Name}
			var from []string
			for _, policy := range policies.Items {
				selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
				Expect(err).NotTo(HaveOccurred())
				Expect(selector.Empty()).To(BeFalse(), policy.Name)
				if !selector.Matches(relay) {
					continue
				}
				Expect(policy.Spec.PolicyTypes).
					To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
				for _, rule := range policy.Spec.Ingress {
					Expect(rule.Ports).NotTo(BeEmpty())
					Expect(rule.From).NotTo(BeEmpty())
					for _, peer := range rule.From {
						Expect(peer.NamespaceSelector).To(BeNil(), "others of the shoot's namespace only")
						Expect(peer.IPBlock).To(BeNil())
						from = append(from, metav1.FormatLabelSelector(peer.PodSelector))
					}
				}
				for _, rule := range policy.Spec.Egress {
					Expect(rule.Ports).NotTo(BeEmpty())
					for _, peer := range rule.To {
						Expect(peer.NamespaceSelector).To(BeNil())
						Expect(peer.IPBlock).To(BeNil())
					}
				}
			}
			// Etcd comes to a port at which nobody listens, too.
			Expect(from).To(ConsistOf("app=etcd-statefulset", "app=etcd-statefulset", "app=kubernetes,role=apiserver",
				"app="+Name))

			// What Gardener's own policies add: for the way between the seeds the gateway in, and the other seed's
			// gateway out; and the shoot's Prometheus in.
			service := &corev1.Service{ObjectMeta: meta(Name)}
			get(service)
			Expect(service.Spec.Ports).
				To(ConsistOf(HaveField("Port", BeEquivalentTo(8443)), HaveField("Port", BeEquivalentTo(22379))))
			Expect(service.Annotations).To(HaveKeyWithValue("networking.resources.gardener.cloud/namespace-selectors",
				`[{"matchLabels":{"kubernetes.io/metadata.name":"garden"}}]`))
			headless := &corev1.Service{ObjectMeta: meta(Name + "-pods")}
			get(headless)
			const toMetrics = "networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports"
			Expect(headless.Annotations).To(Equal(map[string]string{toMetrics: `[{"protocol":"TCP","port":8082}]`}))
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(Name)}
			get(statefulSet)
			Expect(statefulSet.Spec.Template.Labels).To(Equal(map[string]string{
				"app": Name, LabelKey: LabelValue,
				"networking.gardener.cloud/to-dns":              "allowed",
				"networking.gardener.cloud/to-public-networks":  "allowed",
				"networking.gardener.cloud/to-private-networks": "allowed",
			}))
		})

		It("should let packets through on every port that somebody may try, "+
			"so that the wrong one refuses at once", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			ports := func(list []networkingv1.NetworkPolicyPort) (out []int) {
				for _, port := range list {
					out = append(out, port.Port.IntValue())
				}
				return out
			}
			etcdPolicy := &networkingv1.NetworkPolicy{ObjectMeta: meta(Name + "-etcd")}
			get(etcdPolicy)
			Expect(etcdPolicy.Spec.PodSelector.MatchLabels).To(Equal(map[string]string{"app": "etcd-statefulset"}))
			Expect(ports(etcdPolicy.Spec.Ingress[0].Ports)).To(ConsistOf(2379, 2380, 2381))
			Expect(ports(etcdPolicy.Spec.Egress[0].Ports)).To(ConsistOf(2379, 2380, 2381, 22379))
			Expect(ports(etcdPolicy.Spec.Egress[1].Ports)).To(ConsistOf(8080))
			relayPolicy := &networkingv1.NetworkPolicy{ObjectMeta: meta(Name)}
			get(relayPolicy)
			Expect(ports(relayPolicy.Spec.Ingress[0].Ports)).To(ConsistOf(2379, 2380, 2381, 22379))
			Expect(ports(relayPolicy.Spec.Ingress[1].Ports)).To(ConsistOf(8080))
			relays := &appsv1.StatefulSet{ObjectMeta: meta(Name)}
			get(relays)
			Expect(relays.Spec.Template.Spec.Containers).To(HaveEach(HaveField("Ports",
				Not(ContainElement(HaveField("ContainerPort", int32(8080)))))), "a relay must not listen there")
			dialersPolicy := &networkingv1.NetworkPolicy{ObjectMeta: meta(Name + "-dialers")}
			get(dialersPolicy)
			Expect(dialersPolicy.Spec.PodSelector.MatchLabels).
				To(Equal(map[string]string{"app": "kubernetes", "role": "apiserver"}))
		})

		It("should be scraped by the shoot's Prometheus, which finds each relay once", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			monitors := &monitoringv1.ServiceMonitorList{}
			Expect(c.List(ctx, monitors, client.InNamespace(namespace), client.MatchingLabels{"prometheus": "shoot"})).
				To(Succeed())
			Expect(monitors.Items).To(HaveLen(1))
			monitor := monitors.Items[0]
			Expect(monitor.Name).To(Equal("shoot-livecpm-relay"))
			Expect(monitor.Spec.NamespaceSelector).To(BeZero(), "the namespace of the shoot")

			selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
			Expect(err).NotTo(HaveOccurred())
			services := &corev1.ServiceList{}
			Expect(c.List(ctx, services, client.InNamespace(namespace),
				client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
			Expect(services.Items).To(HaveLen(1))
			Expect(services.Items[0].Spec.PublishNotReadyAddresses).To(BeTrue())
			Expect(monitor.Spec.Endpoints).To(HaveLen(1))
			endpoint := monitor.Spec.Endpoints[0]
			Expect(services.Items[0].Spec.Ports).To(ContainElement(And(HaveField("Name", endpoint.Port),
				HaveField("TargetPort.IntVal", relayConfig().Metrics.Port))))
			Expect(endpoint.Scheme).To(BeNil(), "the relay serves its metrics without TLS")
			Expect(endpoint.MetricRelabelConfigs).To(ConsistOf(And(HaveField("Action", "keep"),
				HaveField("Regex", "^(livecpm_relay_.+)$"))))
		})

		It("should refuse incomplete values and names that DNS does not allow", func() {
			values.PeerDomain = ""
			Expect(New(logr.Discard(), c, values).Deploy(ctx)).
				To(MatchError(ContainSubstring("ingress domain of the other seed is unknown")))
			values.PeerDomain, values.Namespace = "b.example", "shoot--"+strings.Repeat("x", 40)
			Expect(New(logr.Discard(), c, values).Deploy(ctx)).To(MatchError(ContainSubstring("DNS allows 63")))
		})
	})

	Describe("#Sync and #KeepClientService", func() {
		It("should do nothing before the relay is deployed", func() {
			relayPod(0)
			Expect(e.Sync(ctx)).To(Succeed())
			slices := &discoveryv1.EndpointSliceList{}
			Expect(c.List(ctx, slices)).To(Succeed())
			Expect(slices.Items).To(BeEmpty())
		})

		It("should publish the relay beside the members of the source", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			relayPod(0)
			relayPod(1, func(p *corev1.Pod) { p.Status.Conditions = nil })
			relayPod(2, func(p *corev1.Pod) { p.Status.PodIP = "" })
			Expect(e.Sync(ctx)).To(Succeed())

			slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-main-peer-livecpm-relay")}
			get(slice)
			Expect(slice.Labels).To(And(HaveKeyWithValue("kubernetes.io/service-name", "etcd-main-peer"),
				HaveKeyWithValue("endpointslice.kubernetes.io/managed-by", "livecpm-agent")))
			Expect(slice.Ports).
				To(ConsistOf(MatchFields(IgnoreExtras,
					Fields{"Name": PointTo(Equal("peer")), "Port": PointTo(Equal(int32(2381)))})))
			Expect(hostsOf(slice)).
				To(Equal(map[string][]string{"etcd-main-0": {"10.1.0.1"}, "etcd-main-1": {"10.1.0.2"}}))
			for _, endpoint := range slice.Endpoints {
				Expect(net.ParseIP(endpoint.Addresses[0])).NotTo(BeNil())
				Expect(*endpoint.Conditions.Ready).To(BeTrue())
			}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-client-livecpm-relay"}, slice)).
				To(MatchError(ContainSubstring("not found")))
		})

		It("should keep the client services alive and up to date from then on", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			Expect(e.KeepClientService(ctx)).To(MatchError(ContainSubstring("no pod of the relay has an address")))
			relayPod(0)
			relayPod(1, func(p *corev1.Pod) { p.Status.Conditions = nil })
			Expect(e.KeepClientService(ctx)).To(Succeed())

			slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-events-client-livecpm-relay")}
			get(slice)
			Expect(slice.Labels).To(HaveKeyWithValue("kubernetes.io/service-name", "etcd-events-client"))
			Expect(slice.Ports).
				To(ConsistOf(MatchFields(IgnoreExtras,
					Fields{"Name": PointTo(Equal("client")), "Port": PointTo(Equal(int32(22379)))})))
			Expect(hostsOf(slice)).To(Equal(map[string][]string{"": {"10.1.0.1"}}))

			relayPod(2)
			Expect(e.Sync(ctx)).To(Succeed())
			get(slice)
			Expect(hostsOf(slice)).To(Equal(map[string][]string{"": {"10.1.0.1", "10.1.0.3"}}))
		})

		DescribeTable("publishes the first addresses of the pods", func(family discoveryv1.AddressType,
			first, second []string) {
			of := func(addresses []string) func(*corev1.Pod) {
				return func(pod *corev1.Pod) {
					pod.Status.PodIP, pod.Status.PodIPs = addresses[0], nil
					for _, address := range addresses {
						pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
					}
				}
			}
			Expect(e.Deploy(ctx)).To(Succeed())
			Expect(e.Sync(ctx)).To(Succeed())
			slices := &discoveryv1.EndpointSliceList{}
			Expect(c.List(ctx, slices)).To(Succeed())
			Expect(slices.Items).To(BeEmpty(), "the family of a slice cannot be changed, and nobody knows it yet")

			relayPod(0, of(first))
			relayPod(1, of(second))
			Expect(e.Sync(ctx)).To(Succeed())
			Expect(e.KeepClientService(ctx)).To(Succeed())
			for name, hosts := range map[string]map[string][]string{
				"etcd-main-peer-livecpm-relay":   {"etcd-main-0": first[:1], "etcd-main-1": second[:1]},
				"etcd-main-client-livecpm-relay": {"": {first[0], second[0]}},
			} {
				slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(name)}
				get(slice)
				Expect(slice.AddressType).To(Equal(family))
				Expect(hostsOf(slice)).To(Equal(hosts))
			}

			By("the pods being gone for a while")
			Expect(c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace))).To(Succeed())
			Expect(e.Sync(ctx)).To(Succeed())
			slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-main-peer-livecpm-relay")}
			get(slice)
			Expect(slice.AddressType).To(Equal(family))
			Expect(slice.Endpoints).To(BeEmpty())
		},
			Entry("IPv4", discoveryv1.AddressTypeIPv4, []string{"10.1.0.1"}, []string{"10.1.0.2"}),
			Entry("IPv6", discoveryv1.AddressTypeIPv6, []string{"fd00::1"}, []string{"fd00::2"}),
			Entry("both, IPv4 first", discoveryv1.AddressTypeIPv4, []string{"10.1.0.1", "fd00::1"},
				[]string{"10.1.0.2", "fd00::2"}),
			Entry("both, IPv6 first", discoveryv1.AddressTypeIPv6, []string{"fd00::1", "10.1.0.1"},
				[]string{"fd00::2", "10.1.0.2"}),
		)

		Context("in the destination", func() {
			BeforeEach(func() { values.Role = steps.Destination })

			It("should also publish the host of the source cluster", func() {
				Expect(e.Deploy(ctx)).To(Succeed())
				relayPod(0)
				relayPod(1)
				Expect(e.Sync(ctx)).To(Succeed())
				slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-events-peer-livecpm-relay")}
				get(slice)
				Expect(hostsOf(slice)).To(Equal(map[string][]string{
					"etcd-events-0": {"10.1.0.1"}, "etcd-events-1": {"10.1.0.2"},
					"source-client": {"10.1.0.1", "10.1.0.2"},
				}))
				Expect(*slice.Ports[0].Port).To(Equal(int32(2380)))
				Expect(e.KeepClientService(ctx)).To(MatchError(ContainSubstring("in the source only")))
			})

			It("should leave the names of the members for good, and stay for those who come from the source", func() {
				watch := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
				values.Clock = watch
				e = New(logr.Discard(), c, values)
				Expect(e.LeaveMembers(ctx)).To(BeZero(), "nothing is deployed")
				Expect(e.Deploy(ctx)).To(Succeed())
				relayPod(0)
				Expect(e.Sync(ctx)).To(Succeed())

				Expect(e.LeaveMembers(ctx)).To(Equal(45 * time.Second))
				left := func() {
					GinkgoHelper()
					for _, name := range []string{"etcd-main-peer-livecpm-relay", "etcd-events-peer-livecpm-relay"} {
						slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(name)}
						get(slice)
						Expect(hostsOf(slice)).To(Equal(map[string][]string{"source-client": {"10.1.0.1"}}))
					}
				}
				left()

				By("an agent that knows nothing but the seed, and a relay that moves")
				Expect(c.Delete(ctx, &corev1.Pod{ObjectMeta: meta(Name + "-0")})).To(Succeed())
				relayPod(0)
				statefulSets, err := ListDeployed(ctx, c)
				Expect(err).NotTo(HaveOccurred())
				Expect(statefulSets).To(HaveLen(1))
				Expect(SyncDeployed(ctx, c, watch, &statefulSets[0])).To(Succeed())
				Expect(e.Sync(ctx)).To(Succeed())
				left()

				By("caches that forget")
				watch.SetTime(watch.Now().Add(44 * time.Second))
				Expect(e.LeaveMembers(ctx)).To(Equal(time.Second))
				watch.SetTime(watch.Now().Add(time.Hour))
				Expect(e.LeaveMembers(ctx)).To(BeZero())
				left()

				By("an agent that publishes the names nevertheless")
				slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-main-peer-livecpm-relay")}
				get(slice)
				slice.Endpoints[0].Hostname = new("etcd-main-0")
				Expect(c.Update(ctx, slice)).To(Succeed())
				Expect(e.LeaveMembers(ctx)).To(Equal(45 * time.Second))
				left()

				By("routes that stay")
				Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &appsv1.StatefulSet{})).
					To(Succeed())
				routes := &istionetworkingv1beta1.VirtualServiceList{}
				Expect(c.List(ctx, routes)).To(Succeed())
				Expect(routes.Items).NotTo(BeEmpty())
			})

			It("should leave the names again that an agent publishes that has read the relay before",
				func() {
					Expect(e.Deploy(ctx)).To(Succeed())
					relayPod(0)
					statefulSets, err := ListDeployed(ctx, c)
					Expect(err).NotTo(HaveOccurred())
					_, err = e.LeaveMembers(ctx)
					Expect(err).NotTo(HaveOccurred())
					By("an agent that has read the StatefulSet before")
					Expect(SyncDeployed(ctx, c, clock.RealClock{}, &statefulSets[0])).To(Succeed())
					Expect(e.LeaveMembers(ctx)).To(BeNumerically(">", 40*time.Second))
					slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("etcd-main-peer-livecpm-relay")}
					get(slice)
					Expect(hostsOf(slice)).NotTo(HaveKey("etcd-main-0"))
				})

			It("should not take an annotation for a time that is none", func() {
				Expect(e.Deploy(ctx)).To(Succeed())
				statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(Name)}
				get(statefulSet)
				statefulSet.Annotations = map[string]string{"livecpm.gardener.cloud/members-left": "yes"}
				Expect(c.Update(ctx, statefulSet)).To(Succeed())
				_, err := e.LeaveMembers(ctx)
				Expect(err).To(MatchError(ContainSubstring(`"yes" is no time; remove the annotation`)))
			})
		})

		It("should not leave the names of members in the source", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			_, err := e.LeaveMembers(ctx)
			Expect(err).To(MatchError(ContainSubstring("in the destination only")))
		})
	})

	Describe("#Destroy", func() {
		It("should leave nothing behind, also when repeated", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			relayPod(0)
			Expect(e.Sync(ctx)).To(Succeed())
			Expect(e.KeepClientService(ctx)).To(Succeed())
			Expect(e.Destroy(ctx)).To(Succeed())
			Expect(e.Destroy(ctx)).To(Succeed())

			for _, list := range []client.ObjectList{
				&corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &networkingv1.NetworkPolicyList{},
				&policyv1.PodDisruptionBudgetList{}, &appsv1.StatefulSetList{},
				&discoveryv1.EndpointSliceList{}, &istionetworkingv1beta1.GatewayList{},
				&istionetworkingv1beta1.VirtualServiceList{}, &istionetworkingv1beta1.DestinationRuleList{},
				&monitoringv1.ServiceMonitorList{},
			} {
				Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
				Expect(list).To(HaveField("Items", BeEmpty()), "%T", list)
			}
			Expect(c.Delete(ctx, &corev1.Pod{ObjectMeta: meta(Name + "-0")})).To(Succeed())
			Expect(e.WaitCleanup(ctx)).To(Succeed())
		})
	})

	Describe("#Withdraw", func() {
		It("should leave the members nothing but the policy of their peer ports", func() {
			Expect(e.Deploy(ctx)).To(Succeed())
			relayPod(0)
			Expect(e.Sync(ctx)).To(Succeed())
			Expect(e.Withdraw(ctx)).To(Succeed())
			Expect(c.Delete(ctx, &corev1.Pod{ObjectMeta: meta(Name + "-0")})).To(Succeed())
			Expect(e.WaitCleanup(ctx)).To(Succeed())

			policies := &networkingv1.NetworkPolicyList{}
			Expect(c.List(ctx, policies, client.InNamespace(namespace))).To(Succeed())
			Expect(policies.Items).To(ConsistOf(HaveField("Name", Name+"-etcd")))
			statefulSets := &appsv1.StatefulSetList{}
			Expect(c.List(ctx, statefulSets, client.InNamespace(namespace))).To(Succeed())
			Expect(statefulSets.Items).To(BeEmpty())

			Expect(e.Destroy(ctx)).To(Succeed())
			Expect(c.List(ctx, policies, client.InNamespace(namespace))).To(Succeed())
			Expect(policies.Items).To(BeEmpty())
		})
	})

	It("should leave no certificate behind that a later relay could trust", func() {
		for _, name := range []string{SecretNameCA, SecretNameCA + "-bundle", Name, "ca-etcd"} {
			secret := &corev1.Secret{ObjectMeta: meta(name + "-0123")}
			secret.Labels = map[string]string{"managed-by": "secrets-manager", "name": name}
			Expect(c.Create(ctx, secret)).To(Succeed())
		}
		Expect(e.Deploy(ctx)).To(Succeed())
		Expect(e.Destroy(ctx)).To(Succeed())
		Expect(e.WaitCleanup(ctx)).To(Succeed())
		secrets := &corev1.SecretList{}
		Expect(c.List(ctx, secrets, client.InNamespace(namespace), client.HasLabels{"name"})).To(Succeed())
		Expect(secrets.Items).To(ConsistOf(HaveField("Name", "ca-etcd-0123")))
	})

	It("should use names that the certificates of etcd cover", func() {
		covered := kubernetesutils.DNSNamesForService("*.etcd-main-peer", namespace)
		for _, host := range []string{naming.MemberHost(namespace, "main", 0),
			naming.SourceClientHost + ".etcd-main-peer." + namespace + ".svc"} {
			_, suffix, _ := strings.Cut(host, ".")
			Expect(covered).To(ContainElement("*." + suffix))
		}
		Expect(naming.PeerURL(steps.Destination, namespace, "main", 2)).
			To(Equal("https://etcd-main-2.etcd-main-peer.shoot--demo--live.svc:2381"))
		Expect(naming.SourceClientEndpoint(namespace, "main")).
			To(Equal("https://source-client.etcd-main-peer.shoot--demo--live.svc:22379"))
	})

	It("should know the ingress domain of a seed", func() {
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}
		Expect(IngressDomain(seed)).To(BeEmpty())
		seed.Spec.Ingress = &gardencorev1beta1.Ingress{Domain: "ingress.seed-a.example"}
		Expect(IngressDomain(seed)).To(Equal("ingress.seed-a.example"))
	})
})
