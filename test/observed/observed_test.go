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

// says is what a look has shown that took no time, a second after the one before.
func says(step, second int, status gardencorev1beta1.ConditionStatus, reason steps.Reason) recording.Transition {
	return recording.Transition{Time: in(step, second), Condition: steps.Table()[step-1].Condition, Status: status,
		Reason: string(reason), Since: in(step, second-1), Seen: in(step, second)}
}

// course returns the transitions of the first steps, without those of a force-shrink unless it is asked for.
func course(number int, skip steps.When) []recording.Transition {
	var transitions []recording.Transition
	for i, step := range steps.Table()[:number] {
		transitions = append(transitions, says(i+1, 1, unknown, steps.ReasonPaused),
			says(i+1, 2, progressing, steps.ReasonStarted))
		second := 3
		for _, work := range step.Work {
			if work.When == skip {
				continue
			}
			for _, reason := range work.Reasons {
				transitions = append(transitions, says(i+1, second, progressing, reason))
				second++
			}
		}
		transitions = append(transitions, says(i+1, 99, done, steps.ReasonCompleted))
	}
	return transitions
}

// list is a member list that was seen a second after the one before: s0 to s2 are voters of the source, d0 to d2 of the
// destination, a star makes them learners, and a question mark stands for one that was added and has not started.
func list(at time.Time, members ...string) recording.Members {
	l := recording.Members{Time: at, Since: at.Add(-time.Second), ClusterID: 7}
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

func read(file string, into any) {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(data, into)).To(Succeed())
}

