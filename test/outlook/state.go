// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// EnvBegan names the environment variable with the second in which a run began whose first program was another one.
const EnvBegan = "LIVECPM_BEGAN"

// DemoBinary is where the demo is built, below the folder of the landscape's state.
const DemoBinary = "bin/livecpm-demo"

// State is what is there already.
type State struct {
	// Demo reports that the demo has been built once.
	Demo bool
	// Built are the real components that are built.
	Built map[string]bool
	// Images reports that the images have been made once.
	Images bool
	// Up reports that the landscape is up, Shoot that its shoot has been created.
	Up, Shoot bool
}

// Place is where a run finds what is there.
type Place struct {
	// Repo and State are the folders of the repository and of the landscape's state.
	Repo, State string
	// Shoot is the name of the landscape's shoot.
	Shoot string
	// More are components beyond those of every landscape.
	More []string
}

// Look finds out what is there.
func Look(ctx context.Context, place Place) (State, error) {
	s := State{Built: map[string]bool{}}
	cmd := exec.CommandContext(ctx, filepath.Join(place.Repo, "hack", "build-tools.sh"),
		append([]string{"--built"}, append(Components(), place.More...)...)...)
	output, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("failed to ask which components are built: %w", err)
	}
	for _, component := range strings.Fields(string(output)) {
		s.Built[component] = true
	}
	s.Demo = exists(filepath.Join(place.State, DemoBinary))
	s.Images = exists(filepath.Join(place.State, "images", "livecpm", "built.json"))
	s.Up = anyAlive(filepath.Join(place.State, "processes"))
	s.Shoot = s.Up && exists(filepath.Join(place.State, "shoots", place.Shoot+".kubeconfig"))
	return s, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// anyAlive reports whether one of the processes is alive that the landscape has recorded.
func anyAlive(folder string) bool {
	records, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for _, record := range records {
		content, err := os.ReadFile(record)
		if err != nil {
			continue
		}
		_, after, found := strings.Cut(string(content), `"pid":`)
		if pid := strings.TrimLeft(after, " "); found && exists("/proc/"+pid[:digits(pid)]) && digits(pid) > 0 {
			return true
		}
	}
	return false
}

func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// First reports whether a part has to be made, rather than only to be found.
func (s State) First(part Part) bool {
	switch {
	case part.Name == PartDemo:
		// Who has built all components has mostly compiled what the demo consists of, too.
		return !s.Demo && len(s.Built) < len(Components())
	case part.Component != "":
		return !s.Built[part.Component]
	case part.Name == "shoot":
		return !s.Shoot
	case part.Kind == Compile:
		return !s.Images
	default:
		return !s.Up
	}
}

// Began returns when the run began: when the program did that was first, if it has said so.
func Began(now time.Time) time.Time {
	seconds, err := strconv.ParseInt(os.Getenv(EnvBegan), 10, 64)
	if err != nil {
		return now
	}
	return time.Unix(seconds, 0)
}

// Begun reports whether the run has begun with another program, which has looked at the machine.
func Begun() bool { return os.Getenv(EnvBegan) != "" }

// measuring is how long the speed of the machine is measured.
const measuring = 200 * time.Millisecond

// Track returns a tracker of the parts of a run on this machine, with what is there already and how fast the machine
// is. The run began at the given time.
func Track(ctx context.Context, began time.Time, parts []Part, place Place) (*Tracker, State, Machine, error) {
	there, err := Look(ctx, place)
	if err != nil {
		return nil, there, Machine{}, err
	}
	machine := Measure(measuring)
	expect := func(part Part) time.Duration {
		if there.First(part) {
			return machine.First(part)
		}
		return machine.Again(part)
	}
	return NewTracker(time.Now, began, parts, expect), there, machine, nil
}
