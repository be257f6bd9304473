// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/extension/stateful"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

var _ = Describe("WorkersPicture", func() {
	picture := func() demo.WorkersPicture {
		return demo.WorkersPicture{
			Machines: map[string]string{"one-a": "machine-one-a"}, MachineUIDs: map[string]string{"machine-one-a": "1"},
			NodeUIDs: map[string]string{"machine-one-a": "2"}, States: map[string]string{"Network workers": "id"},
		}
	}

	It("should find nothing where nothing has changed", func() {
		Expect(picture().Compare(picture())).To(BeEmpty())
	})

	It("should tell everything that has", func() {
		after := picture()
		after.Machines = map[string]string{"one-b": "machine-one-b"}
		after.MachineUIDs["machine-one-a"] = "9"
		after.NodeUIDs["machine-one-a"] = "8"
		after.States["Network workers"] = "<nil>"
		Expect(picture().Compare(after)).To(HaveExactElements(
			`node of machine one-a: "machine-one-a" -> ""`,
			`node of machine one-b: "" -> "machine-one-b"`,
			`UID of machine machine-one-a: "1" -> "9"`,
			`UID of node machine-one-a: "2" -> "8"`,
			`state of Network workers: "id" -> "<nil>"`,
		))
	})
})

var _ = Describe("Pools and states", func() {
	It("should be told of before and after", func() {
		before := demo.WorkersPicture{
			Machines: map[string]string{"a": "node-a", "b": "node-b"},
			Pools:    map[string]string{"node-a": "one", "node-b": "two"}, States: map[string]string{"Network x": "1"},
		}
		after := demo.WorkersPicture{
			Machines: map[string]string{"a": "node-a", "c": "node-c"}, Pools: map[string]string{"node-a": "one",
				"node-c": "two"}, States: map[string]string{"Extension y": "2"},
		}
		Expect(before.ComparePools(after)).To(HaveExactElements(
			demo.PoolReport{Name: "one",
				Machines: []demo.MachineReport{{Name: "a", Before: "node-a", After: "node-a"}}},
			demo.PoolReport{Name: "two",
				Machines: []demo.MachineReport{{Name: "b", Before: "node-b"}, {Name: "c", After: "node-c"}}},
		))
		Expect(before.CompareStates(after)).To(HaveExactElements(demo.StateReport{Resource: "Extension y", After: "2"},
			demo.StateReport{Resource: "Network x", Before: "1"}))
	})

	It("should not show a state, only whether it is the same", func() {
		one := demo.Digest(map[string]any{"a": "secret", "b": int64(1)})
		Expect(one).To(MatchRegexp(`^20 bytes, sha256 [0-9a-f]{12}$`))
		Expect(demo.Digest(map[string]any{"b": int64(1), "a": "secret"})).To(Equal(one))
		Expect(demo.Digest(map[string]any{"a": "Secret", "b": int64(1)})).NotTo(Equal(one))
		Expect(demo.Digest(nil)).To(Equal("none"))
	})
})

