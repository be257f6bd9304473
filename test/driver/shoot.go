// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// untilInterval is how often a shoot is looked at that is waited for.
const untilInterval = 200 * time.Millisecond

// Target says which shoot is driven, and how patiently.
type Target struct {
	// Landscape is where the shoot lives. It must be up.
	Landscape *config.Config
	// Namespace and Name name the shoot.
	Namespace, Name string
	// Timeout bounds each of the waits.
	Timeout time.Duration
	// RequestTimeout bounds each request to the garden; 0 stands for no bound.
	RequestTimeout time.Duration
	// Out takes the progress.
	Out io.Writer
}

// Shoot is the shoot that is migrated.
type Shoot struct {
	Target
	// Key names it.
	Key client.ObjectKey
	// Garden is access to the garden.
	Garden *Cluster
}

// Open returns the shoot with access to the garden.
func Open(target Target) (*Shoot, error) {
	garden, err := ConnectWithin(target.Landscape, target.Landscape.Garden.Name, target.RequestTimeout)
	if err != nil {
		return nil, err
	}
	return &Shoot{Target: target, Key: client.ObjectKey{Namespace: target.Namespace, Name: target.Name},
		Garden: garden}, nil
}

// AtRest returns the seed that the shoot is on. It has to be at rest on one.
func AtRest(shoot *gardencorev1beta1.Shoot) (string, error) {
	seed := ptr.Deref(shoot.Status.SeedName, "")
	if seed == "" || seed != ptr.Deref(shoot.Spec.SeedName, "") {
		return "", fmt.Errorf("shoot %s is not at rest on one seed: finish or repair its migration first",
			client.ObjectKeyFromObject(shoot))
	}
	return seed, nil
}

// OtherSeed returns the seed of the landscape that a shoot on the given one can move to.
func OtherSeed(landscape *config.Config, seed string) (string, error) {
	for _, other := range landscape.Seeds {
		if other.Name != seed {
			return other.Name, nil
		}
	}
	return "", fmt.Errorf("the landscape has no other seed than %s", seed)
}

// Seeds returns where the shoot is and where it could go. It has to be at rest on one seed.
func (s *Shoot) Seeds(ctx context.Context) (source, destination string, err error) {
	shoot, err := s.Get(ctx)
	if err != nil {
		return "", "", err
	}
	if source, err = AtRest(shoot); err != nil {
		return "", "", err
	}
	destination, err = OtherSeed(s.Landscape, source)
	return source, destination, err
}

// Begin asks for a live migration to the seed. It pauses before the step if one is given.
func (s *Shoot) Begin(ctx context.Context, destination string, pauseBefore gardencorev1beta1.ConditionType) error {
	shoot, err := s.Get(ctx)
	if err != nil {
		return err
	}
	if err := s.Annotate(ctx, IntentOf(shoot), "true"); err != nil {
		return err
	}
	if pauseBefore != "" {
		if err := s.Annotate(ctx, steps.AnnotationPauseBefore, string(pauseBefore)); err != nil {
			return err
		}
	}
	return s.Bind(ctx, destination)
}

// IntentOf returns the annotation with which the shoot can move live.
func IntentOf(shoot *gardencorev1beta1.Shoot) string {
	if v1beta1helper.IsHAControlPlaneConfigured(shoot) {
		return steps.AnnotationIntent
	}
	return steps.AnnotationWithGap
}

// Bind sets the shoot's seed name.
func (s *Shoot) Bind(ctx context.Context, seed string) error {
	shoot, err := s.Get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = &seed
	if err := s.Garden.Client.SubResource("binding").Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to bind shoot %s to seed %s: %w", s.Key, seed, err)
	}
	return nil
}

// Annotate sets an annotation of the shoot, in one request; an empty value takes it away.
func (s *Shoot) Annotate(ctx context.Context, annotation, value string) error {
	encoded := "null"
	if value != "" {
		encoded = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, encoded)
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	if err := s.Garden.Client.Patch(ctx, shoot, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("failed to set the annotation %s of shoot %s to %s: %w", annotation, s.Key, encoded, err)
	}
	return nil
}

