// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import "slices"

// Insert adds a step to the order, before the step with the given index, until the returned function is called.
func Insert(step Step, index int) (remove func()) {
	former := order
	order = slices.Insert(slices.Clone(order), index, step)
	return func() { order = former }
}
