// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package steps is the pure core of a live migration: the ordered step table, who owns which step, what counts as a
// migration, which transitions are legal and the documented set of reasons. It performs no I/O and imports no client.
// A wrong order of steps is fixed in the table of this package and nowhere else.
package steps
