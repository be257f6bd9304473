// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// EnvRequirements names the environment variable that, with the value warn, lets a run begin on a machine that is too
// small for it. hack/setup.sh has the same one.
const EnvRequirements = "REQUIREMENTS"

// requirementsWarn is the value that lets it.
const requirementsWarn = "warn"

// Room is what a machine has for a run.
type Room struct {
	// Machine is how many processors there are, and how fast each is.
	Machine
	// Memory is what is free at the moment, in bytes.
	Memory int64
	// Load is the load average of the last minute.
	Load float64
}

// Demand is what a run asks of the machine.
type Demand struct {
	// Shoot is the name of the landscape's shoot.
	Shoot string
	// Workers reports whether it has workers, Moves whether its control plane is moved, rather than only run.
	Workers, Moves bool
	// Nodes is how many nodes each of the two seeds has. Less than one is one.
	Nodes int
	// There is what is there already.
	There State
	// Others are highly available shoots that are there besides.
	Others []string
}

// What control planes take. They are figures of the reference machine (docs/development/landscape.md, "What it takes",
// "A shoot with workers"), or estimates where it says so.
const (
	// busyProcessors is how many processors a highly available control plane needs while it is created or moved,
	// restingProcessors while it only runs. Whatever they achieve in a second: with fewer, twelve etcd members and API
	// servers wait for each other until the kubelet takes a new one for dead. The second one is an estimate.
	busyProcessors, restingProcessors = 2, 1

	// landscapeWork, and so on, are processors of the reference machine, on average. The first is what is left of the
	// measured 0.5 at rest without the shoot; that of another shoot is as much again.
	landscapeWork, otherWork, liveWork, workersWork = 0.25, 0.25, 1.45, 1.75
	// nodeWork and nodeMemory are what each node of a seed takes beyond its first one, with the gateways of its zone
	// and its own copies of images and programs. Both are estimates.
	nodeWork, nodeMemory = 0.1, gigabyte / 2
	// slowest is how many times longer than on the reference machine a migration may take and still come to its end: on
	// machines that were half as fast all did.
	slowest = 3

	gigabyte = 1_000_000_000
	// memoryNew is what a landscape with its shoot needs, memoryShoot what the shoot needs on one that is up,
	// memoryMove what is left to use when both are there. The second is an estimate.
	memoryNew, memoryShoot, memoryMove = 12 * gigabyte, 6 * gigabyte, 4 * gigabyte

	// loadHinders and loadForbids are runnable threads for each processor.
	loadHinders, loadForbids = 1.0, 8.0
)

// Lack is something that a machine has too little of for a run.
type Lack struct {
	// Refuses reports whether the run would fail, rather than only take long.
	Refuses bool
	// What is too little, with figures; Way is what to do about it.
	What, Way string
}

// Reckon returns what the room lacks for the demand.
func Reckon(room Room, demand Demand) []Lack {
	var lacks []Lack
	for _, reckon := range []func(Room, Demand) (Lack, bool){processors, speed, memory, load} {
		if lack, found := reckon(room, demand); found {
			lacks = append(lacks, lack)
		}
	}
	return lacks
}

// busy reports whether the run creates or moves a control plane.
func (d Demand) busy() bool { return d.Moves || !d.There.Shoot }

// further is how many nodes there are beyond one in each of the two seeds.
func (d Demand) further() int { return 2 * max(d.Nodes-1, 0) }

// does says what the run does.
func (d Demand) does() string {
	switch {
	case d.Moves:
		return "to move shoot " + d.Shoot
	case d.There.Shoot:
		return "to keep shoot " + d.Shoot
	default:
		return "to create shoot " + d.Shoot
	}
}

// beside says what is there besides.
func (d Demand) beside() string {
	if len(d.Others) == 0 {
		return ""
	}
	return " beside " + strings.Join(d.Others, ", ")
}

// wayOut is what makes room for processors.
func (d Demand) wayOut() string {
	if len(d.Others) > 0 {
		return "make landscape-down first, which also removes " + strings.Join(d.Others, ", ")
	}
	return "end other programs, or use a machine with more"
}

func processors(room Room, demand Demand) (Lack, bool) {
	needs := restingProcessors
	if demand.busy() {
		needs = busyProcessors
	}
	needs += restingProcessors * len(demand.Others)
	if room.Cores >= needs {
		return Lack{}, false
	}
	return Lack{Refuses: true, What: fmt.Sprintf("%d processors, %d are needed %s%s: %d while a highly available "+
		"control plane is created or moved, %d for each other one", room.Cores, needs, demand.does(), demand.beside(),
		busyProcessors, restingProcessors), Way: demand.wayOut()}, true
}

