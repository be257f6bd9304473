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
		for i := range t.foreign {
			fmt.Fprintf(&out, "%dd, started, seed-b-etcd-events-%d, https://b:2380, https://b:2379, false\n", i, i)
		}
		for i := range 3 {
			fmt.Fprintf(&out, "%da, started, %s-etcd-%d, https://x:2380, https://x:2379, false\n", i, t.side, i)
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
		if scenario.Heals {
			continue // Nobody does anything.
		}
		It("should follow the page for "+scenario.Name, func(ctx SpecContext) {
			t := &terminal{side: sideOf(scenario), index: 7, foreign: 2}
			if len(scenario.Etcds) > 1 {
				t.foreign = 0
			}
			Expect(follow(ctx, t, scenario)).To(Succeed())
			all := strings.Join(t.scripts, "\n")
			Expect(t.foreign).To(BeZero())
			Expect(all).To(ContainSubstring("SEED=" + sideOf(scenario)))
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
})
