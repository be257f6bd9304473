// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	livecpmdns "github.com/livecpm/livecpm/pkg/agent/dns"
)

const (
	apiName = "api.example.org"
	// Two host names of load balancers, as a cloud gives them.
	before = "before.elb.example.net"
	after  = "after.elb.example.net"
)

// script is what name servers say: by server, then by "name type", one list of values for each time that they are
// asked. The last one stays.
type script map[string]map[string][][]string

func (s script) Ask(_ context.Context, name, recordType string) ([]livecpmdns.Answer, error) {
	var answers []livecpmdns.Answer
	for server, says := range s {
		if says == nil {
			return nil, errors.New("failed to ask name server " + server)
		}
		key := name + " " + recordType
		answer := livecpmdns.Answer{Server: server}
		if turns := says[key]; len(turns) > 0 {
			answer.Values = turns[0]
			if len(turns) > 1 {
				says[key] = turns[1:]
			}
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// always is what is said each time.
func always(values ...string) [][]string { return [][]string{values} }

// balancers are the addresses of both load balancers, which every name server knows.
func balancers(says map[string][][]string) map[string][][]string {
	says[before+" A"] = always("10.0.0.1", "10.0.0.2")
	says[after+" A"] = always("10.0.1.1", "10.0.1.2")
	return says
}

var _ = DescribeTable("Target", func(servers script, target, problem string) {
	err := livecpmdns.NewTarget(servers, target).Reached(context.Background(), apiName)
	if problem == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(ContainSubstring(problem)))
},
	Entry("nobody was asked", script{}, "10.0.1.1", "no name server was asked"),
	Entry("all answer with the address",
		script{"a": {apiName + " A": always("10.0.1.1")}, "b": {apiName + " A": always("10.0.1.1")}}, "10.0.1.1", ""),
	Entry("one still answers with the former address",
		script{"a": {apiName + " A": always("10.0.1.1")}, "b": {apiName + " A": always("10.0.0.1")}}, "10.0.1.1",
		"name server b answers [10.0.0.1] instead of [10.0.1.1]"),
	Entry("one answers with both addresses", script{"a": {apiName + " A": always("10.0.0.1", "10.0.1.1")}},
		"10.0.1.1", "name server a"),
	Entry("one knows none", script{"a": {}}, "10.0.1.1", "name server a answers []"),
	Entry("the former address of the other family is left",
		script{"a": {apiName + " A": always("10.0.1.1"), apiName + " AAAA": always("fd00::1")}}, "10.0.1.1",
		"fd00::1"),
	Entry("machines behind one address do not agree yet",
		script{"a": {apiName + " A": [][]string{{"10.0.1.1"}, {"10.0.0.1"}, {"10.0.1.1"}}}}, "10.0.1.1",
		"answers [10.0.0.1]"),
	Entry("one does not answer", script{"a": {apiName + " A": always("10.0.1.1")}, "b": nil}, "10.0.1.1",
		"failed to ask name server b"),

	Entry("a CNAME, written as others write names", script{"a": {apiName + " CNAME": always("After.ELB.example.net")}},
		after, ""),
	Entry("a CNAME to the former one", script{"a": {apiName + " CNAME": always(before)}}, after,
		"answers [before.elb.example.net] instead of [after.elb.example.net]"),
	Entry("an alias that answers with all addresses",
		script{"a": balancers(map[string][][]string{apiName + " A": always("10.0.1.1", "10.0.1.2")})}, after, ""),
	Entry("an alias that answers with some of them, others each time",
		script{"a": balancers(map[string][][]string{
			apiName + " A": {{"10.0.1.2"}, {"10.0.1.1"}, {"10.0.1.2"}}})}, after, ""),
	Entry("an alias with addresses of both families",
		script{"a": {apiName + " A": always("10.0.1.1"), apiName + " AAAA": always("fd00::1"),
			after + " A": always("10.0.1.1"), after + " AAAA": always("fd00::1")}}, after, ""),
	Entry("an alias to the former one",
		script{"a": balancers(map[string][][]string{apiName + " A": always("10.0.0.1", "10.0.0.2")})}, after,
		"answers [10.0.0.1 10.0.0.2], and after.elb.example.net has [10.0.1.1 10.0.1.2]"),
	Entry("an alias that one server has changed and another has not",
		script{"a": balancers(map[string][][]string{apiName + " A": always("10.0.1.1")}),
			"b": balancers(map[string][][]string{apiName + " A": always("10.0.0.1")})}, after,
		"name server b answers [10.0.0.1]"),
	Entry("nothing at all", script{"a": balancers(map[string][][]string{})}, after,
		"answers neither with after.elb.example.net nor with an address"),
	Entry("a load balancer that nobody knows", script{"a": {apiName + " A": always("10.0.1.1")}}, after,
		"after.elb.example.net has []"),
)

var _ = It("should remember the addresses that a load balancer has had", func() {
	servers := script{"a": {
		apiName + " A": always("10.0.1.2"),
		after + " A":   {{"10.0.1.1"}, {"10.0.1.2"}, {"10.0.1.1"}},
	}}
	target := livecpmdns.NewTarget(servers, after)
	Expect(target.Reached(context.Background(), apiName)).To(MatchError(ContainSubstring("has [10.0.1.1]")))
	Expect(target.Reached(context.Background(), apiName)).To(Succeed())
	Expect(target.Reached(context.Background(), apiName)).To(Succeed(), "also when it answers with the other one")
})
