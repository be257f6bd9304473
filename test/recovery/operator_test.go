// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/recovery"
)

// terminal prints what the commands would print if all went well.
type terminal struct {
	side    string
	scripts []string
	// index is what the first member of the side says of itself.
	index int
	// foreign are members of the destination that an etcd still counts.
	foreign int
	// trouble is a text of commands and what they print instead.
	trouble [2]string
}

func (t *terminal) Run(_ context.Context, block recovery.Block) (string, error) {
	t.scripts = append(t.scripts, block.Script)
	switch {
	case t.trouble[0] != "" && strings.Contains(block.Script, t.trouble[0]):
		return t.trouble[1], nil
	case strings.Contains(block.Script, "raftIndex"):
		var out strings.Builder
		for _, etcd := range []string{"etcd-main", "etcd-events"} {
			fmt.Fprintf(&out,
				"/state/%s.kubeconfig %s-0: "+
					"{\"member\":1,\"learner\":false,\"term\":2,\"index\":%d,\"applied\":7,\"revision\":5}\n", t.side,
				etcd, t.index)
			fmt.Fprintf(&out, "/state/%s.kubeconfig %s-1: "+
				"{\"member\":2,\"learner\":false,\"term\":2,\"index\":7,\"applied\":7,\"revision\":5}\n", t.side, etcd)
		}
		return out.String(), nil
	case strings.Contains(block.Script, "member remove"):
		t.foreign--
	case strings.Contains(block.Script, "member list"):
		var out strings.Builder
		// The page's blocks begin with the etcd that they are about.
		role, _, _ := strings.Cut(block.Script[strings.Index(block.Script, "E=etcd-")+len("E=etcd-"):], "\n")
		for i := range t.foreign {
			fmt.Fprintf(&out, "%dd, started, seed-b-etcd-events-%d, https://b:2380, https://b:2379, false\n", i, i)
		}
		for i := range 3 {
			fmt.Fprintf(&out, "%da, started, %s-etcd-%s-%d, https://x:2380, https://x:2379, false\n", i,
				t.side, role, i)
		}
		return out.String(), nil
	}
	return "", nil
}

