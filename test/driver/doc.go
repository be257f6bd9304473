// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package driver drives a migration of a shoot of the landscape the way an operator does, and looks at it from outside:
// it connects to the garden and the seeds, triggers the migration, steers it, waits for it, and observes its steps, its
// etcd members, its DNS records, its controllers, and what is left of it. Demo, benchmarks and all suites on the
// landscape drive by it; what they make of what they see is their own.
package driver
