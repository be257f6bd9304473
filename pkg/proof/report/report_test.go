// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

// With UPDATE_GOLDEN=1 the golden files are written again; look at what has changed before you commit them.
func expectGolden(name, actual string) {
	GinkgoHelper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(actual), 0o644)).To(Succeed())
	}
	expected, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(actual).To(Equal(string(expected)), path)
}

func recorded() report.Report {
	GinkgoHelper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		Expect(err).NotTo(HaveOccurred())
		return data
	}
	out, err := report.FromRecording(read("report.json"), read("details.json"))
	Expect(err).NotTo(HaveOccurred())
	return out
}

// withWorkers is the recording as that of a shoot with workers, of which some is not as it should be.
func withWorkers() report.Report {
	GinkgoHelper()
	merged := map[string]any{}
	for _, name := range []string{"report.json", "workers.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(data, &merged)).To(Succeed())
	}
	data, err := json.Marshal(merged)
	Expect(err).NotTo(HaveOccurred())
	details, err := os.ReadFile(filepath.Join("testdata", "details.json"))
	Expect(err).NotTo(HaveOccurred())
	out, err := report.FromRecording(data, details)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// withSeries adds a course of the latencies to the recording, which has failures and a gap.
func withSeries(r report.Report) report.Report {
	series := &recording.Series{Begin: r.Begin, IntervalSeconds: 2}
	for i := range int(r.End.Sub(r.Begin).Seconds() / 2) {
		point := recording.Point{Writes: 32, P50Ms: 20 + float64(i%7), P99Ms: 70 + float64(i%11)*8,
			MaxMs: 100 + float64(i%13)*20}
		switch {
		case i >= 130 && i < 140:
			point.P50Ms, point.P99Ms, point.MaxMs = 80, 600, 900
		case i == 141:
			point = recording.Point{Failed: 2}
		}
		series.Points = append(series.Points, point)
	}
	r.Probe.Series = series
	return r
}

// withHeat gives the recording a course that tells how the latencies are spread: one slow write of many, a time without
// writes, and failures.
func withHeat(r report.Report) report.Report {
	bounds := recording.LatencyBoundsMs()
	series := &recording.Series{Begin: r.Begin, IntervalSeconds: 2, BoundsMs: bounds}
	for i := range int(r.End.Sub(r.Begin).Seconds() / 2) {
		latencies := []float64{}
		for j := range 32 {
			latencies = append(latencies, 12+float64((i*7+j*13)%30)+float64(j*j)/40)
		}
		switch {
		case i >= 130 && i < 140:
			latencies = append(latencies, 600, 700, 900)
		case i == 100:
			latencies = append(latencies, 4200)
		case i >= 141 && i < 150:
			latencies = nil
		}
		point := recording.Point{Writes: len(latencies), Counts: recording.CountLatencies(bounds, latencies)}
		if len(latencies) > 0 {
			point.P50Ms, point.P99Ms, point.MaxMs = 20, 60, slices.Max(latencies)
		} else {
			point.Failed = 2
		}
		series.Points = append(series.Points, point)
	}
	r.Probe.Series = series
	return r
}

// reasons are events of the shoot of which two steps have finished: its second one was held meanwhile, and the third
// one is.
func reasons() []corev1.Event {
	begin := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	event := func(after time.Duration, step int, status, reason string) corev1.Event {
		return corev1.Event{Reason: reason, Type: corev1.EventTypeNormal,
			Message:   steps.Table()[step-1].String() + " is " + status + ": because",
			EventTime: metav1.NewMicroTime(begin.Add(after))}
	}
	return []corev1.Event{
		event(20*time.Second, 1, "Progressing", "PersistingShootState"),
		event(60*time.Second, 1, "True", "Completed"),
		event(61*time.Second, 2, "Unknown", "Paused"),
		event(80*time.Second, 2, "Progressing", "Started"),
		event(81*time.Second, 2, "Progressing", "PreparingDestination"),
		event(100*time.Second, 2, "False", "EtcdNotHealthy"),
		event(110*time.Second, 2, "Progressing", "JoiningEtcdMembers"),
		event(130*time.Second, 3, "Progressing", "MigratingExtensions"),
		{Reason: "Other", Message: "Nothing is Progressing: about no step", EventTime: metav1.NewMicroTime(begin)},
	}
}

// finished is a shoot whose migration is over; every step took a minute.
func shoot(finished int) *gardencorev1beta1.Shoot {
	GinkgoHelper()
	clk := testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))
	all := conditions.Initialize(clk, nil)
	for i, step := range steps.Table() {
		if i > finished {
			break
		}
		var err error
		all, err = conditions.Apply(clk, all, conditions.Change{
			Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionProgressing,
			Reason: steps.ReasonStarted, Message: "at work",
		})
		Expect(err).NotTo(HaveOccurred())
		if i == finished {
			break
		}
		clk.Step(time.Minute)
		all, err = conditions.Apply(clk, all, conditions.Change{
			Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionTrue,
			Reason: steps.ReasonCompleted, Message: "done",
		})
		Expect(err).NotTo(HaveOccurred())
	}
	out := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
		Spec:       gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
		Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-b"),
			LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: all}},
	}
	if finished < len(steps.Table()) {
		out.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		out.Status.SeedName = new("seed-a")
	}
	return out
}

