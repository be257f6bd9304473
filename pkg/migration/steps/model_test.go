// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// constants returns the values of the constants of a type in the files of this package, by their names. What a type of
// strings holds is known to the source only.
func constants(typeName string) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, name := range files(".") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if ident, ok := spec.Type.(*ast.Ident); !ok || ident.Name != typeName {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			Expect(ok).To(BeTrue(), "%s is not a literal", spec.Names[0].Name)
			value, err := strconv.Unquote(literal.Value)
			Expect(err).NotTo(HaveOccurred())
			out[spec.Names[0].Name] = value
			return true
		})
	}
	Expect(out).NotTo(BeEmpty(), "no constants of type %s", typeName)
	return out
}

// files returns the names of the Go files of a folder that are no tests.
func files(folder string) []string {
	GinkgoHelper()
	entries, err := os.ReadDir(folder)
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".go") && !strings.HasSuffix(entry.Name(), "_test.go") {
			out = append(out, entry.Name())
		}
	}
	return out
}

var _ = Describe("A step", func() {
	all := append(steps.Table(), steps.AbortTable()...)

	It("should say what is done in it, by whom, and how its condition shows that", func() {
		for _, step := range all {
			Expect(step.Work).NotTo(BeEmpty(), step.Title)
			asks := 0
			for _, work := range step.Work {
				what := step.Title + ": " + work.Title
				Expect(work.Title).NotTo(BeEmpty(), step.Title)
				Expect(work.Reasons).NotTo(BeEmpty(), what)
				Expect(work.By).To(BeElementOf(steps.Source, steps.Destination), what)
				if work.Asks == "" {
					Expect(work.By).To(Equal(step.Owner), "%s: nobody asks the %s", what, work.By)
					continue
				}
				asks++
				Expect(work.By).To(Equal(step.Owner.Peer()), "%s: the owner need not ask itself", what)
				Expect(work.Reasons).To(ContainElement(work.Asks), what)
				Expect(step.AsksWith(work.Asks)).To(BeTrue(), what)
			}
			if asks > 0 {
				Expect(step.Asks()).NotTo(BeEmpty(), step.Title)
			} else {
				Expect(step.Asks()).To(BeEmpty(), step.Title)
			}
			Expect(step.AsksWith("")).To(BeFalse(), step.Title)
		}
	})

	It("should let a peer begin before its turn only what it owns next, at no cost for an abort", func() {
		ahead := 0
		for i, step := range steps.Table() {
			for _, work := range step.Work {
				if work.Ahead == "" {
					continue
				}
				ahead++
				what := step.Title + ": " + work.Title
				own, found := step.Ahead(work.Asks)
				Expect(found).To(BeTrue(), what)
				Expect(own).To(HaveField("Condition", steps.Table()[i+1].Condition), what)
				Expect(own.Owner).To(Equal(work.By), what)
				Expect(own).To(And(HaveField("Entry", true), HaveField("Abortable", true)), what)
				Expect(step.Abortable).To(BeTrue(), what)
				for _, other := range step.Asks() {
					Expect(other).To(Equal(work.Asks), "%s: the reason that stays would hide another one", what)
				}
			}
		}
		Expect(ahead).To(Equal(1))
		_, found := steps.Table()[5].Ahead(steps.ReasonReadyForSourceMemberRemoval)
		Expect(found).To(BeFalse(), "an ordinary part is none of that kind")
	})

	It("should say of the parts that depend on the shoot when they are done", func() {
		known := []steps.When{steps.Always, steps.WithWorkers, steps.WhenForced, steps.UnlessForced,
			steps.OnlyMembers, steps.SinceExtensions, steps.SinceKubeAPIServer, steps.SinceDNSRecords}
		forced, unlessForced := []string{}, []string{}
		for _, step := range all {
			for _, work := range step.Work {
				Expect(known).To(ContainElement(work.When), "%s: %s", step.Title, work.Title)
				switch work.When {
				case steps.WhenForced:
					forced = append(forced, work.Title)
				case steps.UnlessForced:
					unlessForced = append(unlessForced, work.Title)
				}
			}
		}
		Expect(forced).NotTo(BeEmpty())
		Expect(forced).To(Equal(unlessForced), "what is done early is not done again")
	})

	It("should name every transfer of leadership", func() {
		transfers := map[string]int{}
		for _, step := range all {
			for _, work := range step.Work {
				if strings.HasPrefix(work.Title, "Transfer leadership") {
					transfers[step.Title]++
				}
			}
		}
		table := steps.Table()
		Expect(transfers).To(Equal(map[string]int{table[3].Title: 2, table[5].Title: 2,
			table[7].Title: 2, steps.AbortOf(steps.Destination).Title: 1}))
	})

	It("should be struck by the fault suite where its condition says so", func() {
		for _, step := range steps.Table() {
			shown := []steps.Reason{steps.ReasonStarted}
			for _, work := range step.Work {
				shown = append(shown, work.Reasons...)
			}
			Expect(step.Midst.Reasons).NotTo(BeEmpty(), step.String())
			for _, reason := range step.Midst.Reasons {
				Expect(shown).To(ContainElement(reason), "%s never shows %s", step, reason)
			}
		}
	})

	It("should say of every check and of every set of components what it does, "+
		"unless it is a step of an abort", func() {
		checks := slices.Collect(maps.Values(constants("Check")))
		components := slices.Collect(maps.Values(constants("Components")))
		for _, step := range steps.Table() {
			for check, guard := range step.Guards {
				Expect(checks).To(ContainElement(string(check)), step.String())
				Expect(guard.Effect).To(BeElementOf(steps.Holds, steps.Warns), "%s of %s", check, step)
			}
			Expect(step.Ownership).To(HaveLen(len(components)), step.String())
			for _, name := range components {
				Expect(step.Ownership).To(HaveKey(steps.Components(name)), step.String())
			}
		}
		for _, step := range steps.AbortTable() {
			Expect(step.Guards).To(BeEmpty(), step.Title)
		}
	})

	It("should be abortable up to one of them, before the point of no return", func() {
		last := steps.Index(steps.LastAbortable().Condition)
		for i, step := range steps.Table() {
			Expect(step.Abortable).To(Equal(i <= last), step.String())
			if step.PointOfNoReturn {
				Expect(i).To(BeNumerically(">", last))
			}
		}
	})

	It("should be the only place of what marks it", func() {
		entries, pointsOfNoReturn, handOvers := map[steps.Role]int{}, 0, 0
		for _, step := range steps.Table() {
			if step.Entry {
				entries[step.Owner]++
			}
			if step.PointOfNoReturn {
				pointsOfNoReturn++
			}
			if step.HandsOver {
				handOvers++
				Expect(step.Condition).To(Equal(steps.Last().Condition))
				Expect(step.Owner).To(Equal(steps.Destination))
			}
			Expect(step.Finish).To(Equal(steps.Finish{
				Status: gardencorev1beta1.ConditionTrue, Reason: steps.ReasonCompleted,
			}), step.String())
		}
		Expect(entries).To(Equal(map[steps.Role]int{steps.Source: 1, steps.Destination: 1}))
		Expect(pointsOfNoReturn).To(Equal(1))
		Expect(handOvers).To(Equal(1))
		for _, step := range steps.AbortTable() {
			Expect(step.Finish.Status).To(Equal(gardencorev1beta1.ConditionFalse), step.Title)
			Expect(step.Condition).To(Equal(entryOf(step.Owner).Condition),
				"an abort shows in the first condition of the role")
			Expect(steps.AbortOf(step.Owner).Title).To(Equal(step.Title))
		}
	})

	It("should have a file of its own, which says its number", func() {
		Expect(files(".")).To(ContainElement("abort.go"))
		for i := range steps.Table() {
			prefix := strconv.Itoa(i+1) + "_"
			Expect(slices.DeleteFunc(files("."), func(name string) bool { return !strings.HasPrefix(name, prefix) })).
				To(HaveLen(1), prefix)
		}
	})
})

