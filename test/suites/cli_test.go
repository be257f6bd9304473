// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/report"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// secrets matches what no command may print: keys, certificates, tokens, and fields of a kubeconfig that hold them.
const secrets = `(?i)-----BEGIN |\beyJ[A-Za-z0-9_-]{20,}|(client-key|client-certificate|certificate-authority)-data`

// terminal takes what a process writes to both of its outputs, in that order.
type terminal struct {
	lock sync.Mutex
	out  io.Writer
}

func (t *terminal) Write(b []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.out.Write(b)
}

// The whole life of a migration is driven by the built plugin alone, as a process of its own, as operators call it.
var _ = Describe("kubectl livecpm", Label(labelCLI), Ordered, func() {
	var (
		cfg                 *config.Config
		built               plugin
		folder              string
		source, destination string

		mu      sync.Mutex
		outputs []string
		last    string
	)

	keep := func(args []string, code exit.Code, output string) {
		mu.Lock()
		defer mu.Unlock()
		outputs = append(outputs, output)
		// The test's own folder is of no interest to readers of docs/usage.
		last = strings.ReplaceAll(fmt.Sprintf("$ kubectl livecpm %s\n%s", strings.Join(args, " "), output),
			folder+string(filepath.Separator), "")
		GinkgoWriter.Printf("%s(code %d)\n\n", last, code)
	}
	// record writes the last command and its output to where make usage takes them from.
	record := func(name string) {
		GinkgoHelper()
		mu.Lock()
		defer mu.Unlock()
		recorded := filepath.Join(cfg.Repo, "_artifacts", "cli")
		Expect(os.MkdirAll(recorded, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(recorded, name+".txt"), []byte(last), 0o644)).To(Succeed())
	}
	// livecpm runs a command and returns its exit code, standard output, and all output.
	livecpm := func(ctx context.Context, args ...string) (code exit.Code, out, all string) {
		GinkgoHelper()
		var stdout, both bytes.Buffer
		screen := &terminal{out: &both}
		cmd := built.command(ctx, args...)
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, screen), screen
		err := cmd.Run()
		var failed *exec.ExitError
		// A process that was interrupted because its time was over tells of that time, whatever its own code is.
		if err != nil && !errors.As(err, &failed) && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
			Expect(err).NotTo(HaveOccurred())
		}
		code = exit.Code(cmd.ProcessState.ExitCode())
		keep(args, code, both.String())
		return code, stdout.String(), both.String()
	}
	look := func(ctx context.Context) summary.Summary {
		GinkgoHelper()
		code, out, all := livecpm(ctx, "get", shootName, "-o", "json")
		Expect(code).To(Equal(exit.Done), all)
		var s summary.Summary
		Expect(json.Unmarshal([]byte(out), &s)).To(Succeed())
		return s
	}
	// reach waits until the migration is at the step with the given number or beyond, in the given state if one is
	// given.
	reach := func(ctx context.Context, number int, state summary.State) {
		GinkgoHelper()
		Eventually(ctx, func(g Gomega) {
			s := look(ctx)
			g.Expect(s.State.Final()).To(BeFalse(), s.String())
			at := 0
			for _, step := range s.Steps {
				if step.Current {
					at = step.Number
				}
			}
			g.Expect(at).To(BeNumerically(">=", number), s.String())
			if state != "" {
				g.Expect(s.State).To(Equal(state))
			}
		}).WithTimeout(15 * time.Minute).WithPolling(2 * time.Second).Should(Succeed())
	}

	// agentAway takes the agent out of a seed whose step is at work, lets the plugin say so, and brings it back.
	agentAway := func(ctx context.Context, name string) {
		GinkgoHelper()
		seed, err := cfg.Seed(name)
		Expect(err).NotTo(HaveOccurred())
		c := seedClient(cfg, seed)
		agents := &appsv1.DeploymentList{}
		Expect(c.List(ctx, agents, client.InNamespace(v1beta1constants.GardenNamespace),
			client.MatchingLabels{"app": "livecpm", "role": "agent"})).To(Succeed())
		if len(agents.Items) == 0 {
			return // It is in the gardenlet, which does more than that.
		}
		Expect(agents.Items).To(HaveLen(1))
		agent := &agents.Items[0]
		replicas := *agent.Spec.Replicas
		scale := func(ctx context.Context, replicas int32) error {
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
			return c.Patch(ctx, agent, client.RawPatch(types.MergePatchType, patch))
		}
		DeferCleanup(func(ctx SpecContext) { Expect(scale(ctx, replicas)).To(Succeed()) }, NodeTimeout(time.Minute))
		Expect(scale(ctx, 0)).To(Succeed())
		Eventually(ctx, func() string { _, _, all := livecpm(ctx, "get", shootName); return all }).
			WithTimeout(5 * time.Minute).WithPolling(5 * time.Second).
			Should(ContainSubstring("No agent has led in seed %s, which owns this step, for ", name))
		record("tree-silent")
		code, _, all := livecpm(ctx, "check", "--seed", name)
		Expect(code).To(Equal(exit.No), all)
		Expect(all).To(MatchRegexp(`Fail +AgentAlive +nobody has led for`))
		Expect(scale(ctx, replicas)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		folder = GinkgoT().TempDir()
		built = plugin{cfg: cfg, folder: folder}
		built.build(ctx)
		bringUp(ctx, cfg)

		s := look(ctx)
		Expect(s.State.Final()).To(BeTrue(), "the shoot is on its way already: %s", s)
		source = s.Destination
		if s.State == summary.Aborted {
			source = s.Source
		}
		for _, seed := range cfg.Seeds {
			if seed.Name != source {
				destination = seed.Name
			}
		}
		Expect(source).NotTo(BeEmpty())
		Expect(destination).NotTo(BeEmpty())
	}, NodeTimeout(upTimeout))

	It("should plan", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "plan", shootName, "--to", destination)
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(And(ContainSubstring("Ready to migrate."), MatchRegexp(`Pass +EtcdSize`),
			MatchRegexp(`Pass +AgentsReady`)))
		Expect(all).To(ContainSubstring("Next: kubectl livecpm start %s -n %s --to %s", shootName, shoot.Namespace,
			destination))
		record("plan")
	}, NodeTimeout(time.Minute))

	It("should check the installation, and miss nothing but what the landscape does without", func(ctx SpecContext) {
		// No Prometheus runs here, and the only livecpm-controller-manager elects no leader.
		code, out, all := livecpm(ctx, "check", "-o", "json")
		Expect(code).To(Equal(exit.No), all)
		var found view.Installation
		Expect(json.Unmarshal([]byte(out), &found)).To(Succeed())
		Expect(found.Sections).To(HaveLen(1 + len(cfg.Seeds)))
		for _, section := range found.Sections {
			Expect(section.Checks).NotTo(BeEmpty())
			for _, check := range section.Checks {
				if check.Name != inspect.CheckMonitoring && check.Name != inspect.CheckControllerManager {
					Expect(check.Status).To(Equal(view.Pass), "%s: %+v", section.Title, check)
				}
			}
		}
	}, NodeTimeout(time.Minute))

	It("should refuse to start what cannot go, and leave nothing behind", func(ctx SpecContext) {
		for seed, message := range map[string]string{source: "is already in seed " + source,
			"no-such-seed": "there is no seed no-such-seed"} {
			code, _, all := livecpm(ctx, "start", shootName, "--to", seed)
			Expect(code).To(Equal(exit.Error), all)
			Expect(all).To(ContainSubstring(message))
		}
		Expect(look(ctx).State.Final()).To(BeTrue())
	}, NodeTimeout(time.Minute))

	It("should record what is to be compared with afterwards", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "verify", "record", shootName, "--file",
			filepath.Join(folder, "baseline.json"))
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(MatchRegexp(`Recorded digests of [1-9]\d* secrets and the IDs of 2 etcd clusters`))
	}, NodeTimeout(time.Minute))

	It("should start, hold before a step, and show that", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "start", shootName, "--to", destination, "--pause-before", "2")
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(And(ContainSubstring("set spec.seedName from %s to %s", source, destination),
			ContainSubstring("After:  Requested")))
		record("start")
		code, _, all = livecpm(ctx, "start", shootName, "--to", destination)
		Expect(code).To(Equal(exit.No), all)

		reach(ctx, 2, summary.Paused)
		code, _, all = livecpm(ctx, "get", shootName)
		Expect(code).To(Equal(exit.Done))
		Expect(all).To(And(ContainSubstring("Seeds     %s -> %s", source, destination),
			ContainSubstring("State     Paused")))
		Expect(all).To(MatchRegexp(source+`-etcd-main-\d +leader +Ready +lag \d+ +db `),
			"the members should be asked themselves")
		record("tree-paused")

		By("watching for a while")
		watching, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		code, out, _ := livecpm(watching, "get", shootName, "-w")
		Expect(code).To(Equal(exit.Done), "an interrupt is how one stops to watch")
		Expect(out).To(ContainSubstring("Paused"))
	}, NodeTimeout(10*time.Minute))

	It("should resume, pause, and refuse what comes too late", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "resume", shootName)
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(ContainSubstring("removed the annotation " + steps.AnnotationPauseBefore))
		reach(ctx, 2, summary.Processing)
		code, _, all = livecpm(ctx, "pause", shootName, "--pause-before", "1")
		Expect(code).To(Equal(exit.No), all)
		record("pause-late")
		code, _, all = livecpm(ctx, "pause", shootName, "--pause-before", "3")
		Expect(code).To(Equal(exit.Done), all)
	}, NodeTimeout(10*time.Minute))

	It("should abort, and say so with its exit code", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "abort", shootName)
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(ContainSubstring("After:  Aborting"))
		record("abort")
		code, _, all = livecpm(ctx, "status", shootName, "--timeout", "15m")
		Expect(code).To(Equal(exit.No), all)
		Expect(all).To(ContainSubstring("Aborted"))
		code, _, all = livecpm(ctx, "resume", shootName)
		Expect(code).To(Equal(exit.Done), all)
	}, NodeTimeout(20*time.Minute))

	It("should time out with a code of its own, start again, and complete under the probe's load",
		func(ctx SpecContext) {
			By("putting load on the shoot")
			var result, progress bytes.Buffer
			args := []string{"probe", shootName, "--until-complete", "--after", "10s", "--rate", "20", "--dns-server",
				cfg.Garden.IP + ":53", "-o", "json"}
			probing := built.command(ctx, args...)
			probing.Stdout, probing.Stderr = &result, &progress
			Expect(probing.Start()).To(Succeed())
			ended := false
			DeferCleanup(func() {
				if !ended {
					// It removes its namespace.
					_ = probing.Process.Signal(os.Interrupt)
					_ = probing.Wait()
				}
			})
			Eventually(ctx, func() string { _, _, all := livecpm(ctx, "get", shootName); return all }).
				WithTimeout(time.Minute).WithPolling(2 * time.Second).Should(ContainSubstring("PROBE"))

			code, _, all := livecpm(ctx, "start", shootName, "--to", destination)
			Expect(code).To(Equal(exit.Done), all)
			Expect(all).To(ContainSubstring("the aborted migration begins again"))
			code, _, all = livecpm(ctx, "status", shootName, "--timeout", "5s")
			Expect(code).To(Equal(exit.Timeout), all)

			reach(ctx, 2, summary.Processing)
			agentAway(ctx, destination)

			reach(ctx, 6, summary.Processing)
			code, _, all = livecpm(ctx, "abort", shootName)
			Expect(code).To(Equal(exit.No), all)
			record("abort-late")

			code, _, all = livecpm(ctx, "get", shootName)
			Expect(code).To(Equal(exit.Done), all)
			Expect(all).To(And(MatchRegexp(source+`-etcd-main-0 +(leader|voter) `),
				MatchRegexp(destination+`-etcd-main-0 +(leader|voter) `)), "the etcd of both seeds is one")
			record("tree-joint")

			code, _, all = livecpm(ctx, "status", shootName, "--timeout", "30m")
			Expect(code).To(Equal(exit.Done), all)
			record("status")

			err := probing.Wait()
			ended = true
			keep(args, exit.Code(probing.ProcessState.ExitCode()), progress.String()+result.String())
			Expect(os.WriteFile(filepath.Join(folder, "probe.json"), result.Bytes(), 0o600)).To(Succeed())
			var measured struct {
				Writes          int64    `json:"writes"`
				WatchEventsLost int64    `json:"watchEventsLost"`
				Failures        []string `json:"failures"`
				Details         struct {
					Verified               bool  `json:"verified"`
					AcknowledgedWritesLost int64 `json:"acknowledgedWritesLost"`
				} `json:"details"`
			}
			Expect(json.Unmarshal(result.Bytes(), &measured)).To(Succeed())
			Expect(measured.Writes).To(BeNumerically(">", 100))
			Expect(measured.WatchEventsLost).To(BeZero())
			Expect(measured.Details.AcknowledgedWritesLost).To(BeZero())
			Expect(measured.Details.Verified).To(BeTrue())
			// Raft may drop a write while its leadership moves (docs/concepts/flow-decisions.md): then the code has to
			// say so.
			if len(measured.Failures) == 0 {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(probing.ProcessState.ExitCode()).To(BeEquivalentTo(exit.No))
			}
		}, NodeTimeout(45*time.Minute))

	It("should verify", func(ctx SpecContext) {
		args := []string{"verify", shootName, "--baseline", filepath.Join(folder, "baseline.json"), "--dns-server",
			cfg.Garden.IP + ":53"}
		// The gardenlet of the destination reconciles the shoot, and its conditions and the backup entry follow.
		Eventually(ctx, func() string { _, _, all := livecpm(ctx, args...); return all }).
			WithTimeout(10 * time.Minute).WithPolling(10 * time.Second).
			Should(ContainSubstring("Proved: all 9 checks passed."))
		record("verify")
		code, out, all := livecpm(ctx, append(args, "-o", "json")...)
		Expect(code).To(Equal(exit.Done), all)
		var result view.Verification
		Expect(json.Unmarshal([]byte(out), &result)).To(Succeed())
		Expect(result).To(And(HaveField("Source", source), HaveField("Destination", destination)))

		code, _, all = livecpm(ctx, "verify", shootName, "--source", destination)
		Expect(code).To(Equal(exit.No), "what is not so must not be proved: %s", all)
	}, NodeTimeout(15*time.Minute))

	It("should know what has happened, and write it down for a change ticket", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "history", shootName)
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(And(MatchRegexp(`%s -> %s +Succeeded`, source, destination),
			MatchRegexp(`%s -> %s +Aborted`, source, destination)))
		record("history")

		ticket := filepath.Join(folder, "live.md")
		code, _, all = livecpm(ctx, "report", shootName, "--ticket", "--file", ticket, "--baseline",
			filepath.Join(folder, "baseline.json"), "--probe-result", filepath.Join(folder, "probe.json"))
		Expect(code).To(Equal(exit.Done), all)
		written, err := os.ReadFile(ticket)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(written)).To(And(ContainSubstring("| result | Succeeded |"),
			ContainSubstring("| requested with | kubectl-livecpm"), ContainSubstring("DrainingClients")))
		Expect(string(written)).NotTo(MatchRegexp(secrets))
		code, _, all = livecpm(ctx, "report", "verify", ticket)
		Expect(code).To(Equal(exit.Done), all)
		record("report-verify")
		Expect(os.WriteFile(ticket, bytes.Replace(written, []byte("Succeeded"), []byte("Aborted"), 1), 0o600)).
			To(Succeed())
		code, _, all = livecpm(ctx, "report", "verify", ticket)
		Expect(code).To(Equal(exit.No), all)
	}, NodeTimeout(2*time.Minute))

	It("should show to people what it has measured", func(ctx SpecContext) {
		code, _, all := livecpm(ctx, "probe", shootName, "--duration", "20s", "--dns-server", cfg.Garden.IP+":53")
		Expect(code).To(Equal(exit.Done), all)
		Expect(all).To(And(MatchRegexp(`writes +[1-9]\d* +0 failed`),
			ContainSubstring("No request failed and nothing was lost.")))
		record("probe")
	}, NodeTimeout(3*time.Minute))

	It("should report and list", func(ctx SpecContext) {
		for _, format := range []string{"html", "md", "json"} {
			file := filepath.Join(folder, "report."+format)
			code, _, all := livecpm(ctx, "report", shootName, "-o", format, "--file", file)
			Expect(code).To(Equal(exit.Done), all)
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			outputs = append(outputs, string(data))
			for _, step := range steps.Table() {
				Expect(string(data)).To(ContainSubstring(step.String()))
			}
			if format == "json" {
				var r report.Report
				Expect(json.Unmarshal(data, &r)).To(Succeed())
				Expect(r.Good).To(BeTrue())
			}
		}
		code, _, all := livecpm(ctx, "list")
		Expect(code).To(Equal(exit.Done))
		Expect(all).To(MatchRegexp(fmt.Sprintf(`%s +%s +.*Succeeded`, shoot.Namespace, shootName)))
		record("list")
	}, NodeTimeout(time.Minute))

	AfterAll(func() {
		for _, output := range outputs {
			Expect(output).NotTo(MatchRegexp(secrets))
		}
	})
})
