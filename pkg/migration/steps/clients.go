// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

const (
	// AnnotationSourceClients on a Shoot is set by the source's agent while EtcdMigrationComplete lets clients leave
	// (ReasonDrainingClients), where the kube-apiserver ends their TLS: ClientsLeaving or ClientsLeft. The destination
	// cannot read the source's seed, and waits as long as it says the former. An agent of an earlier release writes
	// nothing, and is not waited for.
	AnnotationSourceClients = "migration.gardener.cloud/source-clients"
	// ClientsLeaving says that the kube-apiservers of the source restart, so that their clients leave.
	ClientsLeaving = "Leaving"
	// ClientsLeft says that none of those is left that clients had connected to.
	ClientsLeft = "Left"
)

// SourceClientsLeaving reports whether the source's agent says that it still makes clients leave.
func SourceClientsLeaving(shoot *gardencorev1beta1.Shoot) bool {
	return shoot.Annotations[AnnotationSourceClients] == ClientsLeaving
}

// SourceClientsLeft reports whether the source's agent says that clients have left.
func SourceClientsLeft(shoot *gardencorev1beta1.Shoot) bool {
	return shoot.Annotations[AnnotationSourceClients] == ClientsLeft
}
