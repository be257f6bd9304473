// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package planted plants, in the destination of a migration that nobody has asked for yet, what such a migration would
// fail at. A plan with a probe has to name each of it before step 1.
package planted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// World is where faults are planted.
type World struct {
	// Landscape is the landscape.
	Landscape *config.Config
	// Garden is access to the garden, and Seed to the destination.
	Garden, Seed *driver.Cluster
	// Source is the name of the seed that the shoot is in.
	Source string
}

// Fault is something that is wrong in the destination.
type Fault struct {
	// Name says what is wrong.
	Name string
	// Check is the check of the plan that has to find it, and Also are those that may.
	Check steps.Check
	Also  []steps.Check
	// Status is what that check has to be.
	Status view.Status
	// Says is in what it has seen.
	Says string
	// Plant plants the fault. When it returns, the fault is in force.
	Plant func(ctx context.Context, w *World) error
	// Remove removes it. It needs no memory of Plant, and does nothing if there is nothing to remove, so that it can
	// also clean up after a suite that was killed. When it returns, the fault is no longer in force.
	Remove func(ctx context.Context, w *World) error
}

// Faults returns all faults. Each is found by another part of the checks.
func Faults() []Fault {
	connection := func(name, says string, policy Policy) Fault {
		return Fault{Name: name, Check: preflight.SeedConnection, Status: view.Fail, Says: says,
			Plant:  func(ctx context.Context, w *World) error { return policy.Plant(ctx, w.Seed.Client) },
			Remove: func(ctx context.Context, w *World) error { return policy.Remove(ctx, w.Seed.Client) }}
	}
	druid := connection("an etcd-druid that does not tell its images", "has not shown within", SilentDruid())
	druid.Status = view.Unknown
	return []Fault{
		connection("an image that no node can pull", "cannot pull image "+missingImage+" of kube-apiserver",
			MissingImage()),
		druid,
		{Name: "no node for the control plane", Check: preflight.SeedConnection, Status: view.Fail,
			Says: "no node takes pod", Plant: closeNodes, Remove: openNodes},
		connection("an admission that refuses the pods, as a quota does", "FailedCreate", RefusedPods()),
		connection("relays that end", "of pod livecpm-relay-0 has ended with code", EndingRelays()),
		{Name: "a wildcard record that leads elsewhere", Check: preflight.SeedConnection, Status: view.Fail,
			Says: "DNSRecord garden/seed-ingress leads to " + elsewhere, Plant: misleadRecord, Remove: leadRecordBack},
		{Name: "a gateway that the other seed does not reach", Check: preflight.SeedConnection, Status: view.Fail,
			Says: "was not reached within", Plant: closed.plant, Remove: closed.remove},
		{Name: "a seed that is too far away", Check: preflight.SeedConnection, Status: view.Fail,
			Says: "the round trip from seed", Plant: far.plant, Remove: far.remove},
		clusterDNS(),
		{Name: "a backup bucket that is not in order", Check: preflight.Backup, Status: view.Fail,
			Also: []steps.Check{steps.DestinationSeedHealth}, Says: bucketProblem, Plant: breakBucket,
			Remove: repairBucket},
	}
}

// Clear removes all faults that a run that was killed may have left.
func Clear(ctx context.Context, w *World) error {
	var errs []error
	for _, fault := range Faults() {
		if err := fault.Remove(ctx, w); err != nil {
			errs = append(errs, fmt.Errorf("failed to remove what an earlier run may have left of %s: %w", fault.Name,
				err))
		}
	}
	return errors.Join(errs...)
}

// Judge returns an error unless the plan refuses for the fault and for nothing else, and says what to do about it.
func (f Fault) Judge(plan view.Plan) error {
	named := Named(plan)
	if plan.CanGo {
		return fmt.Errorf("the plan permits the migration in spite of %s", f.Name)
	}
	found := false
	for _, check := range named {
		switch {
		case check.Name == f.Check && check.Status != f.Status:
			return fmt.Errorf("%s is %s because of %s, it has to be %s: %s", check.Name, check.Status, f.Name, f.Status,
				check.Evidence)
		case check.Name == f.Check:
			found = true
			if err := f.judge(check); err != nil {
				return err
			}
		case !slices.Contains(f.Also, check.Name):
			return fmt.Errorf("%s is %s, which has nothing to do with %s: %s", check.Name, check.Status, f.Name,
				check.Evidence)
		}
	}
	if !found {
		return fmt.Errorf("%s does not name %s", f.Check, f.Name)
	}
	return nil
}

// judge returns an error unless the check says what is wrong, and what to do.
func (f Fault) judge(check view.Check) error {
	switch {
	case !strings.Contains(check.Evidence, f.Says):
		return fmt.Errorf("%s does not say %q, by which %s is known: %s", check.Name, f.Says, f.Name, check.Evidence)
	case check.Remedy == "":
		return fmt.Errorf("%s names no way out of %s", check.Name, f.Name)
	}
	return nil
}

// Named returns the checks that refuse the migration.
func Named(plan view.Plan) []view.Check {
	return slices.DeleteFunc(slices.Clone(plan.Checks), func(check view.Check) bool {
		return check.Status == view.Pass || check.Deferred
	})
}
