// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/test/search"
	. "github.com/livecpm/livecpm/test/search/membership"
)

// everything is the model with every fault, once or twice.
var everything = Model{Losses: 2, Volumes: 2, Nodes: 2, Crashes: 1, Elections: 1, Cuts: 1, Restarts: 1, Writes: 1,
	Abort: true}

// worlds are the worlds that are explored, by the name that a counterexample begins with.
func worlds() map[string]*World {
	out := map[string]*World{
		"calm":    New(Model{Abort: true}),
		"volume":  New(Model{Losses: 1, Volumes: 1, Abort: true}),
		"node":    New(Model{Losses: 1, Nodes: 1, Abort: true}),
		"crash":   New(Model{Crashes: 1, Elections: 1, Abort: true}),
		"restart": New(Model{Restarts: 1, Abort: true}),
		"cut":     New(Model{Cuts: 1, Writes: 1, Abort: true}),
	}
	for _, stage := range Stages {
		out["all faults from "+string(stage)] = At(stage, everything)
	}
	return out
}

// needsNobody are the worlds in which each fault heals by itself, wherever it happens.
var needsNobody = []string{"calm", "volume", "crash", "restart"}

// fromEnvironment returns a number of the environment.
func fromEnvironment(name string, otherwise uint64) uint64 {
	GinkgoHelper()
	number, err := search.FromEnvironment(name, otherwise)
	Expect(err).NotTo(HaveOccurred())
	return number
}

var _ = Describe("The membership of the etcds, searched", func() {
	BeforeEach(func() { DeferCleanup(debug.SetGCPercent, debug.SetGCPercent(300)) })

	It("should be safe in each state, and have a way to an end", func() {
		bound, all := fromEnvironment("BOUND", 350), worlds()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			result, err := search.Explore(all[name], search.Bounds{States: int(bound), Workers: runtime.NumCPU()})
			Expect(err).NotTo(HaveOccurred(), name)
			GinkgoWriter.Printf("%s: %s\n", name, result)
			for _, asked := range slices.Sorted(maps.Keys(result.Examples)) {
				GinkgoWriter.Printf("asked after %d events: %s\n%s\n", len(result.Examples[asked]), asked,
					result.Examples[asked])
			}
			if result.Found != nil {
				Fail(search.Replayable(name, result.Found).Error())
			}
			if slices.Contains(needsNobody, name) {
				Expect(result.Stuck).To(BeZero(), "%s: %v", name, result.Examples)
			}
		}
	})

	It("should reach both ends without faults, and have looked at all of it", func() {
		result, err := search.Explore(New(Model{Abort: true}), search.Bounds{Workers: runtime.NumCPU()})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.Unexpanded).To(BeZero())
		Expect(result.Goals).To(And(HaveKey(HavePrefix("done")), HaveKey(HavePrefix("back"))))
		Expect(result.Stuck).To(BeZero())
	})

	It("should hold in random schedules with many faults", func() {
		var (
			seed    = fromEnvironment("SEED", 1)
			number  = fromEnvironment("SCHEDULES", 50)
			results = walk(seed, number)
		)
		GinkgoWriter.Printf("seed %d: %d schedules with %d events\n", seed, number, results.events)
		for _, end := range slices.Sorted(maps.Keys(results.ends)) {
			GinkgoWriter.Printf("%d ended so: %s\n", results.ends[end], end)
		}
		Expect(results.failed).To(BeEmpty())
	})

	It("should be replayed", func() {
		file, schedule := os.Getenv("REPLAY"), os.Getenv("SCHEDULE")
		switch {
		case file != "":
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			_, name, ok := strings.Cut(strings.Split(string(text), "\n")[0], "# world: ")
			Expect(ok).To(BeTrue(), "the first line names the world")
			world, known := worlds()[name]
			if !known {
				Skip("the schedule is of none of the worlds of etcds: " + name)
			}
			tell(world, search.ParseSchedule(string(text)))
		case schedule != "":
			number := fromEnvironment("SCHEDULE", 0)
			world := starts()[number%uint64(len(Stages))]
			end, _ := walks(fromEnvironment("SEED", 1)).Walk(world, number)
			tell(world, end.Schedule)
		default:
			Skip("set REPLAY to the file of a counterexample, or SCHEDULE and SEED to the numbers of a random schedule")
		}
	})
})

// many is the model of the random schedules.
var many = Model{Losses: 2, Volumes: 2, Nodes: 2, Crashes: 3, Elections: 3, Cuts: 2, Restarts: 3, Writes: 3,
	Abort: true, Both: true}

func walks(seed uint64) search.Walks {
	return search.Walks{Seed: seed, Events: 20, Faults: 0.2, Calm: 60}
}

// starts are where random schedules begin. Each world is for one caller.
func starts() []*World {
	var out []*World
	for _, stage := range Stages {
		out = append(out, At(stage, many))
	}
	return out
}

// walked is what random schedules have led to.
type walked struct {
	events int
	ends   map[string]int
	failed []string
}

// rareCollection is how much garbage there may be, in percent of what is in use, which is a few MiB.
const rareCollection = 1600

