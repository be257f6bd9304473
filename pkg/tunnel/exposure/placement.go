// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Gardener's resource manager places the components of a highly available shoot (webhook high-availability-config). It
// would permit one relay per node, and no fewer than three nodes (GetTopologySpreadConstraints in gardener's
// pkg/utils/kubernetes). A seed with exactly three nodes could then not run three relays while a node is drained, and
// the member of etcd whose relay is missing would be cut off from the other seed. So the relay's StatefulSet carries
// the label by which the webhook leaves it alone, and gets here what else it would do: the zones of the shoot, and how
// long its pods stay on a node that is lost.

// nodeLostSeconds is how long a relay stays on a node that is not ready or cannot be reached. It is the default of the
// gardenlet (nodeToleration), which the webhook applies; without it Kubernetes waits for five minutes.
const nodeLostSeconds = 60

// skipWebhook is the label by which the webhook leaves an object alone.
func skipWebhook() map[string]string {
	return map[string]string{resourcesv1alpha1.HighAvailabilityConfigSkip: "true"}
}

// readZones returns the zones to which the shoot's namespace pins its pods; none if it does not. A namespace that does
// not exist pins nothing, and nothing can be deployed there.
func (e *exposure) readZones(ctx context.Context) ([]string, error) {
	namespace := &corev1.Namespace{}
	err := e.client.Get(ctx, client.ObjectKey{Name: e.values.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to read namespace %s: %w", e.values.Namespace, err)
	}
	if _, found := namespace.Annotations[resourcesv1alpha1.HighAvailabilityConfigFailureToleranceType]; !found {
		return nil, nil
	}
	zones := strings.Split(namespace.Annotations[resourcesv1alpha1.HighAvailabilityConfigZones], ",")
	return sets.List(sets.New(zones...).Delete("")), nil
}

// place spreads the pods over zones and nodes as far as that is possible, within the zones of the shoot.
func place(pod *corev1.PodSpec, labels map[string]string, zones []string) {
	pod.TopologySpreadConstraints = nil
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		pod.TopologySpreadConstraints = append(pod.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		})
	}
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(nodeLostSeconds)),
		})
	}
	if requirement := kubernetesutils.GetNodeSelectorRequirementForZones(true, zones); requirement != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{*requirement}},
				},
			},
		}}
	}
}
