// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/drain/moves"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/program"
)

// envBinary names the variable with the path of livecpm-controller-manager that make bench-drain sets. Without it the
// garden is small and the controllers run in this process.
const envBinary = "LIVECPM_BENCH_DRAIN"

// scale is the size of a garden.
type scale struct {
	// seeds and shoots are how many there are, drained how many of the seeds are drained at the same time.
	seeds, shoots, drained int
	// pace is the time that the simulated agents take for a step.
	pace time.Duration
}

var (
	small = scale{seeds: 6, shoots: 60, drained: 3, pace: 20 * time.Millisecond}
	large = scale{seeds: 20, shoots: 2000, drained: 3, pace: 100 * time.Millisecond}
)

// The budget is the default one. The pause is left out: it would only make the run longer.
const (
	maxPerSeed = 2
	maxTotal   = 5
	// maxRequests bounds the requests for a migration, watches left out. What it needs are four writes to the Shoot and
	// the events, and for each look at which something has changed the Seed's condition and the table.
	maxRequests = 20
)

var _ = Describe("Drain at scale", func() {
	It("should keep its budget, and need few requests for a migration", func() {
		binary, size := os.Getenv(envBinary), small
		if binary != "" {
			size = large
		}
		const prefix = "scale-"
		drained, leaving := fill(prefix, size)

		agents, end := startAgents(garden.Config, prefix)
		agents.slowDown(size.pace)
		DeferCleanup(func() {
			end()
			Expect(agents.errors()).NotTo(HaveOccurred())
		})
		// Before anybody acts on it: a seed that is asked for later may have been moved to meanwhile.
		for _, name := range drained {
			askToDrain(name)
		}
		requests := startCounter(garden.Config)
		asked := requests.Counts()
		// Shoots of other specs stand still on their way, and count.
		total := maxTotal + underWay()
		var running *process
		if binary != "" {
			running = startBinary(binary, requests, total)
		} else {
			running = startHere(requests, total)
		}
		running.begin()
		begun := time.Now()
		Eventually(func(g Gomega) {
			for _, name := range drained {
				seed := &gardencorev1beta1.Seed{}
				g.Expect(garden.Client.Get(ctx, client.ObjectKey{Name: name}, seed)).To(Succeed())
				g.Expect(v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained)).
					To(HaveField("Reason", drain.ConditionReasonEmpty))
			}
		}).WithTimeout(8 * time.Minute).WithPolling(500 * time.Millisecond).Should(Succeed())
		took := time.Since(begun)
		report := running.report()
		for what, count := range asked {
			asked[what] = -count
		}
		for what, count := range requests.Counts() {
			asked[what] += count
		}

		peak, starts := agents.peak(), agents.starts()
		var out, into int
		for what, most := range peak {
			switch {
			case strings.HasPrefix(what, moves.OutOf("")):
				out = max(out, most)
			case strings.HasPrefix(what, moves.Into("")):
				into = max(into, most)
			}
		}
		each, perKind := perMigration(asked, leaving)
		fmt.Printf("drain of %d of %d seeds with %d shoots: %d migrations in %.0f s\nmost at once: %d out of a seed, "+
			"%d into a seed, %d in all\n%srequests per migration: %.1f (%s)\n",
			size.drained, size.seeds, size.shoots, leaving, took.Seconds(), out, into, peak[moves.Total], report, each,
			perKind)

		Expect(starts).To(HaveLen(leaving))
		Expect(starts).To(HaveEach(1))
		// Not only kept, but used: otherwise nothing would have been proved. In a large garden there are so many seeds
		// to go to that the budget of a single one does not matter.
		Expect(out).To(Equal(maxPerSeed))
		Expect(peak[moves.Total]).To(Equal(maxTotal))
		Expect(into).To(BeNumerically("<=", maxPerSeed))
		if binary == "" {
			Expect(into).To(Equal(maxPerSeed))
		}
		Expect(asked["PATCH shoots/binding"]).To(Equal(leaving))
		Expect(each).To(BeNumerically("<", maxRequests))
	})
})

// fill creates seeds and shoots, and returns the seeds to drain and how many shoots are in them.
func fill(prefix string, size scale) (drained []string, leaving int) {
	GinkgoHelper()
	selector := map[string]string{specLabel: prefix + "spec"}
	var seeds []string
	for i := range size.seeds {
		seed := framework.NewSeed(fmt.Sprintf("%s%02d", prefix, i))
		seed.Labels = selector
		Expect(garden.CreateSeed(ctx, seed)).To(Succeed())
		patch := client.MergeFrom(seed.DeepCopy())
		seed.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
			State: gardencorev1beta1.LastOperationStateSucceeded, LastUpdateTime: metav1.Now()}
		Expect(garden.Client.Status().Patch(ctx, seed, patch)).To(Succeed())
		seeds = append(seeds, seed.Name)
	}
	drained = seeds[:size.drained]
	var group errgroup.Group
	group.SetLimit(8)
	for i := range size.shoots {
		seed := seeds[i%size.seeds]
		if slices.Contains(drained, seed) {
			leaving++
		}
		group.Go(func() error {
			shoot := framework.NewShoot(fmt.Sprintf("%s%04d", prefix, i), seed)
			shoot.Spec.SeedSelector = &gardencorev1beta1.SeedSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: selector},
			}
			return garden.CreateShoot(ctx, shoot)
		})
	}
	Expect(group.Wait()).To(Succeed())
	return drained, leaving
}

