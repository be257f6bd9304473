// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What the tests look at from outside.
var (
	NeededBefore         = neededBeforeKubeAPIServer
	WaitUntilSecretsGone = waitUntilSecretsReleased
)

// Remains is what is left of the shoot.
type Remains struct{ Namespace, Terminating, KubeAPIServer, Cluster bool }

// ReadRemains reads what is left of the shoot.
func ReadRemains(ctx context.Context, deps *operation.Deps, namespace string) (Remains, error) {
	r, err := (&source{deps: deps}).readRemains(ctx, namespace)
	return Remains{r.namespace, r.terminating, r.kubeAPIServer, r.cluster}, err
}

// DrainedAt tells when the kube-apiserver may be stopped.
func DrainedAt(conditions []gardencorev1beta1.Condition, drain time.Duration) (time.Time, error) {
	return drainedAt(conditions, drain)
}

// ReleaseDNSRecords runs the action.
func ReleaseDNSRecords(ctx context.Context, deps *operation.Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&source{deps: deps}).releaseDNSRecords(ctx, m)
}

// CleanUp runs the action.
func CleanUp(ctx context.Context, deps *operation.Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&source{deps: deps}).cleanUp(ctx, m)
}

// CleanupGraph runs the flow of the cleanup for a shoot with workers of which all is left.
func CleanupGraph(ctx context.Context, deps *operation.Deps, m *migration.Migration, b *botanist.Botanist) error {
	return runCleanup(ctx, deps, m, b, true)
}

// CleanupGraphWorkerless does the same for a shoot without workers.
func CleanupGraphWorkerless(
	ctx context.Context, deps *operation.Deps, m *migration.Migration, b *botanist.Botanist,
) error {
	return runCleanup(ctx, deps, m, b, false)
}

func runCleanup(
	ctx context.Context, deps *operation.Deps, m *migration.Migration, b *botanist.Botanist, workers bool,
) error {
	s := &source{deps: deps}
	left, err := s.readRemains(ctx, b.Shoot.ControlPlaneNamespace)
	if err != nil {
		return err
	}
	left.workers = workers
	return s.cleanupGraph(m, b, left).Compile().Run(ctx, flow.Opts{})
}

// Graphs returns the flows of the source by the situation that they are for.
func Graphs(deps *operation.Deps, m *migration.Migration) map[string]*flow.Graph {
	s := &source{deps: deps}
	b := &botanist.Botanist{}
	return map[string]*flow.Graph{
		"prepare with backup":    s.prepareGraph(m, b, true),
		"prepare without backup": s.prepareGraph(m, b, false),
		"extensions":             s.extensionsGraph(m, b),
		"cleanup": s.cleanupGraph(m, b,
			remains{namespace: true, kubeAPIServer: true, cluster: true}),
		"cleanup with workers": s.cleanupGraph(m, b,
			remains{namespace: true, kubeAPIServer: true, cluster: true, workers: true}),
		"cleanup with released machines": s.cleanupGraph(m, b,
			remains{namespace: true, kubeAPIServer: true, cluster: true, workers: true, machinesReleased: true}),
		"abort": s.abortGraph(m, b,
			abortFacts{hasBackup: true, keepsShootState: true, formerBucket: "bucket-b"}),
		"abort without backup": s.abortGraph(m, b, abortFacts{}),
		"cleanup while namespace terminates": s.cleanupGraph(m, b,
			remains{namespace: true, terminating: true, cluster: true}),
	}
}
