// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist

import (
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"

	"github.com/livecpm/livecpm/pkg/migration"
)

// KeepAccessControl gives the extensions of these types their lifecycle, and returns which of them the shoot has.
func KeepAccessControl(b *Botanist, m *migration.Migration, types ...string) []string {
	f := &Factory{options: Options{AccessControl: types}}
	f.keepAccessControl(b, m)
	return f.AccessControl(b)
}

// Adjust changes an operation as the option does before a botanist is made of it.
func Adjust(o *gardeneroperation.Operation, option Option) {
	r := &request{}
	option(r)
	for _, adjust := range r.adjustments {
		adjust(o)
	}
}
