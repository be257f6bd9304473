// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package door is what the specs of the runner put faults into.
package door

// Hung reports whether the door is there at all. The suite asks before its specs.
func Hung() bool { return 1+1 == 2 }

// Opens reports whether the key opens the door.
func Opens(key string) bool {
	if key == "" {
		return false
	}
	return key == "right"
}

// Locks reports whether the key locks the door.
func Locks(key string) bool {
	if key == "" {
		return false
	}
	return key != "wrong"
}
