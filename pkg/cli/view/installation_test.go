// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/pages"
)

var _ = Describe("Installation", func() {
	const (
		link = pages.Base + "operations/reasons/DNSNotAccessible.md"
		gate = pages.Base + "operations/reasons/GateNotInForce.md"
	)
	pass := func(evidence string) view.LinkedCheck {
		return view.LinkedCheck{Check: view.Check{Name: "Agents", Status: view.Pass, Evidence: evidence}}
	}

	It("should draw each check, and below what did not pass what to do and where to read on", func() {
		var in view.Installation
		in.Add("garden", pass("an agent is in 2 of 3 seeds"),
			view.LinkedCheck{Link: gate, Check: view.Check{Name: "GateInForce", Status: view.Unknown,
				Evidence: "garden-demo/live: the dry run failed", Remedy: "get permission to patch shoots/status"}})
		in.Add("seed seed-a", view.LinkedCheck{Link: link, Check: view.Check{Name: "DNSAccess", Status: view.Fail,
			Evidence: "example.org: there is no Secret garden/dns", Remedy: "create the credentials that are missing"}})
		in.Notes = []string{"no agent is in seed-c; nothing migrates live from or to there"}
		expectGolden("installation", in.Text(view.Options{}))
		expectGolden("installation-narrow", in.Text(view.Options{Width: 60, Color: true}))
		Expect(strings.Count(in.Text(view.Options{Width: 40}), link)).To(Equal(1), "a link stays in one piece")
	})

	It("should draw the verdict", func() {
		var fine, unknown view.Installation
		fine.Add("garden", pass("all"))
		Expect(fine.Text(view.Options{})).To(HaveSuffix("\nAll 1 checks passed.\n"))
		unknown.Add("garden", view.LinkedCheck{Check: view.Check{Name: "Agents", Status: view.Unknown}})
		Expect(unknown.Text(view.Options{})).To(HaveSuffix("\nNo check failed, but 1 of 1 could not be made.\n"))
	})
})
