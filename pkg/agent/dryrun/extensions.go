// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// ExtensionsOptions are what Extensions needs. All of them are required.
type ExtensionsOptions struct {
	// Garden reads the ControllerInstallations of the seed, and the ControllerRegistrations. It may be a cache.
	Garden client.Reader
	// SeedName is the name of the agent's own seed.
	SeedName string
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Extensions finds out which resources of extensions somebody in the seed reconciles. It goes by what the gardenlet
// goes by before it reconciles a shoot (upstream's RequiredExtensionsReady). The agent of another seed may not list the
// ControllerInstallations of this one.
type Extensions struct {
	options ExtensionsOptions
}

// NewExtensions returns an Extensions.
func NewExtensions(options ExtensionsOptions) (*Extensions, error) {
	if err := required.Fields("the look at the extensions of the seed", options); err != nil {
		return nil, err
	}
	return &Extensions{options: options}, nil
}

// Fact returns the value of the annotation seedfacts.AnnotationExtensions, given the current one. It looks each time:
// nothing but objects of the garden is read.
func (e *Extensions) Fact(ctx context.Context, current string) (string, error) {
	seen, err := e.look(ctx)
	if err != nil {
		return "", err
	}
	var known seedfacts.Extensions
	if json.Unmarshal([]byte(current), &known) == nil && !known.Due(e.options.Clock.Now()) {
		seen.Looked = known.Looked
		if reflect.DeepEqual(known, seen) {
			return current, nil
		}
	}
	seen.LookedAt = metav1.NewTime(e.options.Clock.Now().UTC().Truncate(time.Second))
	return seedfacts.Encode(seen)
}

func (e *Extensions) look(ctx context.Context) (seedfacts.Extensions, error) {
	var out seedfacts.Extensions
	installations := &gardencorev1beta1.ControllerInstallationList{}
	if err := e.options.Garden.List(ctx, installations,
		client.MatchingFields{core.SeedRefName: e.options.SeedName}); err != nil {
		return out, fmt.Errorf("failed to list the ControllerInstallations of seed %s: %w", e.options.SeedName, err)
	}
	ready, notReady := map[string]bool{}, map[string]string{}
	for i := range installations.Items {
		installation := &installations.Items[i]
		registration := &gardencorev1beta1.ControllerRegistration{}
		key := client.ObjectKey{Name: installation.Spec.RegistrationRef.Name}
		if err := e.options.Garden.Get(ctx, key, registration); err != nil {
			return out, fmt.Errorf("failed to read ControllerRegistration %s: %w", key.Name, err)
		}
		problem := problemOf(installation)
		for _, resource := range registration.Spec.Resources {
			id := gardenerutils.ExtensionsID(resource.Kind, resource.Type)
			switch {
			case problem == "":
				ready[id] = true
			case notReady[id] == "" || problem < notReady[id]:
				// Of several, always the same one: the order of the list is nobody's.
				notReady[id] = problem
			}
		}
	}
	maps.DeleteFunc(notReady, func(id, _ string) bool { return ready[id] })
	if out.Ready = slices.Sorted(maps.Keys(ready)); len(notReady) > 0 {
		out.NotReady = notReady
	}
	return out, nil
}

// problemOf returns why the installation does not count; empty if it does. The texts of conditions change too often for
// an annotation, and may be long.
func problemOf(installation *gardencorev1beta1.ControllerInstallation) string {
	if installation.DeletionTimestamp != nil {
		return fmt.Sprintf("ControllerInstallation %s is being deleted", installation.Name)
	}
	if v1beta1helper.IsControllerInstallationSuccessful(*installation) {
		return ""
	}
	// The conditions by which upstream judges, and what they have to be.
	wanted := map[gardencorev1beta1.ConditionType]gardencorev1beta1.ConditionStatus{
		gardencorev1beta1.ControllerInstallationInstalled:   gardencorev1beta1.ConditionTrue,
		gardencorev1beta1.ControllerInstallationHealthy:     gardencorev1beta1.ConditionTrue,
		gardencorev1beta1.ControllerInstallationProgressing: gardencorev1beta1.ConditionFalse,
	}
	var wrong []string
	for _, conditionType := range slices.Sorted(maps.Keys(wanted)) {
		condition := v1beta1helper.GetCondition(installation.Status.Conditions, conditionType)
		switch {
		case condition == nil:
			wrong = append(wrong, fmt.Sprintf("%s is missing", conditionType))
		case condition.Status != wanted[conditionType]:
			wrong = append(wrong, fmt.Sprintf("%s is %s, %s", conditionType, condition.Status, condition.Reason))
		}
	}
	return fmt.Sprintf("ControllerInstallation %s: %s", installation.Name, strings.Join(wrong, "; "))
}
