// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command start is what make demo runs first: it says what is going to happen and how long it takes on this machine,
// compiles the demo, and becomes it. It imports next to nothing, so that it is there within seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/outlook"
)

const demoPackage = "./test/demo/cmd/demo"

func main() {
	s := &start{began: time.Now(), screen: outlook.NewScreen(os.Stdout)}
	interrupted, wasInterrupted := outlook.Interruptible(func() {
		fmt.Fprintln(os.Stderr, outlook.Resume("while the demo was compiled"))
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-interrupted
		cancel()
	}()
	err := s.run(ctx)
	switch {
	case wasInterrupted():
		fmt.Fprintln(os.Stderr, outlook.Resume("while the demo was compiled"))
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type start struct {
	began  time.Time
	screen *outlook.Screen

	repo, state, cache, shoot string
	tracker                   *outlook.Tracker
}

func (s *start) run(ctx context.Context) error {
	var err error
	if s.repo, err = os.Getwd(); err != nil {
		return fmt.Errorf("failed to find the repository: %w", err)
	}
	// The Makefile sets these.
	s.state, s.cache = os.Getenv("LIVECPM_STATE"), os.Getenv("LIVECPM_CACHE")
	if s.state == "" || s.cache == "" {
		return fmt.Errorf("LIVECPM_STATE and LIVECPM_CACHE must be set: run make demo")
	}
	if s.shoot = shootOf(s.state); s.shoot == "" {
		s.shoot = "live"
	}
	var more []string
	if config.WithWorkers(s.shoot) {
		more = outlook.WorkerComponents()
	}
	var there outlook.State
	var machine outlook.Machine
	if s.tracker, there, machine, err = outlook.Track(ctx, s.began, outlook.Parts(more...),
		outlook.Place{Repo: s.repo, State: s.state, Shoot: s.shoot, More: more}); err != nil {
		return err
	}
	plan := outlook.Plan{
		Shoot: s.shoot, Machine: machine, Model: model(), Stages: s.tracker.Stages(), Left: s.tracker.Left(),
		Now:   time.Now(),
		State: s.state, Cache: s.cache, There: there, Components: len(outlook.Components()) + len(more),
	}
	for _, line := range plan.Lines() {
		s.screen.Line("%s", line)
	}
	if err := s.reckon(there); err != nil {
		return err
	}
	if err := s.build(ctx, there, append(outlook.Components(), more...)); err != nil {
		return err
	}
	binary := filepath.Join(s.state, outlook.DemoBinary)
	env := append(os.Environ(), fmt.Sprintf("%s=%d", outlook.EnvBegan, s.began.Unix()))
	if err := syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), env); err != nil {
		return fmt.Errorf("failed to start the demo: %w", err)
	}
	return nil
}

// reckon says what the machine lacks, before anything is built. What would fail is an error.
func (s *start) reckon(there outlook.State) error {
	room, err := outlook.Survey()
	if err != nil {
		return err
	}
	nodes, err := nodesOf(s.state)
	if err != nil {
		return err
	}
	lines, err := outlook.Judge(outlook.Reckon(room, outlook.Demand{Shoot: s.shoot,
		Workers: config.WithWorkers(s.shoot), Moves: true, Nodes: nodes, There: there,
		Others: outlook.OtherShoots(s.state, s.shoot)}))
	for _, line := range append(lines, "") {
		s.screen.Line("%s", line)
	}
	return err
}

// shootOf is the shoot that was asked for, or that of the landscape that is up.
func shootOf(state string) string {
	if shoot := os.Getenv("LIVECPM_SHOOT"); shoot != "" {
		return shoot
	}
	content, err := os.ReadFile(filepath.Join(state, "shoot-variant"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// nodesOf is how many nodes were asked for in each seed, or how many the landscape has that is up.
func nodesOf(state string) (int, error) {
	value := os.Getenv("LIVECPM_NODES")
	if value == "" {
		content, err := os.ReadFile(filepath.Join(state, "nodes-variant"))
		if errors.Is(err, fs.ErrNotExist) {
			return 1, nil
		}
		if err != nil {
			return 0, fmt.Errorf("failed to read how many nodes the landscape has: %w", err)
		}
		value, _, _ = strings.Cut(string(content), " ")
	}
	nodes, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("failed to read the number of nodes %q: %w", value, err)
	}
	return nodes, nil
}

// build compiles the demo. Meanwhile the modules of the components come, which are compiled next.
func (s *start) build(ctx context.Context, there outlook.State, components []string) error {
	if err := os.MkdirAll(filepath.Join(s.state, "logs"), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for logs: %w", err)
	}
	downloads, stop := context.WithCancel(ctx)
	defer stop()
	var missing []string
	for _, component := range components {
		if !there.Built[component] {
			missing = append(missing, component)
		}
	}
	s.tracker.Begin(outlook.PartDemo)
	hide := outlook.Show(s.screen, s.tracker)
	defer hide()
	total, err := s.stale(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		cmd := outlook.InGroup(exec.CommandContext(downloads, filepath.Join(s.repo, "hack", "build-tools.sh"),
			append([]string{"--download"}, missing...)...))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Run() // What does not come is told when it is built.
		}()
		defer func() {
			stop()
			<-ended
		}()
	}
	done := 0
	cmd := outlook.InGroup(
		exec.CommandContext(ctx, "go", "build", "-v", "-o", filepath.Join(s.state, outlook.DemoBinary), demoPackage))
	cmd.Dir, cmd.Env = s.repo, append(os.Environ(), "GOGC=400")
	began := time.Now()
	if err := outlook.RunLogged(cmd, "the demo", filepath.Join(s.state, "logs", "build-demo.log"), func(line string) {
		if strings.HasPrefix(line, "go: ") || strings.HasPrefix(line, "#") {
			return
		}
		done++
		s.tracker.Count(outlook.PartDemo, done, total)
	}); err != nil {
		return err
	}
	s.tracker.End(outlook.PartDemo)
	hide()
	s.screen.Line("%6.1fs  the demo is compiled (%d packages, %.0f s)", s.tracker.Elapsed().Seconds(), done,
		time.Since(began).Seconds())
	return nil
}

// stale counts the packages of the demo that are to be compiled. Their modules are downloaded for that.
func (s *start) stale(ctx context.Context) (int, error) {
	cmd := outlook.InGroup(exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}",
		demoPackage))
	cmd.Dir = s.repo
	total := 0
	err := outlook.RunLogged(cmd, "the demo", filepath.Join(s.state, "logs", "build-demo.log"), func(line string) {
		if line != "" && !strings.HasPrefix(line, "go: ") {
			total++
		}
	})
	return total, err
}

// model is the name of the processor.
func model() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(content)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
