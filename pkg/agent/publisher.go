// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// publishPeriod is how often the Seed is read, in case somebody has changed what the agent has written there.
const publishPeriod = time.Minute

// Publisher is a runnable of the manager that keeps on the agent's own Seed what other agents have to know of this seed
// before a migration begins, and what nobody but this agent could tell them. Only the agent that leads does so.
type Publisher struct {
	Log logr.Logger
	// Reader and Writer are access to the garden. The reader must not be a cache.
	Reader client.Reader
	Writer client.Client
	// SeedName is the name of the agent's own seed.
	SeedName string
	// TLSTermination is the gardenlet's feature gate IstioTLSTermination.
	TLSTermination bool
	Clock          clock.WithTicker
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
	value := strconv.FormatBool(p.TLSTermination)
	if seed.Annotations[steps.SeedAnnotationTLSTermination] == value {
		return nil
	}
	patch := client.MergeFrom(seed.DeepCopy())
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, steps.SeedAnnotationTLSTermination, value)
	if err := p.Writer.Patch(ctx, seed, patch); err != nil {
		return fmt.Errorf("failed to annotate Seed %s with %s: %w", p.SeedName, steps.SeedAnnotationTLSTermination, err)
	}
	p.Log.Info("Published where clients' TLS ends", "seed", p.SeedName, "atGateway", p.TLSTermination)
	return nil
}
