// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"encoding/pem"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Kinds of requests", func() {
	var (
		ctx    context.Context
		api    *fakeAPI
		config probe.Config
		change func(*probe.Probe)
	)

	BeforeEach(func() {
		ctx, change = context.Background(), func(*probe.Probe) {}
		api = newFakeAPI(true)
		DeferCleanup(func() { api.server.Close() })
		config = probe.Config{
			REST: &rest.Config{
				Host: "https://127.0.0.1:" + api.port(),
				TLSClientConfig: rest.TLSClientConfig{
					ServerName: serverName,
					CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
						Bytes: api.server.Certificate().Raw}),
				},
			},
			// A handshake for every other request takes what a machine has that is busy with other things.
			NewPercent:      new(0),
			WritesPerSecond: 200, ReadsPerSecond: 120, EventsPerSecond: 20, Watches: 2, Keys: 2, ListObjects: 9,
			RequestTimeout: patience.Eventually, DrainTimeout: patience.Eventually, CleanupTimeout: patience.Eventually,
		}
	})

	// waitForLost is how long a probe waits for events that never come.
	const waitForLost = time.Second

	// run puts load on the fake, calls the function as soon as all kinds have been sent, and lets the load continue for
	// as many requests.
	run := func(step func(sent func() int64)) *probe.Result {
		GinkgoHelper()
		p, err := probe.New(config)
		Expect(err).NotTo(HaveOccurred())
		change(p)
		Expect(p.Start(ctx)).To(Succeed())
		sent := func() int64 { s := p.Snapshot(); return s.Writes + s.Reads }
		load := func() {
			GinkgoHelper()
			enough := sent() + 150
			Eventually(sent).Should(BeNumerically(">=", enough))
		}
		load()
		step(sent)
		load()
		result, err := p.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Details.Verified).To(BeTrue())
		Expect(api.namespaceCount()).To(BeZero())
		Expect(api.definitionCount()).To(BeZero(), "the probe's own resource should be removed")
		return result
	}

	nothing := func(func() int64) {}

	failedKind := func(verb, kind string, failed int) OmegaMatcher {
		return ContainElement(And(HaveField("Verb", verb), HaveField("Kind", kind),
			HaveField("Failed", BeEquivalentTo(failed)), HaveField("Sent", BeNumerically(">", failed))))
	}

	It("should send all kinds, and find nothing wrong with a server that works", func() {
		api.others.metrics.Store(true)
		result := run(nothing)
		Expect(result.Details.Incidents).To(BeEmpty())
		Expect(result.WritesFailed + result.ReadsFailed + result.WatchEventsLost).To(BeZero())
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
		Expect(result.Details.Relists + result.Details.LeadershipLost).To(BeZero())
		Expect(result.Details.Skipped).To(BeEmpty())
		sum := int64(0)
		for _, kind := range result.Details.Kinds {
			if kind.Verb != "watch" {
				sum += kind.Sent
			}
		}
		Expect(sum).To(Equal(result.Writes + result.Reads))
		for _, request := range []string{"create ConfigMap", "get ConfigMap", "list ConfigMap", "update ConfigMap",
			"merge patch ConfigMap", "apply ConfigMap", "delete ConfigMap", "create Sample", "update Sample",
			"update the status of Sample", "get Sample", "create Lease", "update Lease", "get Lease", "create Event",
			"list PodMetrics"} {
			words := strings.Split(request, " ")
			verb, kind := strings.Join(words[:len(words)-1], " "), words[len(words)-1]
			Expect(result.Details.Kinds).To(failedKind(verb, kind, 0), request)
			Expect(result.Details.Kinds).To(ContainElement(And(HaveField("Verb", verb), HaveField("Kind", kind),
				HaveField("P99Ms.Before", BeNumerically(">", 0)), HaveField("P99Ms.During", BeZero()),
				HaveField("Retryable", BeZero()))), request)
		}
	})

	DescribeTable("should count what fails of each kind, and name it",
		func(verb, kind string, is func(r *http.Request) bool) {
			api.others.metrics.Store(true)
			var refused atomic.Int64
			refuses := func(r *http.Request) bool { return is(r) && refused.Add(1) <= 3 }
			result := run(func(func() int64) {
				api.refuseIf.Store(&refuses)
				Eventually(refused.Load).Should(BeNumerically(">=", 3))
			})
			Expect(result.Details.Kinds).To(failedKind(verb, kind, 3))
			Expect(result.WritesFailed + result.ReadsFailed).To(BeEquivalentTo(3))
			retryable := int64(0)
			for _, kind := range result.Details.Kinds {
				retryable += kind.Retryable
			}
			Expect(retryable).To(Equal(result.WritesRetryable + result.ReadsRetryable))
			Expect(result.Details.Incidents).To(ContainElement(
				HaveField("Error", ContainSubstring("failed to "+verb+" "+kind))))
			Expect(result.Details.AcknowledgedWritesLost + result.WatchEventsLost).To(BeZero())
		},
		Entry("creations", "create", "ConfigMap", request(http.MethodPost, "/configmaps")),
		Entry("updates", "update", "ConfigMap", request(http.MethodPut, "/configmaps/")),
		Entry("patches", "merge patch", "ConfigMap", patch("application/merge-patch+json")),
		Entry("applies", "apply", "ConfigMap", patch("application/apply-patch+yaml")),
		Entry("deletions", "delete", "ConfigMap", request(http.MethodDelete, "/configmaps/")),
		Entry("custom resources", "update", "Sample", request(http.MethodPut, "/samples/", "/status")),
		Entry("their status", "update the status of", "Sample", request(http.MethodPut, "/status")),
		Entry("Leases", "update", "Lease", request(http.MethodPut, "/leases/", "/election")),
		Entry("elections", "update", "Lease", request(http.MethodPut, "/leases/election")),
		Entry("Events", "create", "Event", request(http.MethodPost, "/events")),
		Entry("reads", "get", "ConfigMap", request(http.MethodGet, "/configmaps/")),
		Entry("reads of custom resources", "get", "Sample", request(http.MethodGet, "/samples/")),
		Entry("reads of Leases", "get", "Lease", request(http.MethodGet, "/leases/")),
		Entry("pages of lists", "list", "ConfigMap", func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "probe-page")
		}),
		Entry("an aggregated API", "list", "PodMetrics", request(http.MethodGet, "/pods")),
	)

	It("should count a list in pages that misses an object", func() {
		result := run(func(sent func() int64) {
			api.others.lossy.Store(true)
			enough := sent() + 150
			Eventually(sent).Should(BeNumerically(">=", enough))
			api.others.lossy.Store(false)
		})
		Expect(result.ReadsFailed).To(BeNumerically(">", 0))
		Expect(result.Details.Incidents).To(ContainElement(HaveField("Error", ContainSubstring("had 8 objects of 9"))))
	})

	It("should count objects of lists that are gone in the end as lost", func() {
		result := run(func(func() int64) {
			api.mu.Lock()
			defer api.mu.Unlock()
			delete(api.configMaps, "page-00003")
		})
		Expect(result.Details.AcknowledgedWritesLost).To(BeEquivalentTo(1))
	})

	It("should count deletions of which the watches do not tell", func() {
		config.DrainTimeout = waitForLost
		api.others.silent.Store(true)
		result := run(nothing)
		Expect(result.WatchEventsLost).To(BeNumerically(">", 0))
		for _, w := range result.Details.Watches {
			Expect(w.Lost).To(BeNumerically(">", 0))
			Expect(w.LostExamples).To(ContainElement(ContainSubstring("-brief-")))
		}
		Expect(result.Details.Incidents).To(ContainElement(
			HaveField("Error", ContainSubstring("the informer of ConfigMap does not have"))))
	})

	It("should count acknowledged deletions that are not carried out", func() {
		config.DrainTimeout = waitForLost
		api.others.keep.Store(true)
		Expect(run(nothing).Details.AcknowledgedWritesLost).To(BeNumerically(">", 0))
	})

	DescribeTable("should count acknowledged writes of other kinds that are not there", func(kind, name string) {
		config.DrainTimeout = waitForLost
		forget := func(of, object string) bool { return of == kind && strings.Contains(object, name) }
		result := run(func(func() int64) { api.others.forget.Store(&forget) })
		Expect(result.Details.AcknowledgedWritesLost).To(BeNumerically(">", 0))
	},
		Entry("custom resources", "Sample", "-sample-"),
		Entry("Leases", "Lease", "-heartbeat-"),
		Entry("the Lease of an election", "Lease", "election"),
	)

	It("should count how often informers have to list again", func() {
		config.DrainTimeout = waitForLost
		var relists func() int64
		change = func(p *probe.Probe) { relists = p.Relists }
		result := run(func(func() int64) {
			api.expired.Store(true)
			api.endAllWatches()
			Eventually(func() int64 { return relists() }).Should(BeNumerically(">", 0))
			api.expired.Store(false)
		})
		Expect(result.Details.Relists).To(BeNumerically(">", 0))
	})

	It("should count an informer that cannot watch", func() {
		var refused atomic.Int64
		refuses := func(r *http.Request) bool {
			return r.URL.Query().Get("watch") != "" && informs(r) && refused.Add(1) <= 2
		}
		result := run(func(func() int64) {
			api.refuseIf.Store(&refuses)
			api.endAllWatches()
			Eventually(refused.Load).Should(BeNumerically(">=", 2))
		})
		failed := int64(0)
		for _, kind := range result.Details.Kinds {
			if kind.Verb == "watch" {
				failed += kind.Failed
			}
		}
		Expect(failed).To(BeEquivalentTo(2))
		Expect(result.ReadsFailed).To(BeEquivalentTo(2))
		Expect(result.Details.Incidents).To(ContainElement(
			HaveField("Error", MatchRegexp("failed to watch (ConfigMap|Sample) for an informer"))))
	})

	It("should count a watch of an informer whose connection ends before the answer", func() {
		var failed func() int64
		change = func(p *probe.Probe) { failed = func() int64 { return p.Snapshot().ReadsFailed } }

		// Connections that each serve one request at a time can end with it.
		api.server.Close()
		api = newFakeAPI(false)
		config.REST.Host = "https://127.0.0.1:" + api.port()
		config.REST.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.server.Certificate().Raw})
		result := run(func(func() int64) {
			// net/http repeats by itself what ends on a connection that served before, on another one. Only when none
			// of these is left does the informer hear of it.
			api.others.cutWatches.Store(math.MaxInt64)
			api.endAllWatches()
			Eventually(func() int64 { return failed() }).Should(BeNumerically(">", 0))
			api.others.cutWatches.Store(0)
		})
		Expect(result.ReadsFailed).To(BeNumerically(">", 0))
		Expect(result.ReadsRetryable).To(Equal(result.ReadsFailed))
		Expect(result.Details.Incidents).To(ContainElement(
			HaveField("Error", MatchRegexp("failed to watch (ConfigMap|Sample) for an informer: no answer"))))
	})

	It("should count a leader that cannot stay, beside its requests", func() {
		change = func(p *probe.Probe) {
			probe.HurryElection(p, 900*time.Millisecond, 600*time.Millisecond, 100*time.Millisecond)
		}
		var refused atomic.Int64
		is := request(http.MethodPut, "/leases/election")
		refuses := func(r *http.Request) bool {
			if is(r) {
				refused.Add(1)
				return true
			}
			return false
		}
		lost := false
		result := run(func(func() int64) {
			api.refuseIf.Store(&refuses)
			// More than one leader can send until its time is over, and those that follow it.
			Eventually(refused.Load).Should(BeNumerically(">", 40))
			lost = true
			api.refuseIf.Store(nil)
		})
		Expect(lost).To(BeTrue())
		Expect(result.Details.LeadershipLost).To(BeNumerically(">", 0))
		Expect(result.WritesFailed).To(BeNumerically(">", result.Details.LeadershipLost))
		Expect(result.Details.Incidents).To(ContainElement(
			HaveField("Error", ContainSubstring("failed to lead by Lease"))))
	})

	It("should say that there is no aggregated API, and ask for no permission for it", func() {
		result := run(nothing)
		Expect(result.Details.Skipped).To(ConsistOf(ContainSubstring("the shoot has no metrics.k8s.io/v1beta1")))
		Expect(result.ReadsFailed).To(BeZero())
		Expect(api.others.role.Rules).NotTo(ContainElement(HaveField("APIGroups", ContainElement("metrics.k8s.io"))))
	})

	It("should have permission for what it does in its namespace, and for nothing else", func() {
		run(nothing)
		Expect(api.others.role.Rules).To(HaveLen(5))
		for _, rule := range api.others.role.Rules {
			Expect(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)).NotTo(ContainElement(rbacv1.VerbAll))
		}
	})

	It("should leave nothing behind if it may not make its own resource known", func() {
		api.refuse = "customresourcedefinitions"
		p, err := probe.New(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Start(ctx)).To(MatchError(ContainSubstring("failed to create CustomResourceDefinition samples.run-")))
		Expect(api.namespaceCount()).To(BeZero())
	})
})

