// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What the agents of both seeds have found by a probe of the connection between them is on their Seeds
// (pkg/agent/probe).

const (
	// maxRoundTrip is a tenth of etcd's election timeout, as etcd's guide to tuning asks for: etcd-druid leaves it at
	// etcd's default of a second. maxAllowedRoundTrip is for shoots that allow distant regions. With more, an election
	// would hardly end before the next one begins.
	maxRoundTrip, maxAllowedRoundTrip = 100 * time.Millisecond, 300 * time.Millisecond
	// maxClockSkew is well below a minute, for which the destination believes a sign of life of the source, in whose
	// seed it was dated.
	maxClockSkew = 10 * time.Second
	// minRate is less than what a shoot with a usual load writes to its etcds.
	minRate = 1 << 20
	// maxCopy is how long the copy of a database to one new member may take. An attempt to join it ends after 15
	// minutes, unless the agent's configuration gives it more.
	maxCopy = 10 * time.Minute

	probeSetting = "controllers.liveMigration.probe"
)

var (
	remedyProbe = "check that the agent of the seed runs, is of this release, and may patch its own Seed; its log " +
		"says what it could not find out, and it tries again after two minutes; to migrate without a probe, set " +
		probeSetting + "=false in the configuration of one of the two agents"
	// A probe that is under way is no problem, and takes less than two minutes where relays start at once.
	remedyWait       = "wait: a probe takes a minute or two; if it is not complete after five, " + remedyProbe
	remedyConnection = "fix what the message names, or choose another destination; the agents probe again after two " +
		"minutes, or at once with kubectl livecpm plan --probe; to migrate without a probe, set " + probeSetting +
		"=false in the configuration of one of the two agents"
)

// checksConnection reports whether the connection matters: before the first step of the source, and to those who plan
// one. It never holds a migration that has begun.
func checksConnection(f Facts) bool {
	return f.Planned || f.ownRole() == steps.Source && !steps.InFlight(f.Shoot)
}

// checkSeedConnection asks for a probe from each of the seeds to the other one that has found nothing wrong.
func checkSeedConnection(f Facts) Finding {
	finding := judgeConnection(f)
	if f.Planned && !f.Probed && finding.Status == Unknown {
		return pass(SeedConnection, "the agents probe it before the first step (%s)", finding.Evidence)
	}
	return finding
}

func judgeConnection(f Facts) Finding {
	var (
		problems, unknowns, waits []string
		measured                  []seedfacts.ProbeResult
		slow                      int
	)
	for _, way := range [][2]SeedView{{f.Source, f.Destination}, {f.Destination, f.Source}} {
		from, to := way[0].Name, way[1].Name
		var probes seedfacts.Probes
		if err := seedfacts.Of(way[0].Seed, seedfacts.AnnotationProbes, &probes); err != nil {
			unknowns = append(unknowns, fmt.Sprintf("seed %s says nothing about probes: %v", from, err))
			continue
		}
		if probes.Off {
			return pass(SeedConnection, "left out: the agent of seed %s makes no probes (%s)", from, probeSetting)
		}
		connection := probes.To(to)
		result := connection.Result
		switch {
		case result == nil || result.Outdated(f.Now):
			waits = append(waits, waitFor(from, to, connection))
			continue
		case !result.Measured() && len(result.Problems) == 0 && len(result.Unknown) == 0:
			unknowns = append(unknowns, fmt.Sprintf("the probe from seed %s to seed %s has measured nothing", from, to))
		}
		for _, problem := range result.Problems {
			problems = append(problems, fmt.Sprintf("from seed %s to seed %s: %s", from, to, problem))
		}
		for _, why := range result.Unknown {
			unknowns = append(unknowns, fmt.Sprintf("from seed %s to seed %s: %s", from, to, why))
		}
		if trip := tooLong(f, from, to, *result); trip != "" {
			problems = append(problems, trip)
			slow++
		}
		problems = append(problems, tooSlow(from, to, *result)...)
		measured = append(measured, *result)
	}
	switch {
	case len(problems) > 0:
		finding := fail(SeedConnection, remedyConnection, "%s",
			strings.Join(slices.Concat(problems, unknowns), "; "))
		finding.TooFar = slow == len(problems) && len(unknowns) == 0
		return finding
	case len(unknowns) > 0:
		return unknown(SeedConnection, remedyProbe, "%s", strings.Join(slices.Concat(unknowns, waits), "; "))
	case len(waits) > 0:
		finding := unknown(SeedConnection, remedyWait, "%s", strings.Join(waits, "; "))
		finding.Reason = steps.ReasonProbingConnection
		return finding
	}
	return judgeCopy(f, measured[0], measured[1])
}

