// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/backups"
	agentbotanist "github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/seedlook"
	"github.com/livecpm/livecpm/test/simulation"
)

// party is the agent of a seed: the real access to the garden with its caches and selectors, the real frame, and of the
// actions what they ask of the garden. The seed is a fake one.
type party struct {
	seedName   string
	seed       kubernetes.Interface
	rooms      *setup.Rooms
	reconciler *agent.Reconciler
	publishers []*agent.Publisher
	// kept says that the backups in the other seed's bucket were given up once.
	kept bool
}

func newParty(seedName string, config *rest.Config) *party {
	GinkgoHelper()
	agentConfig := &configv1alpha1.AgentConfiguration{}
	configv1alpha1.SetDefaults(agentConfig)
	agentConfig.LeaderElection.LeaderElect = new(false)
	agentConfig.Relay.Image = "relay"

	// The gardenlet's process has a manager that serves neither probes nor metrics. The garden's cluster stands in for
	// that of the seed as long as nothing is done there.
	environment, err := setup.NewEnvironmentFor(ctx, setup.Options{
		Log: logr.Discard(), Config: agentConfig, GardenletConfig: simulation.Gardenlet(seedName),
		Host:   agent.HostGardenlet,
		Access: setup.Access{Garden: config, Seed: garden.Config},
	})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- environment.Manager.Start(running) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	syncing, stop := context.WithTimeout(ctx, patience.Eventually)
	defer stop()
	Expect(environment.GardenCluster.GetCache().WaitForCacheSync(syncing)).To(BeTrue(),
		"it may not list and watch what it has to")

	seedClient := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	environment.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seedClient).WithAPIReader(seedClient).
		WithKubernetes(kubernetesfake.NewClientset()).WithRESTConfig(&rest.Config{Host: "seed"}).WithVersion("1.36.0").
		Build()
	rooms, err := setup.NewRooms(environment)
	Expect(err).NotTo(HaveOccurred())
	p := &party{seedName: seedName, seed: environment.SeedClientSet, rooms: rooms}
	reader, writer := environment.GardenCluster.GetAPIReader(), environment.GardenCluster.GetClient()

	p.publishers = newPublishers(environment)
	controller := agentConfig.Controllers.LiveMigration
	controller.RetryBackoff.Base.Duration = 10 * time.Millisecond
	p.reconciler, err = simulation.NewReconciler(simulation.Agent{
		SeedName: seedName, GardenClient: writer, GardenAPIReader: reader,
		Recorder: environment.GardenCluster.GetEventRecorder("livecpm-agent"),
		Config:   controller, Version: framework.GardenletVersion,
		Actions: simulation.Both(p.ofRole),
	})
	Expect(err).NotTo(HaveOccurred())
	return p
}

// pass lets the agent look at the Shoot once.
func (p *party) pass(key client.ObjectKey) error {
	_, err := p.reconciler.Reconcile(logf.IntoContext(ctx, logr.Discard()), reconcile.Request{NamespacedName: key})
	return err
}

// tell lets the agents of other seeds know about this one. Somebody may have told before, with another identity.
func (p *party) tell() {
	GinkgoHelper()
	seed := &gardencorev1beta1.Seed{}
	Expect(garden.Client.Get(ctx, client.ObjectKey{Name: p.seedName}, seed)).To(Succeed())
	patch := client.MergeFrom(seed.DeepCopy())
	delete(seed.Annotations, seedfacts.AnnotationTLSTermination)
	delete(seed.Annotations, seedfacts.AnnotationDNSAccess)
	delete(seed.Annotations, seedfacts.AnnotationExtensions)
	delete(seed.Annotations, seedfacts.AnnotationBackups)
	delete(seed.Annotations, steps.SeedAnnotationProtocols)
	Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
	for _, publisher := range p.publishers {
		Expect(publisher.Publish(ctx)).To(Succeed())
	}
	Expect(garden.Client.Get(ctx, client.ObjectKey{Name: p.seedName}, seed)).To(Succeed())
	Expect(seed.Annotations).To(And(HaveKeyWithValue(seedfacts.AnnotationTLSTermination, "true"),
		HaveKeyWithValue(steps.SeedAnnotationProtocols, steps.OwnProtocols().String())))
	var access seedfacts.DNSAccess
	Expect(seedfacts.Of(seed, seedfacts.AnnotationDNSAccess, &access)).To(Succeed())
	Expect(access.Domains).To(And(HaveLen(2), HaveEach(HaveField("InOrder()", BeTrue()))),
		"it may not read the credentials that its DNSRecords would be given")
	Expect(seedfacts.Of(seed, seedfacts.AnnotationExtensions, &seedfacts.Extensions{})).To(Succeed())
	Expect(seedfacts.Of(seed, seedfacts.AnnotationBackups, &seedfacts.Backups{})).To(Succeed())
}

