// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate

import (
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenershootstate "github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requiredSecrets are those without which a control plane in another seed would be another cluster. They are named by
// the label that the secrets manager puts on them.
var requiredSecrets = []string{
	v1beta1constants.SecretNameCACluster,
	v1beta1constants.SecretNameCAClient,
	v1beta1constants.SecretNameCAETCD,
	v1beta1constants.SecretNameCAETCDPeer,
	v1beta1constants.SecretNameETCDEncryptionKey,
	v1beta1constants.SecretNameServiceAccountKey,
}

// Check reports whether the ShootState holds what a destination cannot do without, and whether its timestamp
// still protects it from being replaced.
func Check(state *gardencorev1beta1.ShootState, now time.Time) error {
	timestamp, err := timestampOf(state)
	if err != nil {
		return err
	}
	if !timestamp.After(now) {
		return fmt.Errorf("timestamp %s of ShootState %s is not ahead of now, a gardenlet may replace the state",
			timestamp.Format(time.RFC3339), client.ObjectKeyFromObject(state))
	}
	return checkSecrets(state)
}

// checkSecrets returns an error unless the ShootState has the secrets that a destination cannot do without.
func checkSecrets(state *gardencorev1beta1.ShootState) error {
	found := sets.New[string]()
	for _, data := range state.Spec.Gardener {
		if data.Type == v1beta1constants.DataTypeSecret && len(data.Data.Raw) > 0 {
			found.Insert(data.Labels[secretsmanager.LabelKeyName])
		}
	}
	if missing := sets.New(requiredSecrets...).Difference(found); missing.Len() > 0 {
		return fmt.Errorf("ShootState %s lacks secrets %v", client.ObjectKeyFromObject(state), sets.List(missing))
	}
	return nil
}

// CheckMachines returns an error unless the ShootState has all of the machines. machine-controller-manager is
// stopped by then, so there are no others to come.
func CheckMachines(state *gardencorev1beta1.ShootState, machines []machinev1alpha1.Machine) error {
	if len(machines) == 0 {
		return nil
	}
	key := client.ObjectKeyFromObject(state)

	all := v1beta1helper.GardenerResourceDataList(state.Spec.Gardener)
	data := all.Get(v1beta1constants.DataTypeMachineState)
	if data == nil {
		return fmt.Errorf("ShootState %s has no state of machines, but there are %d of them", key, len(machines))
	}
	saved, err := gardenershootstate.UnmarshalMachineState(data.Data.Raw)
	if err != nil {
		return fmt.Errorf("failed to decode the state of machines in ShootState %s: %w", key, err)
	}

	found := sets.New[string]()
	for _, deployment := range saved.MachineDeployments {
		for _, machine := range deployment.Machines {
			found.Insert(machine.Name)
		}
	}
	missing := sets.New[string]()
	for _, machine := range machines {
		if !found.Has(machine.Name) {
			missing.Insert(machine.Name)
		}
	}
	if missing.Len() > 0 {
		return fmt.Errorf("ShootState %s lacks machines %s: none of them is deleted; check that they belong to a "+
			"MachineDeployment", key, strings.Join(sets.List(missing), ", "))
	}
	return nil
}
