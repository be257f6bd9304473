// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	"github.com/gardener/gardener/pkg/utils"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/istio"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"istio.io/api/annotation"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	headlessServiceName = Name + "-pods"

	annotationChecksum = "checksum/config"

	// userNonRoot is the user of images without a shell.
	userNonRoot = 65532
)

// objects are the exposure's objects with a fixed name, without the EndpointSlices.
type objects struct {
	configMap                              *corev1.ConfigMap
	service, headlessService               *corev1.Service
	serviceMonitor                         *monitoringv1.ServiceMonitor
	relayPolicy, dialersPolicy, etcdPolicy *networkingv1.NetworkPolicy
	podDisruptionBudget                    *policyv1.PodDisruptionBudget
	statefulSet                            *appsv1.StatefulSet
	gateway                                *istionetworkingv1beta1.Gateway
	destinationRule                        *istionetworkingv1beta1.DestinationRule
	virtualService                         *istionetworkingv1beta1.VirtualService
}

func (e *exposure) objects() objects {
	return objects{
		configMap:           &corev1.ConfigMap{ObjectMeta: e.objectMeta(Name)},
		service:             &corev1.Service{ObjectMeta: e.objectMeta(Name)},
		headlessService:     &corev1.Service{ObjectMeta: e.objectMeta(headlessServiceName)},
		serviceMonitor:      e.emptyServiceMonitor(),
		relayPolicy:         &networkingv1.NetworkPolicy{ObjectMeta: e.objectMeta(Name)},
		dialersPolicy:       &networkingv1.NetworkPolicy{ObjectMeta: e.objectMeta(Name + "-dialers")},
		etcdPolicy:          &networkingv1.NetworkPolicy{ObjectMeta: e.objectMeta(Name + "-etcd")},
		podDisruptionBudget: &policyv1.PodDisruptionBudget{ObjectMeta: e.objectMeta(Name)},
		statefulSet:         &appsv1.StatefulSet{ObjectMeta: e.objectMeta(Name)},
		gateway:             &istionetworkingv1beta1.Gateway{ObjectMeta: e.objectMeta(Name)},
		destinationRule:     &istionetworkingv1beta1.DestinationRule{ObjectMeta: e.objectMeta(Name)},
		virtualService:      &istionetworkingv1beta1.VirtualService{ObjectMeta: e.objectMeta(Name)},
	}
}

func ourLabels() map[string]string { return map[string]string{LabelKey: LabelValue} }

func (e *exposure) mutateConfigMap(configMap *corev1.ConfigMap, config string) {
	configMap.Labels = utils.MergeStringMaps(configMap.Labels, ourLabels())
	configMap.Data = map[string]string{configFile: config}
}

func (e *exposure) mutateService(service *corev1.Service) error {
	service.Labels = utils.MergeStringMaps(service.Labels, ourLabels())
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotation.NetworkingExportTo.Name, e.values.Istio.Namespace)

	// The agent runs in the garden namespace and asks the other seed's etcd through the relay. With these annotations
	// gardener-resource-manager lets pods pass that carry the label for this service; it does the same for the ingress
	// gateway, because a VirtualService points here.
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, resourcesv1alpha1.NetworkingPodLabelSelectorNamespaceAlias,
		v1beta1constants.LabelNetworkPolicyShootNamespaceAlias)
	if err := gardenerutils.InjectNetworkPolicyNamespaceSelectors(service, metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: v1beta1constants.GardenNamespace},
	}); err != nil {
		return fmt.Errorf("failed to annotate service %s: %w", service.Name, err)
	}

	service.Spec.Type = corev1.ServiceTypeClusterIP
	service.Spec.Selector = podSelector()
	service.Spec.Ports = kubernetesutils.ReconcileServicePorts(service.Spec.Ports, []corev1.ServicePort{
		{Name: "tls-gateway", Protocol: corev1.ProtocolTCP, Port: PortRelayGateway,
			TargetPort: intstr.FromInt32(PortRelayGateway)},
		{Name: "tls-client", Protocol: corev1.ProtocolTCP, Port: naming.PortRelayClient,
			TargetPort: intstr.FromInt32(naming.PortRelayClient)},
	}, corev1.ServiceTypeClusterIP)
	return nil
}

