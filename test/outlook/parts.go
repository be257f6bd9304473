// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package outlook knows of what parts the demo and the start of the landscape consist, which part needs which, and how
// long each takes on a machine. It tells what is going on and how long it still takes. Only the standard library is
// imported, and golang.org/x/term: the first program of the demo has to be there before anything large is compiled.
package outlook

import "time"

// Kind tells how the duration of a part depends on the machine.
type Kind int

const (
	// Compile grows with the work and shrinks with the speed and number of processors.
	Compile Kind = iota
	// Start is half waiting: for leases, intervals and timeouts of the components that start.
	Start
	// Fixed takes the same everywhere.
	Fixed
)

// Stage groups parts for the reader.
type Stage string

// The stages in their order.
const (
	StageDemo      Stage = "compile the demo"
	StageTools     Stage = "build the real components"
	StageLandscape Stage = "start garden and seeds"
	StageShoot     Stage = "create the shoot"
	StageBefore    Stage = "load before the migration"
	StageMigration Stage = "migration under load"
	StageAfter     Stage = "load after it, report"
)

// Stages returns all stages in their order.
func Stages() []Stage {
	return []Stage{StageDemo, StageTools, StageLandscape, StageShoot, StageBefore, StageMigration, StageAfter}
}

// Part is a piece of work with a duration of its own.
type Part struct {
	// Name identifies the part. The phases of the landscape have the names of their parts.
	Name string
	// Title says to a reader what happens, as an imperative.
	Title string
	// Stage is where the reader finds it.
	Stage Stage
	// Kind tells how First and Again depend on the machine.
	Kind Kind
	// Needs are the names of the parts that must be finished before this one begins.
	Needs []string
	// First is how long it takes on the reference machine when nothing of it is there, Again when it only has to be
	// found.
	First, Again time.Duration
	// Component is the real component that the part builds, by its name in hack/build-tools.sh, or empty.
	Component string
}

// Names of the parts that are no phases of the landscape.
const (
	// PartDemo is the compilation of the demo, with everything it imports.
	PartDemo = "demo"
	// PartBefore, PartMigration and PartAfter are what the demo does when landscape and shoot are there.
	PartBefore    = "before"
	PartMigration = "migration"
	PartAfter     = "after"
)

// toolPrefix begins the names of the parts that build a real component.
const toolPrefix = "tool-"

// Tool returns the name of the part that builds a real component.
func Tool(component string) string { return toolPrefix + component }

// tools are the real components in the order in which they are built, which is the order in which the landscape needs
// them, and how long each takes when those before it are compiled.
var tools = []struct {
	component string
	first     time.Duration
}{
	{"etcd", 18 * time.Second},
	{"kubernetes", 90 * time.Second},
	{"containerd", 33 * time.Second},
	{"cni", 2 * time.Second},
	{"kube-network-policies", 20 * time.Second},
	{"coredns", 5 * time.Second},
	{"gardener", 30 * time.Second},
	{"gardener-admission-controller", 6 * time.Second},
	{"local-path-provisioner", 2 * time.Second},
	{"etcd-druid", 10 * time.Second},
	{"envoy", 5 * time.Second},
	{"istio", 120 * time.Second},
	{"etcd-backup-restore", 60 * time.Second},
}

// firstOfShoots is the first of the components that seeds do without and shoots need.
const firstOfShoots = "etcd-backup-restore"

// Components returns the real components of every landscape in the order in which they are built.
func Components() []string {
	var names []string
	for _, tool := range tools {
		names = append(names, tool.component)
	}
	return names
}

// WorkerComponents returns the real components that only a shoot with workers needs.
func WorkerComponents() []string { return []string{"machine-controller-manager", "gardener-machines"} }

