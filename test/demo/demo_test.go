// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/dualrun"
	"github.com/livecpm/livecpm/test/observed"
)

var _ = Describe("Report", func() {
	var report *demo.Report

	BeforeEach(func() {
		etcd := driver.EtcdReport{Voters: []int{3, 4, 5, 6, 5, 4, 3}, ClusterIDUnchanged: true,
			SixMemberWindowSeconds: 4.2}
		report = &demo.Report{Recording: recording.Recording{
			Shoot:           "garden-demo/live",
			Source:          "seed-a",
			Destination:     "seed-b",
			DurationSeconds: 300.5,
			Probe: probe.Result{
				Writes: 20000, Reads: 20000, WatchEvents: 200000, LongestWriteGapMs: 120, BaselineLongestWriteGapMs: 80,
				WriteP99Ms: probe.ByPhase{Before: 20, During: 40.5, After: 21},
				Details: &probe.Details{
					Verified:          true,
					RequestsPerSecond: 70.3,
					RequestsDue:       40000,
					Watches:           make([]probe.WatchDetails, 10),
					DNS:               &probe.DNSResult{Samples: 1000},
				},
			},
			Etcd:                         map[string]driver.EtcdReport{"main": etcd, "events": etcd},
			ControllersActiveInBothSeeds: []string{},
			Ownership: &demo.OwnershipReport{Samples: 300, Violations: []string{},
				Phases: map[string]int{"before step 1": 30, "after the hand-over": 30}},
		}}
		report.Details.Transitions = observed.Straight(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		for i, step := range steps.Table() {
			report.Steps = append(report.Steps,
				driver.StepReport{Condition: step.Condition, Owner: string(step.Owner), Seconds: 10})
			report.Ownership.Phases[ownership.Phase(i).String()] = 30
		}
	})

	It("should succeed when everything that must be 0 is 0", func() {
		report.Judge()
		Expect(report.Details.Problems).To(BeEmpty())
		Expect(report.Result).To(Equal("succeeded"))
		Expect(report.Err()).NotTo(HaveOccurred())
	})

	It("should succeed for a shoot with workers of which all is as before", func() {
		report.Workers = workers()
		report.Judge()
		Expect(report.Details.Problems).To(BeEmpty())
		Expect(report.String()).To(ContainSubstring("requests through the VPN"))
	})

	It("should not hold hidden connection errors against the migration", func() {
		report.Probe.RawConnectionErrors = 7
		report.Judge()
		Expect(report.Result).To(Equal("succeeded"))
	})

	DescribeTable("should fail", func(spoil func(*demo.Report), problem string) {
		spoil(report)
		report.Judge(nil)
		Expect(report.Result).To(Equal("failed"))
		Expect(report.Err()).To(MatchError(ContainSubstring(problem)))
		Expect(report.String()).To(ContainSubstring(problem))
	},
		Entry("for a failed write", func(r *demo.Report) { r.Probe.WritesFailed = 1 },
			"1 writes failed"),
		Entry("for a failed read", func(r *demo.Report) { r.Probe.ReadsFailed = 2 },
			"2 reads failed"),
		Entry("for a lost watch event", func(r *demo.Report) { r.Probe.WatchEventsLost = 3 },
			"3 watch events were lost"),
		Entry("for a lost write", func(r *demo.Report) {
			etcd := r.Etcd["events"]
			etcd.AcknowledgedWritesLost = 1
			r.Etcd["events"] = etcd
		}, "etcd.events.acknowledgedWritesLost must be 0 and is 1"),
		Entry("for a restarted etcd", func(r *demo.Report) { r.SourceEtcdRestarts = 1 }, "sourceEtcdRestarts"),
		Entry("for a missing DNS record", func(r *demo.Report) { r.DNSMomentsWithoutRecord = 1 },
			"dnsMomentsWithoutRecord"),
		Entry("for a controller in both seeds", func(r *demo.Report) {
			r.ControllersActiveInBothSeeds = []string{"gardener-resource-manager"}
		}, "controllersActiveInBothSeeds"),
		Entry("for somebody who acts where the table does not permit it", func(r *demo.Report) {
			r.Ownership.Violations = []string{"worker was at work in both seeds"}
		}, "worker was at work in both seeds"),
		Entry("without looks at who acts where", func(r *demo.Report) { r.Ownership.Samples = 0 },
			"looked at only 0 times in 300 s"),
		Entry("with too few of them", func(r *demo.Report) { r.Ownership.Samples = 60 }, "looked at only 60 times"),
		Entry("without one in a step", func(r *demo.Report) { delete(r.Ownership.Phases, "step 3") },
			`never looked at in the phase "step 3"`),
		Entry("without one after the hand-over", func(r *demo.Report) {
			delete(r.Ownership.Phases, "after the hand-over")
		}, `never looked at in the phase "after the hand-over"`),
		Entry("for what the model of the steps does not permit", func(r *demo.Report) {
			r.Details.Transitions = r.Details.Transitions[2:]
		}, "condition DestinationEtcdPeersJoined cannot become Progressing: the current step is "+
			"SourceEtcdPreparedForPeerJoin"),
		Entry("for an observer that could not see", func(r *demo.Report) {
			r.Details.ObserverErrors = []string{"no pod of etcd-main runs"}
		}, "no pod of etcd-main runs"),
		Entry("for a question that the DNS server did not answer", func(r *demo.Report) {
			r.Probe.Details.DNS.Unanswered = 1
		}, "did not answer 1 of 1000 samples"),
		Entry("for requests that were not sent", func(r *demo.Report) { r.Probe.Details.MissedTicks = 401 },
			"401 of 40000 requests that were due were not sent"),
		Entry("for a long time without a write", func(r *demo.Report) { r.Probe.LongestWriteGapMs = 5001 },
			"no write was acknowledged for 5.001s"),
		Entry("for an event that came late", func(r *demo.Report) {
			r.Probe.Details.Watches[0].MaxLagMs = 10001
		}, "delivered an event 10.001s after its write"),
		Entry("for a machine that was created",
			func(r *demo.Report) { r.Workers = workers(); r.Workers.MachinesCreated = []string{"machine-x"} },
			"machines were created: [machine-x]"),
		Entry("for a node that was deleted", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.NodesDeleted = []string{"machine-x"}
		}, "nodes were deleted: [machine-x]"),
		Entry("for another state of an extension", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.Changed = []string{"state of X"}
		}, "is not as before: [state of X]"),
		Entry("for an extension that failed",
			func(r *demo.Report) { r.Workers = workers(); r.Workers.Misdone = []string{"no state"} }, "no state"),
		Entry("for a failed request through the VPN", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.VPN.Failed = 1
			r.Workers.VPN.Errors = []string{"EOF"}
		}, "1 of 600 requests through the VPN failed, the first one: EOF"),
		Entry("with too few of them", func(r *demo.Report) { r.Workers = workers(); r.Workers.VPN.Requests = 3 },
			"only 3 requests went through the VPN"),
		Entry("for a request that the webhooks of the resource manager did not let pass", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.Webhooks.Failed = 2
			r.Workers.Webhooks.Errors = []string{"refused"}
		}, "2 of 600 requests that the webhooks of the resource manager judge failed, the first one: refused"),
		Entry("with too few of those", func(r *demo.Report) { r.Workers = workers(); r.Workers.Webhooks.Requests = 0 },
			"only 0 requests asked the webhooks of the resource manager"),
		Entry("without a stream to a pod", func(r *demo.Report) { r.Workers = workers(); r.Workers.Streams = nil },
			"no stream to a pod was kept open"),
		Entry("for a stream that was never open", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.Streams[0].Opened = 0
		}, "no stream of the kind logs was ever open"),
		Entry("for a stream that could not be opened", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.Streams[0].Refused = 1
		}, "1 of 4 attempts to open a stream of the kind logs failed"),
		Entry("for a stream that breaks more often than kube-apiservers end", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.Streams[0].Broken, r.Workers.Streams[0].Errors = 5, []string{"EOF"}
		}, "the stream of the kind logs broke 5 times, more than 4, the first time: EOF"),
		Entry("for a failed request inside of the shoot", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.InCluster.Failed, r.Workers.InCluster.CutByProxy, r.Workers.InCluster.Errors = 3, 2,
				[]string{"connection refused"}
		}, "1 of 1400 requests of the in-cluster clients failed, the first one: connection refused"),
		Entry("for more requests cut on a node than proxies can have in hand", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.InCluster.Failed, r.Workers.InCluster.CutByProxy = 5, 5
			r.Workers.InCluster.Nodes["machine-one-a"] = demo.InClusterNode{Requests: 1400, Failed: 5, CutByProxy: 5,
				Seconds: 360, Due: 720}
		}, "5 requests of the in-cluster client on node machine-one-a were cut"),
		Entry("with too few requests on a node", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.InCluster.Nodes["machine-one-b"] = demo.InClusterNode{Requests: 350, Seconds: 360, Due: 720}
		}, "too little load: the in-cluster client on node machine-one-b sent 350 requests of 720 that were due"),
		Entry("without any", func(r *demo.Report) { r.Workers = workers(); r.Workers.InCluster.Nodes = nil },
			"there was no in-cluster client"),
		Entry("for counts that may not be all", func(r *demo.Report) {
			r.Workers = workers()
			r.Workers.InCluster.Doubts = []string{"it began again"}
		}, "it began again"),
		Entry("without machines", func(r *demo.Report) { r.Workers = workers(); r.Workers.Machines = nil },
			"there are no machines"),
		Entry("without operations of the test extension",
			func(r *demo.Report) { r.Workers = workers(); r.Workers.Operations = 0 }, "recorded no operation"),
		Entry("for leftovers", func(r *demo.Report) { r.Details.LeftInSource = []string{"secrets a/b"} },
			"left in the source seed"),
		Entry("for another cluster ID", func(r *demo.Report) {
			etcd := r.Etcd["main"]
			etcd.ClusterIDUnchanged = false
			r.Etcd["main"] = etcd
		}, "cluster ID of etcd-main changed"),
		Entry("for an etcd without observation", func(r *demo.Report) { delete(r.Etcd, "events") },
			"etcd-events was not observed"),
		Entry("for an unfinished removal", func(r *demo.Report) {
			r.Etcd["main"] = driver.EtcdReport{Voters: []int{3, 4, 5}, ClusterIDUnchanged: true}
		}, "ended with 5 voters"),
		Entry("for missing steps", func(r *demo.Report) { r.Steps = r.Steps[:3] }, "only 3 of 8 steps"),
		Entry("for too little load", func(r *demo.Report) { r.Probe.Details.RequestsPerSecond = 59 },
			"59.0 requests per second"),
		Entry("without verification", func(r *demo.Report) { r.Probe.Details.Verified = false },
			"could not be verified"),
		Entry("without watch events", func(r *demo.Report) { r.Probe.WatchEvents = 0 }, "delivered no event"),
		Entry("for events delivered twice", func(r *demo.Report) { r.Probe.Details.Watches[3].Duplicates = 1 },
			"watch 4 delivered 1 events twice"),
		Entry("without DNS samples", func(r *demo.Report) { r.Probe.Details.DNS = nil }, "no DNS record was sampled"),
		Entry("for an error", func(r *demo.Report) { r.Judge(errors.New("out of time")); r.Steps = nil }, "steps"),
	)

	It("should name who acted where it was not their turn, and say how often", func() {
		violation := ownership.Violation{Set: steps.Worker, From: 3, To: 3, Overlap: true,
			Objects: []string{"source/a", "destination/a"}}
		result := dualrun.Result{Samples: 7, Violations: slices.Repeat([]ownership.Violation{violation}, 52),
			Phases: map[ownership.Phase]int{ownership.Before: 2, 0: 4, ownership.After: 1}}
		made := demo.NewOwnershipReport(result)
		Expect(made.Samples).To(Equal(7))
		Expect(made.Phases).To(Equal(map[string]int{"before step 1": 2, "step 1": 4, "after the hand-over": 1}))
		Expect(made.Violations).To(HaveLen(51))
		Expect(made.Violations[0]).To(ContainSubstring("worker was at work in both seeds"))
		Expect(made.Violations[50]).To(Equal("and 2 more"))
		Expect(demo.NewOwnershipReport(dualrun.Result{}).Violations).NotTo(BeNil())
	})

	It("should name the errors of the run", func() {
		report.Judge(nil, errors.New("out of time"))
		Expect(report.Err()).To(MatchError(ContainSubstring("out of time")))
	})

	It("should be written in its documented form", func() {
		report.Judge()
		folder := filepath.Join(GinkgoT().TempDir(), "demo")
		Expect(report.Write(folder)).To(Succeed())
		data, err := os.ReadFile(filepath.Join(folder, "report.json"))
		Expect(err).NotTo(HaveOccurred())

		form := map[string]any{}
		Expect(json.Unmarshal(data, &form)).To(Succeed())
		Expect(keys(form)).To(ConsistOf("result", "shoot", "source", "destination", "durationSeconds", "probe", "etcd",
			"sourceEtcdRestarts", "dnsMomentsWithoutRecord", "controllersActiveInBothSeeds", "ownership", "steps"))
		Expect(keys(form["probe"])).
			To(ConsistOf("writes", "writesFailed", "writesRetryable", "reads", "readsFailed", "readsRetryable",
				"rawConnectionErrors", "watchEvents", "watchEventsLost", "longestWriteGapMs",
				"baselineLongestWriteGapMs", "writeP99Ms"))
		Expect(keys(form["etcd"])).To(ConsistOf("main", "events"))
		Expect(keys(form["etcd"].(map[string]any)["main"])).To(ConsistOf("voters", "clusterIDUnchanged",
			"sixMemberWindowSeconds", "acknowledgedWritesLost"))
		Expect(form["controllersActiveInBothSeeds"]).To(BeEmpty())
		Expect(form["controllersActiveInBothSeeds"]).NotTo(BeNil())
		Expect(form["steps"]).To(HaveLen(8))
		Expect(keys(form["steps"].([]any)[0])).To(ConsistOf("condition", "owner", "seconds"))
		Expect(filepath.Join(folder, "details.json")).To(BeARegularFile())
	})

	It("should say of each step what writes took in it", func() {
		type span struct{ begin, end time.Time }
		var asked []span
		begin := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
		got := demo.WithLatencies([]driver.StepReport{{Seconds: 10}, {Seconds: 2.5}}, begin,
			func(begin, end time.Time) (p99, slowest float64) {
				asked = append(asked, span{begin, end})
				return float64(len(asked)), float64(10 * len(asked))
			})
		Expect(got).To(Equal([]driver.StepReport{{Seconds: 10, WriteP99Ms: 1, WriteMaxMs: 10},
			{Seconds: 2.5, WriteP99Ms: 2, WriteMaxMs: 20}}))
		Expect(asked).To(Equal([]span{{begin, begin.Add(10 * time.Second)},
			{begin.Add(10 * time.Second), begin.Add(12500 * time.Millisecond)}}))
	})

	It("should show the same figures on its page", func() {
		report.Workers = workers()
		report.Workers.VPN.Requests = 61234
		report.Workers.InCluster.CutByProxy, report.Workers.InCluster.Failed = 1, 1
		report.Ownership.Samples = 71234
		report.Judge()
		Expect(report.Result).To(Equal("succeeded"), "%v", report.Details.Problems)
		folder := GinkgoT().TempDir()
		Expect(report.Write(folder)).To(Succeed())
		page, err := os.ReadFile(filepath.Join(folder, "report.html"))
		Expect(err).NotTo(HaveOccurred())
		for _, text := range []string{"61234", "71234", "1400", "612"} {
			Expect(string(page)).To(ContainSubstring("<td>" + text + "</td>"))
			Expect(report.String()).To(ContainSubstring(text))
		}
		Expect(string(page)).
			To(ContainSubstring("<tr><td>one</td><td>one-a</td><td>machine-one-a</td><td>machine-one-a</td></tr>"))
	})

	It("should tell what client-go would not have sent again, beside all that failed", func() {
		report.Probe.WritesFailed, report.Probe.WritesRetryable = 3, 2
		report.Probe.ReadsFailed, report.Probe.ReadsRetryable = 4, 4
		report.Judge()
		Expect(report.Details.Problems).To(ConsistOf("3 writes failed", "4 reads failed"))
		Expect(report.String()).To(And(
			MatchRegexp(`(?m)^ +sum +failed +client-go would not have sent again$`),
			MatchRegexp(`(?m)^writes +20000 +3 +1$`),
			MatchRegexp(`(?m)^reads +20000 +4 +0$`),
			MatchRegexp(`(?m)^requests that were due +40000 +0 not sent$`)))
		folder := GinkgoT().TempDir()
		Expect(report.Write(folder)).To(Succeed())
		page, err := os.ReadFile(filepath.Join(folder, "report.html"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(ContainSubstring("of 20000; client-go would not have sent 1 of them again"))
	})

	It("should say when requests failed", func() {
		report.Probe.WritesFailed = 3
		series := &recording.Series{Begin: report.Details.Triggered, IntervalSeconds: 2,
			Points: make([]recording.Point, 30)}
		series.Points[29].Failed = 3
		report.Details.Probe = &probe.Details{Series: series}
		report.Judge()
		line := "3 requests failed from "
		Expect(report.String()).To(MatchRegexp("Problems:\n  - 3 writes failed\n  - " + line))
		folder := GinkgoT().TempDir()
		Expect(report.Write(folder)).To(Succeed())
		page, err := os.ReadFile(filepath.Join(folder, "report.html"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(ContainSubstring(`<li class="bad">` + line))

		By("but not in a gap that was agreed to")
		report.Probe.AgreedGap, report.Probe.Details.Series = true, series
		report.Etcd = map[string]driver.EtcdReport{"main": {Voters: []int{1, 2, 1}, ClusterIDUnchanged: true},
			"events": {Voters: []int{1, 2, 1}, ClusterIDUnchanged: true}}
		report.Judge()
		Expect(report.Details.Problems).NotTo(ContainElement("3 writes failed"))
		report.Details.Problems = nil
		Expect(report.String()).NotTo(ContainSubstring(line))
		Expect(report.Write(folder)).To(Succeed())
		page, err = os.ReadFile(filepath.Join(folder, "report.html"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).NotTo(ContainSubstring(line))
	})

	It("should read as a table", func() {
		report.Judge()
		Expect(report.String()).To(And(
			HavePrefix("Live migration of garden-demo/live from seed-a to seed-b: succeeded in 300 s\n"),
			ContainSubstring("p99 (ms)          20      40.5    21\n"),
			ContainSubstring("main    3 4 5 6 5 4 3  unchanged   4.2 s            0\n"),
			ContainSubstring("DestinationEtcdPeersJoined"),
		))
	})
})

// workers is a report without a blemish.
func workers() *demo.WorkersReport {
	return &demo.WorkersReport{
		Machines: map[string]string{"one-a": "machine-one-a"}, Operations: 12,
		VPN: demo.RequestsReport{Requests: 600}, Webhooks: demo.RequestsReport{Requests: 600},
		Streams: []demo.StreamReport{{Kind: "logs", Opened: 3, Broken: 2, LongestGapMs: 1200}},
		Pools: []demo.PoolReport{
			{Name: "one", Machines: []demo.MachineReport{
				{Name: "one-a", Before: "machine-one-a", After: "machine-one-a"},
			}},
		},
		InCluster: demo.InClusterReport{Requests: 1400, LongestGapMs: 612,
			Nodes: map[string]demo.InClusterNode{"machine-one-a": {Requests: 1400, Seconds: 360, Due: 720}}},
	}
}

func keys(object any) []string {
	out := []string{}
	for key := range object.(map[string]any) {
		out = append(out, key)
	}
	return out
}

var _ = Describe("Display", func() {
	var moment demo.Moment

	BeforeEach(func() {
		table := steps.Table()[:3]
		moment = demo.Moment{
			Phase: "Migration", Elapsed: 70 * time.Second,
			States: []driver.StepState{
				{Step: table[0], Finished: true, Elapsed: 65 * time.Second},
				{Step: table[1], Current: true, Elapsed: 5 * time.Second, Condition: &gardencorev1beta1.Condition{
					Reason: "JoiningEtcdMembers", Message: "1 of 2 members joined",
				}},
				{Step: table[2]},
			},
			Members: &driver.MemberTimeline{},
			Load:    probe.Snapshot{Writes: 100, WritesFailed: 1, Reads: 90, WatchEvents: 1000, RawConnectionErrors: 2},
		}
		moment.Members.Observe(recording.LookAt(time.Now()), 1,
			[]driver.Member{{Name: "seed-a-etcd-main-0"}, {Name: "seed-b-etcd-main-0", Learner: true}})
	})

	It("should fill a terminal and not more", func() {
		Expect(moment.Screen(60)).
			To(Equal(strings.Join([]string{
				"",
				"01:10  Migration",
				"  ✓ source       01:05  Prepare the source etcd for member…",
				"  ▸ destination  00:05  Join two etcd members of the desti…",
				"      JoiningEtcdMembers: 1 of 2 members joined",
				"  · source              Migrate the extensions that act be…",
				"  etcd-main    seed-a ●    seed-b ○  ",
				"  writes 100 (1 failed)  reads 90 (0 failed)  watch events…",
				"",
			}, "\n")))
	})

	It("should print plain lines once where there is no terminal", func() {
		Expect(moment.Lines(3)).To(Equal(strings.Join([]string{
			"01:10  Migration",
			"01:10  SourceEtcdPreparedForPeerJoin finished after 01:05",
			"01:10  DestinationEtcdPeersJoined (destination): JoiningEtcdMembers: 1 of 2 members joined",
			"01:10  etcd-main    seed-a ●    seed-b ○  ",
			"01:10  writes 100 (1 failed)  reads 90 (0 failed)  watch events 1000  hidden connection errors 2",
			"",
		}, "\n")))
	})
})
