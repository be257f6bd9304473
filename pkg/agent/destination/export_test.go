// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"crypto/tls"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakeclientmap "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/fake"
	"github.com/gardener/gardener/pkg/component/garden/backupentry"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	"github.com/livecpm/livecpm/pkg/dns"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/seedpods"
)

// What the tests look at from outside.
var (
	WaitForCaches      = waitForCaches
	ProbeKubeAPIServer = probeKubeAPIServer
	AllVote            = allVote
	MembersToJoin      = membersToJoin
	// PassedControllers names what is started when the source asks for it.
	PassedControllers     = passedControllers
	KnowServiceAccountKey = knowServiceAccountKey
	Promptly              = promptly

	AnnotationFormerTTL = annotationFormerTTL
	AnnotationMovedAt   = annotationMovedAt
	AnnotationShortTTL  = annotationShortTTLSince
	AnnotationDrain     = annotationClientsDrain
)

// Deps are what the rooms are made of in tests.
type Deps struct {
	Garden        client.Client
	SeedClientSet kubernetes.Interface
	Clock         clock.Clock
	Timings       flows.Timings
	// NewCluster opens an etcd cluster.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
	// Clients returns how long clients wait for the kube-apiserver; by default they do not wait.
	Clients func(ctx context.Context) (time.Duration, error)
	// NoWay is why the way that clients take cannot be found.
	NoWay error
}

// Options returns the role's part with real rooms.
func (d *Deps) Options() Options {
	const seedName = "seed-b"
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
		Fronts: made(front.New(front.Options{
			SeedClient: seed, Image: "relay", PollInterval: time.Millisecond,
			NewSteering: func([]string, string, *tls.Config) joint.Front { return nil },
		})),
		Etcds: made(etcds.New(etcds.Options{
			SeedClient: seed, SeedName: seedName, Clock: d.Clock, NewCluster: d.NewCluster,
			SeedPods: func(namespace string) joint.Pods { return seedpods.New(seed, namespace) },
		})),
		ControlPlane: made(controlplane.New(controlplane.Options{
			SeedClientSet: d.SeedClientSet, Timings: d.Timings, Clock: d.Clock, DestroyTunnel: bridge.Destroy,
		})),
		GardenAPIReader: d.Garden, SeedClientSet: d.SeedClientSet, SeedName: seedName,
		Timings: d.Timings, Identity: gardener,
		NameServers: dns.NewNameServers(nil),
	}
}

func made[T any](room T, err error) T {
	ginkgo.GinkgoHelper()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return room
}

// DNSSwitch returns whether the records have moved and whether the former TTL is known, as the annotations say.
func DNSSwitch(annotations map[string]string) (moved, measured bool) {
	s := dnsSwitchOf(annotations)
	return s.moved, s.measured
}

// SwitchDNS runs this part of the step.
func SwitchDNS(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).switchDNS(ctx, m)
}

// AbandonSource runs the action of the step that a source which is lost does not finish. Whether clients are served
// here is for the test to say.
func AbandonSource(
	ctx context.Context, deps *Deps, m *migration.Migration, alone error,
) (steps.Outcome, error) {
	d := &destination{Options: deps.Options()}
	d.alone = func(context.Context, *migration.Migration) error { return alone }
	return d.abandonSource(ctx, m)
}

// Clear removes what an abandonment has left behind.
func Clear(ctx context.Context, deps *Deps, m *migration.Migration) error {
	_, err := (&destination{Options: deps.Options()}).clear(ctx, m)
	return err
}

// ServesAlone looks whether clients are served here.
func ServesAlone(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return (&destination{Options: deps.Options()}).servesAlone(ctx, m)
}

// RecordWait is a wait until name servers lead from one name to an address.
type RecordWait struct {
	// Garden has the Seed of the source; it is needed for the TTL only.
	Garden        client.Reader
	Servers       dns.NameServers
	Timings       flows.Timings
	Name, Address string
}

