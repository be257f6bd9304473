// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package gatewatchdog keeps the gate against the classic migration in force while live migrations are in flight.
//
// Two controllers share the work, because two things can fail. Objects watches the admission policy and its binding,
// and puts back what the chart ships as soon as one of them is missing or changed. Proofs does not trust the objects:
// for every Shoot on its way to another seed it asks the API server every few seconds, as a dry run, for the write that
// must be refused. Reporter tells what both find: in events at the Shoots, in metrics and in the log.
//
// The agents prove the gate for themselves and hold while it is open. Nothing here is needed for their safety; it
// shortens the time in which the classic migration could start, and tells people.
package gatewatchdog
