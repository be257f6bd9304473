// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import "time"

// What follows is what docs/development/adding-a-step.md shows: the file of a step.

// begin of the step

const ReasonCopyingImages Reason = "CopyingImages"

// copyImages makes the images of the control plane known to the nodes of the destination before anything starts there.
var copyImages = Step{
	Condition: "DestinationImagesCopied",
	Owner:     Destination,
	Title:     "Copy the images of the control plane to the destination",
	Finish:    completed,
	Work: []Work{{
		Title: "Copy the images",
		By:    Destination, Reasons: []Reason{ReasonCopyingImages},
	}},
	Deadline:  10 * time.Minute,
	Expected:  5 * time.Second,
	Progress:  25,
	Abortable: false,
	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		DestinationSeedHealth: holds,
		EtcdSize:              warns,
	},
	Ownership: migrateEarlyExtensions.Ownership, // Nothing changes hands.
	Midst:     Midst{Reasons: []Reason{ReasonCopyingImages}},
}

// end of the step

// CopyImages is the step that tests add.
func CopyImages() Step { return copyImages }
