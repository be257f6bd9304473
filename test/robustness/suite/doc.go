// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package suite is `make test-robustness`: it runs the cells of the fault matrix on the landscape.
package suite
