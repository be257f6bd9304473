// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakeclientmap "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/fake"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What the tests look at from outside.
var (
	NeededBefore         = neededBeforeKubeAPIServer
	WaitingForDNSRecords = waitingForDNSRecords
	WaitUntilSecretsGone = waitUntilSecretsReleased
	CheckClosed          = checkClosed
)

// AnnotationClientsDrained is where the drain of step 6 is recorded.
const AnnotationClientsDrained = annotationClientsDrained

// Deps are what the rooms are made of in tests.
type Deps struct {
	Garden        client.Client
	SeedClientSet kubernetes.Interface
	Clock         clock.Clock
	Timings       flows.Timings
	// NewCluster opens an etcd cluster.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
	// Look looks whether the ingress gateway takes clients. By default it is closed.
	Look func(ctx context.Context, address, host string) error
	// Botanist is the one that knows the ingress gateways. Without it, the way through them is not found.
	Botanist *botanist.Botanist
}

// errNoBotanist is why the way through the ingress gateways is not found.
var errNoBotanist = errors.New("no botanist")

// source returns the role's part, with the botanist of the test.
func (d *Deps) source() *source {
	s := &source{Options: d.Options()}
	s.ingressOf = func(_ context.Context, m *migration.Migration) (*ingress, error) {
		if d.Botanist == nil {
			return nil, errNoBotanist
		}
		return &ingress{source: s, migration: m, botanist: d.Botanist,
			namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)}, nil
	}
	return s
}

// MoveEtcd runs the role's part in the step that moves the etcds.
func MoveEtcd(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return deps.source().moveEtcd(ctx, m)
}

// BeforeRetirement tells for how long the first member stays.
func BeforeRetirement(ctx context.Context, deps *Deps, m *migration.Migration) (time.Duration, error) {
	return deps.source().beforeRetirement(ctx, m)
}

// Options returns the role's part with real rooms.
func (d *Deps) Options() Options {
	const seedName = "seed-a"
	ginkgo.GinkgoHelper()
	gardenlet := &gardenletconfigv1alpha1.GardenletConfiguration{SeedConfig: &gardenletconfigv1alpha1.SeedConfig{}}
	gardenlet.SeedConfig.Name = seedName
	gardener := &gardencorev1beta1.Gardener{Version: "v1.150.0"}
	seed := d.SeedClientSet.Client()

	bridge := made(tunnel.New(tunnel.Options{
		GardenAPIReader: d.Garden, SeedClient: seed, SeedName: seedName, RelayImage: "relay",
	}))
	return Options{
		Botanists: made(botanist.NewFactory(botanist.Options{
			GardenClient: d.Garden, GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet,
			ShootClientMap: fakeclientmap.NewClientMap(), GardenletConfig: gardenlet, Identity: gardener,
			GardenClusterIdentity: "garden",
		})),
		Backups: made(backups.New(backups.Options{
			GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet, SeedName: seedName,
		})),
		ShootStates: made(shootstate.New(shootstate.Options{
			GardenClient: d.Garden, GardenAPIReader: d.Garden, SeedClient: seed, GardenletConfig: gardenlet,
			Clock: d.Clock, Lead: 24 * time.Hour,
		})),
		Tunnel: bridge,
		Etcds: made(etcds.New(etcds.Options{
			SeedClient: seed, SeedName: seedName, Clock: d.Clock, NewCluster: d.NewCluster,
		})),
		ControlPlane: made(controlplane.New(controlplane.Options{
			SeedClientSet: d.SeedClientSet, Timings: d.Timings, DestroyTunnel: bridge.Destroy,
		})),
		SeedClientSet: d.SeedClientSet, SeedName: seedName, Timings: d.Timings, PermitsWorkers: true,
	}
}

func made[T any](room T, err error) T {
	ginkgo.GinkgoHelper()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return room
}

// Remains is what is left of the shoot.
type Remains struct{ Namespace, Terminating, KubeAPIServer, Cluster, Gone bool }

// ReadRemains reads what is left of the shoot.
func ReadRemains(ctx context.Context, deps *Deps, namespace string) (Remains, error) {
	r, err := (&source{Options: deps.Options()}).readRemains(ctx, namespace)
	return Remains{r.namespace, r.terminating, r.kubeAPIServer, r.cluster, r.gone()}, err
}

// DrainedAt tells when the kube-apiserver may be stopped.
func DrainedAt(conditions []gardencorev1beta1.Condition, drain time.Duration) (time.Time, error) {
	return drainedAt(conditions, drain)
}

// KeepInitialCluster runs this part of what is done on every pass.
func KeepInitialCluster(ctx context.Context, deps *Deps, m *migration.Migration) {
	(&source{Options: deps.Options()}).keepInitialCluster(ctx, m)
}

// ReleaseDNSRecords runs the action.
func ReleaseDNSRecords(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&source{Options: deps.Options()}).releaseDNSRecords(ctx, m)
}

// CleanUp runs the action.
func CleanUp(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&source{Options: deps.Options()}).cleanUp(ctx, m)
}

// UntilPrompt waits as the end of the kube-apiserver does.
func UntilPrompt(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return (&source{Options: deps.Options()}).untilPrompt(ctx, m)
}

// CleanupGraph runs the flow of the cleanup for a shoot with workers of which all is left.
func CleanupGraph(ctx context.Context, deps *Deps, m *migration.Migration, b *botanist.Botanist) error {
	return runCleanup(ctx, deps, cleaned{migration: m, botanist: b, workers: true})
}

// CleanupGraphWorkerless does the same for a shoot without workers.
func CleanupGraphWorkerless(
	ctx context.Context, deps *Deps, m *migration.Migration, b *botanist.Botanist,
) error {
	return runCleanup(ctx, deps, cleaned{migration: m, botanist: b})
}

// cleaned is what is cleaned up.
type cleaned struct {
	migration *migration.Migration
	botanist  *botanist.Botanist
	// workers tells that the shoot has workers.
	workers bool
}

func runCleanup(ctx context.Context, deps *Deps, of cleaned) error {
	s := &source{Options: deps.Options(), look: deps.Look}
	if s.look == nil {
		s.look = func(context.Context, string, string) error { return nil }
	}
	left, err := s.readRemains(ctx, of.botanist.Shoot.ControlPlaneNamespace)
	if err != nil {
		return err
	}
	left.workers = of.workers
	return s.cleanupGraph(of.migration, of.botanist, left).Compile().Run(ctx, flow.Opts{})
}

// Graphs returns the flows of the source by the situation that they are for.
func Graphs(deps *Deps, m *migration.Migration) map[string]*flow.Graph {
	s := &source{Options: deps.Options()}
	b := &botanist.Botanist{}
	return map[string]*flow.Graph{
		"prepare with backup":    s.prepareGraph(m, b, prepareFacts{hasBackup: true}),
		"prepare without backup": s.prepareGraph(m, b, prepareFacts{}),
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
