// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/dashboard"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

// worlds are those that the tests of the command line draw.
var worlds = []string{"none", "requested", "joining", "paused", "held", "moving", "overdue", "aborting", "aborted",
	"succeeded"}

func world(name string) dashboard.Look {
	GinkgoHelper()
	var out dashboard.Look
	data, err := os.ReadFile(filepath.Join("..", "view", "testdata", "worlds", name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(data, &out.ControlPlane)).To(Succeed())
	return out
}

func lines(commands []dashboard.Command) []string {
	var out []string
	for _, command := range commands {
		out = append(out, command.Line)
	}
	return out
}

func commandsOf(look dashboard.Look, flags ...string) []string {
	return lines(dashboard.Commands(look.Shoot, summary.Summarize(look.Shoot, look.Now.Time), flags))
}

var _ = Describe("Commands", func() {
	const target = " live -n garden-demo"

	DescribeTable("should be those that the state permits, the likeliest first", func(name string, expected ...string) {
		Expect(commandsOf(world(name))).To(HaveExactElements(expected))
	},
		Entry("nothing requested", "none", "kubectl livecpm plan"+target, "kubectl livecpm start"+target+" --to SEED"),
		Entry("not taken up", "requested", "kubectl livecpm check", "kubectl livecpm pause"+target,
			"kubectl livecpm abort"+target),
		Entry("at work", "joining", "kubectl livecpm pause"+target, "kubectl livecpm abort"+target,
			"kubectl livecpm status"+target),
		Entry("paused", "paused", "kubectl livecpm resume"+target, "kubectl livecpm abort"+target),
		Entry("held before it has begun", "held", "kubectl livecpm explain BastionExists",
			"kubectl livecpm abort"+target),
		Entry("overdue", "overdue", "kubectl livecpm explain DestinationKubeAPIServerReady",
			"kubectl livecpm retry"+target, "kubectl livecpm pause"+target, "kubectl livecpm abort"+target),
		Entry("aborting", "aborting", "kubectl livecpm status"+target, "kubectl livecpm explain abort"),
		Entry("aborted", "aborted", "kubectl livecpm abort"+target+" --stay",
			"kubectl livecpm start"+target+" --to seed-b", "kubectl livecpm report"+target+" --ticket"),
		Entry("completed", "succeeded", "kubectl livecpm verify"+target,
			"kubectl livecpm report"+target+" --ticket"),
	)

	It("should offer an abort exactly as long as the agents accept one", func() {
		for _, name := range worlds {
			look := world(name)
			state := summary.Summarize(look.Shoot, look.Now.Time).State
			offered := slices.Contains(commandsOf(look), "kubectl livecpm abort"+target)
			running := steps.Requested(look.Shoot) && state != summary.Aborting && state != summary.Aborted
			Expect(offered).To(Equal(running && steps.AbortPossible(look.Shoot)), name)
		}
	})

	It("should offer no abort beyond the point of no return", func() {
		look := world("overdue")
		for i := range look.Shoot.Status.LiveMigration.Conditions {
			condition := &look.Shoot.Status.LiveMigration.Conditions[i]
			switch {
			case i < 6:
				condition.Status, condition.Reason = "True", "Completed"
			case i == 6:
				condition.Status, condition.Reason = "Progressing", "Started"
			}
		}
		Expect(commandsOf(look)).To(HaveExactElements("kubectl livecpm pause"+target, "kubectl livecpm status"+target))
	})

	It("should lead to the same garden, in a shell", func() {
		Expect(commandsOf(world("paused"), "--context=it's mine", "--kubeconfig=/a/b.yaml")).To(ContainElement(
			`kubectl livecpm resume live -n garden-demo '--context=it'\''s mine' --kubeconfig=/a/b.yaml`))
		Expect(dashboard.Quoted("$(id)")).To(Equal("'$(id)'"))
		Expect(dashboard.Quoted("")).To(Equal("''"))
	})
})

var _ = Describe("Follower", func() {
	It("should remember the reasons that it has seen", func() {
		look := world("joining")
		follower := dashboard.Follower{}
		begin := look.Shoot.Status.LiveMigration.Conditions[1].LastTransitionTime
		var seen dashboard.Seen
		for after, reason := range []string{"Started", "PreparingDestination", "EtcdNotHealthy", "JoiningEtcdMembers"} {
			look.Shoot = look.Shoot.DeepCopy()
			condition := &look.Shoot.Status.LiveMigration.Conditions[1]
			condition.Reason = reason
			condition.LastUpdateTime = metav1.NewTime(begin.Add(time.Duration(5*after) * time.Second))
			seen = follower.Observe(look)
		}
		var told []string
		for _, stand := range seen.Report.Steps[1].Reasons {
			told = append(told, stand.Reason+" "+stand.Took().String())
		}
		Expect(told).To(HaveExactElements("Started 5s", "PreparingDestination 5s", "EtcdNotHealthy 5s",
			"JoiningEtcdMembers 20s"))
	})

	It("should remember the source of a migration that is over", func() {
		over := world("succeeded")
		follower := dashboard.Follower{}
		Expect(follower.Observe(over).Report.Source).To(BeEmpty())
		before := over
		before.Shoot = over.Shoot.DeepCopy()
		before.Shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		before.Shoot.Status.SeedName = new("seed-x")
		before.Shoot.Status.LiveMigration.Conditions[7].Status = "Progressing"
		Expect(follower.Observe(before).Report.Source).To(Equal("seed-x"))
		Expect(follower.Observe(over).Report).To(HaveValue(And(HaveField("Source", "seed-x"),
			HaveField("Result", "Succeeded"))))
	})

	Describe("member lists", func() {
		member := func(name, role string) summary.Member {
			return summary.Member{Name: name, Role: role, Status: "Ready"}
		}
		seeds := func(source, destination []summary.Member) []summary.Seed {
			return []summary.Seed{{Name: "seed-a", Etcds: []summary.Etcd{{Name: "etcd-main", Members: source}}},
				{Name: "seed-b", Etcds: []summary.Etcd{{Name: "etcd-main", Members: destination}}}}
		}
		a := member("seed-a-etcd-main-0", summary.RoleLeader)
		observe := func(all ...[]summary.Seed) []report.Etcd {
			follower := dashboard.Follower{}
			look := world("joining")
			var seen dashboard.Seen
			for _, found := range all {
				look.Seeds = found
				look.Now = metav1.NewTime(look.Now.Add(time.Second))
				seen = follower.Observe(look)
			}
			return seen.Report.Etcds
		}

		It("should be told each time they change", func() {
			learner, voter := member("seed-b-etcd-main-0", summary.RoleLearner),
				member("seed-b-etcd-main-0", summary.RoleVoter)
			etcds := observe(seeds([]summary.Member{a}, nil), seeds([]summary.Member{a}, []summary.Member{learner}),
				seeds([]summary.Member{a}, []summary.Member{learner}),
				seeds([]summary.Member{a}, []summary.Member{voter}))
			Expect(etcds).To(HaveLen(1))
			Expect(etcds[0]).To(And(HaveField("Name", "etcd-main"), HaveField("Unproved", true)))
			var voters []int
			for _, change := range etcds[0].Changes {
				voters = append(voters, change.Voters)
			}
			Expect(voters).To(HaveExactElements(1, 1, 2))
			Expect(etcds[0].Changes[1].Members).To(HaveExactElements(
				recording.Member{Name: "seed-a-etcd-main-0"},
				recording.Member{Name: "seed-b-etcd-main-0", Learner: true}))
		})

		It("should not take part of a list for the whole", func() {
			unknown := seeds([]summary.Member{a}, nil)
			unknown[1] = summary.Seed{Name: "seed-b", Unknown: "no access"}
			unasked := seeds([]summary.Member{a}, nil)
			unasked[0].Etcds[0].Unasked = "forbidden"
			Expect(observe(unknown, unasked, seeds([]summary.Member{member("x", "Member")}, nil))).To(BeEmpty())
		})
	})

	It("should show what a probe has measured, also when it has ended", func() {
		look := world("joining")
		follower := dashboard.Follower{}
		Expect(follower.Observe(look).Report.Probe).To(BeNil())
		look.Probe = &summary.Probe{Writes: 10, WritesFailed: 1, Updated: look.Now, LongestWriteGapMs: 1240}
		begin := look.Now.Add(-time.Hour)
		look.Series = &recording.Series{Begin: begin, IntervalSeconds: 2, BoundsMs: recording.LatencyBoundsMs(),
			Points: make([]recording.Point, 1800)}
		seen := follower.Observe(look)
		Expect(seen.Report.Probe).To(HaveValue(And(HaveField("Running", true), HaveField("WritesFailed", int64(1)),
			HaveField("LongestGapMs", int64(1240)))))
		Expect(seen.Report.Triggered.Sub(seen.Report.Begin)).To(Equal(2*time.Minute), "not all of the hour before")
		look.Probe, look.Series = nil, nil
		Expect(follower.Observe(look).Report.Probe).To(HaveValue(HaveField("Series", HaveValue(
			HaveField("Begin", begin)))))
	})
})

var _ = Describe("the page", func() {
	for _, name := range worlds {
		It("should show "+name, func() {
			look := world(name)
			look.Missing = []string{"the events of the Shoot: forbidden"}
			body := get(serving(look), "/content").Body.String()
			path := filepath.Join("testdata", "golden", name+".html")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				Expect(os.WriteFile(path, []byte(body), 0o644)).To(Succeed())
			}
			expected, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(body).To(Equal(string(expected)), path)
		})
	}

	It("should show what is stopped and started as planned in the words of `get`, and not as errors", func() {
		Expect(get(serving(world("moving")), "/content").Body.String()).To(And(
			ContainSubstring("seed-a-etcd-main-1 is stopping, as planned (2 of 3)"),
			ContainSubstring(`<td>seed-a-etcd-main-1</td><td>voter</td><td>stopping, as planned (2 of 3)</td>`),
			Not(ContainSubstring("d231989c1266553f")),
			ContainSubstring("4dae601324ba9f8c"), // It is out of order, and so it is an error as before.
		))
		starting := world("joining")
		condition := &starting.Shoot.Status.LiveMigration.Conditions[3]
		for i := range 3 {
			starting.Shoot.Status.LiveMigration.Conditions[i].Status = "True"
		}
		condition.Status, condition.Reason = "Progressing", string(steps.ReasonDeployingKubeAPIServer)
		starting.Seeds[1].APIServers = []summary.Pod{{Name: "kube-apiserver-1", Ready: true},
			{Name: "kube-apiserver-2"}}
		Expect(get(serving(starting), "/content").Body.String()).To(
			MatchRegexp(`kube-apiserver-2</td><td>starting, as planned \(2 of 2\)`))
	})

	It("should load nothing from anywhere else, and have no code in it but its script", func() {
		for _, name := range worlds {
			page := get(serving(world(name)), "/").Body.String()
			Expect(regexp.MustCompile(`(?i)\bsrc\s*=\s*"[^"]*"`).FindAllString(page, -1)).To(
				HaveExactElements(`src="/live.js"`), name)
			Expect(page).NotTo(
				MatchRegexp(`(?i)url\(|@import|<link|<img|<iframe|<form|\son[a-z]+\s*=|<[a-z][^>]* style=`))
			for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
				Expect(link[1]).To(HavePrefix("https://github.com/livecpm/livecpm/blob/main/docs/"))
			}
		}
	})

	It("should not let a text of the world become part of the page", func() {
		look := world("joining")
		look.Missing = []string{"<script>1</script>"}
		look.Shoot.Status.LiveMigration.Conditions[1].Message = "<img src=x onerror=alert(1)>"
		look.Shoot.Annotations[steps.AnnotationPauseBefore] = `"><b>`
		look.Seeds[0].Etcds[0].Members[0].Name = "<i>"
		page := get(serving(look), "/").Body.String()
		Expect(page).To(And(ContainSubstring("&lt;img"), Not(ContainSubstring("<img")), Not(ContainSubstring("<i>")),
			Not(ContainSubstring(`"><b>`))))
		Expect(strings.Count(page, "<script")).To(Equal(1))
	})
})
