// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenershootstate "github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// AnnotationTaken is on the ShootState and says what the agents have taken into it: the number of machines, and a
	// fingerprint of each state. The ShootState controller of a gardenlet that replaces the content leaves the
	// annotation as it is, so what was lost shows.
	AnnotationTaken = "livecpm.gardener.cloud/taken"
	// TakenAccepted is the value of the annotation by which an operator accepts the ShootState as it is.
	TakenAccepted = "accepted"
)

// fingerprintBytes is how much of a hash is kept. It tells states apart; nobody gains anything by a collision, because
// whoever can write the annotation can write the states.
const fingerprintBytes = 8

// present stands for a secret, of which no fingerprint is kept.
const present = "present"

// taken is what was taken into a ShootState.
type taken struct {
	// Machines is the number of machines.
	Machines int `json:"machines"`
	// States has a fingerprint of each state of an extension, and of each resource that such a state refers to. Of
	// secrets it has the names only.
	States map[string]string `json:"states,omitempty"`
}

// Difference is the error that a ShootState is not what was taken into it.
type Difference struct {
	// Key names the ShootState.
	Key client.ObjectKey
	// Details say what differs, each with the name of the state. They hold no content.
	Details []string
}

// Error tells what differs, and the way out.
func (d *Difference) Error() string {
	return fmt.Sprintf("ShootState %s is not what was taken into it: %s; restore it, or accept it as it is with the "+
		"annotation %s=%s", d.Key, strings.Join(d.Details, ", "), AnnotationTaken, TakenAccepted)
}

// IsDifference reports whether the error says that a ShootState is not what was taken into it.
func IsDifference(err error) bool {
	var difference *Difference
	return errors.As(err, &difference)
}

// Compare returns a Difference unless the ShootState holds what the agents have taken into it. If nobody has recorded
// that, there is nothing to compare with, which is a Difference, too.
func (s *ShootStates) Compare(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	return compare(state)
}

func compare(state *gardencorev1beta1.ShootState) error {
	var (
		key           = client.ObjectKeyFromObject(state)
		value, exists = state.Annotations[AnnotationTaken]
	)
	switch {
	case !exists:
		return &Difference{Key: key, Details: []string{"nobody has recorded what was taken"}}
	case value == TakenAccepted:
		return nil
	}
	wanted, err := takenFrom(value)
	if err != nil {
		return &Difference{Key: key, Details: []string{err.Error()}}
	}
	found, err := takenOf(state)
	if err != nil {
		return &Difference{Key: key, Details: []string{err.Error()}}
	}
	if details := wanted.missingIn(found); len(details) > 0 {
		return &Difference{Key: key, Details: details}
	}
	return nil
}

// missingIn tells what was taken and is not found.
func (t taken) missingIn(found taken) []string {
	var details []string
	if t.Machines != found.Machines {
		details = append(details, fmt.Sprintf("it has %d machines instead of %d", found.Machines, t.Machines))
	}
	for _, name := range slices.Sorted(maps.Keys(t.States)) {
		switch fingerprint, exists := found.States[name]; {
		case !exists:
			details = append(details, "it lacks "+name)
		case fingerprint != t.States[name]:
			details = append(details, "it has another state of "+name)
		}
	}
	return details
}

// keeping returns what was taken now, with what was taken before and is not there any more.
func (t taken) keeping(before taken) taken {
	out := taken{Machines: t.Machines, States: maps.Clone(before.States)}
	if out.States == nil {
		out.States = map[string]string{}
	}
	maps.Copy(out.States, t.States)
	// The state of machines is one piece: none at all is what is left when it was lost.
	if out.Machines == 0 {
		out.Machines = before.Machines
	}
	return out
}

func (t taken) encode() (string, error) {
	encoded, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("failed to encode what was taken: %w", err)
	}
	return string(encoded), nil
}

func takenFrom(value string) (taken, error) {
	var out taken
	if err := json.Unmarshal([]byte(value), &out); err != nil {
		return taken{}, fmt.Errorf("its annotation %s cannot be read: %w", AnnotationTaken, err)
	}
	return out, nil
}

// takenOf returns what the ShootState holds.
func takenOf(state *gardencorev1beta1.ShootState) (taken, error) {
	out := taken{States: map[string]string{}}
	var err error
	if out.Machines, err = machinesIn(state); err != nil {
		return taken{}, err
	}
	for _, data := range state.Spec.Gardener {
		if data.Type == v1beta1constants.DataTypeSecret {
			out.States["secret "+data.Name] = present
		}
	}
	for _, extension := range state.Spec.Extensions {
		if out.States[nameOfState(extension)], err = fingerprintOf(extension); err != nil {
			return taken{}, err
		}
	}
	for _, data := range state.Spec.Resources {
		sum, err := fingerprint(data.Data.Raw)
		if err != nil {
			return taken{}, fmt.Errorf("its %s %s cannot be read: %w", data.Kind, data.Name, err)
		}
		out.States[nameOfResource(data)] = sum
	}
	return out, nil
}

