// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"sort"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// gathered renders all samples of livecpm that belong to the shoot, or have no shoot at all.
func gathered(shoot string) []string {
	GinkgoHelper()
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "livecpm_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			var values []string
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
				if label.GetName() != "namespace" && label.GetName() != "shoot" {
					values = append(values, label.GetValue())
				}
			}
			if name, ok := labels["shoot"]; ok && name != shoot {
				continue
			}
			out = append(out, fmt.Sprintf("%s %s %v", strings.TrimPrefix(family.GetName(), "livecpm_"),
				strings.Join(values, ","), value(metric)))
		}
	}
	sort.Strings(out)
	return out
}

func value(metric *dto.Metric) float64 {
	switch {
	case metric.Gauge != nil:
		return metric.GetGauge().GetValue()
	case metric.Counter != nil:
		return metric.GetCounter().GetValue()
	}
	return metric.GetHistogram().GetSampleSum()
}

func voters(shoot, etcd string, voters int, at time.Time) {
	metrics.Voters(metrics.EtcdVoters{Namespace: "ns", Shoot: shoot, Etcd: etcd, Voters: voters, At: at})
}

var _ = Describe("Metrics", func() {
	It("should be served from controller-runtime's registry", func() {
		metrics.StepFinished(steps.First(), 90*time.Second)
		metrics.Failure(steps.First(), steps.Source, steps.ReasonActionFailed)
		metrics.Failure(steps.First(), steps.Source, steps.ReasonActionFailed)
		metrics.CurrentStep(metrics.Turn{
			Namespace: "ns", Shoot: "served", Cluster: "shoot--ns--served", Role: steps.Source, Step: steps.Last(),
			Overdue: true,
		})
		metrics.Gate("ns", "served", false)

		Expect(gathered("served")).To(ConsistOf(
			"step_duration_seconds source,SourceEtcdPreparedForPeerJoin 90",
			"failures_total ActionFailed,source,SourceEtcdPreparedForPeerJoin 2",
			"current_step shoot--ns--served,source 8",
			"step_overdue  1",
			"gate_proved  0",
		))
		metrics.CurrentStep(metrics.Turn{
			Namespace: "ns", Shoot: "served", Cluster: "shoot--ns--served", Role: steps.Source, Step: steps.Last(),
		})
		Expect(gathered("served")).To(ContainElement("step_overdue  0"))
		metrics.Forget("ns", "served")
		Expect(gathered("served")).
			NotTo(ContainElement(Or(HavePrefix("current_step"), HavePrefix("step_overdue"), HavePrefix("gate_proved"))))
	})

	It("should measure the six-member window from the voters", func() {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		window := func() []string {
			var out []string
			for _, line := range gathered("window") {
				if strings.HasPrefix(line, "six_member_window") || strings.HasPrefix(line, "etcd_voters") {
					out = append(out, line)
				}
			}
			return out
		}

		voters("window", "main", 5, now)
		Expect(window()).To(Equal([]string{"etcd_voters main 5"}))
		voters("window", "main", 6, now.Add(time.Second))
		Expect(window()).To(Equal([]string{"etcd_voters main 6", "six_member_window_seconds main 0"}))
		voters("window", "main", 6, now.Add(4*time.Second))
		Expect(window()).To(Equal([]string{"etcd_voters main 6", "six_member_window_seconds main 3"}))
		voters("window", "main", 5, now.Add(10*time.Second))
		voters("window", "main", 4, now.Add(20*time.Second))
		voters("window", "events", 3, now.Add(20*time.Second))
		Expect(window()).To(
			Equal([]string{"etcd_voters events 3", "etcd_voters main 4", "six_member_window_seconds main 9"}))

		metrics.Forget("ns", "window")
		Expect(window()).To(Equal([]string{"six_member_window_seconds main 9"}))
	})

	It("should forget an open window with its shoot", func() {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		voters("open", "main", 6, now)
		metrics.Forget("ns", "open")
		voters("open", "main", 6, now.Add(time.Hour))
		Expect(gathered("open")).To(ContainElement("six_member_window_seconds main 0"))
	})
})

var _ = Describe("the histogram of steps", func() {
	It("should tell times of a second to half an hour apart", func() {
		bounds := metrics.StepBounds
		Expect(bounds[0]).To(Equal(1.0))
		Expect(bounds[len(bounds)-1]).To(BeNumerically(">", 1800))
		Expect(bounds).To(ContainElements(60.0, 600.0, 1800.0))
		for i := 1; i < len(bounds); i++ {
			Expect(bounds[i] / bounds[i-1]).To(And(BeNumerically(">", 1), BeNumerically("<=", 2)))
		}
	})
})