// Wait waits.
func (w RecordWait) Wait(ctx context.Context, m *migration.Migration) error {
	d := &destination{Options: Options{NameServers: w.Servers, Timings: w.Timings}}
	return d.waitForRecords(ctx, m, []dnsRecord{{name: w.Name}}, w.Address)
}

// FormerTTL asks for the TTL.
func (w RecordWait) FormerTTL(ctx context.Context, m *migration.Migration) (time.Duration, error) {
	d := &destination{Options: Options{GardenAPIReader: w.Garden, NameServers: w.Servers, Timings: w.Timings}}
	return d.formerTTL(ctx, m, []dnsRecord{{name: w.Name}})
}

// TTL is what is found out about the TTL of a record, which has Config by the gardenlet of the destination.
type TTL struct {
	Deps    *Deps
	Servers dns.NameServers
	Name    string
	Config  time.Duration
}

func (t TTL) destination() (*destination, []dnsRecord) {
	d := &destination{Options: t.Deps.Options()}
	d.NameServers = t.Servers
	return d, []dnsRecord{{name: t.Name, ttl: t.Config}}
}

// Look looks whether a shorter one is published.
func (t TTL) Look(ctx context.Context, m *migration.Migration) error {
	d, records := t.destination()
	return d.tryToSeeShortTTL(ctx, m, records)
}

// CachedFor tells for how long caches keep the record, in view of the shoot's namespace.
func (t TTL) CachedFor(
	ctx context.Context, m *migration.Migration, namespace *corev1.Namespace,
) (time.Duration, error) {
	d, records := t.destination()
	return d.cachedFor(ctx, m, namespace, records)
}

// WithdrawTunnel runs the task of the last step that removes the exposure before the etcds are rolled.
func WithdrawTunnel(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return (&destination{Options: deps.Options()}).Tunnel.Withdraw(ctx, m)
}

// LeaveMigrationPorts runs this part of the last step.
func LeaveMigrationPorts(ctx context.Context, deps *Deps, m *migration.Migration) (string, error) {
	return (&destination{Options: deps.Options()}).leaveMigrationPorts(ctx, m)
}

// EtcdSize is how many members an Etcd is to have.
type EtcdSize struct {
	Role    string
	Members int32
}

// ScaleEtcd scales an Etcd.
func ScaleEtcd(ctx context.Context, deps *Deps, m *migration.Migration, to EtcdSize) error {
	d := &destination{Options: deps.Options()}
	etcd, err := d.readEtcd(ctx, m, to.Role)
	if err != nil {
		return err
	}
	return d.scaleEtcd(ctx, etcd, to.Members)
}

// LastOperationForCompletion tells how the botanist of the last step is made.
func LastOperationForCompletion(
	ctx context.Context, deps *Deps, shoot *gardencorev1beta1.Shoot,
) (gardencorev1beta1.LastOperationType, error) {
	return (&destination{Options: deps.Options()}).lastOperationForCompletion(ctx, shoot)
}

// ReturnBackupEntry runs this part of an abort.
func ReturnBackupEntry(
	ctx context.Context, deps *Deps, m *migration.Migration, entry backupentry.Interface,
) error {
	return (&destination{Options: deps.Options()}).returnBackupEntry(ctx, m, &botanist.Botanist{
		Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{
			Components: &shootpkg.Components{BackupEntry: entry},
		}},
	})
}

