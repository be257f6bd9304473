// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// annotationClientsDrain is on the shoot's namespace in the destination from when the source was asked to drain the
// connections of clients. Its value is that time (RFC 3339), so that an agent that takes over resumes the wait.
const annotationClientsDrain = "livecpm.gardener.cloud/clients-drain-asked-at"

// restartPatience is for how long the destination waits for kube-apiservers of the source that restart for their
// clients, after the time that an ingress gateway would take. A pod that cannot start must not stop the migration: some
// clients may then lose a request when a member stops.
const restartPatience = 8 * time.Minute

// drainClients asks the source to let its clients leave, and is done when they had the time for it. It comes before the
// last members join, because nothing should wait while there are six voters.
//
// Where the gateway of the source ends TLS, what is waited for is a time: for the change to reach the Envoys
// (flows.GatewayPush), and for these to end what clients have kept (flows.gatewayDrain). The source, which may have
// been late, checks its own clock before its first member leaves (beforeRetirement in pkg/agent/source). Where it does
// not, the source says how far its kube-apiservers are that restart for it. When members of the source may have begun
// to leave, it is too late for all of this: a cluster must not be kept waiting then.
func (d *destination) drainClients(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	namespace := &corev1.Namespace{}
	name := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	asked, err := time.Parse(time.RFC3339, namespace.Annotations[annotationClientsDrain])
	if err == nil {
		return d.waitForDrain(m, asked), nil
	}

	// It has not been asked yet. What is malformed counts as missing: asking twice costs a minute and nothing else.
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	begun, err := d.retirementBegun(ctx, etcds)
	if err != nil {
		return steps.Outcome{}, err
	}
	if begun {
		return steps.Done("The etcd members of the source leave already"), nil
	}
	outcome := d.waitForDrain(m, m.Clock.Now())
	if outcome.Finished() {
		return outcome, nil
	}
	// The time counts from when the source has been asked for certain.
	if err := m.Report(ctx, outcome.Reason, outcome.Message); err != nil {
		return steps.Outcome{}, err
	}
	now := m.Clock.Now()
	if err := d.remember(ctx, namespace, annotationClientsDrain, now.UTC().Format(time.RFC3339)); err != nil {
		return steps.Outcome{}, err
	}
	return d.waitForDrain(m, now), nil
}

func (d *destination) waitForDrain(m *migration.Migration, asked time.Time) steps.Outcome {
	now := m.Clock.Now()
	wait := waits.Since(asked, flows.GatewayPush+d.Timings.GatewayDrain, waits.Drain)
	if left := wait.Left(now); left > 0 {
		return steps.Waiting(min(left, 10*time.Second), steps.ReasonDrainingClients, "%s", wait)
	}
	if !steps.SourceClientsLeaving(m.Shoot) {
		return steps.Done("Clients have left the source")
	}
	patience := wait.Until.Add(restartPatience)
	if now.Before(patience) {
		return steps.Waiting(5*time.Second, steps.ReasonDrainingClients, "The kube-apiservers of the source restart, "+
			"so that clients leave them; until %s at most", patience.UTC().Format(time.RFC3339))
	}
	m.Log.Info("Not waiting any longer for the kube-apiservers of the source to restart: clients that are left there "+
		"may lose a request when an etcd member stops", "waited", now.Sub(asked).String())
	return steps.Done("Not all clients have left the source")
}
