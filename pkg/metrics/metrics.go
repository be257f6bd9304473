// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the Prometheus metrics of a live migration. They are registered with controller-runtime's
// registry and so served at the manager's metrics endpoint.
package metrics

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const namespace = "livecpm"

// stepBounds are the upper bounds of the buckets for steps, in seconds. Most steps take seconds to minutes, and none
// should take more than half an hour: up to there each bound is at most twice the one before, so that what is estimated
// between two is not off by more.
var stepBounds = []float64{1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800,
	3600}

var (
	stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace,
		Name:      "step_duration_seconds",
		Help:      "Time from the start of a step to its end, by condition type and owner.",
		Buckets:   stepBounds,
	}, []string{"step", "owner"})

	currentStep = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "current_step",
		Help: fmt.Sprintf("Number of the current step (1 to %d) of a migration that this agent takes part in.",
			len(steps.Table())),
	}, []string{"namespace", "shoot", "cluster", "role"})

	stepOverdue = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "step_overdue",
		Help:      "1 if the current step of a migration is past its deadline, 0 if not.",
	}, []string{"namespace", "shoot"})

	etcdVoters = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "etcd_voters",
		Help: "Number of voting members that the agent saw last in the etcd cluster across both seeds, " +
			"by etcd role.",
	}, []string{"namespace", "shoot", "etcd"})

	sixMemberWindow = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "six_member_window_seconds",
		Help: "How long the etcd cluster has had six voters, its weakest moment; grows while the window is " +
			"open, by etcd role.",
	}, []string{"namespace", "shoot", "etcd"})

	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace,
		Name:      "failures_total",
		Help:      "Number of failed or held attempts, by condition type, role and reason.",
	}, []string{"step", "role", "reason"})

	gateProved = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "gate_proved",
		Help: "1 if the gate against the classic migration was proved to be in force at the last look, 0 if " +
			"not. Alert on 0.",
	}, []string{"namespace", "shoot"})

	snapshotsFail = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "snapshots_fail",
		Help: "1 if the leader of the shoot's main etcd is in this seed and its snapshots fail, or if that could " +
			"not be found out, 0 if not. Alert on 1.",
	}, []string{"namespace", "shoot"})
)

func init() {
	runtimemetrics.Registry.MustRegister(stepDuration, currentStep, stepOverdue, etcdVoters, sixMemberWindow, failures,
		gateProved, snapshotsFail)
}

// StepFinished records the duration of a finished step.
func StepFinished(step steps.Step, duration time.Duration) {
	stepDuration.WithLabelValues(string(step.Condition), string(step.Owner)).Observe(duration.Seconds())
}

// Turn is where a migration stands.
type Turn struct {
	// Namespace and Shoot are those of the Shoot.
	Namespace, Shoot string
	// Cluster is the shoot's technical ID. Gardener's own alerts about the shoot have it in the label "cluster".
	Cluster string
	// Role is the role of this agent.
	Role steps.Role
	// Step is the current step.
	Step steps.Step
	// Overdue reports that the step is past its deadline.
	Overdue bool
}

// CurrentStep records where a migration stands.
func CurrentStep(turn Turn) {
	currentStep.WithLabelValues(turn.Namespace, turn.Shoot, turn.Cluster, string(turn.Role)).
		Set(float64(steps.Index(turn.Step.Condition) + 1))
	stepOverdue.WithLabelValues(turn.Namespace, turn.Shoot).Set(number(turn.Overdue))
}

// Failure counts a failed or held attempt.
func Failure(step steps.Step, role steps.Role, reason steps.Reason) {
	failures.WithLabelValues(string(step.Condition), string(role), string(reason)).Inc()
}

// Gate records whether the gate was proved to be in force for the shoot.
func Gate(shootNamespace, shoot string, proved bool) {
	gateProved.WithLabelValues(shootNamespace, shoot).Set(number(proved))
}

// Snapshots records whether the snapshots that this seed has to save of the shoot's main etcd fail.
func Snapshots(shootNamespace, shoot string, fail bool) {
	snapshotsFail.WithLabelValues(shootNamespace, shoot).Set(number(fail))
}

type etcdKey struct{ namespace, shoot, etcd string }

// windows are the six-member windows that are open, with when they opened. They are lost with the process: a window
// that was open then is measured from the first look of the next process on.
var (
	windowsLock sync.Mutex
	windows     = map[etcdKey]time.Time{}
)

// EtcdVoters is the number of voting members of one etcd cluster at a moment.
type EtcdVoters struct {
	// Namespace and Shoot are those of the Shoot.
	Namespace, Shoot string
	// Etcd is the cluster: main or events.
	Etcd string
	// Voters is the number of voting members.
	Voters int
	// At is the moment.
	At time.Time
}

// Voters records the number of voting members, and the six-member window that follows from it: the window opens when
// six voters are seen first and closes when another number is seen. What an agent did not see, because it was not
// running, does not count.
func Voters(seen EtcdVoters) {
	etcdVoters.WithLabelValues(seen.Namespace, seen.Shoot, seen.Etcd).Set(float64(seen.Voters))

	windowsLock.Lock()
	defer windowsLock.Unlock()
	key := etcdKey{seen.Namespace, seen.Shoot, seen.Etcd}
	opened, open := windows[key]
	switch {
	case seen.Voters == 6 && !open:
		windows[key] = seen.At
		sixMemberWindow.WithLabelValues(seen.Namespace, seen.Shoot, seen.Etcd).Set(0)
	case open:
		sixMemberWindow.WithLabelValues(seen.Namespace, seen.Shoot, seen.Etcd).Set(seen.At.Sub(opened).Seconds())
		if seen.Voters != 6 {
			delete(windows, key)
		}
	}
}

// Forget removes the gauges of a shoot that this agent is done with. The length of the six-member window stays until
// the agent restarts, so that it can still be scraped after the migration.
func Forget(shootNamespace, shoot string) {
	labels := prometheus.Labels{"namespace": shootNamespace, "shoot": shoot}
	currentStep.DeletePartialMatch(labels)
	stepOverdue.DeletePartialMatch(labels)
	etcdVoters.DeletePartialMatch(labels)
	gateProved.DeletePartialMatch(labels)
	snapshotsFail.DeletePartialMatch(labels)

	windowsLock.Lock()
	defer windowsLock.Unlock()
	for key := range windows {
		if key.namespace == shootNamespace && key.shoot == shoot {
			delete(windows, key)
		}
	}
}
