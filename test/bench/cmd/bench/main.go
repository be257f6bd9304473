// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command bench runs the benchmarks, records their figures, and makes the page of them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/bench/agentbench"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/joinbench"
	"github.com/livecpm/livecpm/test/bench/machine"
	"github.com/livecpm/livecpm/test/bench/migrations"
	"github.com/livecpm/livecpm/test/bench/page"
	"github.com/livecpm/livecpm/test/bench/relaybench"
	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/program"
)

// quietAtLeast is how long the load runs before a migration, and longer where its figures are compared with those of
// the migration.
const quietAtLeast = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	b := &bench{out: os.Stdout}
	cmd := &cobra.Command{
		Use:           "bench",
		Short:         "Measure what live migrations cost, and make the page of the figures",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&b.parts, "parts", "",
		"parts to run, with commas: "+strings.Join(data.Parts(), ", ")+" (default: all)")
	flags.StringVar(&b.docs, "docs", "", "folder of the page and its data (default: docs in the repository)")
	flags.BoolVar(&b.pageOnly, "page", false, "make the page of what is recorded, and measure nothing")
	flags.StringVar(&b.shoot, "shoot", "live", "name of the shoot on the landscape")
	flags.IntSliceVar(&b.distances, "distances", []int{180},
		"round trips in milliseconds for the part "+data.PartDistance)
	flags.IntVar(&b.rounds, "rounds", 3, "migrations of each way, in turns, for the part "+data.PartLive)
	flags.IntSliceVar(&b.sizes, "sizes", []int{10, 256}, "MiB of data for the part "+data.PartSize)
	flags.IntSliceVar(&b.inFlight, "in-flight", []int{1, 50, 500},
		"numbers of migrations at once for the part "+data.PartAgent)
	flags.DurationVar(&b.timeout, "timeout", 20*time.Minute,
		"how long a migration, or a number of them at once, may take")
	flags.IntSliceVar(&b.joinSizes, "join-sizes", []int{256, 1024, 2048},
		"MiB of data for the part "+data.PartJoin+"; its etcds need four times as much on the disk")
	flags.IntVar(&b.joinRounds, "join-rounds", 3,
		"joins of each way for each size, in turns, for the part "+data.PartJoin)
	flags.StringVar(&b.joinFolder, "join-folder", "",
		"folder for the etcds of the part "+data.PartJoin+", on a disk (default: below _artifacts in the repository)")
	flags.IntVar(&b.goRuns, "go-runs", 6, "runs of each Go benchmark for the part "+data.PartRelay)
	return cmd
}

type bench struct {
	parts, docs, shoot         string
	pageOnly                   bool
	distances, sizes, inFlight []int
	timeout                    time.Duration
	goRuns, rounds             int
	joinSizes                  []int
	joinRounds                 int
	joinFolder                 string

	out     io.Writer
	cfg     *config.Config
	folder  string // of the data
	ready   float64
	cold    bool
	started bool
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, time.Now().UTC().Format(time.TimeOnly)+"  "+format+"\n", args...)
}

// chosen returns the parts to run, in their order.
func chosen(parts string) ([]string, error) {
	if parts == "" {
		return data.Parts(), nil
	}
	asked := strings.Split(parts, ",")
	for _, part := range asked {
		if !slices.Contains(data.Parts(), part) {
			return nil, fmt.Errorf("no part %q; there are %s", part, strings.Join(data.Parts(), ", "))
		}
	}
	return slices.DeleteFunc(data.Parts(), func(part string) bool { return !slices.Contains(asked, part) }), nil
}

func (b *bench) run(ctx context.Context) error {
	parts, err := chosen(b.parts)
	if err != nil {
		return err
	}
	if b.cfg, err = config.FromEnvironment(); err != nil {
		return err
	}
	if b.docs == "" {
		b.docs = filepath.Join(b.cfg.Repo, "docs")
	}
	b.folder = filepath.Join(b.docs, page.Data)

	var failures []error
	if !b.pageOnly {
		for _, part := range parts {
			begin := time.Now()
			b.say("bench: %s begins", part)
			// A part that fails keeps nobody from the figures of the others.
			if err := b.measure(ctx, part); err != nil {
				failures = append(failures, fmt.Errorf("failed to measure %s: %w", part, err))
				b.say("bench: %s failed after %.0f s: %v", part, time.Since(begin).Seconds(), err)
			} else {
				b.say("bench: %s done in %.0f s", part, time.Since(begin).Seconds())
			}
			if ctx.Err() != nil {
				break
			}
		}
	}
	set, err := data.Read(b.folder)
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	failures = append(failures, page.Write(b.docs, set))
	for _, target := range data.Targets(set) {
		if target.Measured() {
			b.say("%s: %s (%s)", target.Name, target.Got,
				map[bool]string{true: "met", false: "missed, wanted " + target.Wanted}[target.Met])
		}
	}
	b.say("bench: %s", filepath.Join(b.docs, page.File))
	return errors.Join(failures...)
}