// Graphs returns the flows of the destination by the situation that they are for.
func Graphs(deps *Deps, m *migration.Migration) map[string]*flow.Graph {
	d := &destination{Options: deps.Options()}
	b := &botanist.Botanist{}
	shrunk := *m
	shrunk.Shoot = m.Shoot.DeepCopy()
	shrunk.Shoot.Annotations[steps.AnnotationForceShrink] = "true"
	return map[string]*flow.Graph{
		"prepare with backup":    d.prepareGraph(m, b, prepareFacts{hasBackup: true}),
		"prepare without backup": d.prepareGraph(m, b, prepareFacts{}),
		"prepare ahead":          d.prepareGraph(m, b, prepareFacts{ahead: true}),
		"kube-apiserver": d.kubeAPIServerGraph(m,
			&start{botanist: b, published: &advertisement{}, first: &firstReplica{}}),
		"kube-apiserver after force-shrink": d.kubeAPIServerGraph(&shrunk,
			&start{botanist: b, published: &advertisement{}, first: &firstReplica{}}),
		"kube-apiserver with access control": d.kubeAPIServerGraph(m,
			&start{botanist: b, published: &advertisement{}, first: &firstReplica{},
				accessControl: []string{"acl"}}),
		"kube-apiserver with workers": d.kubeAPIServerGraph(m, &start{botanist: &botanist.Botanist{
			Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{}},
		}, published: &advertisement{}, first: &firstReplica{}}),
		"overlap": (&nodesMove{destination: d, botanist: b, plain: b,
			advertisement: &advertisement{address: "240.1.2.3", own: "240.4.5.6"}}).graph(),
		"settle":      d.settleGraph(b),
		"controllers": d.controllersGraph(b),
		"controllers with workers": d.controllersGraph(&botanist.Botanist{
			Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{}},
		}),
		"restart": d.restartGraph(m, b),
		"complete with workers": d.completeGraph(m, b,
			facts{workers: true, published: &advertisement{address: "240.1.2.3"}, hasBackup: true,
				formerBucket: "bucket-a"}),
		"dns":            d.dnsGraph(m, b),
		"alone":          d.aloneGraph(m, b),
		"way of clients": d.wayOfClientsGraph(b),
		"complete with all": d.completeGraph(m, b,
			facts{hasBackup: true, hasManagedIssuer: true, keepsShootState: true, wantsObservability: true,
				formerBucket: "bucket-a"}),
		"abort":             d.abortGraph(m, b, abortFacts{hasBackup: true}),
		"abort at its end":  d.abortGraph(m, b, abortFacts{terminating: true}),
		"abort from step 4": d.abortGraph(m, b, abortFacts{hasBackup: true, kubeAPIServer: true}),
		"abort with workers": d.abortGraph(m, &botanist.Botanist{
			Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{}},
		}, abortFacts{hasBackup: true, kubeAPIServer: true}),
		"abandoned":             d.abortGraph(m, b, abortFacts{hasBackup: true, kubeAPIServer: true, abandoned: true}),
		"complete with nothing": d.completeGraph(m, b, facts{}),
	}
}

// PublishedAddress reads the address of the kube-apiserver in a shoot.
var PublishedAddress = publishedAddress

// CheckPublished compares it.
var CheckPublished = checkPublished

// Moves reports whether the address inside of the shoot changes.
func Moves(address, own string) bool { return (&advertisement{address: address, own: own}).moves() }

// AnnotationAdvertisedAddress is where it is remembered.
const AnnotationAdvertisedAddress = annotationAdvertisedAddress

// Advertise applies the address to the botanist and returns the botanist's own.
func Advertise(b *botanist.Botanist, address string, times int) string {
	a := &advertisement{address: address}
	for range times {
		a.apply(b)
	}
	return a.own
}

// LearnAdvertisement returns the address that the destination's kube-apiserver is to publish.
func LearnAdvertisement(ctx context.Context, deps *Deps, b *botanist.Botanist) (string, error) {
	d := &destination{Options: deps.Options()}
	a, err := d.readAdvertisement(ctx, b.Shoot.ControlPlaneNamespace)
	if err != nil {
		return "", err
	}
	err = d.learnAdvertisement(ctx, b, a)
	return a.address, err
}

// ForgetAdvertisement removes what was remembered.
func ForgetAdvertisement(ctx context.Context, deps *Deps, namespace string) error {
	return (&destination{Options: deps.Options()}).forgetAdvertisement(ctx, namespace)
}

// CheckTunnel looks whether the nodes can be reached.
func CheckTunnel(ctx context.Context, c client.Client, r rest.Interface) error {
	return checkTunnel(ctx, &shootAccess{client: c, rest: r})
}

