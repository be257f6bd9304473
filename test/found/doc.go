// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package found keeps docs/development/found.md true: its commands have something to run, and its specs are there. It
// does the same for what docs/concepts/losses.md names. It is not beside the other tests of documents because it asks
// the suites what they can run, and what they have run.
package found
