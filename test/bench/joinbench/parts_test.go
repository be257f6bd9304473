// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joinbench

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
)

var _ = Describe("partsOf", func() {
	const (
		leader = `{"level":"info","ts":"2026-11-28T01:00:00.5Z","msg":"sending database snapshot","remote-peer-id":"1f"}
not of a logger
{"level":"info","ts":"2026-11-28T01:00:02.25Z","msg":"sending database snapshot","remote-peer-id":"2f"}
{"level":"info","ts":"2026-11-28T01:00:09Z","msg":"sending database snapshot","remote-peer-id":"2f"}
`
		learner = `{"level":"info","ts":"2026-11-28T01:00:05.25Z","msg":"received and saved database snapshot"}
{"level":"info","ts":"2026-11-28T01:00:05.5Z","msg":"applying snapshot"}
{"level":"info","ts":"2026-11-28T01:00:07Z","msg":"applied snapshot"}
`
	)
	begin := time.Date(2026, 11, 28, 1, 0, 1, 0, time.UTC)
	read := func(leader, learner string) (parts, error) {
		GinkgoHelper()
		folder := GinkgoT().TempDir()
		m := marks{begin: begin, end: begin.Add(8 * time.Second), leader: filepath.Join(folder, "leader"),
			learner: filepath.Join(folder, "learner"), id: "2f", syncSeconds: 1}
		Expect(os.WriteFile(m.leader, []byte(leader), 0o600)).To(Succeed())
		Expect(os.WriteFile(m.learner, []byte(learner), 0o600)).To(Succeed())
		return partsOf(m)
	}

	It("should divide a join by what both etcds have logged of it", func() {
		took, err := read(leader, learner)
		Expect(err).NotTo(HaveOccurred())
		Expect(took).To(Equal(parts{begin: 1.25, transfer: 2, sync: 1, apply: 1.5, vote: 2.25, total: 8}))
	})

	It("should count a voter that applies the snapshot only when it has done so", func() {
		took, err := read(leader, strings.Replace(learner, "01:00:07Z", "01:00:15Z", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(took).To(Equal(parts{begin: 1.25, transfer: 2, sync: 1, apply: 9.5, vote: 0.25, total: 14}))
	})

	It("should say that a member has not joined by a snapshot", func() {
		_, err := read("", learner)
		Expect(err).To(MatchError(ContainSubstring("has not joined by a snapshot")))
		_, err = read(leader, "")
		Expect(err).To(MatchError(ContainSubstring(`has no line "received and saved database snapshot"`)))
	})

	It("should refuse times that it cannot read", func() {
		_, err := read(`{"ts":"yesterday","msg":"sending database snapshot","remote-peer-id":"2f"}`, learner)
		Expect(err).To(MatchError(ContainSubstring(`when "sending database snapshot" was logged`)))
	})
})

var _ = Describe("summed", func() {
	It("should sum up each part by itself", func() {
		all := summed([]parts{{begin: 3, total: 9.0004, relaysCPU: 1}, {begin: 1, total: 7}, {begin: 2, total: 8}})
		Expect(all.Begin).To(Equal(data.Spread{Median: 2, Low: 1, High: 3, Runs: 3}))
		Expect(all.Total).To(Equal(data.Spread{Median: 8, Low: 7, High: 9, Runs: 3}))
		Expect(all.RelaysCPU.High).To(BeEquivalentTo(1))
		Expect(all.Vote).To(Equal(data.Spread{Runs: 3}))
	})
})

var _ = Describe("ports", func() {
	It("should lead each etcd to the other one through both relays", func() {
		p := ports{leader: 1, learner: 2, toLeader: 3, toLearner: 4, farLeader: 5, farLearner: 6}
		relays := p.relays()
		Expect(relays).To(HaveLen(2))
		Expect(relays[0]).To(And(ContainSubstring("near: [{port: 4,"), ContainSubstring("port: 6,"),
			ContainSubstring("far: {port: 5,"), ContainSubstring("target: '127.0.0.1:1'")))
		Expect(relays[1]).To(And(ContainSubstring("near: [{port: 3,"), ContainSubstring("port: 5,"),
			ContainSubstring("far: {port: 6,"), ContainSubstring("target: '127.0.0.1:2'")))
		Expect(p.leaderSide().cluster).To(Equal("leader=https://localhost:3"))
		Expect(p.learnerSide(4).cluster).To(Equal("leader=https://localhost:3,learner=https://localhost:4"))
		Expect(p.learnerSide(2).cluster).To(HaveSuffix("learner=https://localhost:2"), "the leader reaches it directly")
	})
})