// WaitForVPN waits until the nodes are connected to the VPN server.
func WaitForVPN(ctx context.Context, deps *Deps, m *migration.Migration, shoot client.Client) error {
	return (&destination{Options: deps.Options()}).waitForVPN(ctx, m, shoot)
}

// VPNMove is what the regular VPN client is moved with.
type VPNMove struct {
	Botanist, Plain *botanist.Botanist
	// Shoot and Kubelets are the ways into the shoot.
	Shoot    client.Client
	Kubelets rest.Interface
}

// MoveVPN runs the part of the last step in which the regular VPN client takes the place of the temporary one.
func MoveVPN(ctx context.Context, deps *Deps, move VPNMove) error {
	d := &destination{Options: deps.Options(), access: func(*botanist.Botanist) (*shootAccess, error) {
		return &shootAccess{client: move.Shoot, rest: move.Kubelets}, nil
	}}
	g := flow.NewGraph("test")
	n := &nodesMove{destination: d, botanist: move.Botanist, plain: move.Plain,
		advertisement: &advertisement{address: "240.1.2.3", own: "240.1.2.3"}}
	n.addSecondProxy(g)
	n.addVPNClient(g)
	return g.Compile().Run(ctx, flow.Opts{})
}

// MoveEtcd runs the action.
func MoveEtcd(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	d := &destination{Options: deps.Options()}
	d.open = func(_ context.Context, m *migration.Migration) (*clients, error) {
		ask := deps.Clients
		if ask == nil {
			ask = func(context.Context) (time.Duration, error) { return 0, nil }
		}
		return &clients{log: m.Log, clock: m.Clock, ask: ask}, deps.NoWay
	}
	return d.moveEtcd(ctx, m)
}

// StartKubeAPIServer runs the step.
func StartKubeAPIServer(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).startKubeAPIServer(ctx, m)
}

// DeployGatewayWithoutRoute deploys the Gateway that extensions for access control look for.
func DeployGatewayWithoutRoute(ctx context.Context, deps *Deps, b *botanist.Botanist) error {
	return (&destination{Options: deps.Options()}).deployGatewayWithoutRoute(ctx, b)
}

// CheckApplied looks whether what extensions have written for the seed is applied.
func CheckApplied(ctx context.Context, deps *Deps) error {
	return (&destination{Options: deps.Options()}).checkApplied(ctx, "shoot--demo--live")
}

// StartControllers runs the role's part in the step that cleans the source up.
func StartControllers(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).startControllers(ctx, m)
}

// DrainClients runs this part of the step.
func DrainClients(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).drainClients(ctx, m)
}

// RestartEtcds runs this part of the step.
func RestartEtcds(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).restartEtcds(ctx, m)
}

// ShrinkEtcd runs this part of the step.
func ShrinkEtcd(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).shrinkEtcd(ctx, m)
}

// Rollout is a start of the kube-apiserver that is waited for.
type Rollout struct {
	Namespace string
	// Interval is the time between two looks for a restart.
	Interval time.Duration
	// Wait returns when the kube-apiserver is rolled out.
	Wait func(context.Context) error
}

// WaitUnlessRestarted waits as the step in which the kube-apiserver starts does.
func WaitUnlessRestarted(ctx context.Context, deps *Deps, of Rollout) error {
	return (&destination{Options: deps.Options()}).waitUnlessRestarted(ctx, of.Namespace, of.Interval, of.Wait)
}

// UntilServing waits as the switch of DNS does.
func UntilServing(
	ctx context.Context, deps *Deps, m *migration.Migration, serves func(context.Context) error,
) error {
	return (&destination{Options: deps.Options()}).untilServing(ctx, m, serves)
}

// SeedForStart returns what the botanist of the step in which the kube-apiserver starts reaches the seed through.
func SeedForStart(ctx context.Context, deps *Deps, m *migration.Migration) (kubernetes.Interface, error) {
	needed, err := (&destination{Options: deps.Options()}).needsMoreTime(ctx, m)
	if err != nil || !needed {
		return deps.SeedClientSet, err
	}
	return withMoreTime(deps.SeedClientSet), nil
}

