// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

var _ = Describe("redials", func() {
	const (
		member, other, service = "member", "other", "service"
		asked                  = "asked"
		pause                  = 250 * time.Millisecond
	)
	var (
		clk *clocktesting.FakeClock
		r   redials
	)

	route := func(name string) config.NearRoute {
		return config.NearRoute{Remote: config.Remote{ServerName: name}}
	}
	begin := func(name string) attempt {
		GinkgoHelper()
		a, rest := r.begin(name)
		Expect(rest).To(BeNumerically("<=", 0))
		return a
	}
	paused := func(name string) bool {
		_, rest := r.begin(name)
		return rest > 0
	}

	BeforeEach(func() {
		clk = clocktesting.NewFakeClock(time.Now())
		r = newRedials([]config.Near{
			{RedialPause: metav1.Duration{Duration: pause}, Routes: []config.NearRoute{route(member), route(other)}},
			{Routes: []config.NearRoute{route(service),
				{Remote: config.Remote{ServerName: asked}, RedialPause: metav1.Duration{Duration: 2 * pause}}}},
		}, clk)
	})

	It("should pause the route of a failed attempt, no other and no longer", func() {
		begin(member).failed()
		Expect(paused(member)).To(BeTrue())
		Expect(paused(other)).To(BeFalse())
		clk.Step(pause - 1)
		Expect(paused(member)).To(BeTrue())
		clk.Step(1)
		Expect(paused(member)).To(BeFalse())
		begin(member).failed()
		Expect(paused(member)).To(BeTrue(), "it is still so")
	})

	It("should leave routes alone that have no pause", func() {
		begin(service).failed()
		Expect(paused(service)).To(BeFalse())
	})

	It("should pause a route beside them that has its own", func() {
		begin(asked).failed()
		clk.Step(2*pause - 1)
		Expect(paused(asked)).To(BeTrue())
		clk.Step(1)
		Expect(paused(asked)).To(BeFalse())
	})

	It("should end the pause with the first answer", func() {
		early := begin(member)
		begin(member).failed()
		Expect(paused(member)).To(BeTrue())
		early.succeeded()
		Expect(paused(member)).To(BeFalse())
	})

	It("should not pause for what was begun before the last answer", func() {
		early := begin(member)
		clk.Step(time.Millisecond)
		begin(member).succeeded()
		early.failed()
		Expect(paused(member)).To(BeFalse())
	})

	It("should not prolong the pause for attempts that were under way when it began", func() {
		early, late := begin(member), begin(member)
		clk.Step(time.Millisecond)
		early.failed()
		clk.Step(pause / 2)
		late.failed()
		clk.Step(pause / 2)
		Expect(paused(member)).To(BeFalse())
	})
})