func good() observed.Migration {
	m := observed.Migration{
		Source: "seed-a", Destination: "seed-b", Triggered: triggered,
		Transitions: course(len(steps.Table()), steps.WhenForced),
		Etcd:        map[string][]recording.Members{"main": moves(6)},
		DNS:         []recording.RecordChange{changed(in(6, 10), "10.0.0.1", "10.0.0.2")},
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

	It("should follow it with one member in each etcd, and only then", func() {
		m := good()
		m.OneMember = true
		m.Etcd["main"] = []recording.Members{
			list(triggered.Add(-time.Minute), "s0"), list(in(6, 50), "s0", "?"), list(in(6, 51), "s0", "d0*"),
			list(in(6, 52), "s0", "d0"), list(in(6, 60), "d0"),
		}
		Expect(m.Violations()).To(BeEmpty())
		m.OneMember = false
		Expect(m.Violations()).To(ConsistOf(
			ContainSubstring("has left etcd-main"),
			ContainSubstring("etcd-main ends with other members than the 3 voters of seed-b")))
	})

	It("should follow it if little of it was seen", func() {
		m := good()
		m.Transitions = slices.DeleteFunc(m.Transitions, func(t recording.Transition) bool { return t.Status != done })
		var looked time.Time
		for i := range m.Transitions {
			m.Transitions[i].Since, looked = looked, m.Transitions[i].Seen
		}
		m.Etcd["main"] = []recording.Members{m.Etcd["main"][0], list(in(2, 90), "s0", "s1", "s2", "d0", "d1"),
			list(in(6, 90), "d0", "d1", "d2")}
		m.DNS = nil
		Expect(m.Violations()).To(BeEmpty())
	})

	It("should follow it if it came not to its end", func() {
		m := good()
		m.Transitions = append(course(5, steps.WhenForced), says(6, 5, progressing, steps.ReasonStarted),
			says(6, 6, progressing, steps.ReasonQuorumLost))
		m.Etcd["main"] = m.Etcd["main"][:8]
		Expect(m.Violations()).To(BeEmpty())
	})

	Describe("late", func() {
		// late says that the last of the lists was read at the end of a look that began as long before.
		late := func(m *observed.Migration, seen time.Time, since time.Duration) {
			lists := m.Etcd["main"]
			lists[len(lists)-1].Time, lists[len(lists)-1].Since = seen, seen.Add(-since)
		}

		It("should follow it if a member was seen to leave after the end of the step, but may have left in it", func() {
			m := good()
			// The condition is True since 99 s.
			late(&m, in(7, 20), 30*time.Second)
			Expect(m.Violations()).To(BeEmpty())
		})

		It("should not follow it if the member cannot have left in the step", func() {
			m := good()
			late(&m, in(7, 20), 19*time.Second)
			Expect(m.Violations()).To(HaveExactElements(
				ContainSubstring("voter seed-a-etcd-main-0 has left etcd-main between 00:10:01.000 and 00:10:20.000, "+
					"in a step in which none leaves"),
				ContainSubstring("voter seed-a-etcd-main-1 has left etcd-main between")))
		})

		It("should know the end of a step to the second that the condition has", func() {
			m := good()
			late(&m, in(7, 20), 20*time.Second+time.Millisecond)
			Expect(m.Violations()).To(BeEmpty())
			late(&m, in(7, 20), 20*time.Second)
			Expect(m.Violations()).To(HaveLen(2))
		})

		It("should not let members join before the step has begun, as far as looks have shown", func() {
			m := good()
			i := slices.Index(m.Transitions, says(1, 99, done, steps.ReasonCompleted))
			m.Transitions[i].Seen = in(2, 12)
			m.Transitions[i].Since = in(2, 10)
			m.Transitions[i+1].Seen, m.Transitions[i+2].Seen = in(2, 13), in(2, 14)
			Expect(m.Violations()).To(BeEmpty(), "it may have become True right after the look at 10 s began")
			m.Transitions[i].Since = in(2, 10).Add(time.Millisecond)
			Expect(m.Violations()).To(HaveExactElements(ContainSubstring(
				"member unstarted-abc has joined etcd-main between 00:01:49.000 and 00:01:50.000, in a step in which")))
		})

		It("should not let members leave before the destination has asked for it", func() {
			m := good()
			i := slices.IndexFunc(m.Transitions, func(t recording.Transition) bool {
				return t.Reason == string(steps.ReasonReadyForSourceMemberRemoval)
			})
			m.Transitions[i].Since, m.Transitions[i].Seen = in(6, 59), in(6, 80)
			m.Transitions = slices.DeleteFunc(m.Transitions, func(t recording.Transition) bool {
				return t.Reason == string(steps.ReasonReadyForSourceMemberRemoval) && t != m.Transitions[i]
			})
			Expect(m.Violations()).To(BeEmpty())
			m.Transitions[i].Since = in(6, 60)
			Expect(m.Violations()).To(HaveExactElements(ContainSubstring("voter seed-a-etcd-main-2 has left " +
				"etcd-main between 00:09:19.000 and 00:09:20.000, before the destination had asked for it")))
		})

		It("should know the moment of a change of records", func() {
			m := good()
			m.DNS[0].Time = in(6, 100).Add(-time.Nanosecond)
			Expect(m.Violations()).To(BeEmpty())
			m.DNS[0].Time = in(6, 100)
			Expect(m.Violations()).To(HaveExactElements(ContainSubstring("in a step in which none changes")))
		})

		It("should follow what one look has shown in any order that is permitted", func() {
			m := good()
			m.Transitions = append(course(2, steps.WhenForced), says(1, 260, overdue, steps.ReasonAborted),
				says(2, 160, overdue, steps.ReasonWithdrawn), says(4, 160, unknown, steps.ReasonPaused))
			m.Transitions = m.Transitions[:len(m.Transitions)-1]
			m.Etcd, m.DNS = nil, nil
			Expect(m.Violations()).To(BeEmpty())
			last := len(m.Transitions) - 1
			m.Transitions[last].Seen = in(2, 161)
			Expect(m.Violations()).To(HaveExactElements(ContainSubstring("the destination has not withdrawn yet")))
		})
	})

	// Of a migration on a machine that was so busy that looks took up to 15 seconds. It is from before looks were
	// recorded: a change was somewhere between two lists, or two conditions, that were seen one after the other.
	It("should follow it as it was recorded on a busy machine, where members were seen to leave late", func() {
		details := recording.Details{}
		read(filepath.Join("testdata", "late.json"), &details)
		report := recording.Recording{Source: "seed-a", Destination: "seed-b"}
		Expect(observed.Of(&report, &details).Violations()).To(BeEmpty())

		lists := details.Etcd["main"]
		last := &lists[len(lists)-1]
		last.Since = last.Time.Add(-14 * time.Second)
		Expect(observed.Of(&report, &details).Violations()).To(HaveExactElements(
			ContainSubstring("voter seed-a-etcd-main-0 has left etcd-main between 23:46:26.551 and 23:46:40.551, in " +
				"a step in which none leaves")))
	})

	DescribeTable("should not be compared if it does not say when it was looked", func(
		change func(*observed.Migration), violation string,
	) {
		m := good()
		change(&m)
		Expect(m.Violations()).To(HaveExactElements(ContainSubstring(violation)))
	},
		Entry("at conditions", func(m *observed.Migration) { m.Transitions[0].Seen = time.Time{} },
			"the recording does not say between which looks condition SourceEtcdPreparedForPeerJoin became Unknown"),
		Entry("at members", func(m *observed.Migration) { m.Etcd["main"][3].Since = time.Time{} },
			"the recording does not say when the members of etcd-main were looked at before 00:01:52.000"),
		Entry("by the same clock", func(m *observed.Migration) {
			m.Transitions[0].Time = m.Transitions[0].Seen.Add(time.Second)
		}, "says that it became Unknown (Paused) at 00:00:02.000, but was seen so at 00:00:01.000 already"),
	)

	It("should let members join again that have lost their data, in their seed and from then on", func() {
		m := good()
		m.Etcd["main"] = append(m.Etcd["main"], list(in(7, 50), "d0", "d2"), list(in(7, 60), "d0", "d2", "?"),
			list(in(7, 61), "d0", "d1*", "d2"), list(in(7, 62), "d0", "d1", "d2"))
		m.Lost = []observed.Loss{{Role: steps.Destination, At: in(7, 49)}}
		Expect(m.Violations()).To(BeEmpty())
		m.Lost[0].At = in(7, 61)
		Expect(m.Violations()).To(HaveExactElements(
			ContainSubstring("voter seed-b-etcd-main-1 of the destination has left"),
			ContainSubstring("member unstarted-abc has joined")))
		m.Lost[0] = observed.Loss{Role: steps.Source, At: in(7, 49)}
		Expect(m.Violations()).To(ContainElement(ContainSubstring("voter seed-b-etcd-main-1 of the destination")))
	})

	It("should follow it past a deadline", func() {
		m := good()
		i := slices.Index(m.Transitions, says(3, 99, done, steps.ReasonCompleted))
		m.Transitions = slices.Insert(m.Transitions, i, says(3, 90, overdue, steps.ReasonDeadlineExceeded))
		Expect(m.Violations()).To(BeEmpty())
		m.Transitions = []recording.Transition{says(1, 90, overdue, steps.ReasonDeadlineExceeded)}
		m.Etcd, m.DNS = nil, nil
		Expect(m.Violations()).To(BeEmpty(), "nobody has seen that it was Progressing")
	})

	It("should follow it back", func() {
		m := good()
		m.Transitions = append(course(2, steps.WhenForced), says(2, 120, progressing, steps.ReasonAborting),
			says(2, 140, overdue, steps.ReasonWithdrawn), says(1, 150, progressing, steps.ReasonWaitingForSourceEtcd),
			says(1, 160, overdue, steps.ReasonAborted))
		m.Etcd["main"] = append(m.Etcd["main"][:6:6], list(in(2, 130), "s0", "s1", "s2", "d0"),
			list(in(2, 135), "s0", "s1", "s2"))
		m.DNS = nil
		Expect(m.Violations()).To(BeEmpty())
		m.Etcd["main"] = append(m.Etcd["main"], list(in(2, 136), "s0", "s1"))
		Expect(m.Violations()).To(HaveExactElements(
			ContainSubstring("voter seed-a-etcd-main-2 of the source has left etcd-main between 00:03:55.000 and " +
				"00:03:56.000, in a migration that is aborted")))
	})

	It("should follow it as it was recorded for the report", func() {
		folder := filepath.Join("..", "..", "pkg", "proof", "report", "testdata")
		var (
			report  recording.Recording
			details recording.Details
		)
		read(filepath.Join(folder, "report.json"), &report)
		read(filepath.Join(folder, "details.json"), &details)
		Expect(details.Etcd["main"]).To(HaveLen(13))
		// It is from before the conditions were recorded.
		Expect(observed.Of(&report, &details).Violations()).
			To(HaveExactElements(ContainSubstring("nobody has recorded")))
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
			"MigrateExtensionsNeededBeforeKubeAPIServer, but it was seen between 00:05:00.000 and 00:05:01.000"),
		Entry("take back a step that is finished", func(m *observed.Migration) {
			m.Transitions = append(course(2, steps.WhenForced), says(2, 100, progressing, steps.ReasonStarted))
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
		}, "the migration is aborted (DestinationEtcdPeersJoined says Aborting, seen between 00:09:59.000 and "+
			"00:10:00.000) although the current step is EtcdMigrationComplete"),
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
		}, "member seed-a-etcd-main-0 of the source has joined etcd-main between"),
		Entry("let members join in another step", func(m *observed.Migration) {
			for i := range m.Etcd["main"][1:6] {
				m.Etcd["main"][i+1].Time, m.Etcd["main"][i+1].Since = in(4, 50), in(4, 49)
			}
		}, "member seed-b-etcd-main-0 has joined etcd-main between 00:05:49.000 and 00:05:50.000, in a step in which "+
			"none joins"),
		Entry("let a voter of the destination leave", func(m *observed.Migration) {
			m.Etcd["main"] = append(m.Etcd["main"], list(in(6, 80), "d0", "d1"))
		}, "voter seed-b-etcd-main-2 of the destination has left etcd-main"),
		Entry("let a voter of the source leave before the destination has all of its own",
			func(m *observed.Migration) {
				m.Etcd["main"][6] = list(in(6, 50), "s0", "s1", "d0", "d1", "d2*")
			}, "voter seed-a-etcd-main-2 of the source has left etcd-main between 00:09:09.000 and 00:09:10.000, when "+
				"the destination had 2 voters"),
		Entry("let members leave in another step", func(m *observed.Migration) {
			m.Etcd["main"][9].Time, m.Etcd["main"][9].Since = in(8, 50), in(8, 49)
		}, "voter seed-a-etcd-main-0 has left etcd-main between 00:12:29.000 and 00:12:30.000, in a step in which "+
			"none leaves"),
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
			m.Transitions = append(m.Transitions,
				recording.Transition{Condition: "Dance", Seen: triggered.Add(time.Hour)})
		}
		Expect(m.Violations()).To(HaveLen(21))
		Expect(m.Violations()[20]).To(Equal("and 80 more violations of the model"))
	})
})
