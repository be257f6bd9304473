// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	_ "github.com/livecpm/livecpm/pkg/metrics" // registers what the table has
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("monitoring.md", func() {
	page := read(filepath.Join("operations", "monitoring.md"))

	It("should have the alerts of the charts", func() {
		var expected, listed [][]string
		for _, in := range []struct{ chart, place string }{{"livecpm-agent", "seed"}, {"livecpm-garden", "garden"}} {
			content, err := os.ReadFile(filepath.Join("..", "charts", in.chart, "monitoring", "rules.yaml"))
			Expect(err).NotTo(HaveOccurred())
			var file struct {
				Groups []struct {
					Rules []struct {
						Alert       string
						Labels      map[string]string
						Annotations map[string]string
					}
				}
			}
			Expect(yaml.Unmarshal(content, &file)).To(Succeed())
			for _, group := range file.Groups {
				for _, rule := range group.Rules {
					expected = append(expected, []string{"`" + rule.Alert + "`", in.place, rule.Labels["severity"]})
					// An alert about any reason leads to the page of it.
					if strings.Contains(rule.Annotations["runbook_url"], "{{ $labels.reason }}") {
						Expect(rule.Annotations["runbook_url"]).To(Equal(pages.OfReason("{{ $labels.reason }}")))
					}
				}
			}
		}
		for _, row := range rows(page, "alert | in | severity |") {
			Expect(row).To(HaveLen(4))
			Expect(row[3]).NotTo(BeEmpty())
			listed = append(listed, row[:3])
		}
		Expect(listed).To(Equal(expected))
	})

	It("should have every metric with its labels, and no other", func() {
		registry := runtimemetrics.Registry.(prometheus.Collector)
		descriptions := make(chan *prometheus.Desc, 1000)
		registry.Describe(descriptions)
		close(descriptions)
		parts := regexp.MustCompile(`fqName: "(livecpm_[^"]+)".*variableLabels: \{([^}]*)\}`)
		var expected, listed []string
		for description := range descriptions {
			if match := parts.FindStringSubmatch(description.String()); match != nil {
				expected = append(expected, match[1]+" "+strings.ReplaceAll(match[2], ",", ", "))
			}
		}
		for _, row := range rows(page, "metric | labels |") {
			Expect(row[2]).NotTo(BeEmpty())
			listed = append(listed, strings.Trim(row[0], "`")+" "+row[1])
		}
		Expect(len(expected)).To(BeNumerically(">", 10))
		Expect(listed).To(ConsistOf(expected))
	})

	It("should have every metric of the relay", func() {
		names := regexp.MustCompile(`livecpm_relay_\w+`)
		code := names.FindAllString(read(filepath.Join("..", "pkg", "tunnel", "relay", "metrics.go")), -1)
		var listed []string
		for _, row := range rows(page, "relay metric | says |") {
			listed = append(listed, names.FindAllString(row[0], -1)...)
		}
		Expect(len(code)).To(BeNumerically(">", 5))
		Expect(listed).To(ConsistOf(code))
	})

	It("should have every condition and every event, and no other", func() {
		var expectedConditions, listedConditions [][]string
		for i, step := range steps.Table() {
			expectedConditions = append(expectedConditions,
				[]string{"`" + step.String() + "`", "condition", "Shoot", "agent, " + string(step.Owner),
					"[step " + strconv.Itoa(i+1) + "](" + filepath.Base(pages.OfStep(step)) + ")"})
		}
		expectedConditions = append(expectedConditions,
			[]string{"`" + string(drain.ConditionDrained) + "`", "condition", "Seed", "controller manager"})

		var listedEvents []string
		for _, row := range rows(page, "name | is | at | by |") {
			Expect(row).To(HaveLen(5))
			Expect(row).NotTo(ContainElement(BeEmpty()))
			switch {
			case row[1] == "condition" && row[2] == "Seed":
				listedConditions = append(listedConditions, row[:4])
			case row[1] == "condition":
				listedConditions = append(listedConditions, row)
			default:
				Expect(row[1]).To(BeElementOf("Normal", "Warning", "Normal, Warning"), row[0])
				if strings.HasPrefix(row[0], "`") {
					listedEvents = append(listedEvents, strings.Trim(row[0], "`"))
				} else {
					Expect(row[0]).To(Equal("a reason of a step"))
				}
			}
		}
		Expect(listedConditions).To(Equal(expectedConditions))

		written := eventsOfCode()
		Expect(len(written)).To(BeNumerically(">", 10))
		Expect(listedEvents).To(ConsistOf(written))
	})
})

// eventsOfCode returns the reasons of all events that are written, but for those that are a reason of a step: the
// literals and constants that the recording functions get, and the reasons of the condition of a drain, which one of
// them gets.
func eventsOfCode() []string {
	GinkgoHelper()
	constants := map[string]string{}
	var calls []ast.Expr
	Expect(filepath.WalkDir(filepath.Join("..", "pkg"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch typed := node.(type) {
			case *ast.ValueSpec:
				for i, name := range typed.Names {
					if i < len(typed.Values) {
						if value, ok := text(typed.Values[i], nil); ok {
							constants[name.Name] = value
						}
					}
				}
			case *ast.CallExpr:
				called, ok := typed.Fun.(*ast.SelectorExpr)
				switch {
				case ok && called.Sel.Name == "Eventf" && len(typed.Args) > 3:
					calls = append(calls, typed.Args[3])
				case ok && called.Sel.Name == "event" && len(typed.Args) > 2:
					calls = append(calls, typed.Args[2])
				}
			}
			return true
		})
		return nil
	})).To(Succeed())
	// A constant that is another one.
	constants["EventNotInForce"] = string(steps.ReasonGateNotInForce)

	reasons := map[string]bool{}
	for name, value := range constants {
		if strings.HasPrefix(name, "ConditionReason") {
			reasons[value] = true
		}
	}
	variables := 0
	for _, call := range calls {
		if value, ok := text(call, constants); ok {
			reasons[value] = true
		} else {
			variables++
		}
	}
	// The agent's three for reasons of steps, the frame's own function below them, and the drain's for its condition.
	Expect(variables).To(Equal(5),
		"an event with a reason that this test cannot see: list its reasons in the table, and teach them to this test")
	var out []string
	for reason := range reasons {
		out = append(out, reason)
	}
	slices.Sort(out)
	return out
}

// text returns the value of a string literal or of a known constant.
func text(expr ast.Expr, constants map[string]string) (string, bool) {
	switch typed := expr.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(typed.Value)
		return value, err == nil && typed.Kind == token.STRING
	case *ast.Ident:
		value, ok := constants[typed.Name]
		return value, ok
	case *ast.SelectorExpr:
		value, ok := constants[typed.Sel.Name]
		return value, ok
	}
	return "", false
}
