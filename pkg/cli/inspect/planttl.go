// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// CheckFormerTTL tells for how long caches keep the shoot's address in the source. It holds nothing: step 6 waits as
// long.
const CheckFormerTTL preflight.Name = "FormerTTL"

// ttlTimeout bounds the questions for the TTL of all records. Without an answer, the plan does without.
const ttlTimeout = 10 * time.Second

// RecordTTL is what name servers say about a DNS record of the shoot.
type RecordTTL struct {
	// Name is the name of the record.
	Name string `json:"name"`
	// TTL is the longest that a name server gives.
	TTL metav1.Duration `json:"ttl"`
	// Silent says why name servers did not answer; empty if all have.
	Silent string `json:"silent,omitempty"`
	// Unknown says why nothing is known.
	Unknown string `json:"unknown,omitempty"`
}

// ttls asks the name servers for the TTL of the records under which clients reach the shoot, from here.
func ttls(
	ctx context.Context, nameServers dns.NameServers, clk clock.PassiveClock, shoot *gardencorev1beta1.Shoot,
) []RecordTTL {
	ctx, cancel := context.WithTimeout(ctx, ttlTimeout)
	defer cancel()
	var out []RecordTTL
	for _, name := range access.Hosts(shoot) {
		record, silence := RecordTTL{Name: name}, dns.NewSilence(clk, 0)
		if nameServers == nil {
			record.Unknown = "no name server is asked"
		} else {
			ttl, err := dns.TTL(ctx, nameServers, silence, name)
			switch {
			case err != nil:
				record.Unknown = err.Error()
			case ttl == 0:
				record.Unknown = "the name servers do not know it"
			}
			record.TTL.Duration, record.Silent = ttl, strings.Join(silence.Borne(), ", ")
		}
		out = append(out, record)
	}
	return out
}

// tellFormerTTL tells for how long step 6 has to wait for caches.
func (in PlanInput) tellFormerTTL() view.Check {
	const byDestination = "the destination's agent asks before it changes the records"
	var (
		longest time.Duration
		told    []string
	)
	for _, record := range in.TTLs {
		if record.Unknown != "" {
			return view.Check{Name: CheckFormerTTL, Status: view.Unknown, Remedy: byDestination, Deferred: true,
				Evidence: fmt.Sprintf("the TTL of DNS record %s is not known here: %s", record.Name, record.Unknown)}
		}
		text := fmt.Sprintf("%s: %s", record.Name, record.TTL.Duration)
		if record.Silent != "" {
			text += fmt.Sprintf(", without an answer of %s", record.Silent)
		}
		longest, told = max(longest, record.TTL.Duration), append(told, text)
	}
	if len(told) == 0 {
		return view.Check{Name: CheckFormerTTL, Status: view.Unknown, Remedy: byDestination, Deferred: true,
			Evidence: "the Shoot advertises no address with a DNS record"}
	}
	return view.Check{Name: CheckFormerTTL, Status: view.Pass, Evidence: fmt.Sprintf(
		"caches keep the source's address for up to %s (%s); step 6 waits that long and a margin, less if step 1 can "+
			"shorten the TTL, or longer if the gardenlet gives its records more", longest, strings.Join(told, "; "))}
}
