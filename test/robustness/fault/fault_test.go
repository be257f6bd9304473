// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

var _ = Describe("All", func() {
	It("should hold every kind of fault", func() {
		families := []string{}
		for _, f := range fault.All() {
			families = append(families, f.Family())
		}
		Expect(slices.Compact(families)).To(Equal([]string{
			"agent-kill", "etcd-kill", "apiserver-delete", "relay-kill", "cut", "rtt", "garden-stop",
			"gardenlet-restart", "druid-restart", "quota-full", "version-skew", "etcd-kill", "etcd-stop", "agent-stop",
			"relay-stop", "apiserver-stop", "gateway-stop", "gateway-kill", "kube-controller-manager-kill",
			"cut-oneway", "reset", "loss", "garden-etcd-stop", "dns-stop", "istiod-stop", "resource-manager-stop",
			"cut-again", "livecpm-controller-manager-kill", "bucket-gone", "saturated", "agent-kill-again",
			"relay-kill-again",
		}))
	})

	It("should give every fault a name of its own by which it is found", func() {
		names := map[string]bool{}
		for _, f := range fault.All() {
			Expect(names).NotTo(HaveKey(f.Name()))
			names[f.Name()] = true
			Expect(f.Name()).To(HavePrefix(f.Family() + "-"))
			found, ok := fault.Get(f.Name())
			Expect(ok).To(BeTrue())
			Expect(found.Name()).To(Equal(f.Name()))
		}
		_, ok := fault.Get("no-such-fault")
		Expect(ok).To(BeFalse())
	})

	It("should hit every step at both moments, and every fault at least one", func() {
		for _, step := range steps.Table() {
			for _, moment := range fault.Moments() {
				Expect(fault.All()).
					To(ContainElement(Satisfy(func(f fault.Fault) bool { return f.Applies(step, moment) })), "%s %s",
						step, moment)
			}
		}
		for _, f := range fault.All() {
			Expect(steps.Table()).
				To(ContainElement(Satisfy(func(step steps.Step) bool { return f.Applies(step, fault.Boundary) })),
					f.Name())
		}
	})

	DescribeTable("should apply where there is something to hit", func(name, expected string) {
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		// One pair of letters for each step: b for its boundary, i for its inside.
		actual := ""
		for _, step := range steps.Table() {
			for _, moment := range fault.Moments() {
				letter := "."
				if f.Applies(step, moment) {
					letter = string(moment[0])
				}
				actual += letter
			}
		}
		Expect(actual).To(Equal(expected))
	},
		Entry(nil, "agent-kill-source", "bibibibibibibibi"),
		Entry(nil, "agent-kill-both", "bibibibibibibibi"),
		Entry(nil, "etcd-kill-source", "bibibibibibi...."),
		Entry(nil, "etcd-kill-destination", "....bibibibibibi"),
		Entry(nil, "apiserver-delete-source", "bibibibibibib..."),
		Entry(nil, "apiserver-delete-destination", "........bibibibi"),
		Entry(nil, "relay-kill-source", "..bibibibibib..."),
		Entry(nil, "relay-kill-destination", "...ibibibibibi.."),
		Entry(nil, "cut-5s", "...ibibibibibi.."),
		Entry(nil, "cut-10m", "..bibibibibibi.."),
		Entry(nil, "rtt-180ms", "..bibibibibibi.."),
		Entry(nil, "garden-stop-60s", "bibibibibibibibi"),
		Entry(nil, "node-drain-destination", "............bi.."),
		Entry(nil, "node-drain-joint-destination", "....bibibi......"),
		Entry(nil, "node-drain-joint-both", "....bibibi......"),
		Entry(nil, "version-skew-destination", "bibibibibibibibi"),
		Entry(nil, "etcd-stop-events-leader", "bibibibibibibibi"),
		Entry(nil, "etcd-stop-main-two", "....bibibib....."),
		Entry(nil, "etcd-kill-main-two", "....bibibib....."),
		Entry(nil, "apiserver-stop-destination", "........bibibibi"),
		Entry(nil, "kube-controller-manager-kill-source", "bibibibibibib..."),
		Entry(nil, "livecpm-controller-manager-kill-30s", "bibibibibibibibi"),
		Entry(nil, "bucket-gone-60s", "bibibibibibibibi"),
		Entry(nil, "saturated-step-source", "bibibibibibibibi"),
		Entry(nil, "agent-kill-again-both", "..bi..bi..bibibi"),
		Entry(nil, "relay-kill-again-source", "..bi..bi..bib..."),
		Entry(nil, "relay-kill-again-destination", "...i..bi..bibi.."),
	)

	DescribeTable("should last", func(name string, expected fault.Course) {
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		Expect(f.Course()).To(Equal(expected))
	},
		Entry(nil, "agent-kill-both", fault.Course{}),
		Entry(nil, "cut-5s", fault.Course{Lasts: 5 * time.Second}),
		Entry(nil, "cut-60s", fault.Course{Lasts: time.Minute}),
		Entry(nil, "cut-10m", fault.Course{Lasts: 10 * time.Minute}),
		Entry(nil, "rtt-50ms", fault.Course{Lasts: 20 * time.Minute, ThroughStep: true}),
		Entry(nil, "cut-again-3s", fault.Course{Lasts: 20 * time.Minute, ThroughStep: true}),
		Entry(nil, "garden-stop-60s", fault.Course{Lasts: time.Minute}),
		Entry(nil, "livecpm-controller-manager-kill-30s", fault.Course{Lasts: 30 * time.Second}),
		Entry(nil, "bucket-gone-60s", fault.Course{Lasts: time.Minute}),
		Entry(nil, "saturated-30s-source", fault.Course{Lasts: 30 * time.Second}),
		Entry(nil, "saturated-step-source", fault.Course{Lasts: 20 * time.Minute, ThroughStep: true}),
		Entry(nil, "relay-kill-again-source", fault.Course{Lasts: 20 * time.Minute, ThroughStep: true}),
		Entry(nil, "version-skew-source", fault.Course{Lasts: 45 * time.Second, Early: true}),
	)
})

