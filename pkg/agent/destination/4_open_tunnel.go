// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// tunnelProbes is how many requests have to come through the tunnel in a row, each on a new connection: there are
	// three replicas of the kube-apiserver, and each has its own way to the VPN server.
	tunnelProbes = 6
	// tunnelTimeout is for how long one attempt of a step waits for the tunnel.
	tunnelTimeout = 3 * time.Minute
)

// openTunnel lets the kube-apiserver of this seed reach nodes, pods and services of the shoot: it runs the temporary
// VPN client in the shoot and waits until requests get through.
func (d *destination) openTunnel(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, components *overlap.Components,
) (steps.Outcome, error) {
	if err := m.Report(ctx, steps.ReasonWaitingForTunnel,
		"Connecting the nodes to the VPN server of the destination"); err != nil {
		return steps.Outcome{}, err
	}
	objects, err := components.VPN(ctx, vpnDomain(b)+".", b.Shoot.VPNHighAvailabilityNumberOfShootClients/2)
	if err != nil {
		return steps.Outcome{}, err
	}
	access, err := d.access(b)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := overlap.Apply(ctx, access.client, objects); err != nil {
		return steps.Outcome{}, err
	}
	if err := d.waitForTunnel(ctx, access); err != nil {
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonWaitingForTunnel,
			"The tunnel from the shoot to the destination is not connected: %s", err), nil
	}
	return steps.Done("The tunnel is connected"), nil
}

func (d *destination) waitForTunnel(ctx context.Context, access *shootAccess) error {
	return retry.UntilTimeout(ctx, d.Timings.PollInterval,
		min(tunnelTimeout, d.Timings.RolloutTimeout), func(ctx context.Context) (bool, error) {
			if err := checkTunnel(ctx, access); err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
}

// inShoot returns a task with access to the shoot, which is made again for each attempt.
func (d *destination) inShoot(
	b *botanist.Botanist, task func(ctx context.Context, access *shootAccess) error,
) flow.TaskFn {
	return func(ctx context.Context) error {
		access, err := d.access(b)
		if err != nil {
			return err
		}
		return task(ctx, access)
	}
}

// checkTunnel asks kubelets whether they are healthy, through the kube-apiserver and its way to the nodes. Without a
// node there is nothing to reach, and no place for a VPN client either.
func checkTunnel(ctx context.Context, access *shootAccess) error {
	nodes, err := overlap.ReadyNodes(ctx, access.client)
	if err != nil {
		return err
	}
	for i := range tunnelProbes {
		if len(nodes) == 0 {
			break
		}
		node := nodes[i%len(nodes)]
		if err := access.rest.Get().AbsPath("/api/v1/nodes", node, "proxy", "healthz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("failed to reach the kubelet of node %s through the tunnel: %w", node, err)
		}
	}
	return nil
}
