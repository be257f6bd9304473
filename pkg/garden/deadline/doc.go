// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package deadline tells people when a migration as a whole takes too long: by one event, and by a metric for an alert.
// It tells and does nothing else. Unlike the deadlines of the steps, which the agents watch, this one does not depend
// on what runs in the seeds: an agent that is gone exceeds it as well.
package deadline