var _ = Describe("Requests that webhooks judge", func() {
	// asked answers as a kube-apiserver does, and returns what it was asked for and the answer of the demo to it.
	asked := func(ctx context.Context, answer http.HandlerFunc) (*http.Request, *corev1.Pod, error) {
		GinkgoHelper()
		var (
			request *http.Request
			pod     = &corev1.Pod{}
		)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer GinkgoRecover()
			request = r
			Expect(json.NewDecoder(r.Body).Decode(pod)).To(Succeed())
			w.Header().Set("Content-Type", "application/json")
			answer(w, r)
		}))
		defer server.Close()
		config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		shoot, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		err = demo.AskWebhook(ctx, shoot)
		return request, pod, err
	}

	It("should store no pod, and be content with one that a webhook has changed", func(ctx SpecContext) {
		request, pod, err := asked(ctx, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","spec":{"nodeSelector":{`+
				`"worker.gardener.cloud/system-components":"true"}}}`)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(request.Method + " " + request.URL.String()).
			To(Equal("POST /api/v1/namespaces/kube-system/pods?dryRun=All"))
		Expect(pod.Labels).To(Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener"}))
	})

	It("should fail where no webhook was asked", func(ctx SpecContext) {
		_, _, err := asked(ctx, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","spec":{}}`)
		})
		Expect(err).To(MatchError(ContainSubstring("no webhook has been asked")))
	})

	It("should fail where one was not answered, at the first try", func(ctx SpecContext) {
		attempts := 0
		_, _, err := asked(ctx, func(w http.ResponseWriter, _ *http.Request) {
			attempts++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,`+
				`"reason":"InternalError","message":"failed calling webhook: connection refused"}`)
		})
		Expect(err).To(MatchError(ContainSubstring("failed calling webhook")))
		Expect(attempts).To(Equal(1))
	})

	It("should be counted until the context ends, with what failed", func(ctx SpecContext) {
		asking, cancel := context.WithCancel(ctx)
		requests := demo.Repeat(asking, func(_ context.Context, i int) (string, error) {
			switch i {
			case 1:
				return "one", errors.New("refused")
			case 2:
				cancel()
			}
			return "one", nil
		})
		Expect(requests.Requests).To(Equal(2), "the last one was interrupted")
		Expect(requests.Failed).To(Equal(1))
		Expect(requests.Errors).To(ConsistOf(HaveSuffix(" one: refused")))
	})
})

var _ = Describe("InClusterTally", func() {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	counts := func(node string, began time.Time, requests, failed int, gap int64) incluster.Counts {
		return incluster.Counts{Node: node, Started: began, Reads: requests / 2, Writes: requests - requests/2,
			Failed: failed, LongestGapMs: gap}
	}

	It("should take the last counts of each node, and remember the gap before the trigger", func() {
		tally := &demo.InClusterTally{}
		tally.Note([]incluster.Counts{counts("a", began, 10, 0, 300)})
		tally.Trigger()
		tally.Note([]incluster.Counts{counts("a", began, 101, 1, 900)})
		tally.Note([]incluster.Counts{counts("a", began, 50, 0, 300)})
		tally.Note([]incluster.Counts{counts("b", began, 200, 0, 100)})
		report := tally.Report(began.Add(time.Minute), nil)
		Expect(report).To(And(HaveField("Requests", 301), HaveField("Failed", 1), HaveField("LongestGapMs", int64(900)),
			HaveField("BaselineLongestGapMs", int64(300)), HaveField("Doubts", BeEmpty())))
		Expect(report.Nodes["a"]).
			To(Equal(demo.InClusterNode{Requests: 101, Failed: 1, LongestGapMs: 900, Seconds: 60, Due: 120}))
	})

	It("should tell from when until when requests failed, and how many read less than acknowledged", func() {
		tally := &demo.InClusterTally{}
		first := counts("a", began, 100, 2, 300)
		first.FirstFailed, first.LastFailed = began.Add(7*time.Second), began.Add(9*time.Second)
		second := counts("b", began, 100, 1, 300)
		second.FirstFailed, second.LastFailed, second.Stale = began.Add(8*time.Second), began.Add(12*time.Second), 1
		tally.Note([]incluster.Counts{first})
		tally.Note([]incluster.Counts{second})
		tally.Note([]incluster.Counts{counts("c", began, 100, 0, 300)})
		Expect(tally.Report(began.Add(time.Minute), nil)).To(And(HaveField("Stale", 1),
			HaveField("FirstFailed", began.Add(7*time.Second)), HaveField("LastFailed", began.Add(12*time.Second))))
	})

	It("should keep what a client had counted before it began again, and say that it did", func() {
		tally := &demo.InClusterTally{}
		before := counts("a", began, 100, 2, 100)
		before.Errors = []string{"refused"}
		tally.Note([]incluster.Counts{before})
		tally.Note([]incluster.Counts{counts("a", began.Add(time.Minute), 5, 0, 50)})
		report := tally.Report(began.Add(2*time.Minute), nil)
		Expect(report).To(And(HaveField("Requests", 105), HaveField("Failed", 2),
			HaveField("Errors", ConsistOf("a: refused"))))
		Expect(report.Doubts).
			To(ConsistOf(ContainSubstring("node a began again 1 times, the last time at 2026-11-20T12:01:00Z")))
	})

	It("should leave out what clients of an earlier run have counted", func() {
		tally := &demo.InClusterTally{Since: began}
		Expect(tally.Note([]incluster.Counts{counts("a", began.Add(-time.Hour), 100, 7, 100)})).To(BeFalse())
		Expect(tally.Note([]incluster.Counts{counts("a", began.Add(-time.Hour), 100, 7, 100),
			counts("a", began.Add(time.Second), 5, 0, 50)})).To(BeTrue())
		report := tally.Report(began.Add(time.Minute), nil)
		Expect(report).To(And(HaveField("Requests", 5), HaveField("Failed", 0), HaveField("LongestGapMs", int64(50)),
			HaveField("Doubts", BeEmpty())))
	})

	It("should say what could not be read in the end", func() {
		report := (&demo.InClusterTally{}).Report(began, map[string]error{"a": errors.New("no answer")})
		Expect(report.Doubts).
			To(ConsistOf("what the in-cluster client on node a has noticed in the end is not known: no answer"))
	})
})

var _ = Describe("Misdone", func() {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	operation := func(seed, kind string, from, to int) stateful.Operation {
		return stateful.Operation{
			Seed: seed, Kind: "Network", Name: "workers", Operation: kind,
			Begin: begin.Add(time.Duration(from) * time.Second), End: begin.Add(time.Duration(to) * time.Second),
		}
	}

	It("should be content when one seed follows the other", func() {
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 1), operation("a", "Delete", 0, 2),
			operation("b", "Restore", 2, 3)})).To(BeEmpty())
	})

	It("should find two seeds at the same time, and failures", func() {
		failed := operation("b", "Restore", 1, 3)
		failed.Error = "no state"
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 2), failed})).To(HaveExactElements(
			"b Restore of Network workers: no state",
			"a Migrate of Network workers and b Restore of Network workers at the same time",
		))
		other := operation("b", "Restore", 1, 3)
		other.Name = "another"
		Expect(demo.Misdone([]stateful.Operation{operation("a", "Migrate", 0, 2), other})).To(BeEmpty())
	})
})
