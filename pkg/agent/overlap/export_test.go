// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap

// What the tests look at from outside.
var (
	Rename         = rename
	ErrUnknownKind = errUnknownKind
)
