// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	agentLease     = "livecpm-agent-leader-election"
	agentContainer = "agent"
)

// agentKill kills the replica of livecpm-agent that leads. Its pod is replaced afterwards: otherwise the kubelet would
// wait longer and longer before it starts the container again when it is killed in every step.
type agentKill struct {
	fault

	roles []steps.Role
}

func agentKills() []Fault {
	const family = "agent-kill"
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&agentKill{fault{name: family + "-" + string(role), family: family, span: whole}, []steps.Role{role}})
	}
	return append(faults, &agentKill{fault{name: family + "-both", family: family, span: whole}, sides})
}

// Inject implements Fault.
func (f *agentKill) Inject(ctx context.Context, targets *Targets) error {
	leaders, err := leadingAgents(f.roles...)(ctx, targets)
	if err != nil {
		return err
	}
	for _, leader := range leaders {
		if err := targets.killContainer(ctx, leader); err != nil {
			return err
		}
		if err := targets.deletePod(ctx, leader.seed, leader.pod, ptr.To[int64](0)); err != nil {
			return err
		}
	}
	return nil
}

// leadingAgents chooses the agents that lead.
func leadingAgents(roles ...steps.Role) chooser {
	return func(ctx context.Context, targets *Targets) (chosen []container, err error) {
		err = targets.on(roles, func(seed Seed) error {
			lease, err := seed.Kube.CoordinationV1().Leases(gardenNamespace).Get(ctx, agentLease, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("failed to get the lease of the agent: %w", err)
			}
			pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
			if pod == "" {
				return errors.New("no agent is the leader")
			}
			chosen = append(chosen, container{seed: seed, name: agentContainer,
				pod: types.NamespacedName{Namespace: gardenNamespace, Name: pod}})
			return nil
		})
		return chosen, err
	}
}
