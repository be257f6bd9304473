// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/flow"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// abandonPause is the pause between two looks at whether the destination can do without the source. Each of them probes
// the kube-apiserver and asks the name servers.
const abandonPause = 15 * time.Second

// abandonSource finishes the cleanup of the source in the place of the source, whose seed is lost: an operator has said
// so, neither its agent nor its gardenlet answers, and the destination is whole by itself.
//
// Nobody can delete what is in a lost seed. What makes the end of the migration safe all the same is that nothing there
// can act on the shoot any more. All members of the etcds are here; the only way to them from the source is the way
// between the seeds, and this closes it. A kube-apiserver there has no etcd then, and what reaches the shoot only
// through it, such as kube-controller-manager, kube-scheduler, the resource manager and the cloud controllers, renews
// no lease and writes nothing. For what acts on machines without the shoot, the operator answers (the page of the
// recovery says what to look at); the gardenlet here starts its own only after the hand-over.
func (d *destination) abandonSource(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	hold, err := d.doWithoutSource(ctx, m, etcds)
	if err != nil {
		return steps.Outcome{}, err
	}
	if hold != "" {
		return steps.Waiting(abandonPause, steps.ReasonAbandoningSource, "%s", hold), nil
	}
	return steps.Done("Seed %s was abandoned, as an operator has confirmed. The way to it is closed, and nothing "+
		"there reaches the etcds. Left there, if the seed still exists: %s", m.SourceSeed, leftInSource(m.Shoot)), nil
}

// doWithoutSource closes the way to the source and takes members of the source out of the etcds, as far as any are
// left. It returns why it must not do that, or an empty string when it is done. What has begun is carried to its end
// also if the source answers again: without the way to the etcds, its control plane has come to an end.
func (d *destination) doWithoutSource(
	ctx context.Context, m *migration.Migration, etcds *joint.Joint,
) (string, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	open, err := controlplane.Exists(ctx, d.SeedClientSet.APIReader(),
		client.ObjectKey{Namespace: namespace, Name: exposure.Name}, &appsv1.StatefulSet{})
	if err != nil {
		return "", err
	}
	if open {
		alive, err := m.PeerAlive(ctx)
		if err != nil {
			return "", err
		}
		if alive != "" {
			return fmt.Sprintf("Seed %s is not abandoned: %s. Otherwise remove the annotation %s", m.SourceSeed, alive,
				steps.AnnotationAbandonSource), nil
		}
	}
	hold, err := etcds.CheckAbandonSource(ctx)
	if err != nil {
		return "", err
	}
	if hold != nil {
		return fmt.Sprintf("Seed %s is not abandoned: %s: %s. Bring the members of the destination back first; if "+
			"they cannot be, see "+pages.Recovery, m.SourceSeed, hold.Reason, hold.Message), nil
	}
	if err := d.alone(ctx, m); err != nil {
		return fmt.Sprintf("Seed %s is not abandoned, because clients may need it: %s", m.SourceSeed, err), nil
	}

	m.Log.Info("Doing without the source", "seed", m.SourceSeed, "wayOpen", open)
	if err := d.Tunnel.Withdraw(ctx, m); err != nil {
		return "", err
	}
	if err := etcds.RemoveAbandonedSource(ctx); err != nil {
		return "", fmt.Errorf("failed to remove the etcd members of the source: %w", err)
	}
	return "", nil
}

// servesAlone returns an error unless DNS leads clients to this seed, no cache can name the source any more, and the
// kube-apiserver here takes their writes.
func (d *destination) servesAlone(ctx context.Context, m *migration.Migration) error {
	namespace := &corev1.Namespace{}
	name := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	seen := dnsSwitchOf(namespace.Annotations)
	if !seen.moved || !seen.measured {
		return errors.New("the DNS records have not been seen to lead to the destination")
	}
	if outcome := waitForCaches(m.Clock.Now(), seen.movedAt, seen.formerTTL, d.Timings.DNSMargin); !outcome.Finished() {
		return errors.New(outcome.Message)
	}
	b, err := d.botanist(ctx, m)
	if err != nil {
		return err
	}
	return flows.Run(ctx, m, steps.ReasonAbandoningSource, d.aloneGraph(m, b))
}

// aloneGraph returns the flow that looks whether clients are served here.
func (d *destination) aloneGraph(m *migration.Migration, b *botanist.Botanist) *flow.Graph {
	var (
		g       = flow.NewGraph("look at the destination without the source")
		service = d.addWayOfClients(g, b)
		serving = g.Add(flow.Task{
			Name: "Probing the kube-apiserver through the gateway of the destination",
			Fn: func(ctx context.Context) error {
				return d.probe(ctx, m.Clock, b)
			},
			Dependencies: flow.NewTaskIDs(service),
		})
	)
	_ = g.Add(flow.Task{
		Name: "Asking the name servers where the DNS records lead",
		Fn: func(ctx context.Context) error {
			// Without patience: half of them have to answer, and none may name another address.
			target := dns.NewTarget(d.NameServers, dns.NewSilence(m.Clock, 0), b.APIServerAddress)
			for _, record := range recordsOf(b) {
				if err := target.Reached(ctx, record.name); err != nil {
					return &recordError{record.name, err}
				}
			}
			return nil
		},
		Dependencies: flow.NewTaskIDs(serving),
	})
	return g
}

// leftInSource names what the source may still have of the shoot.
func leftInSource(shoot *gardencorev1beta1.Shoot) string {
	left := []string{
		fmt.Sprintf("namespace and Cluster %s, with a control plane that has no etcd, extensions, and managed "+
			"resources whose objects in the shoot must stay", v1beta1helper.ControlPlaneNamespaceForShoot(shoot)),
		"what exposes the shoot and its etcds at the ingress gateway of that seed",
		"the backups in the bucket of that seed",
	}
	if !v1beta1helper.IsWorkerless(shoot) {
		left = append(left, "machine objects, which must be deleted without their machines")
	}
	return strings.Join(left, "; ")
}