func speed(room Room, demand Demand) (Lack, bool) {
	needs := landscapeWork + otherWork*float64(len(demand.Others)) + nodeWork*float64(demand.further())
	switch {
	case !demand.busy():
		needs += otherWork
	case demand.Workers:
		needs += workersWork
	default:
		needs += liveWork
	}
	has := float64(room.Cores) * room.Speed
	if has >= needs {
		return Lack{}, false
	}
	return Lack{Refuses: has*slowest < needs, What: fmt.Sprintf("the work of %.1f processors of the reference %s%s; "+
		"at "+
		"this moment the %d here do that of %.1f, and what computes takes %.1f times as long", needs,
		demand.does(), demand.beside(), room.Cores, has, needs/max(has, 0.01)), Way: demand.wayOut()}, true
}

func memory(room Room, demand Demand) (Lack, bool) {
	needs := int64(memoryMove)
	switch {
	case !demand.There.Up:
		needs = memoryNew + nodeMemory*int64(demand.further())
	case !demand.There.Shoot:
		needs = memoryShoot
	case !demand.Moves:
		return Lack{}, false
	}
	if room.Memory >= needs {
		return Lack{}, false
	}
	return Lack{Refuses: true, What: fmt.Sprintf("%.1f GB of memory free, %.1f GB are needed %s%s",
		float64(room.Memory)/gigabyte, float64(needs)/gigabyte, demand.does(), demand.beside()),
		Way: demand.wayOut()}, true
}

func load(room Room, demand Demand) (Lack, bool) {
	own := 0.0
	if demand.There.Up {
		own = restingProcessors * float64(1+len(demand.Others))
	}
	other := max(0, room.Load-own)
	if other <= loadHinders*float64(room.Cores) {
		return Lack{}, false
	}
	return Lack{Refuses: other > loadForbids*float64(room.Cores), What: fmt.Sprintf("a load average of %.1f on %d "+
		"processors, of which the landscape has about %.0f: something else takes the processors", room.Load, room.Cores,
		own), Way: "wait until it is done, or end it"}, true
}

// Judge returns what to say of the lacks before a run, and an error if it must not begin. With EnvRequirements it only
// warns.
func Judge(lacks []Lack) (lines []string, err error) {
	refuses := false
	for _, lack := range lacks {
		refuses = refuses || lack.Refuses
		lines = append(lines, "  "+lack.What, "  -> "+lack.Way)
	}
	switch {
	case len(lacks) == 0:
		return nil, nil
	case !refuses:
		return append([]string{"This machine is small or busy for it. It will take longer, and requests may fail:"},
			lines...), nil
	case os.Getenv(EnvRequirements) == requirementsWarn:
		return append([]string{"This machine is too small or too busy for it. " + EnvRequirements + "=" +
			requirementsWarn + " continues all the same:"}, lines...), nil
	}
	return nil, errors.New("this machine is too small or too busy for it:\n" + strings.Join(lines, "\n") +
		"\n  " + EnvRequirements + "=" + requirementsWarn + " continues all the same")
}

// Survey measures the room of this machine.
func Survey() (Room, error) {
	// The best of several moments: what runs beside it for one of them says nothing of the machine, and is in the load.
	const moments = 5
	var room Room
	for range moments {
		if now := Measure(measuring / moments); now.Speed > room.Speed {
			room.Machine = now
		}
	}
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return room, fmt.Errorf("failed to read the load average: %w", err)
	}
	first, _, _ := strings.Cut(string(content), " ")
	if room.Load, err = strconv.ParseFloat(first, 64); err != nil {
		return room, fmt.Errorf("failed to read the load average: %w", err)
	}
	room.Memory, err = freeMemory("/proc/meminfo", "/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes")
	return room, err
}

// freeMemory is what the machine has available, or the limit of the container if that is less.
func freeMemory(meminfo string, limits ...string) (int64, error) {
	content, err := os.ReadFile(meminfo)
	if err != nil {
		return 0, fmt.Errorf("failed to read how much memory is free: %w", err)
	}
	free := int64(-1)
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kibibytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("failed to read how much memory is free: %w", err)
		}
		free = kibibytes << 10
	}
	if free < 0 {
		return 0, fmt.Errorf("failed to read how much memory is free: %s does not say it", meminfo)
	}
	for _, file := range limits {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the other version of cgroups, or none
		}
		// Without a limit it is a word, or more than there is.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err == nil {
			free = min(free, limit)
		}
	}
	return free, nil
}

// OtherShoots are the shoots that the landscape in the state folder has besides the given one.
func OtherShoots(state, shoot string) []string {
	const extension = ".kubeconfig"
	files, _ := filepath.Glob(filepath.Join(state, "shoots", "*"+extension))
	var others []string
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), extension); name != shoot {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}