var _ = Describe("Faults", func() {
	var targets *fakes

	BeforeEach(func() { targets = newFakes() })

	inject := func(ctx context.Context, name string) error {
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		return f.Inject(ctx, &targets.Targets)
	}
	heal := func(ctx context.Context, name string) error {
		f, _ := fault.Get(name)
		return f.Heal(ctx, &targets.Targets)
	}

	DescribeTable("should kill containers", func(ctx SpecContext, name string, killed ...string) {
		Expect(inject(ctx, name)).To(Succeed())
		Expect(targets.killed()).To(ConsistOf(killed))
		Expect(targets.signals).To(HaveLen(len(killed)))
		Expect(heal(ctx, name)).To(Succeed())
		Expect(targets.signals).To(HaveLen(len(killed)))
	},
		Entry(nil, "agent-kill-source", "source livecpm-agent-1 agent"),
		Entry(nil, "agent-kill-destination", "destination livecpm-agent-1 agent"),
		Entry(nil, "agent-kill-both", "source livecpm-agent-1 agent", "destination livecpm-agent-1 agent"),
		Entry(nil, "etcd-kill-source", "source etcd-main-1 etcd"),
		Entry(nil, "etcd-kill-destination", "destination etcd-main-1 etcd"),
		Entry(nil, "relay-kill-source", "source livecpm-relay-0 relay"),
		Entry(nil, "etcd-kill-main-leader", "source etcd-main-1 etcd"),
		Entry(nil, "etcd-kill-main-follower", "source etcd-main-0 etcd"),
		Entry(nil, "etcd-kill-events-leader", "source etcd-events-1 etcd"),
		Entry(nil, "etcd-kill-events-follower", "source etcd-events-0 etcd"),
		Entry(nil, "etcd-kill-main-two", "source etcd-main-1 etcd", "source etcd-main-0 etcd"),
		Entry(nil, "gateway-kill-destination", "destination istio-ingressgateway-0 istio-proxy"),
		Entry(nil, "kube-controller-manager-kill-source", "source kube-controller-manager-0 kube-controller-manager"),
	)

	DescribeTable("should stop containers and let them continue, also without memory",
		func(ctx SpecContext, name string, stopped ...string) {
			f, _ := fault.Get(name)
			Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
			Expect(targets.signalled("SIGSTOP")).To(ConsistOf(stopped))
			Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeTrue())
			Expect(heal(ctx, name)).To(Succeed(), "another fault of the name")
			Expect(targets.signalled("SIGCONT")).To(ConsistOf(stopped))
			Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeFalse())
			Expect(heal(ctx, name)).To(Succeed())
			Expect(targets.signals).To(HaveLen(2 * len(stopped)))
		},
		Entry(nil, "etcd-stop-main-leader", "source etcd-main-1 etcd"),
		Entry(nil, "etcd-stop-main-follower", "source etcd-main-0 etcd"),
		Entry(nil, "etcd-stop-events-leader", "source etcd-events-1 etcd"),
		Entry(nil, "etcd-stop-events-follower", "source etcd-events-0 etcd"),
		Entry(nil, "etcd-stop-main-two", "source etcd-main-1 etcd", "source etcd-main-0 etcd"),
		Entry(nil, "agent-stop-destination", "destination livecpm-agent-1 agent"),
		Entry(nil, "relay-stop-source", "source livecpm-relay-0 relay"),
		Entry(nil, "apiserver-stop-destination", "destination kube-apiserver-0 kube-apiserver"),
		Entry(nil, "gateway-stop-source", "source istio-ingressgateway-0 istio-proxy"),
		Entry(nil, "istiod-stop-source", "source istiod-0 discovery", "source istiod-1 discovery"),
		Entry(nil, "resource-manager-stop-destination",
			"destination gardener-resource-manager-0 gardener-resource-manager",
			"destination gardener-resource-manager-1 gardener-resource-manager"),
	)

	It("should kill livecpm-controller-manager, and start it again", func(ctx SpecContext) {
		const manager = "livecpm-controller-manager"
		f, _ := fault.Get(manager + "-kill-30s")
		targets.Signal = func(pid int, signal unix.Signal) error {
			Expect(pid).To(Equal(75))
			Expect(signal).To(Equal(unix.SIGKILL))
			delete(targets.pids, manager)
			return nil
		}
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(ConsistOf(ContainSubstring("have ended")))
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeTrue())
		Expect(f.Inject(ctx, &targets.Targets)).To(MatchError(ContainSubstring("does not run")))
		Expect(heal(ctx, f.Name())).To(Succeed(), "another fault of the name")
		Expect(targets.pids).To(HaveKeyWithValue(manager, 76))
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeFalse())
		targets.Start = func(context.Context, string) error { return errors.New("it runs") }
		Expect(heal(ctx, f.Name())).To(Succeed(), "nothing to heal")
	})

	It("should take the buckets away, and put them back", func(ctx SpecContext) {
		f, _ := fault.Get("bucket-gone-60s")
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.gone).To(BeTrue())
		Expect(targets.TakeProofs()).To(HaveLen(1))
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeTrue())
		Expect(heal(ctx, f.Name())).To(Succeed())
		Expect(targets.gone).To(BeFalse())
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeFalse())
	})

	DescribeTable("should saturate the processors of a seed", func(ctx SpecContext, name, seed string) {
		f, _ := fault.Get(name)
		const loops = 40
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.loops).To(Equal(map[string]int{seed: loops}))
		Expect(targets.TakeProofs()).
			To(ConsistOf(ContainSubstring("%d endless loops in %s have taken 1s", loops, seed)))
		Expect(f.(fault.Witnessed).Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(ConsistOf("they have taken 1s in all"))
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeTrue())
		targets.loops[seed]--
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeFalse(), "one has ended")
		Expect(heal(ctx, name)).To(Succeed())
		Expect(targets.loops).To(BeEmpty())
	},
		Entry(nil, "saturated-30s-source", "seed-a"),
		Entry(nil, "saturated-step-destination", "seed-b"),
	)

	It("should not saturate a machine that has no room for it", func(ctx SpecContext) {
		targets.Processors = 3
		Expect(inject(ctx, "saturated-30s-source")).To(MatchError(ContainSubstring("use one with 4")))
		Expect(targets.loops).To(BeEmpty())
	})

	It("should not take loops that get no processor for a saturated seed", func(ctx SpecContext) {
		targets.idle = true
		Expect(inject(ctx, "saturated-30s-source")).To(MatchError(ContainSubstring("the loops take processors")))
	})

	It("should not take a container that a probe has ended for one that stands still", func(ctx SpecContext) {
		f, _ := fault.Get("agent-stop-source")
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		pid, _, _ := strings.Cut(targets.signals[0], " ")
		Expect(os.RemoveAll(filepath.Join(targets.Proc, pid))).To(Succeed())
		Expect(f.(fault.Fleeting).InForce(ctx, &targets.Targets)).To(BeFalse())
	})

	It("should let continue what was stopped in part", func(ctx SpecContext) {
		obey, stops := targets.Signal, 0
		targets.Signal = func(pid int, signal unix.Signal) error {
			if stops++; stops == 2 {
				return errors.New("refused")
			}
			return obey(pid, signal)
		}
		Expect(inject(ctx, "etcd-stop-main-two")).To(MatchError(ContainSubstring("refused")))
		Expect(heal(ctx, "etcd-stop-main-two")).To(Succeed())
		Expect(targets.signalled("SIGCONT")).To(Equal(targets.signalled("SIGSTOP")))
		Expect(targets.signalled("SIGCONT")).To(HaveLen(1))
	})

	It("should look for a leader wherever one is, and take no other member for it", func(ctx SpecContext) {
		targets.etcd.broken = []string{"etcd-main-1"}
		Expect(inject(ctx, "etcd-stop-main-leader")).To(MatchError("the leader of etcd-main does not show"))
		Expect(targets.signals).To(BeEmpty())
	})

	It("should take two members only if a quorum is left", func(ctx SpecContext) {
		// Four answer.
		targets.etcd.voters = 1
		Expect(inject(ctx, "etcd-stop-main-two")).To(Succeed())
		targets.etcd.voters = 2
		for _, name := range []string{"etcd-stop-main-two", "etcd-kill-main-two"} {
			Expect(inject(ctx, name)).To(MatchError("etcd-main cannot spare two members: 4 of 4 voters answer"))
		}
	})

	It("should ask each member once, and all at the same time", func(ctx SpecContext) {
		var asked sync.WaitGroup
		asked.Add(4)
		targets.etcd.meet = func() { asked.Done(); asked.Wait() }
		Expect(inject(ctx, "etcd-kill-main-two")).To(Succeed(), "a fifth question panics")
		Expect(targets.etcd.closed).To(Equal(4))
	}, SpecTimeout(patience.Eventually))

	DescribeTable("should signal all containers before it looks at one", func(ctx SpecContext, name string) {
		obey, signalled := targets.Signal, 0
		targets.Signal = func(pid int, signal unix.Signal) error {
			if signalled++; signalled < 2 {
				return nil // It ends when the other one does.
			}
			for signal := range targets.containers {
				first, _, _ := strings.Cut(signal, " ")
				number, err := strconv.Atoi(first)
				Expect(err).NotTo(HaveOccurred())
				Expect(os.RemoveAll(filepath.Join(targets.Proc, strconv.Itoa(number)))).To(Succeed())
			}
			return obey(pid, signal)
		}
		Expect(inject(ctx, name)).To(Succeed())
		Expect(signalled).To(Equal(2))
	}, Entry(nil, "agent-kill-both"), Entry(nil, "etcd-kill-main-two"))

	It("should not mind that a process has ended with another one of its container", func(ctx SpecContext) {
		pods := targets.seeds[steps.Source].CoreV1().Pods(shootNamespace)
		pod, err := pods.Get(ctx, "livecpm-relay-0", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		Expect(write(filepath.Join(targets.Proc, "9999", "cgroup"), "4:cpu:/x/"+id+"\n")).To(Succeed())
		obey := targets.Signal
		gone := []int{9999}
		targets.Signal = func(pid int, signal unix.Signal) error {
			if slices.Contains(gone, pid) {
				return unix.ESRCH
			}
			return obey(pid, signal)
		}
		Expect(inject(ctx, "relay-kill-source")).To(Succeed())
		Expect(targets.killed()).To(Equal([]string{"source livecpm-relay-0 relay"}))
	})

	It("should not take processes that have ended by themselves for killed ones", func(ctx SpecContext) {
		targets.Signal = func(int, unix.Signal) error { return unix.ESRCH }
		Expect(inject(ctx, "relay-kill-source")).To(MatchError(unix.ESRCH))
	})

	It("should replace the pods of killed agents", func(ctx SpecContext) {
		Expect(inject(ctx, "agent-kill-both")).To(Succeed())
		for _, role := range []steps.Role{steps.Source, steps.Destination} {
			Expect(targets.deleted(role)).To(Equal([]string{"garden/livecpm-agent-1 grace 0"}))
		}
	})

	Describe("a deletion that fails", func() {
		// failing lets the API server of the source fail when it deletes a pod.
		failing := func(err error, carriedOut bool) {
			kube := targets.seeds[steps.Source]
			kube.PrependReactor("delete", "pods", func(action testing.Action) (bool, runtime.Object, error) {
				if carriedOut {
					deletion := action.(testing.DeleteAction)
					Expect(kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"),
						deletion.GetNamespace(), deletion.GetName())).To(Succeed())
				}
				return true, nil, err
			})
		}
		const name = "apiserver-delete-source"

		DescribeTable("should count if the pod leaves nevertheless", func(ctx SpecContext, err error) {
			failing(err, true)
			Expect(inject(ctx, name)).To(Succeed())
		},
			Entry("without an answer", errors.New("context deadline exceeded")),
			Entry("with an answer of somebody who does not know", apierrors.NewTimeoutError("no answer", 1)),
			Entry("with an answer of somebody who has failed", apierrors.NewInternalError(errors.New("timed out"))),
		)

		It("should not count if the API server has refused it", func(ctx SpecContext) {
			failing(apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("no")), true)
			Expect(inject(ctx, name)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		})
	})

	It("should kill any member of etcd if the leader does not show", func(ctx SpecContext) {
		targets.etcd.broken = []string{"etcd-main-1"}
		Expect(inject(ctx, "etcd-kill-source")).To(Succeed())
		Expect(targets.killed()).To(ConsistOf("source etcd-main-0 etcd"))
		Expect(targets.etcd.closed).To(Equal(2))
	})

	DescribeTable("should delete pods", func(ctx SpecContext, name string, role steps.Role, deleted ...string) {
		Expect(inject(ctx, name)).To(Succeed())
		Expect(targets.deleted(role)).To(Equal(deleted))
		Expect(targets.deleted(role.Peer())).To(BeEmpty())
		Expect(heal(ctx, name)).To(Succeed())
	},
		Entry(nil, "apiserver-delete-source", steps.Source, shootNamespace+"/kube-apiserver-0"),
		Entry(nil, "apiserver-delete-destination", steps.Destination, shootNamespace+"/kube-apiserver-0"),
		Entry(nil, "relay-kill-source", steps.Source, shootNamespace+"/livecpm-relay-0 grace 0"),
		Entry(nil, "relay-kill-destination", steps.Destination, shootNamespace+"/livecpm-relay-0 grace 0"),
		Entry(nil, "gardenlet-restart-source", steps.Source, "garden/gardenlet-0", "garden/gardenlet-1"),
		Entry(nil, "druid-restart-destination", steps.Destination, "garden/etcd-druid-0", "garden/etcd-druid-1"),
	)

	DescribeTable("should disturb the traffic into both seeds", func(ctx SpecContext, name, expected string) {
		Expect(inject(ctx, name)).To(Succeed())
		Expect(targets.traffic).To(Equal(map[string][]string{"seed-a": {expected}, "seed-b": {expected}}))
		Expect(heal(ctx, name)).To(Succeed())
		Expect(targets.traffic).To(HaveEach(BeEmpty()))
	},
		Entry(nil, "cut-60s", "*--shoot--demo--live.* latency=0s cut=freeze"),
		Entry(nil, "rtt-180ms", "*--shoot--demo--live.* latency=90ms cut="),
		Entry(nil, "reset-5s", "*--shoot--demo--live.* latency=0s cut=reset"),
		Entry(nil, "loss-10pct", "*--shoot--demo--live.* latency=0s cut= loss=10"),
		Entry(nil, "cut-again-3s", "*--shoot--demo--live.* latency=0s cut=freeze every=20s for=3s"),
	)

	It("should cut what one side sends, in connections of either side", func(ctx SpecContext) {
		Expect(inject(ctx, "cut-oneway-source")).To(Succeed())
		Expect(targets.traffic).To(Equal(map[string][]string{
			"seed-a": {"*--shoot--demo--live.* latency=0s cut=freeze direction=downstream"},
			"seed-b": {"*--shoot--demo--live.* latency=0s cut=freeze direction=upstream"},
		}))
		Expect(heal(ctx, "cut-oneway-source")).To(Succeed())
		Expect(targets.traffic).To(HaveEach(BeEmpty()))
	})

	DescribeTable("should stop a daemon and let it continue", func(ctx SpecContext, name, pid string) {
		Expect(inject(ctx, name)).To(Succeed())
		Expect(heal(ctx, name)).To(Succeed())
		Expect(targets.signals).To(Equal([]string{pid + " SIGSTOP", pid + " SIGCONT"}))
	},
		Entry(nil, "garden-etcd-stop-60s", "73"),
		Entry(nil, "dns-stop-60s", "74"),
	)

	It("should leave latency in force when a cut is over", func(ctx SpecContext) {
		Expect(inject(ctx, "rtt-180ms")).To(Succeed())
		Expect(inject(ctx, "cut-5s")).To(Succeed())
		Expect(heal(ctx, "cut-5s")).To(Succeed())
		Expect(targets.traffic).To(HaveEach(Equal([]string{"*--shoot--demo--live.* latency=90ms cut="})))
		Expect(heal(ctx, "rtt-180ms")).To(Succeed())
		Expect(targets.traffic).To(HaveEach(BeEmpty()))
	})

	It("should stop the servers of the garden's API and let them continue", func(ctx SpecContext) {
		Expect(inject(ctx, "garden-stop-60s")).To(Succeed())
		Expect(targets.signals).To(Equal([]string{"71 SIGSTOP", "72 SIGSTOP"}))
		Expect(heal(ctx, "garden-stop-60s")).To(Succeed())
		Expect(targets.signals[2:]).To(Equal([]string{"71 SIGCONT", "72 SIGCONT"}))
	})

	It("should raise and disarm the alarm of a full quota through whichever member answers", func(ctx SpecContext) {
		targets.etcd.broken = []string{"etcd-main-0"}
		Expect(inject(ctx, "quota-full-30s")).To(Succeed())
		Expect(targets.etcd.alarms).To(HaveLen(1))
		Expect(heal(ctx, "quota-full-30s")).To(Succeed())
		Expect(targets.etcd.alarms).To(BeEmpty())
	})

	It("should fail to raise the alarm if no member answers", func(ctx SpecContext) {
		targets.etcd.broken = []string{"etcd-main-0", "etcd-main-1"}
		Expect(inject(ctx, "quota-full-30s")).To(MatchError("no answer"))
	})

	It("should skew the version of one seed and put it right again, more than once", func(ctx SpecContext) {
		for range 2 {
			Expect(inject(ctx, "version-skew-destination")).To(Succeed())
			Expect(targets.version(steps.Destination)).To(Equal("v1.150.0-skew"))
			Expect(targets.version(steps.Source)).To(Equal("v1.150.0"))
		}
		for range 2 {
			Expect(heal(ctx, "version-skew-destination")).To(Succeed())
			Expect(targets.version(steps.Destination)).To(Equal("v1.150.0"))
		}
	})

	It("should report whether somebody has put the version right", func(ctx SpecContext) {
		f, ok := fault.Get("version-skew-source")
		Expect(ok).To(BeTrue())
		skew := f.(fault.Fleeting)
		Expect(skew.InForce(ctx, &targets.Targets)).To(BeFalse())
		Expect(inject(ctx, "version-skew-source")).To(Succeed())
		Expect(skew.InForce(ctx, &targets.Targets)).To(BeTrue())
		Expect(heal(ctx, "version-skew-destination")).To(Succeed())
		Expect(skew.InForce(ctx, &targets.Targets)).To(BeFalse())
	})

	DescribeTable("should tell that there is nothing to hit",
		func(ctx SpecContext, name string, spoil func(ctx context.Context, targets *fakes), problem string) {
			spoil(ctx, targets)
			Expect(inject(ctx, name)).To(MatchError(ContainSubstring(problem)))
		},
		Entry("no agent is the leader", "agent-kill-source", func(ctx context.Context, targets *fakes) {
			leases := targets.seeds[steps.Source].CoordinationV1().Leases("garden")
			lease, err := leases.Get(ctx, "livecpm-agent-leader-election", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			lease.Spec.HolderIdentity = nil
			_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}, "seed-a (source): no agent is the leader"),
		Entry("the process is elsewhere", "agent-kill-destination", func(_ context.Context, targets *fakes) {
			targets.Proc = GinkgoT().TempDir()
		}, "failed to find a process of container agent"),
		Entry("the container does not run", "etcd-kill-source", func(ctx context.Context, targets *fakes) {
			pods := targets.seeds[steps.Source].CoreV1().Pods(shootNamespace)
			pod, err := pods.Get(ctx, "etcd-main-1", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			pod.Status.ContainerStatuses[0].State.Running = nil
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}, "container etcd of pod shoot--demo--live/etcd-main-1 does not run"),
		Entry("there is no relay", "relay-kill-source", func(ctx context.Context, targets *fakes) {
			Expect(targets.seeds[steps.Source].CoreV1().Pods(shootNamespace).Delete(ctx, "livecpm-relay-0",
				metav1.DeleteOptions{})).To(Succeed())
		}, `pods "livecpm-relay-0" not found`),
		Entry("the garden does not run", "garden-stop-60s", func(_ context.Context, targets *fakes) {
			delete(targets.pids, "gardener-apiserver")
		}, "daemon gardener-apiserver of the landscape does not run"),
		Entry("there is no destination",
			"cut-5s", func(_ context.Context, targets *fakes) { delete(targets.Seeds, steps.Destination) },
			"there is no destination seed"),
	)
})

