// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/conformance"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at returns the time so many seconds after noon.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// specReport is a spec of a report as Ginkgo has it: the name is the text of the container and that of the spec.
func specReport(name string, change func(*types.SpecReport)) types.SpecReport {
	container, text, _ := strings.Cut(name, " should ")
	report := types.SpecReport{
		ContainerHierarchyTexts: []string{container}, LeafNodeText: "should " + text, LeafNodeType: types.NodeTypeIt,
		State: types.SpecStatePassed, NumAttempts: 1, StartTime: at(0), EndTime: at(3),
	}
	if change != nil {
		change(&report)
	}
	return report
}

// encode returns the report of one suite.
func encode(reasons []string, specs ...types.SpecReport) []byte {
	GinkgoHelper()
	content, err := json.Marshal([]types.Report{{SpecReports: specs, SpecialSuiteFailureReasons: reasons}})
	Expect(err).NotTo(HaveOccurred())
	return content
}

// failing has a spec fail one second after its begin.
func failing(report *types.SpecReport) {
	report.State = types.SpecStateFailed
	report.Failure = types.Failure{Message: "Get \"https://api\": EOF\n",
		Location:         types.CodeLocation{FileName: "k8s.io/kubernetes/test/e2e/auth/x.go", LineNumber: 7},
		TimelineLocation: types.TimelineLocation{Time: at(1)}}
}

// script is a program for /bin/sh.
func script(folder, name, text string) string {
	GinkgoHelper()
	file := filepath.Join(folder, name)
	Expect(os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755)).To(Succeed())
	return file
}

// gone reports whether the process has ended; what nobody waits for may still have its entry.
func gone(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(status), ") Z ")
}

