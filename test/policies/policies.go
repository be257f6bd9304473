// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package policies judges by NetworkPolicies which connections are permitted, as a network that enforces them does. It
// lets tests compute it, without a cluster. The landscape's judge (kube-network-policies) keeps its own judgement to
// itself.
package policies

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// World is what the judgement depends on.
type World struct {
	// Namespaces are those of all pods.
	Namespaces []corev1.Namespace
	// Policies are those of all namespaces.
	Policies []networkingv1.NetworkPolicy
}

// End is one end of a connection.
type End struct {
	// Pod is nil outside of the cluster. Its namespace, labels and container ports count.
	Pod *corev1.Pod
	// Address is the address that the packets have.
	Address netip.Addr
}

// Permits reports whether a TCP connection from one end to a port of the other one is permitted: by the policies of the
// pod that makes it, and by those of the pod that takes it. It fails if a policy cannot be understood.
func (w World) Permits(from, to End, port int32) (bool, error) {
	for _, side := range []struct {
		kind    networkingv1.PolicyType
		subject End
		peer    End
	}{{networkingv1.PolicyTypeEgress, from, to}, {networkingv1.PolicyTypeIngress, to, from}} {
		if side.subject.Pod == nil {
			continue
		}
		permitted, err := w.permits(side.kind, side.subject, connection{peer: side.peer, server: to, port: port})
		if err != nil || !permitted {
			return false, err
		}
	}
	return true, nil
}

// connection is what a rule is compared with: the other end, and the port of the end that takes it.
type connection struct {
	peer, server End
	port         int32
}

// rule is a rule of either direction.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func (w World) permits(kind networkingv1.PolicyType, subject End, c connection) (bool, error) {
	isolated := false
	for _, policy := range w.Policies {
		if policy.Namespace != subject.Pod.Namespace || !slices.Contains(policy.Spec.PolicyTypes, kind) {
			continue
		}
		selected, err := matches(&policy.Spec.PodSelector, subject.Pod.Labels)
		if err != nil {
			return false, fmt.Errorf("failed to read policy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if !selected {
			continue
		}
		isolated = true
		for _, rule := range rulesOf(policy, kind) {
			fits, err := w.fits(policy.Namespace, rule, c)
			if err != nil {
				return false, fmt.Errorf("failed to read policy %s/%s: %w", policy.Namespace, policy.Name, err)
			}
			if fits {
				return true, nil
			}
		}
	}
	return !isolated, nil
}

func rulesOf(policy networkingv1.NetworkPolicy, kind networkingv1.PolicyType) []rule {
	var out []rule
	if kind == networkingv1.PolicyTypeEgress {
		for _, r := range policy.Spec.Egress {
			out = append(out, rule{r.To, r.Ports})
		}
		return out
	}
	for _, r := range policy.Spec.Ingress {
		out = append(out, rule{r.From, r.Ports})
	}
	return out
}

func (w World) fits(namespace string, r rule, c connection) (bool, error) {
	if !slices.ContainsFunc(r.ports, c.uses) && len(r.ports) > 0 {
		return false, nil
	}
	for _, peer := range r.peers {
		if is, err := w.is(namespace, peer, c.peer); err != nil || is {
			return is, err
		}
	}
	return len(r.peers) == 0, nil
}

// uses reports whether the connection goes to the port of the rule, which may be the name of a container's.
func (c connection) uses(port networkingv1.NetworkPolicyPort) bool {
	if port.Protocol != nil && *port.Protocol != corev1.ProtocolTCP {
		return false
	}
	if port.Port == nil {
		return true
	}
	if name := port.Port.StrVal; name != "" {
		if c.server.Pod == nil {
			return false
		}
		for _, container := range c.server.Pod.Spec.Containers {
			if slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
				return p.Name == name && p.ContainerPort == c.port
			}) {
				return true
			}
		}
		return false
	}
	last := port.Port.IntVal
	if port.EndPort != nil {
		last = *port.EndPort
	}
	return port.Port.IntVal <= c.port && c.port <= last
}

func (w World) is(namespace string, peer networkingv1.NetworkPolicyPeer, end End) (bool, error) {
	if peer.IPBlock != nil {
		return contains(peer.IPBlock, end.Address)
	}
	if end.Pod == nil {
		return false, nil
	}
	if peer.PodSelector != nil {
		if selected, err := matches(peer.PodSelector, end.Pod.Labels); err != nil || !selected {
			return false, err
		}
	}
	if peer.NamespaceSelector == nil {
		return end.Pod.Namespace == namespace, nil
	}
	for _, ns := range w.Namespaces {
		if ns.Name == end.Pod.Namespace {
			return matches(peer.NamespaceSelector, ns.Labels)
		}
	}
	return false, fmt.Errorf("namespace %q is unknown", end.Pod.Namespace)
}

func contains(block *networkingv1.IPBlock, address netip.Addr) (bool, error) {
	for i, cidr := range append([]string{block.CIDR}, block.Except...) {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return false, fmt.Errorf("failed to parse block: %w", err)
		}
		// The first one has to contain it, the exceptions must not.
		if prefix.Contains(address) != (i == 0) {
			return false, nil
		}
	}
	return true, nil
}

func matches(selector *metav1.LabelSelector, set map[string]string) (bool, error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("failed to parse selector: %w", err)
	}
	return s.Matches(labels.Set(set)), nil
}
