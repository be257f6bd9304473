// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package suite is `make test-drain`: it drains a seed of the landscape.
package suite
