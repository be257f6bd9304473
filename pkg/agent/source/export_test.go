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
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/seedpods"
)

// What the tests look at from outside.
var (
	NeededBefore         = neededBeforeKubeAPIServer
	WaitingForDNSRecords = waitingForDNSRecords
	WaitUntilSecretsGone = waitUntilSecretsReleased
	CheckClosed          = checkClosed
	StaysHere            = staysHere
	LeftIn               = leftIn
)

// AnnotationFormerTTL is where the TTL of before is kept.
const AnnotationFormerTTL = annotationFormerTTL

// ShortenTTL runs this part of the first step.
func ShortenTTL(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return deps.source().tryToShortenTTL(ctx, m)
}

// MayAskAhead reports whether the destination is asked to prepare before its turn.
func MayAskAhead(ctx context.Context, deps *Deps, m *migration.Migration) bool {
	return deps.source().mayAskAhead(ctx, m)
}

// AskAhead reports progress of the first step, asks the destination to prepare, and reports progress once more.
func AskAhead(ctx context.Context, m *migration.Migration) error {
	stage := &preparationStage{migration: m, reason: steps.ReasonPersistingShootState}
	err := stage.report(ctx, "before")
	stage.askAhead(ctx)
	return errors.Join(err, stage.report(ctx, "after"))
}

// GiveTTLsBack runs this part of an abort.
func GiveTTLsBack(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return deps.source().giveTTLsBack(ctx, m)
}

// AnnotationClientsDrained is where the drain of step 6 is recorded.
const AnnotationClientsDrained = annotationClientsDrained

// WebhookServer answers webhooks.
type WebhookServer = webhookServer

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
	// Webhooks answers webhooks in the cleanup. By default nobody has to.
	Webhooks WebhookServer
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

// RetireMembers runs the part of MoveEtcd in which members leave.
func RetireMembers(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return deps.source().retireMembers(ctx, m)
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

	backedUp := made(backups.New(backups.Options{
		GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet, SeedName: seedName,
	}))
	bridge := made(tunnel.New(tunnel.Options{
		GardenAPIReader: d.Garden, SeedClient: seed, RelayImage: "relay",
	}))
	return Options{
		Botanists: made(botanist.NewFactory(botanist.Options{
			GardenClient: d.Garden, GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet,
			ShootClientMap: fakeclientmap.NewClientMap(), GardenletConfig: gardenlet, Identity: gardener,
			GardenClusterIdentity: "garden", AccessControl: []string{"acl"},
		})),
		Backups:   backedUp,
		Snapshots: made(backups.NewSnapshots(backups.SnapshotsOptions{Backups: backedUp, Clock: d.Clock})),
		ShootStates: made(shootstate.New(shootstate.Options{
			GardenClient: d.Garden, GardenAPIReader: d.Garden, SeedClient: seed, GardenletConfig: gardenlet,
			Clock: d.Clock, Lead: 24 * time.Hour,
		})),
		Tunnel: bridge,
		Etcds: made(etcds.New(etcds.Options{
			SeedClient: seed, SeedName: seedName, Clock: d.Clock, NewCluster: d.NewCluster,
			SeedPods: func(namespace string) joint.Pods { return seedpods.New(seed, namespace) },
		})),
		ControlPlane: made(controlplane.New(controlplane.Options{
			SeedClientSet: d.SeedClientSet, Timings: d.Timings, Clock: d.Clock, DestroyTunnel: bridge.Destroy,
		})),
		GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet, SeedName: seedName, Timings: d.Timings,
		PermitsWorkers: true,
	}
}

func made[T any](room T, err error) T {
	ginkgo.GinkgoHelper()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return room
}

// Remains is what is left of the shoot.
type Remains struct {
	Namespace, Terminating, KubeAPIServer, Cluster, Gone bool
	// Controllers says what is left of the controllers.
	Controllers string
}

// ReadRemains reads what is left of the shoot.
func ReadRemains(ctx context.Context, deps *Deps, namespace string) (Remains, error) {
	r, err := (&source{Options: deps.Options()}).readRemains(ctx, namespace)
	return Remains{r.namespace, r.terminating, r.kubeAPIServer, r.cluster, r.gone(), r.controllers}, err
}

// remains returns it as the package has it.
func (r Remains) remains() remains {
	return remains{namespace: r.Namespace, kubeAPIServer: r.KubeAPIServer, controllers: r.Controllers}
}

// StageOf tells how far the cleanup has come.
func StageOf(left Remains) steps.Reason { return stageOf(left.remains()) }

