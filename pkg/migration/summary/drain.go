// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// Drain is what is known of the drain of a seed.
type Drain struct {
	// Seed is its name.
	Seed string `json:"seed"`
	// Requested reports that the drain is asked for.
	Requested bool `json:"requested"`
	// Condition is the Seed's condition; nil if there is none.
	Condition *gardencorev1beta1.Condition `json:"condition,omitempty"`
	// Table tells of each shoot; nil if there is none, or none that could be read.
	Table *drain.Table `json:"table,omitempty"`
	// Unknown tells why nothing is known of the table; empty if it was looked for.
	Unknown string `json:"unknown,omitempty"`
}

// DrainOf returns what the Seed and the table say. The error is why the table is not known.
func DrainOf(seed *gardencorev1beta1.Seed, table *drain.Table, err error) Drain {
	out := Drain{
		Seed:      seed.Name,
		Requested: drain.Requested(seed),
		Condition: v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained),
		Table:     table,
	}
	if err != nil {
		out.Table, out.Unknown = nil, err.Error()
	}
	return out
}
