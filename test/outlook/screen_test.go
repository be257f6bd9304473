// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/outlook"
)

var _ = Describe("Screen", func() {
	It("should draw a block again in its place, below the lines that stay", func() {
		var out bytes.Buffer
		screen := outlook.NewTerminalScreen(&out, 80)
		screen.Block("one", "two")
		screen.Line("stays")
		screen.Block("three")
		screen.Clear()
		Expect(out.String()).To(Equal("one\ntwo\n\x1b[2A\x1b[Jstays\nthree\n\x1b[1A\x1b[J"))
	})

	It("should cut lines that are wider than the terminal", func() {
		var out bytes.Buffer
		outlook.NewTerminalScreen(&out, 60).Block(strings.Repeat("é", 100))
		Expect(out.String()).To(Equal(strings.Repeat("é", 58) + "…\n"))
	})

	It("should draw no blocks where there is no terminal", func() {
		var out bytes.Buffer
		screen := outlook.NewScreen(&out)
		Expect(screen.Terminal()).To(BeFalse())
		screen.Block("one")
		screen.Line("%d", 2)
		Expect(out.String()).To(Equal("2\n"))
	})

	DescribeTable("Minutes", func(d time.Duration, expected string) {
		Expect(outlook.Minutes(d)).To(Equal(expected))
	},
		Entry(nil, -time.Second, "a few seconds"),
		Entry(nil, 24*time.Second, "20 s"),
		Entry(nil, 45*time.Second, "50 s"),
		Entry(nil, 55*time.Second, "1 min"),
		Entry(nil, 89*time.Second, "1 min"),
		Entry(nil, 10*time.Minute+31*time.Second, "11 min"),
	)

	It("should draw bars", func() {
		Expect(outlook.Bar(0.5, 4)).To(Equal("██░░"))
		Expect(outlook.Bar(-1, 2)).To(Equal("░░"))
		Expect(outlook.Bar(2, 2)).To(Equal("██"))
	})
})

var _ = Describe("Plan", func() {
	It("should fit on one screen and name parts, minutes and what is left behind", func() {
		now := time.Date(2026, 11, 24, 14, 0, 0, 0, time.UTC)
		tracker := outlook.NewTracker(func() time.Time { return now }, now,
			outlook.Parts(), func(part outlook.Part) time.Duration { return part.First })
		lines := outlook.Plan{
			Shoot: "live", Machine: outlook.Machine{Cores: 2, Speed: 0.5}, Model: "Some CPU", Stages: tracker.Stages(),
			Left: tracker.Left(), Now: now,
			State: "/s/.landscape", Cache: "/c/livecpm", There: outlook.State{Built: map[string]bool{"etcd": true}},
			Components: 10,
		}.Lines()
		Expect(len(lines)).To(BeNumerically("<=", 23))
		for _, line := range lines {
			Expect(len([]rune(line))).To(BeNumerically("<=", 120), line)
		}
		text := strings.Join(lines, "\n")
		for _, expected := range []string{
			"1  compile the demo", "2  build the real components (1 of 10 are built)",
			"7  keep the load for a while, then write the report",
			"done at", "14:", "2 processors (Some CPU), each 2.0 times as slow as that of the reference",
			"/s/.landscape", "/c/livecpm", "make landscape-down", "Ctrl-C",
		} {
			Expect(text).To(ContainSubstring(expected))
		}
	})

	It("should say what is only checked", func() {
		plan := outlook.Plan{Shoot: "live", There: outlook.State{Up: true, Shoot: true}, Stages: []outlook.StageOutlook{
			{Stage: outlook.StageLandscape}, {Stage: outlook.StageShoot},
		}}
		Expect(strings.Join(plan.Lines(), "\n")).
			To(And(ContainSubstring("which are up"), ContainSubstring("find shoot live")))
	})
})

