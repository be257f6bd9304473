// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/report"
	"github.com/livecpm/livecpm/pkg/proof/ticket"
)

// sameTime is by how much two records of one moment may differ: who writes them has another clock.
const sameTime = time.Minute

// drainTime is how long after its start by a drain a migration may begin: the agent has to take it up.
const drainTime = 10 * time.Minute

// TicketReader collects the facts for the report of a migration that one attaches to a change ticket.
type TicketReader struct {
	// Garden is the garden, Seeds are the seeds that the user has access to, Members asks the etcd members in them.
	Garden  *access.Garden
	Seeds   access.Seeds
	Members *Members
	// Plugin is this program.
	Plugin view.Program
	// Baseline is what was recorded before the migration; nil if nothing was.
	Baseline *Baseline
	// Probe is what a probe beside the migration has written; nil if none has.
	Probe []byte
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Read collects the facts about the last migration of the shoot. What cannot be found out is among the facts, as not
// known.
func (r TicketReader) Read(ctx context.Context, shoot *gardencorev1beta1.Shoot) (ticket.Facts, error) {
	now := r.Clock.Now()
	facts := ticket.New(now, r.Plugin.Release, r.Plugin.Gardener)
	facts.Shoot = ticket.Shoot{Namespace: shoot.Namespace, Name: shoot.Name, UID: string(shoot.UID),
		TechnicalID: shoot.Status.TechnicalID}
	migration := summary.Summarize(shoot, now)
	events, err := r.events(ctx, shoot)
	if err != nil {
		facts.Missing("the reasons at which the steps stood", err.Error())
	}
	made, err := report.FromShoot(shoot, events, now)
	if err != nil {
		return facts, err
	}
	record := r.record(ctx, &facts, shoot, migration)
	r.addCourse(&facts, migration, made, record)
	r.addRequest(&facts, shoot, record)
	r.addVersions(ctx, &facts)
	r.addEtcds(ctx, &facts, shoot)
	if r.Probe == nil {
		facts.Missing("what clients noticed", "run kubectl livecpm probe -o json beside a migration, and give its "+
			"output with --probe-result")
		return facts, nil
	}
	return facts, facts.AddProbeFile(r.Probe)
}

func (r TicketReader) events(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := r.Garden.Client.List(ctx, list, client.InNamespace(shoot.Namespace), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Shoot", "involvedObject.name": shoot.Name}),
	}); err != nil {
		return nil, fmt.Errorf("failed to list the events of Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return list.Items, nil
}

// record returns what the history has about this migration, or nil.
func (r TicketReader) record(
	ctx context.Context, facts *ticket.Facts, shoot *gardencorev1beta1.Shoot, migration summary.Summary,
) *history.Record {
	past, err := r.Garden.History(ctx)
	if err != nil {
		facts.Missing("the record of livecpm-controller-manager", err.Error())
		return nil
	}
	for _, record := range slices.Backward(past.Records) {
		if record.UID != shoot.UID {
			continue
		}
		if recorded(record, migration) {
			return &record
		}
		break
	}
	facts.Missing("the record of livecpm-controller-manager",
		"its history has none of this migration; kubectl livecpm history shows what it has")
	return nil
}

// recorded reports whether the record is that of the migration.
func recorded(record history.Record, migration summary.Summary) bool {
	same := func(a, b *time.Time) bool { return a == nil || b == nil || a.Sub(*b).Abs() < sameTime }
	switch {
	case !same(record.Started, migration.Started):
		return false
	case migration.State == summary.Succeeded:
		return record.Result == history.Succeeded && same(record.Ended, migration.Ended)
	case migration.State == summary.Aborted:
		return record.Result == history.Aborted && same(record.Ended, migration.Ended)
	}
	return record.Result == ""
}

// addCourse adds from where to where it went, when, how long each step took, and how it has ended.
func (r TicketReader) addCourse(
	facts *ticket.Facts, migration summary.Summary, made report.Report, record *history.Record,
) {
	facts.Source, facts.Destination = migration.Source, migration.Destination
	facts.Result, facts.Over = string(migration.State), migration.State.Final()
	facts.Started, facts.Ended = ticket.Second(migration.Started), ticket.Second(migration.Ended)
	facts.AddSteps(made.Steps)
	if record != nil {
		facts.Source, facts.Destination = cmp.Or(facts.Source, record.Source),
			cmp.Or(facts.Destination, record.Destination)
		if facts.Started == nil {
			facts.Started = ticket.Second(record.Started)
		}
		if facts.Ended == nil {
			facts.Ended = ticket.Second(record.Ended)
		}
		for i, step := range facts.Steps {
			for _, known := range record.Steps {
				if known.Condition == step.Condition {
					took := int64(math.Round(known.Seconds))
					facts.Steps[i].Seconds = &took
				}
			}
		}
	}
	if r.Baseline != nil && facts.Source == "" {
		facts.Source = r.Baseline.Seed
	}
	if facts.Started != nil && facts.Ended != nil {
		facts.Seconds = int64(facts.Ended.Sub(*facts.Started).Seconds())
	}
	const noRecord = "the Shoot does not keep it, and the history of livecpm-controller-manager has no record of it"
	for what, known := range map[string]bool{"when the migration began": facts.Started != nil,
		"the source": facts.Source != "", "the destination": facts.Destination != ""} {
		if !known {
			facts.Missing(what, noRecord)
		}
	}
	slices.SortFunc(facts.Unknown, func(a, b ticket.Unknown) int { return cmp.Compare(a.What, b.What) })
}

// addRequest adds who has started the migration.
func (r TicketReader) addRequest(facts *ticket.Facts, shoot *gardencorev1beta1.Shoot, record *history.Record) {
	facts.Requested.By = shoot.Annotations[steps.AnnotationRequestedBy]
	if facts.Requested.By == "" && record != nil {
		facts.Requested.By = record.RequestedBy
	}
	if seed := drainOf(shoot, facts.Started); facts.Requested.By == "" && seed != "" {
		facts.Requested.By = "the drain of seed " + seed
	}
	if facts.Requested.By == "" {
		facts.Missing("who requested the migration", "neither the Shoot nor the history names anybody; the audit log "+
			"of the garden's API server has who has written shoots/binding")
	}
	manager, at := writerOf(shoot.ManagedFields, "f:spec", "f:seedName")
	// Whoever has set the seed's name later has done something else, as setting it back after an abort.
	if at == nil || facts.Started == nil || at.Sub(*facts.Started) > sameTime {
		facts.Missing("with which program it was requested", "the Shoot does not tell who had set spec.seedName then")
		return
	}
	facts.Requested.With, facts.Requested.At = manager, ticket.Second(at)
}

// drainOf returns the seed whose drain has started the migration, or nothing.
func drainOf(shoot *gardencorev1beta1.Shoot, started *time.Time) string {
	at, err := time.Parse(time.RFC3339, shoot.Annotations[drain.AnnotationStartedAt])
	if err != nil || started == nil || at.Sub(*started).Abs() > drainTime {
		return ""
	}
	return shoot.Annotations[drain.AnnotationStartedBy]
}

// writerOf returns which program has written a field last, and when.
func writerOf(entries []metav1.ManagedFieldsEntry, path ...string) (manager string, at *time.Time) {
	for _, entry := range entries {
		if entry.FieldsV1 == nil || entry.Time == nil || at != nil && entry.Time.Time.Before(*at) {
			continue
		}
		var value any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &value); err != nil {
			continue
		}
		owns := true
		for _, key := range path {
			fields, _ := value.(map[string]any)
			value, owns = fields[key]
			if !owns {
				break
			}
		}
		if owns {
			manager, at = entry.Manager, &entry.Time.Time
		}
	}
	return manager, at
}

// addVersions adds the versions as they are now.
func (r TicketReader) addVersions(ctx context.Context, facts *ticket.Facts) {
	versions, err := ReadVersions(ctx, r.Garden, r.Plugin)
	if err != nil {
		facts.Missing("the versions in garden and seeds", err.Error())
		return
	}
	facts.Versions.Chart, facts.Versions.Gardener = versions.Garden.Chart, versions.Garden.Gardener
	if why := versions.Garden.ChartUnknown; why != "" {
		facts.Missing("the version of the chart", why)
	}
	if why := versions.Garden.GardenerUnknown; why != "" {
		facts.Missing("the version of gardener-apiserver", why)
	}
	for _, seed := range []struct {
		name string
		to   *ticket.SeedVersions
	}{{facts.Source, &facts.Versions.Source}, {facts.Destination, &facts.Versions.Destination}} {
		i := slices.IndexFunc(versions.Seeds, func(v view.SeedVersions) bool { return v.Name == seed.name })
		if seed.name == "" {
			continue
		}
		if i < 0 {
			facts.Missing("the versions in seed "+seed.name, "there is no such Seed any more")
			continue
		}
		found := versions.Seeds[i]
		*seed.to = ticket.SeedVersions{Agent: found.Agent, AgentGardener: found.Gardener, Gardenlet: found.Gardenlet,
			Relay: found.Relay}
		if found.Unknown != "" {
			facts.Missing("the agent in seed "+seed.name, found.Unknown)
		}
	}
}

// addEtcds adds the member lists before, from the baseline, and those that there are now, if the migration is over.
func (r TicketReader) addEtcds(ctx context.Context, facts *ticket.Facts, shoot *gardencorev1beta1.Shoot) {
	etcds := map[string]*ticket.Etcd{}
	var order []string
	of := func(name string) *ticket.Etcd {
		if etcds[name] == nil {
			etcds[name], order = &ticket.Etcd{Name: name}, append(order, name)
		}
		return etcds[name]
	}
	switch {
	case r.Baseline == nil:
		facts.Missing("the etcd members before the migration", fmt.Sprintf("record them before a migration with "+
			"kubectl livecpm verify record %s --file FILE, and give that file with --baseline", shoot.Name))
	case r.Baseline.Members == nil:
		facts.Missing("the etcd members before the migration", "the baseline is from a plugin that did not record them")
	}
	if r.Baseline != nil {
		for _, role := range etcdRoles {
			name := naming.EtcdName(role)
			if id, known := r.Baseline.ClusterIDs[name]; known {
				of(name).IDBefore = id
			}
			for _, member := range r.Baseline.Members[name] {
				of(name).Before = append(of(name).Before, ticket.Member{Name: member})
			}
		}
	}
	if err := r.addMembersNow(ctx, facts, shoot, of); err != nil {
		facts.Missing("the etcd members after the migration", err.Error())
	}
	for _, name := range order {
		facts.Etcds = append(facts.Etcds, *etcds[name])
	}
}

func (r TicketReader) addMembersNow(
	ctx context.Context, facts *ticket.Facts, shoot *gardencorev1beta1.Shoot, of func(string) *ticket.Etcd,
) error {
	if !facts.Over {
		return fmt.Errorf("the migration is not over")
	}
	name := facts.Destination
	if facts.Result == string(summary.Aborted) {
		name = facts.Source
	}
	if _, ok := r.Seeds[name]; !ok {
		return noAccess(name)
	}
	asked := r.Members.Ask(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(shoot), name)
	if len(asked) == 0 {
		return fmt.Errorf("seed %s has no Etcd of the shoot", name)
	}
	for _, etcd := range asked {
		if etcd.Err != nil {
			facts.Missing("the members of "+naming.EtcdName(etcd.Role)+" after the migration", etcd.Err.Error())
			continue
		}
		to := of(naming.EtcdName(etcd.Role))
		to.IDAfter = fmt.Sprintf("%x", etcd.Inspection.ClusterID)
		to.After = ticketMembers(etcd.Inspection)
	}
	return nil
}

func ticketMembers(inspection etcdclient.Inspection) []ticket.Member {
	var out []ticket.Member
	for _, member := range inspection.Members {
		out = append(out, ticket.Member{Name: member.String(), Learner: member.Learner})
	}
	slices.SortFunc(out, func(a, b ticket.Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
