// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
	. "github.com/livecpm/livecpm/test/bench/machine"
)

var _ = Describe("processes", func() {
	var proc string

	BeforeEach(func() { proc = GinkgoT().TempDir() })

	// process writes what the kernel tells about a process: ticks of user and system time, resident memory.
	process := func(pid int, command, cgroup string, user, system, residentKiB int) {
		GinkgoHelper()
		folder := filepath.Join(proc, strconv.Itoa(pid))
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		for name, content := range map[string]string{
			"stat":    fmt.Sprintf("%d (a (b) c) S 1 2 3 4 5 6 7 8 9 10 %d %d 0 0 20 0 1 0 12345\n", pid, user, system),
			"status":  fmt.Sprintf("Name:\tx\nVmHWM:\t  %d kB\nVmRSS:\t  %d kB\n", 2*residentKiB, residentKiB),
			"cmdline": command + "\x00--config=x\x00",
			"cgroup":  "4:cpu:/" + cgroup + "\n",
		} {
			Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
		}
	}

	It("should read what a process has used", func() {
		process(7, "/x", "", 150, 50, 2048)
		Expect(Read(proc, 7)).To(Equal(Sample{CPU: 2 * time.Second, ResidentMiB: 2, PeakMiB: 4}))
		_, err := Read(proc, 8)
		Expect(err).To(MatchError(ContainSubstring("process 8")))
	})

	It("should read this process", func() {
		sample, err := Read(Proc, os.Getpid())
		Expect(err).NotTo(HaveOccurred())
		Expect(sample.ResidentMiB).To(BeNumerically(">", 1))
		Expect(sample.PeakMiB).To(BeNumerically(">=", sample.ResidentMiB))
	})

	It("should add up the processes of a program", func() {
		process(7, "/bin/livecpm-agent", "livecpm-seed-a/pod", 1000, 0, 10240)
		process(8, "/livecpm-relay", "livecpm-seed-a/pod", 100, 0, 1024)
		process(9, "/livecpm-agent", "other-seed-a/pod", 0, 0, 1024)
		process(10, "/etcd", "livecpm-seed-a/pod", 0, 0, 1024)
		meter := NewMeter(proc, "livecpm-", "livecpm-agent", "livecpm-relay")
		meter.Sample()
		Expect(meter.Report()).To(Equal(map[string]data.Process{
			"livecpm-agent": {CPUSeconds: 0, PeakMiB: 10}, "livecpm-relay": {CPUSeconds: 0, PeakMiB: 1},
		}), "what was before does not count")

		process(7, "/bin/livecpm-agent", "livecpm-seed-a/pod", 1100, 100, 5120)
		process(11, "/livecpm-agent", "livecpm-seed-b/pod", 300, 0, 20480)
		Expect(os.RemoveAll(filepath.Join(proc, "8"))).To(Succeed())
		meter.Sample()
		Expect(meter.Report()).To(Equal(map[string]data.Process{
			"livecpm-agent": {CPUSeconds: 5, PeakMiB: 20}, "livecpm-relay": {CPUSeconds: 0, PeakMiB: 1},
		}))
	})
})

var _ = Describe("Environment", func() {
	It("should name the machine and the versions", func(ctx SpecContext) {
		now := time.Date(2026, 11, 21, 12, 0, 0, 5, time.UTC)
		e, err := Environment(ctx, Proc, "../../..", now)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Time).To(Equal(now.Truncate(time.Second)))
		Expect(e.Cores).To(BeNumerically(">", 0))
		Expect(e.MemoryGiB).To(BeNumerically(">", 0))
		Expect(e.Processor).NotTo(BeEmpty())
		Expect(e.Kernel).NotTo(BeEmpty())
		Expect(e.Commit).To(MatchRegexp(`^[0-9a-f]{7,}(-dirty)?$`))
		Expect(e.Versions).To(And(HaveKeyWithValue("Gardener", HavePrefix("v")),
			HaveKeyWithValue("Kubernetes", HavePrefix("v")), HaveKeyWithValue("etcd", HavePrefix("v")), HaveKey("Go")))
	})

	It("should take a change of anything but figures for one of the code", func(ctx SpecContext) {
		repo, figures := GinkgoT().TempDir(), "docs/benchmarks/data/live.json"
		files := []string{"go.mod", "hack/tools/kubernetes/go.mod", "hack/tools/etcd/go.mod"}
		for _, file := range append(files, figures) {
			content, err := os.ReadFile(filepath.Join("../../..", file))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.MkdirAll(filepath.Dir(filepath.Join(repo, file)), 0o750)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(repo, file), content, 0o600)).To(Succeed())
		}
		for _, args := range [][]string{
			{"init", "--quiet"}, {"add", "."},
			{"-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "commit", "--quiet", "--message",
				"Begin"},
		} {
			output, err := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(output))
		}
		commit := func() string {
			e, err := Environment(ctx, Proc, repo, time.Now())
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			return e.Commit
		}
		clean := commit()
		Expect(clean).To(MatchRegexp(`^[0-9a-f]{7,}$`))
		Expect(os.WriteFile(filepath.Join(repo, figures), []byte("{}"), 0o600)).To(Succeed())
		Expect(commit()).To(Equal(clean))
		content, err := os.ReadFile(filepath.Join(repo, "go.mod"))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(repo, "go.mod"), append(content, "// changed\n"...), 0o600)).To(Succeed())
		Expect(commit()).To(Equal(clean + "-dirty"))
	})

	It("should say what is missing", func(ctx SpecContext) {
		_, err := Environment(ctx, Proc, GinkgoT().TempDir(), time.Now())
		Expect(err).To(MatchError(ContainSubstring("go.mod")))
		_, err = Environment(ctx, GinkgoT().TempDir(), "../../..", time.Now())
		Expect(err).To(HaveOccurred())
	})
})
