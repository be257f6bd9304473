// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package program holds what livecpm-agent and livecpm-controller-manager have in common: the options of their
// managers, their probes, and what ends them when their credentials for the garden are replaced.
package program
