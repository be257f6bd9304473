// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The memory of an agent", func() {
	It("should let another one continue to count where it was", func() {
		var (
			ctx   = context.Background()
			s     = newSeedsOf("seed-b")
			clock = testclock.NewFakeClock(time.Now())
			agent = func() *Joint {
				return s.joint(steps.Destination, func(config *Config) { config.Clock = clock })
			}
			first, second, third = agent(), agent(), agent()
		)
		s.addLearner("main", 0)
		_, err := first.Advance(ctx, "main", 2)
		Expect(err).NotTo(HaveOccurred())
		memory := first.Memory()
		Expect(memory.Unstarted).To(HaveLen(1))
		second.Recall(memory)
		Expect(second.Memory()).To(Equal(memory))
		clear(memory.Unstarted)
		Expect(second.Memory().Unstarted).To(HaveLen(1))

		clock.Step(4 * time.Minute)
		_, err = third.Advance(ctx, "main", 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.clusters["main"].Names()).To(HaveLen(4), "it begins to count")
		_, err = second.Advance(ctx, "main", 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.clusters["main"].Names()).To(HaveLen(3), "it has not started for three minutes")
	})

	It("should keep since when something has been so", func() {
		var (
			ctx = context.Background()
			s   = newSeeds()
			j   = s.joint(steps.Destination)
		)
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
		_, _, err := j.SourceDown(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(j.Memory().Spells).To(HaveKey("main: a member of the source is down"))
		other := s.joint(steps.Destination)
		other.Recall(j.Memory())
		Expect(other.Memory()).To(Equal(j.Memory()))
		s.clusters["main"].SetUp("seed-a-etcd-main-1", true)
		_, _, err = other.SourceDown(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(other.Memory().Spells).To(BeEmpty())
	})
})
