// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

// without are the reasons that are no moments of a migration, and why.
var without = map[steps.Reason]string{
	steps.ReasonPending:             "the step has not begun",
	steps.ReasonStarted:             "the boundary strikes as a step begins",
	steps.ReasonCompleted:           "the step is over, and the boundary of the next one strikes",
	steps.ReasonPaused:              "the boundary strikes when the migration resumes",
	steps.ReasonGateNotInForce:      "nothing is done meanwhile",
	steps.ReasonPrerequisitesNotMet: "nothing is done meanwhile",
	steps.ReasonVersionSkew:         "nothing is done meanwhile, and it is what a fault of its own makes",
	steps.ReasonSyncFailed:          "it is what a fault makes of any step",
	steps.ReasonActionFailed:        "it is what a fault makes of any step",
	steps.ReasonDeadlineExceeded:    "it is what a fault makes of any step",
	steps.ReasonQuorumAtRisk:        "it is what a fault makes of steps that move members",
	steps.ReasonQuorumLost:          "the suite of recovery strikes it",
	steps.ReasonForeignEtcdMember:   "an operator has to act",
	steps.ReasonSourceSilent:        "it is what a killed agent makes of step 6",
	steps.ReasonSeedOverloaded:      "it is what a lack of processors makes of any step",
	steps.ReasonShootStateDiffers:   "an operator has to act",
	steps.ReasonAborting:            "the suite of aborts has moments of its own, and strikes there",
	steps.ReasonWithdrawn:           "the suite of aborts has moments of its own, and strikes there",
	steps.ReasonAborted:             "the migration is over",
	steps.ReasonAbandoned:           "the suite of recovery strikes it",
	steps.ReasonAbandoningSource:    "the suite of recovery strikes it",
	steps.ReasonSourceAbandoned:     "the suite of recovery strikes it",
	// Of a healthy migration of the landscape's shoot.
	steps.ReasonWaitingForSourceEtcd:     "step 1 shows it only if an etcd is not healthy",
	steps.ReasonReleasingDNSRecords:      "step 5 shows it only while a DNSRecord is busy",
	steps.ReasonWaitingForClientsToLeave: "step 7 shows it only if TLS ends at the kube-apiservers",
}

// declared returns all reasons that the files of the model declare.
func declared(files ...string) []steps.Reason {
	GinkgoHelper()
	var reasons []steps.Reason
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(),
			filepath.Join("..", "..", "..", "pkg", "migration", "steps", file), nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 ||
				!strings.HasPrefix(spec.Names[0].Name, "Reason") {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			value, err := strconv.Unquote(literal.Value)
			Expect(err).NotTo(HaveOccurred())
			reasons = append(reasons, steps.Reason(value))
			return true
		})
	}
	return reasons
}

