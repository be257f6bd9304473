// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package pages knows where the pages for operators are. Whoever sends somebody to a page does so by its URL: who reads
// a condition or an alert has a browser, and no copy of the repository.
package pages

import "github.com/livecpm/livecpm/pkg/migration/steps"

// Base is the URL below which the pages of docs are.
const Base = "https://github.com/livecpm/livecpm/blob/main/docs/"

// Pages about what an operator can do, or has to.
const (
	// Operations is the page that leads to all others.
	Operations = Base + "operations/README.md"
	// Abort is about an abort, and about a destination that is lost.
	Abort = Base + "operations/abort.md"
	// Pause is about a pause.
	Pause = Base + "operations/pause.md"
	// Recovery is about a quorum, or a source, that is lost for good.
	Recovery = Base + "operations/recovery.md"
	// Monitoring is about alerts, dashboards and metrics.
	Monitoring = Base + "operations/monitoring.md"
	// Compatibility is about what works, what is refused, and what nobody has tried.
	Compatibility = Base + "compatibility.md"
	// Deployment is about installing, upgrading and removing livecpm.
	Deployment = Base + "deployment/README.md"
)

// OfStep returns the page about the step: what to do when it does not come to its end.
func OfStep(step steps.Step) string { return Base + "operations/" + string(step.Condition) + ".md" }

// OfReason returns the page about a reason that holds a step or is a fault. Other reasons have no page of their own.
func OfReason(reason steps.Reason) string {
	return Base + "operations/reasons/" + string(reason) + ".md"
}
