// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

// checks are faults in guards and in the drain.
var checks = []Mutation{
	{
		Name: "guard-left-out",
		Area: Checks,
		Harm: "Steps begin although members of the etcds are unhealthy",
		File: "pkg/preflight/step.go",
		Old: `	steps.EtcdHealth,
`,
		New:      ``,
		Packages: []string{"pkg/preflight"},
	},
	{
		Name: "guard-of-a-step-left-out",
		Area: Checks,
		Harm: "Step 6 begins although an etcd has no quorum",
		File: "pkg/migration/steps/6_move_etcd.go",
		Old: `		EtcdQuorum:            holdsUnlessForced,
`,
		New:      ``,
		Packages: []string{"pkg/preflight"},
	},
	{
		Name:     "unknown-taken-for-ready",
		Area:     Checks,
		Harm:     "A migration begins although nobody knows whether the backups of the seeds work",
		File:     "pkg/preflight/evaluate.go",
		Old:      `case ready.Status == gardencorev1beta1.ConditionUnknown:`,
		New:      `case ready.Status == "":`,
		Packages: []string{"pkg/preflight"},
	},
	{
		Name:     "unreadable-taken-for-good",
		Area:     Checks,
		Harm:     "A check that could not look at anything holds nothing",
		File:     "pkg/preflight/finding.go",
		Old:      `if finding.Status == Fail || finding.Status == Unknown {`,
		New:      `if finding.Status == Fail {`,
		Packages: []string{"pkg/preflight"},
	},
	{
		Name:     "versions-not-compared",
		Area:     Checks,
		Harm:     "Gardenlets of different versions work on one control plane: what one deploys rolls out again",
		File:     "pkg/preflight/evaluate.go",
		Old:      `if versions[0] != versions[1] {`,
		New:      `if versions[0] == "" {`,
		Packages: []string{"pkg/preflight"},
	},
	{
		Name:     "drain-over-budget",
		Area:     Checks,
		Harm:     "A drain moves one shoot more at a time than the operator has permitted",
		File:     "pkg/migration/drain/plan.go",
		Old:      `case p.outOf[out.Status] >= p.Budget.PerSource:`,
		New:      `case p.outOf[out.Status] > p.Budget.PerSource:`,
		Packages: []string{"pkg/migration/drain"},
	},
	{
		Name: "drain-forgets-what-it-starts",
		Area: Checks,
		Harm: "All shoots of a seed are moved at once, whatever the budget says",
		File: "pkg/migration/drain/plan.go",
		Old: `	p.take(shoot.Status, assessment.Destination)
`,
		New:      ``,
		Packages: []string{"pkg/migration/drain"},
	},
	{
		Name:     "drain-continues-after-failures",
		Area:     Checks,
		Harm:     "A drain starts one migration after the other although all of them fail",
		File:     "pkg/migration/drain/plan.go",
		Old:      `if seed.circuit != "" {`,
		New:      `if seed.circuit != "" && seed.Name == "" {`,
		Packages: []string{"pkg/migration/drain"},
	},
}