var _ = DescribeTable("A step is finished", func(step steps.Step, status gardencorev1beta1.ConditionStatus,
	reason steps.Reason, finished bool,
) {
	conditions := []gardencorev1beta1.Condition{
		{Type: "Other", Status: step.Finish.Status, Reason: string(step.Finish.Reason)},
	}
	Expect(step.Finished(conditions)).To(BeFalse(), "without its condition")
	conditions = append(conditions,
		gardencorev1beta1.Condition{Type: step.Condition, Status: status, Reason: string(reason)})
	Expect(step.Finished(conditions)).To(Equal(finished))
},
	Entry("when its condition is True", steps.First(), gardencorev1beta1.ConditionTrue, steps.ReasonCompleted, true),
	Entry("not while it is at work", steps.First(), gardencorev1beta1.ConditionProgressing, steps.ReasonCompleted,
		false),
	Entry("not before it has begun", steps.First(), gardencorev1beta1.ConditionUnknown, steps.ReasonPending, false),
	Entry("not when it is late", steps.First(), gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded, false),
	Entry("of an abort, by its reason", steps.AbortOf(steps.Source), gardencorev1beta1.ConditionFalse,
		steps.ReasonAborted, true),
	Entry("of an abort, not while it is at work", steps.AbortOf(steps.Source), gardencorev1beta1.ConditionFalse,
		steps.ReasonAborting, false),
	Entry("of an abort, not by the other role's reason", steps.AbortOf(steps.Destination),
		gardencorev1beta1.ConditionFalse, steps.ReasonAborted, false),
	Entry("of an abort, not when the step of the migration is finished", steps.AbortOf(steps.Destination),
		gardencorev1beta1.ConditionTrue, steps.ReasonWithdrawn, false),
)