// waitFor says what is waited for as long as there is no result that counts.
func waitFor(from, to string, connection seedfacts.Connection) string {
	if round := connection.Round; round != nil {
		return fmt.Sprintf("seed %s probes the connection to seed %s since %s", from, to,
			round.Began.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("seed %s has no recent probe of the connection to seed %s", from, to)
}

// tooLong tells that the seeds are too far apart; empty if they are not.
func tooLong(f Facts, from, to string, result seedfacts.ProbeResult) string {
	limit := maxRoundTrip
	if allowsDistance(f.Shoot) {
		limit = maxAllowedRoundTrip
	}
	if trip := result.RoundTrip.Duration; trip > limit {
		return fmt.Sprintf("the round trip from seed %s to seed %s takes %s, at most %s is permitted", from, to,
			rounded(trip), limit)
	}
	return ""
}

// tooSlow returns what else was measured and does not do.
func tooSlow(from, to string, result seedfacts.ProbeResult) []string {
	if !result.Measured() {
		return nil
	}
	var out []string
	if skew := result.ClockSkew.Duration; skew.Abs() > maxClockSkew {
		out = append(out, fmt.Sprintf("the clock of seed %s differs from that of seed %s by %s, more than %s: check "+
			"the time synchronization of the nodes", to, from, rounded(skew), maxClockSkew))
	}
	for _, rate := range []struct {
		way   string
		bytes int64
	}{
		{fmt.Sprintf("from seed %s to seed %s", from, to), result.Sent},
		{fmt.Sprintf("from seed %s to seed %s, as seed %s sees it,", to, from, from), result.Received},
	} {
		if rate.bytes < minRate {
			out = append(out, fmt.Sprintf("the connection %s carries %s, less than %s", rate.way,
				perSecond(rate.bytes), perSecond(minRate)))
		}
	}
	return out
}

// judgeCopy tells what was measured, and what the new members cost by that, if it is known how large the databases are.
func judgeCopy(f Facts, there, back seedfacts.ProbeResult) Finding {
	rate := min(there.Sent, back.Received)
	evidence := fmt.Sprintf("round trip %s, %s to seed %s, %s back, clocks differ by %s; a write takes up to a "+
		"round trip longer while etcd's quorum needs both seeds", rounded(there.RoundTrip.Duration), perSecond(rate),
		f.Destination.Name, perSecond(min(there.Received, back.Sent)), rounded(there.ClockSkew.Duration.Abs()))
	var all int64
	for _, etcd := range f.Etcds {
		var file int64
		for _, member := range etcd.Members {
			file = max(file, member.DBSize)
		}
		all += file * naming.MembersPerSeed
		if takes := copyTime(file, rate); takes > maxCopy {
			return fail(SeedConnection, remedyConnection, "a copy of %s (%s) to a new member would take %s at %s, "+
				"more than %s", etcd.Name, size(file), rounded(takes), perSecond(rate), maxCopy)
		}
	}
	if all > 0 {
		evidence += fmt.Sprintf("; %s leave seed %s for the new members, in about %s, and what clients write meanwhile",
			size(all), f.Source.Name, rounded(copyTime(all, rate)))
	}
	if back.Room != nil {
		evidence += fmt.Sprintf("; seed %s had room for the largest control plane that waited (%s)",
			f.Destination.Name, back.Room)
	}
	if pulled := len(back.Images); pulled > 0 {
		evidence += fmt.Sprintf("; its nodes have the %s of the control planes that waited, or could pull them",
			conditions.Count(pulled, "image"))
	}
	return pass(SeedConnection, "%s", evidence)
}

func perSecond(bytes int64) string { return fmt.Sprintf("%.1f MiB/s", float64(bytes)/(1<<20)) }

func copyTime(bytes, rate int64) time.Duration {
	return time.Duration(float64(bytes) / float64(max(rate, 1)) * float64(time.Second))
}

// rounded leaves three digits of a short time, and whole seconds of a long one.
func rounded(d time.Duration) time.Duration {
	switch {
	case d.Abs() >= time.Minute:
		return d.Round(time.Second)
	case d.Abs() >= time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