var _ = Describe("State", func() {
	var state string

	write := func(name, content string) {
		GinkgoHelper()
		file := filepath.Join(state, name)
		Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	}

	look := func() outlook.State {
		GinkgoHelper()
		result, err := outlook.Look(context.Background(),
			outlook.Place{Repo: repository, State: state, Shoot: "live"})
		Expect(err).NotTo(HaveOccurred())
		return result
	}

	BeforeEach(func() {
		state = GinkgoT().TempDir()
		GinkgoT().Setenv("LIVECPM_CACHE", filepath.Join(state, "cache"))
	})

	part := func(name string) outlook.Part {
		for _, part := range outlook.Parts() {
			if part.Name == name {
				return part
			}
		}
		Fail("no part " + name)
		return outlook.Part{}
	}

	It("should have nothing at first", func() {
		there := look()
		Expect(there).To(Equal(outlook.State{Built: map[string]bool{}}))
		for _, part := range outlook.Parts() {
			Expect(there.First(part)).To(BeTrue(), part.Name)
		}
	})

	It("should find what is built, up and created", func() {
		output, err := exec.Command(filepath.Join(repository, "hack", "build-tools.sh"), "--path", "etcd").Output()
		Expect(err).NotTo(HaveOccurred())
		etcd := strings.TrimSpace(string(output))
		Expect(os.MkdirAll(etcd, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(etcd, ".complete"), nil, 0o600)).To(Succeed())
		write(outlook.DemoBinary, "")
		write("processes/garden-etcd.json", `{"pid":`+strconv.Itoa(os.Getpid())+`,"startTime":1}`)
		there := look()
		Expect(there).To(Equal(outlook.State{Demo: true, Built: map[string]bool{"etcd": true}, Up: true}))
		Expect(there.First(part(outlook.PartDemo))).To(BeFalse())
		Expect(there.First(part(outlook.Tool("etcd")))).To(BeFalse())
		Expect(there.First(part(outlook.Tool("kubernetes")))).To(BeTrue())
		Expect(there.First(part("garden"))).To(BeFalse())
		Expect(there.First(part("shoot"))).To(BeTrue())
		write("shoots/live.kubeconfig", "")
		write("images/livecpm/built.json", "")
		there = look()
		Expect(there.First(part("shoot"))).To(BeFalse())
		Expect(there.First(part("seed-images"))).To(BeFalse())
	})

	It("should not take for up what has died", func() {
		write("processes/garden-etcd.json", `{"pid":99999999,"startTime":1}`)
		write("processes/broken.json", `{"pid":`)
		write("shoots/live.kubeconfig", "")
		Expect(look()).To(Equal(outlook.State{Built: map[string]bool{}}))
	})

	It("should tell when the first program began", func() {
		now := time.Unix(7, 0)
		GinkgoT().Setenv(outlook.EnvBegan, "")
		Expect(outlook.Began(now)).To(Equal(now))
		GinkgoT().Setenv(outlook.EnvBegan, "5")
		Expect(outlook.Began(now)).To(Equal(time.Unix(5, 0)))
	})
})

var _ = Describe("Commands", func() {
	It("should end with everything that they have started", func() {
		pidFile := filepath.Join(GinkgoT().TempDir(), "pid")
		ctx, cancel := context.WithCancel(context.Background())
		cmd := outlook.InGroup(exec.CommandContext(ctx, "sh", "-c", `sleep 600 & echo $! >"`+pidFile+`"; wait`))
		Expect(cmd.Start()).To(Succeed())
		var pid string
		Eventually(func() string {
			content, _ := os.ReadFile(pidFile)
			pid = strings.TrimSpace(string(content))
			return pid
		}).WithTimeout(time.Minute).ShouldNot(BeEmpty())
		cancel()
		Expect(cmd.Wait()).NotTo(Succeed())
		// An orphan that has ended may still be a zombie, where nobody collects it.
		Eventually(func() string {
			content, _ := os.ReadFile("/proc/" + pid + "/stat")
			_, after, _ := strings.Cut(string(content), ") ")
			return strings.TrimPrefix(after[:min(1, len(after))], "Z")
		}).WithTimeout(time.Minute).Should(BeEmpty())
	})

	It("should hand on every line, and show the last ones when they fail", func() {
		log := filepath.Join(GinkgoT().TempDir(), "log")
		var lines []string
		report := func(line string) { lines = append(lines, line) }
		Expect(outlook.RunLogged(exec.Command("sh", "-c", "echo one; echo two >&2"), "it", log, report)).To(Succeed())
		Expect(lines).To(Equal([]string{"one", "two"}))
		err := outlook.RunLogged(exec.Command("sh", "-c", "for i in $(seq 1 30); do echo line $i; done; exit 3"), "it",
			log, report)
		Expect(err).
			To(MatchError(And(ContainSubstring("failed to build it: exit status 3"), ContainSubstring("  line 11\n"),
				ContainSubstring("  line 30\n"), Not(ContainSubstring("line 10\n")),
				ContainSubstring("all lines are in "+log))))
	})

	It("should say how to resume and how to clean", func() {
		Expect(outlook.Resume("while testing")).To(And(ContainSubstring("while testing"), ContainSubstring("make demo"),
			ContainSubstring("make landscape-down")))
	})
})