// FirstReplica is the kube-apiserver that starts alone.
type FirstReplica struct{ first firstReplica }

// StartsAlone decides whether it starts alone, as the task that deploys it does.
func (f *FirstReplica) StartsAlone(ctx context.Context, deps *Deps, namespace string) (bool, error) {
	alone, err := (&destination{Options: deps.Options()}).startsAlone(ctx, namespace)
	f.first.alone.Store(alone)
	return alone, err
}

// OthersFollow ends that, as the task that deploys the others does.
func (f *FirstReplica) OthersFollow() { f.first.alone.Store(false) }

// Seed returns what the botanist reaches the seed through.
func (f *FirstReplica) Seed(deps *Deps) kubernetes.Interface {
	return f.first.clientSet(deps.SeedClientSet)
}

// UntilFirstIsReady waits for it.
func UntilFirstIsReady(ctx context.Context, deps *Deps, namespace string) error {
	return (&destination{Options: deps.Options()}).untilFirstIsReady(ctx, namespace)
}

// LeaveBehind runs a removal that must not stop the last step, and returns the outcome of the step.
func LeaveBehind(
	ctx context.Context, deps *Deps, m *migration.Migration, remove func(context.Context) error,
) (steps.Outcome, error) {
	left := &leftovers{}
	if err := left.behind(ctx, "the backups in the bucket old", remove); err != nil {
		return steps.Outcome{}, err
	}
	return (&destination{Options: deps.Options()}).handedOver(m, []string{left.String(), ""}), nil
}

// Former is what becomes of the backups in the bucket of the source.
type Former struct {
	Obstacle           func(context.Context) (string, error)
	Copy, Keep, Remove func(context.Context) error
}

// Move copies and deletes them.
func (f Former) Move(ctx context.Context) error {
	return formerBackups{obstacle: f.Obstacle, copy: f.Copy, keep: f.Keep, remove: f.Remove}.move(ctx)
}

// Restorable makes the ShootState fit to restore from.
func Restorable(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).restorable(ctx, m.Shoot)
}

// DateForGardenlet does that for the gardenlet, which gets it when the shoot is handed over.
func DateForGardenlet(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).dateForGardenlet(ctx, m.Shoot)
}

// DeployPlainEtcds begins to give the etcds their ordinary specification. It has no botanist to do it with.
func DeployPlainEtcds(ctx context.Context, deps *Deps, m *migration.Migration) error {
	return (&destination{Options: deps.Options()}).deployPlainEtcds(ctx, m, nil)
}

// Finish checks what has to be so before a shoot without backups is handed over.
func Finish(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).finish(ctx, m, nil, facts{left: &leftovers{}})
}

// Serve ends the step of a shoot without workers whose kube-apiserver is rolled out. It answers as the function says.
func Serve(
	ctx context.Context, deps *Deps, m *migration.Migration, answers func(context.Context) error,
) (steps.Outcome, error) {
	d := &destination{Options: deps.Options()}
	d.answers = func(ctx context.Context, _ clock.PassiveClock, _ *botanist.Botanist) error { return answers(ctx) }
	return d.serve(ctx, m, &start{botanist: &botanist.Botanist{
		Operation: &gardeneroperation.Operation{APIServerAddress: "10.0.0.7"},
	}})
}

// PrepareRestoration does that at the beginning of the last step.
func PrepareRestoration(ctx context.Context, deps *Deps, m *migration.Migration) (steps.Outcome, error) {
	return (&destination{Options: deps.Options()}).prepareRestoration(ctx, m)
}

// KeepShootState keeps the ShootState.
func KeepShootState(ctx context.Context, deps *Deps, m *migration.Migration) {
	(&destination{Options: deps.Options()}).keepShootState(ctx, m)
}

// UntilResourceManagerReady waits as the last step does.
func UntilResourceManagerReady(ctx context.Context, deps *Deps, namespace string) error {
	return (&destination{Options: deps.Options()}).untilResourceManagerReady(&botanist.Botanist{
		Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{ControlPlaneNamespace: namespace}},
	})(ctx)
}
