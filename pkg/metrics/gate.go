// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics of the gate's watchdog, which livecpm-controller-manager serves. What the agents prove for themselves is
// in livecpm_gate_proved.
var (
	gateInForce = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "gate_in_force",
		Help: "1 if the gate was proved to be in force for a shoot on its way to another seed at the last look, " +
			"0 if not. Alert on 0.",
	}, []string{"namespace", "shoot"})

	gateProofs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Name:      "gate_proofs_total",
		Help:      "Number of proofs of the gate, by result: InForce, or the problem that was found.",
	}, []string{"result"})

	gateObjectIntact = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "gate_object_intact",
		Help: "1 if the admission policy or its binding is as the chart ships it, 0 if it is missing or changed " +
			"and was not restored. Alert on 0.",
	}, []string{"kind"})

	gateRestorations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Name:      "gate_restorations_total",
		Help: "Number of times that the watchdog has restored something, by kind of the object and by cause. " +
			"Somebody works against the gate if it grows.",
	}, []string{"kind", "cause"})
)

func init() {
	runtimemetrics.Registry.MustRegister(gateInForce, gateProofs, gateObjectIntact, gateRestorations)
}

// GateInForce records whether the watchdog has proved the gate to be in force for the shoot.
func GateInForce(shootNamespace, shoot string, inForce bool) {
	gateInForce.WithLabelValues(shootNamespace, shoot).Set(number(inForce))
}

// ForgetGateInForce removes what GateInForce has recorded of a shoot that is not on its way to another seed any more.
func ForgetGateInForce(shootNamespace, shoot string) {
	gateInForce.DeleteLabelValues(shootNamespace, shoot)
}

// GateProof counts a proof.
func GateProof(result string) { gateProofs.WithLabelValues(result).Inc() }

// GateObject records whether an object of the gate is as it has to be.
func GateObject(kind string, intact bool) { gateObjectIntact.WithLabelValues(kind).Set(number(intact)) }

// GateRestored counts a restoration.
func GateRestored(kind, cause string) { gateRestorations.WithLabelValues(kind, cause).Inc() }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
