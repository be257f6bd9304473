// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import "context"

// Operator is an operator with another shell.
type Operator struct {
	Shell runner
	Pages map[string]*Page
	// Source and Destination are the names of the seeds.
	Source, Destination string
}

// Follow lets the operator follow the pages.
func (f Operator) Follow(ctx context.Context, scenario Scenario) error {
	o := &operator{runner: f.Shell, pages: f.Pages, source: f.Source, destination: f.Destination}
	if err := o.begin(ctx, "NS=shoot--demo--live\n"); err != nil {
		return err
	}
	return o.recover(ctx, scenario)
}
