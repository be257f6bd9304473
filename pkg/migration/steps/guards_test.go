// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = DescribeTable("reasons", func(reason steps.Reason, hold, fault bool) {
	Expect(reason.Hold()).To(Equal(hold))
	Expect(reason.Fault()).To(Equal(fault))
},
	Entry("of the frame that hold", steps.ReasonPaused, true, false),
	Entry("of the frame that hold as a fault", steps.ReasonGateNotInForce, true, true),
	Entry("of the frame that are about a step at work", steps.ReasonActionFailed, false, true),
	Entry("of steps", steps.ReasonWaitingForDNS, false, false),
	Entry("of an abort", steps.ReasonAborted, false, false),
	Entry("of guards for which somebody has to act", steps.ReasonEtcdNoSpace, true, true),
	Entry("of guards that pass by themselves", steps.ReasonEtcdDefragmenting, true, false),
	Entry("of guards that wait for a rotation", steps.ReasonCredentialsRotationRunning, true, false),
	Entry("of guards that several have together", steps.ReasonPrerequisitesNotMet, true, true),
	Entry("version skew, which undoes nothing", steps.ReasonVersionSkew, true, false),
	Entry("a lost quorum, before a step and in it", steps.ReasonQuorumLost, true, true),
	Entry("a quorum at risk, which is about a change in a step", steps.ReasonQuorumAtRisk, false, true),
	Entry("none", steps.Reason(""), false, false),
	Entry("unknown ones", steps.Reason("Other"), false, false),
)
