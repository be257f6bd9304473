// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package agentbench measures what agents and controller manager need for many migrations at once: against a real
// kube-apiserver and gardener-apiserver, with agents whose work in the seeds is simulated.
package agentbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/machine"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/program"
)

// Options say what is run and how much.
type Options struct {
	// Agent and ControllerManager are the programs simagent and livecpm-controller-manager.
	Agent, ControllerManager string
	// InFlight are the numbers of migrations at once.
	InFlight []int
	// Pace is how long each step takes in the seeds.
	Pace time.Duration
	// Timeout bounds one number.
	Timeout time.Duration
	// Logs is the folder for what the programs say.
	Logs string
	// Say takes the progress.
	Say func(format string, args ...any)
}

const (
	source      = "seed-a"
	destination = "seed-b"
	// parallel is how many requests of the bench itself are in flight at once.
	parallel = 8
	// idle is how long the programs are left alone before they are looked at.
	idle = 5 * time.Second
)

// Run measures. The environment is left to the caller.
func Run(ctx context.Context, options Options) (_ *data.Agent, err error) {
	options.Say("agent: starting the garden")
	garden, err := framework.StartGarden(logr.Discard())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, garden.Stop()) }()
	// The gardener-apiserver runs in this process and has set up a logger of its own. With hundreds of migrations it
	// gives up requests for discovery now and then, and logs it at length between the lines of the bench.
	klog.SetLogger(logr.Discard())
	if err := prepare(ctx, garden); err != nil {
		return nil, err
	}
	result := &data.Agent{}
	for _, n := range options.InFlight {
		run, err := (&bench{Options: options, garden: garden, n: n}).run(ctx)
		if err != nil {
			return nil, fmt.Errorf("failed to measure %d migrations at once: %w", n, err)
		}
		result.Runs = append(result.Runs, run)
	}
	return result, nil
}

// prepare makes what migrations need in the garden.
func prepare(ctx context.Context, garden *framework.Garden) error {
	if err := garden.Bootstrap(ctx); err != nil {
		return err
	}
	if err := garden.InstallPolicies(ctx); err != nil {
		return err
	}
	identity := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: v1beta1constants.ClusterIdentity},
		Data:       map[string]string{v1beta1constants.ClusterIdentity: "bench"},
	}
	if err := garden.Client.Create(ctx, identity); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("failed to give the garden an identity: %w", err)
	}
	for _, seed := range []string{source, destination} {
		if err := garden.CreateSeed(ctx, framework.NewSeed(seed)); err != nil {
			return err
		}
	}
	return nil
}

// bench measures one number of migrations.
type bench struct {
	Options
	garden *framework.Garden
	n      int

	folder string
}

func (b *bench) name(i int) string { return fmt.Sprintf("n%d-%d", b.n, i) }