var now = time.Date(2026, 3, 4, 5, 20, 0, 0, time.UTC)

var _ = Describe("FromRecording", func() {
	It("should tell the course of a recorded run", func() {
		r := recorded()
		Expect(r).To(And(HaveField("Shoot", "garden-demo/live"), HaveField("Good", true), HaveField("Source", "seed-b"),
			HaveField("Destination", "seed-a")))
		Expect(r.Triggered.Sub(r.Begin)).To(BeNumerically("~", time.Minute, time.Second), "as the recording has it")
		Expect(r.Steps).To(HaveLen(8))
		Expect(*r.Steps[0].Begin).To(BeTemporally("==", r.Triggered))
		for i, step := range r.Steps {
			Expect(step.End).NotTo(BeNil())
			if i > 0 {
				Expect(*step.Begin).To(BeTemporally("==", *r.Steps[i-1].End))
			}
		}
		Expect(r.End).To(BeTemporally(">", *r.Steps[7].End))
		Expect(r.Etcds).To(HaveLen(2))
		var texts []string
		for i, event := range r.Events {
			texts = append(texts, event.String())
			if i > 0 {
				Expect(event.Time).To(BeTemporally(">=", r.Events[i-1].Time))
			}
		}
		Expect(texts).To(ContainElements(
			"etcd-main: seed-a-etcd-main-2 becomes a voter, 6 voters",
			"etcd-main: seed-b-etcd-main-2 leaves, 5 voters",
			"step 8, MigrationCompleted, is complete",
			ContainSubstring("api.live.demo.shoots.livecpm.example: 10.250.0.22 -> 10.250.0.21"),
		))
		Expect(texts).NotTo(ContainElement(ContainSubstring("unstarted")))
	})

	It("should tell what became of workers, and who acted where", func() {
		r := withWorkers()
		bad := map[string]bool{}
		for _, fact := range r.Facts {
			bad[fact.Name] = fact.Bad
		}
		Expect(bad).To(And(
			HaveKeyWithValue("violations of who acts in which seed", false),
			HaveKeyWithValue("machines and nodes created or deleted", true),
			HaveKeyWithValue("machines, nodes and states of extensions that changed", true),
			HaveKeyWithValue("misdone operations of the test extension", false),
			HaveKeyWithValue("failed requests through the VPN", false),
			HaveKeyWithValue("failed requests that webhooks judge", true),
			HaveKeyWithValue("failed requests of in-cluster clients", false),
		))
		rows := map[string][]report.Row{}
		for _, table := range r.Tables {
			rows[table.Title] = table.Rows
		}
		Expect(rows["Webhooks"]).To(HaveExactElements(
			report.Row{Cells: []string{"1090", "1"}, Bad: true},
			report.Row{Cells: []string{"2026-11-20T12:00:00Z a pod in kube-system: connection refused", ""}, Bad: true},
		))
		Expect(rows["Worker pools, machines and nodes"]).To(HaveExactElements(
			report.Row{Cells: []string{"one", "one-a", "machine-one-a", "machine-one-a"}},
			report.Row{Cells: []string{"one", "one-b", "machine-one-b", "-"}, Bad: true},
			report.Row{Cells: []string{"two", "two-a", "machine-two-a", "machine-two-a"}},
			report.Row{Cells: []string{"node deleted", "machine-one-b", "", ""}, Bad: true},
		))
		Expect(rows["State of extensions"]).To(
			ContainElement(report.Row{Cells: []string{"Network workers", "12 bytes, sha256 0102", "none"}, Bad: true}))
		Expect(rows["Inside of the shoot"]).To(ContainElements(
			report.Row{Cells: []string{"machine-one-a", "2000", "1", "1", "700"}},
			report.Row{Cells: []string{"all", "4000", "1", "1", "700"}},
		))
		Expect(rows["Through the VPN"]).To(HaveExactElements(report.Row{Cells: []string{"1100", "0"}}))
		Expect(rows["Who acted in which seed"]).
			To(ContainElement(report.Row{Cells: []string{"looks at both seeds", "540"}}))
	})

	It("should tell what became of each kind of requests, on the page, as text and as JSON", func() {
		r, err := report.FromRecording([]byte(`{"shoot":"a/b","result":"succeeded"}`), []byte(`{"probe":{"kinds":[`+
			`{"verb":"merge patch","kind":"ConfigMap","sent":400,"failed":3,"retryable":1,`+
			`"p99Ms":{"before":12.5,"during":80,"after":13}},`+
			`{"verb":"watch","kind":"Sample","sent":4,"failed":0,"retryable":0,`+
			`"p99Ms":{"before":0,"during":0,"after":0}}]}}`))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Tables).To(HaveExactElements(And(HaveField("Title", "Kinds of requests"),
			HaveField("Rows", HaveExactElements(
				report.Row{Bad: true,
					Cells: []string{"merge patch ConfigMap", "400", "3", "2", "12.5", "80.0", "13.0"}},
				report.Row{Cells: []string{"watch Sample", "4", "0", "0", "-", "-", "-"}},
			)))))
		Expect(report.Markdown(r)).To(And(
			ContainSubstring("| requests | sent | failed at the first try | client-go would not have sent again | "),
			ContainSubstring("| merge patch ConfigMap | 400 | 3 | 2 | 12.5 | 80.0 | 13.0 |")))
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(ContainSubstring(`<td class="bad">merge patch ConfigMap</td><td class="bad">400</td>`))
		content, err := json.Marshal(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(ContainSubstring(`"merge patch ConfigMap","400","3","2","12.5","80.0","13.0"`))
	})

	It("should call figures of nothing bad", func() {
		r, err := report.FromRecording(
			[]byte(
				`{"shoot":"a/b","result":"failed","ownership":{"violations":["worker was at work in both seeds"]},"workers":{"inCluster":{"nodes":{"x":{}}}}}`),
			nil)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"violations of who acts in which seed",
			"misdone operations of the test extension", "failed requests through the VPN",
			"failed requests of in-cluster clients"} {
			Expect(r.Facts).To(ContainElement(And(HaveField("Name", name), HaveField("Bad", true))))
		}
		Expect(r.Tables[0].Rows).
			To(ContainElement(report.Row{Cells: []string{"worker was at work in both seeds", ""}, Bad: true}))
	})

	It("should tell in which phases nobody looked at the seeds", func() {
		r, err := report.FromRecording([]byte(`{"shoot":"a/b","result":"failed","ownership":{"samples":9,"phases":{`+
			`"before step 1":3,"step 1":1,"step 2":1,"step 3":1,"step 4":1,"step 5":1,"step 6":1,"step 8":1}}}`), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Tables[0].Rows).To(HaveExactElements(
			report.Row{Cells: []string{"looks at both seeds", "9"}}, report.Row{Cells: []string{"violations", "0"}},
			report.Row{Cells: []string{"looks: before step 1", "3"}}, report.Row{Cells: []string{"looks: step 1", "1"}},
			report.Row{Cells: []string{"looks: step 2", "1"}}, report.Row{Cells: []string{"looks: step 3", "1"}},
			report.Row{Cells: []string{"looks: step 4", "1"}}, report.Row{Cells: []string{"looks: step 5", "1"}},
			report.Row{Cells: []string{"looks: step 6", "1"}},
			report.Row{Cells: []string{"looks: step 7", "0"}, Bad: true},
			report.Row{Cells: []string{"looks: step 8", "1"}},
			report.Row{Cells: []string{"looks: after the hand-over", "0"}, Bad: true},
		))
	})

	DescribeTable("should mark what is not within the bounds", func(spoil func(*report.Probe), tile string) {
		const good = `<div class="tile"><b>`
		r := recorded()
		r.Probe.RequestsDue, r.Probe.RequestsUnsent = 40000, 400
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).NotTo(ContainSubstring(tile))
		spoil(r.Probe)
		page, err = report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(ContainSubstring(`<div class="tile"><b class="bad">` + tile))
		Expect(page).NotTo(ContainSubstring(good + tile))
	},
		Entry("the longest gap", func(p *report.Probe) { p.LongestGapMs = 5001 },
			"5001 ms</b><span>longest gap between writes"),
		Entry("the longest time to an event", func(p *report.Probe) { p.MaxLagMs = 10001 },
			"10001 ms</b><span>longest time to a watch event"),
		Entry("requests that were not sent", func(p *report.Probe) { p.RequestsUnsent = 401 },
			"401</b><span>requests not sent</span><span>of 40000 that were due"),
		Entry("writes that failed", func(p *report.Probe) { p.WritesFailed, p.WritesRetryable = 3, 2 },
			"3</b><span>failed writes</span><span>of 12565; client-go would not have sent 1 of them again"),
	)

	It("should tell what client-go would not have sent again beside all that failed", func() {
		r := recorded()
		r.Probe.ReadsFailed, r.Probe.ReadsRetryable = 5, 3
		Expect(report.Markdown(r)).To(ContainSubstring("| reads | 27218 | 5 | 2 |"))
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(ContainSubstring(
			`<td>reads</td><td class="num">27218</td><td class="num">5</td><td class="num">2</td>`))
	})

	It("should mark samples that the DNS server did not answer, and errors of observers", func() {
		r, err := report.FromRecording([]byte(`{"shoot":"a/b","result":"failed"}`),
			[]byte(`{"observerErrors":["no pod of etcd-main runs"],"probe":{"dns":{"samples":9,"unanswered":1}}}`))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Facts).To(ContainElements(
			report.Fact{Name: "unanswered DNS samples", Value: "1", Note: "of 9", Bad: true},
			report.Fact{Name: "errors of observers", Value: "1", Bad: true},
		))
	})

	It("should believe a recording that says when it was triggered", func() {
		r, err := report.FromRecording(
			[]byte(
				`{"shoot":"a/b","result":"failed","durationSeconds":60,"steps":[{"condition":"SourceEtcdPreparedForPeerJoin","seconds":6}]}`),
			[]byte(
				`{"triggered":"2026-03-04T05:06:00Z","problems":["a problem"],"probe":{"seconds":180,"phases":{"before":"2026-03-04T05:05:00Z","after":"2026-03-04T05:07:00Z"}}}`))
		Expect(err).NotTo(HaveOccurred())
		Expect(r).To(And(HaveField("Good", false), HaveField("Problems", []string{"a problem"})))
		Expect(r.End.Sub(r.Begin)).To(Equal(3 * time.Minute))
		Expect(r.Steps[0].End.Sub(r.Triggered)).To(Equal(6 * time.Second))
		Expect(r.Steps[1]).To(And(HaveField("Begin", BeNil()), HaveField("State", "not finished")))
	})

	It("should show what writes took in each step, where that was measured", func() {
		r, err := report.FromRecording([]byte(`{"shoot":"a/b","result":"failed","durationSeconds":60,"steps":[`+
			`{"condition":"SourceEtcdPreparedForPeerJoin","seconds":6,"writeP99Ms":81.5,"writeMaxMs":903.4},`+
			`{"condition":"DestinationEtcdPeersJoined","seconds":7}]}`), nil)
		Expect(err).NotTo(HaveOccurred())
		text := report.Markdown(r)
		Expect(text).To(ContainSubstring("| took | status | p99 of writes (ms) | slowest write (ms) | what it does |"))
		Expect(text).To(MatchRegexp(`\| 1 \| SourceEtcdPreparedForPeerJoin \| .* \| 81\.5 \| 903\.4 \| \w`))
		Expect(text).To(MatchRegexp(`\| 2 \| DestinationEtcdPeersJoined \| .* \| - \| - \| \w`))
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(ContainSubstring(`<th>p99 of writes (ms)</th><th>slowest write (ms)</th>`))
		Expect(page).To(MatchRegexp(`<td class="num">81\.5</td><td class="num">903\.4</td><td class="optional">\w`))
	})

	DescribeTable("should refuse what is no recording", func(reportJSON, detailsJSON, message string) {
		_, err := report.FromRecording([]byte(reportJSON), []byte(detailsJSON))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("no JSON", "<html>", "", "failed to read the recorded report"),
		Entry("other JSON", "{}", "", "it is no report of a migration"),
		Entry("broken details", `{"shoot":"a/b","result":"failed"}`, "[]", "failed to read the details"),
	)
})

