// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests           *prometheus.CounterVec
	underWay           *prometheus.GaugeVec
	refused            prometheus.Counter
	holding            prometheus.Gauge
	held               prometheus.Gauge
	heldSeconds        prometheus.Histogram
	ended              *prometheus.CounterVec
	drained            *prometheus.GaugeVec
	eligible           *prometheus.GaugeVec
	forwarded          *prometheus.CounterVec
	certificateReloads *prometheus.CounterVec
	certificateExpiry  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	member := []string{"member"}
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_front_requests_total", Help: "Requests led to a member, by kind: unary or stream.",
		}, []string{"member", "kind"}),
		underWay: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "livecpm_front_requests_under_way", Help: "Requests that a member has not ended yet, by kind.",
		}, []string{"member", "kind"}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "livecpm_front_refused_requests_total",
			Help: "Requests refused because no member was eligible in time.",
		}),
		holding: factory.NewGauge(prometheus.GaugeOpts{
			Name: "livecpm_front_holding", Help: "Whether unary requests are held.",
		}),
		held: factory.NewGauge(prometheus.GaugeOpts{
			Name: "livecpm_front_held_requests", Help: "Requests that are held now.",
		}),
		heldSeconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "livecpm_front_held_request_seconds", Help: "Time for which requests were held.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 1.5, 2, 2.5},
		}),
		ended: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_front_ended_streams_total", Help: "Streams ended by the front, to be resumed elsewhere.",
		}, member),
		drained: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "livecpm_front_member_drained", Help: "Whether a member is drained.",
		}, member),
		eligible: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "livecpm_front_member_eligible", Help: "Whether a member answers, has a leader and is no learner.",
		}, member),
		forwarded: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_front_forwarded_connections_total",
			Help: "Connections at the further ports, by result: joined, or reset.",
		}, []string{"port", "result"}),
		certificateReloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_front_certificate_reloads_total",
			Help: "Attempts to take changed certificate files into use, by result.",
		}, []string{"result"}),
		certificateExpiry: factory.NewGauge(prometheus.GaugeOpts{
			Name: "livecpm_front_certificate_expiry_timestamp_seconds",
			Help: "End of validity of the first certificate in use to expire.",
		}),
	}
}

// label returns the value of the label member.
func label(ordinal int) string { return strconv.Itoa(ordinal) }

// number is what a gauge says for yes and no.
var number = map[bool]float64{true: 1}
