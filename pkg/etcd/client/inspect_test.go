// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
)

var _ = Describe("Inspect", func() {
	var (
		ctx = context.Background()
		c   *fake.Cluster
	)

	url := func(name string) string { return "https://" + name + ":2380" }

	BeforeEach(func() { c = fake.New(url, "a", "b", "c") })

	It("should ask every member that has started", func() {
		c.SetDatabase("a", 30, 20)
		c.SetDefragmenting("b", true)
		c.RaiseAlarm("a", AlarmNoSpace)
		_, err := c.AddLearner(url("d"))
		Expect(err).NotTo(HaveOccurred())
		c.SetUp("c", false)

		inspection, err := Inspect(ctx, c, time.Minute)
		Expect(err).NotTo(HaveOccurred())
		Expect(inspection.ClusterID).NotTo(BeZero())
		Expect(inspection.AlarmsError).NotTo(HaveOccurred())
		Expect(inspection.Alarms).To(ConsistOf(HaveField("Type", AlarmNoSpace)))
		Expect(inspection.Members).To(HaveExactElements(
			And(HaveField("Name", "a"), HaveField("Status.DBSize", int64(30)),
				HaveField("Status.DBSizeInUse", int64(20)), HaveField("StatusError", BeNil()),
				HaveField("Defragmenting", false)),
			And(HaveField("Name", "b"), HaveField("Defragmenting", true), HaveField("DefragmentingError", BeNil())),
			And(HaveField("Name", "c"), HaveField("StatusError", MatchError(fake.ErrDown)),
				HaveField("DefragmentingError", MatchError(fake.ErrDown))),
			And(HaveField("Learner", true), HaveField("StatusError", MatchError(ErrNotStarted)),
				HaveField("DefragmentingError", MatchError(ErrNotStarted))),
		))
	})

	It("should fail without a quorum", func() {
		c.SetUp("a", false)
		c.SetUp("b", false)
		_, err := Inspect(ctx, c, time.Minute)
		Expect(err).To(MatchError(fake.ErrTimeout))
	})
})
