// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package suites holds all specs that need the landscape. Each has one of the labels in suites_test.go. make test-e2e
// chooses labels and sets the variable without which nothing is run.
package suites
