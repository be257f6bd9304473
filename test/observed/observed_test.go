// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/observed"
)

const (
	unknown     = gardencorev1beta1.ConditionUnknown
	progressing = gardencorev1beta1.ConditionProgressing
	done        = gardencorev1beta1.ConditionTrue
	overdue     = gardencorev1beta1.ConditionFalse
)

// stepSeconds is how long each step of a world takes.
const stepSeconds = 100

var triggered = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// in returns so many seconds after the beginning of the step with the number.
func in(step, second int) time.Time {
	return triggered.Add(time.Duration((step-1)*stepSeconds+second) * time.Second)
}

func says(step, second int, status gardencorev1beta1.ConditionStatus, reason steps.Reason) recording.Transition {
	return recording.Transition{Time: in(step, second), Condition: steps.Table()[step-1].Condition, Status: status,
		Reason: string(reason)}
}

// course returns the transitions of the first steps, without those of a force-shrink unless it is asked for.
func course(number int, skip steps.When) []recording.Transition {
	var transitions []recording.Transition
	for i, step := range steps.Table()[:number] {
		transitions = append(transitions, says(i+1, 1, unknown, steps.ReasonPaused),
			says(i+1, 2, progressing, steps.ReasonStarted))
		for _, work := range step.Work {
			if work.When == skip {
				continue
			}
			for _, reason := range work.Reasons {
				transitions = append(transitions, says(i+1, 3, progressing, reason))
			}
		}
		transitions = append(transitions, says(i+1, 99, done, steps.ReasonCompleted))
	}
	return transitions
}

// list is a member list: s0 to s2 are voters of the source, d0 to d2 of the destination, a star makes them learners,
// and a question mark stands for one that was added and has not started.
func list(at time.Time, members ...string) recording.Members {
	l := recording.Members{Time: at, ClusterID: 7}
	for _, member := range members {
		if member == "?" {
			l.Members = append(l.Members, recording.Member{Name: "unstarted-abc", Learner: true})
			continue
		}
		seed := map[byte]string{'s': "seed-a", 'd': "seed-b", 'x': "seed-c"}[member[0]]
		l.Members = append(l.Members, recording.Member{Name: fmt.Sprintf("%s-etcd-main-%c", seed, member[1]),
			Learner: len(member) > 2})
	}
	return l
}

// moves are the member lists of a migration whose last members move in the step.
func moves(step int) []recording.Members {
	return []recording.Members{
		list(triggered.Add(-time.Minute), "s0", "s1", "s2"),
		list(in(2, 10), "s0", "s1", "s2", "?"), list(in(2, 11), "s0", "s1", "s2", "d0*"),
		list(in(2, 12), "s0", "s1", "s2", "d0"), list(in(2, 13), "s0", "s1", "s2", "d0", "d1*"),
		list(in(2, 14), "s0", "s1", "s2", "d0", "d1"),
		list(in(step, 50), "s0", "s1", "s2", "d0", "d1", "d2*"),
		list(in(step, 51), "s0", "s1", "s2", "d0", "d1", "d2"),
		list(in(step, 60), "s0", "s1", "d0", "d1", "d2"), list(in(step, 70), "d0", "d1", "d2"),
	}
}

func changed(at time.Time, from, to string) recording.RecordChange {
	change := recording.RecordChange{Time: at, Name: "api.live.", Type: "A", Old: []string{from}}
	if to != "" {
		change.New = []string{to}
	}
	return change
}

func good() observed.Migration {
	m := observed.Migration{
		Source: "seed-a", Destination: "seed-b", Triggered: triggered,
		Transitions: course(len(steps.Table()), steps.WhenForced),
		Etcd:        map[string][]recording.Members{"main": moves(6)},
		DNS:         []recording.RecordChange{changed(in(6, 10), "10.0.0.1", "10.0.0.2")},
	}
	for _, step := range steps.Table() {
		m.Steps = append(m.Steps, recording.Step{Condition: step.Condition, Seconds: stepSeconds})
	}
	return m
}

