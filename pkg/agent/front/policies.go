// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	"github.com/gardener/gardener/pkg/utils"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// Gardener's resource manager derives policies from the service for clients: pods with the label for one of its ports
// may connect to the pods that the service selects. When the selector changes, the policies change a moment later, and
// what they permitted to and from the other pods is forbidden. These policies permit it to the members as well as to
// the front's pods, to the same pods as Gardener does, for as long as the front exists. It is needed:
//   - by every client right after the selector has changed, in either direction;
//   - by the agent, which asks members by the addresses of their pods, while the service leads to the front;
//   - by members' sidecars, which ask the sidecar of the leader, while the service leads to the front.
//
// The members' peers need it as well, because the service for clients has the port of the peers, too. The policy of the
// exposure permits them; it is removed after these (Tunnel.Destroy).
const (
	// policyFront is for the pods of the front.
	policyFront = ""
	// policyEtcd is for the members.
	policyEtcd = "-etcd"
	// policyClients is for pods that may ask etcd.
	policyClients = "-clients"
	// policySnapshots is for pods that may ask the sidecars.
	policySnapshots = "-snapshots"
	// policyRelay is for the relay, which reaches etcd's service for clients of the other seed, and by which the front
	// reaches the only member of the source.
	policyRelay = "-relay"
)

var policySuffixes = []string{policyFront, policyEtcd, policyClients, policySnapshots, policyRelay}

func (c *component) mutatePolicy(policy *networkingv1.NetworkPolicy, suffix string) {
	policy.Labels = utils.MergeStringMaps(policy.Labels, ourLabels())
	switch suffix {
	case policyFront:
		policy.Spec = spec(c.podLabels(),
			[]networkingv1.NetworkPolicyIngressRule{
				{From: append(c.permitted(naming.PortClient), podsWith(relayLabels())),
					Ports: ports(naming.PortClient)},
				{From: c.permitted(etcdconstants.PortBackupRestore), Ports: ports(etcdconstants.PortBackupRestore)},
			},
			[]networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{podsWith(c.etcdLabels())},
				Ports: ports(naming.PortClient, etcdconstants.PortBackupRestore),
			}})
		if c.alone() {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				From: []networkingv1.NetworkPolicyPeer{podsWith(c.etcdLabels())}, Ports: ports(naming.PortClient)})
			policy.Spec.Egress = append(policy.Spec.Egress, networkingv1.NetworkPolicyEgressRule{
				To: []networkingv1.NetworkPolicyPeer{podsWith(relayLabels())}, Ports: ports(naming.PortRelayClient)})
		}
	case policyEtcd:
		var egress []networkingv1.NetworkPolicyEgressRule
		front := podsWith(c.podLabels())
		if c.alone() {
			// Gardener gives its label for the service for clients to highly available members only, and the sidecar of
			// the one that joins asks that service.
			egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{front},
				Ports: ports(naming.PortClient)}}
		}
		policy.Spec = spec(c.etcdLabels(), []networkingv1.NetworkPolicyIngressRule{
			{From: append(c.permitted(naming.PortClient), front), Ports: ports(naming.PortClient)},
			{From: append(c.permitted(etcdconstants.PortBackupRestore), front),
				Ports: ports(etcdconstants.PortBackupRestore)},
		}, egress)
	case policyClients:
		policy.Spec = c.egress(naming.PortClient)
	case policySnapshots:
		policy.Spec = c.egress(etcdconstants.PortBackupRestore)
	case policyRelay:
		var ingress []networkingv1.NetworkPolicyIngressRule
		if c.alone() {
			ingress = []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{podsWith(c.podLabels())},
				Ports: ports(naming.PortRelayClient),
			}}
		}
		policy.Spec = spec(relayLabels(), ingress, []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{podsWith(c.podLabels())}, Ports: ports(naming.PortClient),
		}})
	}
}

// egress lets the pods of the namespace with Gardener's label for the port connect to front and members.
func (c *component) egress(port int32) networkingv1.NetworkPolicySpec {
	return spec(c.clientLabels(port), nil, []networkingv1.NetworkPolicyEgressRule{{
		To:    []networkingv1.NetworkPolicyPeer{podsWith(c.podLabels()), podsWith(c.etcdLabels())},
		Ports: ports(port),
	}})
}

// permitted are those who may connect to the port of the service for clients, as Gardener's labels say: pods of the
// namespace, and pods in the garden namespace, where the agent runs.
func (c *component) permitted(port int32) []networkingv1.NetworkPolicyPeer {
	fromGarden := gardenerutils.NetworkPolicyLabel(v1beta1constants.LabelNetworkPolicyShootNamespaceAlias+"-"+
		naming.ClientServiceName(c.etcdRole), port)
	return []networkingv1.NetworkPolicyPeer{podsWith(c.clientLabels(port)), {
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			fromGarden: v1beta1constants.LabelNetworkPolicyAllowed}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			corev1.LabelMetadataName: v1beta1constants.GardenNamespace}},
	}}
}

// clientLabels is Gardener's label of pods in the namespace that may connect to the port of the service for clients.
func (c *component) clientLabels(port int32) map[string]string {
	key := gardenerutils.NetworkPolicyLabel(naming.ClientServiceName(c.etcdRole), port)
	return map[string]string{key: v1beta1constants.LabelNetworkPolicyAllowed}
}

// etcdLabels select the members as Gardener labels them.
func (c *component) etcdLabels() map[string]string {
	return map[string]string{v1beta1constants.LabelApp: etcd.LabelAppValue, v1beta1constants.LabelRole: c.etcdRole}
}

func relayLabels() map[string]string {
	return map[string]string{v1beta1constants.LabelApp: naming.Relay}
}

func spec(
	pods map[string]string, ingress []networkingv1.NetworkPolicyIngressRule,
	egress []networkingv1.NetworkPolicyEgressRule,
) networkingv1.NetworkPolicySpec {
	out := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods}, Ingress: ingress, Egress: egress,
	}
	if ingress != nil {
		out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyTypeIngress)
	}
	if egress != nil {
		out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	return out
}

func podsWith(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

func ports(numbers ...int32) []networkingv1.NetworkPolicyPort {
	out := make([]networkingv1.NetworkPolicyPort, 0, len(numbers))
	for _, number := range numbers {
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP),
			Port: new(intstr.FromInt32(number))})
	}
	return out
}

// followed reports whether Gardener's policies for the service for clients are about the pods that it selects, and not
// about the front's any more. Without them, none has to follow.
func (c *component) followed(policies []networkingv1.NetworkPolicy) error {
	front := podsWith(c.podLabels())
	for _, policy := range policies {
		peers := []networkingv1.NetworkPolicyPeer{{PodSelector: &policy.Spec.PodSelector}}
		for _, rule := range policy.Spec.Egress {
			peers = append(peers, rule.To...)
		}
		for _, peer := range peers {
			if peer.PodSelector != nil && metav1.FormatLabelSelector(peer.PodSelector) ==
				metav1.FormatLabelSelector(front.PodSelector) {
				return fmt.Errorf("NetworkPolicy %s/%s is still about the pods of the front; "+
					"gardener-resource-manager has to change it", policy.Namespace, policy.Name)
			}
		}
	}
	return nil
}

// derivedLabels mark the policies that Gardener derives from the service for clients.
func (c *component) derivedLabels() map[string]string {
	return map[string]string{
		resourcesv1alpha1.NetworkingServiceName:      naming.ClientServiceName(c.etcdRole),
		resourcesv1alpha1.NetworkingServiceNamespace: c.namespace,
	}
}
