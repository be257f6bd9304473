// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Protocol", func() {
	It("should be spoken in the version of the release before as well, and no release may skip one", func() {
		own := steps.OwnProtocols()
		Expect(own.Newest).To(Equal(steps.Protocol))
		Expect(own.Oldest).To(And(BeNumerically(">=", 1), BeNumerically("<=", max(1, steps.Protocol-1))))
		for version := 1; version <= steps.Protocol; version++ {
			Expect(filepath.Join("testdata", fmt.Sprintf("protocol-%d.txt", version))).To(BeAnExistingFile())
		}
	})

	// What one agent writes and the other acts on. If this differs, agents of the last release do not understand those
	// of this one: raise Protocol, let agents speak the former version with agents that know no other, and let
	// UPDATE_GOLDEN=1 write the file of the new version.
	It("should have the version that belongs to what the agents say to each other", func() {
		var said strings.Builder
		for i, step := range steps.Table() {
			fmt.Fprintf(&said, "step %d %s owner %s point-of-no-return %t\n", i+1, step.Condition, step.Owner,
				step.PointOfNoReturn)
			var asked []string
			for _, work := range step.Work {
				if work.By == step.Owner {
					continue
				}
				for _, reason := range work.Reasons {
					asked = append(asked, string(reason))
				}
			}
			slices.Sort(asked)
			for _, reason := range slices.Compact(asked) {
				fmt.Fprintf(&said, "step %d asks its peer with %s\n", i+1, reason)
			}
		}
		for _, role := range []steps.Role{steps.Source, steps.Destination} {
			fmt.Fprintf(&said, "abort of the %s %s\n", role, steps.AbortOf(role).Condition)
		}
		for _, reason := range []steps.Reason{steps.ReasonAborting, steps.ReasonWithdrawn, steps.ReasonAbandoned,
			steps.ReasonAborted} {
			fmt.Fprintf(&said, "abort reason %s\n", reason)
		}
		for _, annotation := range []string{steps.AnnotationIntent, steps.AnnotationWithGap,
			steps.AnnotationPauseBefore, steps.AnnotationForceShrink, steps.AnnotationAbandon,
			steps.AnnotationLeftBehind, steps.AnnotationConfirmVersions, seedfacts.AnnotationTLSTermination,
			steps.SeedAnnotationProtocols} {
			fmt.Fprintf(&said, "annotation %s\n", annotation)
		}
		fmt.Fprintf(&said, "field manager %s\n", steps.AgentFieldManager)

		file := filepath.Join("testdata", fmt.Sprintf("protocol-%d.txt", steps.Protocol))
		if os.Getenv("UPDATE_GOLDEN") != "" {
			Expect(os.WriteFile(file, []byte(said.String()), 0o644)).To(Succeed())
		}
		kept, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(said.String()).To(Equal(string(kept)))
	})

	DescribeTable("is written as it is read", func(text string, oldest, newest int) {
		protocols, err := steps.ParseProtocols(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(protocols).To(Equal(steps.Protocols{Oldest: oldest, Newest: newest}))
		Expect(protocols.String()).To(Equal(text))
	},
		Entry("one version", "2", 2, 2),
		Entry("several", "1-12", 1, 12),
	)

	DescribeTable("is refused in another form", func(text string) {
		_, err := steps.ParseProtocols(text)
		Expect(err).To(MatchError(ContainSubstring("names no versions of the agents' protocol")))
	},
		Entry("nothing", ""), Entry("a word", "all"), Entry("zero", "0"), Entry("none", "0-1"),
		Entry("backwards", "2-1"),
		Entry("a release", "v0.1.0"), Entry("no end", "1-"), Entry("three", "1-2-3"), Entry("negative", "-1"),
	)

	It("should have nothing in common with none", func() {
		_, ok := steps.Protocols{}.Common(steps.Protocols{})
		Expect(ok).To(BeFalse())
		_, ok = steps.OwnProtocols().Common(steps.Protocols{})
		Expect(ok).To(BeFalse())
	})
})
