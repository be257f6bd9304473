// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// GatewayPush is how long istiod is given to hand a change to the Envoys of an ingress gateway: it holds changes back
// for at most that long while others follow (PILOT_DEBOUNCE_MAX).
const GatewayPush = 10 * time.Second

// defaultRecordTTL is what a gardenlet gives DNS records without configuration.
const defaultRecordTTL = 120 * time.Second

// RecordTTL returns the TTL that a gardenlet with the configuration gives DNS records of shoots.
func RecordTTL(config *gardenletconfigv1alpha1.GardenletConfiguration) time.Duration {
	if config != nil && config.Controllers != nil && config.Controllers.Shoot != nil {
		if seconds := ptr.Deref(config.Controllers.Shoot.DNSEntryTTLSeconds, 0); seconds > 0 {
			return time.Duration(seconds) * time.Second
		}
	}
	return defaultRecordTTL
}

// Timings are the configurable periods of the flows.
type Timings struct {
	// PollInterval is the pause between two looks at a world that is expected to change soon.
	PollInterval time.Duration
	// DNSMargin is waited in addition to a DNS record's TTL before the old address counts as forgotten.
	DNSMargin time.Duration
	// ShortTTL is the TTL that the source gives the shoot's DNS records when a migration begins; zero leaves them as
	// they are. That of the other seed counts as well.
	ShortTTL time.Duration
	// RecordTTL is the TTL that the gardenlet of the seed gives DNS records of shoots.
	RecordTTL time.Duration
	// NameServerPatience is how long a name server is waited for that does not answer while all others lead to the
	// destination. Providers say that a change is everywhere within a minute or two.
	NameServerPatience time.Duration
	// DrainTimeout is how long the source's API server continues after the etcds have moved, so that requests on
	// connections from before the switch of DNS can finish, unless its ingress gateway has drained these before. It is
	// stopped afterwards in any case.
	DrainTimeout time.Duration
	// GatewayDrain is how long the source's API server continues after its ingress gateway was seen to take no new
	// connections, if the gateway ends TLS. It is at least the drain time of Envoy, which ends the kept ones. Its etcd
	// members stay for as long after the gateway was told to drain the connections of clients.
	GatewayDrain time.Duration
	// JoinTimeout bounds one attempt of joining the destination's etcd members.
	JoinTimeout time.Duration
	// RolloutTimeout bounds one attempt of waiting for a component to become ready.
	RolloutTimeout time.Duration
}

// DefaultTimings are used where the agent's configuration says nothing.
func DefaultTimings() Timings {
	return Timings{
		PollInterval: 2 * time.Second,
		DNSMargin:    30 * time.Second,
		ShortTTL:     30 * time.Second,
		RecordTTL:    defaultRecordTTL,

		NameServerPatience: 5 * time.Minute,

		DrainTimeout:   time.Minute,
		GatewayDrain:   time.Minute,
		JoinTimeout:    15 * time.Minute,
		RolloutTimeout: 10 * time.Minute,
	}
}

// Waits returns what of the periods every migration waits for, so that people can be told how long it will take.
func (t Timings) Waits() *seedfacts.Waits {
	return &seedfacts.Waits{
		DNSMargin:    metav1.Duration{Duration: t.DNSMargin},
		ShortTTL:     metav1.Duration{Duration: t.ShortTTL},
		RecordTTL:    metav1.Duration{Duration: t.RecordTTL},
		Drain:        metav1.Duration{Duration: GatewayPush + t.GatewayDrain},
		DrainTimeout: metav1.Duration{Duration: t.DrainTimeout},
		GatewayDrain: metav1.Duration{Duration: t.GatewayDrain},
	}
}
