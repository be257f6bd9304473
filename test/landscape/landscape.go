// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package landscape brings up a garden and two seeds on one machine. This file has the ordered list of what happens.
package landscape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	gardener "github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/node"
	"github.com/livecpm/livecpm/test/landscape/process"
	"github.com/livecpm/livecpm/test/landscape/seedsetup"
)

// Landscape is a garden with its seeds.
type Landscape struct {
	// Config says where everything is.
	Config *config.Config
	// Processes are the landscape's daemons.
	Processes *process.Manager

	progress *progress
	tarballs []image.Tarball
}

// New returns the landscape of the configuration. It reports its progress to out.
func New(cfg *config.Config, out io.Writer) *Landscape {
	return &Landscape{Config: cfg, Processes: process.NewManager(cfg.State), progress: newProgress(out)}
}

// phase is one entry of the list of what Up does.
type phase struct {
	// name is what --only takes.
	name string
	// title is what is shown.
	title string
	run   func(context.Context) error
}

// phases is what Up does, in this order. Each entry leaves alone what is in place already.
func (l *Landscape) phases() []phase {
	return []phase{
		{"requirements", "check the machine", l.checkRequirements},
		{"tools", "build the real components", l.buildTools},
		{"binaries", "build the landscape's own programs", l.buildOwn},
		{"images", "make the images", l.makeImages},
		{"machine", "prepare the machine", l.prepareMachine},
		{"garden", "start the garden's cluster", l.startGarden},
		{"seeds", "start the seeds", l.startSeeds},
		{"supervisor", "start the supervisor", l.startSupervisor},
		{"dns", "start the DNS server", l.startDNS},
		{"gardener", "start Gardener", l.startGardener},
		{"prerequisites", "make seeds of the clusters", l.setUpSeeds},
		{"livecpm", "install livecpm", l.installLivecpm},
		{"shoot", "create the shoot", l.createShoot},
	}
}

// Phases returns the names of the phases in their order.
func Phases() []string {
	var names []string
	for _, p := range (&Landscape{}).phases() {
		names = append(names, p.name)
	}
	return names
}

// Up brings the landscape up. With only, it runs just those phases.
func (l *Landscape) Up(ctx context.Context, only ...string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, name := range only {
		if !slices.Contains(Phases(), name) {
			return fmt.Errorf("no phase %q; there are %s", name, strings.Join(Phases(), ", "))
		}
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.Config.RecordGardenlet(); err != nil {
		return err
	}
	if err := l.Config.RecordShoot(); err != nil {
		return err
	}
	for _, p := range l.phases() {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		done := l.progress.begin(p.title)
		err := p.run(ctx)
		done(err)
		if err != nil {
			return fmt.Errorf("failed to %s: %w", p.title, err)
		}
	}
	return nil
}

// lock keeps two programs from changing the same landscape at once.
func (l *Landscape) lock() (func(), error) {
	if err := os.MkdirAll(l.Config.State, 0o755); err != nil {
		return nil, fmt.Errorf("failed to make state folder: %w", err)
	}
	file, err := os.OpenFile(l.Config.Dir("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("failed to open lock: %w", err)
	}
	// A program that was just killed may hold the lock for a moment longer.
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if time.Now().After(deadline) {
			_ = file.Close()
			return nil, fmt.Errorf("failed to lock %s: another program changes this landscape: %w", file.Name(), err)
		}
	}
}

// checkRequirements finds out in the first second what would otherwise fail after the builds.
func (l *Landscape) checkRequirements(context.Context) error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("namespaces, mounts and cgroups need root"))
	}
	for program, debianPackage := range map[string]string{"go": "golang-go, or from go.dev", "runc": "runc", "nft": "nftables"} {
		if _, err := build.Installed(program, debianPackage); err != nil {
			missing = append(missing, err)
		}
	}
	if _, err := machine.DetectCgroups(); err != nil {
		missing = append(missing, err)
	}
	return errors.Join(missing...)
}

func (l *Landscape) buildTools(ctx context.Context) error {
	if err := build.Tools(ctx, l.Config, l.progress.lines()); err != nil {
		return err
	}
	if l.Config.HasWorkers() {
		return build.Tools(ctx, l.Config, l.progress.lines(), seedsetup.WorkerTools()...)
	}
	return nil
}

