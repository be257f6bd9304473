// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Choose returns the moments whose names contain one of the comma-separated parts, all if there is none, and the fault
// with the name, nil if that is empty. It fails if no moment matches, there is no such fault, or it does not suit all
// of the moments.
func Choose(parts, faultName string) ([]Moment, fault.Fault, error) {
	var (
		chosen []Moment
		names  []string
	)
	for _, moment := range Moments() {
		names = append(names, moment.Name)
		if slices.ContainsFunc(strings.Split(parts, ","),
			func(part string) bool { return strings.Contains(moment.Name, strings.TrimSpace(part)) }) {
			chosen = append(chosen, moment)
		}
	}
	if len(chosen) == 0 {
		return nil, nil, fmt.Errorf("no moment matches %q; there are %s", parts, strings.Join(names, ", "))
	}
	if faultName == "" {
		return chosen, nil, nil
	}
	f, ok := fault.Get(faultName)
	if !ok {
		return nil, nil, fmt.Errorf("there is no fault %q; there are %s", faultName, strings.Join(fault.Names(), ", "))
	}
	for _, moment := range chosen {
		if err := Suits(f, moment); err != nil {
			return nil, nil, err
		}
	}
	return chosen, f, nil
}
