// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/migration"
)

// A kube-apiserver without a quorum of etcd fails its liveness probe, is ended, and ends by itself when it starts
// again. When the quorum comes back after some minutes, as after a broken connection between the seeds, the kubelet
// lets it wait for up to five more. A new pod does not wait.
const (
	// reasonBackOff is the kubelet's word for a container that it does not start yet.
	reasonBackOff = "CrashLoopBackOff"
	// worthReplacing is the number of restarts after which the kubelet waits longer than a new pod takes: it begins
	// with ten seconds and doubles them each time.
	worthReplacing = 3
	// backOffInterval is how often the pods are looked at.
	backOffInterval = 10 * time.Second
)

// replaceBackedOff deletes the pods of the kube-apiserver that wait for their restart. Call it only while etcd answers:
// otherwise the new pods would end like these.
func (d *destination) replaceBackedOff(ctx context.Context, m *migration.Migration) error {
	pods, err := controlplane.KubeAPIServerPods(ctx, d.SeedClientSet.Client(),
		v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot))
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || !backedOff(pod) {
			continue
		}
		m.Log.Info("Replacing a kube-apiserver that waits for its restart", "pod", pod.Name)
		err := d.SeedClientSet.Client().Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("failed to delete pod %s: %w", client.ObjectKeyFromObject(pod), err))
		}
	}
	return errors.Join(errs...)
}

func backedOff(pod *corev1.Pod) bool {
	status := kubeAPIServerStatus(pod)
	return status.RestartCount >= worthReplacing && status.State.Waiting != nil &&
		status.State.Waiting.Reason == reasonBackOff
}

// untilServing waits until the kube-apiserver is available and serves through the gateway. It was so at the end of step
// 4, but much may have happened since, and clients follow DNS.
func (d *destination) untilServing(
	ctx context.Context, m *migration.Migration, serves func(context.Context) error,
) error {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	return retry.UntilTimeout(ctx, d.Timings.PollInterval,
		d.Timings.RolloutTimeout, func(ctx context.Context) (bool, error) {
			deployment, err := d.kubeAPIServerDeployment(ctx, namespace)
			if err == nil {
				err = health.CheckDeployment(deployment)
			}
			if err != nil {
				return retry.MinorError(
					errors.Join(fmt.Errorf("the kube-apiserver of the destination is not ready for clients: %w", err),
						d.replaceBackedOff(ctx, m)))
			}
			if err := serves(ctx); err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
}
