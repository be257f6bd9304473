// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"net/netip"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/policies"
)

// The namespace of a probe is none of a shoot, and yet its pods need what those of a migration need.
var _ = Describe("Flows of a probe in a seed", func() {
	ctx := context.Background()

	It("should be permitted from the agent through relay and gateway to the answerer, and no others", func() {
		namespace := probe.NamespaceOf("seed-a", "seed-b")
		agentLabels := map[string]string{"app.kubernetes.io/name": "livecpm-agent",
			v1beta1constants.LabelNetworkPolicyToPublicNetworks: allowed,
			prefix + "all-shoots-livecpm-relay-tcp-22379":       allowed}
		c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			// Gardener's controller makes policies only for labels that some pod has.
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "agent", Labels: agentLabels}},
			seedNamespace("garden", map[string]string{}), seedNamespace(namespace, probe.NamespaceLabels()),
			apiServerEndpoints(),
		).Build()
		Expect(exposure.New(logr.Discard(), c, exposure.Values{
			Namespace: namespace, Role: steps.Source, Image: "relay", TLSSecretName: "relay",
			Domain: "ingress.seed-a.example", PeerDomain: "ingress.seed-b.example",
			Istio: exposure.Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway"},
		}).Deploy(ctx)).To(Succeed())
		relays := &appsv1.StatefulSet{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: exposure.Name}, relays)).To(Succeed())

		world := makeWorld(ctx, c, namespace, map[string]map[string]string{
			"livecpm-agent": {"app.kubernetes.io/name": "livecpm-agent"}})
		end := func(address, ns string, labels map[string]string) policies.End {
			out := policies.End{Address: netip.MustParseAddr(address)}
			if ns != "" {
				out.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pod-" + address,
					Labels: labels}}
			}
			return out
		}
		var (
			agent    = end("10.241.0.1", "garden", agentLabels)
			relay    = end("10.241.0.2", namespace, relays.Spec.Template.Labels)
			answerer = end("10.241.0.3", namespace, probe.AnswererLabels())
			stranger = end("10.241.0.4", "garden", map[string]string{"app": "stranger"})
			gateway  = end("198.51.100.22", "", nil)
		)
		for _, flow := range []struct {
			from, to  policies.End
			port      int32
			permitted bool
		}{
			{agent, relay, 22379, true}, {relay, gateway, 443, true}, {relay, answerer, 2379, true},
			{stranger, relay, 22379, false}, {stranger, answerer, 2379, false}, {agent, answerer, 2379, false},
			{answerer, gateway, 443, false}, {relay, answerer, 8081, false},
		} {
			is, err := world.Permits(flow.from, flow.to, flow.port)
			Expect(err).NotTo(HaveOccurred())
			Expect(is).To(Equal(flow.permitted), "%s to %s on %d", flow.from.Address, flow.to.Address, flow.port)
		}
	})
})
