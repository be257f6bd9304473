// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/steps"
)

var _ = DescribeTable("reasons", func(reason Reason, hold, fault bool) {
	Expect(reason.Hold()).To(Equal(hold))
	Expect(reason.Fault()).To(Equal(fault))
},
	Entry("of the frame that hold", ReasonPaused, true, false),
	Entry("of the frame that hold as a fault", ReasonGateNotInForce, true, true),
	Entry("of the frame that are about a step at work", ReasonActionFailed, false, true),
	Entry("of steps", ReasonWaitingForDNS, false, false),
	Entry("of an abort", ReasonAborted, false, false),
	Entry("of guards for which somebody has to act", ReasonEtcdNoSpace, true, true),
	Entry("of guards that pass by themselves", ReasonEtcdDefragmenting, true, false),
	Entry("of guards that wait for a rotation", ReasonCredentialsRotationRunning, true, false),
	Entry("of guards that several have together", ReasonPrerequisitesNotMet, true, true),
	Entry("version skew, which undoes nothing", ReasonVersionSkew, true, false),
	Entry("a lost quorum, before a step and in it", ReasonQuorumLost, true, true),
	Entry("a quorum at risk, which is about a change in a step", ReasonQuorumAtRisk, false, true),
	Entry("none", Reason(""), false, false),
	Entry("unknown ones", Reason("Other"), false, false),
)