var _ = Describe("A round", func() {
	var (
		folder string
		client *conformance.Client
	)

	BeforeEach(func() {
		folder = GinkgoT().TempDir()
		client = &conformance.Client{List: parse(listText), Kubeconfig: "/private/kubeconfig", Processes: 3,
			Folder:   filepath.Join(folder, "artifacts"),
			Binaries: conformance.Binaries{E2E: "/tools/e2e.test", Kubectl: "/tools/kubectl"}}
	})

	// ginkgo has the round run a program that writes its arguments and the report, and ends with the code.
	ginkgo := func(report []byte, code int) {
		GinkgoHelper()
		Expect(os.WriteFile(filepath.Join(folder, "report"), report, 0o644)).To(Succeed())
		client.Binaries.Ginkgo = script(folder, "ginkgo", fmt.Sprintf(`
for argument in "$@"; do echo "$argument"; done >%[1]s/arguments
echo "the last line"
for argument in "$@"; do case "$argument" in --output-dir=*) to="${argument#*=}" ;; esac; done
if [ -s %[1]s/report ]; then cp %[1]s/report "$to/report.json"; fi
exit %[2]d`, folder, code))
	}
	round := func(ctx SpecContext) *conformance.Round {
		GinkgoHelper()
		round, err := client.Round(ctx, 7, 42)
		Expect(err).NotTo(HaveOccurred())
		return round
	}

	It("should tell of each run of a spec", func(ctx SpecContext) {
		ginkgo(encode(nil, specReport(reads, nil), specReport(writes, failing),
			specReport(pods, func(report *types.SpecReport) { report.State = types.SpecStateSkipped })), 1)
		result := round(ctx)
		Expect(result.Problems).To(BeEmpty())
		Expect(result.Number).To(Equal(7))
		Expect(result.Seed).To(BeEquivalentTo(42))
		Expect(result.Begin).NotTo(BeZero())
		Expect(result.End).To(BeTemporally(">=", result.Begin))
		Expect(result.Runs).To(HaveExactElements(
			conformance.SpecRun{Spec: reads, Begin: at(0), End: at(3), Passed: true},
			conformance.SpecRun{Spec: writes, Begin: at(0), End: at(3), FailedAt: at(1),
				Message: `failed: Get "https://api": EOF (k8s.io/kubernetes/test/e2e/auth/x.go:7)`}))
	})

	It("should ask for each spec of the list in the order of the seed, once", func(ctx SpecContext) {
		ginkgo(encode(nil), 0)
		round(ctx)
		content, err := os.ReadFile(filepath.Join(folder, "arguments"))
		Expect(err).NotTo(HaveOccurred())
		arguments := strings.Split(strings.TrimSpace(string(content)), "\n")
		Expect(arguments).To(ContainElements("--seed=42", "--procs=3", "--randomize-all", "/tools/e2e.test", "--",
			"--kubeconfig=/private/kubeconfig", "--kubectl-path=/tools/kubectl"))
		var focus []string
		for _, argument := range arguments {
			if expression, found := strings.CutPrefix(argument, "--focus="); found {
				focus = append(focus, expression)
			}
		}
		Expect(focus).To(Equal(client.List.Focus()))
		Expect(arguments).NotTo(ContainElement(ContainSubstring("flake")), "each spec has one attempt")
	})

	It("should keep what ran, and nothing of the thousands of specs that nobody asked for", func(ctx SpecContext) {
		ginkgo(encode(nil, specReport(reads, nil),
			specReport(pods, func(report *types.SpecReport) { report.State = types.SpecStateSkipped })), 0)
		round(ctx)
		content, err := os.ReadFile(filepath.Join(client.Folder, "round-07", "report.json"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(And(ContainSubstring("should be read"), Not(ContainSubstring("should reach a pod"))))
	})

	It("should take a spec that skips itself, or that needs a second attempt, for one that has not passed",
		func(ctx SpecContext) {
			ginkgo(encode(nil,
				specReport(reads, func(report *types.SpecReport) { report.NumAttempts = 2 }),
				specReport(writes, func(report *types.SpecReport) {
					report.State = types.SpecStateSkipped
					report.Failure.Message = "needs a cloud"
				})), 0)
			Expect(round(ctx).Runs).To(HaveExactElements(
				And(HaveField("Passed", false), HaveField("FailedAt", at(3)),
					HaveField("Message", ContainSubstring("2 attempts"))),
				And(HaveField("Passed", false), HaveField("Message", "skipped: needs a cloud"))))
		})

	It("should tell of what failed before the specs, and of a suite that was interrupted", func(ctx SpecContext) {
		before := specReport("", func(report *types.SpecReport) {
			failing(report)
			report.LeafNodeType = types.NodeTypeSynchronizedBeforeSuite
		})
		after := specReport("", func(report *types.SpecReport) {
			report.LeafNodeType = types.NodeTypeSynchronizedAfterSuite
		})
		ginkgo(encode([]string{"Suite Timeout Elapsed"}, before, after), 1)
		result := round(ctx)
		Expect(result.Problems).To(ConsistOf("Suite Timeout Elapsed"))
		Expect(result.Runs).To(ConsistOf(And(HaveField("Spec", "[SynchronizedBeforeSuite]"),
			HaveField("Passed", false))))
	})

	It("should not take programs that fail for specs that pass", func(ctx SpecContext) {
		ginkgo(encode(nil, specReport(reads, nil)), 2)
		Expect(round(ctx).Problems).To(ConsistOf("all specs passed, and the programs ended with exit status 2"))
	})

	DescribeTable("should say what the programs said last if they leave no report",
		func(ctx SpecContext, report, message string) {
			ginkgo([]byte(report), 2)
			Expect(round(ctx).Problems).To(ConsistOf(And(ContainSubstring(message), ContainSubstring("exit status 2"),
				ContainSubstring("the last line"))))
		},
		Entry("none", "", "failed to read the report"),
		Entry("half of one", "[{", "failed to read the report"),
		Entry("of no suite", "[]", "is of 0 suites"),
	)

	It("should not be taken for the one of an earlier campaign", func(ctx SpecContext) {
		ginkgo(encode(nil, specReport(reads, nil)), 0)
		Expect(round(ctx).Runs).To(HaveLen(1))
		ginkgo(nil, 2)
		Expect(round(ctx).Runs).To(BeEmpty())
	})

	It("should refuse to begin without its programs", func(ctx SpecContext) {
		client.Binaries.Ginkgo = filepath.Join(folder, "absent")
		_, err := client.Round(ctx, 1, 1)
		Expect(err).To(MatchError(ContainSubstring("failed to run round 1")))
	})

	It("should leave no process when it is interrupted", func(ctx SpecContext) {
		client.Binaries.Ginkgo = script(folder, "ginkgo", fmt.Sprintf("sleep 3600 & echo $! >%[1]s/new\n"+
			"mv %[1]s/new %[1]s/pid\nwait", folder))
		ended := make(chan error, 1)
		roundCtx, interrupt := contextOf(ctx)
		go func() {
			_, err := client.Round(roundCtx, 1, 1)
			ended <- err
		}()
		var pid int
		Eventually(func() (err error) {
			content, err := os.ReadFile(filepath.Join(folder, "pid"))
			if err != nil {
				return err
			}
			pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
			return err
		}).WithTimeout(patient).Should(Succeed())
		Expect(gone(pid)).To(BeFalse())
		interrupt()
		Eventually(ended).WithTimeout(patient).Should(Receive(MatchError("enough")))
		Eventually(func() bool { return gone(pid) }).WithTimeout(patient).Should(BeTrue())
	})

	It("should ask the programs which specs there are", func(ctx SpecContext) {
		Expect(os.WriteFile(filepath.Join(folder, "report"), encode(nil, specReport(reads, nil), specReport(pods, nil),
			specReport(writes, func(report *types.SpecReport) { report.State = types.SpecStateSkipped })), 0o644)).
			To(Succeed())
		client.Binaries.E2E = script(folder, "e2e.test", fmt.Sprintf(`
for argument in "$@"; do case "$argument" in --ginkgo.json-report=*) cp %s/report "${argument#*=}" ;; esac; done
case "$*" in *--ginkgo.dry-run*) ;; *) exit 3 ;; esac`, folder))
		Expect(client.Known(ctx)).To(Equal([]string{reads, pods}))
		client.Binaries.E2E = script(folder, "broken", "exit 3")
		_, err := client.Known(ctx)
		Expect(err).To(MatchError(ContainSubstring("failed to ask which specs there are: exit status 3")))
	})
})