// measure runs a part and records it.
func (b *bench) measure(ctx context.Context, part string) error {
	environment, err := machine.Environment(ctx, machine.Proc, b.cfg.Repo, time.Now())
	if err != nil {
		return err
	}
	switch part {
	case data.PartRelay:
		return b.measureRelay(ctx, environment)
	case data.PartJoin:
		return b.measureJoins(ctx, environment)
	case data.PartAgent:
		return b.measureAgent(ctx, environment)
	}

	if err := b.bringUp(ctx); err != nil {
		return err
	}
	mover, err := migrations.Connect(migrations.Options{
		Landscape: b.cfg, Namespace: shoot.Namespace, Shoot: b.shoot,
		Before: quietAtLeast, After: 30 * time.Second, Timeout: b.timeout,
		Artifacts: filepath.Join(b.cfg.Repo, "_artifacts", "bench"), Out: b.out,
	})
	if err != nil {
		return err
	}
	switch part {
	case data.PartLive:
		return b.measureLive(ctx, environment, mover)
	case data.PartProduction:
		return b.measureProduction(ctx, environment, mover)
	case data.PartDistance:
		return b.measureDistances(ctx, environment, mover)
	case data.PartSize:
		return b.measureSizes(ctx, environment, mover)
	default:
		return b.measureLandscape(ctx, environment)
	}
}

func (b *bench) measureRelay(ctx context.Context, environment data.Environment) error {
	result, err := b.relay(ctx)
	if err != nil {
		return err
	}
	result.Environment = environment
	return data.Write(b.folder, data.PartRelay, result)
}

