// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// fault is what may happen to an etcd that is passed on.
type fault struct {
	name string
	// killsAgent reports whether the agent ends at the moment. Another one takes over.
	killsAgent bool
	strike     func(c *cell) error
	// heal ends the fault after faultTime; nil if it is over at once, or if nobody can.
	heal func(c *cell) error
	// ends are where it ends, by moment; passed where nothing is said.
	ends map[moment]end
	// leaveOut are moments at which the only voter would lose its volume: what the bucket has is restored then, as on
	// any other day.
	leaveOut moment
}

func faults() []fault {
	nothing := func(*cell) error { return nil }
	return []fault{
		{name: "the agent is killed", killsAgent: true, strike: nothing},
		{name: "the source's etcd is killed", strike: func(c *cell) error { return c.from.kill() }},
		{name: "the destination's etcd is killed", strike: func(c *cell) error { return c.to.kill() }},
		{
			name: "the members are cut off from each other for 6 s",
			strike: func(c *cell) error {
				c.from.link.cut()
				c.to.link.cut()
				return nil
			},
			heal: func(c *cell) error {
				c.from.link.heal()
				c.to.link.heal()
				return nil
			},
		},
		{
			name:   "the source's etcd stands still for 6 s",
			strike: func(c *cell) error { return c.from.signal(syscall.SIGSTOP) },
			heal:   func(c *cell) error { return c.from.signal(syscall.SIGCONT) },
		},
		{
			name:   "the destination's etcd stands still for 6 s",
			strike: func(c *cell) error { return c.to.signal(syscall.SIGSTOP) },
			heal:   func(c *cell) error { return c.to.signal(syscall.SIGCONT) },
		},
		{
			name: "the source's volume is lost", strike: func(c *cell) error { return c.from.loseVolume() },
			ends: map[moment]end{twoVoters: forcedOn, leads: forcedOn}, leaveOut: hasData,
		},
		{
			name: "the destination's volume is lost", strike: func(c *cell) error { return c.to.loseVolume() },
			heal: func(c *cell) error {
				if c.when != hasData {
					return nil // Its sidecar waits for a cluster that has no quorum.
				}
				return c.rejoin()
			},
			ends: map[moment]end{twoVoters: forcedBack, leads: forcedBack}, leaveOut: removed,
		},
	}
}

// atOnce is how many cells run beside each other. They wait most of the time.
const atOnce = 10

// matrix runs all cells, and hands out what each has shown.
type matrix struct {
	folder  string
	results map[string]chan result
}

func keyOf(f fault, when moment) string { return f.name + ": " + string(when) }

func cells() []*cell {
	var out []*cell
	for _, f := range faults() {
		for _, when := range moments {
			if when == f.leaveOut {
				continue
			}
			ends := passed
			if special, ok := f.ends[when]; ok {
				ends = special
			}
			out = append(out, &cell{fault: f, when: when, end: ends})
		}
	}
	return out
}

func newMatrix(binary string) *matrix {
	GinkgoHelper()
	m := &matrix{folder: GinkgoT().TempDir(), results: map[string]chan result{}}
	tls, err := newCertificates(m.folder)
	Expect(err).NotTo(HaveOccurred())
	var (
		ctx, end = context.WithCancel(context.Background())
		places   = make(chan struct{}, atOnce)
		running  sync.WaitGroup
	)
	for number, c := range cells() {
		shown := make(chan result, 1)
		m.results[keyOf(c.fault, c.when)] = shown
		running.Go(func() {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				shown <- result{err: ctx.Err()}
				return
			}
			defer func() { <-places }()
			folder, err := folderOf(m.folder, number)
			if err != nil {
				shown <- result{err: err}
				return
			}
			shown <- c.run(ctx, binary, folder, tls)
		})
	}
	// Whatever fails, and whoever interrupts it: no etcd is left behind.
	DeferCleanup(func() {
		end()
		running.Wait()
	})
	return m
}

var _ = Describe("An etcd with one member that is passed on to the other seed", Ordered, ContinueOnFailure, func() {
	var (
		all   *matrix
		table strings.Builder
	)

	BeforeAll(func() {
		binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd")
		Expect(binary).To(BeAnExistingFile(), "make test-integration sets KUBEBUILDER_ASSETS")
		all = newMatrix(binary)
	})

	AfterAll(func() {
		AddReportEntry("passing on under faults",
			"\n| fault | moment | acknowledged writes | longest time without one |\n| --- | --- | --- | --- |\n"+
				table.String())
	})

	It("should notice a write that is lost", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		tls, err := newCertificates(folder)
		Expect(err).NotTo(HaveOccurred())
		c := &cell{}
		Expect(c.begin(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), folder, tls)).To(Succeed())
		DeferCleanup(c.close)
		c.writer.acknowledge(writeKeys + "never written")
		Expect(c.writer.lost(ctx, c.from)).To(Equal([]string{writeKeys + "never written"}))
	})

	for _, c := range cells() {
		It(fmt.Sprintf("should be %s when %s: %s", c.end, c.fault.name, c.when), func() {
			var shown result
			Eventually(all.results[keyOf(c.fault, c.when)], 20*time.Minute).Should(Receive(&shown))
			fmt.Fprintf(&table, "| %s | %s | %d | %.1f s |\n", c.fault.name, c.when, shown.acknowledged,
				shown.longest.Seconds())
			Expect(shown.err).NotTo(HaveOccurred())
			Expect(shown.acknowledged).To(BeNumerically(">", 0))
		})
	}
})
