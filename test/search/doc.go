// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package search looks for the order of events in which something goes wrong. It knows nothing of migrations: it
// explores a World, which calls the code under test.
//
//   - Explore goes through every order of events, breadth first, and recognises states that it has seen. It finds the
//     shortest schedule to a state that must not be, and to a state without a way to an end.
//   - Walk goes through one random order. Two numbers name it, so it can be repeated.
//   - Replay repeats a schedule that one of the two has printed.
//
// An end is a goal, or a state in which the code under test names what a person has to do.
package search
