// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate

import (
	"context"
	"encoding/json"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	unstructuredutils "github.com/gardener/gardener/pkg/utils/kubernetes/unstructured"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Refresh gives the ShootState what the extensions that were restored in this seed have made of their state since. Who
// restores after that, the agent in another attempt or the gardenlet after the hand-over, restores nothing older.
//
// Gardener (v1.150.0, RestoreExtensionObjectState) leaves an extension alone that has a state. One that has none any
// more, because it needed it for the restoration only or has moved it elsewhere, would get that of the source again.
func (s *ShootStates) Refresh(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	extensions := &extensionsv1alpha1.ExtensionList{}
	if err := s.options.SeedClient.List(ctx, extensions, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("failed to list the extensions in namespace %s: %w", namespace, err)
	}
	var restored []*extensionsv1alpha1.Extension
	for i := range extensions.Items {
		if isRestored(&extensions.Items[i]) {
			restored = append(restored, &extensions.Items[i])
		}
	}
	if len(restored) == 0 {
		return nil
	}

	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	record, recorded, err := recordOf(state)
	if err != nil {
		return err
	}
	refreshed := state.DeepCopy()
	for _, extension := range restored {
		if err := s.take(ctx, extension, refreshed, record); err != nil {
			return err
		}
	}
	var value string
	if recorded {
		if value, err = record.encode(); err != nil {
			return err
		}
	}
	return s.patch(ctx, state, func() {
		state.Spec = refreshed.Spec
		if recorded {
			metav1.SetMetaDataAnnotation(&state.ObjectMeta, AnnotationTaken, value)
		}
	})
}

// isRestored reports whether the extension's controller has restored it, or has worked on it since.
func isRestored(extension *extensionsv1alpha1.Extension) bool {
	operation := extension.Status.LastOperation
	return extension.DeletionTimestamp == nil && extension.Annotations[v1beta1constants.GardenerOperation] == "" &&
		operation != nil && operation.State == gardencorev1beta1.LastOperationStateSucceeded &&
		operation.Type != gardencorev1beta1.LastOperationTypeMigrate &&
		operation.Type != gardencorev1beta1.LastOperationTypeDelete
}

// recordOf returns what was taken into the ShootState, and whether that is recorded.
func recordOf(state *gardencorev1beta1.ShootState) (record taken, recorded bool, err error) {
	value := state.Annotations[AnnotationTaken]
	if value == "" || value == TakenAccepted {
		return taken{States: map[string]string{}}, false, nil
	}
	if record, err = takenFrom(value); err != nil {
		return taken{}, false, fmt.Errorf("failed to read what was taken into ShootState %s: %w",
			client.ObjectKeyFromObject(state), err)
	}
	if record.States == nil {
		record.States = map[string]string{}
	}
	return record, true, nil
}

// take puts the present state of the extension in the place of the one in the ShootState, and of the one in the record.
func (s *ShootStates) take(
	ctx context.Context, extension *extensionsv1alpha1.Extension, state *gardencorev1beta1.ShootState, record taken,
) error {
	var (
		all     = v1beta1helper.ExtensionResourceStateList(state.Spec.Extensions)
		status  = extension.GetExtensionStatus()
		current = gardencorev1beta1.ExtensionResourceState{
			Kind: extensionsv1alpha1.ExtensionResource, Name: ptr.To(extension.Name),
			Purpose: extension.GetExtensionSpec().GetExtensionPurpose(),
			State:   status.GetState(), Resources: status.GetResources(),
		}
	)
	if current.State == nil && len(current.Resources) == 0 {
		all.Delete(current.Kind, current.Name, current.Purpose)
		state.Spec.Extensions = all
		delete(record.States, nameOfState(current))
		return nil
	}

	all.Upsert(&current)
	state.Spec.Extensions = all
	sum, err := fingerprintOf(current)
	if err != nil {
		return fmt.Errorf("failed to take the state of extension %s: %w", client.ObjectKeyFromObject(extension), err)
	}
	record.States[nameOfState(current)] = sum
	return s.takeResources(ctx, extension, state, record)
}

// takeResources does the same for the resources that the extension's state refers to.
func (s *ShootStates) takeResources(
	ctx context.Context, extension *extensionsv1alpha1.Extension, state *gardencorev1beta1.ShootState, record taken,
) error {
	resources := v1beta1helper.ResourceDataList(state.Spec.Resources)
	for _, reference := range extension.GetExtensionStatus().GetResources() {
		ref := reference.ResourceRef
		content, err := unstructuredutils.GetObjectByRef(ctx, s.options.SeedClient, &ref, extension.Namespace)
		if err != nil {
			return fmt.Errorf("failed to read %s %s of extension %s: %w", ref.Kind, ref.Name,
				client.ObjectKeyFromObject(extension), err)
		}
		if content == nil {
			return fmt.Errorf("failed to find %s %s of extension %s", ref.Kind, ref.Name,
				client.ObjectKeyFromObject(extension))
		}
		raw, err := json.Marshal(content)
		if err != nil {
			return fmt.Errorf("failed to encode %s %s of extension %s: %w", ref.Kind, ref.Name,
				client.ObjectKeyFromObject(extension), err)
		}
		data := gardencorev1beta1.ResourceData{CrossVersionObjectReference: ref, Data: runtime.RawExtension{Raw: raw}}
		resources.Upsert(&data)
		if record.States[nameOfResource(data)], err = fingerprint(raw); err != nil {
			return fmt.Errorf("failed to take %s %s of extension %s: %w", ref.Kind, ref.Name,
				client.ObjectKeyFromObject(extension), err)
		}
	}
	state.Spec.Resources = resources
	return nil
}