func (e *exposure) mutateHeadlessService(service *corev1.Service) error {
	service.Labels = utils.MergeStringMaps(service.Labels, ourLabels(), podSelector())
	// gardener-resource-manager lets the shoot's Prometheus through to this port.
	if err := gardenerutils.InjectNetworkPolicyAnnotationsForScrapeTargets(service,
		policyPorts(portRelayMetrics)...); err != nil {
		return fmt.Errorf("failed to annotate service %s: %w", service.Name, err)
	}
	service.Spec.ClusterIP = corev1.ClusterIPNone
	service.Spec.Selector = podSelector()
	service.Spec.PublishNotReadyAddresses = true
	service.Spec.Ports = kubernetesutils.ReconcileServicePorts(service.Spec.Ports, []corev1.ServicePort{
		{Name: "tls-gateway", Protocol: corev1.ProtocolTCP, Port: PortRelayGateway,
			TargetPort: intstr.FromInt32(PortRelayGateway)},
		{Name: portNameMetrics, Protocol: corev1.ProtocolTCP, Port: portRelayMetrics,
			TargetPort: intstr.FromInt32(portRelayMetrics)},
	}, corev1.ServiceTypeClusterIP)
	return nil
}

// mutatePodDisruptionBudget lets one relay go at a time. A relay is available when it is ready, which is when it is in
// use (ConditionInUse). One that is not in use yet may go at any time: it is the one that is missing already.
func (e *exposure) mutatePodDisruptionBudget(pdb *policyv1.PodDisruptionBudget) {
	pdb.Labels = utils.MergeStringMaps(pdb.Labels, ourLabels())
	pdb.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: podSelector()}
	pdb.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
}

func (e *exposure) mutateStatefulSet(statefulSet *appsv1.StatefulSet, config string, zones []string) {
	statefulSet.Labels = utils.MergeStringMaps(statefulSet.Labels, ourLabels(), skipWebhook())
	// Every etcd member needs an address of its own: etcd compares peer URLs by what they resolve to.
	statefulSet.Spec.Replicas = new(int32(naming.MembersPerSeed))
	statefulSet.Spec.ServiceName = headlessServiceName
	statefulSet.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	statefulSet.Spec.Selector = &metav1.LabelSelector{MatchLabels: podSelector()}
	statefulSet.Spec.Template.ObjectMeta = metav1.ObjectMeta{
		Labels: utils.MergeStringMaps(podSelector(), ourLabels(), map[string]string{
			v1beta1constants.LabelNetworkPolicyToDNS:             v1beta1constants.LabelNetworkPolicyAllowed,
			v1beta1constants.LabelNetworkPolicyToPublicNetworks:  v1beta1constants.LabelNetworkPolicyAllowed,
			v1beta1constants.LabelNetworkPolicyToPrivateNetworks: v1beta1constants.LabelNetworkPolicyAllowed,
		}),
		Annotations: map[string]string{annotationChecksum: utils.ComputeSHA256Hex([]byte(config))},
	}
	statefulSet.Spec.Template.Spec = e.relayPod(zones)
}

// relayPod has no annotation "safe-to-evict" for the cluster autoscaler. With "false", up to three nodes could not be
// scaled down for the hours of a pause, and nothing would be gained: the autoscaler evicts pods as everybody does, so
// the budget lets it take one relay at a time, and the next one when the replacement is in use. With "true", it would
// be permitted no more than it is: the pod has a controller and nothing local.
func (e *exposure) relayPod(zones []string) corev1.PodSpec {
	pod := Pod(podSelector(), 10, e.relayContainer(), []corev1.Volume{
		ConfigVolume("config", Name), SecretVolume("tls", e.values.TLSSecretName),
	})
	place(&pod, podSelector(), zones)
	pod.ImagePullSecrets = e.values.PullSecrets.References()
	pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: ConditionInUse}}
	return pod
}

func (e *exposure) relayContainer() corev1.Container {
	return corev1.Container{
		Name:  relayName,
		Image: e.values.Image,
		Args:  []string{"--config=" + mountPathConfig + "/" + configFile},
		Ports: []corev1.ContainerPort{
			{Name: "gateway", ContainerPort: PortRelayGateway, Protocol: corev1.ProtocolTCP},
			{Name: "client", ContainerPort: naming.PortRelayClient, Protocol: corev1.ProtocolTCP},
			{Name: peerPortName, ContainerPort: naming.PeerPort(e.values.Role.Peer()), Protocol: corev1.ProtocolTCP},
			{Name: portNameMetrics, ContainerPort: portRelayMetrics, Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: portRelayHealth, Protocol: corev1.ProtocolTCP},
		},
		// The requests are what relays have used in a migration under load (docs/benchmarks.md: 61 s of CPU in 571 s
		// for all six, and 41 MiB for the largest). The limit holds with all connections that the configuration
		// permits. There is none for CPU: etcd's heartbeats would wait for the next period.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("20m"),
				corev1.ResourceMemory: resource.MustParse("48Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: mountPathConfig, ReadOnly: true},
			{Name: "tls", MountPath: mountPathTLS, ReadOnly: true},
		},
	}
}

