// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package setup tests hack/setup.sh, which makes a machine ready for the make targets, and that it knows every program
// that is called.
package setup
