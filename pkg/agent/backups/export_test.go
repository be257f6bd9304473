// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

// GetSnapshot asks a sidecar for a snapshot.
var GetSnapshot = getSnapshot

// AskNewestRevision asks a sidecar for the revision of the newest full snapshot.
var AskNewestRevision = newestRevision