// Stage is how far one attempt has come.
type Stage struct{ stage *stage }

// NewStage begins an attempt.
func NewStage(m *migration.Migration, left Remains) Stage { return Stage{newStage(m, left.remains())} }

// Report publishes a message.
func (s Stage) Report(ctx context.Context, message string) error { return s.stage.report(ctx, message) }

// Enter begins a stage.
func (s Stage) Enter(ctx context.Context, reason steps.Reason) { s.stage.enter(ctx, reason, "entered") }

// ClientsDue tells until when the control plane stays because of its clients.
func ClientsDue(ctx context.Context, deps *Deps, m *migration.Migration) (time.Time, error) {
	s := &source{Options: deps.Options()}
	left, err := s.readRemains(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot))
	if err != nil {
		return time.Time{}, err
	}
	return s.clientsDue(m, left)
}

// DrainedAt tells when the kube-apiserver may be stopped.
func DrainedAt(conditions []gardencorev1beta1.Condition, drain time.Duration) (time.Time, error) {
	return drainedAt(conditions, drain)
}

// Abandon runs the action.
func Abandon(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&source{Options: deps.Options()}).abandon(ctx, m)
}

// Abort restores the source after the destination has withdrawn.
func Abort(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return deps.source().abort(ctx, m)
}

// Undone returns the numbers of the steps that an abort undoes.
func Undone(conditions []gardencorev1beta1.Condition) []int {
	var numbers []int
	of := undoneOf(conditions)
	for number, is := range map[int]bool{4: of.kubeAPIServer, 5: of.dnsRecords} {
		if is {
			numbers = append(numbers, number)
		}
	}
	return numbers
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

// AnnounceMigration lets the Cluster resource say that the shoot is being migrated, as the cleanup does.
func AnnounceMigration(ctx context.Context, deps *Deps, b *botanist.Botanist) error {
	left, err := deps.source().readRemains(ctx, b.Shoot.ControlPlaneNamespace)
	if err != nil {
		return err
	}
	return announceMigration(ctx, b, left)
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
	at := newStage(of.migration, left)
	graph := s.cleanupGraph(of.migration, of.botanist, cleanupOf{left: left, stage: at, webhooks: deps.Webhooks})
	return graph.Compile().Run(ctx, flow.Opts{})
}

// Graphs returns the flows of the source by the situation that they are for.
func Graphs(deps *Deps, m *migration.Migration) map[string]*flow.Graph {
	s := &source{Options: deps.Options()}
	b, preparing := &botanist.Botanist{}, &preparationStage{migration: m}
	cleanup := func(left remains) *flow.Graph {
		of := cleanupOf{left: left, stage: newStage(m, left)}
		if left.workers {
			of.webhooks = &webhooks.Server{}
		}
		return s.cleanupGraph(m, b, of)
	}
	return map[string]*flow.Graph{
		"prepare with backup":    s.prepareGraph(m, b, preparing, prepareFacts{hasBackup: true, asksAhead: true}),
		"prepare without backup": s.prepareGraph(m, b, preparing, prepareFacts{asksAhead: true}),
		"prepare before a destination that cannot be asked": s.prepareGraph(m, b, preparing,
			prepareFacts{hasBackup: true}),
		"extensions": s.extensionsGraph(m, b),
		"cleanup": cleanup(
			remains{namespace: true, kubeAPIServer: true, cluster: true}),
		"cleanup with workers": cleanup(
			remains{namespace: true, kubeAPIServer: true, cluster: true, workers: true}),
		"cleanup with released machines": cleanup(
			remains{namespace: true, kubeAPIServer: true, cluster: true, workers: true, machinesReleased: true}),
		"abort": s.abortGraph(m, b,
			abortFacts{hasBackup: true, keepsShootState: true, formerBucket: "bucket-b"}),
		"abort without backup": s.abortGraph(m, b, abortFacts{}),
		"abort from step 4 with workers": s.abortGraph(m, b, abortFacts{
			keepsShootState: true, workers: true, undone: undone{kubeAPIServer: true}}),
		"abort from step 5": s.abortGraph(m, b, abortFacts{
			keepsShootState: true, undone: undone{kubeAPIServer: true, dnsRecords: true}}),
		"cleanup while namespace terminates": cleanup(
			remains{namespace: true, terminating: true, cluster: true}),
	}
}

// KeepShootState keeps the ShootState.
func KeepShootState(ctx context.Context, deps *Deps, m *migration.Migration) {
	deps.source().keepShootState(ctx, m)
}
