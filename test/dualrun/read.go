// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package dualrun looks at both seeds of a live migration again and again and has pkg/migration/ownership judge what it
// sees: no set of controllers may be at work in two seeds at the same time unless the table there says so, nor in a
// seed whose turn it is not.
package dualrun

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/nodemanagement/dependencywatchdog"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ownPrefix is how the names of objects begin that are there for the migration itself and exist in both seeds.
const ownPrefix = "livecpm-"

// Reader takes samples of one migration.
type Reader struct {
	// Garden reads the garden.
	Garden client.Reader
	// Source and Destination read the seeds. None of the readers may be a cache.
	Source, Destination client.Reader
	// DestinationSeed is the name of the seed that the shoot moves to: when the Shoot names it in its status, it was
	// handed over.
	DestinationSeed string
	// Shoot is the shoot.
	Shoot client.ObjectKey
	// Now tells the time; time.Now if nil.
	Now func() time.Time

	mu    sync.Mutex
	early sets.Set[string] // read once
}

// Sample takes one look: at the Shoot, at the destination, at the source, and at the Shoot again. The destination comes
// first; see ownership.Sample.
func (r *Reader) Sample(ctx context.Context) (ownership.Sample, error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	sample := ownership.Sample{Time: now(), Running: map[steps.Components]map[steps.Role][]string{}}

	if err := r.readEarly(ctx); err != nil {
		return sample, err
	}
	shoot, from, err := r.phase(ctx)
	if err != nil {
		return sample, err
	}
	sample.From, sample.AskedFrom, sample.OneMember = from, ownership.Asked(shoot), steps.WithGap(shoot)
	for _, seed := range []struct {
		role   steps.Role
		reader client.Reader
	}{{steps.Destination, r.Destination}, {steps.Source, r.Source}} {
		running, err := r.running(ctx, seed.reader, shoot)
		if err != nil {
			return sample, fmt.Errorf("failed to look at the %s: %w", seed.role, err)
		}
		for name, objects := range running {
			if sample.Running[name] == nil {
				sample.Running[name] = map[steps.Role][]string{}
			}
			sample.Running[name][seed.role] = objects
		}
	}
	if shoot, sample.To, err = r.phase(ctx); err != nil {
		return sample, err
	}
	sample.AskedTo = ownership.Asked(shoot)
	return sample, nil
}

func (r *Reader) phase(ctx context.Context) (*gardencorev1beta1.Shoot, ownership.Phase, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := r.Garden.Get(ctx, r.Shoot, shoot); err != nil {
		return nil, 0, fmt.Errorf("failed to read Shoot %s: %w", r.Shoot, err)
	}
	return shoot, ownership.PhaseOf(shoot, r.DestinationSeed), nil
}

// readEarly reads which extensions act before the kube-apiserver, unless they are known.
func (r *Reader) readEarly(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.early != nil {
		return nil
	}
	early, err := earlyExtensions(ctx, r.Garden)
	r.early = early
	return err
}

// earlyExtensions returns the types of extensions that act before the kube-apiserver.
func earlyExtensions(ctx context.Context, garden client.Reader) (sets.Set[string], error) {
	registrations := &gardencorev1beta1.ControllerRegistrationList{}
	if err := garden.List(ctx, registrations); err != nil {
		return nil, fmt.Errorf("failed to list the ControllerRegistrations: %w", err)
	}
	out := sets.New[string]()
	for _, registration := range registrations.Items {
		for _, resource := range registration.Spec.Resources {
			if resource.Kind == extensionsv1alpha1.ExtensionResource && resource.Lifecycle != nil &&
				ptr.Deref(resource.Lifecycle.Reconcile, "") == gardencorev1beta1.BeforeKubeAPIServer {
				out.Insert(resource.Type)
			}
		}
	}
	return out, nil
}

// found are the objects by which each set of components is at work in a seed.
type found map[steps.Components][]string

// running returns by what each set is at work in the seed.
func (r *Reader) running(ctx context.Context, seed client.Reader, shoot *gardencorev1beta1.Shoot) (found, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	out := found{}

	pods := &corev1.PodList{}
	if err := seed.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the pods in namespace %s: %w", namespace, err)
	}
	leases := &coordinationv1.LeaseList{}
	if err := seed.List(ctx, leases, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the leases in namespace %s: %w", namespace, err)
	}
	for _, pod := range pods.Items {
		if name, ok := setOfPod(&pod); ok && atWork(&pod) && !onlyAnswers(&pod, leases.Items) {
			out[name] = append(out[name], "Pod "+pod.Name)
		}
	}

	access := &corev1.Secret{}
	err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: dependencywatchdog.KubeConfigSecretName}, access)
	switch {
	case err == nil && access.DeletionTimestamp == nil:
		out[steps.DependencyWatchdog] = append(out[steps.DependencyWatchdog], "Secret "+access.Name)
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("failed to read secret %s: %w", dependencywatchdog.KubeConfigSecretName, err)
	}

	if err := r.addExtensions(ctx, seed, namespace, out); err != nil {
		return nil, err
	}
	return out, r.addBackupEntry(ctx, seed, shoot, out)
}

