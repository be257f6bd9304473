// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/charts"
	_ "github.com/livecpm/livecpm/pkg/metrics" // registers what the rules ask for
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

type values = map[string]any

// monitored are the charts with monitoring switched on.
var monitored = []struct {
	chart, name, prometheus string
	values                  values
	dashboardLabels         []string
}{
	{charts.Agent, "livecpm-agent", "aggregate", values{"monitoring": values{"enabled": true}},
		[]string{"dashboard.monitoring.gardener.cloud/seed", "dashboard.monitoring.gardener.cloud/garden"}},
	{charts.Garden, "livecpm-controller-manager", "garden",
		values{"controllerManager": values{"enabled": true, "monitoring": values{"enabled": true}}},
		[]string{"dashboard.monitoring.gardener.cloud/garden"}},
}

// monitoringObjects returns what a chart has for monitoring, by kind, checked against the types of prometheus-operator.
func monitoringObjects(chart string, values values) map[string]map[string]any {
	GinkgoHelper()
	decoder := serializer.NewCodecFactory(kubernetes.SeedScheme, serializer.EnableStrict).UniversalDeserializer()
	installed := charts.Release{Chart: chart, Name: release, Namespace: namespace, Kubernetes: "v1.36.3"}
	manifests, err := installed.Render(values)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]map[string]any{}
	for _, manifest := range manifests {
		if !strings.Contains(manifest.Name, "/monitoring/") {
			continue
		}
		object, _, err := decoder.Decode([]byte(manifest.Content), nil, nil)
		Expect(err).NotTo(HaveOccurred(), manifest.Name)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		Expect(err).NotTo(HaveOccurred())
		out[content["kind"].(string)] = content
	}
	return out
}

type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func rulesIn(chart string) []rule {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(chart, "monitoring", "rules.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var file struct{ Groups []struct{ Rules []rule } }
	Expect(yaml.Unmarshal(content, &file)).To(Succeed())
	var out []rule
	for _, group := range file.Groups {
		out = append(out, group.Rules...)
	}
	Expect(len(out)).To(BeNumerically(">=", 5))
	return out
}

// panel is of a dashboard what there is to be checked.
type panel struct {
	ID                 int
	Title, Description string
	Datasource         string
	Type               string
	Targets            []struct{ Expr string }
	Links              []struct{ Title, URL string }
	GridPos            struct{ H, W, X, Y int }
	FieldConfig        struct {
		Defaults  struct{ Links []struct{ URL string } }
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
}

// property returns what the panel sets for one of its columns.
func (p panel) property(column, id string) any {
	for _, override := range p.FieldConfig.Overrides {
		for _, property := range override.Properties {
			if override.Matcher.Options == column && property.ID == id {
				return property.Value
			}
		}
	}
	return nil
}

// urls returns where the panel leads to, with the variables of Plutono.
func (p panel) urls() []string {
	GinkgoHelper()
	var out []string
	for _, link := range p.Links {
		out = append(out, link.URL)
	}
	for _, link := range p.FieldConfig.Defaults.Links {
		out = append(out, link.URL)
	}
	for _, override := range p.FieldConfig.Overrides {
		links, _ := p.property(override.Matcher.Options, "links").([]any)
		for _, link := range links {
			out = append(out, link.(map[string]any)["url"].(string))
		}
	}
	return out
}

type dashboard struct {
	UID, Title string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Query string }
	}
}

func dashboardIn(chart string) dashboard {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(chart, "monitoring", "dashboard.json"))
	Expect(err).NotTo(HaveOccurred())
	var out dashboard
	Expect(json.Unmarshal(content, &out)).To(Succeed())
	return out
}

