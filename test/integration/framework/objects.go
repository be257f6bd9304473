// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/seedlook"
)

const (
	// ProviderType is the provider of the seeds.
	ProviderType = "local"
	// OtherProviderType is a provider that no shoot uses but a seed can have.
	OtherProviderType = "other"
	// CloudProfile is the name of the cloud profile of the shoots.
	CloudProfile = "local"
	// shootDomain is what the domains of the shoots are below.
	shootDomain = "shoots.livecpm.example"
	// KubernetesVersion is the Kubernetes version of the shoots.
	KubernetesVersion = "1.33.0"
	// GardenletVersion is what the seeds report unless a test says otherwise.
	GardenletVersion = "v1.150.0"
	// InternalDomain is the internal domain of all seeds.
	InternalDomain = "internal.livecpm.example"
	// ProjectNamespace is the namespace of the shoots.
	ProjectNamespace = "garden-demo"
)

// Bootstrap creates what shoots need: the project, the cloud profile and the registration of the provider.
func (g *Garden) Bootstrap(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.GardenNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: ProjectNamespace,
			Labels: map[string]string{
				v1beta1constants.GardenRole:  v1beta1constants.GardenRoleProject,
				v1beta1constants.ProjectName: "demo",
			},
		}},
		&gardencorev1beta1.Project{
			ObjectMeta: metav1.ObjectMeta{Name: "demo"},
			Spec:       gardencorev1beta1.ProjectSpec{Namespace: new(ProjectNamespace)},
		},
		&gardencorev1beta1.CloudProfile{
			ObjectMeta: metav1.ObjectMeta{Name: CloudProfile},
			Spec: gardencorev1beta1.CloudProfileSpec{
				Type: ProviderType,
				Kubernetes: gardencorev1beta1.KubernetesSettings{
					Versions: []gardencorev1beta1.ExpirableVersion{{Version: KubernetesVersion}},
				},
				MachineImages: []gardencorev1beta1.MachineImage{{
					Name: "local",
					Versions: []gardencorev1beta1.MachineImageVersion{
						{ExpirableVersion: gardencorev1beta1.ExpirableVersion{Version: "1.0.0"},
							CRI:           []gardencorev1beta1.CRI{{Name: gardencorev1beta1.CRINameContainerD}},
							Architectures: []string{v1beta1constants.ArchitectureAMD64}},
					},
				}},
				MachineTypes: []gardencorev1beta1.MachineType{
					{Name: "local", Architecture: new(v1beta1constants.ArchitectureAMD64)},
				},
				Regions: []gardencorev1beta1.Region{{Name: "region"}},
			},
		},
		&gardencorev1beta1.ControllerRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: "provider-local"},
			Spec: gardencorev1beta1.ControllerRegistrationSpec{Resources: []gardencorev1beta1.ControllerResource{
				{Kind: "BackupBucket", Type: ProviderType},
				{Kind: "BackupEntry", Type: ProviderType},
				{Kind: "ControlPlane", Type: ProviderType},
				{Kind: "DNSRecord", Type: ProviderType},
				{Kind: "Infrastructure", Type: ProviderType},
				{Kind: "Worker", Type: ProviderType},
				{Kind: "ControlPlane", Type: OtherProviderType},
			}},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "credentials", Namespace: v1beta1constants.GardenNamespace}},
	}
	for _, object := range objects {
		if err := g.Client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("failed to create %T %s: %w", object, object.GetName(), err)
		}
	}
	project := &gardencorev1beta1.Project{}
	if err := g.Client.Get(ctx, client.ObjectKey{Name: "demo"}, project); err != nil {
		return err
	}
	project.Status.Phase = gardencorev1beta1.ProjectReady
	return g.Client.Status().Update(ctx, project)
}

// NewSeed returns a seed that is fit for live migrations. All seeds are in one region.
func NewSeed(name string) *gardencorev1beta1.Seed {
	credentials := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "credentials",
		Namespace: v1beta1constants.GardenNamespace}
	return &gardencorev1beta1.Seed{
		// What the agent of the seed publishes.
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{steps.SeedAnnotationProtocols: steps.OwnProtocols().String()}},
		Spec: gardencorev1beta1.SeedSpec{
			Provider: gardencorev1beta1.SeedProvider{Type: ProviderType, Region: "region", Zones: []string{"0"}},
			Backup: &gardencorev1beta1.Backup{Provider: ProviderType, CredentialsRef: &credentials,
				Region: new("region")},
			DNS: gardencorev1beta1.SeedDNS{
				Provider: &gardencorev1beta1.SeedDNSProvider{Type: ProviderType, CredentialsRef: &credentials},
				Internal: &gardencorev1beta1.SeedDNSProviderConfig{Type: ProviderType, Domain: InternalDomain,
					CredentialsRef: credentials},
			},
			Ingress: &gardencorev1beta1.Ingress{
				Domain:     "ingress." + name + ".livecpm.example",
				Controller: gardencorev1beta1.IngressController{Kind: "nginx"},
			},
			Networks: gardencorev1beta1.SeedNetworks{
				Nodes: new("10.250.0.0/16"), Pods: "10.241.0.0/16", Services: "10.97.0.0/16",
				ShootDefaults: &gardencorev1beta1.ShootNetworks{Pods: new("100.128.0.0/11"),
					Services: new("100.72.0.0/13")},
			},
			Settings: &gardencorev1beta1.SeedSettings{
				Scheduling: &gardencorev1beta1.SeedSettingScheduling{Visible: true},
			},
		},
	}
}

