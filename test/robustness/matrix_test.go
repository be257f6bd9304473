// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/evidence"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

var repository = filepath.Join("..", "..")

// sourcesOf returns the packages of the product as they are.
func sourcesOf(ctx context.Context) *evidence.Sources {
	GinkgoHelper()
	sources, err := evidence.Load(ctx, repository)
	Expect(err).NotTo(HaveOccurred())
	return sources
}

var _ = Describe("Matrix", func() {
	var (
		folder string
		first  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	)

	BeforeEach(func() { folder = filepath.Join(GinkgoT().TempDir(), "robustness") })

	one := func(c robustness.Cell, outcome robustness.Outcome, failed int) robustness.CellResult {
		return robustness.CellResult{
			Cell: c, Outcome: outcome, Repro: c.Repro(), FailedRequests: failed, LongestWriteGapMs: 1250,
			Linearizable: "Ok",
			Struck:       first,
		}
	}
	made := func(c robustness.CellResult, after time.Duration) robustness.CellResult {
		c.Made = first.Add(after)
		return c
	}
	after := func(c robustness.CellResult, earlier ...robustness.CellResult) robustness.CellResult {
		c.Earlier = earlier
		return c
	}
	read := func() *robustness.Matrix {
		GinkgoHelper()
		m, err := robustness.ReadMatrix(folder)
		Expect(err).NotTo(HaveOccurred())
		return m
	}
	update := func(results ...robustness.CellResult) {
		GinkgoHelper()
		Expect(robustness.UpdateMatrix(folder, nil, results)).To(Succeed())
	}

	It("should grow from run to run, show the newest result of a cell and keep the failure before", func() {
		a, b := cell("cut-60s", 2, fault.Inside), cell("agent-kill-both", 1, fault.Boundary)
		Expect(read().Cells).To(BeEmpty())
		update(one(a, robustness.Broken, 9))
		update(one(b, robustness.Passed, 0), one(a, robustness.Passed, 3))
		Expect(read().Cells).To(Equal([]robustness.CellResult{one(b, robustness.Passed, 0),
			after(one(a, robustness.Passed, 3), one(a, robustness.Broken, 9))}))
	})

	It("should keep every attempt once, in order, whichever way they come together", func() {
		a := cell("cut-60s", 2, fault.Inside)
		attempts := []robustness.CellResult{made(one(a, robustness.Missed, 1), time.Hour),
			made(one(a, robustness.Broken, 2), 2*time.Hour), made(one(a, robustness.Passed, 3), 3*time.Hour),
			made(one(a, robustness.Broken, 4), 4*time.Hour)}
		expected := after(attempts[3], attempts[:3]...)
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 1, 0, 2, 3}} {
			m := &robustness.Matrix{}
			for _, i := range order {
				Expect(m.Merge(attempts[i])).To(Succeed())
			}
			Expect(m.Cells).To(Equal([]robustness.CellResult{expected}))
		}
		m := &robustness.Matrix{}
		Expect(m.Merge(after(attempts[2], attempts[0]), after(attempts[3], attempts[1], attempts[0]))).To(Succeed())
		Expect(m.Cells).To(Equal([]robustness.CellResult{expected}))
		Expect(m.MergeMatrix(&robustness.Matrix{Cells: []robustness.CellResult{expected}})).To(Succeed())
		Expect(m.Cells).To(Equal([]robustness.CellResult{expected}))
	})

	It("should keep two attempts of one time that say something else", func() {
		a := cell("cut-60s", 2, fault.Inside)
		m := &robustness.Matrix{}
		Expect(m.Merge(one(a, robustness.Broken, 2), one(a, robustness.Passed, 2))).To(Succeed())
		Expect(m.Cells).To(Equal([]robustness.CellResult{
			after(one(a, robustness.Passed, 2), one(a, robustness.Broken, 2)),
		}))
	})

	It("should keep what attempts were made with, for as long as one of them is there", func() {
		a := cell("cut-60s", 2, fault.Inside)
		build := &evidence.Build{Commit: "0123456789abcdef", Binaries: map[string]string{"agent": "1"}}
		key, err := build.Key()
		Expect(err).NotTo(HaveOccurred())
		Expect(robustness.UpdateMatrix(folder, build, []robustness.CellResult{one(a, robustness.Broken, 2)})).
			To(Succeed())
		update(made(one(a, robustness.Passed, 2), time.Hour))
		m := read()
		Expect(m.Builds).To(HaveKeyWithValue(key, build))
		Expect(m.Cells[0].Earlier).To(ConsistOf(And(HaveField("Build", key), HaveField("Commit", build.Commit))))
		m.Cells[0].Earlier = nil
		Expect(m.Write(folder)).To(Succeed())
		Expect(read().Builds).To(BeEmpty())
	})

	It("should show every cell in a table", func() {
		broken := one(cell("cut-60s", 2, fault.Inside), robustness.Broken, 9)
		broken.Problems = []string{"it is\nstuck"}
		missed := robustness.CellResult{Cell: cell("cut-60s", 5, fault.Inside), Outcome: robustness.Missed,
			Repro: "again"}
		update(one(cell("cut-60s", 2, fault.Boundary), robustness.Passed, 3), broken, missed)
		data, err := os.ReadFile(filepath.Join(folder, robustness.FileMatrixMarkdown))
		Expect(err).NotTo(HaveOccurred())
		text := string(data)
		Expect(text).To(Equal(read().Markdown()))
		Expect(text).To(And(
			ContainSubstring("| fault | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |\n"),
			ContainSubstring("3 of %d cells were run, 1 of them passed.", len(robustness.AllCells())),
			ContainSubstring("| cut-60s |  | b **ok** 3 failed, 1.2 s, 0 lost, Ok<br>i **FAILED** 9 failed, 1.2 s, 0 "+
				"lost, Ok<br>r – of 3 | b –<br>i –<br>r – of 1 | b –<br>i –<br>r – of 2 | b –<br>i **missed** |"),
			ContainSubstring("\n- cut-60s inside DestinationEtcdPeersJoined: FAILED. `make test-e2e LABELS=faults "+
				"FAULT=cut-60s STEP=DestinationEtcdPeersJoined MOMENT=inside`\n  - it is stuck\n"),
			ContainSubstring("2. DestinationEtcdPeersJoined\n"),
			Not(ContainSubstring("Figures of each cell")),
		))
		rows := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "| ") {
				Expect(strings.Count(line, "|")).To(Equal(len(steps.Table()) + 2))
				rows++
			}
		}
		Expect(rows).To(Equal(len(fault.All()) + 2))
	})

	It("should mark what struck together", func() {
		result := one(cell("cut-60s", 2, fault.Inside), robustness.Passed, 3)
		result.With = []string{"agent-kill-both"}
		m := &robustness.Matrix{Cells: []robustness.CellResult{result}}
		Expect(m.Markdown()).To(ContainSubstring("<br>i **ok** + 3 failed, 1.2 s, 0 lost, Ok<br>r – of 3 |"))
	})

	It("should show a failure that a success has followed", func() {
		a := cell("cut-60s", 2, fault.Inside)
		broken := made(one(a, robustness.Broken, 9), time.Hour)
		broken.Commit, broken.Problems = "0123456789abcdef", []string{"it is stuck"}
		m := &robustness.Matrix{}
		Expect(m.Merge(broken, made(one(a, robustness.Passed, 3), 2*time.Hour))).To(Succeed())
		Expect(m.Markdown()).To(And(
			ContainSubstring("i **ok** ! 3 failed"),
			ContainSubstring("\n## Earlier attempts that did not pass\n\n- cut-60s inside DestinationEtcdPeersJoined: "+
				"FAILED on 2026-01-01, commit 0123456789.\n  - it is stuck\n"),
			Not(ContainSubstring("## Not passed")),
		))
	})

	It("should show the figures of each cell, its commit and its age", func() {
		a := made(one(cell("cut-60s", 2, fault.Inside), robustness.Passed, 3), 24*time.Hour)
		a.Commit, a.LostWrites = "0123456789abcdef", 0
		a.Window = &robustness.Window{
			Before:  robustness.Part{Requests: 500, LongestWriteGapMs: 400},
			During:  robustness.Part{Requests: 20, Failed: 3, LoadFailed: 7, LongestWriteGapMs: 5100},
			After:   robustness.Part{Requests: 600, LongestWriteGapMs: 300},
			History: strings.Repeat("ab", 32), Linearizable: "Ok",
		}
		m := &robustness.Matrix{Cells: []robustness.CellResult{a},
			Assessed: &robustness.Assessment{Time: first.Add(100 * time.Hour), Commit: "fedcba9876543210"}}
		Expect(m.Markdown()).To(And(
			ContainSubstring("0 of the results are stale. They were compared with commit fedcba9876 on 2026-01-05."),
			ContainSubstring("\n| cut-60s inside DestinationEtcdPeersJoined | ok | 0123456789 | 2026-01-02, 3 d | "+
				"500, 0, 0, 0.4 s | 20, 3, 7, 5.1 s | 600, 0, 0, 0.3 s | 0 | Ok, Ok | 1 | abababababab |\n"),
		))
	})

	It("should sum up the cells at the reasons of a step", func() {
		m := &robustness.Matrix{}
		broken := made(one(cell("cut-60s", 6, fault.At(steps.ReasonWaitingForDNS)), robustness.Broken, 9), time.Hour)
		Expect(m.Merge(broken, made(one(broken.Cell, robustness.Passed, 3), 2*time.Hour),
			one(cell("cut-60s", 6, fault.At(steps.ReasonDrainingClients)), robustness.Broken, 3))).To(Succeed())
		Expect(m.Markdown()).To(And(
			ContainSubstring("| b –<br>i –<br>r 1 of 5 ok, 3 not run ! |"),
			ContainSubstring("cut-60s at DrainingClients of EtcdMigrationComplete: FAILED. `make test-e2e "+
				"LABELS=faults FAULT=cut-60s STEP=EtcdMigrationComplete MOMENT=DrainingClients`"),
			MatchRegexp(`Not in the table: .*JoiningLastEtcdMember of DestinationKubeAPIServerReady.*FORCE_SHRINK`),
			ContainSubstring("\nNot in the table: ReleasingDNSRecords of MigrateDNSRecords: the step shows it only "),
			MatchRegexp(`Not in the table: .*MovingNodes of MigrationCompleted.* They need a shoot with workers`),
		))
	})

	It("should find out what is stale, and say it", func(ctx SpecContext) {
		sources := sourcesOf(ctx)
		fresh, stale := cell("cut-60s", 2, fault.Boundary), cell("cut-60s", 2, fault.Inside)
		Expect(robustness.UpdateMatrix(folder, &evidence.Build{Commit: "a", Packages: sources.Digests()},
			[]robustness.CellResult{made(one(fresh, robustness.Passed, 0), time.Hour)})).To(Succeed())
		changed := sources.Digests()
		changed["pkg/etcd/joint"] = "other"
		Expect(robustness.UpdateMatrix(folder, &evidence.Build{Commit: "b", Packages: changed},
			[]robustness.CellResult{made(one(stale, robustness.Passed, 0), time.Hour)})).To(Succeed())
		m := read()
		Expect(m.Assess(sources, robustness.Assessment{Time: first.Add(50 * time.Hour), Commit: "c"})).To(Succeed())
		Expect(m.Cells).To(HaveExactElements(HaveField("Stale", ""),
			HaveField("Stale", "pkg/etcd/joint has changed since")))
		Expect(m.Markdown()).To(And(
			ContainSubstring("1 of the results are stale."),
			ContainSubstring("| b **ok** 0 failed, 1.2 s, 0 lost, Ok<br>i **ok** ~ 0 failed, 1.2 s, 0 lost, Ok<br>"),
			ContainSubstring("\n## Stale\n\n- 1 results: pkg/etcd/joint has changed since. The oldest is of "+
				"2026-01-01, 2 d, the newest of 2026-01-01, 2 d.\n"),
		))
	})

	It("should know all attempts, recorded or not, and record them", func(ctx SpecContext) {
		repo, a, b := GinkgoT().TempDir(), cell("cut-60s", 2, fault.Inside), cell("agent-kill-both", 1, fault.Boundary)
		older, newer := made(one(a, robustness.Broken, 9), time.Minute), made(one(a, robustness.Passed, 1), time.Hour)
		recorded := filepath.Join(repo, robustness.Recorded)
		Expect(robustness.UpdateMatrix(recorded, nil, []robustness.CellResult{newer})).To(Succeed())
		update(older, one(b, robustness.Passed, 2))
		sources := sourcesOf(ctx)
		for range 2 { // to record again changes nothing
			Expect(robustness.Record(repo, folder, sources, robustness.Assessment{Time: first, Commit: "c"})).
				To(Succeed())
			known, err := robustness.Known(repo, GinkgoT().TempDir())
			Expect(err).NotTo(HaveOccurred())
			unknown := "nobody has recorded what it was made with"
			first, second := one(b, robustness.Passed, 2), after(newer, older)
			first.Stale, second.Stale = unknown, unknown
			Expect(known.Cells).To(Equal([]robustness.CellResult{first, second}))
			Expect(os.ReadFile(filepath.Join(recorded, robustness.FileRecordedMarkdown))).
				To(BeEquivalentTo(known.Markdown()))
			Expect(robustness.Check(repo, sources)).To(Succeed())
		}
	})

	It("should be checked: its page, and whether what it shows as fresh is", func(ctx SpecContext) {
		repo, a := GinkgoT().TempDir(), cell("cut-60s", 2, fault.Inside)
		recorded, sources := filepath.Join(repo, robustness.Recorded), sourcesOf(ctx)
		Expect(robustness.UpdateMatrix(recorded, nil, []robustness.CellResult{one(a, robustness.Passed, 0)})).
			To(Succeed())
		page := filepath.Join(recorded, robustness.FileRecordedMarkdown)
		Expect(os.Rename(filepath.Join(recorded, robustness.FileMatrixMarkdown), page)).To(Succeed())
		Expect(robustness.Check(repo, sources)).To(MatchError(And(
			ContainSubstring("shows cut-60s inside DestinationEtcdPeersJoined as fresh, but nobody has recorded"),
			ContainSubstring("run make fault-matrix"))))
		Expect(robustness.Record(repo, folder, sources, robustness.Assessment{Time: first, Commit: "c"})).To(Succeed())
		Expect(robustness.Check(repo, sources)).To(Succeed())
		Expect(os.WriteFile(page, []byte("315 of 315 passed"), 0o600)).To(Succeed())
		Expect(robustness.Check(repo, sources)).
			To(MatchError(ContainSubstring("README.md is not what matrix.json says")))
	})

	It("should be recorded as its data say, and show nothing as fresh that is stale", func(ctx SpecContext) {
		Expect(robustness.Check(repository, sourcesOf(ctx))).To(Succeed())
	})

	It("should not overwrite a matrix that it cannot read", func() {
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		file := filepath.Join(folder, robustness.FileMatrixJSON)
		Expect(os.WriteFile(file, []byte("{"), 0o644)).To(Succeed())
		Expect(robustness.UpdateMatrix(folder, nil, nil)).
			To(MatchError(ContainSubstring("failed to decode the fault matrix")))
		Expect(os.ReadFile(file)).To(BeEquivalentTo("{"))
	})
})
