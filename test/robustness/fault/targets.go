// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

// Targets are what faults hit, and the ways to reach it.
type Targets struct {
	// Garden is access to the garden. It must give up after a while: a fault may stop the garden's API.
	Garden client.Client
	// Seeds are the two sides of the migration.
	Seeds map[steps.Role]Seed
	// Namespace is that of the shoot in the seeds.
	Namespace string
	// Processes finds the landscape's daemons.
	Processes Processes
	// Start starts a daemon of the landscape again that has ended.
	Start func(ctx context.Context, daemon string) error
	// Proc is the folder of the process file system.
	Proc string
	// Signal sends a signal to a process of the machine.
	Signal func(pid int, signal unix.Signal) error
	// Etcd connects to the member of one of the shoot's etcds that runs in the pod.
	Etcd func(ctx context.Context, seed Seed, pod string) (Member, error)
	// LoadBalancer speaks to the faults of the load balancer in front of a seed.
	LoadBalancer func(seed Seed) LoadBalancer
	// Buckets are where both seeds have their backups.
	Buckets Buckets
	// Processors is how many the machine has.
	Processors int
	// Burden takes processors from a seed.
	Burden func(seed Seed) Burden
	// Power switches the nodes of a seed.
	Power func(seed Seed) Power
	// Log tells what is done.
	Log func(format string, args ...any)

	// proofs are the effects of faults that were seen and not taken yet.
	proofs []string
}

// Seed is access to a seed.
type Seed struct {
	Name string
	Kube kubernetes.Interface
}

// Processes knows the ids of the landscape's daemons. 0 stands for a daemon that does not run.
type Processes interface {
	PID(name string) int
}

// Member is one member of an etcd cluster.
type Member interface {
	// Status returns the ids of the member and of the leader that it follows.
	Status(ctx context.Context) (member, leader uint64, err error)
	// Voters returns the ids of the members that vote, as the member knows them.
	Voters(ctx context.Context) ([]uint64, error)
	// RaiseNoSpace makes the cluster believe that the member's quota is used up, Disarm lifts all alarms.
	RaiseNoSpace(ctx context.Context, member uint64) error
	// NoSpace reports whether the alarm is raised for any member.
	NoSpace(ctx context.Context) (bool, error)
	Disarm(ctx context.Context) error
	Close() error
}

// LoadBalancer makes the traffic into a seed faulty. The seed of a fault is that of the load balancer.
type LoadBalancer interface {
	Add(ctx context.Context, fault loadbalancer.Fault) error
	// Lift ends the faults with the same latency, cut and loss, whatever connections and whichever direction they are
	// for, and no others. Without all three it ends all.
	Lift(ctx context.Context, fault loadbalancer.Fault) error
	// InForce reports whether a fault is among those of the load balancer.
	InForce(ctx context.Context, fault loadbalancer.Fault) (bool, error)
	// Disturbed sums up what faults have done so far to connections whose server name matches the pattern.
	Disturbed(ctx context.Context, sni string) (loadbalancer.Disturbed, error)
}

// sides are the roles that a family of faults has a member for.
var sides = []steps.Role{steps.Source, steps.Destination}

// on runs do for the seed in each of the roles.
func (t *Targets) on(roles []steps.Role, do func(seed Seed) error) error {
	for _, role := range roles {
		seed, ok := t.Seeds[role]
		if !ok {
			return fmt.Errorf("there is no %s seed", role)
		}
		if err := do(seed); err != nil {
			return fmt.Errorf("%s (%s): %w", seed.Name, role, err)
		}
	}
	return nil
}