// walk goes through so many random schedules.
func walk(seed, schedules uint64) walked {
	var (
		next  atomic.Uint64
		group sync.WaitGroup
		lock  sync.Mutex
		out   = walked{ends: map[string]int{}}
	)
	// A schedule leaves much behind and keeps nothing: collecting it as often as usual takes a tenth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(rareCollection))
	for range runtime.NumCPU() {
		group.Go(func() {
			worlds := starts()
			for number := next.Add(1) - 1; number < schedules; number = next.Add(1) - 1 {
				world := worlds[number%uint64(len(worlds))]
				end, err := walks(seed).Walk(world, number)
				lock.Lock()
				out.events += len(end.Schedule)
				if out.ends[end.Goal+strings.Join(end.Asks, "; ")]++; err != nil && len(out.failed) < 20 {
					last, _ := search.Replay(world, end.Schedule)
					out.failed = append(out.failed, fmt.Sprintf("SEED=%d SCHEDULE=%d: %s; said: %v", seed, number,
						strings.Split(err.Error(), ", after")[0], saying(last)))
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
	return out
}

// saying returns what the agents say in a state, whatever comes next.
func saying(world search.World) []string {
	var out []string
	if world == nil {
		return nil
	}
	for _, action := range world.Actions() {
		after := world.Clone()
		if action.Fault || after.Do(action.Name) != nil {
			continue
		}
		if w, ok := after.(*World); ok {
			out = append(out, action.Name+" → "+w.Said())
		}
	}
	return out
}

// tell replays a schedule and prints what the agents say.
func tell(world search.World, schedule search.Schedule) {
	for i, event := range schedule {
		var err error
		world, err = search.Replay(world, search.Schedule{event})
		fmt.Printf("%3d %s\n", i+1, event)
		if w, ok := world.(*World); ok && w.Said() != "" {
			fmt.Printf("      %s\n", w.Said())
		}
		if err != nil {
			fmt.Printf("      → %s\n", err)
			return
		}
	}
	for _, text := range saying(world) {
		fmt.Println("next:", text)
	}
}

var _ = Describe("A search that can fail", func() {
	fails := func(start *World, problem string) {
		GinkgoHelper()
		result, err := search.Explore(start, search.Bounds{States: 8000, Workers: runtime.NumCPU()})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Found).To(MatchError(ContainSubstring(problem)))
		// What is printed leads to the same again.
		_, err = search.Replay(start, search.ParseSchedule(result.Found.Schedule.String()))
		Expect(err).To(Equal(result.Found))
	}

	It("should find a stop without a projection of the quorum", func() {
		fails(At(Six, Model{Crashes: 3, Broken: Broken{Blind: true}}), "stops, because")
	})

	It("should find a member that is removed before its pod has ended", func() {
		fails(At(Six, Model{Decisions: Decisions{RetireNext: removeFirst}}), "was removed while it works")
	})

	It("should find a member that leaves too early", func() {
		fails(At(Five, Model{Decisions: Decisions{Advance: twoAreEnough, RetireNext: withdrawHere}}),
			"while the destination has 2 voters")
	})

	It("should find an agent that waits in silence", func() {
		// It is no event that is wrong here, but that none leads on.
		silent := Decisions{RetireNext: func(context.Context, *joint.Joint, string) (joint.Progress, error) {
			return joint.Progress{}, nil
		}}
		result, err := search.Explore(At(Six, Model{Decisions: silent}), search.Bounds{Workers: runtime.NumCPU()})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Found).To(MatchError(ContainSubstring("nobody is asked for anything")))
		after, err := search.Replay(At(Six, Model{Decisions: silent}), result.Found.Schedule)
		Expect(err).NotTo(HaveOccurred())
		Expect(saying(after)).To(ContainElement(HaveSuffix("agent of the source moves → ")))
	})

	It("should find that a member without data cannot join again if its configuration lacks the others", func() {
		stuck := func(broken Broken) int {
			GinkgoHelper()
			world, err := search.Replay(New(Model{Losses: 1, Volumes: 1, Broken: broken}),
				search.Schedule{
					"etcd-main, destination-0: the StatefulSet makes the pod",
					"etcd-main, destination-0: the sidecar prepares the member",
					"etcd-main, destination-0: etcd starts",
					"etcd-main, destination-0: the member catches up",
					"etcd-main: the agent of the destination moves",
					"etcd-main, source-1: the volume is lost",
				})
			Expect(err).NotTo(HaveOccurred())
			result, err := search.Explore(world, search.Bounds{States: 5000, Workers: runtime.NumCPU()})
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Found).NotTo(HaveOccurred())
			Expect(result.Unexpanded).To(BeZero())
			return result.Stuck
		}
		Expect(stuck(Broken{})).To(BeZero())
		Expect(stuck(Broken{Narrow: true})).To(BeNumerically(">", 0))
	})

	It("should find with random schedules what a search finds", func() {
		world := At(Six, Model{Crashes: 3, Broken: Broken{Blind: true}})
		var problems []string
		for number := range uint64(60) {
			if _, err := (search.Walks{Seed: 1, Events: 60, Faults: 0.3, Calm: 10}).Walk(world, number); err != nil {
				problems = append(problems, err.Error())
			}
		}
		Expect(problems).To(ContainElement(ContainSubstring("stops, because")))
	})
})

// removeFirst is RetireNext in the wrong order.
func removeFirst(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error) {
	reader, err := j.OpenReader(ctx, etcdRole)
	if err != nil {
		return joint.Progress{}, err
	}
	list, err := reader.List(ctx)
	if err != nil {
		return joint.Progress{}, err
	}
	for _, member := range slices.Backward(list.Members) {
		if cluster, ok := reader.(etcdclient.Cluster); ok && strings.HasPrefix(member.Name, "seed-a") {
			return joint.Progress{}, cluster.Remove(ctx, member.ID)
		}
	}
	return joint.Progress{Done: true}, nil
}

// twoAreEnough is Advance of an agent that has the source retire its members as soon as two have joined.
func twoAreEnough(ctx context.Context, j *joint.Joint, etcdRole string, members int) (joint.Progress, error) {
	return j.Advance(ctx, etcdRole, min(members, 2))
}

// withdrawHere is an agent of the source that does there what is meant for the destination.
func withdrawHere(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error) {
	return j.WithdrawNext(ctx, etcdRole)
}
