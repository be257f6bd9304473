// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// publishPeriod is how often the Seed is read, in case somebody has changed what the agent has written there.
const publishPeriod = time.Minute

// Fact is something that other agents have to know of this seed before a migration begins.
type Fact struct {
	// Annotation is where it is written on the Seed.
	Annotation string
	// Value returns what is to be written, given what is written; see the comment of the annotation. It may take
	// minutes.
	Value func(ctx context.Context, current string) (string, error)
}

// TLSTermination is the fact that the gardenlet's feature gate IstioTLSTermination is on or off, which does not change
// as long as the agent runs.
func TLSTermination(gate bool) Fact {
	return fixed(seedfacts.AnnotationTLSTermination, strconv.FormatBool(gate))
}

// ExposureClassHandlers is the fact that the gardenlet has the handlers with these names in its configuration, which do
// not change as long as the agent runs.
func ExposureClassHandlers(names []string) Fact {
	return Fact{Annotation: seedfacts.AnnotationExposureClassHandlers,
		Value: func(context.Context, string) (string, error) { return seedfacts.FormatHandlers(names) }}
}

// AccessControl is the fact that the agent takes extensions of these types for access control, which does not change as
// long as it runs.
func AccessControl(types []string) Fact {
	return fixed(seedfacts.AnnotationAccessControl, strings.Join(slices.Sorted(slices.Values(types)), ","))
}

// Workers is the fact that the agent migrates shoots with workers or does not, which does not change as long as it
// runs.
func Workers(permitted bool) Fact {
	return fixed(seedfacts.AnnotationWorkers, strconv.FormatBool(permitted))
}

// Protocols is the fact that the agent speaks these with that of another seed, which does not change as long as it
// runs.
func Protocols(own steps.Protocols) Fact {
	return fixed(steps.SeedAnnotationProtocols, own.String())
}

// Build is the fact of which release the agent is, with which Gardener it is built, and which image its relays get.
// None of it changes as long as it runs.
func Build(own seedfacts.Agent) Fact {
	return Fact{Annotation: seedfacts.AnnotationAgent,
		Value: func(context.Context, string) (string, error) { return seedfacts.Encode(own) }}
}

func fixed(annotation, value string) Fact {
	return Fact{Annotation: annotation, Value: func(context.Context, string) (string, error) { return value, nil }}
}

// Publisher is a runnable of the manager that keeps on the agent's own Seed what other agents have to know of this seed
// before a migration begins, and what nobody but this agent could tell them. Only the agent that leads does so. A fact
// that takes time to find out has a publisher of its own, so that no other waits for it.
type Publisher struct {
	Log logr.Logger
	// Reader and Writer are access to the garden. The reader must not be a cache.
	Reader client.Reader
	Writer client.Client
	// SeedName is the name of the agent's own seed.
	SeedName string
	// Facts are what is published, by one read and at most one write.
	Facts []Fact
	Clock clock.WithTicker
}

// Start implements manager.Runnable. What fails is tried again in the next period: a source that does not find what it
// needs holds the migration and says so.
func (p *Publisher) Start(ctx context.Context) error {
	ticker := p.Clock.NewTicker(publishPeriod)
	defer ticker.Stop()
	for {
		if err := p.Publish(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "Failed to publish what other seeds have to know, retrying", "seed", p.SeedName)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Publish writes the Seed if it does not say yet what it should.
func (p *Publisher) Publish(ctx context.Context) error {
	seed := &gardencorev1beta1.Seed{}
	if err := p.Reader.Get(ctx, client.ObjectKey{Name: p.SeedName}, seed); err != nil {
		return fmt.Errorf("failed to read Seed %s: %w", p.SeedName, err)
	}
	before := seed.DeepCopy()
	for _, fact := range p.Facts {
		value, err := fact.Value(ctx, seed.Annotations[fact.Annotation])
		if err != nil {
			return fmt.Errorf("failed to find out what annotation %s of Seed %s has to say: %w", fact.Annotation,
				p.SeedName, err)
		}
		// An empty value says something too; an annotation that is missing says nothing.
		metav1.SetMetaDataAnnotation(&seed.ObjectMeta, fact.Annotation, value)
	}
	if maps.Equal(before.Annotations, seed.Annotations) {
		return nil
	}
	// A merge patch of these annotations: whatever else of the Seed has changed meanwhile stays.
	if err := p.Writer.Patch(ctx, seed, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to annotate Seed %s with what other seeds have to know: %w", p.SeedName, err)
	}
	for _, fact := range p.Facts {
		if value := seed.Annotations[fact.Annotation]; value != before.Annotations[fact.Annotation] {
			p.Log.Info("Published what other seeds have to know", "seed", p.SeedName, "annotation", fact.Annotation,
				"value", value)
		}
	}
	return nil
}
