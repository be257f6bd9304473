// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist

import gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"

// Adjust changes an operation as the option does before a botanist is made of it.
func Adjust(o *gardeneroperation.Operation, option Option) {
	r := &request{}
	option(r)
	for _, adjust := range r.adjustments {
		adjust(o)
	}
}
