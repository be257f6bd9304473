// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/driver"
)

// State is what an abort has to leave as it was.
type State struct {
	// Objects are the objects of the shoot by seed.
	Objects map[string][]inventory.Object
	// Restored is what the shoot's disruption budgets and DNSRecords say, by seed. A migration changes some of them and
	// changes them back, so their generations do not tell.
	Restored map[string][]string
	// Members are the members of each etcd: identifier, name, peer URLs, learner or voter.
	Members map[string][]string
	// DNS are the addresses of the shoot's API server.
	DNS []string
	// Backup is the seed and the bucket of the backup entry.
	Backup string
	// Seeds is the seed name in the Shoot's status; that of the specification is the operator's to set back.
	Seeds string
}

// exempt is what an abort need not leave as it was: the backup entry was released and taken back, by upstream's own
// controllers, which make it and its secret again; the Cluster holds a copy of the Shoot, status included; and the
// resource manager of the seed has written the EnvoyFilter for a route more and for one less. The budgets and the DNS
// records are compared by what they say.
var exempt = inventory.Exempt{
	Replaced: []string{"backupentries ", "secrets garden/entry-"},
	Changed: []string{"backupentries ", "clusters ", "dnsrecords ", "envoyfilters istio-ingress/",
		"poddisruptionbudgets "},
}

// Diff returns a line for each thing that is not as it was. What begins with one of the given words may also have been
// replaced.
func (s *State) Diff(after *State, replaced ...string) []string {
	var out []string
	exempted := exempt
	exempted.Replaced = append(slices.Clone(exempt.Replaced), replaced...)
	for _, seed := range slices.Sorted(maps.Keys(s.Objects)) {
		for _, line := range inventory.Diff(s.Objects[seed], after.Objects[seed], exempted) {
			out = append(out, seed+": "+line)
		}
		if !slices.Equal(s.Restored[seed], after.Restored[seed]) {
			out = append(out, fmt.Sprintf("disruption budgets and DNSRecords in %s: %v, were %v", seed,
				after.Restored[seed], s.Restored[seed]))
		}
	}
	for _, etcd := range slices.Sorted(maps.Keys(s.Members)) {
		if !slices.Equal(s.Members[etcd], after.Members[etcd]) {
			out = append(out, fmt.Sprintf("members of %s: %v, were %v", etcd, after.Members[etcd], s.Members[etcd]))
		}
	}
	if !slices.Equal(s.DNS, after.DNS) {
		out = append(out, fmt.Sprintf("DNS: %v, was %v", after.DNS, s.DNS))
	}
	if s.Backup != after.Backup {
		out = append(out, fmt.Sprintf("backup entry: %s, was %s", after.Backup, s.Backup))
	}
	if s.Seeds != after.Seeds {
		out = append(out, fmt.Sprintf("seeds: %s, were %s", after.Seeds, s.Seeds))
	}
	return out
}

// take looks at everything once.
func (r *run) take(ctx context.Context) (*State, error) {
	state := &State{Objects: map[string][]inventory.Object{}, Restored: map[string][]string{},
		Members: map[string][]string{}}
	shoot, err := r.Get(ctx)
	if err != nil {
		return nil, err
	}
	for _, seed := range r.Landscape.Seeds {
		cluster, err := driver.Connect(r.Landscape, seed.Name)
		if err != nil {
			return nil, err
		}
		if state.Objects[seed.Name], err = driver.Inventory(ctx, cluster, shoot.Status.TechnicalID); err != nil {
			return nil, err
		}
	}
	if err := r.takeRestored(ctx, state, shoot.Status.TechnicalID); err != nil {
		return nil, err
	}
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		if state.Members[role], err = r.members(ctx, shoot, role); err != nil {
			return nil, err
		}
	}

	name, err := access.PublicHost(shoot)
	if err != nil {
		return nil, err
	}
	addresses, _, err := probe.NewResolver(driver.DNSServer(r.Landscape), clock.RealClock{}).Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("failed to look up %s: %w", name, err)
	}
	for _, address := range addresses {
		state.DNS = append(state.DNS, name+" "+address.String())
	}
	slices.Sort(state.DNS)

	entries := &gardencorev1beta1.BackupEntryList{}
	if err := r.Garden.Client.List(ctx, entries, client.InNamespace(shoot.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list backup entries: %w", err)
	}
	for _, entry := range entries.Items {
		state.Backup += fmt.Sprintf("%s in %s, managed by %s, bucket %s; ", entry.Name,
			ptr.Deref(entry.Spec.SeedName, ""), ptr.Deref(entry.Status.SeedName, ""), entry.Spec.BucketName)
	}
	state.Seeds = fmt.Sprintf("status %s", ptr.Deref(shoot.Status.SeedName, ""))
	return state, nil
}

// takeRestored reads what the disruption budgets and DNSRecords of both seeds say.
func (r *run) takeRestored(ctx context.Context, state *State, namespace string) error {
	for _, seed := range r.Landscape.Seeds {
		cluster, err := driver.Connect(r.Landscape, seed.Name)
		if err != nil {
			return err
		}
		if state.Restored[seed.Name], err = driver.Restored(ctx, cluster, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) members(ctx context.Context, shoot *gardencorev1beta1.Shoot, role string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	seed := ptr.Deref(shoot.Status.SeedName, "")
	cluster, err := driver.Connect(r.Landscape, seed)
	if err != nil {
		return nil, err
	}
	list, err := cluster.EtcdMembers(ctx,
		driver.EtcdPod{Namespace: shoot.Status.TechnicalID, Role: role, Name: "etcd-" + role + "-0"})
	if err != nil {
		return nil, err
	}
	var members []string
	for _, member := range list.Members {
		members = append(members,
			fmt.Sprintf("%x %s %v learner=%t", member.ID, member.Name, member.PeerURLs, member.IsLearner))
	}
	slices.Sort(members)
	return members, nil
}
