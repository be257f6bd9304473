// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// AnnotationDeleteFormerBackups on a Shoot is set by an agent, and taken away by it. It says that the control plane has
// its backups in the bucket of its own seed again, and asks livecpm-controller-manager for a way to those in the other
// seed's bucket: a BackupEntry that the agent itself may not create where Gardener's SeedRestriction is in force.
const AnnotationDeleteFormerBackups = "migration.gardener.cloud/delete-former-backups"

// FormerBackups returns whose agent may ask for the deletion of the backups in the other seed's bucket, and which seed
// that is: the destination while it completes the migration, the source when the destination has withdrawn from an
// aborted one. It returns false if nobody has asked, or if it is not the time.
func FormerBackups(shoot *gardencorev1beta1.Shoot) (holder, former string, ok bool) {
	source, destination, between := Seeds(shoot)
	if !between || !Intended(shoot) || !isTrue(shoot, AnnotationDeleteFormerBackups) {
		return "", "", false
	}
	conditions := Conditions(shoot)
	if AbortDue(shoot) {
		return source, destination, Begun(conditions, AbortOf(Destination)) && Withdrawn(conditions)
	}
	current, unfinished := Current(conditions)
	if !Initialized(conditions) || !unfinished || !current.HandsOver || !Begun(conditions, current) {
		return "", "", false
	}
	return destination, source, true
}
