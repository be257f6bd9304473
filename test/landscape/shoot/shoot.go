// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package shoot creates a shoot through the garden's API, as a user would, follows its creation by the gardenlet and
// fetches its administrator's kubeconfig.
package shoot

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/apis/utils/timewindow"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
)

// Namespace is the namespace of the project that the landscape's shoots live in.
const Namespace = "garden-demo"

// kubeconfigValidity is the longest that the garden grants.
const kubeconfigValidity = 24 * time.Hour

//go:embed manifests/shoot.yaml
var shootManifest string

//go:embed manifests/workers.yaml
var workersManifest string

// machinesPerPool is how many machines each of the two worker pools has. A second one shows whether the right one is
// kept; more would show nothing else.
const machinesPerPool = 2

// Shoot is one shoot of the landscape.
type Shoot struct {
	Config *config.Config
	// Name is the shoot's name, Seed where it is created.
	Name, Seed string
	// Single makes a control plane that is not highly available, Hibernated one that sleeps from the beginning.
	Single, Hibernated bool
	// WithGap says that its users have agreed to one gap when its control plane moves.
	WithGap bool
	// MaintenanceFrom is when its maintenance time window begins, which is as long as Gardener permits. Gardener draws
	// one if it is zero.
	MaintenanceFrom time.Time
	// Workers gives the shoot two pools of machines, and extensions that keep a state.
	Workers bool
	// Created is set by Up: it reports that the shoot was not there before.
	Created bool
	// Report tells the user how far the creation is.
	Report func(format string, args ...any)
}

// Up creates the shoot unless it is there, waits until its last operation has succeeded, and writes its kubeconfig.
func (s *Shoot) Up(ctx context.Context) error {
	c, err := garden.Client(s.Config)
	if err != nil {
		return err
	}
	if err := WaitForSeeds(ctx, s.Config, c, s.Report); err != nil {
		return err
	}
	if err := s.create(ctx, c); err != nil {
		return err
	}
	if err := s.wait(ctx, c); err != nil {
		return err
	}
	if info, err := os.Stat(KubeconfigFile(s.Config, s.Name)); err == nil &&
		time.Since(info.ModTime()) < kubeconfigValidity/2 {
		return nil
	}
	return s.WriteKubeconfig(ctx, c)
}

