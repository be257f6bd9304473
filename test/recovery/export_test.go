// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import "context"

// Follow lets an operator follow the pages with another shell.
func Follow(
	ctx context.Context, shell runner, pages map[string]*Page, source, destination string, scenario Scenario,
) error {
	o := &operator{runner: shell, pages: pages, source: source, destination: destination}
	if err := o.begin(ctx, "NS=shoot--demo--live\n"); err != nil {
		return err
	}
	return o.recover(ctx, scenario)
}
