// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"context"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/search"
	"github.com/livecpm/livecpm/test/search/protocol"
)

const (
	third   = gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer
	sixth   = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
	seventh = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup
)

// worlds are the models that make test-search explores, by the name that a schedule begins with.
var worlds = map[string]func() *protocol.Model{
	"two requests":            func() *protocol.Model { return &protocol.Model{Requests: 2} },
	"a fault and a request":   func() *protocol.Model { return &protocol.Model{Faults: 1, Requests: 1} },
	"two faults":              func() *protocol.Model { return &protocol.Model{Faults: 2} },
	"two faults and requests": func() *protocol.Model { return &protocol.Model{Faults: 2, Requests: 2} },
	"aborted when overdue":    func() *protocol.Model { return &protocol.Model{Faults: 1, AbortOverdue: true} },
}

// many is the model of the random schedules, walks are these.
func many() *protocol.Model { return &protocol.Model{Faults: 4, Requests: 4, Memory: 50_000} }

func walks() search.Walks {
	return search.Walks{Seed: fromEnvironment("SEED", 1), Events: 60, Faults: 0.2, Calm: 400}
}

// fromEnvironment returns a number of the environment.
func fromEnvironment(name string, otherwise uint64) uint64 {
	GinkgoHelper()
	number, err := search.FromEnvironment(name, otherwise)
	Expect(err).NotTo(HaveOccurred())
	return number
}

var _ = BeforeEach(func() { DeferCleanup(debug.SetGCPercent, debug.SetGCPercent(400)) })

// explore searches the model, prints what it has seen, and returns it.
func explore(model *protocol.Model, bounds search.Bounds) search.Result {
	GinkgoHelper()
	start, err := model.Start()
	Expect(err).NotTo(HaveOccurred())
	result, err := search.Explore(start, bounds)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("%d faults, %d requests: %s\n", model.Faults, model.Requests, result)
	if result.Found == nil {
		GinkgoWriter.Println(model.Figures())
		return result
	}
	after, _ := search.Replay(start, result.Found.Schedule)
	GinkgoWriter.Printf("%s\nwhich leads to\n%s\n", result.Found, after)
	return result
}