var _ = Describe("A migration that was seen", func() {
	It("should follow the model", func() { Expect(good().Violations()).To(BeEmpty()) })

	It("should follow it with a force-shrink", func() {
		m := good()
		m.Transitions = course(len(steps.Table()), steps.UnlessForced)
		m.Etcd["main"] = moves(4)
		Expect(m.Violations()).To(BeEmpty())
	})

	It("should follow it if little of it was seen", func() {
		m := good()
		m.Transitions = slices.DeleteFunc(m.Transitions, func(t recording.Transition) bool { return t.Status != done })
		m.Etcd["main"] = []recording.Members{m.Etcd["main"][0], list(in(2, 90), "s0", "s1", "s2", "d0", "d1"),
			list(in(6, 90), "d0", "d1", "d2")}
		m.DNS = nil
		Expect(m.Violations()).To(BeEmpty())
	})

	It("should follow it if it came not to its end", func() {
		m := good()
		m.Transitions = append(course(5, steps.WhenForced), says(6, 5, progressing, steps.ReasonStarted),
			says(6, 6, progressing, steps.ReasonQuorumLost))
		m.Steps = m.Steps[:5]
		m.Etcd["main"] = m.Etcd["main"][:8]
		Expect(m.Violations()).To(BeEmpty())
	})

	It("should follow it if the demo has seen the conditions late", func() {
		m := good()
		m.Steps[0].Seconds += 60
		Expect(m.Violations()).To(BeEmpty())
	})

	It("should follow it past a deadline", func() {
		m := good()
		i := slices.Index(m.Transitions, says(3, 99, done, steps.ReasonCompleted))
		m.Transitions = slices.Insert(m.Transitions, i, says(3, 90, overdue, steps.ReasonDeadlineExceeded))
		Expect(m.Violations()).To(BeEmpty())
		m.Transitions = []recording.Transition{says(1, 90, overdue, steps.ReasonDeadlineExceeded)}
		Expect(m.Violations()).To(BeEmpty(), "nobody has seen that it was Progressing")
	})

	It("should follow it back", func() {
		m := good()
		m.Steps = m.Steps[:2]
		m.Transitions = append(course(2, steps.WhenForced), says(2, 120, progressing, steps.ReasonAborting),
			says(2, 140, overdue, steps.ReasonWithdrawn), says(1, 150, progressing, steps.ReasonWaitingForSourceEtcd),
			says(1, 160, overdue, steps.ReasonAborted))
		m.Etcd["main"] = append(m.Etcd["main"][:6:6], list(in(2, 130), "s0", "s1", "s2", "d0"),
			list(in(2, 135), "s0", "s1", "s2"))
		m.DNS = nil
		Expect(m.Violations()).To(BeEmpty())
		m.Etcd["main"] = append(m.Etcd["main"], list(in(2, 136), "s0", "s1"))
		Expect(m.Violations()).To(HaveExactElements(
			ContainSubstring("voter seed-a-etcd-main-2 of the source has left etcd-main at 00:03:56.000, in a " +
				"migration that is aborted")))
	})

	It("should follow it as it was recorded for the report", func() {
		folder := filepath.Join("..", "..", "pkg", "proof", "report", "testdata")
		var (
			report  recording.Recording
			details recording.Details
		)
		for name, into := range map[string]any{"report.json": &report, "details.json": &details} {
			data, err := os.ReadFile(filepath.Join(folder, name))
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(data, into)).To(Succeed())
		}
		Expect(details.Etcd["main"]).To(HaveLen(13))
		// It is from before the conditions were recorded.
		Expect(observed.Of(&report, &details).Violations()).
			To(HaveExactElements(ContainSubstring("nobody has recorded")))
		details.Etcd["main"][10].Time = details.Etcd["main"][6].Time
		Expect(observed.Of(&report, &details).Violations()).To(HaveLen(2))
	})

	It("should not be compared without its conditions", func() {
		m := good()
		m.Transitions = nil
		Expect(m.Violations()).To(HaveExactElements(ContainSubstring("nobody has recorded what the conditions said")))
	})

	DescribeTable("should not", func(change func(*observed.Migration), violation string) {
		m := good()
		change(&m)
		Expect(m.Violations()).To(ContainElement(ContainSubstring(violation)))
	},
		Entry("begin a step before the one before it is finished", func(m *observed.Migration) {
			m.Transitions = append(course(2, steps.WhenForced), says(4, 1, progressing, steps.ReasonStarted))
		}, "condition DestinationKubeAPIServerReady cannot become Progressing: the current step is "+
			"MigrateExtensionsNeededBeforeKubeAPIServer, but it was seen at 00:05:01.000"),
		Entry("take back a step that is finished", func(m *observed.Migration) {
			m.Transitions = append(course(2, steps.WhenForced), says(2, 99, progressing, steps.ReasonStarted))
		}, "condition DestinationEtcdPeersJoined cannot become Progressing: the current step is"),
		Entry("forget that a deadline has passed", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{says(1, 1, overdue, steps.ReasonDeadlineExceeded),
				says(1, 2, progressing, steps.ReasonPersistingShootState)}
		}, "condition SourceEtcdPreparedForPeerJoin cannot go from False to Progressing"),
		Entry("stop having begun", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{says(1, 1, progressing, steps.ReasonStarted),
				says(1, 2, unknown, steps.ReasonPaused)}
		}, "condition SourceEtcdPreparedForPeerJoin cannot go from Progressing to Unknown"),
		Entry("say what belongs to another step", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{says(1, 1, progressing, steps.ReasonRollingEtcd)}
		}, "condition SourceEtcdPreparedForPeerJoin has no reason RollingEtcd while it is Progressing"),
		Entry("pause in the middle of a step", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{says(1, 1, progressing, steps.ReasonPaused)}
		}, "has no reason Paused while it is Progressing"),
		Entry("finish without being completed", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{says(1, 1, done, steps.ReasonStarted)}
		}, "has no reason Started while it is True"),
		Entry("record what is no step", func(m *observed.Migration) {
			m.Transitions = []recording.Transition{{Condition: "Dance", Status: done}}
		}, "condition Dance is that of no step"),
		Entry("be aborted when there is no way back", func(m *observed.Migration) {
			m.Transitions = append(course(5, steps.WhenForced),
				says(6, 1, progressing, steps.ReasonSwitchingDNSRecords),
				says(2, 500, progressing, steps.ReasonAborting))
		}, "the migration is aborted (DestinationEtcdPeersJoined says Aborting) although the current step is "+
			"EtcdMigrationComplete"),
		Entry("be restored before the destination has withdrawn", func(m *observed.Migration) {
			m.Transitions = append(course(2, steps.WhenForced), says(2, 120, progressing, steps.ReasonAborting),
				says(1, 160, overdue, steps.ReasonAborted))
		}, "cannot complete the abort: the destination has not withdrawn yet"),
		Entry("finish a step in an abort", func(m *observed.Migration) {
			m.Transitions = append(course(2, steps.WhenForced), says(2, 120, progressing, steps.ReasonAborting),
				says(3, 1, done, steps.ReasonCompleted))
		}, "becomes True in an abort"),

		Entry("become another cluster", func(m *observed.Migration) { m.Etcd["main"][3].ClusterID = 8 },
			"etcd-main is another cluster: 8 instead of 7"),
		Entry("begin with a learner", func(m *observed.Migration) { m.Etcd["main"][0].Members[0].Learner = true },
			"etcd-main begins with other members than voters of seed-a"),
		Entry("end with members of the source", func(m *observed.Migration) { m.Etcd["main"] = m.Etcd["main"][:9] },
			"etcd-main ends with other members than the 3 voters of seed-b"),
		Entry("have members of a third seed", func(m *observed.Migration) {
			m.Etcd["main"][4] = list(in(2, 13), "s0", "s1", "s2", "d0", "x1*")
		}, "etcd-main has member seed-c-etcd-main-1, which is of neither seed"),
		Entry("have two learners", func(m *observed.Migration) {
			m.Etcd["main"][4] = list(in(2, 13), "s0", "s1", "s2", "d0*", "d1*")
		}, "etcd-main has 2 learners at once"),
		Entry("have seven members", func(m *observed.Migration) {
			m.Etcd["main"][7] = list(in(6, 51), "s0", "s1", "s2", "d0", "d1", "d2", "d3")
		}, "etcd-main has 7 members"),
		Entry("make a voter a learner", func(m *observed.Migration) {
			m.Etcd["main"][4] = list(in(2, 13), "s0", "s1", "s2", "d0*")
		}, "member seed-b-etcd-main-0 of etcd-main was a voter and has become a learner"),
		Entry("let a member of the source join", func(m *observed.Migration) {
			m.Etcd["main"] = append(m.Etcd["main"], list(in(6, 71), "d0", "d1", "d2", "s0"))
		}, "member seed-a-etcd-main-0 of the source has joined etcd-main at"),
		Entry("let members join in another step", func(m *observed.Migration) {
			for i := range m.Etcd["main"][1:6] {
				m.Etcd["main"][i+1].Time = in(4, 50)
			}
		}, "member seed-b-etcd-main-0 has joined etcd-main at 00:05:50.000, in a step in which none joins"),
		Entry("let a voter of the destination leave", func(m *observed.Migration) {
			m.Etcd["main"] = append(m.Etcd["main"], list(in(6, 80), "d0", "d1"))
		}, "voter seed-b-etcd-main-2 of the destination has left etcd-main"),
		Entry("let a voter of the source leave before the destination has all of its own",
			func(m *observed.Migration) {
				m.Etcd["main"][6] = list(in(6, 50), "s0", "s1", "d0", "d1", "d2*")
			}, "voter seed-a-etcd-main-2 of the source has left etcd-main at 00:09:10.000, when the destination had 2 "+
				"voters"),
		Entry("let members leave in another step", func(m *observed.Migration) {
			m.Etcd["main"][9].Time = in(8, 50)
		}, "voter seed-a-etcd-main-0 has left etcd-main at 00:12:30.000, in a step in which none leaves"),
		Entry("shrink early unless it was asked to", func(m *observed.Migration) { m.Etcd["main"] = moves(4) },
			"in a step in which none leaves"),

		Entry("change its records in another step", func(m *observed.Migration) { m.DNS[0].Time = in(5, 50) },
			"record A api.live. changes to 10.0.0.2 at 00:07:30.000, in a step in which none changes"),
		Entry("change them back", func(m *observed.Migration) {
			m.DNS = append(m.DNS, changed(in(6, 20), "10.0.0.2", "10.0.0.1"))
		}, "record A api.live. goes back to 10.0.0.1"),
		Entry("lose them", func(m *observed.Migration) { m.DNS[0].New = nil },
			"record A api.live. has lost its values"),
	)

	It("should not be described to no end", func() {
		m := good()
		for range 100 {
			m.Transitions = append(m.Transitions, recording.Transition{Condition: "Dance"})
		}
		Expect(m.Violations()).To(HaveLen(21))
		Expect(m.Violations()[20]).To(Equal("and 80 more violations of the model"))
	})
})
