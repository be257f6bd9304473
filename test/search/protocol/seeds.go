// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The shoot moves from the first seed to the second one.
const (
	from = 0
	to   = 1
)

// seedNames are the names of the seeds, skewedVersions what their gardenlets report while they differ. They differ in
// the patch only, so that a person may confirm them.
var (
	seedNames      = [2]string{"seed-a", "seed-b"}
	skewedVersions = [2]string{"v1.150.0", "v1.150.1"}
)

// members is how many etcd members each seed has when it has all of them.
const members = 3

// table are the sets of components of which the model keeps a record, in the order of the table of ownership.
var table = ownership.Sets()

// sets are sets of components, as bits by their place in the table.
type sets uint32

func setOf(names ...steps.Components) sets {
	var out sets
	for i, set := range table {
		for _, name := range names {
			if set.Name == name {
				out |= 1 << i
			}
		}
	}
	return out
}

// has reports whether any of the other sets is among these.
func (s sets) has(other sets) bool { return s&other != 0 }

var (
	// all are all sets.
	all = sets(1)<<len(table) - 1
	// passing are the controllers that the destination starts when the source asks for it.
	passing = setOf(steps.KubeControllerManager, steps.KubeScheduler, steps.ResourceManager)
	// ending are those that end in the source before that.
	ending = setOf(steps.MachineControllerManager, steps.ClusterAutoscaler, steps.DependencyWatchdog, steps.Extensions,
		steps.ControlPlane, steps.Infrastructure, steps.Worker, steps.NodeExtensions)
	early    = setOf(steps.EarlyExtensions)
	entry    = setOf(steps.BackupEntry)
	records  = setOf(steps.DNSRecords)
	serving  = setOf(steps.KubeAPIServer, steps.VPNServer)
	etcd     = setOf(steps.Etcd)
	restored = setOf(steps.Extensions)
)

// view is what both seeds have of the shoot, and what is between them.
type view struct {
	// running are the sets that are at work in each seed.
	running [2]sets
	// voters are the members that each seed has in the etcds.
	voters [2]int8
	// cut are seeds that were abandoned: nothing there reaches the etcds, so that nothing there acts on the shoot.
	cut [2]bool
	// dns is the seed to which the DNS records lead.
	dns int8
	// saved reports whether the ShootState has the state of the early extensions.
	saved bool
	// prepared reports whether the destination has something of the shoot that is at work nowhere: its namespace,
	// secrets and relays.
	prepared bool
	// drained reports whether the destination remembers that it has asked the source to drain its clients.
	drained bool
	// relaysLost, unhealthy and skewed are faults: of the connection between the seeds, of an etcd member, of the
	// versions.
	relaysLost, unhealthy, skewed bool
}

// String returns the view in few letters.
func (v view) String() string {
	return fmt.Sprintf("%05x/%05x %d+%d cut=%v dns=%d %v%v%v%v%v%v", uint32(v.running[from]), uint32(v.running[to]),
		v.voters[from], v.voters[to], v.cut, v.dns, v.saved, v.prepared, v.drained, v.relaysLost, v.unhealthy,
		v.skewed)
}

// words returns the view for people.
func (v view) words() string {
	var b strings.Builder
	for i, name := range seedNames {
		var working []string
		for j, set := range table {
			if v.running[i].has(1 << j) {
				working = append(working, string(set.Name))
			}
		}
		what := strings.Join(working, ", ")
		switch {
		case v.running[i] == all:
			what = "everything"
		case what == "":
			what = "nothing"
		}
		fmt.Fprintf(&b, "%s: %d etcd members", name, v.voters[i])
		if v.cut[i] {
			b.WriteString(", abandoned")
		}
		fmt.Fprintf(&b, "; at work: %s\n", what)
	}
	fmt.Fprintf(&b, "DNS leads to %s", seedNames[v.dns])
	return b.String()
}

// acting returns the sets of a seed that can act on the shoot.
func (v view) acting(seed int) sets {
	if v.cut[seed] {
		return 0
	}
	return v.running[seed]
}

// sample returns what a look at both seeds sees, in the form that the table of ownership is compared with.
func (v view) sample(shoot *gardencorev1beta1.Shoot) ownership.Sample {
	phase, asked := ownership.PhaseOf(shoot, seedNames[to]), ownership.Asked(shoot)
	out := ownership.Sample{Time: now, From: phase, To: phase, AskedFrom: asked, AskedTo: asked,
		Running: map[steps.Components]map[steps.Role][]string{}}
	for i, set := range table {
		for seed, role := range []steps.Role{steps.Source, steps.Destination} {
			if v.acting(seed).has(1 << i) {
				if out.Running[set.Name] == nil {
					out.Running[set.Name] = map[steps.Role][]string{}
				}
				out.Running[set.Name][role] = []string{seedNames[seed]}
			}
		}
	}
	return out
}

// seedObject returns a Seed whose gardenlet reports the version.
func seedObject(seed int, version string) *gardencorev1beta1.Seed {
	return &gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: seedNames[seed]},
		Status: gardencorev1beta1.SeedStatus{
			Gardener: &gardencorev1beta1.Gardener{Version: version},
			Conditions: []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.GardenletReady, Status: gardencorev1beta1.ConditionTrue}},
		},
	}
}

// seedObject returns the Seed as it is in the garden. The gardenlet of a seed that is lost does not answer.
func (w *World) seedObject(name string) *gardencorev1beta1.Seed {
	seed := from
	if name == seedNames[to] {
		seed = to
	}
	version := skewedVersions[from]
	if w.skewed {
		version = skewedVersions[seed]
	}
	out := seedObject(seed, version)
	if w.lost[seed] {
		out.Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
	}
	return out
}
