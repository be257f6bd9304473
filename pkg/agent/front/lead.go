// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"fmt"
	"maps"
	"slices"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// annotationState is where the Deployment says what the front is for. A new one is for nobody yet.
	annotationState = "livecpm.gardener.cloud/front"
	// stateLeading means that clients are to be led to the front, whoever leads them elsewhere.
	stateLeading = "leading"
	// stateWithdrawn means that they are to be led to the members. A front does not come back from there.
	stateWithdrawn = "withdrawn"
)

// lead leads clients to the front from here on.
func (c *component) lead(ctx context.Context) error {
	state, deployment, err := c.state(ctx)
	if err != nil {
		return err
	}
	if deployment == nil || state == stateWithdrawn {
		return fmt.Errorf("failed to lead clients to the front: Deployment %s is not there or being withdrawn",
			client.ObjectKeyFromObject(c.objects().deployment))
	}
	if ready, err := c.anyReady(ctx); err != nil {
		return err
	} else if !ready {
		return fmt.Errorf("no pod of Deployment %s is ready: clients cannot be led there",
			client.ObjectKeyFromObject(deployment))
	}
	if err := c.setState(ctx, deployment, stateLeading); err != nil {
		return err
	}
	return c.until(ctx, "clients of etcd are led to the front", func(ctx context.Context) error {
		if err := c.sync(ctx); err != nil {
			return err
		}
		return c.checkLeadsTo(ctx, c.podLabels())
	})
}

// sync repeats what lead has done if the selector has been changed since.
//
// It reads the service first, and changes only what it has read: if leadBack begins in between, either the state that
// is read next says so, or the change meets a conflict; and leadBack looks again after SettleTime.
func (c *component) sync(ctx context.Context) error {
	// The service comes first: while work is done it is looked at twice per second, and nearly always leads here.
	service, err := c.service(ctx)
	if err != nil || service == nil || maps.Equal(service.Spec.Selector, c.podLabels()) {
		return err
	}
	if state, _, err := c.state(ctx); err != nil || state != stateLeading {
		return err
	}
	if ready, err := c.anyReady(ctx); err != nil || !ready {
		// Without a ready pod, clients stay where they are served. An error would stop the migration, and the front may
		// be waiting for members that the migration has to bring up. Whoever wants to steer the front finds that it is
		// not ready.
		return err
	}
	etcd, err := c.getEtcd(ctx)
	if err != nil {
		return err
	}
	c.log.Info("Leading the clients of etcd to the front", "service", service.Name)
	return c.selectPods(ctx, etcd, service, c.podLabels())
}

// leadBack leads clients to the members and returns whether there was a front before.
func (c *component) leadBack(ctx context.Context) (bool, error) {
	_, deployment, err := c.state(ctx)
	if err != nil {
		return false, err
	}
	if deployment != nil {
		if err := c.setState(ctx, deployment, stateWithdrawn); err != nil {
			return true, err
		}
	}
	service, err := c.service(ctx)
	if err != nil {
		return true, err
	}
	if service == nil || deployment == nil && !maps.Equal(service.Spec.Selector, c.podLabels()) {
		return false, nil
	}
	if err := c.until(ctx, "clients of etcd are led to its members", func(ctx context.Context) error {
		etcd, err := c.getEtcd(ctx)
		if err != nil {
			return err
		}
		service, err := c.service(ctx)
		if err != nil {
			return err
		}
		if service != nil && !maps.Equal(service.Spec.Selector, memberLabels(etcd)) {
			c.log.Info("Leading the clients of etcd back to its members", "service", service.Name)
			if err := c.selectPods(ctx, etcd, service, memberLabels(etcd)); err != nil {
				return err
			}
		}
		return c.checkLeadsTo(ctx, memberLabels(etcd))
	}); err != nil {
		return true, err
	}
	// A former attempt that was ended in between may have left it.
	return true, c.protect(ctx)
}

// checkLedBack fails if the service leads to the front.
func (c *component) checkLedBack(ctx context.Context) error {
	service, err := c.service(ctx)
	if err != nil {
		return err
	}
	if service != nil && maps.Equal(service.Spec.Selector, c.podLabels()) {
		return fmt.Errorf("service %s still leads to the front", client.ObjectKeyFromObject(service))
	}
	return nil
}

