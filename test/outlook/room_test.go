// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/outlook"
)

const gb = 1_000_000_000

// room is a machine that nothing else uses.
func room(cores int, speed float64, memory int64) outlook.Room {
	return outlook.Room{Machine: outlook.Machine{Cores: cores, Speed: speed}, Memory: memory}
}

func busy(room outlook.Room, load float64) outlook.Room {
	room.Load = load
	return room
}

var _ = Describe("Reckon", func() {
	var (
		down  = outlook.State{}
		up    = outlook.State{Up: true}
		there = outlook.State{Up: true, Shoot: true}

		live    = outlook.Demand{Shoot: "live", Moves: true, There: down}
		workers = outlook.Demand{Shoot: "workers", Workers: true, Moves: true, There: down}
	)
	// with changes a copy.
	with := func(demand outlook.Demand, change func(*outlook.Demand)) outlook.Demand {
		change(&demand)
		return demand
	}
	beside := func(demand outlook.Demand, there outlook.State, others ...string) outlook.Demand {
		demand.There, demand.Others = there, others
		return demand
	}

	DescribeTable("should tell what fits", func(room outlook.Room, demand outlook.Demand, refuses bool,
		texts ...string) {
		lacks := outlook.Reckon(room, demand)
		Expect(lacks).To(HaveLen(len(texts)))
		refused := false
		for i, text := range texts {
			Expect(lacks[i].What).To(ContainSubstring(text))
			Expect(lacks[i].Way).NotTo(BeEmpty())
			refused = refused || lacks[i].Refuses
		}
		Expect(refused).To(Equal(refuses))
	},
		Entry("the demo on the reference machine", room(2, 1, 24*gb), live, false),
		Entry("the demo on a machine half as fast", room(2, 0.5, 24*gb), live, false,
			"the 2 here do that of 1.0, and what computes takes 1.7 times as long"),
		Entry("workers on the reference machine", room(2, 1, 24*gb), workers, false),
		Entry("workers on a machine half as fast", room(2, 0.5, 24*gb), workers, false,
			"the work of 2.0 processors of the reference to move shoot workers"),
		Entry("workers on a machine that is a quarter as fast", room(2, 0.25, 24*gb), workers, true,
			"4.0 times as long"),
		Entry("workers beside another shoot on two fast processors", room(2, 1.2, 24*gb), beside(workers, up, "live"),
			true, "2 processors, 3 are needed to move shoot workers beside live"),
		Entry("workers beside another shoot on two slow processors", room(2, 0.5, 24*gb), beside(workers, up, "live"),
			true, "2 processors, 3 are needed", "2.2 times as long"),
		Entry("workers beside another shoot on four processors", room(4, 1, 24*gb), beside(workers, up, "live"), false),
		Entry("another shoot that is to be created, and not moved", room(2, 1.2, 24*gb),
			with(beside(workers, up, "live"), func(d *outlook.Demand) { d.Moves = false }), true,
			"3 are needed to create shoot workers beside live"),
		Entry("two shoots that are there and rest", room(2, 1, 24*gb),
			with(beside(workers, there, "live"), func(d *outlook.Demand) { d.Moves = false }), false),
		Entry("one processor", room(1, 2, 24*gb), live, true, "1 processors, 2 are needed"),

		Entry("too little memory for a landscape", room(2, 1, 11*gb), live, true,
			"11.0 GB of memory free, 12.0 GB are needed"),
		Entry("too little for one with three nodes in each seed", room(4, 1, 13*gb),
			with(live, func(d *outlook.Demand) { d.Nodes = 3 }), true, "13.0 GB of memory free, 14.0 GB are needed"),
		Entry("three nodes in each seed on the reference machine", room(2, 1, 24*gb),
			with(live, func(d *outlook.Demand) { d.Nodes = 3 }), false,
			"the work of 2.1 processors of the reference to move shoot live"),
		Entry("one node in each, said in words", room(2, 1, 12*gb),
			with(live, func(d *outlook.Demand) { d.Nodes = 1 }), false),
		Entry("memory for a move on a landscape that is up", room(2, 1, 4*gb), beside(live, there), false),
		Entry("too little of it", room(2, 1, 3*gb), beside(live, there), true, "3.0 GB of memory free, 4.0 GB"),
		Entry("too little of it for the shoot", room(2, 1, 5*gb), beside(live, up), true, "6.0 GB are needed"),
		Entry("a landscape that is only looked at", room(2, 1, gb),
			with(beside(live, there), func(d *outlook.Demand) { d.Moves = false }), false),

		Entry("the load of the landscape itself", busy(room(2, 1, 24*gb), 2.9), beside(live, there), false),
		Entry("that of a compiler besides", busy(room(2, 1, 24*gb), 4), beside(live, there), false,
			"a load average of 4.0 on 2 processors"),
		Entry("so much that nothing goes on", busy(room(2, 1, 24*gb), 90), beside(live, there), true,
			"a load average of 90.0"),
	)

	It("should name the way out", func() {
		lacks := outlook.Reckon(room(2, 1, 24*gb), beside(workers, up, "live"))
		Expect(lacks[0].Way).To(Equal("make landscape-down first, which also removes live"))
	})
})

