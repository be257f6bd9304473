// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	livecpmdns "github.com/livecpm/livecpm/pkg/dns"
)

const (
	apiName = "api.example.org"
	// Two host names of load balancers, as a cloud gives them.
	before = "before.elb.example.net"
	after  = "after.elb.example.net"
)

// script is what name servers say: by server, then by "name type", one list of values for each time that they are
// asked. The last one stays. One without anything to say does not answer.
type script map[string]map[string][][]string

// scripted are name servers that say what the script has.
type scripted struct {
	lock    sync.Mutex
	servers script
	// silent are the types of records that a server does not answer questions for.
	silent map[string][]string
	// ttl is that of all answers.
	ttl time.Duration
	// caches are the servers that are not responsible for the names.
	caches []string
}

func (s *scripted) Ask(_ context.Context, name, recordType string) ([]livecpmdns.Answer, error) {
	var answers []livecpmdns.Answer
	s.lock.Lock()
	defer s.lock.Unlock()
	for server, says := range s.servers {
		key := name + " " + recordType
		answer := livecpmdns.Answer{Server: server, Authoritative: !slices.Contains(s.caches, server)}
		if says == nil || slices.Contains(s.silent[server], recordType) {
			answer.Err = errors.New("failed to ask name server " + server)
			answers = append(answers, answer)
			continue
		}
		if turns := says[key]; len(turns) > 0 {
			answer.Values = turns[0]
			if len(turns) > 1 {
				says[key] = turns[1:]
			}
		}
		answer.TTL = s.ttl
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
	silence := livecpmdns.NewSilence(testclock.NewFakeClock(time.Now()), time.Minute)
	err := livecpmdns.NewTarget(&scripted{servers: servers}, silence, target).Reached(context.Background(), apiName)
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
	Entry("none answers", script{"a": nil, "b": nil}, "10.0.1.1",
		"2 of 2 name servers do not answer: failed to ask name server a; failed to ask name server b"),
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
	silence := livecpmdns.NewSilence(testclock.NewFakeClock(time.Now()), time.Minute)
	target := livecpmdns.NewTarget(&scripted{servers: servers}, silence, after)
	Expect(target.Reached(context.Background(), apiName)).To(MatchError(ContainSubstring("has [10.0.1.1]")))
	Expect(target.Reached(context.Background(), apiName)).To(Succeed())
	Expect(target.Reached(context.Background(), apiName)).To(Succeed(), "also when it answers with the other one")
})