// Get returns the shoot as it is now.
func (s *Shoot) Get(ctx context.Context) (*gardencorev1beta1.Shoot, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := s.Garden.Client.Get(ctx, s.Key, shoot); err != nil {
		return nil, fmt.Errorf("failed to get shoot %s: %w", s.Key, err)
	}
	return shoot, nil
}

// Sight is what a look at a shoot came to.
type Sight struct {
	recording.Look
	// Shoot is the shoot as it was at a moment of the look. Err is why it could not be read; Shoot is nil then.
	Shoot *gardencorev1beta1.Shoot
	Err   error
}

// Follow looks at the shoot at once and then once per interval, until done reports true or the context ends. What
// Follow returns is why the context ended.
func (s *Shoot) Follow(ctx context.Context, interval time.Duration, done func(Sight) bool) error {
	if err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		sight := Sight{Look: recording.Look{Began: time.Now()}}
		sight.Shoot, sight.Err = s.Get(ctx)
		sight.Ended = time.Now()
		return done(sight), nil
	}); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Until waits for the shoot and says what its conditions are when that takes too long.
func (s *Shoot) Until(ctx context.Context, what string, done func(*gardencorev1beta1.Shoot) bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var last string
	if err := s.Follow(ctx, untilInterval, func(sight Sight) bool {
		if sight.Err != nil {
			last = sight.Err.Error()
			return false
		}
		if now := summary(sight.Shoot); now != last {
			last = now
			s.Say("%s", now)
		}
		return done(sight.Shoot)
	}); err != nil {
		return errors.Join(fmt.Errorf("failed to wait for %s; last seen: %s", what, last), err)
	}
	return nil
}

// UntilReconciled waits until the shoot's gardenlet has reconciled it and nothing of a migration or an abort is left.
func (s *Shoot) UntilReconciled(ctx context.Context, seed string) error {
	return s.Until(ctx, "the gardenlet of "+seed+" to reconcile the shoot", func(shoot *gardencorev1beta1.Shoot) bool {
		_, abort := shoot.Annotations[steps.AnnotationAbort]
		_, intent := shoot.Annotations[steps.AnnotationIntent]
		return !abort && !intent && HandedOver(shoot, seed)
	})
}

// HandedOver reports whether the gardenlet of the seed has the shoot and has reconciled it, as it does by itself after
// a live migration of a shoot without workers.
func HandedOver(shoot *gardencorev1beta1.Shoot, seed string) bool {
	return succeededOn(shoot, seed, gardencorev1beta1.LastOperationTypeReconcile)
}

// HandedOverByRestoration also takes a restoration for the end, as there is one after a classic migration, and after a
// live one of a shoot with workers.
func HandedOverByRestoration(shoot *gardencorev1beta1.Shoot, seed string) bool {
	return succeededOn(shoot, seed, gardencorev1beta1.LastOperationTypeReconcile,
		gardencorev1beta1.LastOperationTypeRestore)
}

// succeededOn reports whether the gardenlet of the seed has the shoot as it is now and the last operation was one of
// these and has succeeded.
func succeededOn(
	shoot *gardencorev1beta1.Shoot, seed string, operations ...gardencorev1beta1.LastOperationType,
) bool {
	operation := shoot.Status.LastOperation
	return ptr.Deref(shoot.Status.SeedName, "") == seed && shoot.Status.ObservedGeneration == shoot.Generation &&
		operation != nil && operation.State == gardencorev1beta1.LastOperationStateSucceeded &&
		slices.Contains(operations, operation.Type)
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

// Describe returns what the condition says; it is empty if the shoot does not have it.
func Describe(shoot *gardencorev1beta1.Shoot, conditionType gardencorev1beta1.ConditionType) string {
	condition := v1beta1helper.GetCondition(steps.Conditions(shoot), conditionType)
	if condition == nil {
		return ""
	}
	return fmt.Sprintf("%s is %s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message)
}
