// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package data is what the benchmarks record: one JSON file for each part, with the machine and the versions that it
// was measured on. It is pure, so that whoever shows the figures needs nothing of what measured them.
package data

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The parts of the benchmarks, which are also the names of their files.
const (
	PartLandscape = "landscape"
	PartLive      = "live"
	PartDistance  = "distance"
	PartSize      = "size"
	PartRelay     = "relay"
	PartJoin      = "join"
	// PartProduction is a live migration with the waits and the name servers of production: those of the landscape are
	// shorter, and flatter how long a migration takes.
	PartProduction = "production"
	PartAgent      = "agent"
)

// Parts returns all parts in the order in which they are run and shown.
func Parts() []string {
	return []string{PartRelay, PartJoin, PartAgent, PartLandscape, PartLive, PartProduction, PartDistance, PartSize}
}

// Environment is what a part was measured on.
type Environment struct {
	// Time is when it was measured.
	Time time.Time `json:"time"`
	// Commit is the commit of this repository, with the mark "dirty" if something was changed.
	Commit string `json:"commit"`
	// Processor and Kernel name the machine, Cores and MemoryGiB say how large it is.
	Processor string  `json:"processor"`
	Kernel    string  `json:"kernel"`
	Cores     int     `json:"cores"`
	MemoryGiB float64 `json:"memoryGiB"`
	// Versions are those of what was run.
	Versions map[string]string `json:"versions"`
}

// ByPhase is a figure before, and from the trigger to the end.
type ByPhase struct {
	Quiet  float64 `json:"quiet"`
	During float64 `json:"during"`
}

