// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package docs carries the pages for operators inside of Go programs, so that they can be read where no browser is.
package docs

import "embed"

// Pages are the pages about operations, and those of the concepts that name reasons and guards.
//
//go:embed operations concepts/steps.md concepts/guards.md
var Pages embed.FS
