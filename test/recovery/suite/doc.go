// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package suite is `make test-recovery`: it loses quorums on the landscape and follows the page of the recovery.
package suite
