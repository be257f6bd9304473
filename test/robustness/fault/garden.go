// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	familyGardenStop     = "garden-stop"
	familyGardenEtcdStop = "garden-etcd-stop"
	familyDNSStop        = "dns-stop"
	familyLivecpmKill    = livecpmManager + "-kill"

	livecpmManager = "livecpm-controller-manager"
)

// gardenServers are the landscape's daemons that serve the garden's API: gardener's own, and the kube-apiserver in
// front of it.
var gardenServers = []string{"gardener-apiserver", "garden-kube-apiserver"}

// daemonStop stops daemons of the landscape where they stand: requests get no answer, and connections stay open.
type daemonStop struct {
	fault

	daemons []string
}

func gardenStops() []Fault {
	return daemonStops(familyGardenStop, gardenServers...)
}

// gardenEtcdStops leave the garden's API servers without their etcd.
func gardenEtcdStops() []Fault { return daemonStops(familyGardenEtcdStop, "garden-etcd") }

// dnsStops leave everybody without the name server of the shoot's domain, who asks for names and who changes records.
func dnsStops() []Fault { return daemonStops(familyDNSStop, "garden-dns") }

func daemonStops(family string, daemons ...string) []Fault {
	return []Fault{&daemonStop{
		fault{name: family + "-60s", family: family, span: whole, course: Course{Lasts: time.Minute}}, daemons,
	}}
}

// Inject implements Fault.
func (f *daemonStop) Inject(ctx context.Context, targets *Targets) error {
	for _, name := range f.daemons {
		pid := targets.Processes.PID(name)
		if pid == 0 {
			return fmt.Errorf("daemon %s of the landscape does not run", name)
		}
		targets.Log("stopping %s (process %d)", name, pid)
		if err := targets.Signal(pid, unix.SIGSTOP); err != nil {
			return fmt.Errorf("failed to stop %s (process %d): %w", name, pid, err)
		}
		if err := targets.proveStopped(ctx, pid, name); err != nil {
			return err
		}
	}
	return nil
}

// Heal implements Fault.
func (f *daemonStop) Heal(_ context.Context, targets *Targets) error {
	var errs []error
	for _, name := range f.daemons {
		pid := targets.Processes.PID(name)
		if pid == 0 {
			errs = append(errs, fmt.Errorf("daemon %s of the landscape does not run", name))
			continue
		}
		if err := targets.Signal(pid, unix.SIGCONT); err != nil {
			errs = append(errs, fmt.Errorf("failed to let %s (process %d) continue: %w", name, pid, err))
		}
	}
	return errors.Join(errs...)
}

// daemonKill kills a daemon of the landscape, which stays away for a while. It ends without a word: leases and locks
// stay as they are.
type daemonKill struct {
	fault

	daemon string
}

// livecpmKills leave the gate of the migration and the drain of the seed without livecpm-controller-manager.
func livecpmKills() []Fault {
	return []Fault{&daemonKill{
		fault{name: familyLivecpmKill + "-30s", family: familyLivecpmKill, span: whole,
			course: Course{Lasts: 30 * time.Second}}, livecpmManager,
	}}
}

// Inject implements Fault.
func (f *daemonKill) Inject(ctx context.Context, targets *Targets) error {
	pid := targets.Processes.PID(f.daemon)
	if pid == 0 {
		return fmt.Errorf("daemon %s of the landscape does not run", f.daemon)
	}
	targets.Log("killing %s (process %d)", f.daemon, pid)
	if err := targets.Signal(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("failed to kill %s (process %d): %w", f.daemon, pid, err)
	}
	return targets.proveEnded(ctx, []int{pid}, f.daemon)
}

// InForce implements Fleeting: nobody has started the daemon again.
func (f *daemonKill) InForce(_ context.Context, targets *Targets) (bool, error) {
	return targets.Processes.PID(f.daemon) == 0, nil
}

// Heal implements Fault.
func (f *daemonKill) Heal(ctx context.Context, targets *Targets) error {
	if targets.Processes.PID(f.daemon) != 0 {
		return nil
	}
	targets.Log("starting %s", f.daemon)
	if err := targets.Start(ctx, f.daemon); err != nil {
		return fmt.Errorf("failed to start %s again: %w", f.daemon, err)
	}
	return nil
}
