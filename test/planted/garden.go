// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/preflight"
)

const (
	// bucketProblem is what the fault says of the bucket.
	bucketProblem = "the bucket was deleted by somebody (planted)"
	// noticeTimeout bounds how long it may take until what is wrong stands on the Seed: the agent looks each minute,
	// and asks the cluster DNS for 90 s; gardener-controller-manager may have a threshold of minutes.
	noticeTimeout = 8 * time.Minute
	noticePause   = 2 * time.Second
)

// clusterDNS is a cluster DNS that knows no slices but those that Kubernetes has made, as kube-dns is.
func clusterDNS() Fault {
	policy := UnknownSlices()
	return Fault{Name: "a cluster DNS that ignores EndpointSlices", Check: preflight.ClusterDNS, Status: view.Fail,
		Says: "answer for EndpointSlices of others",
		Plant: func(ctx context.Context, w *World) error {
			if err := policy.Plant(ctx, w.Seed.Client); err != nil {
				return err
			}
			return awaitClusterDNS(ctx, w, func(fact seedfacts.ClusterDNS) bool { return fact.Problem != "" })
		},
		Remove: func(ctx context.Context, w *World) error {
			if err := policy.Remove(ctx, w.Seed.Client); err != nil {
				return err
			}
			return awaitClusterDNS(ctx, w, func(fact seedfacts.ClusterDNS) bool { return fact.Problem == "" })
		},
	}
}

// awaitClusterDNS lets the agent of the seed look again, unless it has already found what is wanted, and waits until it
// has.
func awaitClusterDNS(ctx context.Context, w *World, wanted func(seedfacts.ClusterDNS) bool) error {
	seed, err := w.seed(ctx)
	if err != nil {
		return err
	}
	found := func(seed *gardencorev1beta1.Seed) bool {
		var fact seedfacts.ClusterDNS
		return seedfacts.Of(seed, seedfacts.AnnotationClusterDNS, &fact) == nil && wanted(fact)
	}
	if found(seed) {
		return nil
	}
	before := client.MergeFrom(seed.DeepCopy())
	delete(seed.Annotations, seedfacts.AnnotationClusterDNS)
	if err := w.Garden.Client.Patch(ctx, seed, before); err != nil {
		return fmt.Errorf("failed to let the agent of Seed %s look again at the cluster DNS: %w", seed.Name, err)
	}
	return w.awaitSeed(ctx, "what the agent has found of the cluster DNS", found)
}

// breakBucket lets the backup bucket of the seed have an error, and waits until the Seed says so.
func breakBucket(ctx context.Context, w *World) error {
	if err := w.setBucketError(ctx, &gardencorev1beta1.LastError{Description: bucketProblem}); err != nil {
		return err
	}
	return w.awaitBuckets(ctx, gardencorev1beta1.ConditionFalse)
}

func repairBucket(ctx context.Context, w *World) error {
	if err := w.setBucketError(ctx, nil); err != nil {
		return err
	}
	return w.awaitBuckets(ctx, gardencorev1beta1.ConditionTrue)
}

// setBucketError sets the error of the buckets of the seed. One that the fault has not made stays.
func (w *World) setBucketError(ctx context.Context, lastError *gardencorev1beta1.LastError) error {
	buckets := &gardencorev1beta1.BackupBucketList{}
	if err := w.Garden.Client.List(ctx, buckets); err != nil {
		return fmt.Errorf("failed to list the BackupBuckets: %w", err)
	}
	for i := range buckets.Items {
		bucket := &buckets.Items[i]
		ours := bucket.Status.LastError == nil || bucket.Status.LastError.Description == bucketProblem
		if ptr.Deref(bucket.Spec.SeedName, "") != w.Seed.Name || !ours {
			continue
		}
		before := client.MergeFrom(bucket.DeepCopy())
		bucket.Status.LastError = lastError
		if err := w.Garden.Client.Status().Patch(ctx, bucket, before); err != nil {
			return fmt.Errorf("failed to patch the status of BackupBucket %s: %w", bucket.Name, err)
		}
	}
	return nil
}

func (w *World) awaitBuckets(ctx context.Context, status gardencorev1beta1.ConditionStatus) error {
	return w.awaitSeed(ctx, fmt.Sprintf("condition %s=%s", gardencorev1beta1.SeedBackupBucketsReady, status),
		func(seed *gardencorev1beta1.Seed) bool {
			condition := v1beta1helper.GetCondition(seed.Status.Conditions, gardencorev1beta1.SeedBackupBucketsReady)
			return condition != nil && condition.Status == status
		})
}

func (w *World) seed(ctx context.Context) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := w.Garden.Client.Get(ctx, client.ObjectKey{Name: w.Seed.Name}, seed); err != nil {
		return nil, fmt.Errorf("failed to read Seed %s: %w", w.Seed.Name, err)
	}
	return seed, nil
}

// awaitSeed waits until the Seed is as wanted.
func (w *World) awaitSeed(ctx context.Context, what string, wanted func(*gardencorev1beta1.Seed) bool) error {
	var last error
	if err := wait.PollUntilContextTimeout(ctx, noticePause, noticeTimeout, true,
		func(ctx context.Context) (bool, error) {
			var seed *gardencorev1beta1.Seed
			seed, last = w.seed(ctx)
			return last == nil && wanted(seed), nil
		}); err != nil {
		return fmt.Errorf("failed to wait for Seed %s to have %s: %w", w.Seed.Name, what, errors.Join(err, last))
	}
	return nil
}
