// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package required_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/required"
)

type failure struct{}

func (*failure) Error() string { return "" }

type options struct {
	Err  error
	Name string
	Do   func()
	List []int
	own  int
}

var _ = Describe("Fields", func() {
	complete := func() options {
		return options{Err: errors.New("x"), Name: "x", Do: func() {}, List: []int{1}}
	}

	DescribeTable("names what is missing", func(mutate func(*options), missing string) {
		o := complete()
		mutate(&o)
		Expect(required.Fields("the thing", o)).
			To(MatchError("failed to set up the thing: these options are missing: " + missing))
	},
		Entry("an interface", func(o *options) { o.Err = nil }, "Err"),
		Entry("an interface with a nil pointer", func(o *options) { o.Err = (*failure)(nil) }, "Err"),
		Entry("a string", func(o *options) { o.Name = "" }, "Name"),
		Entry("a function", func(o *options) { o.Do = nil }, "Do"),
		Entry("two of them, in their order", func(o *options) { o.List, o.Name = nil, "" }, "Name, List"),
	)

	It("should be content when all is there, whatever the fields are that nobody else can set", func() {
		o := complete()
		Expect(required.Fields("the thing", o)).To(Succeed())
		o.own = 1
		Expect(required.Fields("the thing", o)).To(Succeed())
		o.Err = &failure{}
		Expect(required.Fields("the thing", o)).To(Succeed())
	})

	It("should leave the optional ones out", func() {
		Expect(required.Fields("the thing", options{Name: "x", List: []int{1}}, "Err", "Do")).To(Succeed())
		Expect(required.Fields("the thing", options{}, "Err", "Do")).To(MatchError(HaveSuffix("Name, List")))
	})
})