var _ = Describe("The operator", func() {
	var pages map[string]*recovery.Page

	BeforeEach(func() {
		var err error
		pages, err = recovery.ReadPages("../..")
		Expect(err).NotTo(HaveOccurred())
	})

	sideOf := func(scenario recovery.Scenario) string {
		if scenario.Side == steps.Destination {
			return "seed-b"
		}
		return "seed-a"
	}
	follow := func(ctx context.Context, t *terminal, scenario recovery.Scenario) error {
		return recovery.Operator{Shell: t, Pages: pages, Source: "seed-a", Destination: "seed-b"}.Follow(ctx, scenario)
	}

	for _, scenario := range recovery.Scenarios() {
		if !scenario.LosesQuorum() {
			continue // Nobody follows the page to its end.
		}
		It("should follow the page for "+scenario.Name, func(ctx SpecContext) {
			t := &terminal{side: sideOf(scenario), index: 7, foreign: 2}
			if len(scenario.Etcds) > 1 {
				t.foreign = 0
			}
			Expect(follow(ctx, t, scenario)).To(Succeed())
			all := strings.Join(t.scripts, "\n")
			Expect(t.foreign).To(BeZero())
			chosen, other := "SIDE=$SOURCE", "SIDE=$DESTINATION"
			if scenario.Side == steps.Destination {
				chosen, other = other, chosen
			}
			Expect(all).To(And(ContainSubstring(chosen), Not(ContainSubstring(other))))
			Expect(all).NotTo(Or(ContainSubstring("seed-name"), ContainSubstring("ID-OF-A-MEMBER")))
			Expect(all).To(ContainSubstring("gardener.cloud/operation=retry"))
			for _, etcd := range scenario.Etcds {
				Expect(all).To(ContainSubstring("E=etcd-" + etcd + "\n"))
			}
			if scenario.Backup {
				Expect(all).NotTo(ContainSubstring("force-new-cluster"))
				Expect(all).To(ContainSubstring("get deployment kube-apiserver --ignore-not-found -o name | xargs -r"))
			} else {
				Expect(all).To(ContainSubstring("force-new-cluster"))
			}
		})
	}

	It("should not build on a member that knows less than another one", func(ctx SpecContext) {
		t := &terminal{side: "seed-a", index: 6}
		Expect(follow(ctx, t, recovery.Scenarios()[0])).
			To(MatchError(ContainSubstring("not the one that section A asks for")))
		Expect(strings.Join(t.scripts, "\n")).NotTo(ContainSubstring("force-new-cluster: true"))
	})

	DescribeTable("should stop when commands fail", func(ctx SpecContext, command, output string) {
		t := &terminal{side: "seed-a", index: 7, trouble: [2]string{command, output}}
		Expect(follow(ctx, t, recovery.Scenarios()[0])).To(MatchError(ContainSubstring("failed:\n" + output)))
	},
		Entry("in a rollout", "force-new-cluster", "error: timed out waiting for the condition\n"),
		Entry("because the setting is still there", "force-new-cluster",
			"force-new-cluster: true\nSTOP: the setting is still there\n"),
		Entry("while the agents stop", "scale deployment livecpm-agent --replicas=0",
			"Error from server (Forbidden): no\n"),
	)

	It("should stop when a member is missing", func(ctx SpecContext) {
		t := &terminal{side: "seed-a", index: 7,
			trouble: [2]string{"force-new-cluster",
				"1a, started, seed-a-etcd-main-0, https://x:2380, https://x:2379, false\n"}}
		Expect(follow(ctx, t, recovery.Scenarios()[0])).To(MatchError(ContainSubstring("has not got its 3 members")))
	})

	Describe("on the way back", func() {
		var (
			t *terminal
			o recovery.Operator
		)

		BeforeEach(func() {
			t = &terminal{}
			o = recovery.Operator{Shell: t, Pages: pages, Source: "seed-a", Destination: "seed-b"}
		})

		It("should abandon the destination as the page of the recovery says", func(ctx SpecContext) {
			Expect(o.Abandon(ctx)).To(Succeed())
			Expect(t.scripts[len(t.scripts)-1]).To(And(
				ContainSubstring(steps.AnnotationAbort+"=true"),
				ContainSubstring(recovery.AnnotationAbandon+"=seed-b\n")))
		})

		It("should do without the source as the page of the recovery says, and clear it in the source only",
			func(ctx SpecContext) {
				Expect(o.AbandonSource(ctx)).To(Succeed())
				asked, cleared := t.scripts[len(t.scripts)-2], t.scripts[len(t.scripts)-1]
				Expect(asked).To(ContainSubstring(steps.AnnotationAbandonSource + "=seed-a\n"))
				Expect(cleared).To(And(ContainSubstring("keepObjects"), ContainSubstring("delete namespace $NS"),
					ContainSubstring(steps.AnnotationLeftBehind+"-"), Not(ContainSubstring("$DESTINATION"))))
				Expect(strings.Index(cleared, "delete deployments")).
					To(BeNumerically("<", strings.Index(cleared, "machinedeployments")))
			})

		It("should abort as the page of the abort says, and not watch without end", func(ctx SpecContext) {
			Expect(o.Abort(ctx)).To(Succeed())
			Expect(t.scripts[len(t.scripts)-1]).To(And(ContainSubstring(steps.AnnotationAbort+"=true"),
				Not(ContainSubstring(" -w "))))
		})

		It("should stay as the page of the abort says", func(ctx SpecContext) {
			Expect(o.Stay(ctx)).To(Succeed())
			Expect(t.scripts[len(t.scripts)-1]).To(And(ContainSubstring(`"seedName":"seed-a"`),
				ContainSubstring("--subresource=binding")))
		})

		It("should stop when the request is refused", func(ctx SpecContext) {
			t.trouble = [2]string{recovery.AnnotationAbandon, "Error from server (Forbidden): no\n"}
			Expect(o.Abandon(ctx)).To(MatchError(ContainSubstring("Forbidden")))
		})
	})
})