var _ = Describe("The midst of a step", func() {
	now := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)

	It("should know the midst of every step", func() {
		for _, step := range steps.Table() {
			Expect(step.Midst.Reasons).NotTo(BeEmpty(), step.String())
			Expect(step.Midst.Reached(now, time.Time{}, step.Midst.Reasons[0])).To(BeTrue())
		}
	})

	DescribeTable("should be reached", func(mark steps.Midst, began time.Time, reason steps.Reason, expected bool) {
		Expect(mark.Reached(now, began, reason)).To(Equal(expected))
	},
		Entry("by its reason", steps.Midst{Reasons: []steps.Reason{steps.ReasonRollingEtcd}}, now,
			steps.ReasonRollingEtcd, true),
		Entry("not by another reason", steps.Midst{Reasons: []steps.Reason{steps.ReasonRollingEtcd}}, now,
			steps.ReasonStarted, false),
		Entry("by its time", steps.Midst{After: time.Second}, now.Add(-time.Second), steps.ReasonStarted, true),
		Entry("not before its time", steps.Midst{After: time.Second}, now, steps.ReasonStarted, false),
		Entry("not by time before it has begun", steps.Midst{After: time.Second}, time.Time{}, steps.ReasonPending,
			false),
		Entry("not by time if it has none", steps.Midst{}, now.Add(-time.Hour), steps.ReasonStarted, false),
	)
})