// newPublishers tell what needs nothing of the seed. Instead of name servers, one is asked that knows everything.
func newPublishers(environment *setup.Environment) []*agent.Publisher {
	GinkgoHelper()
	reader, writer := environment.GardenCluster.GetAPIReader(), environment.GardenCluster.GetClient()
	access, err := dryrun.NewDNSAccess(dryrun.DNSAccessOptions{Garden: reader, Shoots: writer,
		SeedName: environment.SeedName(), NameServers: knowing{}, Clock: clock.RealClock{}})
	Expect(err).NotTo(HaveOccurred())
	extensions, err := dryrun.NewExtensions(dryrun.ExtensionsOptions{Garden: writer, SeedName: environment.SeedName(),
		Clock: clock.RealClock{}})
	Expect(err).NotTo(HaveOccurred())
	arriving, err := dryrun.NewBackups(dryrun.BackupsOptions{Garden: reader, Reported: backups.Reported,
		Seed: environment.SeedClientSet.APIReader(), SeedName: environment.SeedName(), Clock: clock.RealClock{}})
	Expect(err).NotTo(HaveOccurred())
	var out []*agent.Publisher
	for _, facts := range [][]agent.Fact{
		{agent.TLSTermination(true), agent.ExposureClassHandlers(nil), agent.AccessControl([]string{"acl"}),
			agent.Protocols(steps.OwnProtocols()), agent.Workers(true)},
		{{Annotation: seedfacts.AnnotationDNSAccess, Value: access.Fact}},
		{{Annotation: seedfacts.AnnotationExtensions, Value: extensions.Fact}},
		{{Annotation: seedfacts.AnnotationBackups, Value: arriving.Fact}},
	} {
		out = append(out, &agent.Publisher{Log: logr.Discard(), Reader: reader, Writer: writer,
			SeedName: environment.SeedName(), Facts: facts, Clock: clock.RealClock{}})
	}
	return out
}

// knowing is a name server that answers everything.
type knowing struct{}

func (knowing) Ask(context.Context, string, string) ([]dns.Answer, error) {
	return []dns.Answer{{Server: seedlook.NameServer}}, nil
}

// ofRole does of every step what it asks of the garden. A part in a step of the peer asks nothing of it that the own
// steps do not ask.
func (p *party) ofRole(steps.Role) simulation.Work {
	work := map[gardencorev1beta1.ConditionType]func(context.Context, *migration.Migration) error{
		gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin:              p.prepareSource,
		gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined:                 p.prepareDestination,
		gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer: p.persist,
		gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady:              p.restore,
		gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup:                          p.persist,
		gardencorev1beta1.ShootLiveMigrationMigrationCompleted:                         p.complete,
	}
	return simulation.Work{Step: func(step steps.Step) migration.Action {
		return migration.ActionFunc(func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
			if do := work[step.Condition]; do != nil {
				if err := do(ctx, m); err != nil {
					return steps.Outcome{}, err
				}
			}
			return steps.Done("done by %s", p.seedName), nil
		})
	}}
}

func (p *party) botanist(
	ctx context.Context, m *migration.Migration, lastOperation gardencorev1beta1.LastOperationType,
) (*botanist.Botanist, error) {
	b, err := p.rooms.Botanists.New(ctx, m, lastOperation)
	if err != nil {
		return nil, err
	}
	return b, b.InitializeSecretsManagement(ctx)
}

// publish lets others know the certificate authorities of the control plane, which the gardenlet of the source has done
// long before a migration.
func (p *party) publish(shoot *gardencorev1beta1.Shoot) *corev1.ConfigMap {
	GinkgoHelper()
	var b *botanist.Botanist
	// The authorizer may not have heard of the Shoot yet.
	Eventually(func() (err error) {
		b, err = p.botanist(ctx, &migration.Migration{Log: logr.Discard(), Shoot: shoot},
			gardencorev1beta1.LastOperationTypeReconcile)
		return err
	}).Should(Succeed())
	ca, found := b.SecretsManager.Get(v1beta1constants.SecretNameCACluster)
	Expect(found).To(BeTrue())
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: gardenerutils.ComputeShootProjectResourceName(shoot.Name,
				gardenerutils.ShootProjectConfigMapSuffixCACluster),
			Namespace: shoot.Namespace, Labels: map[string]string{v1beta1constants.LabelUpdateRestriction: "true"},
		},
		Data: map[string]string{
			secretsutils.DataKeyCertificateCA: string(ca.Data[secretsutils.DataKeyCertificateBundle]),
		},
	}
	Expect(clientOf(gardenlet(p.seedName)).Create(ctx, configMap)).To(Succeed())
	return configMap
}

