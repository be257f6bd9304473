// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/patience"
)

// serverName is a name in the certificate of httptest's servers.
const serverName = "example.com"

var _ = Describe("Probe", func() {
	var (
		ctx    context.Context
		api    *fakeAPI
		server *fakeDNS
		config probe.Config
	)

	BeforeEach(func() {
		ctx = context.Background()
		api = newFakeAPI(true)
		DeferCleanup(func() { api.server.Close() })
		server = newFakeDNS()
		DeferCleanup(server.server.Shutdown)
		server.set(serverName, "127.0.0.1")

		config = probe.Config{
			REST: &rest.Config{
				Host: "https://" + serverName + ":" + api.port(),
				TLSClientConfig: rest.TLSClientConfig{
					CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.server.Certificate().Raw}),
				},
			},
			DNSServer:       server.address,
			DNSNames:        []string{serverName},
			DNSInterval:     10 * time.Millisecond,
			WritesPerSecond: 200,
			ReadsPerSecond:  100,
			EventsPerSecond: 50,
			Watches:         3,
			Keys:            2,
			ListObjects:     12,
			RequestTimeout:  patience.Eventually,
			DrainTimeout:    patience.Eventually,
			CleanupTimeout:  patience.Eventually,
		}
	})

	// waitForLost is how long a probe waits for events that never come.
	const waitForLost = 3 * time.Second

	// load waits until the probe has made a fair number of further requests, however slow the machine is.
	load := func(p *probe.Probe) {
		GinkgoHelper()
		requests := func() int64 { s := p.Snapshot(); return s.Writes + s.Reads }
		enough := requests() + 60
		time.Sleep(300 * time.Millisecond)
		Eventually(requests).Should(BeNumerically(">=", enough))
	}
	// acknowledged waits until the next write is acknowledged.
	acknowledged := func(p *probe.Probe) {
		GinkgoHelper()
		begin := time.Now()
		Eventually(func() bool {
			sinceBegin := time.Since(begin)
			return p.Snapshot().SinceLastWrite < sinceBegin
		}).Should(BeTrue())
	}
	// alsoAwait is what else is waited for before the trigger and after the migration, besides the load.
	var alsoAwait func(p *probe.Probe)
	BeforeEach(func() { alsoAwait = func(*probe.Probe) {} })

	// running is the probe whose load is on the fake.
	var running *probe.Probe
	// run puts load on the fake for a while and calls the functions in between.
	run := func(steps ...func()) *probe.Result {
		GinkgoHelper()
		p, err := probe.New(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Start(ctx)).To(Succeed())
		running = p
		stopped := false
		DeferCleanup(func() {
			// A spec that has failed must not leave load on a server that waits for it to end.
			if !stopped {
				ended, end := context.WithCancel(ctx)
				end()
				_, _ = p.Stop(ended)
			}
		})
		load(p)
		alsoAwait(p)
		p.Mark(probe.PhaseDuring)
		for _, step := range steps {
			step()
			load(p)
		}
		p.Mark(probe.PhaseAfter)
		load(p)
		alsoAwait(p)
		stopped = true
		result, err := p.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.namespaceCount()).To(BeZero(), "the namespace should be deleted")
		Expect(result.Details.Verified).To(BeTrue())
		return result
	}

	// locked changes a fault switch of the fake.
	locked := func(change func()) func() {
		return func() {
			api.mu.Lock()
			defer api.mu.Unlock()
			change()
		}
	}

	// follow waits until so many watches have begun to follow.
	follow := func(times int) {
		GinkgoHelper()
		Eventually(api.following.Load).Should(BeNumerically(">=", times*config.Watches))
	}

	expectCleanCounts := func(result *probe.Result) {
		GinkgoHelper()
		Expect(result.Details.Incidents).To(BeEmpty())
		Expect(result.WritesFailed).To(BeZero())
		Expect(result.ReadsFailed).To(BeZero())
		Expect(result.RawConnectionErrors).To(BeZero())
		Expect(result.WatchEventsLost).To(BeZero())
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
		Expect(result.Details.AcknowledgedEventsLost).To(BeZero())
	}

	It("should find nothing wrong with a server that works", func() {
		alsoAwait = acknowledged
		result := run()
		expectCleanCounts(result)
		Expect(result.Writes).To(BeNumerically(">", 20))
		Expect(result.Reads).To(BeNumerically(">", 10))
		Expect(result.WatchEvents).To(BeNumerically(">", 3*10))
		Expect(result.BaselineLongestWriteGapMs).To(BeNumerically(">", 0))
		Expect(result.WriteP99Ms.Before).To(BeNumerically(">", 0))
		Expect(result.WriteP99Ms.After).To(BeNumerically(">", 0))
		for _, w := range result.Details.Watches {
			Expect(w.Established).To(BeNumerically("==", 1))
			Expect(w.Duplicates + w.OutOfOrder + w.Resets).To(BeZero())
		}
	})

	It("should put the load on as a service account of its namespace", func() {
		config.REST.BearerToken = "of-an-administrator"
		expectCleanCounts(run())
		Expect(api.identity).To(Equal(identityResources))
		Expect(api.writers).To(HaveLen(1))
		Expect(api.writers).To(HaveKey("Bearer " + loadToken))
		Expect(api.pagers).To(Equal(map[string]bool{"Bearer of-an-administrator": true}),
			"they are there before the load")
	})

	DescribeTable("should say what it may not create, and leave nothing behind", func(resource, message string) {
		api.refuse = resource
		p, err := probe.New(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Start(ctx)).To(MatchError(ContainSubstring(message)))
		Expect(api.namespaceCount()).To(BeZero())
	},
		Entry("the service account", "serviceaccounts", "failed to create ServiceAccount livecpm-probe-"),
		Entry("its role", "roles", "failed to create Role livecpm-probe-"),
		Entry("their binding", "rolebindings", "failed to create RoleBinding livecpm-probe-"),
		Entry("the token", "token", "failed to request a token of ServiceAccount livecpm-probe-"),
	)

	It("should open a connection and ask the DNS server for each request of the new half", func() {
		config.EventsPerSecond = 1
		result := run()
		expectCleanCounts(result)
		// Half of all requests, the watches, the kept connections and the one that prepares and verifies.
		fresh := float64(result.Writes+result.Reads) / 2
		Expect(float64(result.Details.Dials)).To(BeNumerically("~", fresh, 0.2*fresh+10))
		Expect(server.questions.Load()).To(BeNumerically(">=", int64(0.8*fresh)))
	})

	It("should tell the course of the run, and that nothing failed", func() {
		result := run()
		// How much of this load can be sent depends on the machine.
		Expect(slices.DeleteFunc(result.Failures(), func(failure string) bool {
			return strings.Contains(failure, "were not sent")
		})).To(BeEmpty())
		Expect(result.Details.Phases).To(And(HaveLen(3), HaveKey(probe.PhaseDuring)))
		series := result.Details.Series
		Expect(series.Begin).To(Equal(result.Details.Phases[probe.PhaseBefore]))
		writes := int64(0)
		for _, point := range series.Points {
			writes += int64(point.Writes)
			Expect(point.Failed).To(BeZero())
			Expect(point.P50Ms).To(BeNumerically("<=", point.P99Ms))
			Expect(point.P99Ms).To(BeNumerically("<=", point.MaxMs))
		}
		Expect(writes).To(Equal(result.Writes), "all were acknowledged")
	})

	It("should use kept connections only, if it is told to, and the system's resolver without a DNS server", func() {
		config.NewPercent = new(0)
		config.DNSServer, config.DNSNames = "", nil
		config.REST.Host = "https://127.0.0.1:" + api.port()
		config.REST.ServerName = serverName
		// Many connections may be begun at once, however slow the machine is, and then serve all that follows.
		alsoAwait = func(p *probe.Probe) {
			Eventually(func() int64 { s := p.Snapshot(); return s.Writes + s.Reads }).
				Should(BeNumerically(">=", 300))
		}
		result := run()
		expectCleanCounts(result)
		Expect(result.Details.DNS).To(BeNil())
		// The kept ones, the watches, and a few that were begun at the same time.
		Expect(result.Details.Dials).To(BeNumerically("<", (result.Writes+result.Reads)/4))
	})

	DescribeTable("should refuse what makes no sense", func(message string, spoil func()) {
		spoil()
		_, err := probe.New(config)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("more than all connections", "between 0 and 100 percent", func() { config.NewPercent = new(101) }),
		Entry("names without a server", "at a DNS server only", func() { config.DNSServer = "" }),
	)

	It("should count what fails, and not try again", func() {
		var refused atomic.Int64
		result := run(locked(func() {
			api.onWrite = func(w http.ResponseWriter, _ *corev1.ConfigMap) bool {
				if refused.Add(1) > 5 {
					return false
				}
				answerStatus(w, 500, metav1.StatusReasonInternalError)
				return true
			}
		}))
		Expect(result.WritesFailed).To(BeNumerically("==", 5))
		Expect(result.WritesRetryable).To(BeZero())
		Expect(result.ReadsFailed).To(BeZero())
		Expect(result.WatchEventsLost).To(BeZero())
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should count what client-go would send again by itself as failed", func() {
		var refused atomic.Int64
		result := run(locked(func() {
			api.onWrite = func(w http.ResponseWriter, _ *corev1.ConfigMap) bool {
				if refused.Add(1) > 5 {
					return false
				}
				w.Header().Set("Retry-After", "1")
				answerStatus(w, 503, metav1.StatusReasonServiceUnavailable)
				return true
			}
		}))
		Expect(result.WritesFailed).To(BeNumerically("==", 5))
		Expect(result.WritesRetryable).To(BeNumerically("==", 5))
		Expect(result.Details.Incidents).To(ContainElement(And(HaveField("Kind", "write"),
			HaveField("Retryable", true))))
		Expect(result.Details.RequestsDeferred).To(BeNumerically("==", 5))
		Expect(result.RawConnectionErrors).To(BeNumerically(">=", 5))
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should count a request that takes too long as failed, and the gap", func() {
		config.WritesPerSecond, config.KeptConnections, config.RequestTimeout = 20, 2, time.Second
		var hung atomic.Int64
		// They are carried out when nobody waits for them any more.
		hang := func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			<-r.Context().Done()
			hung.Add(1)
		}
		result := run(func() {
			api.beforeWrite.Store(&hang)
			// More than can be under way at once: one was sent when another one had hung already. What did not hang
			// because it was sent before had no more time than each of the two.
			writes, _ := probe.Slots(config)
			candidates := 2
			Eventually(hung.Load).Should(BeNumerically(">", 2*writes+config.KeptConnections+candidates))
		}, func() { api.beforeWrite.Store(nil) }, func() {
			Expect(running.Snapshot().LongestWriteGap).To(BeNumerically(">=", config.RequestTimeout))
		})
		Expect(result.WritesFailed).To(BeNumerically(">", 0))
		Expect(result.LongestWriteGapMs).To(BeNumerically(">=", config.RequestTimeout.Milliseconds()))
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should count connections that break, also where the client repairs it by itself", func() {
		result := run(func() {
			follow(1)
			api.server.CloseClientConnections()
		})
		Expect(result.RawConnectionErrors).To(BeNumerically(">=", config.Watches))
		Expect(result.Details.ConnectionsLost).To(BeNumerically(">=", config.Watches))
		Expect(result.WatchEventsLost).To(BeZero(), "the watches should continue where they stopped")
		for _, w := range result.Details.Watches {
			Expect(w.Established).To(BeNumerically("==", 2))
			Expect(w.Duplicates + w.OutOfOrder).To(BeZero())
		}
	})

	// withHTTP1 has a server whose connections each serve one request at a time, so that they can end with it.
	withHTTP1 := func() {
		api.server.Close()
		api = newFakeAPI(false)
		config.REST.Host = "https://" + serverName + ":" + api.port()
		config.REST.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.server.Certificate().Raw})
	}

	It("should count requests that net/http silently sends again", func() {
		// With HTTP/1.1 it is easy to provoke: the server ends a kept connection instead of answering.
		withHTTP1()
		result := run(func() { api.hangUps.Store(3) })
		Expect(result.ReadsFailed).To(BeZero(), "the client should not notice")
		Expect(result.Details.RequestsResent).To(BeNumerically("==", 3))
		Expect(result.RawConnectionErrors).To(BeNumerically(">=", 3))
	})

	It("should count reads whose connection ends as failed, and that client-go would send them again", func() {
		withHTTP1()
		config.NewPercent = new(100)
		result := run(func() { api.cutReads.Store(3) })
		Expect(result.ReadsFailed).To(BeNumerically("==", 3))
		Expect(result.ReadsRetryable).To(BeNumerically("==", 3))
		Expect(result.WritesFailed).To(BeZero())
		Expect(result.Details.Incidents).To(ContainElement(And(HaveField("Kind", "read"),
			HaveField("Retryable", true))))
	})

	It("should count a watch whose connection ends before the answer as failed, not as one without events", func() {
		withHTTP1()
		api.cutWatches.Store(2)
		result := run(func() { follow(1) })
		Expect(result.ReadsFailed).To(BeNumerically("==", 2))
		Expect(result.ReadsRetryable).To(BeNumerically("==", 2))
		Expect(result.WatchEventsLost).To(BeZero())
		failed := int64(0)
		for _, w := range result.Details.Watches {
			Expect(w.Established).To(BeNumerically("==", 1))
			failed += w.Failed
		}
		Expect(failed).To(BeEquivalentTo(2))
	})

	It("should tell what was due, and what of it was not sent", func() {
		result := run()
		d := result.Details
		Expect(d.Scheduled).To(And(HaveKey("kept writes"), HaveKey("kept reads"), HaveKey("new writes"),
			HaveKey("new reads"), HaveKey("Events")))
		// Elections and informers are not scheduled.
		Expect(d.RequestsDue - d.MissedTicks).To(BeNumerically("~", result.Writes+result.Reads, 20))
	})

	It("should tell Events from other writes", func() {
		result := run()
		events, others := result.Details.EventWrites, result.Details.OtherWrites
		Expect(events.Sent).To(BeNumerically(">", 0))
		Expect(others.Sent).To(BeNumerically(">", events.Sent))
		Expect(events.Sent + others.Sent).To(Equal(result.Writes))
		for _, part := range []*recording.WriteFigures{events, others} {
			Expect(part.Failed).To(BeZero())
			Expect(part.LongestGapMs).To(BeNumerically(">=", result.LongestWriteGapMs),
				"the other part fills no gap of this one")
		}
	})

	It("should count an address that refuses although another one serves", func() {
		server.set(serverName, "127.0.0.2", "127.0.0.1")
		result := run()
		Expect(result.WritesFailed + result.ReadsFailed).To(BeZero())
		Expect(result.Details.DialErrors).To(BeNumerically(">", 0))
		Expect(result.RawConnectionErrors).To(Equal(result.Details.DialErrors))
	})

	It("should not hammer an address that accepts connections and closes them", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = listener.Close() }()
		var accepted atomic.Int64
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				_ = conn.Close()
			}
		}()
		clientSet, err := kubernetes.NewForConfig(&rest.Config{Host: "http://" + listener.Addr().String()})
		Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(context.Background())
		begin, watched := time.Now(), make(chan struct{})
		go func() {
			defer close(watched)
			probe.Watch(ctx, clientSet.CoreV1().RESTClient())
		}()
		Eventually(accepted.Load).Should(BeNumerically(">", 8))
		cancel()
		<-watched
		// A slow machine has had more time for them, and is allowed no more of them for each second.
		Expect(float64(accepted.Load()) / time.Since(begin).Seconds()).To(BeNumerically("<", 20))
	})

	It("should resume watches that the server ends, without counting it as an error", func() {
		result := run(func() {
			follow(1)
			api.endAllWatches()
		}, func() {
			follow(2)
			api.endAllWatches()
		}, func() { follow(3) })
		expectCleanCounts(result)
		for _, w := range result.Details.Watches {
			Expect(w.Established).To(BeNumerically("==", 3))
			Expect(w.Duplicates + w.OutOfOrder).To(BeZero())
		}
	})

	It("should notice events that a watch does not deliver", func() {
		config.DrainTimeout = waitForLost
		api.deliveries = func(watch, entry int64) int {
			if watch == 1 && entry%10 == 0 {
				return 0
			}
			return 1
		}
		result := run()
		Expect(result.WatchEventsLost).To(BeNumerically(">", 0))
		Expect(result.Details.Watches).To(ContainElement(HaveField("LostExamples", Not(BeEmpty()))))
		Expect(result.WritesFailed + result.ReadsFailed + result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should notice events that a watch delivers twice", func() {
		api.deliveries = func(_, entry int64) int {
			if entry%20 == 0 {
				return 2
			}
			return 1
		}
		result := run()
		Expect(result.WatchEventsLost).To(BeZero())
		for _, w := range result.Details.Watches {
			Expect(w.Duplicates).To(BeNumerically(">", 0))
		}
	})

	It("should count the events in between as lost when a watch cannot resume", func() {
		config.DrainTimeout = waitForLost
		result := run(func() {
			follow(1)
			api.expired.Store(true)
			api.endAllWatches()
			Eventually(api.goneAt).Should(BeNumerically(">=", config.Watches))
		}, func() { api.expired.Store(false) })
		Expect(result.WatchEventsLost).To(BeNumerically(">", 0))
		for _, w := range result.Details.Watches {
			Expect(w.Resets).To(BeNumerically(">", 0))
			Expect(w.Failed).To(BeNumerically(">=", w.Resets), "every informer would list again")
		}
		Expect(result.ReadsFailed).To(BeNumerically(">", 0))
	})

	It("should notice an acknowledged update that is not there", func() {
		config.DrainTimeout = waitForLost
		var lost atomic.Bool
		api.forget = func(configMap *corev1.ConfigMap) bool {
			// Only an update names the revision that it was made of, so only an update can conflict.
			return strings.Contains(configMap.Name, "-update-") && configMap.Data["sequence"] == "5" &&
				lost.CompareAndSwap(false, true)
		}
		result := run(func() {
			Eventually(api.conflicts.Load).Should(BeNumerically(">=", 1), "the next write should conflict")
		})
		Expect(result.Details.AcknowledgedWritesLost).To(BeNumerically("==", 1))
		Expect(result.WritesFailed).To(BeNumerically(">=", 1), "the next write should conflict")
		informers := 1
		Expect(result.WatchEventsLost).To(BeNumerically("<=", config.Watches+informers))
	})

	It("should notice an acknowledged creation that is not there", func() {
		config.DrainTimeout = waitForLost
		api.forget = func(configMap *corev1.ConfigMap) bool {
			return strings.Contains(configMap.Name, "-mark-")
		}
		config.Keys = 1
		result := run(func() {})
		Expect(result.Details.AcknowledgedWritesLost).To(BeNumerically(">", 0))
	})

	It("should notice an acknowledged Event that is not there", func() {
		config.DrainTimeout = waitForLost
		result := run(locked(func() { clear(api.events) }))
		Expect(result.Details.AcknowledgedEventsLost).To(BeNumerically(">", 0))
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should count reads that are older than what was acknowledged", func() {
		result := run(locked(func() {
			api.onRead = func(configMap *corev1.ConfigMap) { configMap.Data["sequence"] = "1" }
		}), func() {
			// On a slow machine it takes longer than a load until an object is read that was written twice.
			Eventually(func() int64 { return running.Snapshot().ReadsFailed }).Should(BeNumerically(">", 0))
		}, locked(func() { api.onRead = nil }))
		Expect(result.Details.StaleReads).To(BeNumerically(">", 0))
		Expect(result.ReadsFailed).To(Equal(result.Details.StaleReads), "%v", result.Details.Incidents)
	})

	It("should not count a failed write as lost, whether it was carried out or not", func() {
		result := run(locked(func() {
			api.onWrite = func(w http.ResponseWriter, configMap *corev1.ConfigMap) bool {
				if strings.Contains(configMap.Name, "-mark-") || api.configMaps[configMap.Name] == nil {
					return false
				}
				if strings.HasPrefix(configMap.Name, "new") {
					api.store("MODIFIED", configMap)
				}
				answerStatus(w, 500, metav1.StatusReasonInternalError)
				return true
			}
		}), locked(func() { api.onWrite = nil }))
		Expect(result.WritesFailed).To(BeNumerically(">", 0))
		Expect(result.ReadsFailed).To(BeZero())
		Expect(result.WatchEventsLost).To(BeZero())
		Expect(result.Details.AcknowledgedWritesLost).To(BeZero())
	})

	It("should refuse to start when a name has no record", func() {
		config.DNSNames = []string{"nowhere.example.com"}
		p, err := probe.New(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Start(ctx)).To(MatchError(probe.ErrNoRecord))
		Expect(api.namespaceCount()).To(BeZero())
	})

	It("should refuse rates without measure", func() {
		config.WritesPerSecond = 100000
		_, err := probe.New(config)
		Expect(err).To(MatchError(ContainSubstring("writes per second")))
	})
})

var _ = Describe("Failures", func() {
	It("should name all that went wrong, and a check that was not made", func() {
		result := &probe.Result{Writes: 10, Reads: 10, WritesFailed: 1, ReadsFailed: 2, WatchEventsLost: 3,
			WatchEvents: 8, Details: &probe.Details{
				AcknowledgedWritesLost: 4, AcknowledgedEventsLost: 5, DNS: &probe.DNSResult{MomentsWithoutRecord: 6},
				Watches: []probe.WatchDetails{{Duplicates: 7}},
			}}
		Expect(result.Failures()).To(Equal([]string{
			"1 writes failed", "2 reads failed", "3 watch events were lost", "4 acknowledged writes were lost",
			"5 acknowledged Events were lost",
			"6 moments without a DNS record", "watch 1 delivered 7 events twice and 0 out of order",
			"how many requests were due is not known",
			"the acknowledged writes could not be verified",
		}))
		Expect((&probe.Result{}).Failures()).To(ContainElement(ContainSubstring("too short")))
	})
})