// CreateSeed creates the seed and lets it report a healthy gardenlet, and an agent that has found nothing amiss.
func (g *Garden) CreateSeed(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	seedlook.InOrder(seed, time.Now())
	seedlook.Below(seed, time.Now(), shootDomain, ProviderType)
	if err := g.createOnceAdmitted(ctx, seed); err != nil {
		return fmt.Errorf("failed to create Seed %s: %w", seed.Name, err)
	}
	now := metav1.Now()
	seed.Status.Gardener = &gardencorev1beta1.Gardener{ID: "gardenlet", Name: "gardenlet", Version: GardenletVersion}
	seed.Status.ObservedGeneration = seed.Generation
	for _, condition := range []gardencorev1beta1.ConditionType{gardencorev1beta1.GardenletReady,
		gardencorev1beta1.SeedSystemComponentsHealthy, gardencorev1beta1.SeedBackupBucketsReady} {
		seed.Status.Conditions = append(seed.Status.Conditions, gardencorev1beta1.Condition{
			Type: condition, Status: gardencorev1beta1.ConditionTrue, Reason: "Ready", LastTransitionTime: now,
			LastUpdateTime: now,
		})
	}
	if err := g.Client.Status().Update(ctx, seed); err != nil {
		return fmt.Errorf("failed to update the status of Seed %s: %w", seed.Name, err)
	}
	return nil
}

// NewShoot returns a workerless, highly available shoot on the given seed.
func NewShoot(name, seed string) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ProjectNamespace},
		Spec: gardencorev1beta1.ShootSpec{
			CloudProfile: &gardencorev1beta1.CloudProfileReference{
				Kind: v1beta1constants.CloudProfileReferenceKindCloudProfile, Name: CloudProfile,
			},
			ControlPlane: &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{
				FailureTolerance: gardencorev1beta1.FailureTolerance{Type: gardencorev1beta1.FailureToleranceTypeNode},
			}},
			DNS:        &gardencorev1beta1.DNS{Domain: new(name + "." + shootDomain)},
			Kubernetes: gardencorev1beta1.Kubernetes{Version: KubernetesVersion},
			Provider:   gardencorev1beta1.Provider{Type: ProviderType},
			Purpose:    new(gardencorev1beta1.ShootPurposeTesting),
			Region:     "region",
			SeedName:   new(seed),
		},
	}
}

// CreateShoot creates the shoot and gives it the status of a shoot that its gardenlet has just created.
func (g *Garden) CreateShoot(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	if err := g.createOnceAdmitted(ctx, shoot); err != nil {
		return fmt.Errorf("failed to create Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Status.SeedName = shoot.Spec.SeedName
	shoot.Status.TechnicalID = "shoot--demo--" + shoot.Name
	shoot.Status.UID = shoot.UID
	shoot.Status.ObservedGeneration = shoot.Generation
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type: gardencorev1beta1.LastOperationTypeCreate, State: gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		LastUpdateTime: metav1.NewTime(time.Now().UTC()),
	}
	if err := g.Client.Status().Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to patch the status of Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return nil
}

// Intend sets the intent annotation.
func (g *Garden) Intend(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	patch := client.MergeFrom(shoot.DeepCopy())
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.AnnotationMigrationLiveMigrate, "true")
	return g.Client.Patch(ctx, shoot, patch)
}

// Bind changes spec.seedName the way an operator does: through shoots/binding.
func (g *Garden) Bind(ctx context.Context, shoot *gardencorev1beta1.Shoot, seed string) error {
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = new(seed)
	return g.Client.SubResource("binding").Patch(ctx, shoot, patch)
}

// createOnceAdmitted creates the object as soon as the informers of the admission plugins have seen what it refers to.
func (g *Garden) createOnceAdmitted(ctx context.Context, object client.Object) error {
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second,
		true, func(ctx context.Context) (bool, error) {
			err := g.Client.Create(ctx, object)
			if err == nil || ctx.Err() == nil || last == nil {
				// That the time is over does not say why the object was refused before.
				last = err
			}
			return err == nil, nil
		}); err != nil {
		return last
	}
	return nil
}

// SetCondition sets one condition of the shoot's live migration, of which type, status and reason are given, without
// asking who may write it.
func (g *Garden) SetCondition(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, condition gardencorev1beta1.Condition,
) error {
	patch := client.MergeFrom(shoot.DeepCopy())
	if shoot.Status.LiveMigration == nil {
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{}
	}
	now := metav1.Now()
	condition.Message, condition.LastTransitionTime, condition.LastUpdateTime = "set by a test", now, now
	shoot.Status.LiveMigration.Conditions = v1beta1helper.MergeConditions(shoot.Status.LiveMigration.Conditions,
		condition)
	return g.Client.Status().Patch(ctx, shoot, patch)
}

// SetConstraint sets one constraint of the shoot.
func (g *Garden) SetConstraint(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, conditionType gardencorev1beta1.ConditionType,
	status gardencorev1beta1.ConditionStatus,
) error {
	patch := client.MergeFrom(shoot.DeepCopy())
	now := metav1.Now()
	condition := gardencorev1beta1.Condition{Type: conditionType, Status: status, Reason: "Test",
		Message: "set by a test", LastTransitionTime: now, LastUpdateTime: now}
	shoot.Status.Constraints = v1beta1helper.MergeConditions(shoot.Status.Constraints, condition)
	return g.Client.Status().Patch(ctx, shoot, patch)
}