func entryOf(role steps.Role) steps.Step {
	for _, step := range steps.Table() {
		if step.Entry && step.Owner == role {
			return step
		}
	}
	return steps.Step{}
}

// The roles and what they call may publish only what the model knows: the page of a step, the plan and the moments of
// the fault suite come from there.
var _ = Describe("A reason", func() {
	It("should belong to the work of a step, to every step that looks at the etcds, or to the frame", func() {
		known := map[steps.Reason]bool{}
		for _, step := range append(steps.Table(), steps.AbortTable()...) {
			for _, work := range step.Work {
				for _, reason := range work.Reasons {
					known[reason] = true
				}
			}
			known[step.Finish.Reason] = true
		}
		// What the frame writes around every action, and what a look at the joint cluster may find in any step.
		for _, reason := range []steps.Reason{
			steps.ReasonPending, steps.ReasonStarted, steps.ReasonPaused, steps.ReasonPrerequisitesUnknown,
			steps.ReasonVersionSkew, steps.ReasonWaitingForSourceEtcd, steps.ReasonWaitingForEtcdMember,
			steps.ReasonAbandoned, steps.ReasonSourceAbandoned,
		} {
			known[reason] = true
		}
		for name, value := range constants("Reason") {
			reason := steps.Reason(value)
			Expect(known[reason] || reason.Fault() || reason.Hold()).To(BeTrue(),
				"%s: name it in the work of the step that shows it", name)
		}
	})

	It("should be published by the role whose step it belongs to", func() {
		names := constants("Reason")
		for role, folder := range map[steps.Role]string{
			steps.Source: "../../agent/source", steps.Destination: "../../agent/destination",
		} {
			mine := map[steps.Reason]bool{}
			for _, step := range append(steps.Table(), steps.AbortTable()...) {
				for _, work := range step.Work {
					if step.Owner != role && work.By != role {
						continue
					}
					for _, reason := range work.Reasons {
						mine[reason] = true
					}
				}
			}
			for _, name := range files(folder) {
				file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, 0)
				Expect(err).NotTo(HaveOccurred())
				ast.Inspect(file, func(n ast.Node) bool {
					selector, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if from, ok := selector.X.(*ast.Ident); !ok || from.Name != "steps" {
						return true
					}
					value, ok := names[selector.Sel.Name]
					if !ok {
						return true
					}
					reason := steps.Reason(value)
					general := reason.Fault() || reason.Hold() || reason == steps.ReasonStarted ||
						reason == steps.ReasonWaitingForEtcdMember || reason == steps.ReasonWaitingForSourceEtcd
					Expect(general || mine[reason]).To(BeTrue(), "%s/%s publishes %s, which is no work of the %s",
						folder, name, reason, role)
					return true
				})
			}
		}
	})
})

var _ = Describe("The annotations of a migration", func() {
	It("should all be removed when it is over, and no other", func() {
		shoot := &gardencorev1beta1.Shoot{}
		shoot.Annotations = map[string]string{
			steps.AnnotationIntent: "", steps.AnnotationWithGap: "", steps.AnnotationPauseBefore: "",
			steps.AnnotationForceShrink: "", steps.AnnotationAbort: "", steps.AnnotationAbandon: "",
			steps.AnnotationDeleteFormerBackups: "", steps.AnnotationConfirmVersions: "",
			steps.AnnotationDeadline: "", steps.AnnotationOverdue: "",
			steps.AnnotationSourceRevision: "", steps.AnnotationAbandonSource: "",
			steps.AnnotationRequestedBy: "", steps.AnnotationSourceClients: "",
			"own": "kept",
			// What is left in another seed is not over with the migration.
			steps.AnnotationLeftBehind: "kept",
			// What users want is not either.
			steps.AnnotationWithWorkers: "kept",
		}
		names := 0
		for _, name := range files(".") {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			Expect(err).NotTo(HaveOccurred())
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Annotation") {
					names++
				}
				return true
			})
		}
		Expect(shoot.Annotations).To(HaveLen(names+1), "the test knows all of them")
		steps.RemoveAnnotations(shoot)
		Expect(shoot.Annotations).To(Equal(map[string]string{"own": "kept",
			steps.AnnotationLeftBehind: "kept", steps.AnnotationWithWorkers: "kept"}))
	})
})