var _ = Describe("FromShoot", func() {
	It("should tell how long the steps took, and what happened meanwhile", func() {
		event := func(at time.Time, reason string) corev1.Event {
			return corev1.Event{Reason: reason, Message: "a message", LastTimestamp: metav1.NewTime(at), Count: 1,
				Type: corev1.EventTypeWarning}
		}
		r, err := report.FromShoot(shoot(8), []corev1.Event{event(now.Add(-12*time.Minute), "Held"),
			event(now.Add(-time.Hour), "Earlier"), event(now, "Later")}, now)
		Expect(err).NotTo(HaveOccurred())
		Expect(r).To(And(HaveField("Result", "Succeeded"), HaveField("Good", true), HaveField("Destination", "seed-b")))
		for _, step := range r.Steps[1:] {
			Expect(step.End.Sub(*step.Begin)).To(Equal(time.Minute), step.Condition)
		}
		Expect(r.Events).To(HaveLen(9))
		Expect(r.Events).To(ContainElement(And(HaveField("Text", "Held: a message"), HaveField("Bad", true))))
		Expect(r.Probe).To(BeNil())
	})

	It("should tell how far one is that is under way", func() {
		r, err := report.FromShoot(shoot(2), nil, now)
		Expect(err).NotTo(HaveOccurred())
		Expect(r).To(And(HaveField("Result", "Processing"), HaveField("Source", "seed-a"), HaveField("Seconds", 0.0),
			HaveField("End", now)))
		Expect(r.Steps[2]).To(And(HaveField("Begin", Not(BeNil())), HaveField("End", BeNil()),
			HaveField("State", "Progressing, Started")))
		Expect(r.Steps[3]).To(And(HaveField("Begin", BeNil()), HaveField("State", ContainSubstring("Unknown"))))
	})

	It("should split each step by the reasons at which it stood", func() {
		r, err := report.FromShoot(shoot(2), reasons(), now)
		Expect(err).NotTo(HaveOccurred())
		told := func(step report.Step) []string {
			var out []string
			for _, stand := range step.Reasons {
				out = append(out, stand.Reason+" "+stand.Took().String())
			}
			return out
		}
		Expect(told(r.Steps[0])).To(HaveExactElements("PersistingShootState 40s"), "from when it was seen")
		Expect(told(r.Steps[1])).To(HaveExactElements(" 1s", "Paused 19s", "Started 1s", "PreparingDestination 19s",
			"EtcdNotHealthy 10s", "JoiningEtcdMembers 10s"))
		Expect(told(r.Steps[2])).To(HaveExactElements("Started 10s", "MigratingExtensions 11m50s"))
		Expect(r.Steps[3].Reasons).To(BeEmpty())
	})

	It("should tell nothing of an earlier migration of the hour, nor of an attempt that was aborted", func() {
		requested := corev1.Event{Reason: steps.EventRequested, Message: "Live migration of the control plane",
			EventTime: metav1.NewMicroTime(time.Date(2026, 3, 4, 5, 6, 15, 0, time.UTC))}
		earlier := reasons()
		for i := range earlier {
			earlier[i].EventTime = metav1.NewMicroTime(earlier[i].EventTime.Add(-20 * time.Minute))
		}
		before := requested
		before.EventTime = metav1.NewMicroTime(before.EventTime.Add(-20 * time.Minute))

		alone, err := report.FromShoot(shoot(2), append(reasons(), requested), now)
		Expect(err).NotTo(HaveOccurred())
		r, err := report.FromShoot(shoot(2), slices.Concat([]corev1.Event{before}, earlier, []corev1.Event{requested},
			reasons()), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Steps).To(Equal(alone.Steps))
		Expect(r.Begin).To(Equal(alone.Begin))
		Expect(*r.Steps[0].Begin).To(Equal(time.Date(2026, 3, 4, 5, 6, 20, 0, time.UTC)))
	})

	It("should say that there is nothing to report on", func() {
		_, err := report.FromShoot(&gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}},
			nil, now)
		Expect(err).To(MatchError("Shoot a/b has no conditions of a live migration"))
	})
})

