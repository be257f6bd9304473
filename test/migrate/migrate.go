// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate drives live migrations of the landscape's shoot the way an operator does, for the tests that steer
// them: annotate, bind, wait.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// Shoot is the shoot that is migrated.
type Shoot struct {
	// Landscape is where it lives.
	Landscape *config.Config
	// Key names it.
	Key client.ObjectKey
	// Garden is access to the garden.
	Garden client.Client
	// Timeout bounds each of the waits.
	Timeout time.Duration
	// Out takes the progress.
	Out io.Writer
}

// Connect returns the shoot with access to the garden.
func Connect(landscape *config.Config, namespace, name string, timeout time.Duration, out io.Writer) (*Shoot, error) {
	restConfig, err := RESTConfig(landscape.Kubeconfig(landscape.Garden.Name))
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{gardencorev1beta1.AddToScheme,
		authenticationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("failed to set up the scheme: %w", err)
		}
	}
	garden, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for the garden: %w", err)
	}
	return &Shoot{Landscape: landscape, Key: client.ObjectKey{Namespace: namespace, Name: name}, Garden: garden,
		Timeout: timeout, Out: out}, nil
}

// RESTConfig reads a kubeconfig for a client that need not spare its server.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	config, err := apply.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Seeds returns where the shoot is and where it could go. It has to be at rest on one seed.
func (s *Shoot) Seeds(ctx context.Context) (source, destination string, err error) {
	shoot, err := s.Get(ctx)
	if err != nil {
		return "", "", err
	}
	source = ptr.Deref(shoot.Status.SeedName, "")
	if source == "" || source != ptr.Deref(shoot.Spec.SeedName, "") {
		return "", "", fmt.Errorf("shoot %s is not at rest on one seed", s.Key)
	}
	for _, seed := range s.Landscape.Seeds {
		if seed.Name != source {
			return source, seed.Name, nil
		}
	}
	return "", "", fmt.Errorf("the landscape has no other seed than %s", source)
}

// Begin asks for a live migration to the seed. It pauses before the step if one is given.
func (s *Shoot) Begin(ctx context.Context, destination string, pauseBefore gardencorev1beta1.ConditionType) error {
	if err := s.Annotate(ctx, steps.AnnotationIntent, "true"); err != nil {
		return err
	}
	if pauseBefore != "" {
		if err := s.Annotate(ctx, steps.AnnotationPauseBefore, string(pauseBefore)); err != nil {
			return err
		}
	}
	return s.Bind(ctx, destination)
}

// Bind sets the shoot's seed name.
func (s *Shoot) Bind(ctx context.Context, seed string) error {
	shoot, err := s.Get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = &seed
	if err := s.Garden.SubResource("binding").Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to bind shoot %s to seed %s: %w", s.Key, seed, err)
	}
	return nil
}

// Annotate sets an annotation of the shoot; an empty value takes it away.
func (s *Shoot) Annotate(ctx context.Context, annotation, value string) error {
	return Annotate(ctx, s.Garden, s.Key, annotation, value)
}

// Annotate sets an annotation of a shoot, in one request; an empty value takes it away.
func Annotate(ctx context.Context, garden client.Client, key client.ObjectKey, annotation, value string) error {
	encoded := "null"
	if value != "" {
		encoded = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, encoded)
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := garden.Patch(ctx, shoot, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("failed to set the annotation %s of shoot %s to %s: %w", annotation, key, encoded, err)
	}
	return nil
}

// Get returns the shoot as it is now.
func (s *Shoot) Get(ctx context.Context) (*gardencorev1beta1.Shoot, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := s.Garden.Get(ctx, s.Key, shoot); err != nil {
		return nil, fmt.Errorf("failed to get shoot %s: %w", s.Key, err)
	}
	return shoot, nil
}

// Until waits for the shoot and says what its conditions are when that takes too long.
func (s *Shoot) Until(ctx context.Context, what string, done func(*gardencorev1beta1.Shoot) bool) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, s.Timeout,
		true, func(ctx context.Context) (bool, error) {
			shoot, err := s.Get(ctx)
			if err != nil {
				last = err.Error()
				return false, nil //nolint:nilerr // It is looked at again.
			}
			if now := summary(shoot); now != last {
				last = now
				s.Say("%s", now)
			}
			return done(shoot), nil
		})
	if err != nil {
		return errors.Join(fmt.Errorf("failed to wait for %s; last seen: %s", what, last), err)
	}
	return nil
}

// UntilReconciled waits until the shoot's gardenlet has reconciled it and nothing of a migration or an abort is left.
func (s *Shoot) UntilReconciled(ctx context.Context, seed string) error {
	return s.Until(ctx, "the gardenlet of "+seed+" to reconcile the shoot", func(shoot *gardencorev1beta1.Shoot) bool {
		operation := shoot.Status.LastOperation
		_, abort := shoot.Annotations[steps.AnnotationAbort]
		_, intent := shoot.Annotations[steps.AnnotationIntent]
		return !abort && !intent && ptr.Deref(shoot.Status.SeedName, "") == seed &&
			shoot.Status.ObservedGeneration == shoot.Generation && operation != nil &&
			operation.Type == gardencorev1beta1.LastOperationTypeReconcile &&
			operation.State == gardencorev1beta1.LastOperationStateSucceeded
	})
}

// Say prints a line of progress.
func (s *Shoot) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, time.Now().UTC().Format(time.TimeOnly)+"  "+format+"\n", args...)
}

// summary describes the condition that somebody works on.
func summary(shoot *gardencorev1beta1.Shoot) string {
	var parts []string
	for _, condition := range steps.Conditions(shoot) {
		if condition.Status != gardencorev1beta1.ConditionTrue && condition.Reason != string(steps.ReasonPending) {
			parts = append(parts, Describe(shoot, condition.Type))
		}
	}
	if operation := shoot.Status.LastOperation; len(parts) == 0 && operation != nil {
		parts = append(parts, fmt.Sprintf("%s %s", operation.Type, operation.State))
	}
	return strings.Join(parts, "; ")
}

// Describe returns what the condition says.
func Describe(shoot *gardencorev1beta1.Shoot, conditionType gardencorev1beta1.ConditionType) string {
	for _, condition := range steps.Conditions(shoot) {
		if condition.Type == conditionType {
			return fmt.Sprintf("%s is %s (%s): %s", condition.Type, condition.Status, condition.Reason,
				condition.Message)
		}
	}
	return ""
}