// Ratio is how many times the quiet figure the other one is; 0 if there is none to compare with.
func (p ByPhase) Ratio() float64 { return ratio(p.During, p.Quiet) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// The outcomes of a migration.
const (
	// OutcomeCompleted is a migration that came to its end.
	OutcomeCompleted = "completed"
	// OutcomeRefused is one that the garden or the agents did not begin.
	OutcomeRefused = "refused"
	// OutcomeStopped is one that did not come to its end in time. It was finished under better conditions afterwards.
	OutcomeStopped = "stopped"
)

// The kinds of migrations.
const (
	KindLive    = "live"
	KindClassic = "classic"
)

// Migration is what a migration cost the shoot's clients.
type Migration struct {
	Kind        string `json:"kind"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// RoundTripMs is the round trip that was added between the seeds.
	RoundTripMs int `json:"roundTripMs"`
	// Outcome is one of the outcomes, Reason why it is no completed one.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Seconds is how long it took from the trigger until the destination's gardenlet had the shoot.
	Seconds float64 `json:"seconds"`
	// QuietSeconds is how long the load ran before the trigger: what the quiet figures are from. Zero in figures from
	// before it was recorded, when it was a minute.
	QuietSeconds float64 `json:"quietSeconds,omitempty"`

	// RequestsDue is how many requests were due by the schedule from the begin of the load to its end, RequestsUnsent
	// how many of them were not sent, because too many others were waiting or the load itself was late.
	RequestsDue    int64 `json:"requestsDue,omitempty"`
	RequestsUnsent int64 `json:"requestsUnsent,omitempty"`

	Writes       int64 `json:"writes"`
	WritesFailed int64 `json:"writesFailed"`
	Reads        int64 `json:"reads"`
	ReadsFailed  int64 `json:"readsFailed"`
	// WritesLost is the number of acknowledged writes that were not there at the end.
	WritesLost int64 `json:"writesLost"`
	// UnavailableSeconds is the sum of the intervals in which not a single write was acknowledged, IntervalSeconds
	// their length.
	UnavailableSeconds float64 `json:"unavailableSeconds"`
	IntervalSeconds    float64 `json:"intervalSeconds"`
	// WriteGapMs is the longest time between two acknowledged writes.
	WriteGapMs ByPhase `json:"writeGapMs"`
	WriteP50Ms ByPhase `json:"writeP50Ms"`
	WriteP99Ms ByPhase `json:"writeP99Ms"`
	// Events are the writes of Events, which are in etcd-events, Others all other ones, which are in etcd-main. Both
	// are among the writes above. They are missing in figures from before they were kept apart.
	Events *Writes `json:"events,omitempty"`
	Others *Writes `json:"others,omitempty"`

	WatchEvents     int64 `json:"watchEvents"`
	WatchEventsLost int64 `json:"watchEventsLost"`
	// WatchResets is how often a watch could not continue where it had stopped, WatchLagMs the longest time from a
	// write to its event.
	WatchResets int64   `json:"watchResets"`
	WatchLagMs  float64 `json:"watchLagMs"`

	// Etcd holds the clusters by role.
	Etcd map[string]Etcd `json:"etcd,omitempty"`
	// Steps are the steps of a live migration.
	Steps []Step `json:"steps,omitempty"`
	// Processes are the costs of livecpm's own processes, by program.
	Processes map[string]Process `json:"processes,omitempty"`
	// CPUCores and MemoryMiB are what the whole machine used.
	CPUCores  ByPhase `json:"cpuCores"`
	MemoryMiB ByPhase `json:"memoryMiB"`
}

// Writes are the figures of a part of the writes, as those of all in Migration.
type Writes struct {
	Sent   int64   `json:"sent"`
	Failed int64   `json:"failed"`
	Lost   int64   `json:"lost"`
	GapMs  ByPhase `json:"gapMs"`
	P50Ms  ByPhase `json:"p50Ms"`
	P99Ms  ByPhase `json:"p99Ms"`
}

// Gap is the longest time between two acknowledged writes of what the shoot's clients work with: of those to etcd-main
// where they were kept apart, because the Events hide a part of it, and otherwise of all.
func (m Migration) Gap() ByPhase {
	if m.Others != nil {
		return m.Others.GapMs
	}
	return m.WriteGapMs
}

// P99 is what 99 % of the same writes have not exceeded.
func (m Migration) P99() ByPhase {
	if m.Others != nil {
		return m.Others.P99Ms
	}
	return m.WriteP99Ms
}

// Failed is the number of requests that failed.
func (m Migration) Failed() int64 { return m.WritesFailed + m.ReadsFailed }

// SixMemberSeconds is the longest time that one of the clusters had six members.
func (m Migration) SixMemberSeconds() float64 {
	var longest float64
	for _, etcd := range m.Etcd {
		longest = max(longest, etcd.SixMemberSeconds)
	}
	return longest
}

// JoinSeconds is the longest time that a member took from being added to being a voter.
func (m Migration) JoinSeconds() float64 {
	var longest float64
	for _, etcd := range m.Etcd {
		longest = max(longest, etcd.LongestJoin())
	}
	return longest
}

// Etcd is what happened to one etcd cluster.
type Etcd struct {
	// SixMemberSeconds is how long there were six members.
	SixMemberSeconds float64 `json:"sixMemberSeconds"`
	// Joins are the members that joined, in their order.
	Joins []Join `json:"joins,omitempty"`
}

// LongestJoin is the longest time that a member took to join.
func (e Etcd) LongestJoin() float64 {
	var longest float64
	for _, join := range e.Joins {
		longest = max(longest, join.Seconds)
	}
	return longest
}

// Join is a member that joined.
type Join struct {
	Member string `json:"member"`
	// Seconds is the time from its being added as a learner to its being a voter.
	Seconds float64 `json:"seconds"`
}

// Step is how long a step took.
type Step struct {
	Name    string  `json:"name"`
	Owner   string  `json:"owner"`
	Seconds float64 `json:"seconds"`
	// WriteP99Ms is what 99 % of the writes that were acknowledged in it have not exceeded, WriteMaxMs the slowest of
	// them; zero in figures from before they were measured.
	WriteP99Ms float64 `json:"writeP99Ms,omitempty"`
	WriteMaxMs float64 `json:"writeMaxMs,omitempty"`
}

// Process is what the processes of a program cost.
type Process struct {
	// CPUSeconds is the processor time of all of them together.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the most memory that one of them had resident.
	PeakMiB float64 `json:"peakMiB"`
}

// Live compares classic and live migrations of the same shoot.
type Live struct {
	Environment Environment `json:"environment"`
	// Runs are all migrations in the order in which they were made. There are none in figures of one run of each way.
	Runs []Migration `json:"runs,omitempty"`
	// Classic and Live are the runs of each way whose duration is the middle one. Parts of a migration that cannot be
	// taken from several runs, such as the steps, are shown of them.
	Classic *Migration `json:"classic,omitempty"`
	Live    *Migration `json:"live,omitempty"`
}

// NewLive compares migrations.
func NewLive(environment Environment, runs []Migration) *Live {
	out := &Live{Environment: environment, Runs: slices.Clone(runs)}
	out.Classic, out.Live = middle(out.Of(KindClassic)), middle(out.Of(KindLive))
	return out
}

// Of returns the migrations of a kind in the order in which they were made.
func (l *Live) Of(kind string) []Migration {
	if l == nil {
		return nil
	}
	var out []Migration
	for _, run := range l.Runs {
		if run.Kind == kind {
			out = append(out, run)
		}
	}
	single := map[string]*Migration{KindClassic: l.Classic, KindLive: l.Live}[kind]
	if len(out) == 0 && single != nil {
		out = append(out, *single)
	}
	return out
}

// middle returns the completed run whose duration is the middle one, of two the shorter one. If none was completed, it
// is the first of all.
func middle(runs []Migration) *Migration {
	if len(runs) == 0 {
		return nil
	}
	completed := slices.DeleteFunc(slices.Clone(runs), func(run Migration) bool {
		return run.Outcome != OutcomeCompleted
	})
	if len(completed) == 0 {
		return &runs[0]
	}
	slices.SortStableFunc(completed, func(a, b Migration) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return &completed[(len(completed)-1)/2]
}

// SpreadOver returns the spread of a figure over several runs.
func SpreadOver(runs []Migration, figure func(Migration) float64) Spread {
	figures := make([]float64, 0, len(runs))
	for _, run := range runs {
		figures = append(figures, figure(run))
	}
	return SpreadOf(figures)
}

// Distance has a live migration for each distance.
type Distance struct {
	Runs []DistanceRun `json:"runs"`
}

// DistanceRun is a live migration over a distance. It has an environment of its own: a distance takes as long as a
// whole migration, so they may be measured one at a time.
type DistanceRun struct {
	Environment Environment `json:"environment"`
	Migration
}

// Record takes in a run, in place of a former one over the same distance.
func (d *Distance) Record(run DistanceRun) {
	d.Runs = record(d.Runs, run, func(r DistanceRun) int { return r.RoundTripMs })
}

// Size has the joining of members for each size of the database.
type Size struct {
	Runs []SizeRun `json:"runs"`
}

// Record takes in a run, in place of a former one with as much data.
func (s *Size) Record(run SizeRun) {
	s.Runs = record(s.Runs, run, func(r SizeRun) int { return r.MiB })
}

// record keeps the runs in the order of their keys, and one for each.
func record[T any](runs []T, run T, key func(T) int) []T {
	runs = append(slices.DeleteFunc(slices.Clone(runs), func(other T) bool { return key(other) == key(run) }), run)
	slices.SortFunc(runs, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return runs
}

// SizeRun is the joining of two members of the destination to clusters of which etcd-main has so much data. The
// migration is aborted afterwards.
type SizeRun struct {
	Environment Environment `json:"environment"`
	// MiB is the size of the values that were written, DatabaseMiB that of the database file then.
	MiB         int     `json:"mib"`
	DatabaseMiB float64 `json:"databaseMiB"`
	// Outcome is one of the outcomes.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// PrepareSeconds is how long the first step took, JoinStepSeconds the second one.
	PrepareSeconds  float64 `json:"prepareSeconds"`
	JoinStepSeconds float64 `json:"joinStepSeconds"`
	// Joins are the members of etcd-main that joined.
	Joins        []Join  `json:"joins,omitempty"`
	Writes       int64   `json:"writes"`
	WritesFailed int64   `json:"writesFailed"`
	WriteGapMs   ByPhase `json:"writeGapMs"`
	WriteP50Ms   ByPhase `json:"writeP50Ms"`
	WriteP99Ms   ByPhase `json:"writeP99Ms"`
}

// LongestJoin is the longest time that a member took to join.
func (r SizeRun) LongestJoin() float64 { return Etcd{Joins: r.Joins}.LongestJoin() }

// Relay is what the way through two relays costs, compared with a direct connection, both over loopback.
type Relay struct {
	Environment Environment `json:"environment"`
	// Connect is the time until the TLS connection to the target stands, RoundTrip that of 1 KiB and back on one
	// connection.
	Connect   Pair `json:"connect"`
	RoundTrip Pair `json:"roundTrip"`
	// DirectMBPerSecond and RelayedMBPerSecond are the throughput of one connection.
	DirectMBPerSecond  float64 `json:"directMBPerSecond"`
	RelayedMBPerSecond float64 `json:"relayedMBPerSecond"`
	// NearCPUSeconds and FarCPUSeconds are the processor time of either relay for 100 MB.
	NearCPUSeconds float64 `json:"nearCPUSecondsPer100MB"`
	FarCPUSeconds  float64 `json:"farCPUSecondsPer100MB"`
	// Connections are how many idle connections were held to find out what one of them takes.
	Connections          int     `json:"connections"`
	NearKiBPerConnection float64 `json:"nearKiBPerConnection"`
	FarKiBPerConnection  float64 `json:"farKiBPerConnection"`
	// GoBenchmarks are those of pkg/tunnel/relay. What go test printed is in relay-go.txt, in the form that benchstat
	// takes.
	GoBenchmarks []GoBenchmark `json:"goBenchmarks,omitempty"`
}

// MBPerCPUSecond is what the busier of the relays carries with one core.
func (r Relay) MBPerCPUSecond() float64 { return ratio(100, max(r.NearCPUSeconds, r.FarCPUSeconds)) }

// Pair is a latency without and with relays.
type Pair struct {
	Direct  Latency `json:"direct"`
	Relayed Latency `json:"relayed"`
}

// Latency is a distribution of latencies in microseconds.
type Latency struct {
	P50   float64 `json:"p50us"`
	P99   float64 `json:"p99us"`
	Count int     `json:"count"`
}

// GoBenchmark is a figure of a Go benchmark over several runs.
type GoBenchmark struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Spread
}

// Agent is what the agents of two seeds and the controller manager need for so many migrations at once. API servers and
// the agents' frame are the real ones; the work in the seeds is simulated.
type Agent struct {
	Environment Environment `json:"environment"`
	Runs        []AgentRun  `json:"runs"`
}

// AgentRun is one number of migrations at once.
type AgentRun struct {
	InFlight int     `json:"inFlight"`
	Seconds  float64 `json:"seconds"`
	// IdleMiB is what the larger of the agents had resident before.
	IdleMiB float64 `json:"idleMiB"`
	// Agents are both agents together; their memory is that of the larger one. ControllerManager is the garden's.
	Agents            Process `json:"agents"`
	ControllerManager Process `json:"controllerManager"`
	// Requests are those per migration of the agents, by verb and resource, watches left out, and ManagerRequests those
	// of the controller manager.
	Requests        map[string]float64 `json:"requestsPerMigration"`
	ManagerRequests map[string]float64 `json:"managerRequestsPerMigration"`
}

// RequestsPerMigration is the sum of all requests of the agents.
func (r AgentRun) RequestsPerMigration() float64 { return sum(r.Requests) }

// ManagerRequestsPerMigration is the sum of all requests of the controller manager.
func (r AgentRun) ManagerRequestsPerMigration() float64 { return sum(r.ManagerRequests) }

func sum(counts map[string]float64) float64 {
	var out float64
	for _, count := range counts {
		out += count
	}
	return out
}

// Landscape is what the landscape itself costs.
type Landscape struct {
	Environment Environment `json:"environment"`
	// Warm and Cold are the newest starts with what is built once in its cache, and with all of it to be built.
	Warm *Start `json:"warm,omitempty"`
	Cold *Start `json:"cold,omitempty"`
	// Machine is the whole machine at rest, Clusters the garden and the seeds.
	Machine  Usage            `json:"machine"`
	Clusters map[string]Usage `json:"clusters"`
}

// Start is a start of the landscape from nothing.
type Start struct {
	Environment Environment `json:"environment"`
	// Seconds is how long it took until the shoot was ready.
	Seconds float64 `json:"seconds"`
}

// Keep takes over the starts that were measured before, unless they were measured again.
func (l *Landscape) Keep(former *Landscape) {
	if former != nil {
		l.Warm, l.Cold = cmp.Or(l.Warm, former.Warm), cmp.Or(l.Cold, former.Cold)
	}
}

// Usage is what something uses.
type Usage struct {
	CPUCores  float64 `json:"cpuCores"`
	MemoryMiB float64 `json:"memoryMiB"`
}

// Set is what has been recorded. Parts that have not been measured are nil.
type Set struct {
	Relay     *Relay
	Join      *Joins
	Agent     *Agent
	Landscape *Landscape
	Live      *Live
	// Production has a live migration only.
	Production *Live
	Distance   *Distance
	Size       *Size
}

// file returns the file of a part.
func file(folder, part string) string { return filepath.Join(folder, part+".json") }

// Write records a part in the folder.
func Write(folder, part string, content any) error {
	encoded, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the figures of %s: %w", part, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make the folder of the figures: %w", err)
	}
	if err := os.WriteFile(file(folder, part), append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("failed to record the figures of %s: %w", part, err)
	}
	return nil
}

// Read reads what has been recorded in the folder.
func Read(folder string) (Set, error) {
	var set Set
	for part, read := range map[string]func(string) error{
		PartRelay:      readInto(&set.Relay),
		PartJoin:       readInto(&set.Join),
		PartAgent:      readInto(&set.Agent),
		PartLandscape:  readInto(&set.Landscape),
		PartLive:       readInto(&set.Live),
		PartProduction: readInto(&set.Production),
		PartDistance:   readInto(&set.Distance),
		PartSize:       readInto(&set.Size),
	} {
		if err := read(file(folder, part)); err != nil {
			return Set{}, fmt.Errorf("failed to read the figures of %s: %w", part, err)
		}
	}
	return set, nil
}

// readInto leaves the target nil if there is no such file. What it does not know is an error: figures that nobody shows
// any more should be measured again.
func readInto[T any](target **T) func(string) error {
	return func(path string) error {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		value := new(T)
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(value); err != nil {
			return err
		}
		*target = value
		return nil
	}
}
