// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// abandon takes the members of a destination that is lost out of the etcds. The order makes it safe also if only the
// agent there is lost and the members are at work: as long as the source decides alone, the way is closed, and only
// members that nobody can reach any more are removed. They cannot join again, because they reach nobody either.
//
// Everything else is done by the abort that follows.
func (s *source) abandon(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	hold, err := etcds.CheckAbandon(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if hold != nil {
		return steps.Waiting(s.Timings.PollInterval, hold.Reason, "%s%s", hold.Message, wayOut(hold.Reason)), nil
	}

	if err := m.Report(ctx, steps.ReasonAborting,
		fmt.Sprintf("Closing the way to seed %s", m.DestinationSeed)); err != nil {
		return steps.Outcome{}, err
	}
	if err := s.Tunnel.Destroy(ctx, m); err != nil {
		return steps.Outcome{}, err
	}
	if err := etcds.RemoveAbandoned(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to remove the etcd members of the destination: %w", err)
	}
	return steps.Done("The etcds have no members of seed %s, and the way to it is closed. Left there, if the seed "+
		"still exists: %s", m.DestinationSeed, leftIn(m.Shoot)), nil
}

// wayOut says what an operator can do about what keeps the source from abandoning the destination.
func wayOut(reason steps.Reason) string {
	switch reason {
	case steps.ReasonQuorumAtRisk:
		return ". Nothing is touched. Bring the members of the source back first; if they cannot be, see " +
			pages.Recovery
	case steps.ReasonQuorumLost:
		return ". Nothing is touched, because a member list without a quorum cannot be changed: see " + pages.Recovery
	}
	return ""
}

// leftIn names what the destination may still have of the shoot, in view of the steps that had begun.
func leftIn(shoot *gardencorev1beta1.Shoot) string {
	var (
		all  = steps.Conditions(shoot)
		left = []string{
			fmt.Sprintf("namespace and Cluster %s with the Etcds and their volumes",
				v1beta1helper.ControlPlaneNamespaceForShoot(shoot)),
			"the extension's BackupEntry and what was written into the bucket of that seed",
			"what exposes the etcds at the ingress gateway of that seed",
		}
	)
	if steps.ConditionBegun(all, gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady) {
		left = append(left, "a kube-apiserver without a quorum, what exposes it there, and the extensions that act "+
			"before it")
		if !v1beta1helper.IsWorkerless(shoot) {
			left = append(left, "the VPN server and the DNS record of the temporary VPN client")
		}
	}
	return strings.Join(left, "; ")
}
