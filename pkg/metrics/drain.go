// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics of the drains, which livecpm-controller-manager serves.
var (
	drainShoots = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "drain_shoots",
		Help:      "Number of shoots in the drain of a seed, by state: Done, Running, Waiting, Blocked.",
	}, []string{"seed", "state"})

	drainCircuitOpen = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "drain_circuit_open",
		Help: "1 if the drain of a seed starts nothing more because too many migrations have failed, 0 if not. " +
			"Alert on 1.",
	}, []string{"seed"})

	drainStarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Name:      "drain_starts_total",
		Help: "Number of moves that the drain of a seed has started, by way: Live, ClassicWhileHibernated, " +
			"Classic.",
	}, []string{"seed", "way"})

	drainResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Name:      "drain_results_total",
		Help:      "Number of moves of the drain of a seed that are over, by result: Succeeded, Aborted, Refused.",
	}, []string{"seed", "result"})
)

func init() {
	runtimemetrics.Registry.MustRegister(drainShoots, drainCircuitOpen, drainStarts, drainResults)
}

// DrainShoots records how many shoots of the seed's drain are in the state.
func DrainShoots(seed, state string, count int) {
	drainShoots.WithLabelValues(seed, state).Set(float64(count))
}

// DrainCircuit records whether the drain of the seed starts nothing more.
func DrainCircuit(seed string, open bool) { drainCircuitOpen.WithLabelValues(seed).Set(number(open)) }

// DrainStarted counts a move that the drain of the seed has started.
func DrainStarted(seed, way string) { drainStarts.WithLabelValues(seed, way).Inc() }

// DrainEnded counts a move that is over.
func DrainEnded(seed, result string) { drainResults.WithLabelValues(seed, result).Inc() }

// ForgetDrain removes what is known of a seed that is not drained any more. The counters stay.
func ForgetDrain(seed string) {
	drainShoots.DeletePartialMatch(prometheus.Labels{"seed": seed})
	drainCircuitOpen.DeleteLabelValues(seed)
}