var _ = Describe("A name server that does not answer", func() {
	var (
		ctx     = context.Background()
		clock   *testclock.FakeClock
		servers *scripted
		target  *livecpmdns.Target
		silence *livecpmdns.Silence
	)

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Now())
		moved := func() map[string][][]string {
			return map[string][][]string{apiName + " A": always("10.0.1.1")}
		}
		servers = &scripted{servers: script{"a": moved(), "b": moved(), "c": nil}, ttl: 2 * time.Minute}
		silence = livecpmdns.NewSilence(clock, 5*time.Minute)
		target = livecpmdns.NewTarget(servers, silence, "10.0.1.1")
	})

	waits := func() {
		GinkgoHelper()
		Expect(target.Reached(ctx, apiName)).
			To(MatchError("failed to ask name server c (waiting for it for at most 5m0s)"))
	}

	It("should be waited for with a bound", func() {
		waits()
		clock.Step(5*time.Minute - time.Second)
		waits()
		clock.Step(time.Second)
		Expect(target.Reached(ctx, apiName)).To(Succeed())
		Expect(silence.Borne()).To(ConsistOf("c"))
	})

	It("should be waited for again when it has answered in between", func() {
		waits()
		clock.Step(4 * time.Minute)
		servers.servers["c"] = map[string][][]string{apiName + " A": always("10.0.1.1")}
		Expect(target.Reached(ctx, apiName)).To(Succeed())
		Expect(silence.Borne()).To(BeEmpty())
		servers.servers["c"] = nil
		clock.Step(4 * time.Minute)
		waits()
	})

	It("should be waited for from when all others lead to the target", func() {
		waits()
		servers.servers["b"] = map[string][][]string{apiName + " A": always("10.0.0.1")}
		clock.Step(5 * time.Minute)
		Expect(target.Reached(ctx, apiName)).To(MatchError(ContainSubstring("name server b answers [10.0.0.1]")))
		servers.servers["b"] = map[string][][]string{apiName + " A": always("10.0.1.1")}
		waits()
		clock.Step(5 * time.Minute)
		Expect(target.Reached(ctx, apiName)).To(Succeed())
	})

	It("should be held against the target with what it does answer", func() {
		servers.servers["c"] = map[string][][]string{apiName + " A": always("10.0.0.1")}
		servers.silent = map[string][]string{"c": {"AAAA"}}
		for range 2 {
			Expect(target.Reached(ctx, apiName)).To(MatchError(ContainSubstring("name server c answers [10.0.0.1]")))
			clock.Step(time.Hour)
		}
	})

	It("should hold without a bound if fewer than half of them answer", func() {
		servers.servers["b"] = nil
		for range 2 {
			Expect(target.Reached(ctx, apiName)).To(MatchError(ContainSubstring("2 of 3 name servers do not answer")))
			clock.Step(time.Hour)
		}
		_, err := livecpmdns.TTL(ctx, servers, silence, apiName)
		Expect(err).To(MatchError(ContainSubstring("2 of 3 name servers do not answer")))
	})

	It("should not keep the TTL from being known", func() {
		_, err := livecpmdns.TTL(ctx, servers, silence, apiName)
		Expect(err).To(MatchError(ContainSubstring("failed to ask name server c")))
		clock.Step(5 * time.Minute)
		Expect(livecpmdns.TTL(ctx, servers, silence, apiName)).To(Equal(2 * time.Minute))
	})

	It("should not be what nobody was asked for", func() {
		_, err := livecpmdns.TTL(ctx, &scripted{}, silence, apiName)
		Expect(err).To(MatchError("no name server was asked"))
	})
})

var _ = DescribeTable("The published TTL", func(servers *scripted, ttl time.Duration, problem string) {
	published, err := livecpmdns.PublishedTTL(context.Background(), servers, apiName)
	if problem != "" {
		Expect(err).To(MatchError(ContainSubstring(problem)))
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(published).To(Equal(ttl))
},
	Entry("is known if all name servers publish the name", &scripted{ttl: time.Minute, servers: script{
		"a": {apiName + " A": always("10.0.0.1")}, "b": {apiName + " CNAME": always(before)}}}, time.Minute, ""),
	Entry("is not known without name servers", &scripted{}, time.Duration(0), "no name server was asked"),
	Entry("is not known while one does not answer", &scripted{ttl: time.Minute, servers: script{
		"a": {apiName + " A": always("10.0.0.1")}, "b": nil}}, time.Duration(0), "failed to ask name server b"),
	Entry("is not known while one does not answer one of the questions", &scripted{ttl: time.Minute,
		silent: map[string][]string{"b": {"AAAA"}}, servers: script{
			"a": {apiName + " A": always("10.0.0.1")}, "b": {apiName + " A": always("10.0.0.1")}}},
		time.Duration(0), "failed to ask name server b"),
	Entry("is not known while one does not know the name", &scripted{ttl: time.Minute, servers: script{
		"a": {apiName + " A": always("10.0.0.1")}, "b": {}}}, time.Duration(0),
		"name server b does not know the name"),
	Entry("is not known from a cache", &scripted{ttl: time.Minute, caches: []string{"a"}, servers: script{
		"a": {apiName + " A": always("10.0.0.1")}}}, time.Duration(0),
		"name server a is not responsible for the name"),
)
