// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

// What the tests look at from outside.
var (
	GardenAccess     = gardenAccess
	Until            = until
	ErrNoCredentials = errNoCredentials
	ErrNoPermissions = errNoPermissions
	MayUpdate        = mayUpdate
)
