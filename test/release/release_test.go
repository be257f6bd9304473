// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/test/release"
)

var repository = filepath.Join("..", "..")

var _ = Describe("Suites", func() {
	It("should run each label of the landscape's specs that the continuous run does not", func() {
		source, err := os.ReadFile(filepath.Join(repository, "test", "suites", "suites_test.go"))
		Expect(err).NotTo(HaveOccurred())
		found := regexp.MustCompile(`(?m)^\tlabel\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
		Expect(len(found)).To(BeNumerically(">=", 10))
		labels := map[string]bool{"migration": true, "bench": true}
		for _, suite := range release.Suites() {
			labels[suite.Label] = true
		}
		for _, label := range found {
			Expect(labels).To(HaveKey(label[1]))
		}
	})

	It("should call targets that the Makefile has, and have names of their own", func() {
		makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
		Expect(err).NotTo(HaveOccurred())
		names := map[string]bool{}
		for _, suite := range release.Suites() {
			Expect(names).NotTo(HaveKey(suite.Name))
			names[suite.Name] = true
			Expect(suite.Commands).NotTo(BeEmpty())
			for _, arguments := range suite.Commands {
				Expect(string(makefile)).To(ContainSubstring("\n" + arguments[0] + ":"))
			}
		}
	})

	It("should be chosen by name", func() {
		Expect(release.Choose("")).To(Equal(release.Suites()))
		Expect(release.Choose(" drain,cli")).To(HaveExactElements(HaveField("Name", "cli"), HaveField("Name", "drain")))
		_, err := release.Choose("drains")
		Expect(err).To(MatchError(ContainSubstring(`there is no suite "drains"; there are search, mutations, cli,`)))
	})

	It("should take the landscape down before another one comes up, and afterwards", func() {
		suites, err := release.Choose("upstream-gardenlet")
		Expect(err).NotTo(HaveOccurred())
		Expect(suites[0].String()).
			To(Equal("make landscape-down && make demo GARDENLET=upstream && make landscape-down"))
	})
})

var _ = Describe("Runner", func() {
	var (
		clock  *clocktesting.FakeClock
		runner *release.Runner
		calls  []string
		fails  map[string]error
		stop   func()
		out    *bytes.Buffer
	)

	BeforeEach(func() {
		clock = clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		calls, fails, stop, out = nil, map[string]error{}, func() {}, &bytes.Buffer{}
		folder := GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(folder, "docs", "development"), 0o755)).To(Succeed())
		runner = &release.Runner{
			Repository: folder, Clock: clock, Out: out,
			Commit: func(context.Context, string) (string, bool, error) { return "0123456789abcdef", true, nil },
			Make: func(ctx context.Context, _ string, arguments []string, log io.Writer) error {
				call := strings.Join(arguments, " ")
				calls = append(calls, call)
				fmt.Fprintln(log, "made "+call)
				clock.Step(90 * time.Second)
				stop()
				return fails[arguments[0]]
			},
		}
	})

	suites := []release.Suite{
		{Name: "cli", Commands: [][]string{{"one"}, {"two"}}},
		{Name: "nodes", Commands: [][]string{{"landscape-down"}, {"three", "NODES=3"}, {"landscape-down"}}},
	}
	results := func() []release.Result {
		GinkgoHelper()
		read, err := release.Read(runner.Repository)
		Expect(err).NotTo(HaveOccurred())
		return read
	}

	It("should run one suite after the other and add their results to those that there are", func(ctx SpecContext) {
		before := release.Result{Suite: "cli", Commit: "a", Verdict: release.Failed, Why: "make one: exit status 2"}
		Expect(release.Add(runner.Repository, before)).To(Succeed())
		Expect(runner.Run(ctx, suites)).To(Succeed())
		Expect(calls).To(Equal([]string{"one", "two", "landscape-down", "three NODES=3", "landscape-down"}))
		Expect(results()).To(HaveExactElements(before,
			release.Result{Suite: "cli", Commit: "0123456789abcdef", Changed: true, Verdict: release.Passed,
				Seconds: 180, Begun: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			release.Result{Suite: "nodes", Commit: "0123456789abcdef", Changed: true, Verdict: release.Passed,
				Seconds: 270, Begun: time.Date(2026, 1, 2, 3, 7, 5, 0, time.UTC)}))
		Expect(os.ReadFile(filepath.Join(runner.Repository, release.FolderLogs, "cli.log"))).
			To(BeEquivalentTo("made one\nmade two\n"))
		Expect(os.ReadFile(filepath.Join(runner.Repository, release.FilePage))).
			To(ContainSubstring("| passed | 0123456789, changed | 2026-01-02 03:04 | 3m0s | 2, 1 | " +
				"0123456789, changed |"))
	})

	It("should run the other suites when one fails, and fail at the end", func(ctx SpecContext) {
		fails["one"] = errors.New("exit status 2")
		Expect(runner.Run(ctx, suites)).To(MatchError(ContainSubstring("not every suite has passed")))
		Expect(calls).To(Equal([]string{"one", "landscape-down", "three NODES=3", "landscape-down"}))
		Expect(results()[0]).To(And(HaveField("Verdict", release.Failed), HaveField("Why", "make one: exit status 2")))
		Expect(results()[1].Verdict).To(Equal(release.Passed))
	})

	It("should take the landscape down after a failure", func(ctx SpecContext) {
		fails["three"] = errors.New("exit status 2")
		Expect(runner.Run(ctx, suites[1:])).NotTo(Succeed())
		Expect(calls).To(Equal([]string{"landscape-down", "three NODES=3", "landscape-down"}))
		Expect(results()[0].Why).To(Equal("make three NODES=3: exit status 2"))
	})

	It("should record that it was interrupted, and run no other suite", func(ctx SpecContext) {
		ctx2, cancel := context.WithCancel(ctx)
		stop = cancel
		Expect(runner.Run(ctx2, suites)).To(MatchError(ContainSubstring("the suites after it were not run")))
		Expect(calls).To(Equal([]string{"one"}))
		Expect(results()).To(HaveExactElements(HaveField("Verdict", release.Interrupted)))
	})

	It("should not overwrite results that it cannot read", func(ctx SpecContext) {
		file := filepath.Join(runner.Repository, release.FileResults)
		Expect(os.WriteFile(file, []byte("{"), 0o600)).To(Succeed())
		Expect(runner.Run(ctx, suites)).To(MatchError(ContainSubstring("failed to decode")))
		Expect(os.ReadFile(file)).To(BeEquivalentTo("{"))
	})
})

var _ = Describe("Page", func() {
	It("should be what the results say", func() {
		results, err := release.Read(repository)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.ReadFile(filepath.Join(repository, release.FilePage))).
			To(BeEquivalentTo(release.Page(results)), "run go run ./test/release/cmd/release --page")
	})

	It("should have each suite in a row, run or not", func() {
		page := release.Page(nil)
		for _, suite := range release.Suites() {
			Expect(page).To(ContainSubstring("\n| " + suite.Name + " | " + suite.Title + " | not run | | | | 0 | |\n"))
		}
	})
})
