// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/history"
)

// Reconciler writes the record of migrations.
type Reconciler struct {
	// Client reads Shoots and writes the ConfigMap.
	Client client.Client
	// APIReader reads the ConfigMap, of which the permissions name this one only.
	APIReader client.Reader
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Reconcile takes into the record what the Shoots of the whole garden show, whatever the request is. A record that
// cannot be read is left as it is: it may hold what nobody else knows.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	shoots := &gardencorev1beta1.ShootList{}
	if err := r.Client.List(ctx, shoots); err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to list the Shoots whose migrations are recorded: %w", err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: history.ConfigMapName}}
	key, missing := client.ObjectKeyFromObject(configMap), false
	switch err := r.APIReader.Get(ctx, key, configMap); {
	case apierrors.IsNotFound(err):
		missing = true
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("failed to read ConfigMap %s: %w", key, err)
	}
	past, err := history.Decode(configMap.Data[history.Key])
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to read ConfigMap %s (delete it to begin a new one): %w", key,
			err)
	}
	changed := 0
	for i := range shoots.Items {
		if past.Observe(&shoots.Items[i], r.Clock.Now()) {
			changed++
		}
	}
	if changed == 0 {
		return reconcile.Result{}, nil
	}
	content, err := past.Encode()
	if err != nil {
		return reconcile.Result{}, err
	}
	if missing {
		configMap.Data = map[string]string{history.Key: content}
		err = r.Client.Create(ctx, configMap)
	} else {
		// Nobody else writes it; whoever has, nevertheless, is not overwritten.
		patch := client.MergeFromWithOptions(configMap.DeepCopy(), client.MergeFromWithOptimisticLock{})
		if configMap.Data == nil {
			configMap.Data = map[string]string{}
		}
		configMap.Data[history.Key] = content
		err = r.Client.Patch(ctx, configMap, patch)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to write ConfigMap %s: %w", key, err)
	}
	logf.FromContext(ctx).Info("Recorded live migrations", "changed", changed, "records", len(past.Records))
	return reconcile.Result{}, nil
}