// underWay returns how many shoots are on their way, also those that their destination has not restored yet.
func underWay() int {
	GinkgoHelper()
	shoots := &gardencorev1beta1.ShootList{}
	Expect(garden.Client.List(ctx, shoots)).To(Succeed())
	count := 0
	for i := range shoots.Items {
		if _, _, moving := steps.Seeds(&shoots.Items[i]); moving || handedOver(&shoots.Items[i]) {
			count++
		}
	}
	return count
}

func askToDrain(name string) {
	GinkgoHelper()
	seed := &gardencorev1beta1.Seed{}
	Expect(garden.Client.Get(ctx, client.ObjectKey{Name: name}, seed)).To(Succeed())
	patch := client.MergeFrom(seed.DeepCopy())
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, drain.AnnotationDrain, "true")
	Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
}

// perMigration returns the number of requests without watches and proofs, and of each kind, most frequent first.
func perMigration(counts map[string]int, migrations int) (float64, string) {
	total := 0
	var kinds []string
	for what, count := range counts {
		if count == 0 || strings.HasPrefix(what, "WATCH ") || strings.HasPrefix(what, "PROOF ") {
			continue
		}
		total += count
		kinds = append(kinds, what)
	}
	slices.SortFunc(kinds, func(a, b string) int { return counts[b] - counts[a] })
	var texts []string
	for _, kind := range kinds {
		texts = append(texts, fmt.Sprintf("%s %.2f", kind, float64(counts[kind])/float64(migrations)))
	}
	return float64(total) / float64(migrations), strings.Join(texts, ", ")
}

// process is where the controllers run.
type process struct {
	// metrics returns what is measured, pid is the process, 0 if it is this one.
	metrics func() map[string]float64
	pid     int

	before map[string]float64
}

// startHere runs the controllers in this process.
func startHere(requests *framework.Counter, total int) *process {
	GinkgoHelper()
	config := &configv1alpha1.ControllerManagerConfiguration{}
	configv1alpha1.SetControllerManagerDefaults(config)
	config.LeaderElection.LeaderElect = new(false)
	config.Controllers.Drain.Pause.Duration, config.Controllers.Drain.MaxTotal = 0, &total
	mgr, err := livecpm.NewManagerFor(zap.New(zap.WriteTo(GinkgoWriter)), &rest.Config{Host: requests.URL(), QPS: -1},
		config, func(options *manager.Options) {
			options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
			options.Controller.SkipNameValidation = new(true)
		})
	Expect(err).NotTo(HaveOccurred())
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		end()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Expect(mgr.GetCache().WaitForCacheSync(running)).To(BeTrue())
	return &process{metrics: func() map[string]float64 {
		recorder := httptest.NewRecorder()
		promhttp.HandlerFor(runtimemetrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(recorder,
			httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return series(recorder.Body)
	}}
}

// startBinary runs livecpm-controller-manager itself.
func startBinary(binary string, requests *framework.Counter, total int) *process {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	kubeconfig, file := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "config.yaml")
	health, port := program.FreePort(), program.FreePort()
	Expect(os.WriteFile(kubeconfig, []byte(requests.Kubeconfig()), 0o600)).To(Succeed())
	Expect(os.WriteFile(file, fmt.Appendf(nil, `apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers:
  drain: {pause: 0s, maxTotal: %d}
`, kubeconfig, health, port, total), 0o600)).To(Succeed())

	command := exec.Command(binary, "--config="+file)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(command.Wait()).To(Succeed())
	})
	Expect(program.AwaitReady(ctx, health, time.Minute)).To(Succeed())
	return &process{pid: command.Process.Pid, metrics: func() map[string]float64 {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		return series(response.Body)
	}}
}

// series reads metrics in Prometheus' text format.
func series(from io.Reader) map[string]float64 {
	out := map[string]float64{}
	for scanner := bufio.NewScanner(from); scanner.Scan(); {
		line := scanner.Text()
		if end := strings.LastIndexByte(line, ' '); end > 0 && !strings.HasPrefix(line, "#") {
			if value, err := strconv.ParseFloat(line[end+1:], 64); err == nil {
				out[line[:end]] = value
			}
		}
	}
	return out
}

func (p *process) begin() { p.before = p.metrics() }

// report tells what the controllers have cost since the beginning.
func (p *process) report() string {
	GinkgoHelper()
	after := p.metrics()
	delta := func(name string) float64 { return after[name] - p.before[name] }
	const histogram = "controller_runtime_reconcile_time_seconds"
	looks := delta(histogram + `_count{controller="drain"}`)
	Expect(looks).To(BeNumerically(">", 0))

	bound := map[float64]float64{}
	for name := range after {
		if rest, ok := strings.CutPrefix(name, histogram+`_bucket{controller="drain",le="`); ok {
			if le, err := strconv.ParseFloat(strings.TrimSuffix(rest, `"}`), 64); err == nil {
				bound[le] = delta(name)
			}
		}
	}
	percentile := 0.0
	for _, le := range slices.Sorted(maps.Keys(bound)) {
		if percentile = le; bound[le] >= 0.99*looks {
			break
		}
	}
	text := fmt.Sprintf("looks at the garden: %.0f, mean %.1f ms, 99 %% within %.0f ms\n", looks,
		1000*delta(histogram+`_sum{controller="drain"}`)/looks, 1000*percentile)
	if p.pid == 0 {
		return text
	}
	text += fmt.Sprintf("processor time: %.1f s\n", delta("process_cpu_seconds_total"))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(status)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(peak)[0])
			Expect(err).NotTo(HaveOccurred())
			text += fmt.Sprintf("memory: at most %d MiB resident\n", kib/1024)
		}
	}
	return text
}
