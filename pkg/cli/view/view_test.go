// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/plan"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/cli/world"
	"github.com/livecpm/livecpm/pkg/drain"
)

// With UPDATE_GOLDEN=1 the golden files are written anew; look at what has changed before you commit them.
func expectGolden(name, actual string) {
	GinkgoHelper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(actual), 0o644)).To(Succeed())
	}
	expected, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(actual).To(Equal(string(expected)), path)
}

func load[T any](folder, name string) T {
	GinkgoHelper()
	var out T
	data, err := os.ReadFile(filepath.Join("testdata", folder, name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(data, &out)).To(Succeed())
	return out
}

func names(folder string) []string {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil {
		panic(err)
	}
	var out []string
	for _, file := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return out
}

var _ = Describe("Tree", func() {
	for _, name := range names("worlds") {
		It("should draw "+name, func() {
			expectGolden("tree-"+name, view.Tree(load[world.World]("worlds", name), view.Options{}))
		})
	}

	It("should draw for narrow terminals, and leave nothing out when it is told to", func() {
		w := load[world.World]("worlds", "joining")
		expectGolden("tree-joining-narrow", view.Tree(w, view.Options{Width: 60}))
		expectGolden("tree-joining-wide", view.Tree(w, view.Options{Wide: true}))
		expectGolden("tree-joining-color", view.Tree(w, view.Options{Color: true}))
	})

	DescribeTable("should never be wider than the terminal, since lines that wrap spoil the next screen", func(width int) {
		for _, name := range names("worlds") {
			for line := range strings.Lines(view.Tree(load[world.World]("worlds", name), view.Options{Width: width})) {
				Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", width), line)
			}
		}
	},
		Entry("40", 40),
		Entry("60", 60),
		Entry("80", 80),
		Entry("120", 120),
		Entry("200", 200),
	)
})

var _ = Describe("List", func() {
	var (
		summaries []world.Summary
		now       = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	)

	BeforeEach(func() {
		summaries = nil
		for _, name := range names("worlds") {
			w := load[world.World]("worlds", name)
			w.Shoot.Name = name
			summaries = append(summaries, world.Summarize(w.Shoot, now))
		}
	})

	It("should draw what is under way first", func() {
		expectGolden("list", view.List(summaries, now, view.Options{}))
		expectGolden("list-wide", view.List(summaries, now, view.Options{Wide: true}))
	})

	It("should draw a migration in one line", func() {
		var lines strings.Builder
		for _, summary := range summaries {
			lines.WriteString(view.Line(summary, view.Options{}) + "\n")
		}
		expectGolden("lines", lines.String())
	})
})

var _ = Describe("Plan", func() {
	for _, name := range names("plans") {
		It("should draw "+name, func() {
			destination := "seed-b"
			if name == "candidates" || name == "none-fit" {
				destination = ""
			}
			p, err := plan.Evaluate(load[plan.Input]("plans", name), destination)
			Expect(err).NotTo(HaveOccurred())
			expectGolden("plan-"+name, view.Plan(p, view.Options{}))
		})
	}
})

var _ = Describe("Drain", func() {
	for _, name := range names("drains") {
		It("should draw "+name, func() {
			expectGolden("drain-"+name, view.Drain(load[world.Drain]("drains", name), view.Options{}))
		})
	}

	It("should leave nothing out when it is told to", func() {
		d := load[world.Drain]("drains", "draining")
		expectGolden("drain-draining-wide", view.Drain(d, view.Options{Wide: true}))
		expectGolden("drain-draining-color", view.Drain(d, view.Options{Color: true}))
		expectGolden("drain-draining-narrow", view.Drain(d, view.Options{Width: 60}))
	})

	It("should have worlds of the kind that is published", func() {
		for _, name := range names("drains") {
			if table := load[world.Drain]("drains", name).Table; table != nil {
				encoded, err := table.Encode()
				Expect(err).NotTo(HaveOccurred())
				Expect(drain.DecodeTable(encoded)).To(Equal(*table), name)
			}
		}
	})
})

var _ = Describe("Duration", func() {
	DescribeTable("should be what people read", func(d time.Duration, expected string) {
		Expect(view.Duration(d)).To(Equal(expected))
	},
		Entry("nothing", time.Duration(0), "0s"),
		Entry("seconds", 1400*time.Millisecond, "1s"),
		Entry("a minute", 59700*time.Millisecond, "1m"),
		Entry("minutes", 252*time.Second, "4m12s"),
		Entry("hours", 2*time.Hour+61*time.Second, "2h1m"),
		Entry("days", 72*time.Hour, "3d"),
	)
})
