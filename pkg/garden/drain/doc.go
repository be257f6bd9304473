// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package drain empties seeds: it reads the garden, lets pkg/migration/drain decide, and carries out what is decided.
// It annotates Shoots, changes their seed names, keeps the scheduler away from the seed, and tells how far it is.
//
// One request stands for the whole garden, because the budget does. Everything that has to outlive a restart is in
// annotations of Seeds and Shoots; what is kept in memory only saves work.
package drain
