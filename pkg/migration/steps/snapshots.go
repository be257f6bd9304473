// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// AnnotationSnapshots returns the annotation of a Shoot in which the agent of a role says why snapshots of the main
// etcd fail, as long as they do. The agent of the other role, which may own the step that the migration is held before,
// cannot see it otherwise.
func AnnotationSnapshots(role Role) string {
	return fmt.Sprintf("migration.gardener.cloud/%s-snapshots-fail", role)
}

// SnapshotsNote returns what a condition's message adds while snapshots fail, as the agents of both roles have found
// it; empty if they do not.
func SnapshotsNote(shoot *gardencorev1beta1.Shoot) string {
	var note strings.Builder
	for _, role := range []Role{Source, Destination} {
		if problem := shoot.Annotations[AnnotationSnapshots(role)]; problem != "" {
			fmt.Fprintf(&note, "; snapshots in the %s fail: %s", role, problem)
		}
	}
	return note.String()
}
