// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// resyncPeriod is the longest time that a ConfigMap which somebody has changed stays so.
const resyncPeriod = time.Minute

// Reconciler writes the ConfigMap by which the admission policies decide, and the metrics of what is in flight.
type Reconciler struct {
	// Client reads Shoots and writes the ConfigMap.
	Client client.Client
	// APIReader reads the ConfigMap, of which the permissions name this one only.
	APIReader client.Reader
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Drains reads Seeds, to find out which are to be drained; nil if the controller manager drains none.
	Drains client.Reader
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Reconcile writes what is in flight in the whole garden, whatever the request is.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	shoots, seeds, err := r.read(ctx)
	if err != nil {
		metrics.ForgetInFlight()
		return reconcile.Result{}, err
	}
	metrics.InFlight(summary.InFlightOf(shoots.Items, seeds.Items, "", r.Clock.Now()))
	inFlight := map[string]string{}
	for seed, names := range InFlight(shoots.Items) {
		inFlight[seed] = Sentence(names)
	}
	if err := r.write(ctx, inFlight); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: resyncPeriod}, nil
}

// read reads what is asked for: of Shoots, and of Seeds if somebody drains them.
func (r *Reconciler) read(ctx context.Context) (*gardencorev1beta1.ShootList, *gardencorev1beta1.SeedList, error) {
	shoots, seeds := &gardencorev1beta1.ShootList{}, &gardencorev1beta1.SeedList{}
	if err := r.Client.List(ctx, shoots); err != nil {
		return nil, nil, fmt.Errorf("failed to list the Shoots that need the agents: %w", err)
	}
	if r.Drains == nil {
		return shoots, seeds, nil
	}
	if err := r.Drains.List(ctx, seeds); err != nil {
		return nil, nil, fmt.Errorf("failed to list the Seeds that are to be drained: %w", err)
	}
	return shoots, seeds, nil
}

func (r *Reconciler) write(ctx context.Context, inFlight map[string]string) error {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Namespace: r.Namespace}}
	key := client.ObjectKeyFromObject(configMap)
	err := r.APIReader.Get(ctx, key, configMap)
	switch {
	case apierrors.IsNotFound(err):
		configMap.Data = inFlight
		if err := r.Client.Create(ctx, configMap); err != nil {
			return fmt.Errorf("failed to create ConfigMap %s: %w", key, err)
		}
	case err != nil:
		return fmt.Errorf("failed to read ConfigMap %s: %w", key, err)
	case maps.Equal(configMap.Data, inFlight):
		return nil
	default:
		patch := client.MergeFrom(configMap.DeepCopy())
		configMap.Data = inFlight
		if err := r.Client.Patch(ctx, configMap, patch); err != nil {
			return fmt.Errorf("failed to patch ConfigMap %s: %w", key, err)
		}
	}
	logf.FromContext(ctx).Info("Recorded which agents are needed", "seeds", slices.Sorted(maps.Keys(inFlight)))
	return nil
}
