// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	prometheusshoot "github.com/gardener/gardener/pkg/component/observability/monitoring/prometheus/shoot"
	monitoringutils "github.com/gardener/gardener/pkg/component/observability/monitoring/utils"
	"github.com/gardener/gardener/pkg/utils"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// portNameMetrics is the name of the port of the headless service at which the relays serve their metrics.
const portNameMetrics = "metrics"

func (e *exposure) emptyServiceMonitor() *monitoringv1.ServiceMonitor {
	return &monitoringv1.ServiceMonitor{
		ObjectMeta: monitoringutils.ConfigObjectMeta(Name, e.values.Namespace, prometheusshoot.Label),
	}
}

// mutateServiceMonitor lets the shoot's own Prometheus scrape the relays, as it does the components of the control
// plane. It runs in the source; in the destination it does not exist before the last step. The relays are found by the
// headless service, which also has those that are not ready.
func (e *exposure) mutateServiceMonitor(monitor *monitoringv1.ServiceMonitor) {
	monitor.Labels = utils.MergeStringMaps(monitor.Labels, ourLabels(), monitoringutils.Labels(prometheusshoot.Label))
	monitor.Spec = monitoringv1.ServiceMonitorSpec{
		Selector: metav1.LabelSelector{MatchLabels: podSelector()},
		Endpoints: []monitoringv1.Endpoint{{
			Port: portNameMetrics,
			RelabelConfigs: []monitoringv1.RelabelConfig{
				{Action: "replace", Replacement: new(Name), TargetLabel: "job"},
			},
			MetricRelabelConfigs: monitoringutils.StandardMetricRelabelConfig("livecpm_relay_.+"),
		}},
	}
}