func (b *bench) run(ctx context.Context) (out data.AgentRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	if b.folder, err = os.MkdirTemp("", "livecpm-agentbench-"); err != nil {
		return out, fmt.Errorf("failed to make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(b.folder) }()

	b.Say("agent: %d shoots", b.n)
	if err := b.each(ctx, func(ctx context.Context, name string) error {
		return b.garden.CreateShoot(ctx, framework.NewShoot(name, source))
	}); err != nil {
		return out, err
	}

	agents, err := framework.NewCounter(b.garden.Config, "")
	if err != nil {
		return out, err
	}
	defer agents.Close()
	manager, err := framework.NewCounter(b.garden.Config, "")
	if err != nil {
		return out, err
	}
	defer manager.Close()
	running, err := b.start(ctx, agents, manager)
	defer func() { running.stop() }()
	if err != nil {
		return out, err
	}
	if err := program.Sleep(ctx, idle); err != nil {
		return out, err
	}
	before, err := running.samples()
	if err != nil {
		return out, err
	}
	asked, managerAsked := agents.Counts(), manager.Counts()
	took, err := b.migrate(ctx)
	if err != nil {
		return out, err
	}
	after, err := running.samples()
	if err != nil {
		return out, err
	}
	out.InFlight, out.Seconds = b.n, took.Seconds()
	out.IdleMiB = max(before[0].ResidentMiB, before[1].ResidentMiB)
	out.Agents = data.Process{
		CPUSeconds: (after[0].CPU - before[0].CPU + after[1].CPU - before[1].CPU).Seconds(),
		PeakMiB:    max(after[0].PeakMiB, after[1].PeakMiB),
	}
	out.ControllerManager = data.Process{CPUSeconds: (after[2].CPU - before[2].CPU).Seconds(),
		PeakMiB: after[2].PeakMiB}
	out.Requests = perMigration(asked, agents.Counts(), b.n)
	out.ManagerRequests = perMigration(managerAsked, manager.Counts(), b.n)
	return out, nil
}

// migrate lets all migrations begin, then lets them continue together, and returns how long they took from then on.
func (b *bench) migrate(ctx context.Context) (time.Duration, error) {
	b.Say("agent: %d migrations begin", b.n)
	if err := b.each(ctx, b.trigger); err != nil {
		return 0, err
	}
	if err := b.until(ctx, "begun",
		func(shoot *gardencorev1beta1.Shoot) bool { return steps.InFlight(shoot) }); err != nil {
		return 0, err
	}
	b.Say("agent: %d migrations in flight", b.n)
	begin := time.Now()
	if err := os.WriteFile(b.goFile(), nil, 0o600); err != nil {
		return 0, fmt.Errorf("failed to let the migrations continue: %w", err)
	}
	if err := b.until(ctx, "handed over", handedOver); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	b.Say("agent: %d migrations done in %.0f s", b.n, took.Seconds())
	return took, nil
}

// handedOver reports whether the agent has asked the gardenlet of the destination for a reconciliation, which is the
// last thing it does. It is a write of its own after the one with the new seed, and the API server makes a new
// generation of it.
func handedOver(shoot *gardencorev1beta1.Shoot) bool {
	return ptr.Deref(shoot.Status.SeedName, "") == destination && shoot.Generation > shoot.Status.ObservedGeneration
}

// perMigration returns what was asked for between two counts, watches left out.
func perMigration(before, after map[string]int, migrations int) map[string]float64 {
	out := map[string]float64{}
	for what, count := range after {
		if count -= before[what]; count > 0 && !strings.HasPrefix(what, "WATCH ") {
			out[what] = float64(count) / float64(migrations)
		}
	}
	return out
}

func (b *bench) goFile() string { return filepath.Join(b.folder, "go") }

// each does something for every shoot.
func (b *bench) each(ctx context.Context, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range b.n {
		group.Go(func() error { return do(ctx, b.name(i)) })
	}
	return group.Wait()
}

func (b *bench) trigger(ctx context.Context, name string) error {
	shoot := &gardencorev1beta1.Shoot{}
	if err := b.garden.Client.Get(ctx, client.ObjectKey{Namespace: framework.ProjectNamespace, Name: name},
		shoot); err != nil {
		return fmt.Errorf("failed to read Shoot %s: %w", name, err)
	}
	if err := b.garden.Intend(ctx, shoot); err != nil {
		return fmt.Errorf("failed to annotate Shoot %s: %w", name, err)
	}
	if err := b.garden.Bind(ctx, shoot, destination); err != nil {
		return fmt.Errorf("failed to bind Shoot %s: %w", name, err)
	}
	return nil
}

// until waits until all shoots are so.
func (b *bench) until(ctx context.Context, what string, done func(*gardencorev1beta1.Shoot) bool) error {
	prefix := fmt.Sprintf("n%d-", b.n)
	for {
		shoots := &gardencorev1beta1.ShootList{}
		if err := b.garden.Client.List(ctx, shoots, client.InNamespace(framework.ProjectNamespace)); err != nil {
			return fmt.Errorf("failed to list Shoots: %w", err)
		}
		count := 0
		for i := range shoots.Items {
			if strings.HasPrefix(shoots.Items[i].Name, prefix) && done(&shoots.Items[i]) {
				count++
			}
		}
		if count == b.n {
			return nil
		}
		if err := program.Sleep(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("only %d of %d shoots are %s: %w; the programs' logs are in %s", count, b.n, what, err,
				b.Logs)
		}
	}
}

// programs are the agents of both seeds and the controller manager, in this order.
type programs []*exec.Cmd

func (p programs) samples() ([]machine.Sample, error) {
	out := make([]machine.Sample, 0, len(p))
	for _, program := range p {
		sample, err := machine.Read(machine.Proc, program.Process.Pid)
		if err != nil {
			return nil, err
		}
		out = append(out, sample)
	}
	return out, nil
}

func (p programs) stop() {
	for _, program := range p {
		_ = program.Process.Signal(syscall.SIGTERM)
	}
	for _, program := range p {
		_ = program.Wait()
	}
}

// start runs the programs and waits until they are ready. It also returns what it has started if it fails.
func (b *bench) start(ctx context.Context, agents, manager *framework.Counter) (programs, error) {
	// The agents' own objects in their seeds are none of the garden's concern; its kube-apiserver stands in for the
	// seeds.
	seeds, err := framework.NewCounter(b.garden.Config, "")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, seeds.Close)
	kubeconfigs := map[string]string{}
	for name, counter := range map[string]*framework.Counter{"agents": agents, "seeds": seeds, "manager": manager} {
		kubeconfigs[name] = filepath.Join(b.folder, name+".kubeconfig")
		if err := os.WriteFile(kubeconfigs[name], []byte(counter.Kubeconfig()), 0o600); err != nil {
			return nil, fmt.Errorf("failed to write a kubeconfig: %w", err)
		}
	}
	if err := os.MkdirAll(b.Logs, 0o755); err != nil {
		return nil, fmt.Errorf("failed to make the folder of logs: %w", err)
	}

	var running programs
	var ports []int
	for _, seed := range []string{source, destination} {
		health := program.FreePort()
		command := exec.Command(b.Agent, "--garden="+kubeconfigs["agents"], "--seed="+kubeconfigs["seeds"],
			"--seed-name="+seed, "--version="+framework.GardenletVersion, //nolint:gosec // It is our own program.
			fmt.Sprintf("--health-port=%d", health), fmt.Sprintf("--metrics-port=%d", program.FreePort()),
			"--go-file="+b.goFile(), "--pace="+b.Pace.String())
		if err := b.begin(command, seed); err != nil {
			return running, err
		}
		running, ports = append(running, command), append(ports, health)
	}
	health := program.FreePort()
	config := filepath.Join(b.folder, "controller-manager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
`, kubeconfigs["manager"], health, program.FreePort()), 0o600); err != nil {
		return running, fmt.Errorf("failed to write the controller manager's configuration: %w", err)
	}
	command := exec.Command(b.ControllerManager,
		"--config="+config) //nolint:gosec // It is a program of this repository.
	if err := b.begin(command, "controller-manager"); err != nil {
		return running, err
	}
	running, ports = append(running, command), append(ports, health)

	for _, port := range ports {
		if err := program.AwaitReady(ctx, port, time.Minute); err != nil {
			return running, fmt.Errorf("a program is %w; the programs' logs are in %s", err, b.Logs)
		}
	}
	return running, nil
}

func (b *bench) begin(command *exec.Cmd, name string) error {
	log, err := os.Create(filepath.Join(b.Logs, fmt.Sprintf("%s-%d.log", name, b.n)))
	if err != nil {
		return fmt.Errorf("failed to create a log: %w", err)
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("failed to start %s: %w", name, err)
	}
	return nil
}
