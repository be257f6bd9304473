// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog_test

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
)

// inFlight returns a Shoot whose live migration has begun.
func inFlight(name string) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "garden-demo",
			Annotations: map[string]string{"migration.gardener.cloud/live-migrate": "true"},
		},
		Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
		Status: gardencorev1beta1.ShootStatus{
			SeedName: new("seed-a"),
			LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin,
					Status: gardencorev1beta1.ConditionProgressing},
			}},
			LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeLiveMigrate},
		},
	}
}

// resting returns a Shoot that stays where it is.
func resting(name string) *gardencorev1beta1.Shoot {
	shoot := inFlight(name)
	shoot.Spec.SeedName = shoot.Status.SeedName
	return shoot
}

// reporter returns a Reporter and a function that returns the events since its last call.
func reporter() (*gatewatchdog.Reporter, func() []string) {
	recorder := events.NewFakeRecorder(100)
	return &gatewatchdog.Reporter{Log: logr.Discard(), Recorder: recorder}, func() []string {
		out := []string{}
		for len(recorder.Events) > 0 {
			out = append(out, <-recorder.Events)
		}
		return out
	}
}

// metric returns the value of a metric, or -1 if there is no sample with these values of the labels.
func metric(name string, labels ...string) float64 {
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, sample := range family.GetMetric() {
			if fmt.Sprint(values(sample)) == fmt.Sprint(labels) {
				if sample.Counter != nil {
					return sample.GetCounter().GetValue()
				}
				return sample.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// values returns the values of the labels in the order of the labels' names.
func values(sample *dto.Metric) []string {
	out := []string{}
	for _, label := range sample.GetLabel() {
		out = append(out, label.GetValue())
	}
	return out
}