func (b *bench) measureJoins(ctx context.Context, environment data.Environment) error {
	assets, err := apiServers()
	if err != nil {
		return err
	}
	bin, err := b.build(ctx, "./test/bench/cmd/simrelay")
	if err != nil {
		return err
	}
	for _, mib := range b.joinSizes {
		run, err := joinbench.Run(ctx, joinbench.Options{
			Etcd: filepath.Join(assets, "etcd"), Relay: []string{filepath.Join(bin, "simrelay")},
			Folder: cmp.Or(b.joinFolder, filepath.Join(b.cfg.Repo, "_artifacts", "bench", data.PartJoin)),
			MiB:    mib, Rounds: b.joinRounds, Timeout: b.timeout, Say: b.say,
		})
		if err != nil {
			return fmt.Errorf("with %d MiB: %w", mib, err)
		}
		run.Environment = environment
		if err := b.record(data.PartJoin, func(set *data.Set) any {
			set.Join = cmp.Or(set.Join, &data.Joins{})
			set.Join.Record(*run)
			return set.Join
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureAgent(ctx context.Context, environment data.Environment) error {
	result, err := b.agent(ctx)
	if err != nil {
		return err
	}
	result.Environment = environment
	return data.Write(b.folder, data.PartAgent, result)
}

func (b *bench) measureLive(ctx context.Context, environment data.Environment, mover *migrations.Bench) error {
	recorded, err := data.Read(b.folder)
	if err != nil {
		return err
	}
	var made []data.Migration
	for i, kind := range migrations.Order(b.rounds) {
		m, err := mover.Move(ctx, migrations.Run{Kind: kind,
			Quiet:  migrations.Quiet(kind, made, recorded.Live, quietAtLeast),
			Report: fmt.Sprintf("%s-0ms-%d", kind, i/2+1)})
		if err != nil {
			return fmt.Errorf("in round %d: %w", i/2+1, err)
		}
		// What is there already is kept if a later one fails.
		made = append(made, *m)
		if err := data.Write(b.folder, data.PartLive, data.NewLive(environment, made)); err != nil {
			return err
		}
	}
	return nil
}

// measureProduction changes the waits and the name servers of the landscape, and changes them back.
func (b *bench) measureProduction(
	ctx context.Context, environment data.Environment, mover *migrations.Bench,
) (err error) {
	dns, waits := b.cfg.DNS, b.cfg.Waits
	// Gateways keep their addresses or host names: those cannot be changed.
	production := config.ProductionDNS()
	b.cfg.DNS.Lag, b.cfg.DNS.Silence, b.cfg.Waits = production.Lag, production.Silence, config.WaitsProduction
	defer func() {
		b.cfg.DNS, b.cfg.Waits = dns, waits
		err = errors.Join(err, landscape.New(b.cfg, b.out).Up(context.WithoutCancel(ctx)))
	}()
	if err := landscape.New(b.cfg, b.out).Up(ctx); err != nil {
		return err
	}
	recorded, err := data.Read(b.folder)
	if err != nil {
		return err
	}
	m, err := mover.Move(ctx, migrations.Run{Kind: data.KindLive, Report: data.PartProduction,
		Quiet: migrations.Quiet(data.KindLive, recorded.Production.Of(data.KindLive), recorded.Live, quietAtLeast)})
	if err != nil {
		return err
	}
	return data.Write(b.folder, data.PartProduction, data.NewLive(environment, []data.Migration{*m}))
}

func (b *bench) measureDistances(ctx context.Context, environment data.Environment, mover *migrations.Bench) error {
	for _, ms := range b.distances {
		run, err := mover.Distance(ctx, time.Duration(ms)*time.Millisecond)
		if err != nil {
			return fmt.Errorf("over %d ms: %w", ms, err)
		}
		if err := b.record(data.PartDistance, func(set *data.Set) any {
			set.Distance = cmp.Or(set.Distance, &data.Distance{})
			set.Distance.Record(data.DistanceRun{Environment: environment, Migration: *run})
			return set.Distance
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureSizes(ctx context.Context, environment data.Environment, mover *migrations.Bench) error {
	for _, mib := range b.sizes {
		run, err := mover.Size(ctx, mib)
		if err != nil {
			return fmt.Errorf("with %d MiB: %w", mib, err)
		}
		run.Environment = environment
		if err := b.record(data.PartSize, func(set *data.Set) any {
			set.Size = cmp.Or(set.Size, &data.Size{})
			set.Size.Record(*run)
			return set.Size
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureLandscape(ctx context.Context, environment data.Environment) error {
	result, err := migrations.Rest(ctx, b.cfg, 30*time.Second)
	if err != nil {
		return err
	}
	result.Environment = environment
	if b.ready > 0 {
		start := &data.Start{Environment: environment, Seconds: b.ready}
		if b.cold {
			result.Cold = start
		} else {
			result.Warm = start
		}
	}
	return b.record(data.PartLandscape, func(set *data.Set) any {
		result.Keep(set.Landscape)
		return result
	})
}

// record adds to what is recorded of a part. Each run takes as long as a migration: one that fails must not take the
// others with it.
func (b *bench) record(part string, add func(*data.Set) any) error {
	set, err := data.Read(b.folder)
	if err != nil {
		return err
	}
	return data.Write(b.folder, part, add(&set))
}

// largestComponent takes longest of what is built once. The cache that it is in says nothing: it also holds the API
// servers of the integration tests, which are built before this program runs.
const largestComponent = "kubernetes"

// bringUp brings the landscape up once, and measures that if it was down before.
func (b *bench) bringUp(ctx context.Context) error {
	if b.started {
		return nil
	}
	_, err := os.Stat(b.cfg.Kubeconfig(b.cfg.Garden.Name))
	down := os.IsNotExist(err)
	_, err = build.Tool(ctx, b.cfg, largestComponent)
	b.cold = err != nil
	begin := time.Now()
	l := landscape.New(b.cfg, b.out)
	l.Moves = true
	if err := l.Up(ctx); err != nil {
		return err
	}
	if down {
		b.ready = time.Since(begin).Round(time.Second).Seconds()
	}
	b.started = true
	return nil
}

// build builds programs of this repository and returns the folder that they are in.
func (b *bench) build(ctx context.Context, packages ...string) (string, error) {
	folder := filepath.Join(b.cfg.Repo, "bin", "bench")
	if err := program.Build(ctx, b.cfg.Repo, folder, packages...); err != nil {
		return "", err
	}
	return folder, nil
}

// apiServers returns the folder of kube-apiserver and etcd.
func apiServers() (string, error) {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		return "", errors.New("KUBEBUILDER_ASSETS must name the folder that hack/envtest-assets.sh prints")
	}
	return folder, nil
}

func (b *bench) relay(ctx context.Context) (*data.Relay, error) {
	bin, err := b.build(ctx, "./test/bench/cmd/simrelay")
	if err != nil {
		return nil, err
	}
	options := relaybench.DefaultOptions()
	options.Command, options.Say = []string{filepath.Join(bin, "simrelay")}, b.say
	result, err := relaybench.Run(ctx, options)
	if err != nil {
		return nil, err
	}
	if b.goRuns == 0 {
		return result, nil
	}
	b.say("relay: Go benchmarks")
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "BenchmarkRelay",
		fmt.Sprintf("-count=%d", b.goRuns), "./pkg/tunnel/relay") //nolint:gosec // It is a number.
	command.Dir, command.Stderr = b.cfg.Repo, os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("failed to run the Go benchmarks of the relay: %w\n%s", err, output)
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return nil, fmt.Errorf("failed to make the folder of the figures: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.folder, "relay-go.txt"), output, 0o644); err != nil {
		return nil, fmt.Errorf("failed to record the Go benchmarks of the relay: %w", err)
	}
	result.GoBenchmarks = relaybench.ParseGoBenchmarks(string(output))
	return result, nil
}

func (b *bench) agent(ctx context.Context) (*data.Agent, error) {
	if _, err := apiServers(); err != nil {
		return nil, err
	}
	bin, err := b.build(ctx, "./test/bench/cmd/simagent", "./cmd/livecpm-controller-manager")
	if err != nil {
		return nil, err
	}
	return agentbench.Run(ctx, agentbench.Options{
		Agent: filepath.Join(bin, "simagent"), ControllerManager: filepath.Join(bin, "livecpm-controller-manager"),
		InFlight: b.inFlight, Pace: time.Second, Timeout: b.timeout,
		Logs: filepath.Join(b.cfg.Repo, "_artifacts", "bench", "agent"), Say: b.say,
	})
}