// known returns the labels of all metrics that livecpm registers, by name.
func known() map[string][]string {
	GinkgoHelper()
	registry, ok := runtimemetrics.Registry.(prometheus.Collector)
	Expect(ok).To(BeTrue())
	descriptions := make(chan *prometheus.Desc, 1000)
	registry.Describe(descriptions)
	close(descriptions)
	parts := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	out := map[string][]string{}
	for description := range descriptions {
		match := parts.FindStringSubmatch(description.String())
		Expect(match).NotTo(BeNil(), description.String())
		if !strings.HasPrefix(match[1], "livecpm_") {
			continue
		}
		labels := []string{"job"}
		for label := range strings.SplitSeq(match[2], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
		out[match[1]] = labels
	}
	Expect(len(out)).To(BeNumerically(">", 10))
	return out
}

var (
	metricName = regexp.MustCompile(`\blivecpm_[a-z_]+\b`)
	selector   = regexp.MustCompile(`\b(livecpm_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*(?:"([^"]*)"|%q)`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// expectKnown checks metrics and labels of an expression, and that reasons are those of the code.
func expectKnown(expr string, metrics map[string][]string) {
	GinkgoHelper()
	base := func(name string) string { return strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count") }
	labels := map[string]bool{"le": true, "job": true}
	for _, name := range metricName.FindAllString(expr, -1) {
		Expect(metrics).To(HaveKey(base(name)), expr)
		for _, label := range metrics[base(name)] {
			labels[label] = true
		}
	}
	for _, selected := range selector.FindAllStringSubmatch(expr, -1) {
		for _, match := range matcher.FindAllStringSubmatch(selected[2], -1) {
			Expect(metrics[base(selected[1])]).To(ContainElement(match[1]), expr)
			if match[1] == "reason" {
				for reason := range strings.SplitSeq(match[2], "|") {
					Expect(steps.Reason(reason).Hold() || steps.Reason(reason).Fault()).To(BeTrue(), reason)
				}
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			Expect(labels).To(HaveKey(strings.TrimSpace(label)), expr)
		}
	}
}

var _ = Describe("Monitoring", func() {
	It("should be left out unless asked for: not every cluster has the kinds", func() {
		for _, m := range monitored {
			Expect(monitoringObjects(m.chart, nil)).To(BeEmpty())
		}
		Expect(monitoringObjects(charts.Garden, values{"controllerManager": values{"enabled": true}})).To(BeEmpty())
		Expect(monitoringObjects(charts.Garden,
			values{"runtime": values{"enabled": false}, "controllerManager": values{"enabled": true,
				"monitoring": values{"enabled": true}}})).To(BeEmpty(), "the virtual garden runs no Prometheus")
	})

	It("should be found by the Prometheus and the Plutono of Gardener", func() {
		for _, m := range monitored {
			objects := monitoringObjects(m.chart, m.values)
			Expect(objects).To(And(HaveLen(3), HaveKey("PrometheusRule"), HaveKey("ServiceMonitor"),
				HaveKey("ConfigMap")))
			for _, kind := range []string{"PrometheusRule", "ServiceMonitor"} {
				Expect(objects[kind]).To(HaveKeyWithValue("metadata",
					HaveKeyWithValue("labels", HaveKeyWithValue("prometheus", m.prometheus))))
			}
			for _, label := range m.dashboardLabels {
				Expect(objects["ConfigMap"]).
					To(HaveKeyWithValue("metadata", HaveKeyWithValue("labels", HaveKeyWithValue(label, "true"))))
			}
		}
	})

	It("should carry rules and dashboard unchanged into the cluster", func() {
		for _, m := range monitored {
			objects := monitoringObjects(m.chart, m.values)
			content, err := os.ReadFile(filepath.Join(m.chart, "monitoring", "rules.yaml"))
			Expect(err).NotTo(HaveOccurred())
			var inFile, inCluster any
			Expect(yaml.Unmarshal(content, &inFile)).To(Succeed())
			rendered, err := json.Marshal(objects["PrometheusRule"]["spec"])
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(rendered, &inCluster)).To(Succeed())
			Expect(inCluster).To(Equal(inFile))

			content, err = os.ReadFile(filepath.Join(m.chart, "monitoring", "dashboard.json"))
			Expect(err).NotTo(HaveOccurred())
			Expect(objects["ConfigMap"]).To(HaveKeyWithValue("data", ConsistOf(MatchJSON(content))))
		}
	})

	It("should ask the pods for metrics by the Service, whose name is the job in the rules", func() {
		for _, m := range monitored {
			monitor := monitoringObjects(m.chart, m.values)["ServiceMonitor"]
			// The other objects do not need the kinds of prometheus-operator.
			var service *corev1.Service
			off := values{"controllerManager": values{"enabled": true}}
			if m.chart == charts.Agent {
				off = nil
			}
			service = only[*corev1.Service](render(m.chart, off))
			Expect(service.Name).To(Equal(m.name))
			encoded, err := json.Marshal(monitor["spec"])
			Expect(err).NotTo(HaveOccurred())
			var spec struct {
				Selector  struct{ MatchLabels map[string]string }
				Endpoints []struct {
					Port              string
					HonorLabels       bool
					MetricRelabelings []struct{ Regex, Action string }
				}
			}
			Expect(json.Unmarshal(encoded, &spec)).To(Succeed())
			for key, value := range spec.Selector.MatchLabels {
				Expect(service.Labels).To(HaveKeyWithValue(key, value))
			}
			Expect(spec.Endpoints).To(HaveLen(1))
			Expect(spec.Endpoints[0].Port).To(Equal(service.Spec.Ports[0].Name))
			Expect(spec.Endpoints[0].HonorLabels).To(BeTrue(),
				"the namespace in the metrics is the shoot's, not the pod's")
			keep := regexp.MustCompile("^(?:" + spec.Endpoints[0].MetricRelabelings[0].Regex + ")$")
			Expect(spec.Endpoints[0].MetricRelabelings[0].Action).To(Equal("keep"))
			for name := range known() {
				Expect(keep.MatchString(name)).To(BeTrue(), name)
			}
			Expect(rulesIn(m.chart)).To(ContainElement(HaveField("Expr", ContainSubstring(`up{job="`+m.name+`"}`))))
		}
	})

	It("should use no metric and no label that the code does not have", func() {
		metrics := known()
		for _, m := range monitored {
			for _, rule := range rulesIn(m.chart) {
				expectKnown(rule.Expr, metrics)
				for _, text := range rule.Annotations {
					expectKnown(text, metrics)
				}
			}
			board := dashboardIn(m.chart)
			for _, panel := range board.Panels {
				for _, target := range panel.Targets {
					expectKnown(target.Expr, metrics)
				}
			}
			for _, variable := range board.Templating.List {
				expectKnown(variable.Query, metrics)
			}
		}
	})

	It("should leave no metric out: each is in a rule or on a dashboard", func() {
		var all strings.Builder
		for _, m := range monitored {
			for _, rule := range rulesIn(m.chart) {
				all.WriteString(rule.Expr + "\n")
			}
			for _, panel := range dashboardIn(m.chart).Panels {
				for _, target := range panel.Targets {
					all.WriteString(target.Expr + "\n")
				}
			}
		}
		for name := range known() {
			Expect(all.String()).To(ContainSubstring(name))
		}
	})

	It("should say with every alert how bad it is, what it means and where to read on", func() {
		seen := map[string]bool{}
		for _, m := range monitored {
			for _, rule := range rulesIn(m.chart) {
				Expect(rule.Alert).To(HavePrefix("Livecpm"))
				Expect(seen).NotTo(HaveKey(rule.Alert))
				seen[rule.Alert] = true
				Expect(rule.Labels["severity"]).To(BeElementOf("critical", "warning", "info"), rule.Alert)
				Expect(rule.Labels).To(HaveKeyWithValue("service", "livecpm"), rule.Alert)
				if m.chart == charts.Agent {
					Expect(rule.Labels).To(And(HaveKeyWithValue("type", "seed"),
						HaveKeyWithValue("visibility", "operator")), "the Alertmanager of a seed mails by these")
				} else {
					Expect(rule.Labels).To(HaveKeyWithValue("topology", "garden"))
				}
				Expect(rule.Annotations["summary"]).NotTo(BeEmpty(), rule.Alert)
				Expect(rule.Annotations["description"]).To(HaveSuffix("."), rule.Alert)
				page, ok := strings.CutPrefix(rule.Annotations["runbook_url"], pages.Base)
				Expect(ok).To(BeTrue(), rule.Alert)
				if strings.Contains(page, "{{ $labels.reason }}") {
					continue // a page per reason; the test of the docs sees to them
				}
				Expect(filepath.Join("..", "docs", page)).To(BeAnExistingFile(), rule.Alert)
			}
		}
	})

	It("should have a test for every alert", func() {
		for chart, file := range map[string]string{charts.Agent: "agent-rules.test.yaml",
			charts.Garden: "garden-rules.test.yaml"} {
			content, err := os.ReadFile(filepath.Join("testdata", file))
			Expect(err).NotTo(HaveOccurred())
			var tests struct {
				Tests []struct {
					AlertRuleTest []struct {
						Alertname string
						ExpAlerts []any `json:"exp_alerts"`
					} `json:"alert_rule_test"`
				}
			}
			Expect(yaml.Unmarshal(content, &tests)).To(Succeed())
			fires, silent := map[string]bool{}, map[string]bool{}
			for _, test := range tests.Tests {
				for _, expected := range test.AlertRuleTest {
					if len(expected.ExpAlerts) > 0 {
						fires[expected.Alertname] = true
					} else {
						silent[expected.Alertname] = true
					}
				}
			}
			for _, rule := range rulesIn(chart) {
				Expect(fires).To(HaveKey(rule.Alert))
				Expect(silent).To(HaveKey(rule.Alert))
			}
		}
	})

	It("should draw panels that say what they show", func() {
		uids := map[string]bool{}
		for _, m := range monitored {
			board := dashboardIn(m.chart)
			Expect(uids).NotTo(HaveKey(board.UID))
			uids[board.UID] = true
			ids := map[int]bool{}
			for _, panel := range board.Panels {
				Expect(ids).NotTo(HaveKey(panel.ID))
				ids[panel.ID] = true
				Expect(panel.Title).NotTo(BeEmpty())
				Expect(panel.Description).To(HaveSuffix("."), panel.Title)
				Expect(panel.Datasource).To(Equal("$datasource"))
				Expect(panel.Targets).NotTo(BeEmpty())
			}
		}
	})
})

var _ = Describe("Dashboards", func() {
	find := func(chart, title string) panel {
		GinkgoHelper()
		for _, panel := range dashboardIn(chart).Panels {
			if panel.Title == title {
				return panel
			}
		}
		Fail("no panel " + title)
		return panel{}
	}

	It("should call the steps by their names, which are those of their pages", func() {
		mappings, ok := find(charts.Agent, "Migrations in flight by step").property("Value #A", "mappings").([]any)
		Expect(ok).To(BeTrue())
		names := map[string]string{}
		for _, mapping := range mappings {
			entry := mapping.(map[string]any)
			names[entry["value"].(string)] = entry["text"].(string)
		}
		Expect(names).To(HaveLen(len(steps.Table())))
		for i, step := range steps.Table() {
			Expect(names).To(HaveKeyWithValue(fmt.Sprint(i+1), step.String()))
		}
	})

	It("should tell the expected time of the step that each migration is in", func() {
		var expr string
		for _, target := range find(charts.Agent, "Migrations in flight by step").Targets {
			if strings.Contains(target.Expr, "livecpm_step_duration_seconds") {
				expr = target.Expr
			}
		}
		for i, step := range steps.Table() {
			Expect(expr).To(ContainSubstring(fmt.Sprintf(`== %d, "step", "%s", "", "")`, i+1, step)))
		}
	})

	It("should lead from every panel to a page about it", func() {
		for _, m := range monitored {
			for _, panel := range dashboardIn(m.chart).Panels {
				urls := panel.urls()
				Expect(urls).NotTo(BeEmpty(), panel.Title)
				for _, url := range urls {
					page, ok := strings.CutPrefix(url, pages.Base)
					Expect(ok).To(BeTrue(), url)
					var all []string
					switch {
					case strings.Contains(page, "${__value.text}"):
						for _, step := range steps.Table() {
							all = append(all, strings.ReplaceAll(page, "${__value.text}", step.String()))
						}
					case strings.Contains(page, "${__field.labels.reason}"):
						for _, reason := range []steps.Reason{steps.ReasonActionFailed, steps.ReasonSyncFailed,
							steps.ReasonQuorumLost, steps.ReasonGateNotInForce} {
							all = append(all, strings.ReplaceAll(page, "${__field.labels.reason}", string(reason)))
						}
					default:
						all = []string{page}
					}
					for _, page := range all {
						Expect(filepath.Join("..", "docs", page)).To(BeAnExistingFile(), panel.Title)
					}
				}
			}
		}
	})

	It("should have no panel upon another one", func() {
		for _, m := range monitored {
			taken := map[[2]int]string{}
			for _, panel := range dashboardIn(m.chart).Panels {
				Expect(panel.GridPos.X+panel.GridPos.W).To(BeNumerically("<=", 24), panel.Title)
				for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
					for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
						Expect(taken).NotTo(HaveKey([2]int{x, y}), panel.Title)
						taken[[2]int{x, y}] = panel.Title
					}
				}
			}
		}
	})
})

var _ = Describe("Alerts and dashboards", func() {
	It("should count the steps of the model", func() {
		for file, form := range map[string]string{"rules.yaml": "of %d)", "dashboard.json": "step (1 to %d)"} {
			content, err := os.ReadFile(filepath.Join("livecpm-agent", "monitoring", file))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content)).To(ContainSubstring(fmt.Sprintf(form, len(steps.Table()))), file)
		}
	})
})
