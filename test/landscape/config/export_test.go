// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

// DrainBudget returns the budget that a variable asks for on a machine with so many processors.
var DrainBudget = drainBudget

// ReadNodes is readNodes for tests.
func (c *Config) ReadNodes(nodes, tolerance string) error { return c.readNodes(nodes, tolerance) }
