// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/dashboard"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// ttl is the time to live of the shoot's records.
const ttl = 30 * time.Second

// Joining returns looks at a migration in its second step, the last one as it is then: the world of that name that the
// tests of the command line have below the root of the repository, with members that say themselves what they are, with
// events, with what is expected of it, and with the course of a probe whose load begins before the migration and meets
// a slow moment.
func Joining(root string) ([]dashboard.Look, error) {
	var now dashboard.Look
	content, err := os.ReadFile(filepath.Join(root, "pkg", "cli", "view", "testdata", "worlds", "joining.yaml"))
	if err != nil {
		return nil, fmt.Errorf("failed to read the world: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, &now.ControlPlane); err != nil {
		return nil, fmt.Errorf("failed to read the world: %w", err)
	}
	conditions := now.Shoot.Status.LiveMigration.Conditions
	first := conditions[0].LastTransitionTime.Time
	event := func(after time.Duration, step int, reason string) {
		now.Events = append(now.Events, corev1.Event{Reason: reason, Type: corev1.EventTypeNormal,
			Message:   fmt.Sprintf("%s is Progressing: as its reason says", conditions[step-1].Type),
			EventTime: metav1.NewMicroTime(first.Add(after))})
	}
	event(-8*time.Second, 1, "PersistingShootState")
	event(0, 2, "PreparingDestination")
	event(9*time.Second, 2, "EtcdNotHealthy")
	event(14*time.Second, 2, "JoiningEtcdMembers")
	now.Probe = &summary.Probe{Started: metav1.NewTime(first.Add(-70 * time.Second)), Updated: now.Now,
		Namespace: "livecpm-probe-6023c9b6", Writes: 1457, WritesFailed: 1, Reads: 3012, WatchEvents: 12450,
		ConnectionErrors: 2}
	now.Series = course(first.Add(-70*time.Second), now.Now.Time)

	var out []dashboard.Look
	for joined, before := range []time.Duration{60 * time.Second, 20 * time.Second, 10 * time.Second} {
		look := now
		look.Now = metav1.NewTime(now.Now.Add(-before))
		look.Seeds = members(joined)
		out = append(out, look)
	}
	now.Seeds = append(members(2), now.Seeds...)
	for i := range now.Seeds[2:] {
		now.Seeds[i].APIServers, now.Seeds[i].Records = now.Seeds[i+2].APIServers, now.Seeds[i+2].Records
	}
	now.Seeds = now.Seeds[:2]
	out = append(out, now)
	for i := range out {
		// As the command does: garden and name servers say what a migration depends on.
		at := out[i].Now.Time
		out[i].Expected = expected.Of(summary.Summarize(out[i].Shoot, at),
			expected.Facts{TTL: ttl, Database: inspect.LargestDatabase(out[i].Seeds)}, at)
	}
	return out, nil
}

// members are those of two etcds, of which so many have joined in the destination. The last one is a learner.
func members(joined int) []summary.Seed {
	out := []summary.Seed{{Name: "seed-a"}, {Name: "seed-b"}}
	for _, etcd := range []string{"etcd-main", "etcd-events"} {
		for i, count := range []int{3, joined} {
			own := summary.Etcd{Name: etcd}
			for j := range count {
				role := summary.RoleVoter
				switch {
				case i == 0 && j == 1:
					role = summary.RoleLeader
				case i == 1 && j == 1:
					role = summary.RoleLearner
				}
				own.Members = append(own.Members, summary.Member{Name: fmt.Sprintf("%s-%s-%d", out[i].Name, etcd, j),
					Role: role, Status: "Ready", Lag: ptr.To(uint64(j)), DBSize: ptr.To(int64(3 << 20))})
			}
			out[i].Etcds = append(out[i].Etcds, own)
		}
	}
	return out
}

// course is what writes took: most of them tens of milliseconds, a few of them a second, and one moment without any.
func course(begin, end time.Time) *recording.Series {
	bounds := recording.LatencyBoundsMs()
	out := &recording.Series{Begin: begin, IntervalSeconds: 2, BoundsMs: bounds}
	for i := range int(end.Sub(begin) / (2 * time.Second)) {
		var latencies []float64
		for j := range 28 {
			latencies = append(latencies, 12+float64((i*7+j*13)%30)+float64(j*j)/30)
		}
		point := recording.Point{}
		switch i % 50 {
		case 40, 41:
			latencies = append(latencies, 700, 1100)
		case 45:
			latencies, point.Failed = nil, 1
		}
		point.Writes, point.Counts = len(latencies), recording.CountLatencies(bounds, latencies)
		for _, ms := range latencies {
			point.MaxMs = max(point.MaxMs, ms)
		}
		out.Points = append(out.Points, point)
	}
	return out
}