// addExtensions adds the extension objects that their controllers act on.
func (r *Reader) addExtensions(ctx context.Context, seed client.Reader, namespace string, out found) error {
	for _, kind := range []struct {
		list client.ObjectList
		set  func(extensionsv1alpha1.Object) steps.Components
	}{
		{&extensionsv1alpha1.ExtensionList{}, func(object extensionsv1alpha1.Object) steps.Components {
			if r.early.Has(object.GetExtensionSpec().GetExtensionType()) {
				return steps.EarlyExtensions
			}
			return steps.Extensions
		}},
		{&extensionsv1alpha1.ControlPlaneList{}, always(steps.ControlPlane)},
		{&extensionsv1alpha1.InfrastructureList{}, always(steps.Infrastructure)},
		{&extensionsv1alpha1.WorkerList{}, always(steps.Worker)},
		{&extensionsv1alpha1.NetworkList{}, always(steps.NodeExtensions)},
		{&extensionsv1alpha1.OperatingSystemConfigList{}, always(steps.NodeExtensions)},
		{&extensionsv1alpha1.ContainerRuntimeList{}, always(steps.NodeExtensions)},
		{&extensionsv1alpha1.DNSRecordList{}, always(steps.DNSRecords)},
	} {
		if err := seed.List(ctx, kind.list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("failed to list %T in namespace %s: %w", kind.list, namespace, err)
		}
		if err := meta.EachListItem(kind.list, func(item runtime.Object) error {
			object := item.(extensionsv1alpha1.Object)
			if !strings.HasPrefix(object.GetName(), ownPrefix) && acted(object) {
				name := kind.set(object)
				out[name] = append(out[name],
					fmt.Sprintf("%s %s", object.GetExtensionSpec().GetExtensionType(), object.GetName()))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// addBackupEntry adds the backup entry of the shoot, which is in no namespace, if its controller acts on it.
func (r *Reader) addBackupEntry(
	ctx context.Context, seed client.Reader, shoot *gardencorev1beta1.Shoot, out found,
) error {
	name, err := gardenerutils.GenerateBackupEntryName(v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
		shoot.Status.UID, shoot.UID)
	if err != nil {
		return fmt.Errorf("failed to tell the name of the backup entry of Shoot %s: %w", r.Shoot, err)
	}
	entry := &extensionsv1alpha1.BackupEntry{}
	err = seed.Get(ctx, client.ObjectKey{Name: name}, entry)
	switch {
	case err == nil && acted(entry):
		out[steps.BackupEntry] = append(out[steps.BackupEntry], entry.Name)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("failed to read BackupEntry %s: %w", name, err)
	}
	return nil
}

func always(name steps.Components) func(extensionsv1alpha1.Object) steps.Components {
	return func(extensionsv1alpha1.Object) steps.Components { return name }
}

// setOfPod returns the set that the pod belongs to.
func setOfPod(pod *corev1.Pod) (steps.Components, bool) {
	for _, owner := range pod.OwnerReferences {
		workload := workloadOf(pod, owner)
		if owner.Kind == "StatefulSet" &&
			(workload == v1beta1constants.ETCDMain || workload == v1beta1constants.ETCDEvents) {
			return steps.Etcd, true
		}
		if workload == ownership.WebhookServer {
			// It runs the resource manager, and is one unless there is evidence that it only answers webhooks.
			return steps.ResourceManager, true
		}
		for _, set := range ownership.Sets() {
			if set.Deployment != "" && set.Deployment == workload {
				return set.Name, true
			}
		}
	}
	return "", false
}

// onlyAnswers reports whether the pod runs a resource manager of which there is evidence that it only answers webhooks.
func onlyAnswers(pod *corev1.Pod, leases []coordinationv1.Lease) bool {
	for _, owner := range pod.OwnerReferences {
		if workloadOf(pod, owner) == ownership.WebhookServer {
			return ownership.OnlyAnswersWebhooks(pod, leases)
		}
	}
	return false
}

// workloadOf returns the name of the Deployment or StatefulSet that the owner of the pod is, or belongs to.
func workloadOf(pod *corev1.Pod, owner metav1.OwnerReference) string {
	if owner.Kind == "ReplicaSet" {
		return strings.TrimSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
	}
	return owner.Name
}

// atWork reports whether a container of the pod runs. One that is being deleted works until its end.
func atWork(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return true
		}
	}
	return false
}

// acted reports whether the controller of the object acts on it: it has neither released it in a migration nor is it
// deleting it.
func acted(object extensionsv1alpha1.Object) bool {
	operation := object.GetExtensionStatus().GetLastOperation()
	migrated := operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeMigrate &&
		operation.State == gardencorev1beta1.LastOperationStateSucceeded
	return object.GetDeletionTimestamp() == nil && !migrated
}
