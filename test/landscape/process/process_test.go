// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/landscape/process"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Manager", func() {
	var (
		ctx     = context.Background()
		state   string
		manager *process.Manager
		spec    process.Spec
	)

	BeforeEach(func() {
		state = GinkgoT().TempDir()
		manager = process.NewManager(state)
		spec = process.Spec{Name: "sleeper", Command: []string{"/bin/sleep", "60"}}
		DeferCleanup(func() { Expect(manager.Stop(ctx, spec.Name)).To(Succeed()) })
	})

	It("should start a daemon once and find it again", func() {
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		pid := manager.PID(spec.Name)
		Expect(pid).NotTo(BeZero())
		Expect(manager.Ensure(ctx, spec)).To(BeFalse())

		later := process.NewManager(state)
		Expect(later.PID(spec.Name)).To(Equal(pid))
		Expect(later.Ensure(ctx, spec)).To(BeFalse())
		Expect(later.List()).
			To(ConsistOf(process.Status{Name: "sleeper", PID: pid, Running: true,
				Log: filepath.Join(state, "logs", "sleeper.log")}))

		Expect(later.Stop(ctx, spec.Name)).To(Succeed())
		Expect(later.PID(spec.Name)).To(BeZero())
		Expect(later.List()).To(BeEmpty())
	})

	// polite starts a daemon that says when it is asked to end, and stops it where it stands.
	polite := func() (said func() (string, error)) {
		GinkgoHelper()
		spec.Command = []string{"/bin/sh", "-c",
			"trap 'echo politely; exit' TERM; echo ready; while :; do sleep 0.05; done"}
		said = func() (string, error) {
			content, err := os.ReadFile(manager.LogFile(spec.Name))
			return string(content), err
		}
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		Eventually(said).Should(ContainSubstring("ready"))
		Expect(unix.Kill(manager.PID(spec.Name), unix.SIGSTOP)).To(Succeed())
		return said
	}

	It("should let a daemon continue that a fault has stopped and nobody has let continue", func() {
		polite()
		stopped := func() (string, error) {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", manager.PID(spec.Name)))
			return string(content), err
		}
		Eventually(stopped).Should(ContainSubstring(") T "))
		Expect(manager.Ensure(ctx, spec)).To(BeFalse())
		Eventually(stopped).ShouldNot(ContainSubstring(") T "))
	})

	It("should end a daemon politely also if it stands still", func() {
		said := polite()
		Expect(manager.Stop(ctx, spec.Name)).To(Succeed())
		Expect(said()).To(ContainSubstring("politely"), "it would have been killed otherwise")
	})

	It("should start a daemon again when its command or a file of it changes", func() {
		file := filepath.Join(state, "conf")
		Expect(os.WriteFile(file, []byte("a"), 0o644)).To(Succeed())
		spec.Files = []string{file}
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		first := manager.PID(spec.Name)

		Expect(os.WriteFile(file, []byte("b"), 0o644)).To(Succeed())
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		second := manager.PID(spec.Name)
		Expect(second).NotTo(Equal(first))

		spec.Command = []string{"/bin/sleep", "61"}
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		Expect(manager.PID(spec.Name)).NotTo(Equal(second))
	})

	It("should not take a later process with the same id for the daemon", func() {
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		pid := manager.PID(spec.Name)
		record := filepath.Join(state, "processes", "sleeper.json")
		content, err := os.ReadFile(record)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(record, []byte(`{"pid":1,"startTime":1}`), 0o644)).To(Succeed())
		Expect(manager.PID(spec.Name)).To(BeZero())
		Expect(os.WriteFile(record, content, 0o644)).To(Succeed())
		Expect(manager.PID(spec.Name)).To(Equal(pid))
	})

	It("should give up at once, with the end of the log, when the awaited daemon dies", func() {
		spec.Command = []string{"/bin/sh", "-c", "echo it is all over; sleep 0.2; exit 3"}
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		// It is asked once more at most: the daemon may die between the question and the look whether it lives.
		after := 0
		err := manager.Wait(ctx, spec.Name, func(context.Context) error {
			if manager.PID(spec.Name) == 0 {
				after++
			}
			return errors.New("not yet")
		})
		Expect(err).To(MatchError(And(ContainSubstring("sleeper died"), ContainSubstring("sleeper.log"),
			ContainSubstring("it is all over"))))
		Expect(after).To(BeNumerically("<=", 1))
	})

	It("should say what is awaited when time is up", func() {
		Expect(manager.Ensure(ctx, spec)).To(BeTrue())
		short, expire := patience.Expiring(ctx)
		err := manager.Wait(short, spec.Name, func(context.Context) error { expire(); return errors.New("not yet") })
		Expect(err).To(MatchError(And(ContainSubstring("sleeper does not get ready"), ContainSubstring("not yet"))))
	})

	It("should show only the end of a long log", func() {
		file := filepath.Join(state, "log")
		Expect(os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o644)).To(Succeed())
		Expect(process.Tail(file, 2)).To(Equal("  two\n  three"))
		Expect(process.Tail(filepath.Join(state, "none"), 2)).To(Equal("  (no log)"))
	})

	It("should return output and failure of a command", func() {
		Expect(process.Run(ctx, process.Spec{Command: []string{"/bin/sh", "-c", "echo out"}})).To(Equal("out\n"))
		_, err := process.Run(ctx, process.Spec{Command: []string{"/bin/sh", "-c", "echo why >&2; exit 1"}})
		Expect(err).To(MatchError(ContainSubstring("why")))
		_, err = process.Run(ctx,
			process.Spec{Command: []string{"/bin/true"},
				Namespaces: process.Namespaces{Net: filepath.Join(state, "none")}})
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

var _ = DescribeTable("start time of a process", func(stat string, expected int, ok bool) {
	started, err := process.ParseStartTime(stat)
	if !ok {
		Expect(err).To(HaveOccurred())
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(started).To(BeEquivalentTo(expected))
},
	Entry("plain", "12 (etcd) S 1 12 12 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 4711 0 0", 4711, true),
	Entry("a command with blanks and parentheses",
		"12 (a) b (c) S 1 12 12 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 4711 0 0", 4711, true),
	Entry("a zombie", "12 (etcd) Z 1 12 12 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 4711 0 0", 0, false),
	Entry("nonsense", "nonsense", 0, false),
	Entry("too short", "12 (etcd) S 1", 0, false),
)