func (l *Landscape) buildOwn(ctx context.Context) error {
	if err := os.MkdirAll(l.Config.Bin(), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for binaries: %w", err)
	}
	for _, name := range []string{"nodeinit", "supervisor"} {
		if _, err := build.Own(ctx, l.Config, name, "./test/landscape/cmd/"+name); err != nil {
			return err
		}
	}
	return nil
}

func (l *Landscape) makeImages(ctx context.Context) error {
	if err := os.MkdirAll(l.Config.Bin(), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for binaries: %w", err)
	}
	l.tarballs = nil
	for _, recipe := range node.BaseImages() {
		tarball, err := image.Make(ctx, l.Config, recipe)
		if err != nil {
			return err
		}
		l.tarballs = append(l.tarballs, tarball)
	}
	gardener, err := l.gardenerImages(ctx)
	if err != nil {
		return err
	}
	l.tarballs = append(l.tarballs, gardener...)
	return nil
}

func (l *Landscape) prepareMachine(context.Context) error {
	if err := machine.DefaultSysctls().Acquire(l.Config.Prefix); err != nil {
		return err
	}
	if err := machine.LoadModules("br_netfilter", "overlay", "nf_tables", "veth", "bridge"); err != nil {
		return err
	}
	return network.EnsureHub(l.Config)
}

// gardenControllers are those that a cluster without nodes has use for.
var gardenControllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
	"resourcequota-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"certificatesigningrequest-cleaner-controller",
	"validatingadmissionpolicy-status-controller",
}

func (l *Landscape) startGarden(ctx context.Context) error {
	garden := l.Config.Garden
	if err := network.EnsureMember(l.Config, garden.Netns, garden.IP); err != nil {
		return err
	}
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return err
	}
	if err := cgroups.Ensure(garden.Netns); err != nil {
		return err
	}
	daemons, err := cgroups.EnsureLeaf(garden.Netns, "daemons")
	if err != nil {
		return err
	}
	values := cluster.Values{
		Name:        garden.Name,
		IP:          garden.IP,
		ServiceCIDR: garden.ServiceCIDR,
		ServiceIP:   strings.TrimSuffix(garden.ServiceCIDR, "0/16") + "1",
		Aggregation: true,
		Controllers: gardenControllers,
		Namespaces:  process.Namespaces{Net: network.Path(garden.Netns)},
		Cgroups:     daemons,
	}
	if l.Config.Authorizers {
		// The kube-apiserver asks gardener-admission-controller, which is started when Gardener is. Until then no seed is there
		// to ask for anything.
		if values.AuthorizationConfig, values.AuthorizationFiles, err = gardener.PrepareAuthorizers(l.Config); err != nil {
			return err
		}
	}
	controlPlane, err := cluster.New(l.Config, l.Processes, values)
	if err != nil {
		return err
	}
	return controlPlane.Up(ctx)
}