var _ = Describe("The protocol of the agents", func() {
	// The searches of a run of the unit tests. make test-search goes farther.
	DescribeTable("should hold whatever happens",
		func(faults, requests int, reasons []steps.Reason, named []string) {
			model := &protocol.Model{Faults: faults, Requests: requests}
			result := explore(model, search.Bounds{})
			Expect(result.Found).NotTo(HaveOccurred())
			Expect(result.Unexpanded).To(BeZero())
			Expect(result.Stuck).To(BeZero())
			Expect(result.Goals).To(And(HaveKey(protocol.GoalSucceeded), HaveKey(protocol.GoalStayed)))
			figures := model.Figures()
			Expect(figures.Longest).To(BeNumerically(">=", 20))
			for _, reason := range reasons {
				Expect(figures.Seen).To(HaveKey(string(reason)), "the search has come there")
			}
			for _, name := range named {
				Expect(figures.Named).To(HaveKey(name), "the search has come there")
			}
		},
		Entry("with one request of a person", 0, 1, []steps.Reason{steps.ReasonPaused, steps.ReasonAborting,
			steps.ReasonWithdrawn, steps.ReasonAborted, steps.ReasonAbandoned, steps.ReasonSourceSilent},
			[]string{"a person resumes", "a person lets the shoot stay"}),
		Entry("with one fault", 1, 0, []steps.Reason{
			steps.ReasonGateNotInForce, steps.ReasonVersionSkew, steps.ReasonSyncFailed,
			steps.ReasonActionFailed, steps.ReasonDeadlineExceeded, steps.ReasonDrainingClients,
			steps.ReasonReadyForSourceMemberRemoval, steps.ReasonSourceControllersStopped,
			steps.ReasonDeletingSourceResources, steps.ReasonSourceAbandoned, steps.ReasonEtcdNotHealthy},
			[]string{"the gate is put back", "a person aborts and abandons the destination",
				"a person abandons the source", "the versions are the same again"}),
	)

	It("should hold in each state of the worlds that are larger", func() {
		if os.Getenv("BOUND") == "" {
			Skip("make test-search does this: BOUND is the number of states of each world")
		}
		for _, name := range slices.Sorted(maps.Keys(worlds)) {
			GinkgoWriter.Println(name)
			result := explore(worlds[name](), search.Bounds{States: int(fromEnvironment("BOUND", 0))})
			if result.Found != nil {
				Fail(search.Replayable(name, result.Found).Error())
			}
		}
	})

	It("should hold in random schedules with many faults and requests", func() {
		// A schedule takes as long as some hundred of those of the membership.
		number := max(4, fromEnvironment("SCHEDULES", 0)/100)
		model, ends := many(), map[string]int{}
		start, err := model.Start()
		Expect(err).NotTo(HaveOccurred())
		for i := range number {
			end, err := walks().Walk(start, i)
			Expect(search.Replayable("many", err)).To(Succeed(), "schedule %d", i)
			ends[end.Goal]++
		}
		GinkgoWriter.Printf("%d schedules, which ended so: %v\n", number, ends)
	})

	It("should be replayed", func() {
		var schedule search.Schedule
		model := many()
		if file := os.Getenv("REPLAY"); file != "" {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			_, name, _ := strings.Cut(strings.Split(string(text), "\n")[0], "# world: ")
			if of := worlds[name]; of != nil {
				model = of()
			} else if name != "many" {
				Skip("the schedule is none of the protocol")
			}
			schedule = search.ParseSchedule(string(text))
		} else {
			start, err := model.Start()
			Expect(err).NotTo(HaveOccurred())
			end, _ := walks().Walk(start, fromEnvironment("SCHEDULE", 0))
			schedule = end.Schedule
		}
		start, err := model.Start()
		Expect(err).NotTo(HaveOccurred())
		for i, name := range schedule {
			after, err := search.Replay(start, schedule[:i+1])
			GinkgoWriter.Printf("%d. %s\n%s\n\n", i+1, name, after)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(schedule).NotTo(BeEmpty())
	})
})

var _ = Describe("The search", func() {
	find := func(model *protocol.Model, problem string) {
		GinkgoHelper()
		result := explore(model, search.Bounds{})
		Expect(result.Found).To(MatchError(ContainSubstring(problem)))

		start, err := model.Start()
		Expect(err).NotTo(HaveOccurred())
		printed := result.Found.Schedule.String()
		if _, err = search.Replay(start, search.ParseSchedule(printed)); strings.HasPrefix(problem, "no way") {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(Equal(result.Found), "the schedule shows the same again")
	}
	// before lets something happen before what the role does in the step.
	before := func(
		role steps.Role, step gardencorev1beta1.ConditionType,
		what func(context.Context, *protocol.Seeds, *migration.Migration) (steps.Outcome, error),
	) func(*protocol.Seeds, map[steps.Role]migration.Actions) {
		return func(seeds *protocol.Seeds, actions map[steps.Role]migration.Actions) {
			work := actions[role].Steps
			if owner, _ := steps.Get(step); owner.Owner != role {
				work = actions[role].Assists
			}
			real := work[step]
			work[step] = migration.ActionFunc(
				func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
					if outcome, err := what(ctx, seeds, m); err != nil || outcome.Reason != "" {
						return outcome, err
					}
					return real.Run(ctx, m)
				})
		}
	}

	It("should find a role that writes a condition of its peer", func() {
		find(&protocol.Model{Alter: before(steps.Destination, seventh,
			func(ctx context.Context, seeds *protocol.Seeds, _ *migration.Migration) (steps.Outcome, error) {
				return steps.Outcome{}, seeds.Write(ctx, func(shoot *gardencorev1beta1.Shoot) {
					all := shoot.Status.LiveMigration.Conditions
					i := slices.IndexFunc(all, func(c gardencorev1beta1.Condition) bool { return c.Type == seventh })
					all[i].Status = gardencorev1beta1.ConditionTrue
				})
			})}, "the destination has written condition SourceSeedCleanup of the source")
	})

	It("should find a component that acts in both seeds", func() {
		find(&protocol.Model{Alter: before(steps.Destination, sixth,
			func(_ context.Context, seeds *protocol.Seeds, _ *migration.Migration) (steps.Outcome, error) {
				return steps.Outcome{}, seeds.Run(steps.Destination, steps.KubeControllerManager)
			})}, "kube-controller-manager was at work in both seeds at the same time")
	})

	It("should find a kube-apiserver that stops while DNS leads to it", func() {
		find(&protocol.Model{Alter: before(steps.Source, third,
			func(_ context.Context, seeds *protocol.Seeds, _ *migration.Migration) (steps.Outcome, error) {
				return steps.Outcome{}, seeds.Stop(steps.Source, steps.KubeAPIServer)
			})}, "DNS leads to seed-a, where no kube-apiserver can serve")
	})

	It("should find a step that never ends, and for which nobody is asked for anything", func() {
		find(&protocol.Model{Alter: before(steps.Source, third,
			func(context.Context, *protocol.Seeds, *migration.Migration) (steps.Outcome, error) {
				return steps.Waiting(0, steps.ReasonMigratingExtensions, "waiting"), nil
			})}, "no way leads from here to an end")
	})

	It("should find an agent that does not ask for the gate", func() {
		find(&protocol.Model{AlterAgent: func(options *agent.Options) { options.Gate = openGate{} }},
			"although the gate was not proved in this pass")
	})

	DescribeTable("should find a gate that lacks a rule",
		func(rule, problem string) {
			shipped, err := gatewatchdog.Shipped()
			Expect(err).NotTo(HaveOccurred())
			kept := len(shipped.Policy.Spec.Validations)
			shipped.Policy.Spec.Validations = slices.DeleteFunc(shipped.Policy.Spec.Validations,
				func(validation admissionregistrationv1.Validation) bool {
					return strings.Contains(validation.Message, rule)
				})
			Expect(shipped.Policy.Spec.Validations).To(HaveLen(kept - 1))
			policy, err := protocol.NewPolicy(shipped.Policy)
			Expect(err).NotTo(HaveOccurred())
			find(&protocol.Model{Policy: policy, Requests: 1}, problem)
		},
		Entry("for the classic migration", "the constraint ReadyForMigration must not be True",
			"the gate lets the classic migration start"),
		Entry("for aborts", "the live migration cannot be aborted any more",
			"the gate takes a request for an abort: true; the agents would carry it out: false"),
		Entry("for deletions", "must not be deleted while", "the gate lets the Shoot be deleted"),
	)
})

// openGate is always taken for closed.
type openGate struct{}

func (openGate) Prove(context.Context, *gardencorev1beta1.Shoot) error { return nil }

var _ = Describe("The policy of the search", func() {
	It("should depend on nothing that the search leaves out of its memory of verdicts", func() {
		shipped, err := gatewatchdog.Shipped()
		Expect(err).NotTo(HaveOccurred())
		for _, text := range []func() []string{
			func() (out []string) {
				for _, variable := range shipped.Policy.Spec.Variables {
					out = append(out, variable.Expression)
				}
				return out
			},
			func() (out []string) {
				for _, validation := range shipped.Policy.Spec.Validations {
					out = append(out, validation.Expression)
				}
				return out
			},
		} {
			for _, expression := range text() {
				for _, left := range []string{
					"message", "Time", "lastOperation", "eneration", "resourceVersion", "uid", "labels",
				} {
					Expect(expression).NotTo(ContainSubstring(left))
				}
			}
		}
	})
})
