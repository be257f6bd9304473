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

	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/go-logr/logr"
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
	"github.com/livecpm/livecpm/test/outlook"
)

// Landscape is a garden with its seeds.
type Landscape struct {
	// Config says where everything is.
	Config *config.Config
	// Processes are the landscape's daemons.
	Processes *process.Manager
	// Moves reports that the shoot is going to be moved when the landscape is up, which takes more of the machine.
	Moves bool

	progress *progress
	// nodeImages are those of every node, seedImages those of what a seed is set up with, shootImages those of what the
	// control planes of shoots consist of, livecpmImages those of livecpm. Each is filled by the phase of its name.
	nodeImages, seedImages, shootImages, livecpmImages []image.Tarball
}

// New returns the landscape of the configuration. It reports its progress to out.
func New(cfg *config.Config, out io.Writer) *Landscape {
	return NewWith(cfg, outlook.NewScreen(out), nil)
}

// NewWith returns the landscape of the configuration. It reports its progress on the screen and to the tracker, which
// may be that of a run that continues when the landscape is up. Without one, Up makes its own.
func NewWith(cfg *config.Config, screen *outlook.Screen, tracker *outlook.Tracker) *Landscape {
	return &Landscape{Config: cfg, Processes: process.NewManager(cfg.State), progress: newProgress(screen, tracker)}
}

// components are the real components of this landscape beyond those of every one.
func components(cfg *config.Config) []string {
	if cfg.HasWorkers() {
		return outlook.WorkerComponents()
	}
	return nil
}

// phases is what Up does. Each leaves alone what is in place already. What they are called, what each needs and how
// long it takes is in outlook.Parts.
func (l *Landscape) phases() map[string]func(context.Context) error {
	phases := map[string]func(context.Context) error{
		"requirements":   l.checkRequirements,
		"machine":        l.prepareMachine,
		"binaries":       l.buildOwn,
		"garden":         l.startGarden,
		"node-images":    l.makeNodeImages,
		"seeds":          l.startSeeds,
		"supervisor":     l.startSupervisor,
		"dns":            l.startDNS,
		"gardener":       l.startGardener,
		"seed-images":    l.makeSeedImages,
		"prerequisites":  l.setUpSeeds,
		"shoot-images":   l.makeShootImages,
		"livecpm-images": l.makeLivecpmImages,
		"livecpm":        l.installLivecpm,
		"shoot":          l.createShoot,
	}
	for _, component := range append(outlook.Components(), components(l.Config)...) {
		name := outlook.Tool(component)
		phases[name] = func(ctx context.Context) error {
			return build.Component(ctx, l.Config, component, build.Progress{
				Report: l.progress.report,
				Count:  func(done, total int) { l.progress.tracker.Count(name, done, total) },
			})
		}
	}
	return phases
}

// parts are those of the outlook that bring the landscape of the configuration up, in an order in which they can be
// run.
func parts(cfg *config.Config) []outlook.Part {
	return slices.DeleteFunc(
		outlook.Until(outlook.Parts(components(cfg)...), "livecpm", "shoot"), func(part outlook.Part) bool {
			return part.Name == outlook.PartDemo
		})
}

