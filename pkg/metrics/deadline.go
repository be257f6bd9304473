// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// migrationOverdue is served by livecpm-controller-manager. Deadlines of single steps are in livecpm_step_overdue,
// which the agents serve.
var migrationOverdue = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace,
	Name:      "migration_overdue",
	Help:      "1 if a migration is past its deadline as a whole, 0 if not.",
}, []string{"namespace", "shoot"})

func init() {
	runtimemetrics.Registry.MustRegister(migrationOverdue)
}

// MigrationOverdue records whether the migration of the shoot is past its deadline as a whole.
func MigrationOverdue(shootNamespace, shoot string, overdue bool) {
	migrationOverdue.WithLabelValues(shootNamespace, shoot).Set(number(overdue))
}

// ForgetMigrationOverdue removes what MigrationOverdue has recorded of a shoot whose migration is over.
func ForgetMigrationOverdue(shootNamespace, shoot string) {
	migrationOverdue.DeleteLabelValues(shootNamespace, shoot)
}
