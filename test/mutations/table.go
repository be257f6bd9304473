// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import "slices"

// Table returns all mutations in the order of the areas. Those in one package follow each other, so that a sample
// compiles few packages. The caller owns the returned slice.
func Table() []Mutation {
	return slices.Concat(projections, members, stepsAndConditions, frame, source, destination, checks)
}
