// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// expecting returns the world with what is expected of its migration.
func expecting(name string) summary.ControlPlane {
	GinkgoHelper()
	w := load[summary.ControlPlane]("worlds", name)
	now := w.Now.Time
	w.Expected = expected.Of(summary.Summarize(w.Shoot, now), expected.Facts{TTL: 30 * time.Second}, now)
	return w
}

var _ = Describe("expected times", func() {
	for _, name := range []string{"requested", "joining", "paused", "waiting", "moving", "overdue"} {
		It("should be in the tree of "+name, func() {
			w := expecting(name)
			Expect(w.Expected).NotTo(BeNil())
			expectGolden("tree-expected-"+name, view.Tree(w, view.Options{}))
			for _, width := range []int{40, 60, 80, 120} {
				for line := range strings.Lines(view.Tree(w, view.Options{Width: width})) {
					Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", width), line)
				}
			}
		})
	}

	DescribeTable("the current step", func(name, seed string, age time.Duration, expected string) {
		w := load[summary.ControlPlane]("worlds", name)
		for i := range w.Seeds {
			w.Seeds[i].Agent = &summary.Agent{}
			if w.Seeds[i].Name == seed {
				w.Seeds[i].Agent.Led = new(metav1.NewTime(w.Now.Add(-age)))
			}
		}
		if expected == "" {
			Expect(view.Steps(w, view.Options{})).NotTo(ContainSubstring("No agent"))
			return
		}
		Expect(view.Steps(w, view.Options{})).To(ContainSubstring(expected))
	},
		Entry("should say that nobody continues it", "joining", "seed-b", 2*time.Minute,
			"No agent has led in seed seed-b, which owns this step, for 2m."),
		Entry("should not wait for the other seed", "joining", "seed-a", time.Hour, ""),
		Entry("should leave an agent the time to restart", "joining", "seed-b", 50*time.Second, ""),
		Entry("should need nobody when it is over", "succeeded", "seed-b", time.Hour, ""),
	)

	DescribeTable("basis", func(expected string, bases ...summary.Basis) {
		all := make([]view.PlannedStep, 0, len(bases))
		for _, basis := range bases {
			all = append(all, view.PlannedStep{Basis: basis})
		}
		Expect(view.Basis(all)).To(Equal(expected))
	},
		Entry("of all", "as in past migrations of this shoot", summary.BasisShoot, summary.BasisShoot),
		Entry("of none", "as on the landscape of the repository, because no migration is recorded here",
			summary.BasisBenchmark, summary.BasisBenchmark),
		Entry("of all but one that was held in each", "as in past migrations of this shoot; step 1 as on the "+
			"landscape of the repository", summary.BasisBenchmark, summary.BasisShoot, summary.BasisShoot),
		Entry("of several", "as in past migrations between these seeds; steps 1, 3 as in past migrations of this "+
			"garden", summary.BasisGarden, summary.BasisSeeds, summary.BasisGarden),
	)

	It("should be in the list, and in no world that is over", func() {
		var all []summary.Summary
		w := summary.ControlPlane{}
		for _, name := range names("worlds") {
			w = expecting(name)
			s := view.Summary(w)
			s.Name = name
			Expect(s.Expected == nil).To(Equal(s.State.Final() || s.State == summary.Aborting), name)
			all = append(all, s)
		}
		expectGolden("list-expected", view.List(all, w.Now.Time, view.Options{}))
	})

	It("should be in the lines of a migration that is followed, as in the tree", func() {
		w := expecting("moving")
		var out strings.Builder
		changes := view.Changes(&out, view.Options{})
		changes(w)
		Expect(out.String()).To(ContainSubstring("garden-demo/live Processing %d %% EtcdMigrationComplete",
			w.Expected.Progress))
		written := out.String()
		w.Expected.Progress++
		changes(w)
		Expect(out.String()).To(Equal(written), "time that passes is no change")
	})

	DescribeTable("should be rounded to what anybody can know", func(d time.Duration, expected string) {
		Expect(view.About(d)).To(Equal(expected))
	},
		Entry("nothing", time.Duration(0), "~5s"),
		Entry("seconds", 58*time.Second, "~1m"),
		Entry("some seconds", 52*time.Second, "~50s"),
		Entry("minutes", 200*time.Second, "~3m30s"),
		Entry("many minutes", 12*time.Minute+20*time.Second, "~12m"),
		Entry("hours", 61*time.Minute, "~1h1m"),
	)

	DescribeTable("should say how much is left", func(e *summary.Expectation, state summary.State, expected string) {
		Expect(view.Left(summary.Summary{State: state, Expected: e})).To(Equal(expected))
	},
		Entry("nothing known", nil, summary.Processing, ""),
		Entry("at work", &summary.Expectation{RemainingSeconds: 240}, summary.Processing, "~4m left"),
		Entry("held", &summary.Expectation{RemainingSeconds: 240}, summary.Held, "~4m left when it resumes"),
		Entry("late", &summary.Expectation{RemainingSeconds: 240, Late: true}, summary.Processing,
			"more than ~4m left"),
		Entry("late in the last step", &summary.Expectation{Late: true}, summary.Processing, "longer than expected"),
	)
})