func (l *Landscape) startSeeds(ctx context.Context) error {
	if len(l.tarballs) == 0 {
		if err := l.makeImages(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, seed := range l.Config.Seeds {
		group.Go(func() error {
			n, err := node.New(l.Config, seed, l.Processes)
			if err != nil {
				return err
			}
			return n.Up(ctx, l.progress.report, l.tarballs...)
		})
	}
	return group.Wait()
}

func (l *Landscape) startSupervisor(ctx context.Context) error {
	spec := process.Spec{
		Name:       "supervisor",
		Command:    []string{l.Config.Dir("bin", "supervisor")},
		Namespaces: process.Namespaces{Net: network.Path(l.Config.HubNetns())},
		Files:      []string{l.Config.Dir("bin", "supervisor")},
	}
	for _, seed := range l.Config.Seeds {
		spec.Command = append(spec.Command, "--seed="+strings.Join([]string{seed.Name, seed.Netns, seed.LoadBalancerIP, l.Config.Kubeconfig(seed.Name)}, ","))
	}
	_, err := l.Processes.Ensure(ctx, spec)
	return err
}

// LoadImages imports images into a running seed, for development.
func (l *Landscape) LoadImages(ctx context.Context, seed string, files ...string) error {
	s, err := l.Config.Seed(seed)
	if err != nil {
		return err
	}
	n, err := node.New(l.Config, s, l.Processes)
	if err != nil {
		return err
	}
	var tarballs []image.Tarball
	for _, file := range files {
		// Without a known digest the image is imported in any case.
		tarballs = append(tarballs, image.Tarball{Name: file, File: file, Refs: []string{""}})
	}
	_, err = n.LoadImages(ctx, tarballs...)
	return err
}

// Down ends everything and removes every trace but the logs. It needs no record of what was started, so that it also
// cleans up after a crash.
func (l *Landscape) Down(context.Context) error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	done := l.progress.begin("end the landscape")
	err = l.down()
	done(err)
	if err != nil {
		return fmt.Errorf("failed to end the landscape: %w", err)
	}
	return nil
}

func (l *Landscape) down() error {
	var failures []error
	// Nodes first: ending a node frees the mounts below the state folder.
	group := errgroup.Group{}
	for _, seed := range l.Config.Seeds {
		group.Go(func() error {
			n, err := node.New(l.Config, seed, l.Processes)
			if err != nil {
				return err
			}
			return n.Down()
		})
	}
	failures = append(failures, group.Wait())
	cgroups, err := machine.DetectCgroups()
	failures = append(failures, err)
	for _, name := range []string{l.Config.Garden.Netns, l.Config.HubNetns()} {
		failures = append(failures, machine.KillIn(network.Path(name)), network.Remove(name))
	}
	// A demo that still runs is not the landscape's to end.
	failures = append(failures, cgroups.Evict(l.Config.Garden.Netns, config.ClientsCgroup), cgroups.Remove(l.Config.Garden.Netns), network.RemoveHostInterface(l.Config))
	last, err := machine.DefaultSysctls().Release(l.Config.Prefix)
	failures = append(failures, err)
	if last {
		failures = append(failures, machine.DefaultFolders().Remove())
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.Config.State)
	if err != nil {
		return fmt.Errorf("failed to list state folder: %w", err)
	}
	for _, entry := range entries {
		// Logs are kept to be read, images and binaries to be used again.
		if slices.Contains([]string{"logs", "images", "bin", "lock"}, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(l.Config.Dir(entry.Name())); err != nil {
			return fmt.Errorf("failed to remove state: %w", err)
		}
	}
	return nil
}

// Status prints what runs and where its logs are. It returns an error if something that should run does not.
func (l *Landscape) Status(ctx context.Context, out io.Writer) error {
	daemons, err := l.Processes.List()
	if err != nil {
		return err
	}
	if len(daemons) == 0 {
		return errors.New("the landscape is not up")
	}
	var failures []error
	for _, daemon := range daemons {
		state := fmt.Sprintf("running (pid %d)", daemon.PID)
		if !daemon.Running {
			state = "DEAD"
			failures = append(failures, fmt.Errorf("%s is dead, see %s", daemon.Name, daemon.Log))
		}
		fmt.Fprintf(out, "%-36s %-24s %s\n", daemon.Name, state, daemon.Log)
	}
	for _, seed := range l.Config.Seeds {
		n, err := node.New(l.Config, seed, l.Processes)
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		total, notReady, err := n.Pods(bounded)
		cancel()
		if err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Fprintf(out, "%-36s %d of %d ready\n", seed.Name+" pods", total-len(notReady), total)
		for _, name := range notReady {
			fmt.Fprintf(out, "%-36s not ready\n", "  "+name)
		}
	}
	if err := l.printUsage(ctx, out); err != nil {
		failures = append(failures, err)
	}
	for _, name := range l.clusters() {
		fmt.Fprintf(out, "%-36s KUBECONFIG=%s\n", name, l.Config.Kubeconfig(name))
	}
	return errors.Join(failures...)
}

// printUsage prints what each cluster uses at the moment, measured over a second.
func (l *Landscape) printUsage(ctx context.Context, out io.Writer) error {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return err
	}
	const interval = time.Second
	before := map[string]machine.Usage{}
	for _, name := range l.clusters() {
		if before[name], err = cgroups.Usage(l.Config.Prefix + "-" + name); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	for _, name := range l.clusters() {
		after, err := cgroups.Usage(l.Config.Prefix + "-" + name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-36s %.2f CPUs, %d MiB memory\n", name, float64(after.CPU-before[name].CPU)/float64(interval), after.Memory>>20)
	}
	return nil
}

// clusters are the names of all clusters.
func (l *Landscape) clusters() []string {
	names := []string{l.Config.Garden.Name}
	for _, seed := range l.Config.Seeds {
		names = append(names, seed.Name)
	}
	return names
}