var _ = Describe("formats", func() {
	reports := map[string]func() report.Report{
		"recorded": recorded,
		"workers":  withWorkers,
		"series":   func() report.Report { return withSeries(recorded()) },
		"heat":     func() report.Report { return withHeat(recorded()) },
		"reasons": func() report.Report {
			r, err := report.FromShoot(shoot(2), reasons(), now)
			Expect(err).NotTo(HaveOccurred())
			return r
		},
		"shoot": func() report.Report {
			r, err := report.FromShoot(shoot(8), nil, now)
			Expect(err).NotTo(HaveOccurred())
			return r
		},
		"under-way": func() report.Report {
			r, err := report.FromShoot(shoot(2), nil, now)
			Expect(err).NotTo(HaveOccurred())
			return r
		},
	}

	for _, name := range slices.Sorted(maps.Keys(reports)) {
		make := reports[name]
		It("should write "+name, func() {
			page, err := report.HTML(make())
			Expect(err).NotTo(HaveOccurred())
			expectGolden(name+".html", page)
			expectGolden(name+".md", report.Markdown(make()))
			data, err := json.MarshalIndent(make(), "", "  ")
			Expect(err).NotTo(HaveOccurred())
			expectGolden(name+".json", string(data)+"\n")
		})

		It("should draw what browsers can read, and refer to nothing outside: "+name, func() {
			page, err := report.HTML(make())
			Expect(err).NotTo(HaveOccurred())
			drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
			Expect(len(drawings)).To(BeNumerically(">=", 2))
			for _, drawing := range drawings {
				decoder := xml.NewDecoder(strings.NewReader(drawing))
				for {
					if _, err := decoder.Token(); errors.Is(err, io.EOF) {
						break
					} else {
						Expect(err).NotTo(HaveOccurred())
					}
				}
				Expect(drawing).NotTo(ContainSubstring("NaN"))
			}
			Expect(page).
				NotTo(MatchRegexp(`(?i)\b(src|href|action)\s*=|url\(|@import|<script|<link|<img|<iframe|https?://`))
		})
	}

	It("should show every write in the map of latencies, and the slowest one as well", func() {
		r := withHeat(recorded())
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(And(ContainSubstring(`class="heat h1"`), MatchRegexp(`\d+ writes, the slowest took 4200 ms`),
			MatchRegexp(`no write was acknowledged, \d+ requests failed`), Not(ContainSubstring(`class="curve`))))
		// Ten times slower, it is in a cell of its own, further up.
		highest := regexp.MustCompile(`(?s)<svg class="wide"[^>]*aria-label="Latencies.*?</svg>`).FindString(page)
		r.Probe.Series.Points[100].Counts = recording.CountLatencies(r.Probe.Series.BoundsMs, []float64{42000})
		page, err = report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).NotTo(ContainSubstring(highest))
	})

	It("should say what the condition of a step says beside its name, and not as the time that it took", func() {
		r, err := report.FromShoot(shoot(2), nil, now)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Markdown(r)).To(And(ContainSubstring("| begin | took | status | what it does |"),
			ContainSubstring("| destination | +1:00 | 1 min 0 s | - | Join"),
			ContainSubstring("| source | +2:00 | - | Progressing, Started | Migrate"),
			ContainSubstring("| destination | - | - | Unknown, Pending | Start")))
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(And(ContainSubstring(`<br><span class="soft">Unknown, Pending</span></td>`),
			Not(ContainSubstring(`<td>Unknown, Pending</td>`)),
			ContainSubstring(`<td class="num">-</td><td>-</td>`)))
		r, err = report.FromShoot(shoot(8), nil, now)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Markdown(r)).NotTo(ContainSubstring("| status |"))
	})

	It("should permit its own style sheet by its digest, and nothing else", func() {
		page, err := report.HTML(recorded())
		Expect(err).NotTo(HaveOccurred())
		policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
		Expect(policy).NotTo(BeNil())
		sheet := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)
		Expect(html.UnescapeString(policy[1])).To(Equal("default-src 'none'; style-src " + report.HashOf(sheet[1])))
		Expect(page).NotTo(MatchRegexp(`<[a-z][^>]* style=`), "no digest permits such an attribute")
	})

	It("should not let a text of the world become part of the page", func() {
		r := recorded()
		r.Shoot, r.Problems = "a/<script>alert(1)</script>", []string{"<b>|"}
		r.Etcds[0].Changes[0].Members[0].Name = `seed-a-"><script>`
		r.Events = append(r.Events, report.Event{Time: r.End, Kind: report.KindEvent, Text: "<img>\n| next"})
		page, err := report.HTML(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(page).NotTo(Or(ContainSubstring("<script"), ContainSubstring("<img>"), ContainSubstring("<b>|")))
		Expect(report.Markdown(r)).To(And(Not(ContainSubstring("<script")), ContainSubstring(`&lt;img> \| next`)))
	})

	It("should keep secrets out of what is checked in", func() {
		files, err := filepath.Glob(filepath.Join("testdata", "*", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(len(files)).To(BeNumerically(">=", 12))
		for _, file := range append(files, filepath.Join("testdata", "report.json"),
			filepath.Join("testdata", "details.json")) {
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(data)).
				NotTo(
					MatchRegexp(
						`(?i)BEGIN [A-Z ]*(PRIVATE KEY|CERTIFICATE)|\beyJ[A-Za-z0-9_-]{10,}|client-key-data|bearer |password`),
					file)
		}
	})
})