// anyReady reports whether the front has a ready pod. Clients must not be led to nobody.
func (c *component) anyReady(ctx context.Context) (bool, error) {
	pods, err := c.podsOf(ctx, c.podLabels())
	return slices.ContainsFunc(pods, isReady), err
}

// checkLeadsTo fails unless the EndpointSlices of the service for clients name just the ready pods with the labels.
func (c *component) checkLeadsTo(ctx context.Context, labels map[string]string) error {
	pods, err := c.podsOf(ctx, labels)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, pod := range pods {
		if isReady(pod) {
			missing[pod.Name] = true
		}
	}
	if len(missing) == 0 {
		return fmt.Errorf("no pod with labels %v is ready", labels)
	}
	wanted := maps.Clone(missing)

	published, name := &discoveryv1.EndpointSliceList{}, naming.ClientServiceName(c.etcdRole)
	if err := c.SeedClient.List(ctx, published, client.InNamespace(c.namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		return fmt.Errorf("failed to list the EndpointSlices of service %s: %w", name, err)
	}
	for _, slice := range published.Items {
		for _, endpoint := range slice.Endpoints {
			pod := ptr.Deref(endpoint.TargetRef, corev1.ObjectReference{}).Name
			if !wanted[pod] || !ptr.Deref(endpoint.Conditions.Ready, true) {
				return fmt.Errorf("EndpointSlice %s has pod %q, which is not ready or not meant", slice.Name, pod)
			}
			delete(missing, pod)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no EndpointSlice of service %s has the ready pods %v", name,
			slices.Sorted(maps.Keys(missing)))
	}
	return nil
}

// service returns the service for clients, or nil if there is none.
func (c *component) service(ctx context.Context) (*corev1.Service, error) {
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: c.namespace, Name: naming.ClientServiceName(c.etcdRole)}
	if err := c.SeedClient.Get(ctx, key, service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to get service %s: %w", key, err)
	}
	return service, nil
}

func (c *component) setState(ctx context.Context, deployment *appsv1.Deployment, state string) error {
	if deployment.Annotations[annotationState] == state {
		return nil
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, annotationState, state)
	if err := c.SeedClient.Patch(ctx, deployment, patch); err != nil {
		return fmt.Errorf("failed to note in Deployment %s that the front is %s: %w",
			client.ObjectKeyFromObject(deployment), state, err)
	}
	return nil
}

// selectPods lets the service select the pods with the labels, and no others. etcd-druid's webhook lets nobody but
// etcd-druid change the service, unless an annotation of the Etcd says otherwise. It is there for the moment of the
// change, or longer if it is there for another reason already. It also stays when the webhook does not know of it yet:
// the next attempt finds it in force. What it leaves then, leadBack ends.
func (c *component) selectPods(
	ctx context.Context, etcd *druidcorev1alpha1.Etcd, service *corev1.Service, labels map[string]string,
) error {
	protected := druidcorev1alpha1.AreManagedResourcesProtected(etcd.ObjectMeta)
	if protected {
		patch := client.MergeFrom(etcd.DeepCopy())
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation,
			"true")
		if err := c.SeedClient.Patch(ctx, etcd, patch); err != nil {
			return fmt.Errorf("failed to lift the protection of the service of Etcd %s: %w",
				client.ObjectKeyFromObject(etcd), err)
		}
	}
	patch := client.MergeFromWithOptions(service.DeepCopy(), client.MergeFromWithOptimisticLock{})
	service.Spec.Selector = labels
	if err := c.SeedClient.Patch(ctx, service, patch); err != nil {
		return fmt.Errorf("failed to change the selector of service %s: %w", client.ObjectKeyFromObject(service), err)
	}
	if protected {
		return c.protect(ctx)
	}
	return nil
}

// protect ends what selectPods begins. While etcd-druid is suspended, the annotation belongs to whoever has done that.
func (c *component) protect(ctx context.Context) error {
	etcd, err := c.getEtcd(ctx)
	if err != nil {
		return err
	}
	if druidcorev1alpha1.AreManagedResourcesProtected(etcd.ObjectMeta) ||
		druidcorev1alpha1.GetSuspendEtcdSpecReconcileAnnotationKey(etcd.ObjectMeta) != nil {
		return nil
	}
	patch := client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})
	delete(etcd.Annotations, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
	if err := c.SeedClient.Patch(ctx, etcd, patch); err != nil {
		return fmt.Errorf("failed to protect the service of Etcd %s again: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return nil
}