// Parts returns all parts of the demo; each comes after those it needs. What First and Again say was measured on the
// reference machine (docs/development/landscape.md, "Where a cold start spends its time"). Components beyond those of
// every landscape are built last.
func Parts(more ...string) []Part {
	parts := []Part{
		{Name: PartDemo, Title: "compile the demo", Stage: StageDemo, First: 154 * time.Second, Again: 4 * time.Second},
		{Name: "requirements", Title: "check the machine", Stage: StageLandscape, Kind: Fixed,
			Needs: []string{PartDemo}},
		{Name: "machine", Title: "prepare the machine", Stage: StageLandscape, Kind: Fixed,
			Needs: []string{"requirements"}},
	}
	last := "requirements"
	build := func(component string, first time.Duration) {
		parts = append(parts, Part{
			Name: Tool(component), Title: "build " + component, Stage: StageTools,
			// One after the other: each uses all processors, and what two have in common is compiled once.
			Needs: []string{last}, First: first, Component: component,
		})
		last = Tool(component)
	}
	const second = time.Second
	parts = append(parts, Part{Name: "binaries", Title: "build the landscape's own programs", Stage: StageLandscape,
		Needs: []string{"requirements"}, First: 2 * second, Again: second})
	for _, tool := range tools {
		if tool.component == firstOfShoots {
			// The seeds are set up for a minute; what only shoots need is compiled meanwhile.
			parts = append(parts,
				Part{Name: "seed-images", Title: "make the images of the seeds", Stage: StageLandscape,
					Needs: []string{last, "binaries"}, First: 16 * second, Again: 2 * second})
			last = "seed-images"
		}
		build(tool.component, tool.first)
	}
	for _, component := range more {
		build(component, 30*second)
	}
	return append(parts, runningParts(last)...)
}

// runningParts are those in which something runs, rather than only being built. lastBuild is the name of the last part
// that builds.
func runningParts(lastBuild string) []Part {
	const second = time.Second
	return []Part{
		{Name: "garden", Title: "start the garden's cluster", Stage: StageLandscape, Kind: Start,
			Needs: []string{Tool("etcd"), Tool("kubernetes"), "machine"}, First: 3 * second, Again: second},
		{Name: "node-images", Title: "make the images of the seeds' nodes", Stage: StageLandscape,
			Needs: []string{Tool("coredns"), Tool("local-path-provisioner"), "binaries"}, First: 3 * second,
			Again: second},
		{Name: "seeds", Title: "start the seeds", Stage: StageLandscape, Kind: Start,
			Needs: []string{Tool("containerd"), Tool("cni"), Tool("kube-network-policies"), "node-images", "garden"},
			First: 16 * second,
			Again: 2 * second},
		{Name: "supervisor", Title: "start the supervisor", Stage: StageLandscape, Kind: Fixed,
			Needs: []string{"garden", "seeds"}},
		{Name: "dns", Title: "start the DNS server", Stage: StageLandscape, Kind: Start, Needs: []string{"garden"},
			First: second},
		{Name: "gardener", Title: "start Gardener", Stage: StageLandscape, Kind: Start,
			Needs: []string{Tool("gardener"), Tool("gardener-admission-controller"), "dns"}, First: 3 * second,
			Again: second},
		{Name: "prerequisites", Title: "make seeds of the clusters", Stage: StageLandscape, Kind: Start,
			Needs: []string{"gardener", "supervisor", "seed-images"}, First: 58 * second, Again: 3 * second},
		{Name: "shoot-images", Title: "make the images of shoots", Stage: StageLandscape,
			Needs: []string{lastBuild}, First: 12 * second, Again: 2 * second},
		{Name: "livecpm-images", Title: "make livecpm's images", Stage: StageLandscape,
			Needs: []string{"shoot-images"}, First: 15 * second, Again: 3 * second},
		{Name: "livecpm", Title: "install livecpm", Stage: StageShoot, Kind: Start,
			Needs: []string{"livecpm-images", "prerequisites"}, First: 25 * second, Again: 5 * second},
		{Name: "shoot", Title: "create the shoot", Stage: StageShoot, Kind: Start,
			Needs: []string{"shoot-images", "seeds", "prerequisites"}, First: 230 * second, Again: 2 * second},
		{Name: PartBefore, Title: "load before the migration", Stage: StageBefore, Kind: Fixed,
			Needs: []string{"livecpm", "shoot"}, First: 65 * second, Again: 65 * second},
		{Name: PartMigration, Title: "migration under load", Stage: StageMigration, Kind: Start,
			Needs: []string{PartBefore}, First: 420 * second, Again: 420 * second},
		{Name: PartAfter, Title: "load after the migration, report", Stage: StageAfter, Kind: Fixed,
			Needs: []string{PartMigration}, First: 75 * second, Again: 75 * second},
	}
}
