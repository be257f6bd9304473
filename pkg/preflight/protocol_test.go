// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var _ = Describe("The agents' protocol", func() {
	// meet returns what the agents of both seeds find, the source's first.
	meet := func(source, destination steps.Protocols) []preflight.Finding {
		GinkgoHelper()
		var out []preflight.Finding
		for _, own := range []string{"seed-a", "seed-b"} {
			w := fit()
			w.OwnSeed, w.Protocols = own, map[string]steps.Protocols{"seed-a": source, "seed-b": destination}[own]
			w.Source.Seed.Annotations[steps.SeedAnnotationProtocols] = source.String()
			w.Destination.Seed.Annotations[steps.SeedAnnotationProtocols] = destination.String()
			out = append(out, find(preflight.Evaluate(w), steps.AgentProtocol))
		}
		return out
	}
	// release is what agents of the n-th release speak that has changed the protocol.
	release := func(n int) steps.Protocols { return steps.Protocols{Oldest: max(1, n-1), Newest: n} }

	DescribeTable("lets agents of two adjacent releases work together, whichever is the source",
		func(source, destination int, common string) {
			for _, finding := range meet(release(source), release(destination)) {
				Expect(finding.Status).To(Equal(preflight.Pass))
				Expect(finding.Evidence).To(ContainSubstring("speak version " + common + " of the protocol"))
			}
		},
		Entry("the first", 1, 1, "1"),
		Entry("the same", 5, 5, "5"),
		Entry("a newer destination", 4, 5, "4"),
		Entry("a newer source", 5, 4, "4"),
	)

	DescribeTable("holds a migration between agents that do not understand each other, before its first step",
		func(source, destination int) {
			for i, finding := range meet(release(source), release(destination)) {
				Expect(finding.Status).To(Equal(preflight.Fail))
				Expect(finding.Reason).To(Equal(steps.ReasonAgentProtocolsDiffer))
				Expect(finding.Evidence).To(And(ContainSubstring("the agent of seed "+[]string{"seed-a", "seed-b"}[i]+
					" speaks version"), ContainSubstring("not adjacent")))
				Expect(finding.Remedy).To(ContainSubstring("to the same release"))
			}
		},
		Entry("a newer destination", 3, 5),
		Entry("a newer source", 5, 3),
		Entry("the first and the third", 1, 3),
	)

	It("should hold a migration with an agent that has said nothing, or something else", func() {
		w := fit()
		delete(w.Destination.Seed.Annotations, steps.SeedAnnotationProtocols)
		finding := find(preflight.Evaluate(w), steps.AgentProtocol)
		Expect(finding.Status).To(Equal(preflight.Unknown))
		Expect(finding.Evidence).To(ContainSubstring("the agent of seed seed-b has not published what it speaks"))

		w.Destination.Seed.Annotations[steps.SeedAnnotationProtocols] = "all"
		finding = find(preflight.Evaluate(w), steps.AgentProtocol)
		Expect(finding.Status).To(Equal(preflight.Unknown))
		Expect(finding.Evidence).To(ContainSubstring(`"all" names no versions`))
	})

	It("should be left to the agents where none of them asks", func() {
		w := fit()
		w.Protocols = steps.Protocols{}
		Expect(preflight.Evaluate(w)).NotTo(ContainElement(HaveField("Name", steps.AgentProtocol)))
		for _, step := range steps.Table() {
			Expect(preflight.EvaluateStep(w, step)).NotTo(ContainElement(HaveField("Name", steps.AgentProtocol)))
		}
	})
})
