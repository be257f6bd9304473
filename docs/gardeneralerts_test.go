// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// realAlerts are the alerts about a shoot that Gardener's components bring along and that a migration does not raise by
// itself: they depend on what the source has, or on what clients see.
var realAlerts = []string{
	// The way of clients, and what the kube-apiserver reports as long as it runs.
	"ApiServerNotReachable", "ApiserverRequestsFailureRate", "KubeApiServerLatency",
	"KubeApiServerTooManyAuditlogFailures", "KubeApiServerTooManyOpenFileDescriptors",
	// Of the etcd members and sidecars that are there; both leave at the same time.
	"KubeEtcd3MainNoLeader", "KubeEtcd3EventsNoLeader", "KubeEtcd3MainHighMemoryConsumption",
	"KubeEtcd3EventsHighMemoryConsumption", "KubeEtcd3MainDbSizeLimitApproaching",
	"KubeEtcd3EventsDbSizeLimitApproaching", "KubeEtcd3MainDbSizeLimitCrossed", "KubeEtcd3EventsDbSizeLimitCrossed",
	"KubeEtcdMainDeltaBackupFailed", "KubeEtcdEventsDeltaBackupFailed", "KubeEtcdMainFullBackupFailed",
	"KubeEtcdEventsFullBackupFailed", "KubeEtcdMainRestorationFailed", "KubeEtcdEventsRestorationFailed",
	"KubeEtcdMainBackupRestoreDown", "KubeEtcdEventsBackupRestoreDown",
	// kube-state-metrics keeps what it has read from the kube-apiserver, and runs until the namespace goes.
	"KubeStateMetricsSeedDown", "KubeStateMetricsShootDown", "NoWorkerNodes", "VPNShootNoPods", "VPNHAShootNoPods",
	"KubePodPendingShoot", "KubePodPendingControlPlane", "KubePodNotReadyShoot", "KubePodNotReadyControlPlane",
	"K8SNodeOutOfDisk", "K8SNodeMemoryPressure", "K8SNodeDiskPressure",
	// What nodes report.
	"VMRootfsFull", "VMConntrackTableFull", "KubeletTooManyOpenFileDescriptorsShoot",
	"KubeletTooManyOpenFileDescriptorsSeed", "KubePersistentVolumeUsageCritical",
	"KubePersistentVolumeFullInFourDays",
	// The monitoring itself.
	"PrometheusCantScrape", "PrometheusConfigurationFailure", "AlertmanagerConfigInconsistent",
	"AlertmanagerFailedReload", "VerticalPodAutoscalerCappedRecommendation",
}

var _ = Describe("Gardener's alerts about a shoot that moves", func() {
	var (
		page = read(filepath.Join("operations", "monitoring.md"))
		// raised are the steps in which the migration raises an alert, as the table says.
		raised = map[string][]int{}
	)
	for _, row := range rows(page, "alert of Gardener | in steps |") {
		var in []int
		for number := range strings.SplitSeq(row[1], ",") {
			step, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				panic(err)
			}
			in = append(in, step)
		}
		for _, name := range names(row[0]) {
			raised[name] = in
		}
	}

	It("should be known, each of them, as real or as a part of the migration", func() {
		var known []string
		for name := range raised {
			known = append(known, name)
		}
		Expect(alertsOfGardener()).To(ConsistOf(append(known, realAlerts...)))
	})

	It("should be inhibited in the steps in which the migration raises them, and in no other", func() {
		block := page[strings.Index(page, "inhibit_rules:"):]
		block = block[:strings.Index(block, "```")]
		var config struct {
			Rules []inhibition `json:"inhibit_rules"`
		}
		Expect(yaml.UnmarshalStrict([]byte(block), &config)).To(Succeed())
		inhibited := func(alert string, step int) bool {
			return slices.ContainsFunc(config.Rules, func(rule inhibition) bool {
				Expect(rule.Equal).To(Equal([]string{"cluster"}))
				return matching(rule.Source, map[string]string{"alertname": "LivecpmMigrationInFlight",
					"step": strconv.Itoa(step)}) && matching(rule.Target, map[string]string{"alertname": alert})
			})
		}
		for _, alert := range alertsOfGardener() {
			for i := range steps.Table() {
				Expect(inhibited(alert, i+1)).To(Equal(slices.Contains(raised[alert], i+1)),
					"%s in step %d", alert, i+1)
			}
		}
	})
})

// inhibition is a rule of an Alertmanager.
type inhibition struct {
	Source []string `json:"source_matchers"`
	Target []string `json:"target_matchers"`
	Equal  []string `json:"equal"`
}

// names returns what is in backticks.
func names(cell string) []string {
	var out []string
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		out = append(out, match[1])
	}
	return out
}

// matching tells whether the labels fit the matchers, as Alertmanager judges: expressions are anchored.
func matching(matchers []string, labels map[string]string) bool {
	GinkgoHelper()
	for _, matcher := range matchers {
		parts := regexp.MustCompile(`^(\w+)(=~|=)"([^"]*)"$`).FindStringSubmatch(matcher)
		Expect(parts).NotTo(BeNil(), matcher)
		expression := parts[3]
		if parts[2] == "=" {
			expression = regexp.QuoteMeta(expression)
		}
		if !regexp.MustCompile("^(?:" + expression + ")$").MatchString(labels[parts[1]]) {
			return false
		}
	}
	return true
}

// alertsOfGardener returns the names of all alerts that the components of a shoot have, in the release of
// Gardener that livecpm is built with.
func alertsOfGardener() []string {
	GinkgoHelper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gardener/gardener").Output()
	Expect(err).NotTo(HaveOccurred())
	var (
		components = filepath.Join(strings.TrimSpace(string(module)), "pkg", "component")
		inCode     = regexp.MustCompile(`Alert:\s+"(\w+)"(?: \+ role \+ "(\w+)")?`)
		inFile     = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
		found      []string
	)
	for _, folder := range []string{"autoscaling", "etcd/etcd", "kubernetes", "networking", "nodemanagement",
		"observability/monitoring/blackboxexporter/shoot", "observability/monitoring/kubestatemetrics",
		"observability/monitoring/nodeexporter", "observability/monitoring/prometheus/shoot"} {
		Expect(filepath.WalkDir(filepath.Join(components, folder), func(path string, _ fs.DirEntry, err error) error {
			switch {
			case err != nil || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata"):
			case strings.HasSuffix(path, ".go"):
				for _, match := range inCode.FindAllStringSubmatch(read(path), -1) {
					if match[2] == "" {
						found = append(found, match[1])
						continue
					}
					found = append(found, match[1]+"Main"+match[2], match[1]+"Events"+match[2])
				}
			case strings.HasSuffix(path, ".yaml"):
				for _, match := range inFile.FindAllStringSubmatch(read(path), -1) {
					found = append(found, match[1])
				}
			}
			return err
		})).To(Succeed())
	}
	slices.Sort(found)
	return slices.Compact(found)
}