// etcdPorts are the ports that somebody may try at an etcd pod or at the relay under the same name. One of the two
// refuses; a policy that dropped the packets instead would cost the dialer a timeout at every attempt.
func etcdPorts() []networkingv1.NetworkPolicyPort {
	return policyPorts(naming.PortClient, naming.PortPeerSource, naming.PortPeerDestination)
}

// refusedPorts are ports that no relay listens on, and that members may come to nevertheless: a sidecar that passes a
// request on to that of the leader has only the member's name, which leads to the relay as well. Where a relay refuses
// the connection, the next address is taken at once. A connection that a policy drops is waited for until the kernel
// gives it up, which takes more than two minutes, because those who dial set no time.
func refusedPorts() []networkingv1.NetworkPolicyPort {
	return policyPorts(etcdconstants.PortBackupRestore)
}

func policyPorts(ports ...int32) []networkingv1.NetworkPolicyPort {
	out := make([]networkingv1.NetworkPolicyPort, 0, len(ports))
	for _, port := range ports {
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP),
			Port: new(intstr.FromInt32(port))})
	}
	return out
}

func relayPeer() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: podSelector()}}
}

func etcdSelector() metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{v1beta1constants.LabelApp: etcd.LabelAppValue}}
}

func apiServerSelector() metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{
		v1beta1constants.LabelApp:  v1beta1constants.LabelKubernetes,
		v1beta1constants.LabelRole: v1beta1constants.LabelAPIServer,
	}}
}

// mutateRelayPolicy lets the relay's pods be dialed by etcd, kube-apiserver and each other, and dial etcd and each
// other.
func (e *exposure) mutateRelayPolicy(policy *networkingv1.NetworkPolicy) {
	policy.Labels = utils.MergeStringMaps(policy.Labels, ourLabels())
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: new(etcdSelector())},
		{PodSelector: new(apiServerSelector())}, relayPeer()}
	policy.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: podSelector()},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: peers, Ports: append(etcdPorts(), policyPorts(naming.PortRelayClient)...)},
			{From: []networkingv1.NetworkPolicyPeer{{PodSelector: new(etcdSelector())}}, Ports: refusedPorts()},
		},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			// Traffic to a service is judged by its endpoints, and after the retirement of the source's members the
			// endpoints of its client services are relay pods.
			To:    []networkingv1.NetworkPolicyPeer{{PodSelector: new(etcdSelector())}, relayPeer()},
			Ports: append(etcdPorts(), policyPorts(naming.PortRelayClient)...),
		}},
	}
}

// mutateDialersPolicy lets kube-apiserver dial the relay.
func (e *exposure) mutateDialersPolicy(policy *networkingv1.NetworkPolicy) {
	policy.Labels = utils.MergeStringMaps(policy.Labels, ourLabels())
	policy.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: apiServerSelector(),
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{To: []networkingv1.NetworkPolicyPeer{relayPeer()}, Ports: policyPorts(naming.PortRelayClient)},
		},
	}
}

// mutateEtcdPolicy lets the etcd members dial the relay and each other, and be dialed by them, on the peer ports of
// both sides. Gardener's own policies know the port of the ordinary specification only.
func (e *exposure) mutateEtcdPolicy(policy *networkingv1.NetworkPolicy) {
	policy.Labels = utils.MergeStringMaps(policy.Labels, ourLabels())
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: new(etcdSelector())}, relayPeer()}
	policy.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: etcdSelector(),
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: etcdPorts()}},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{To: peers, Ports: append(etcdPorts(), policyPorts(naming.PortRelayClient)...)},
			{To: []networkingv1.NetworkPolicyPeer{relayPeer()}, Ports: refusedPorts()},
		},
	}
}

func (e *exposure) serviceHost() string {
	return kubernetesutils.FQDNForService(Name, e.values.Namespace)
}

func (e *exposure) gatewayMutation(gateway *istionetworkingv1beta1.Gateway) func() error {
	return istio.GatewayWithTLSPassthrough(gateway, ourLabels(), e.values.Istio.Labels,
		hosts(e.values.Namespace, e.values.Domain))
}

func (e *exposure) virtualServiceMutation(
	virtualService *istionetworkingv1beta1.VirtualService, gateway *istionetworkingv1beta1.Gateway,
) func() error {
	return istio.VirtualServiceWithSNIMatch(virtualService, ourLabels(), []string{e.values.Istio.Namespace},
		hosts(e.values.Namespace, e.values.Domain), gateway.Name, PortRelayGateway, e.serviceHost())
}

func (e *exposure) destinationRuleMutation(destinationRule *istionetworkingv1beta1.DestinationRule) func() error {
	return istio.DestinationRuleWithLocalityPreference(destinationRule, ourLabels(), []string{e.values.Istio.Namespace},
		e.serviceHost())
}