// Phases returns the names of the phases in an order in which they can be run.
func Phases() []string {
	var names []string
	for _, part := range parts(&config.Config{}) {
		names = append(names, part.Name)
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
	if len(only) == 0 {
		if err := l.reckon(ctx); err != nil {
			return err
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
	if err := l.Config.RecordTLSTermination(); err != nil {
		return err
	}
	if err := l.Config.RecordMemberPrefix(); err != nil {
		return err
	}
	if err := l.Config.RecordShoot(); err != nil {
		return err
	}
	if err := l.Config.RecordNodes(); err != nil {
		return err
	}
	if err := l.Config.RecordManners(); err != nil {
		return err
	}
	parts, phases := parts(l.Config), l.phases()
	if len(only) > 0 {
		parts = slices.DeleteFunc(parts, func(part outlook.Part) bool { return !slices.Contains(only, part.Name) })
	}
	stop, err = l.progress.show(ctx, l.Config, parts)
	if err != nil {
		return err
	}
	defer stop()
	l.downloadModules(ctx)
	return l.run(ctx, parts, phases)
}

// run runs the phases, each as soon as those that it needs are done. The first that fails ends the others.
func (l *Landscape) run(
	ctx context.Context, parts []outlook.Part, phases map[string]func(context.Context) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	graph := flow.NewGraph("landscape")
	ids := flow.NewTaskIDs()
	for _, part := range parts {
		task := flow.Task{Name: part.Name, Dependencies: flow.NewTaskIDs()}
		for _, name := range part.Needs {
			// What is not part of this run is taken to be done.
			if ids.Has(flow.TaskID(name)) {
				task.Dependencies.Insert(flow.TaskID(name))
			}
		}
		task.Fn = func(ctx context.Context) error {
			done := l.progress.begin(part)
			err := phases[part.Name](ctx)
			done(err)
			if err != nil {
				err = fmt.Errorf("failed to %s: %w", part.Title, err)
				cancel(err)
			}
			return err
		}
		ids.Insert(graph.Add(task))
	}
	err := graph.Compile().Run(ctx, flow.Opts{Log: logr.Discard()})
	if err == nil {
		return nil
	}
	// The first failure; those that it has caused say nothing. Without one, somebody else has ended it.
	return context.Cause(ctx)
}

// downloadModules lets the modules of the components that are not built yet come while others are compiled.
func (l *Landscape) downloadModules(ctx context.Context) {
	go func() {
		// What does not come is told when it is built.
		_ = build.Download(ctx, l.Config, append(outlook.Components(), components(l.Config)...)...)
	}()
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
	for program, debianPackage := range map[string]string{"go": "golang-go, or from go.dev", "runc": "runc",
		"nft": "nftables"} {
		if _, err := build.Installed(program, debianPackage); err != nil {
			missing = append(missing, err)
		}
	}
	if _, err := machine.DetectCgroups(); err != nil {
		missing = append(missing, err)
	}
	return errors.Join(missing...)
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

func (l *Landscape) makeNodeImages(ctx context.Context) error {
	l.nodeImages = nil
	for _, recipe := range node.BaseImages() {
		tarball, err := image.Make(ctx, l.Config, recipe)
		if err != nil {
			return err
		}
		l.nodeImages = append(l.nodeImages, tarball)
	}
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
	if err := cgroups.Ensure(garden.Netns, machine.WeightGarden); err != nil {
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
		// The kube-apiserver asks gardener-admission-controller, which is started when Gardener is. Until then no seed
		// is there to ask for anything.
		if values.AuthorizationConfig, values.AuthorizationFiles, err = gardener.PrepareAuthorizers(
			l.Config); err != nil {
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
	if len(l.nodeImages) == 0 {
		if err := l.makeNodeImages(ctx); err != nil {
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
			return n.Up(ctx, l.progress.report, l.nodeImages...)
		})
	}
	return group.Wait()
}

func (l *Landscape) startSupervisor(ctx context.Context) error {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return err
	}
	// Whatever goes into a seed passes this process: outside of all cgroups with a weight, it would not get its turn
	// for seconds when the seeds are busy.
	daemons, err := cgroups.EnsureLeaf(l.Config.Garden.Netns, "daemons")
	if err != nil {
		return err
	}
	spec := process.Spec{
		Cgroups: daemons,
		Name:    "supervisor",
		Command: []string{l.Config.Dir("bin", "supervisor"), "--hub=" + l.Config.HubNetns(),
			"--admin=" + l.Config.LoadBalancerAdmin(),
			"--client=" + config.ClientMachine + "=" + l.Config.HostIP,
			"--client=" + l.Config.Garden.Name + "=" + l.Config.Garden.IP},
		Namespaces: process.Namespaces{Net: network.Path(l.Config.HubNetns())},
		Files:      []string{l.Config.Dir("bin", "supervisor")},
	}
	for _, seed := range l.Config.Seeds {
		spec.Command = append(spec.Command,
			"--seed="+strings.Join([]string{seed.Name, seed.LoadBalancerIP, l.Config.Kubeconfig(seed.Name)}, ","))
	}
	for _, seed := range l.Config.Seeds {
		if name := l.Config.BalancerName(seed); name != "" {
			spec.Command = append(spec.Command, "--hostname="+seed.Name+"="+name)
		}
	}
	_, err = l.Processes.Ensure(ctx, spec)
	return err
}

// importImages imports into every seed what it does not have yet.
func (l *Landscape) importImages(ctx context.Context, tarballs []image.Tarball) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, seed := range l.Config.Seeds {
		group.Go(func() error {
			n, err := node.New(l.Config, seed, l.Processes)
			if err != nil {
				return err
			}
			imported, err := n.LoadImages(ctx, tarballs...)
			if err == nil && len(imported) > 0 {
				l.progress.report("%s: imported %s", seed.Name, strings.Join(imported, ", "))
			}
			return err
		})
	}
	return group.Wait()
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
	done := l.progress.begin(outlook.Part{Title: "end the landscape"})
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
	failures = append(failures, cgroups.RemoveOwn(l.Config.ClientsCgroup()),
		cgroups.Remove(l.Config.Garden.Netns), network.RemoveHostInterface(l.Config))
	last, err := machine.DefaultSysctls().Release(l.Config.Prefix)
	failures = append(failures, err)
	if last {
		failures = append(failures, machine.DefaultFolders().Remove())
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	// A fault that nobody has healed may keep everybody from removing them.
	if err := gardener.BucketsOf(l.Config).Show(); err != nil {
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
		fmt.Fprintf(out, "%-36s %.2f CPUs, %d MiB memory\n", name,
			float64(after.CPU-before[name].CPU)/float64(interval), after.Memory>>20)
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
