// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// The metrics of what is in flight in the whole garden, which livecpm-controller-manager serves.
var (
	migrationsInFlight = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "migrations_in_flight",
		Help: "Number of live migrations that need the agent of a seed, by phase: Requested, Paused, Held, " +
			"Processing, Overdue, Aborting. Each counts in both of its seeds.",
	}, []string{"seed", "phase"})

	idle = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "idle",
		Help: "1 if nothing speaks against what the label names: upgrade (no migration in flight, no drain " +
			"requested) or removal (and nothing left behind in a lost seed), 0 if something does. Missing if nobody " +
			"knows: ask for 1.",
	}, []string{"before"})
)

func init() {
	runtimemetrics.Registry.MustRegister(migrationsInFlight, idle)
}

// InFlight records what is in flight in the garden.
func InFlight(in summary.InFlight) {
	migrationsInFlight.Reset()
	for _, migration := range in.Migrations {
		for _, seed := range []string{migration.Source, migration.Destination} {
			migrationsInFlight.WithLabelValues(seed, string(migration.State)).Inc()
		}
	}
	idle.WithLabelValues("upgrade").Set(number(in.MayUpgrade))
	idle.WithLabelValues("removal").Set(number(in.MayRemove))
}

// ForgetInFlight removes what InFlight has recorded: it could not be found out again, and an old answer is none.
func ForgetInFlight() {
	migrationsInFlight.Reset()
	idle.Reset()
}