var _ = Describe("Moments", func() {
	It("should be there for each reason that the model of the steps declares, unless it is no moment", func() {
		moments := map[steps.Reason]bool{}
		for _, step := range steps.Table() {
			for _, variant := range fault.Variants() {
				for _, moment := range fault.MomentsOf(step, variant) {
					if reason, ok := moment.Reason(); ok {
						moments[reason] = true
					}
				}
			}
		}
		all := declared("reasons.go")
		Expect(len(all)).To(BeNumerically(">", 40))
		for _, reason := range all {
			_, excused := without[reason]
			Expect(moments[reason]).NotTo(Equal(excused), "%s needs a part of a step, or a line in this file", reason)
		}
	})

	It("should be there for each reason of each part of each step", func() {
		for _, step := range steps.Table() {
			for _, work := range step.Work {
				for _, reason := range work.Reasons {
					if _, excused := without[reason]; excused {
						Expect(fault.Withheld(reason)).NotTo(BeEmpty(), "%s %s", step, reason)
						continue
					}
					Expect(fault.Withheld(reason)).To(BeEmpty(), "%s %s", step, reason)
					Expect(slices.ContainsFunc(fault.Variants(), func(v fault.Variant) bool {
						return slices.Contains(fault.MomentsOf(step, v), fault.At(reason))
					})).To(BeTrue(), "%s %s", step, reason)
				}
			}
		}
	})

	It("should differ between migrations where the members move", func() {
		start, move := steps.Table()[3], steps.Table()[5]
		member := fault.At(steps.ReasonReadyForSourceMemberRemoval)
		Expect(fault.MomentsOf(move, fault.Variant{})).To(Equal([]fault.Moment{fault.Boundary, fault.Inside,
			"SwitchingDNSRecords", "WaitingForDNS", "DrainingClients", "JoiningLastEtcdMember", member}))
		Expect(fault.MomentsOf(move, fault.Variant{ForceShrink: true})).NotTo(ContainElement(member))
		Expect(fault.MomentsOf(start, fault.Variant{ForceShrink: true})).To(ContainElement(member))
		Expect(fault.MomentsOf(start, fault.Variant{})).NotTo(ContainElement(member))
		tunnel := fault.At(steps.ReasonWaitingForTunnel)
		Expect(fault.MomentsOf(start, fault.Variant{Workers: true})).To(ContainElement(tunnel))
		Expect(fault.MomentsOf(start, fault.Variant{})).NotTo(ContainElement(tunnel))
	})

	It("should leave out what a healthy migration never shows", func() {
		release, cleanup := steps.Table()[4], steps.Table()[6]
		Expect(fault.MomentsOf(release, fault.Variant{})).To(Equal(fault.Moments()))
		Expect(fault.MomentsOf(cleanup, fault.Variant{})).To(Equal([]fault.Moment{fault.Boundary, fault.Inside,
			"StoppingSourceControlPlane", "SourceControllersStopped", "DeletingSourceResources"}))
		Expect(fault.MomentsOf(steps.Table()[0], fault.Variant{})).To(Equal([]fault.Moment{fault.Boundary,
			fault.Inside, "PersistingShootState", "ShootStatePersisted"}))
	})

	It("should be in the order in which the parts of a step are", func() {
		move := steps.Table()[5]
		last := -1
		for _, moment := range append(fault.MomentsOf(move, fault.Variant{}), "Unheard") {
			Expect(fault.Rank(move, moment)).To(BeNumerically(">", last), string(moment))
			last = fault.Rank(move, moment)
		}
	})

	It("should be inside of the step for whatever has something to hit there", func() {
		source, _ := fault.Get("etcd-kill-source")
		Expect(source.Applies(steps.Table()[5], fault.At(steps.ReasonJoiningLastEtcdMember))).To(BeTrue())
		Expect(source.Applies(steps.Table()[6], fault.At(steps.ReasonSourceControllersStopped))).To(BeFalse())
		relay, _ := fault.Get("relay-kill-source")
		Expect(relay.Applies(steps.Table()[6], fault.Boundary)).To(BeTrue())
		Expect(relay.Applies(steps.Table()[6], fault.At(steps.ReasonSourceControllersStopped))).To(BeFalse())
	})

	DescribeTable("should be left out where there is nothing to hit yet, or any more",
		func(step int, moment fault.Moment, none, some []string) {
			for _, name := range append(slices.Clone(none), some...) {
				f, ok := fault.Get(name)
				Expect(ok).To(BeTrue())
				Expect(f.Applies(steps.Table()[step-1], moment)).To(Equal(slices.Contains(some, name)), name)
			}
		},
		Entry("before members join, for what is over by then", 2, fault.Boundary,
			[]string{"cut-5s", "reset-5s"},
			[]string{"cut-60s", "cut-again-3s", "cut-oneway-source", "loss-10pct", "rtt-50ms"}),
		Entry("while the destination prepares", 2, fault.At(steps.ReasonPreparingDestination),
			[]string{"cut-5s", "reset-5s", "relay-kill-destination", "relay-stop-destination"},
			[]string{"cut-60s", "loss-10pct", "relay-kill-source", "relay-stop-source"}),
		Entry("while members join", 2, fault.At(steps.ReasonJoiningEtcdMembers), nil,
			[]string{"cut-5s", "reset-5s", "relay-kill-destination", "relay-stop-destination"}),
		Entry("while the source's kube-apiserver stops", 7, fault.At(steps.ReasonSourceControllersStopped), nil,
			[]string{"cut-5s", "rtt-50ms"}),
		Entry("when it has stopped", 7, fault.At(steps.ReasonDeletingSourceResources),
			[]string{"cut-5s", "cut-60s", "cut-10m", "cut-again-3s", "cut-oneway-source", "reset-5s", "loss-10pct",
				"rtt-50ms"},
			[]string{"relay-kill-destination"}),
	)
})

