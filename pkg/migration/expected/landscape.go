// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// Landscape is what is known of a garden that the durations of all its migrations depend on.
type Landscape struct {
	seeds      map[string]seed
	roundTrips map[Pair]time.Duration
	past       []history.Record
}

// seed is what the agent of a seed tells.
type seed struct {
	waits    *seedfacts.Waits
	keepsTLS bool
	// rates are how many bytes per second come through to other seeds.
	rates map[string]int64
}

// NewLandscape reads what agents have written on their Seeds, and takes the migrations that were recorded. What an
// agent has not written, or not so that it can be read, is not known.
func NewLandscape(seeds []gardencorev1beta1.Seed, past []history.Record) Landscape {
	out := Landscape{seeds: map[string]seed{}, roundTrips: map[Pair]time.Duration{}, past: past}
	for i := range seeds {
		of := &seeds[i]
		own := seed{rates: map[string]int64{}, keepsTLS: of.Annotations[seedfacts.AnnotationTLSTermination] == "false"}
		var agent seedfacts.Agent
		if seedfacts.Of(of, seedfacts.AnnotationAgent, &agent) == nil {
			own.waits = agent.Waits
		}
		var probes seedfacts.Probes
		if seedfacts.Of(of, seedfacts.AnnotationProbes, &probes) == nil {
			for _, connection := range probes.Connections {
				if result := connection.Result; result != nil && result.Measured() {
					own.rates[connection.Seed] = result.Sent
					out.measure(Between(of.Name, connection.Seed), result.RoundTrip.Duration)
				}
			}
		}
		out.seeds[of.Name] = own
	}
	return out
}

// measure takes the shorter one if both sides have measured: the longer one has waited for something else.
func (l Landscape) measure(between Pair, trip time.Duration) {
	if known, ok := l.roundTrips[between]; !ok || trip < known {
		l.roundTrips[between] = trip
	}
}

// Facts returns what is known of a migration of the shoot between the seeds. The caller adds what only a look at the
// shoot's DNS records and etcds tells (TTL, Database).
func (l Landscape) Facts(shoot *gardencorev1beta1.Shoot, source, destination string) Facts {
	from, to := l.seeds[source], l.seeds[destination]
	return Facts{
		UID: shoot.UID, Workers: len(shoot.Spec.Provider.Workers), Source: source, Destination: destination,
		SourceWaits: from.waits, DestinationWaits: to.waits, GatewayKeepsTLS: from.keepsTLS,
		Rate: from.rates[destination], RoundTrips: l.roundTrips, Past: l.past,
	}
}
