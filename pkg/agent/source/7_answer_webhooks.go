// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

// webhooksPatience is how long the controllers stay because of the webhooks. Clients of the source that are left then
// may be refused in kube-system until its kube-apiserver stops. That is less than a shoot whose controllers are kept
// from going to the destination, for example because no pod can start in this seed any more.
const webhooksPatience = time.Minute

// webhookServer answers the webhooks of the resource manager; see webhooks.Server.
type webhookServer interface {
	Deploy(ctx context.Context) error
	Check(ctx context.Context) error
}

// newWebhookServer returns what answers the webhooks of a shoot with workers while its kube-apiserver is there without
// a resource manager; nil if there is nothing to answer. It must be made before tasks of the botanist run.
func newWebhookServer(m *migration.Migration, b *botanist.Botanist, left remains) (webhookServer, error) {
	if !left.workers || !left.kubeAPIServer || !left.cluster || left.terminating {
		return nil, nil
	}
	server, err := webhooks.New(b, m.Clock)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare the answers of webhooks: %w", err)
	}
	return &initializedServer{Server: server, botanist: b}, nil
}

// initializedServer makes the gardenlet's secrets known to the botanist before the Server asks for them.
type initializedServer struct {
	*webhooks.Server
	botanist *botanist.Botanist
}

// Deploy deploys the Server.
func (s *initializedServer) Deploy(ctx context.Context) error {
	if err := s.botanist.InitializeSecretsManagement(ctx); err != nil {
		return fmt.Errorf("failed to initialize secrets management: %w", err)
	}
	return s.Server.Deploy(ctx)
}

// addWebhooks adds what answers the webhooks when the resource manager has stopped. It returns the task after which
// that may stop.
func (c *cleanup) addWebhooks() flow.TaskID {
	return c.add(flow.Task{
		Name: "Letting the webhooks be answered without the resource manager",
		Fn:   c.answerWebhooks, SkipIf: c.webhooks == nil,
	})
}

// answerWebhooks returns when the webhooks are answered, or when webhooksPatience is over.
func (c *cleanup) answerWebhooks(ctx context.Context) error {
	err := retry.UntilTimeout(ctx, c.Timings.PollInterval, min(webhooksPatience, c.Timings.RolloutTimeout),
		func(ctx context.Context) (bool, error) {
			err := c.webhooks.Deploy(ctx)
			if err == nil {
				err = c.webhooks.Check(ctx)
			}
			if err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
	if err != nil && ctx.Err() == nil {
		c.migration.Log.Error(err, "Stopping the resource manager although nobody else answers its webhooks")
	}
	return ctx.Err()
}

// addWebhooksRemoval adds the end of what answers webhooks, when no kube-apiserver here asks any more. It ends before
// the namespace does, in which nothing says in which order its Lease and its pods go.
func (c *cleanup) addWebhooksRemoval(kubeAPIServerStopped flow.TaskID) flow.TaskID {
	return c.add(flow.Task{
		Name: "Removing what answers the webhooks",
		Fn: func(ctx context.Context) error {
			return c.deleteDeployments(ctx, ownership.WebhookServer)
		},
		SkipIf:       !c.left.workers,
		Dependencies: flow.NewTaskIDs(kubeAPIServerStopped),
	})
}
