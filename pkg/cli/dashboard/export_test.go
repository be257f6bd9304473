// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

// The names under which the tests have what is not exported.
var (
	OwnHost = ownHost
	Quoted  = quoted
)
