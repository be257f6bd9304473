// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strconv"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// AnnotationDeleteFormerBackups on a Shoot is set by an agent, and taken away by it. It says that the control plane has
// its backups in the bucket of its own seed again, and asks livecpm-controller-manager for a way to those in the other
// seed's bucket: a BackupEntry that the agent itself may not create where Gardener's SeedRestriction is in force.
const AnnotationDeleteFormerBackups = "migration.gardener.cloud/delete-former-backups"

// AnnotationSourceRevision on a Shoot is set by the source's agent when no member of etcd is left in its seed: the
// revision of etcd-main that the newest snapshot in its bucket reaches. The destination's agent cannot read that, and
// needs it before it copies these snapshots.
const AnnotationSourceRevision = "migration.gardener.cloud/source-snapshots-revision"

// MixingObstacle returns why the snapshots of the source must not be copied beside those in the bucket of the
// destination; empty if they may. The revision is that of the newest full snapshot there.
//
// etcd-backup-restore (v0.44.1) orders the snapshots of a bucket by the last revision that they have, and restores from
// the last full one and what follows. So all snapshots of the source must be below the destination's. They are as long
// as it is one cluster, whose revisions only grow. A cluster that an operator has rebuilt from a member or a backup may
// have fallen behind a snapshot that the source had taken before: that one is from another history, and a restoration
// would begin with it, or fail.
func MixingObstacle(shoot *gardencorev1beta1.Shoot, destination int64) string {
	told, found := shoot.Annotations[AnnotationSourceRevision]
	if !found {
		return fmt.Sprintf("the agent of the source has not told up to which revision they reach (annotation %s)",
			AnnotationSourceRevision)
	}
	source, err := strconv.ParseInt(told, 10, 64)
	switch {
	case err != nil:
		return fmt.Sprintf("annotation %s is no revision: %q", AnnotationSourceRevision, told)
	case source >= destination:
		return fmt.Sprintf("they reach revision %d, but the newest full snapshot of the destination only revision %d, "+
			"so that a restoration would not begin with that one", source, destination)
	}
	return ""
}

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