func (p *party) prepareSource(ctx context.Context, m *migration.Migration) error {
	if _, err := p.rooms.ShootStates.Kept(ctx); err != nil {
		return err
	}
	b, err := p.botanist(ctx, m, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return err
	}
	if err := p.requiredSecrets(ctx, m); err != nil {
		return err
	}
	if err := p.persist(ctx, m); err != nil {
		return err
	}
	if err := b.Shoot.Components.BackupEntry.Migrate(ctx); err != nil {
		return err
	}
	entry, err := b.Shoot.Components.BackupEntry.Get(ctx)
	if err != nil {
		return err
	}
	return backups.CheckReleased(entry, m.DestinationSeed)
}

// requiredSecrets makes those of a control plane that its flows would have made.
func (p *party) requiredSecrets(ctx context.Context, m *migration.Migration) error {
	for _, name := range []string{v1beta1constants.SecretNameETCDEncryptionKey,
		v1beta1constants.SecretNameServiceAccountKey} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
				Labels: map[string]string{"managed-by": "secrets-manager", "manager-identity": "gardenlet",
					"persist": "true", "name": name},
			},
			Data: map[string][]byte{"key": []byte("value")},
		}
		if err := p.seed.Client().Create(ctx, secret); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

func (p *party) persist(ctx context.Context, m *migration.Migration) error {
	return p.rooms.ShootStates.Replace(ctx, m.Shoot)
}

func (p *party) prepareDestination(ctx context.Context, m *migration.Migration) error {
	backup := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.BackupSecretName,
		Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)}}
	if err := p.seed.Client().Create(ctx, backup); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	b, err := p.botanist(ctx, m, gardencorev1beta1.LastOperationTypeRestore)
	if err != nil {
		return err
	}
	if err := b.RequiredExtensionsReady(ctx); err != nil {
		return err
	}
	if err := b.EnsureShootClusterIdentity(ctx); err != nil {
		return err
	}
	agentbotanist.KeepLastOperation(b, gardencorev1beta1.LastOperationTypeRestore)
	if err := b.DeployReferencedResources(ctx); err != nil {
		return err
	}
	if err := p.rooms.Backups.CheckHere(ctx, b); err == nil {
		return nil
	}
	if err := b.DeployBackupEntry(ctx); err != nil {
		return err
	}
	return p.rooms.Backups.CheckHere(ctx, b)
}

// restore is what every flow in the destination begins with. The garden's copies of credentials are brought up to date
// by it.
func (p *party) restore(ctx context.Context, m *migration.Migration) error {
	if err := p.rooms.ShootStates.Keep(ctx, m.Shoot, nil); err != nil {
		return err
	}
	if err := p.rooms.ShootStates.Compare(ctx, m.Shoot); err != nil {
		return err
	}
	_, err := p.botanist(ctx, m, gardencorev1beta1.LastOperationTypeRestore)
	return err
}

func (p *party) complete(ctx context.Context, m *migration.Migration) error {
	b, err := p.botanist(ctx, m, gardencorev1beta1.LastOperationTypeRestore)
	if err != nil {
		return err
	}
	formerBucket, err := p.rooms.Backups.BucketOf(ctx, m.SourceSeed)
	if err != nil {
		return err
	}
	// The API server of the garden stands in for the shoot's: it publishes the keys of its issuer in the same way.
	if b.ShootClientSet, err = kubernetes.NewWithConfig(kubernetes.WithRESTConfig(garden.Config),
		kubernetes.WithDisabledCachedClient()); err != nil {
		return err
	}
	if err := b.SyncPublicServiceAccountKeys(ctx); err != nil {
		return err
	}
	if err := p.giveUp(ctx, b, formerBucket); err != nil {
		return err
	}
	if err := backups.DeleteFormer(ctx, b, formerBucket); err != nil {
		return err
	}
	if err := b.UpdateAdvertisedAddresses(ctx); err != nil {
		return err
	}
	return p.rooms.ShootStates.Delete(ctx, m.Shoot)
}

