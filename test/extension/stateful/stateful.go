// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package stateful is what the landscape's test extension does: it keeps a state for each of its objects as real
// extensions do, and writes down every operation. It has nothing to manage: the state is all there is, so that whether
// it arrives where the control plane moves to is all that counts.
package stateful

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is what the extension keeps in the status of an object.
type State struct {
	// ID is given once, when the object is reconciled for the first time.
	ID string `json:"id"`
	// MigratedFrom is the seed that the object has left. It is there from its migration until its restoration.
	MigratedFrom string `json:"migratedFrom,omitempty"`
}

// Keeper does the operations on objects of any kind.
type Keeper struct {
	Client client.Client
	// Seed is the name of the seed that the extension runs in.
	Seed   string
	Record *Record
}

// annotationRestored has the identity that an object was restored with in its seed.
const annotationRestored = "extension-test.livecpm.example/restored"

// The errors of a restoration that must not continue.
var (
	// ErrNoState reports that the state did not arrive.
	ErrNoState = errors.New(
		"there is no state to restore from: what the extension has written at the migration did not arrive")
	// ErrNotMigrated reports that the state is not what a migration has left.
	ErrNotMigrated = errors.New("the state was saved before the extension had migrated the object")
)

// Reconcile gives a new object its state and leaves that of others alone.
func (k *Keeper) Reconcile(ctx context.Context, object extensionsv1alpha1.Object) error {
	return k.do(ctx, gardencorev1beta1.LastOperationTypeReconcile, object, func(state *State) error {
		if state.ID == "" {
			state.ID = string(uuid.NewUUID())
		}
		// The migration is complete, or was given up.
		state.MigratedFrom = ""
		return nil
	})
}

// Migrate writes down that the object leaves the seed. Whoever restores it wants to see that.
func (k *Keeper) Migrate(ctx context.Context, object extensionsv1alpha1.Object) error {
	return k.do(ctx, gardencorev1beta1.LastOperationTypeMigrate, object, func(state *State) error {
		state.MigratedFrom = k.Seed
		return nil
	})
}

// Restore takes up the object in a new seed, with the state of before the migration. Gardener restores once more when
// an attempt is repeated. Such a restoration finds the object as this seed has taken it up, or with what the migration
// has left once more.
func (k *Keeper) Restore(ctx context.Context, object extensionsv1alpha1.Object) error {
	return k.do(ctx, gardencorev1beta1.LastOperationTypeRestore, object, func(state *State) error {
		switch {
		case state.ID == "":
			return ErrNoState
		case state.MigratedFrom == "" && object.GetAnnotations()[annotationRestored] != state.ID:
			return ErrNotMigrated
		case state.MigratedFrom == k.Seed:
			return fmt.Errorf("the state says that the object has left seed %s, which is where it is to be restored",
				k.Seed)
		}
		if err := k.markRestored(ctx, object, state.ID); err != nil {
			return err
		}
		state.MigratedFrom = ""
		return nil
	})
}

// markRestored remembers at the object, which does not leave the seed, that it was restored with this identity.
func (k *Keeper) markRestored(ctx context.Context, object extensionsv1alpha1.Object, id string) error {
	if object.GetAnnotations()[annotationRestored] == id {
		return nil
	}
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationRestored] = id
	object.SetAnnotations(annotations)
	if err := k.Client.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("failed to remember the restoration: %w", err)
	}
	return nil
}

// Delete only writes down that it was asked for.
func (k *Keeper) Delete(ctx context.Context, object extensionsv1alpha1.Object) error {
	return k.do(ctx, gardencorev1beta1.LastOperationTypeDelete, object, func(*State) error { return nil })
}

// do changes the state of the object and writes down what became of it.
func (k *Keeper) do(
	ctx context.Context, kind gardencorev1beta1.LastOperationType, object extensionsv1alpha1.Object,
	change func(*State) error,
) error {
	operation := Operation{
		Begin: time.Now().UTC(), Seed: k.Seed, Kind: kindOf(object), Type: object.GetExtensionSpec().GetExtensionType(),
		Namespace: object.GetNamespace(), Name: object.GetName(), Operation: string(kind),
	}
	err := k.change(ctx, object, change)
	operation.End = time.Now().UTC()
	if err != nil {
		operation.Error = err.Error()
	}
	if state := object.GetExtensionStatus().GetState(); state != nil {
		operation.State = string(state.Raw)
	}
	if recordErr := k.Record.Add(ctx, operation); recordErr != nil {
		// An operation that nobody knows of would make the record worthless.
		return errors.Join(err, fmt.Errorf("failed to record the operation: %w", recordErr))
	}
	return err
}

func (k *Keeper) change(ctx context.Context, object extensionsv1alpha1.Object, change func(*State) error) error {
	state := State{}
	if raw := object.GetExtensionStatus().GetState(); raw != nil && len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &state); err != nil {
			return fmt.Errorf("failed to decode the state: %w", err)
		}
	}
	before := state
	if err := change(&state); err != nil {
		return err
	}
	if state == before {
		return nil
	}
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("failed to encode the state: %w", err)
	}
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	object.GetExtensionStatus().SetState(&runtime.RawExtension{Raw: content})
	if err := k.Client.Status().Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("failed to write the state: %w", err)
	}
	return nil
}

func kindOf(object extensionsv1alpha1.Object) string {
	switch object.(type) {
	case *extensionsv1alpha1.Network:
		return extensionsv1alpha1.NetworkResource
	case *extensionsv1alpha1.Extension:
		return extensionsv1alpha1.ExtensionResource
	}
	return fmt.Sprintf("%T", object)
}
