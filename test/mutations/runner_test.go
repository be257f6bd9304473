// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/mutations"
)

const (
	testdata = "test/mutations/testdata"
	door     = testdata + "/door"
)

var _ = Describe("Runner", func() {
	var (
		ctx    = context.Background()
		out    *bytes.Buffer
		runner *mutations.Runner
	)

	BeforeEach(func() {
		out = &bytes.Buffer{}
		runner = &mutations.Runner{Root: repository, Out: out}
	})

	fault := func(name, old, replacement string) mutations.Mutation {
		return mutations.Mutation{Name: name, Harm: "The door does not do what it should", File: door + "/door.go",
			Old: old, New: replacement, Packages: []string{door}}
	}
	var (
		caught   = fault("opens-always", `return key == "right"`, "return true")
		survivor = fault("locks-by-no-key", `return key != "wrong"`, `return key == "right"`)
	)
	try := func(mutation mutations.Mutation) mutations.Trial {
		GinkgoHelper()
		result, err := runner.Try(ctx, mutation)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Trials).To(HaveLen(1))
		Expect(result.Caught()).To(Equal(result.Trials[0].Verdict == mutations.Caught))
		return result.Trials[0]
	}

	It("should name the specs that catch a mutation", func() {
		trial := try(caught)
		Expect(trial.Verdict).To(Equal(mutations.Caught), trial.Output)
		Expect(trial.Failed).To(ConsistOf("a door should stay shut for the wrong key"))
		Expect(trial.Ran).To(BeNumerically(">", 0))
	})

	It("should take a spec that panics for one that catches the mutation", func() {
		trial := try(fault("breaks", `return key == "right"`, `panic("it breaks")`))
		Expect(trial.Verdict).To(Equal(mutations.Caught), trial.Output)
		Expect(trial.Failed).To(HaveLen(1), "the others do not run")
	})

	It("should find a mutation that no spec notices", func() {
		trial := try(survivor)
		Expect(trial.Verdict).To(Equal(mutations.Survived), trial.Output)
		Expect(trial.Ran).To(Equal(3))
	})

	It("should not take an error of the compiler for a spec that fails", func() {
		trial := try(fault("no-bool", `return key == "right"`, "return key"))
		Expect(trial.Verdict).To(Equal(mutations.NotCompiled))
		Expect(trial.Output).To(ContainSubstring("cannot use key"))
	})

	It("should not take the end of a program for a spec that fails", func() {
		trial := try(fault("falls-off", `return key == "right"`, `go panic("it falls off")
	select {}`))
		Expect(trial.Verdict).To(Equal(mutations.Crashed), trial.Output)
	})

	It("should not take a failure before the specs for one of them", func() {
		trial := try(fault("never-hung", "1+1 == 2", "1+1 == 3"))
		Expect(trial.Verdict).To(Equal(mutations.Crashed), trial.Output)
		Expect(trial.Output).To(ContainSubstring("BeforeSuite"))
	})

	It("should not take specs that do not end for specs that fail", func() {
		runner.Timeout = 3 * time.Second
		Expect(try(fault("jams", `return key == "right"`, "select {}")).Verdict).To(Equal(mutations.TimedOut))
	})

	DescribeTable("should not take a package without specs for one that passes", func(folder string) {
		mutation := caught
		mutation.Packages = []string{testdata + folder}
		Expect(try(mutation).Verdict).To(Equal(mutations.NothingRan))
		Expect(runner.Prove(ctx, []mutations.Mutation{mutation})).To(MatchError(ContainSubstring("NO SPECS")))
	},
		Entry("no test at all", "/bare"),
		Entry("no spec that runs", "/idle"),
	)

	It("should ask every package for its own proof", func() {
		mutation := caught
		mutation.Packages = []string{door, testdata + "/idle"}
		result, err := runner.Try(ctx, mutation)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Trials).To(HaveExactElements(HaveField("Verdict", mutations.Caught),
			HaveField("Verdict", mutations.NothingRan)))
		Expect(result.Caught()).To(BeFalse())
		Expect(mutations.Result{}.Caught()).To(BeFalse(), "without any trial")
	})

	DescribeTable("should refuse a text that has changed", func(old, found string) {
		_, err := runner.Try(ctx, fault("outdated", old, "false"))
		Expect(err).To(MatchError(And(ContainSubstring("outdated"), ContainSubstring(found))))
	},
		Entry("missing", "no such text", "0 times"),
		Entry("there twice", `key == ""`, "2 times"),
	)

	It("should refuse a file that is not there", func() {
		mutation := caught
		mutation.File = door + "/gate.go"
		_, err := runner.Try(ctx, mutation)
		Expect(err).To(MatchError(And(ContainSubstring("opens-always"), ContainSubstring("gate.go"))))
	})

	It("should try nothing while a package does not pass by itself", func() {
		mutation := caught
		mutation.Packages = []string{testdata + "/failing"}
		Expect(runner.Run(ctx, []mutations.Mutation{mutation})).To(MatchError(And(
			ContainSubstring("failing do not pass without a mutation"), ContainSubstring("should not pass by itself"))))
		Expect(out.String()).To(BeEmpty())
	})

	It("should change nothing in the work tree, and leave nothing behind", func() {
		temporary := GinkgoT().TempDir()
		GinkgoT().Setenv("TMPDIR", temporary)
		file := filepath.Join(repository, door, "door.go")
		before, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())

		Expect(runner.Run(ctx, []mutations.Mutation{caught})).To(Succeed())
		Expect(out.String()).To(And(
			ContainSubstring("passes without mutations: "+door+" (3 specs"),
			MatchRegexp(`opens-always: caught by \S+ in \d+ s: \["a door should stay shut for the wrong key"\]\n`),
			MatchRegexp(`opens-always +caught +\S+ +\d+ s +a door should stay shut for the wrong key\n`),
			MatchRegexp(`\n1 of 1 mutations were caught in \d+ s\n$`)))

		Expect(os.ReadFile(file)).To(Equal(before))
		Expect(os.Stat(file)).To(HaveField("ModTime()", info.ModTime()))
		Expect(os.ReadDir(temporary)).To(BeEmpty())
	})

	It("should fail if one mutation is not caught, and try the others all the same", func() {
		Expect(runner.Run(ctx, []mutations.Mutation{survivor, caught})).To(MatchError(ContainSubstring("missing spec")))
		Expect(out.String()).To(And(
			ContainSubstring("locks-by-no-key: SURVIVED by "+door),
			ContainSubstring(survivor.Harm),
			MatchRegexp(`opens-always +caught`),
			MatchRegexp(`\n1 of 2 mutations were caught in \d+ s\n$`)))
	})

	It("should end at once when it is told to, and leave nothing behind", func() {
		temporary := GinkgoT().TempDir()
		GinkgoT().Setenv("TMPDIR", temporary)
		ended, end := context.WithCancel(ctx)
		end()
		_, err := runner.Try(ended, caught)
		Expect(err).To(MatchError(context.Canceled))
		Expect(os.ReadDir(temporary)).To(BeEmpty())
	})
})
