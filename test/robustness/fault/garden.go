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
