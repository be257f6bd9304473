// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"strings"
	"time"
	"unicode/utf8"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	. "github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	isTrue        = gardencorev1beta1.ConditionTrue
	isFalse       = gardencorev1beta1.ConditionFalse
	isUnknown     = gardencorev1beta1.ConditionUnknown
	isProgressing = gardencorev1beta1.ConditionProgressing
)

var _ = Describe("Conditions", func() {
	var (
		t0    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		clk   *testclock.FakeClock
		table = steps.Table()
	)

	BeforeEach(func() {
		clk = testclock.NewFakeClock(t0)
	})

	Describe("#Initialize", func() {
		It("should replace the previous migration's conditions and keep foreign ones", func() {
			old := Initialize(clk, nil)
			for i := range old {
				old[i].Status = isTrue
			}
			old = append([]gardencorev1beta1.Condition{{Type: "Foreign", Status: isTrue, Reason: "X"}}, old...)
			clk.Step(time.Hour)

			conditions := Initialize(clk, old)
			Expect(conditions).To(HaveLen(9))
			for i, step := range table {
				Expect(conditions[i].Type).To(Equal(step.Condition))
				Expect(conditions[i].Status).To(Equal(isUnknown))
				Expect(conditions[i].Reason).To(Equal("Pending"))
				Expect(conditions[i].Message).To(ContainSubstring(string(step.Owner)))
				Expect(conditions[i].LastTransitionTime.Time).To(Equal(t0.Add(time.Hour)))
				Expect(conditions[i].LastUpdateTime.Time).To(Equal(t0.Add(time.Hour)))
			}
			Expect(conditions[8]).To(Equal(old[0]))
			Expect(steps.Initialized(conditions)).To(BeTrue())
		})
	})

	Describe("#Apply", func() {
		var conditions []gardencorev1beta1.Condition

		apply := func(step int, role steps.Role, status gardencorev1beta1.ConditionStatus, reason steps.Reason,
			message string) error {
			updated, err := Apply(clk, conditions, Change{
				Step: table[step], Role: role, Status: status, Reason: reason, Message: message,
			})
			if err == nil {
				conditions = updated
			}
			return err
		}

		BeforeEach(func() {
			conditions = append(Initialize(clk, nil), gardencorev1beta1.Condition{Type: "Foreign", Status: isFalse})
			clk.Step(time.Minute)
		})

		It("should set the step's condition only and leave its argument alone", func() {
			before := append([]gardencorev1beta1.Condition{}, conditions...)
			old := conditions
			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, "m")).To(Succeed())
			Expect(old).To(Equal(before))
			Expect(conditions[1:]).To(Equal(before[1:]))
			Expect(conditions[0]).To(Equal(gardencorev1beta1.Condition{
				Type: table[0].Condition, Status: isProgressing, Reason: "Started", Message: "m",
				LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
				LastUpdateTime:     metav1.NewTime(t0.Add(time.Minute)),
			}))
		})

		It("should change the transition time with the status only, the update time with any change", func() {
			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, "m")).To(Succeed())

			clk.Step(time.Minute)
			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, "m")).To(Succeed())
			Expect(conditions[0].LastUpdateTime.Time).To(Equal(t0.Add(time.Minute)))

			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, "n")).To(Succeed())
			Expect(conditions[0].LastTransitionTime.Time).To(Equal(t0.Add(time.Minute)))
			Expect(conditions[0].LastUpdateTime.Time).To(Equal(t0.Add(2 * time.Minute)))

			clk.Step(time.Minute)
			Expect(apply(0, steps.Source, isTrue, steps.ReasonCompleted, "n")).To(Succeed())
			Expect(conditions[0].LastTransitionTime.Time).To(Equal(t0.Add(3 * time.Minute)))
		})

		It("should refuse what the step table does not allow", func() {
			Expect(apply(0, steps.Destination, isProgressing, steps.ReasonStarted, "m")).NotTo(Succeed())
			Expect(apply(2, steps.Source, isProgressing, steps.ReasonStarted, "m")).NotTo(Succeed())
			Expect(apply(0, steps.Source, isTrue, steps.ReasonCompleted, "m")).To(Succeed())
			Expect(apply(0, steps.Source, isFalse, steps.ReasonActionFailed, "m")).NotTo(Succeed())
		})

		It("should add a condition that is missing", func() {
			conditions = nil
			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, "m")).To(Succeed())
			Expect(conditions).To(HaveLen(1))
			Expect(conditions[0].LastTransitionTime.Time).To(Equal(t0.Add(time.Minute)))
		})

		It("should cut overlong messages between runes", func() {
			Expect(apply(0, steps.Source, isProgressing, steps.ReasonStarted, strings.Repeat("ä", 5000))).To(Succeed())
			Expect(len(conditions[0].Message)).To(BeNumerically("<=", 2048))
			Expect(utf8.ValidString(conditions[0].Message)).To(BeTrue())
			Expect(conditions[0].Message).To(HaveSuffix("ä…"))
		})
	})

	Describe("#ShowLife", func() {
		// at returns the conditions of a migration in the given step (from 1).
		at := func(number int) []gardencorev1beta1.Condition {
			conditions := Initialize(clk, nil)
			for i := range number {
				conditions[i].Status = isTrue
			}
			conditions[number-1].Status = isProgressing
			return conditions
		}

		It("should renew the last condition that the role has finished, and nothing else", func() {
			old := at(6)
			clk.Step(time.Hour)
			shown, err := ShowLife(clk, old, steps.Source)
			Expect(err).NotTo(HaveOccurred())
			Expect(shown[4].LastUpdateTime.Time).To(Equal(t0.Add(time.Hour)))
			Expect(shown[4].LastTransitionTime.Time).To(Equal(t0))
			Expect(old[4].LastUpdateTime.Time).To(Equal(t0), "the old ones stay as they are")
			shown[4].LastUpdateTime = old[4].LastUpdateTime
			Expect(shown).To(Equal(old))
		})

		DescribeTable("should refuse it", func(number int, role steps.Role, message string) {
			_, err := ShowLife(clk, at(number), role)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
			Entry("in a step of the role's own", 5, steps.Source, "the current step is not one of its peer"),
			Entry("if the role has not finished any", 1, steps.Destination, "it has not finished any step"),
		)

		It("should refuse it when the migration is over", func() {
			conditions := at(8)
			conditions[7].Status = isTrue
			_, err := ShowLife(clk, conditions, steps.Source)
			Expect(err).To(HaveOccurred())
		})
	})

	Describe("#Judge", func() {
		judge := func(conditions []gardencorev1beta1.Condition, step steps.Step, outcome steps.Outcome) []string {
			status, reason, message := Judge(clk, conditions, step, outcome)
			return []string{string(status), string(reason), message}
		}

		It("should keep what the peer is asked to do before its turn, also when the step is finished", func() {
			conditions := Initialize(clk, nil)
			conditions, err := Apply(clk, conditions, Change{
				Step: table[0], Role: steps.Source, Status: isProgressing, Reason: steps.ReasonShootStatePersisted,
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(judge(conditions, table[0], steps.Waiting(0, steps.ReasonPersistingShootState, "again"))).
				To(Equal([]string{"Progressing", "ShootStatePersisted", "PersistingShootState: again"}))
			Expect(judge(conditions, table[0], steps.Waiting(0, steps.ReasonShootStatePersisted, "3 of 9"))).
				To(Equal([]string{"Progressing", "ShootStatePersisted", "3 of 9"}))
			Expect(judge(conditions, table[0], steps.Done("ok"))).
				To(Equal([]string{"True", "ShootStatePersisted", "ok"}))

			conditions[5].Status, conditions[5].Reason = isProgressing, string(steps.ReasonReadyForSourceMemberRemoval)
			Expect(judge(conditions, table[5], steps.Done("ok"))).To(Equal([]string{"True", "Completed", "ok"}))
		})

		It("should take progress for progress until the deadline, and for an overdue step then", func() {
			conditions := Initialize(clk, nil)
			conditions, err := Apply(clk, conditions, Change{
				Step: table[0], Role: steps.Source, Status: isProgressing, Reason: steps.ReasonStarted,
			})
			Expect(err).NotTo(HaveOccurred())
			outcome := steps.Waiting(0, steps.ReasonWaitingForSourceEtcd, "2 of 3 ready")

			clk.Step(table[0].Deadline)
			Expect(judge(conditions, table[0], outcome)).
				To(Equal([]string{"Progressing", "WaitingForSourceEtcd", "2 of 3 ready"}))

			clk.Step(time.Second)
			Expect(judge(conditions, table[0], outcome)).To(HaveExactElements(
				"False", "DeadlineExceeded",
				"WaitingForSourceEtcd: 2 of 3 ready. The step takes longer than its deadline of 15m0s. The agent "+
					"keeps trying; see "+pages.OfStep(table[0])))

			conditions[0].Status, conditions[0].LastTransitionTime = isFalse, metav1.NewTime(clk.Now())
			Expect(judge(conditions, table[0], outcome)[0]).To(Equal("False"), "an overdue step stays overdue")
			Expect(judge(conditions, table[0], steps.Done("ok"))).To(Equal([]string{"True", "Completed", "ok"}))
		})

		It("should keep the reason that the peer waits for", func() {
			conditions := Initialize(clk, nil)
			conditions[5].Status = isProgressing
			clk.Step(table[5].Deadline + time.Second)
			Expect(judge(conditions, table[5], steps.Waiting(0, steps.ReasonReadyForSourceMemberRemoval,
				"6 voters"))[:2]).To(Equal([]string{"False", "ReadyForSourceMemberRemoval"}))
			Expect(judge(conditions, table[5], steps.Waiting(0, steps.ReasonWaitingForDNS, ""))[:2]).
				To(Equal([]string{"False", "DeadlineExceeded"}))
		})

		It("should let what the peer is asked for outlive everything that asks for nothing else", func() {
			conditions := Initialize(clk, nil)
			conditions[5].Status, conditions[5].Reason = isProgressing, "ReadyForSourceMemberRemoval"
			for _, fault := range []steps.Reason{
				steps.ReasonSyncFailed, steps.ReasonGateNotInForce, steps.ReasonActionFailed, steps.ReasonQuorumLost,
				steps.ReasonVersionSkew, steps.ReasonStarted,
			} {
				Expect(judge(conditions, table[5], steps.Outcome{Reason: fault, Message: "m"})).
					To(Equal([]string{"Progressing", "ReadyForSourceMemberRemoval", string(fault) + ": m"}))
			}
			Expect(judge(conditions, table[5], steps.Waiting(0, steps.ReasonWaitingForDNS, "m"))).
				To(Equal([]string{"Progressing", "WaitingForDNS", "m"}), "the owner has come to something else")
			Expect(judge(conditions, table[5], steps.Done("ok"))).To(Equal([]string{"True", "Completed", "ok"}))

			clk.Step(table[5].Deadline + time.Second)
			overdue := judge(conditions, table[5], steps.Outcome{Reason: steps.ReasonSyncFailed, Message: "m"})
			Expect(overdue[:2]).To(Equal([]string{"False", "ReadyForSourceMemberRemoval"}))
			Expect(overdue[2]).To(HavePrefix("SyncFailed: m. The step takes longer"))

			conditions[5].Reason = "JoiningLastEtcdMember"
			Expect(judge(conditions, table[5], steps.Outcome{Reason: steps.ReasonSyncFailed, Message: "m"})[1]).
				To(Equal("DeadlineExceeded"), "nothing was asked for")
		})

		It("should not let a step be overdue before it has begun", func() {
			conditions := Initialize(clk, nil)
			clk.Step(24 * time.Hour)
			Expect(Overdue(clk, conditions, table[0])).To(BeFalse())
			Expect(Overdue(clk, nil, table[0])).To(BeFalse())
		})

		It("should take nothing else than True for finished", func() {
			Expect(judge(nil, table[0], steps.Outcome{Status: isFalse, Reason: "X", Message: "y"})).
				To(Equal([]string{"Progressing", "X", "y"}))
			Expect(judge(nil, table[0], steps.Outcome{Status: isUnknown, Reason: "X", Message: "y"})).
				To(Equal([]string{"Progressing", "X", "y"}))
		})
	})

	Describe("#Restart", func() {
		It("should keep what the peer is asked for", func() {
			conditions := Initialize(clk, nil)
			for i := range 5 {
				conditions[i].Status = isTrue
			}
			conditions[5].Status = isProgressing
			for reason, kept := range map[steps.Reason]string{
				steps.ReasonReadyForSourceMemberRemoval: "ReadyForSourceMemberRemoval",
				steps.ReasonWaitingForDNS:               "Started",
			} {
				conditions[5].Reason = string(reason)
				restarted, err := Restart(clk, conditions, table[5], steps.Destination)
				Expect(err).NotTo(HaveOccurred())
				Expect(restarted[5].Reason).To(Equal(kept))
			}
		})
	})

	Describe("#LastOperation", func() {
		var conditions []gardencorev1beta1.Condition

		BeforeEach(func() {
			conditions = Initialize(clk, nil)
			conditions[0].Status = isTrue
			conditions[1].Status, conditions[1].Reason, conditions[1].Message = isProgressing, "JoiningEtcdMembers",
				"4 of 5 voters"
		})

		It("should describe the step in progress", func() {
			Expect(*LastOperation(clk, nil, conditions, table[1])).To(Equal(gardencorev1beta1.LastOperation{
				Type:           gardencorev1beta1.LastOperationTypeLiveMigrate,
				State:          gardencorev1beta1.LastOperationStateProcessing,
				Progress:       10,
				Description:    "Step 2 of 8 (destination): Join two etcd members of the destination: 4 of 5 voters",
				LastUpdateTime: metav1.NewTime(t0),
			}))
		})

		It("should keep the update time as long as nothing changes", func() {
			old := LastOperation(clk, nil, conditions, table[1])
			clk.Step(time.Minute)
			Expect(LastOperation(clk, old, conditions, table[1])).To(BeIdenticalTo(old))
			conditions[1].Message = "5 of 5 voters"
			Expect(LastOperation(clk, old, conditions, table[1]).LastUpdateTime.Time).To(Equal(t0.Add(time.Minute)))
		})

		It("should replace what somebody else has written", func() {
			for _, foreign := range []gardencorev1beta1.LastOperation{
				{Type: gardencorev1beta1.LastOperationTypeReconcile,
					State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100},
				{Type: gardencorev1beta1.LastOperationTypeLiveMigrate,
					State: gardencorev1beta1.LastOperationStateAborted, Progress: 10},
			} {
				operation := LastOperation(clk, &foreign, conditions, table[1])
				Expect(operation.Type).To(Equal(gardencorev1beta1.LastOperationTypeLiveMigrate))
				Expect(operation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))
			}
		})

		It("should be in error when the step failed or is overdue", func() {
			conditions[1].Reason = string(steps.ReasonActionFailed)
			Expect(LastOperation(clk, nil, conditions, table[1]).State).
				To(Equal(gardencorev1beta1.LastOperationStateError))
			conditions[1].Reason, conditions[1].Status = string(steps.ReasonReadyForSourceMemberRemoval), isFalse
			Expect(LastOperation(clk, nil, conditions, table[1]).State).
				To(Equal(gardencorev1beta1.LastOperationStateError))
		})

		It("should continue after a finished step and succeed after the last", func() {
			conditions[1].Status = isTrue
			operation := LastOperation(clk, nil, conditions, table[1])
			Expect(operation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))
			Expect(operation.Progress).To(Equal(int32(30)))

			for i := range conditions {
				conditions[i].Status = isTrue
			}
			operation = LastOperation(clk, nil, conditions, table[7])
			Expect(operation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))
			Expect(operation.Progress).To(Equal(int32(100)))
		})

		It("should manage without the condition", func() {
			Expect(LastOperation(clk, nil, nil, table[0]).Description).
				To(Equal("Step 1 of 8 (source): " + table[0].Title))
		})
	})

	Describe("#Duration", func() {
		It("should measure from the start", func() {
			conditions := Initialize(clk, nil)
			_, ok := Duration(clk, conditions, table[0])
			Expect(ok).To(BeFalse())
			conditions, err := Apply(clk, conditions, Change{
				Step: table[0], Role: steps.Source, Status: isProgressing, Reason: steps.ReasonStarted,
			})
			Expect(err).NotTo(HaveOccurred())
			clk.Step(time.Minute)
			duration, ok := Duration(clk, conditions, table[0])
			Expect(ok).To(BeTrue())
			Expect(duration).To(Equal(time.Minute))
		})
	})
})

var _ = Describe("#Cut", func() {
	It("should cut texts without breaking characters", func() {
		Expect(Cut("short", 5)).To(Equal("short"))
		Expect(Cut("longer", 5)).To(Equal("lo…"))
		Expect(Cut("aéééééé", 5)).To(Equal("a…"))
	})
})