var _ = Describe("Bounds", func() {
	DescribeTable("should be", func(name string, step int, stall time.Duration, failed int) {
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		Expect(fault.BoundsOf(f, steps.Table()[step-1])).To(Equal(fault.Bounds{Stall: stall, Failed: failed}))
	},
		Entry(nil, "agent-kill-both", 1, 5*time.Second, 0),
		Entry(nil, "gardenlet-restart-source", 1, 5*time.Second, 0),
		Entry(nil, "garden-stop-60s", 6, 5*time.Second, 0),
		Entry(nil, "etcd-kill-source", 6, 10*time.Second, 100),
		Entry(nil, "apiserver-delete-source", 1, 5*time.Second, 25),
		Entry(nil, "cut-5s", 6, 15*time.Second, 150),
		Entry("a short cut before DNS moves", "cut-5s", 3, 15*time.Second, 150),
		Entry("a long cut before DNS moves", "cut-10m", 4, 20*time.Second, 200),
		Entry("a long cut while DNS moves", "cut-10m", 5, 40*time.Second, 400),
		Entry("a cut with six voters", "cut-60s", 6, 50*time.Second, 500),
		Entry("a cut when the source has no members", "cut-60s", 7, 70*time.Second, 700),
		Entry("a long one then", "cut-10m", 7, 160*time.Second, 1600),
		Entry(nil, "quota-full-30s", 1, 40*time.Second, 700),
		Entry(nil, "agent-stop-source", 1, 5*time.Second, 0),
		Entry(nil, "istiod-stop-source", 1, 5*time.Second, 0),
		Entry(nil, "cut-oneway-source", 4, 20*time.Second, 200),
		Entry(nil, "reset-5s", 6, 15*time.Second, 150),
		Entry(nil, "loss-10pct", 6, 10*time.Second, 100),
		Entry(nil, "cut-again-3s", 6, 13*time.Second, 130),
		Entry(nil, "dns-stop-60s", 6, 70*time.Second, 700),
		Entry(nil, "etcd-stop-main-leader", 1, 40*time.Second, 400),
		Entry(nil, "etcd-kill-main-two", 4, 10*time.Second, 100),
		Entry(nil, "gateway-kill-source", 4, 10*time.Second, 100),
		Entry(nil, "relay-kill-again-source", 4, 10*time.Second, 100),
		Entry(nil, "agent-kill-again-both", 4, 5*time.Second, 0),
	)

	DescribeTable("should permit as many restarts of the source's etcd as the fault causes",
		func(ctx SpecContext, name string, restarts int) {
			f, ok := fault.Get(name)
			Expect(ok).To(BeTrue())
			Expect(fault.SourceEtcdRestarts(f)).To(BeZero(), "it has not struck")
			targets := newFakes()
			Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
			Expect(fault.SourceEtcdRestarts(f)).To(Equal(restarts))
		},
		Entry(nil, "etcd-kill-source", 1),
		Entry(nil, "etcd-kill-destination", 0),
		Entry(nil, "etcd-kill-main-two", 2),
		Entry(nil, "etcd-stop-events-follower", 0),
		Entry(nil, "etcd-stop-main-two", 0),
		Entry(nil, "agent-stop-source", 0),
		Entry(nil, "apiserver-delete-source", 0),
	)

	It("should permit no restart of the source's etcd if the victim is in the destination", func(ctx SpecContext) {
		targets := newFakes()
		Expect(targets.seeds[steps.Source].AppsV1().StatefulSets(shootNamespace).Delete(ctx, "etcd-main",
			metav1.DeleteOptions{})).To(Succeed())
		f, _ := fault.Get("etcd-kill-main-leader")
		Expect(f.Inject(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.killed()).To(ConsistOf("destination etcd-main-1 etcd"))
		Expect(fault.SourceEtcdRestarts(f)).To(BeZero())
	})
})

var _ = Describe("Proof", func() {
	It("should be there for each fault", func(ctx SpecContext) {
		for _, f := range fault.All() {
			targets := newFakes()
			Expect(targets.TakeProofs()).To(BeEmpty())
			Expect(f.Inject(ctx, &targets.Targets)).To(Succeed(), f.Name())
			if witnessed, ok := f.(fault.Witnessed); ok {
				targets.disturbed = loadbalancer.Disturbed{Dropped: 3, Delayed: 4, Reset: 5}
				Expect(witnessed.Witness(ctx, &targets.Targets)).To(Succeed(), f.Name())
			}
			Expect(targets.TakeProofs()).NotTo(BeEmpty(), f.Name())
			Expect(targets.TakeProofs()).To(BeEmpty(), f.Name())
		}
	})

	DescribeTable("should be missed where no effect is seen", func(ctx SpecContext, name, problem string) {
		targets := newFakes()
		targets.deaf = true
		f, _ := fault.Get(name)
		Expect(f.Inject(ctx, &targets.Targets)).To(MatchError(ContainSubstring(problem)))
		Expect(targets.TakeProofs()).To(BeEmpty())
	},
		Entry("of a container that is stopped", "etcd-stop-main-leader", "it was not seen that container etcd of pod"),
		Entry("of a kill", "etcd-kill-source", "it was not seen that the processes of container etcd"),
		Entry("of a stop", "garden-stop-60s", "it was not seen that gardener-apiserver stands still"),
	)

	It("should be what the traffic has met since it was disturbed, and nothing else", func(ctx SpecContext) {
		targets := newFakes()
		targets.disturbed = loadbalancer.Disturbed{Dropped: 7, Delayed: 7}
		cut, _ := fault.Get("cut-5s")
		Expect(cut.Inject(ctx, &targets.Targets)).To(Succeed())
		witnessed := cut.(fault.Witnessed)
		Expect(witnessed.Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(BeEmpty(), "nothing was there to be cut")
		targets.disturbed.Delayed = 9
		Expect(witnessed.Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(BeEmpty(), "a cut delays nothing")
		targets.disturbed.Dropped = 9
		Expect(witnessed.Witness(ctx, &targets.Targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(Equal([]string{
			"the load balancer of seed-a dropped 2 packets of the relays",
			"the load balancer of seed-b dropped 2 packets of the relays",
		}))
	})

	It("should need no targets to take nothing", func() {
		var targets *fault.Targets
		Expect(targets.TakeProofs()).To(BeEmpty())
	})
})