// create leaves a shoot alone that exists: by now it may live in another seed.
func (s *Shoot) create(ctx context.Context, c client.Client) error {
	s.Created = false
	err := c.Get(ctx, s.key(), &gardencorev1beta1.Shoot{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	seed, err := s.Config.Seed(s.Seed)
	if err != nil {
		return err
	}
	kubernetes, err := garden.Kubernetes(ctx, s.Config.Repo)
	if err != nil {
		return err
	}
	manifests, err := s.manifest(seed.Region, kubernetes.Version[len("v"):])
	if err != nil {
		return err
	}
	if err := apply.Manifests(ctx, c, manifests); err != nil {
		return err
	}
	s.Created = true
	return nil
}

func (s *Shoot) manifest(region, kubernetesVersion string) ([]byte, error) {
	values := map[string]any{
		"Name":              s.Name,
		"Namespace":         Namespace,
		"Region":            region,
		"Seed":              s.Seed,
		"KubernetesVersion": kubernetesVersion,
		"HighlyAvailable":   !s.Single,
		"Tolerance":         s.Config.Tolerance,
		"Hibernated":        s.Hibernated,
		"Pools":             []string{"one", "two"},
		"MachinesPerPool":   machinesPerPool,
		"AgreesBy":          "",
		"MaintenanceBegin":  "",
		"MaintenanceEnd":    "",
	}
	if s.WithGap {
		values["AgreesBy"] = steps.AnnotationWithGap
	}
	if !s.MaintenanceFrom.IsZero() {
		values["MaintenanceBegin"] = maintenanceTime(s.MaintenanceFrom)
		values["MaintenanceEnd"] = maintenanceTime(
			s.MaintenanceFrom.Add(gardencorev1beta1.MaintenanceTimeWindowDurationMaximum))
	}
	if !s.Workers {
		return apply.Render("shoot.yaml", shootManifest, values)
	}
	kubeconfig, err := garden.CloudKubeconfig(s.Config)
	if err != nil {
		return nil, err
	}
	values["CloudKubeconfig"] = base64.StdEncoding.EncodeToString(kubeconfig)
	return apply.Render("workers.yaml", workersManifest, values)
}

// maintenanceTime returns the time of day as Shoots have it.
func maintenanceTime(t time.Time) string {
	t = t.UTC()
	return timewindow.NewMaintenanceTime(t.Hour(), t.Minute(), t.Second()).Formatted()
}

// Down deletes the shoot and waits until it is gone. A shoot that does not exist is no error.
func (s *Shoot) Down(ctx context.Context) error {
	c, err := garden.Client(s.Config)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, c); err != nil {
		return err
	}
	if err := os.Remove(KubeconfigFile(s.Config, s.Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to remove kubeconfig of shoot %q: %w", s.key(), err)
	}
	return nil
}

func (s *Shoot) remove(ctx context.Context, c client.Client) error {
	for confirmed := false; ; {
		shoot := &gardencorev1beta1.Shoot{}
		if err := c.Get(ctx, s.key(), shoot); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !confirmed {
			patch := client.MergeFrom(shoot.DeepCopy())
			metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
			if err := c.Patch(ctx, shoot, patch); err != nil {
				return fmt.Errorf("failed to confirm the deletion of shoot %q: %w", s.key(), err)
			}
			if err := c.Delete(ctx, shoot); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to delete shoot %q: %w", s.key(), err)
			}
			confirmed = true
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shoot %q is not gone in time (last operation: %+v): %w", s.key(),
				shoot.Status.LastOperation, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// wait follows the last operation. It reports each change of the progress and gives up after the gardenlet itself has
// stopped to try.
func (s *Shoot) wait(ctx context.Context, c client.Client) error {
	var reported string
	for {
		shoot := &gardencorev1beta1.Shoot{}
		if err := c.Get(ctx, s.key(), shoot); err != nil {
			return fmt.Errorf("failed to read shoot %q: %w", s.key(), err)
		}
		last := shoot.Status.LastOperation
		switch {
		case last == nil:
		case last.State == gardencorev1beta1.LastOperationStateSucceeded &&
			shoot.Status.ObservedGeneration == shoot.Generation:
			s.Report("shoot %s: %s %s", s.Name, last.Type, last.State)
			return nil
		case last.State == gardencorev1beta1.LastOperationStateFailed:
			return fmt.Errorf("shoot %q: %s has failed: %s", s.key(), last.Type, last.Description)
		default:
			if line := fmt.Sprintf("%s %s %d%%: %s", last.Type, last.State, last.Progress,
				last.Description); line != reported {
				reported = line
				s.Report("shoot %s: %s", s.Name, line)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shoot %q is not ready in time (last seen: %s): %w", s.key(), reported, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// KubeconfigFile is where the kubeconfig of a shoot's administrator is kept.
func KubeconfigFile(cfg *config.Config, name string) string {
	return cfg.Dir("shoots", name+".kubeconfig")
}

// WriteKubeconfig asks the garden for a kubeconfig of the shoot's administrator and writes it.
func (s *Shoot) WriteKubeconfig(ctx context.Context, c client.Client) error {
	expiration := int64(kubeconfigValidity.Seconds())
	request := &authenticationv1alpha1.AdminKubeconfigRequest{
		Spec: authenticationv1alpha1.AdminKubeconfigRequestSpec{ExpirationSeconds: &expiration},
	}
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: s.Name}}
	if err := c.SubResource("adminkubeconfig").Create(ctx, shoot, request); err != nil {
		return fmt.Errorf("failed to request kubeconfig of shoot %q: %w", s.key(), err)
	}
	file := KubeconfigFile(s.Config, s.Name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for kubeconfigs of shoots: %w", err)
	}
	if err := os.WriteFile(file, request.Status.Kubeconfig, 0o600); err != nil {
		return fmt.Errorf("failed to write kubeconfig of shoot %q: %w", s.key(), err)
	}
	return nil
}

const (
	// seedTimeout is how long seeds may take to become ready.
	seedTimeout = 4 * time.Minute
	// wholeSeedTimeout is that where the gardenlets deploy everything that a seed has: a wait of their flow that is too
	// short for a small machine costs a whole attempt.
	wholeSeedTimeout = 15 * time.Minute
)

// WaitForSeeds waits until every Seed of the landscape has registered itself, is set up and is ready for shoots.
func WaitForSeeds(
	ctx context.Context, cfg *config.Config, c client.Client, report func(format string, args ...any),
) error {
	timeout := seedTimeout
	if cfg.Gardenlet.SetsUpSeed() {
		timeout = wholeSeedTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, seed := range cfg.Seeds {
		var reported string
		for {
			err := seedReady(ctx, c, seed.Name)
			if err == nil {
				break
			}
			if err.Error() != reported {
				reported = err.Error()
				report("waiting for seed %s: %s", seed.Name, reported)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("seed %q is not ready in time: %w", seed.Name, err)
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

func seedReady(ctx context.Context, c client.Client, name string) error {
	seed := &gardencorev1beta1.Seed{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return fmt.Errorf("not registered by its gardenlet yet: %w", err)
	}
	if last := seed.Status.LastOperation; last == nil || last.State != gardencorev1beta1.LastOperationStateSucceeded ||
		seed.Status.ObservedGeneration != seed.Generation {
		return fmt.Errorf("not set up by its gardenlet yet: %s", describe(last))
	}
	conditions := map[gardencorev1beta1.ConditionType]gardencorev1beta1.Condition{}
	for _, condition := range seed.Status.Conditions {
		conditions[condition.Type] = condition
	}
	for _, kind := range []gardencorev1beta1.ConditionType{
		gardencorev1beta1.GardenletReady, gardencorev1beta1.SeedExtensionsReady,
		gardencorev1beta1.SeedBackupBucketsReady,
		gardencorev1beta1.SeedSystemComponentsHealthy,
	} {
		condition, ok := conditions[kind]
		if !ok {
			return fmt.Errorf("condition %s is not reported yet", kind)
		}
		if condition.Status != gardencorev1beta1.ConditionTrue {
			return fmt.Errorf("condition %s is %s: %s", kind, condition.Status, condition.Message)
		}
	}
	if seed.Status.ClusterIdentity == nil {
		return errors.New("no cluster identity is reported yet")
	}
	return nil
}

func describe(last *gardencorev1beta1.LastOperation) string {
	if last == nil {
		return "no operation"
	}
	return fmt.Sprintf("%s %s: %s", last.Type, last.State, last.Description)
}

func (s *Shoot) key() client.ObjectKey { return client.ObjectKey{Namespace: Namespace, Name: s.Name} }
