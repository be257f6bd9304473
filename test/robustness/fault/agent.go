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
	familyAgentKill = "agent-kill"

	agentLease     = "livecpm-agent-leader-election"
	agentContainer = "agent"
)

// agentKills kill the replica of livecpm-agent that leads. Its pod is replaced afterwards.
func agentKills() []Fault {
	const family = familyAgentKill
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &kill{fault{name: family + "-" + string(role), family: family, span: whole},
			leadingAgents(role)})
	}
	return append(faults, &kill{fault{name: family + "-both", family: family, span: whole}, leadingAgents(sides...)})
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