// request tells requests of the method by a part of their path, and by what is not in it.
func request(method, path string, except ...string) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		for _, other := range except {
			if strings.Contains(r.URL.Path, other) {
				return false
			}
		}
		return r.Method == method && strings.Contains(r.URL.Path, path) && r.Header.Get("Authorization") ==
			"Bearer "+loadToken
	}
}

func patch(contentType string) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPatch && r.Header.Get("Content-Type") == contentType
	}
}

var _ = Describe("Shares", func() {
	It("should have parts that add up to the default rates", func() {
		writes, reads := probe.Shares()
		usual := probe.Defaults(probe.Config{})
		Expect(usual.WritesPerSecond).To(And(Equal(writes), Equal(28)))
		Expect(usual.ReadsPerSecond).To(And(Equal(reads), Equal(40)))
		Expect(usual.ListObjects).To(Equal(2000))
	})

	It("should have a slot for whatever is due while others wait for their timeout", func() {
		writes, reads := probe.Slots(probe.Config{})
		Expect(writes).To(BeNumerically(">=", 14*10))
		Expect(reads).To(BeNumerically(">=", 20*10))

		heavy := probe.Config{}
		probe.Heavy(&heavy)
		Expect(probe.Defaults(heavy).WritesPerSecond).To(Equal(100))
		Expect(probe.Defaults(heavy).ReadsPerSecond).To(Equal(40))
		writes, ofHeavy := probe.Slots(heavy)
		Expect(writes).To(BeNumerically(">=", 50*10))
		Expect(ofHeavy).To(Equal(reads))
	})

	It("should spread the parts evenly, with a slot for each of them at least", func() {
		Expect(probe.Turns(1)).To(ContainElements("update", "patch", "apply", "mark", "brief", "sample", "heartbeat"))
		turns := probe.Turns(10)
		Expect(turns).To(HaveLen(28))
		// Wherever a run of it begins, half of the slots have about half of the largest part.
		for begin := range 14 {
			updates := 0
			for _, name := range turns[begin : begin+14] {
				if name == "update" {
					updates++
				}
			}
			Expect(updates).To(BeNumerically("~", 5, 1))
		}
	})
})
