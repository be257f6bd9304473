// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// PolicyName is the name of the admission policy that refuses the removal, and of its binding.
	PolicyName = "livecpm-removal"
	// ReplacementPolicyName is the name of the admission policy that keeps a gardenlet with the agent in its process
	// from being replaced by one without, and of its binding. It decides by the same ConfigMap.
	ReplacementPolicyName = "livecpm-replacement"
	// ConfigMapName is the name of the ConfigMap by which it decides. Its keys are the seeds in whose migrations the
	// agents are needed, its values name the Shoots. It is in the garden namespace.
	ConfigMapName = "livecpm-in-flight"

	// named is how many Shoots a message names.
	named = 5
)

// InFlight returns the Shoots that need the agents, as "namespace/name" in order, by each of their two seeds.
func InFlight(shoots []gardencorev1beta1.Shoot) map[string][]string {
	out := map[string][]string{}
	for i := range shoots {
		shoot := &shoots[i]
		if !steps.NeedsAgents(shoot) {
			continue
		}
		source, destination, _ := steps.Seeds(shoot)
		for _, seed := range []string{source, destination} {
			out[seed] = append(out[seed], shoot.Namespace+"/"+shoot.Name)
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

// Sentence names some of the Shoots and counts the others.
func Sentence(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}

// Check returns an error that names the Shoots for which livecpm is needed. With a seed's name it only looks at what
// the identity of that seed may see.
func Check(ctx context.Context, reader client.Reader, seedName string) error {
	var options []client.ListOption
	if seedName != "" {
		options = append(options, client.MatchingLabels{v1beta1constants.LabelPrefixSeedName + seedName: "true"})
	}
	list := &gardencorev1beta1.ShootList{}
	if err := reader.List(ctx, list, options...); err != nil {
		return fmt.Errorf("failed to find out whether live migrations are in flight: %w", err)
	}
	inFlight := InFlight(list.Items)
	var names []string
	if seedName != "" {
		names = inFlight[seedName]
	} else {
		names = slices.Compact(slices.Sorted(func(yield func(string) bool) {
			for shoots := range maps.Values(inFlight) {
				for _, shoot := range shoots {
					if !yield(shoot) {
						return
					}
				}
			}
		}))
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("live migrations are in flight%s (%s): let them complete, or abort them and remove the "+
		"annotation %s; then remove livecpm",
		where(seedName), Sentence(names), steps.AnnotationIntent)
}