// nameOfResource names a resource that states refer to.
func nameOfResource(data gardencorev1beta1.ResourceData) string {
	return fmt.Sprintf("resource %s/%s", data.Kind, data.Name)
}

// nameOfState names the extension resource that a state is of.
func nameOfState(extension gardencorev1beta1.ExtensionResourceState) string {
	name := fmt.Sprintf("%s/%s", extension.Kind, ptr.Deref(extension.Name, ""))
	if purpose := ptr.Deref(extension.Purpose, ""); purpose != "" {
		name += " (" + purpose + ")"
	}
	return name
}

func fingerprintOf(extension gardencorev1beta1.ExtensionResourceState) (string, error) {
	resources, err := json.Marshal(extension.Resources)
	if err != nil {
		return "", fmt.Errorf("the resources of its state of %s cannot be read: %w", nameOfState(extension), err)
	}
	var state []byte
	if extension.State != nil {
		state = extension.State.Raw
	}
	sum, err := fingerprint(state, resources)
	if err != nil {
		return "", fmt.Errorf("its state of %s cannot be read: %w", nameOfState(extension), err)
	}
	return sum, nil
}

// fingerprint returns one that is the same for JSON with the same content, however it is written: an API server may
// write it in another way than it was sent.
func fingerprint(documents ...[]byte) (string, error) {
	hash := sha256.New()
	for _, document := range documents {
		canonical := []byte("null")
		if len(document) > 0 {
			decoder := json.NewDecoder(bytes.NewReader(document))
			decoder.UseNumber()
			var content any
			if err := decoder.Decode(&content); err != nil {
				return "", fmt.Errorf("failed to decode: %w", err)
			}
			var err error
			if canonical, err = json.Marshal(content); err != nil {
				return "", fmt.Errorf("failed to encode: %w", err)
			}
		}
		hash.Write(canonical)
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:fingerprintBytes]), nil
}

// machinesIn returns the number of machines in the ShootState.
func machinesIn(state *gardencorev1beta1.ShootState) (int, error) {
	all := v1beta1helper.GardenerResourceDataList(state.Spec.Gardener)
	data := all.Get(v1beta1constants.DataTypeMachineState)
	if data == nil {
		return 0, nil
	}
	saved, err := gardenershootstate.UnmarshalMachineState(data.Data.Raw)
	if err != nil {
		return 0, fmt.Errorf("its state of machines cannot be decoded: %w", err)
	}
	machines := 0
	for _, deployment := range saved.MachineDeployments {
		machines += len(deployment.Machines)
	}
	return machines, nil
}

// record writes what the ShootState, which was just read, holds into its annotation. If entries of before are kept,
// what was taken earlier and is not there any more stays in the record. It fails if somebody has changed the ShootState
// since it was read.
func (s *ShootStates) record(ctx context.Context, state *gardencorev1beta1.ShootState, entries former) error {
	now, err := takenOf(state)
	if err != nil {
		return fmt.Errorf("failed to record what ShootState %s holds: %w", client.ObjectKeyFromObject(state), err)
	}
	if value := state.Annotations[AnnotationTaken]; entries == kept && value != "" && value != TakenAccepted {
		before, err := takenFrom(value)
		if err != nil {
			return fmt.Errorf("failed to read what was taken into ShootState %s: %w", client.ObjectKeyFromObject(state),
				err)
		}
		now = now.keeping(before)
	}
	value, err := now.encode()
	if err != nil {
		return err
	}
	return s.patch(ctx, state, func() { metav1.SetMetaDataAnnotation(&state.ObjectMeta, AnnotationTaken, value) })
}

// patch writes what mutate changes, unless that is nothing. It fails if somebody has changed the ShootState since it
// was read.
func (s *ShootStates) patch(ctx context.Context, state *gardencorev1beta1.ShootState, mutate func()) error {
	before := state.DeepCopy()
	mutate()
	if apiequality.Semantic.DeepEqual(before, state) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.options.GardenClient.Patch(ctx, state, patch); err != nil {
		return fmt.Errorf("failed to patch ShootState %s: %w", client.ObjectKeyFromObject(state), err)
	}
	return nil
}