// giveUp does once what is done with a bucket that cannot be read: the backups are not copied, and the entry goes
// without the gardenlet.
func (p *party) giveUp(ctx context.Context, b *botanist.Botanist, formerBucket string) error {
	if p.kept {
		return nil
	}
	// Nobody makes the extension's object in the fake seed.
	if err := backups.CopyFormer(ctx, b, formerBucket); !apierrors.IsNotFound(err) {
		return err
	}
	entry := &gardencorev1beta1.BackupEntry{}
	key := client.ObjectKey{Namespace: b.Shoot.GetInfo().Namespace, Name: "source-" + b.Shoot.BackupEntryName}
	if err := garden.Client.Get(ctx, key, entry); err != nil {
		return err
	}
	patch := client.MergeFrom(entry.DeepCopy())
	entry.Finalizers = []string{gardencorev1beta1.GardenerName}
	if err := garden.Client.Patch(ctx, entry, patch); err != nil {
		return err
	}
	if err := p.rooms.Backups.KeepFormer(ctx, b); err != nil {
		return err
	}
	if err := garden.Client.Get(ctx, key, entry); !apierrors.IsNotFound(err) {
		return errors.Join(fmt.Errorf("BackupEntry %s is still there", key), err)
	}
	p.kept = true
	return nil
}

// gardenlets do with BackupEntries what the gardenlets of all seeds do, until the spec ends.
func gardenlets() {
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		for running.Err() == nil {
			list := &gardencorev1beta1.BackupEntryList{}
			if err := garden.Client.List(running, list); err == nil {
				for i := range list.Items {
					_ = serve(running, &list.Items[i])
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	DeferCleanup(func() {
		cancel()
		wait.Wait()
	})
}

func serve(ctx context.Context, entry *gardencorev1beta1.BackupEntry) error {
	requested := entry.Annotations[v1beta1constants.GardenerOperation]
	leaving := entry.Status.SeedName != nil && *entry.Status.SeedName != *entry.Spec.SeedName
	released := entry.Status.LastOperation != nil &&
		entry.Status.LastOperation.Type == gardencorev1beta1.LastOperationTypeMigrate
	if !leaving && requested == "" &&
		(released || entry.Status.ObservedGeneration == entry.Generation && entry.Status.SeedName != nil) {
		return nil
	}
	if requested != "" {
		patch := client.MergeFrom(entry.DeepCopy())
		delete(entry.Annotations, v1beta1constants.GardenerOperation)
		if err := garden.Client.Patch(ctx, entry, patch); err != nil {
			return err
		}
	}
	patch := client.MergeFrom(entry.DeepCopy())
	entry.Status.ObservedGeneration = entry.Generation
	// In whole seconds, after the moment of the request.
	later := metav1.NewTime(time.Now().Add(2 * time.Second))
	entry.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
		State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100, LastUpdateTime: later}
	switch {
	case leaving:
		entry.Status.SeedName, entry.Status.LastOperation.Type = nil, gardencorev1beta1.LastOperationTypeMigrate
	default:
		entry.Status.SeedName = entry.Spec.SeedName
		if requested == v1beta1constants.GardenerOperationRestore {
			entry.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeRestore
		}
	}
	return garden.Client.Status().Patch(ctx, entry, patch)
}

// migrate moves the Shoot from seed-a to seed-b by the agents, and returns all errors that they had on the way.
func migrate(shoot *gardencorev1beta1.Shoot, a, b *party) (failures []error) {
	GinkgoHelper()
	key := client.ObjectKeyFromObject(shoot)
	Expect(garden.Intend(ctx, shoot)).To(Succeed())
	Expect(garden.Bind(ctx, shoot, seedB)).To(Succeed())
	Eventually(func(g Gomega) {
		for _, p := range []*party{a, b} {
			if err := p.pass(key); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", p.seedName, err))
			}
		}
		current := &gardencorev1beta1.Shoot{}
		g.Expect(garden.Client.Get(ctx, key, current)).To(Succeed())
		g.Expect(current.Status.SeedName).To(HaveValue(Equal(seedB)), func() string {
			return fmt.Sprintf("%v\n%v", errors.Join(failures[max(0, len(failures)-3):]...),
				current.Status.LiveMigration)
		})
	}).Should(Succeed())
	return failures
}

func forbidden(failures []error) []error {
	var out []error
	for _, err := range failures {
		if apierrors.IsForbidden(err) {
			out = append(out, err)
		}
	}
	return out
}