var _ = Describe("Judge", func() {
	slow := outlook.Lack{What: "slow", Way: "wait"}
	small := outlook.Lack{Refuses: true, What: "small", Way: "grow"}

	BeforeEach(func() { GinkgoT().Setenv(outlook.EnvRequirements, "") })

	It("should say nothing of a machine that has room", func() {
		Expect(outlook.Judge(nil)).To(BeNil())
	})

	It("should warn of what only takes long", func() {
		Expect(outlook.Judge([]outlook.Lack{slow})).To(ContainElements("  slow", "  -> wait"))
	})

	It("should refuse what would fail, and say how to begin all the same", func() {
		_, err := outlook.Judge([]outlook.Lack{slow, small})
		Expect(err).To(MatchError(And(ContainSubstring("small\n  -> grow"), ContainSubstring("REQUIREMENTS=warn"))))
		GinkgoT().Setenv(outlook.EnvRequirements, "warn")
		lines, err := outlook.Judge([]outlook.Lack{slow, small})
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Join(lines, "\n")).To(And(ContainSubstring("small"), ContainSubstring("continues all the same")))
	})
})

var _ = Describe("Survey", func() {
	It("should measure this machine", func() {
		here, err := outlook.Survey()
		Expect(err).NotTo(HaveOccurred())
		Expect(here.Cores).To(BeNumerically(">", 0))
		Expect(here.Speed).To(BeNumerically(">", 0))
		Expect(here.Memory).To(BeNumerically(">", 1<<20))
	})

	DescribeTable("should take the memory that is free", func(meminfo, limit string, expected int64) {
		folder := GinkgoT().TempDir()
		info, limits := filepath.Join(folder, "meminfo"), filepath.Join(folder, "limit")
		Expect(os.WriteFile(info, []byte(meminfo), 0o600)).To(Succeed())
		Expect(os.WriteFile(limits, []byte(limit), 0o600)).To(Succeed())
		free, err := outlook.FreeMemory(info, filepath.Join(folder, "missing"), limits)
		if expected < 0 {
			Expect(err).To(HaveOccurred())
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(free).To(Equal(expected))
	},
		Entry("without a limit", "MemTotal: 9 kB\nMemAvailable:   4 kB\n", "max\n", int64(4096)),
		Entry("with one", "MemAvailable: 4 kB\n", "1000\n", int64(1000)),
		Entry("with one that is more than there is", "MemAvailable: 4 kB\n", "9223372036854771712\n", int64(4096)),
		Entry("when nobody says it", "MemTotal: 9 kB\n", "max\n", int64(-1)),
	)

	It("should find the shoots that are there", func() {
		state := GinkgoT().TempDir()
		Expect(outlook.OtherShoots(state, "workers")).To(BeEmpty())
		Expect(os.Mkdir(filepath.Join(state, "shoots"), 0o700)).To(Succeed())
		for _, name := range []string{"workers", "live", "extra"} {
			Expect(os.WriteFile(filepath.Join(state, "shoots", name+".kubeconfig"), nil, 0o600)).To(Succeed())
		}
		Expect(outlook.OtherShoots(state, "workers")).To(Equal([]string{"extra", "live"}))
	})
})
