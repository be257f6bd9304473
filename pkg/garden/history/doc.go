// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package history keeps the record of live migrations in a ConfigMap in the garden (pkg/migration/history): what has
// happened, how long it took, and from where to where. kubectl livecpm history shows it.
package history
