// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/conflict"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// moveEtcd switches DNS, waits until nobody needs the source's addresses and its clients have left, completes the
// members of the destination and asks the source to retire its own.
func (d *destination) moveEtcd(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timings.JoinTimeout)
	defer cancel()

	if outcome, held := d.standstill(ctx, m); held {
		return outcome, nil
	}
	// Once it is done, the seed says so, and it costs nothing.
	if outcome, err := d.switchDNS(ctx, m); err != nil || !outcome.Finished() {
		return outcome, err
	}
	if outcome, err := d.drainClients(ctx, m); err != nil || !outcome.Finished() {
		return outcome, err
	}
	move := d.moveMembers
	if steps.WithGap(m.Shoot) {
		move = d.passMembersOn
	}
	outcome, err := move(ctx, m, d.open)
	if err == nil && outcome.Finished() {
		d.leaveNames(ctx, m)
	}
	return outcome, err
}

// shrinkEtcd moves the etcd members before the kube-apiserver starts, because an operator has found the seeds to be too
// far apart for it to start otherwise (GEP-0039, "Kube API Server is unhealthy"). The source's kube-apiserver continues
// through the relay, as far as the distance lets it: some downtime is accepted.
func (d *destination) shrinkEtcd(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timings.JoinTimeout)
	defer cancel()
	return d.moveMembers(ctx, m, nil)
}

// moveMembers completes the members of the destination and waits until those of the source are gone. The function opens
// the way that clients take (beforeLastMembers).
func (d *destination) moveMembers(
	ctx context.Context, m *migration.Migration, open openClients,
) (steps.Outcome, error) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	begun, err := d.retirementBegun(ctx, etcds)
	if err != nil {
		return steps.Outcome{}, err
	}
	if begun {
		moved, _, err := etcds.OnlyDestinationLeft(ctx)
		if err != nil {
			return steps.Outcome{}, err
		}
		if moved {
			return steps.Done("Both etcds consist of the 3 members of the destination"), nil
		}
	} else if outcome, err := d.beforeLastMembers(ctx, m, etcds, open); err != nil || outcome != nil {
		return ptr.Deref(outcome, steps.Outcome{}), err
	} else if err := etcds.SpareFirstToLeave(ctx); err != nil {
		// Not earlier: clients have left the source by now, and those of the destination are held meanwhile.
		return notYet(err)
	}

	reason := steps.ReasonJoiningLastEtcdMember
	if begun {
		reason = steps.ReasonReadyForSourceMemberRemoval
	}
	return d.waitForRetirement(ctx, m, etcds, reason)
}

// retirementBegun reports whether a cluster has all members of the destination as voters. The source may have begun to
// retire its own then.
func (d *destination) retirementBegun(ctx context.Context, etcds *joint.Joint) (bool, error) {
	for _, etcdRole := range naming.EtcdRoles {
		world, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			return false, fmt.Errorf("failed to look at %s: %w", naming.EtcdName(etcdRole), err)
		}
		if allVote(world.Members, etcds.Members) {
			return true, nil
		}
	}
	return false, nil
}

// allVote reports whether the cluster has all members of the destination as voters, of which there are so many in the
// end.
func allVote(members quorum.Set, all int) bool {
	return len(members.Voters().On(quorum.Destination)) == all
}

func (d *destination) readEtcd(
	ctx context.Context, m *migration.Migration, etcdRole string,
) (*druidcorev1alpha1.Etcd, error) {
	etcd := &druidcorev1alpha1.Etcd{}
	key := client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Name: naming.EtcdName(etcdRole)}
	if err := d.SeedClientSet.Client().Get(ctx, key, etcd); err != nil {
		return nil, fmt.Errorf("failed to read Etcd %s: %w", key, err)
	}
	return etcd, nil
}

// scaleEtcd asks etcd-druid for the number of members, if the Etcd has less, and leaves the rest of it as it is. Others
// write to the Etcd as well, etcd-druid above all: then it is read again.
func (d *destination) scaleEtcd(ctx context.Context, etcd *druidcorev1alpha1.Etcd, members int32) error {
	if etcd.Spec.Replicas >= members {
		return nil
	}
	if err := joint.AnnounceMembers(ctx, d.SeedClientSet.Client(), etcd, members); err != nil {
		return err
	}
	key, seed := client.ObjectKeyFromObject(etcd), d.SeedClientSet.Client()
	if err := conflict.Retry(func() error {
		if err := seed.Get(ctx, key, etcd); err != nil || etcd.Spec.Replicas >= members {
			return err
		}
		patch := client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})
		etcd.Spec.Replicas = members
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, v1beta1constants.GardenerOperation,
			v1beta1constants.GardenerOperationReconcile)
		return seed.Patch(ctx, etcd, patch)
	}); err != nil {
		return fmt.Errorf("failed to scale Etcd %s to %d: %w", key, members, err)
	}
	return nil
}

// retirement is the time from when the last members of the destination join until those of the source are gone.
type retirement struct {
	*destination
	migration *migration.Migration
	etcds     *joint.Joint
	// reason is the one in the condition, unless there is a fault. The source acts on it.
	reason steps.Reason
	// joined are the clusters that have all members of the destination, asked those for which etcd-druid has been asked
	// for the last one.
	joined, asked map[string]bool
	// sourceLooked is when the source was last looked for, and silence what was missing then.
	sourceLooked time.Time
	silence      string
	// answersSince is when the learner of an etcd with one member was first seen to answer, zero before. There is one
	// for each etcd, because both are looked at at the same time.
	answersSince map[string]*time.Time
	// putOff are the clusters whose last member had to wait for a defragmentation, and when that was looked at.
	putOff map[string]putOff
	// crashLoopsSeen is when the kube-apiserver's pods were looked at last.
	crashLoopsSeen time.Time
	// sourceMissed is when it was last looked at whether the destination can do without the source, and present is why
	// it could not.
	sourceMissed time.Time
	present      string
}

// waitForRetirement promotes the last members and waits until the source's are gone. As soon as the first of the
// clusters has six members the source is asked to retire: it looks at each cluster by itself.
func (d *destination) waitForRetirement(
	ctx context.Context, m *migration.Migration, etcds *joint.Joint, reason steps.Reason,
) (steps.Outcome, error) {
	r := d.newRetirement(m, etcds, reason)
	return r.wait(ctx, r.look, "Both etcds consist of the 3 members of the destination")
}

func (d *destination) newRetirement(m *migration.Migration, etcds *joint.Joint, reason steps.Reason) *retirement {
	r := &retirement{destination: d, migration: m, etcds: etcds, reason: reason, joined: map[string]bool{},
		asked: map[string]bool{}, answersSince: map[string]*time.Time{}, putOff: map[string]putOff{}}
	for _, etcdRole := range naming.EtcdRoles {
		r.answersSince[etcdRole] = &time.Time{}
	}
	return r
}

// wait looks at both clusters until the members of the source are gone, and says then what is done.
func (r *retirement) wait(
	ctx context.Context, look func(ctx context.Context) (sight, error), done string,
) (steps.Outcome, error) {
	m := r.migration
	ctx, end := r.etcds.FollowPods(ctx)
	defer end()
	for {
		began := m.Clock.Now()
		seen, err := look(ctx)
		if err != nil {
			return steps.Outcome{}, err
		}
		if seen.left {
			return steps.Done("%s", done), nil
		}
		if len(seen.errs) > 0 {
			// A member that restarts or an election in progress shows up as an error; it is looked at again.
			m.Log.Info("Failed to read the state of the etcds, retrying", "reason", errors.Join(seen.errs...).Error())
		} else if err := m.Report(ctx, shown(r.reason, seen.shows()), strings.Join(seen.waits, "; ")); err != nil &&
			ctx.Err() == nil {
			return steps.Outcome{}, err
		}
		if seen.fault == "" && len(seen.errs) == 0 {
			r.lookAfterKubeAPIServer(ctx)
		}
		r.abandonSource(ctx)

		select {
		case <-ctx.Done():
			// Keep the reason: the source acts on it.
			return steps.Waiting(r.Timings.PollInterval, shown(r.reason, seen.held.reason), "%s",
				strings.Join(append(seen.waits, errorsOf(seen.errs)...), "; ")), nil
		case <-m.Clock.After(joint.Pause(pollEtcd, m.Clock.Since(began))):
		}
	}
}

// sight is what one look at both clusters has shown.
type sight struct {
	// left reports whether the source's members are gone.
	left bool
	// waits are what is waited for, by cluster.
	waits []string
	// errs are why a cluster could not be looked at.
	errs []error
	// fault is the reason of what is wrong with a cluster; empty if nothing is.
	fault steps.Reason
	// held is why a last member does not join; empty if none has to wait.
	held hold
}

// shows is the reason of what is wrong.
func (s sight) shows() steps.Reason { return cmp.Or(s.fault, s.held.reason) }

// look reads both clusters once, and promotes and joins the members whose turn it is. It moves leadership to the
// destination when the first member of the source has left both.
func (r *retirement) look(ctx context.Context) (sight, error) {
	before := r.reason
	seen := r.advanceBoth(ctx, r.advance)
	if r.reason != before {
		// The source acts on it: there are six voters. What follows takes seconds on a busy seed, and may fail.
		if err := r.migration.Report(ctx, r.reason, strings.Join(seen.waits, "; ")); err != nil {
			r.migration.Log.Info("Failed to ask the source to retire its members, retrying", "reason", err.Error())
		}
	}
	held, err := r.joinLastMember(ctx)
	if err != nil {
		return sight{}, err
	}
	for _, etcdRole := range naming.EtcdRoles {
		if !r.joined[etcdRole] {
			// The source's members are not gone, and the other cluster may have six voters: each question takes time.
			return r.explain(seen, held), nil
		}
	}
	return r.complete(ctx, seen, held), nil
}

// advanceBoth takes one look at both clusters.
func (r *retirement) advanceBoth(
	ctx context.Context, advance func(ctx context.Context, etcdRole string) (joint.Progress, error),
) sight {
	var seen sight
	looks, failures := joint.LookAtBoth(ctx, advance)
	for i, etcdRole := range naming.EtcdRoles {
		if failures[i] != nil {
			seen.errs = append(seen.errs, fmt.Errorf("%s: %w", naming.EtcdName(etcdRole), failures[i]))
			continue
		}
		progress := looks[i]
		message := progress.Message
		switch {
		case progress.Done:
			r.reason, r.joined[etcdRole] = steps.ReasonReadyForSourceMemberRemoval, true
		case progress.Reason.Fault():
			seen.fault = progress.Reason
			// The condition may have to keep another reason.
			message = string(seen.fault) + ": " + message
		}
		seen.waits = append(seen.waits, naming.EtcdName(etcdRole)+": "+message)
	}
	return seen
}

// explain adds to a look at both clusters why a member does not join.
func (r *retirement) explain(seen sight, held hold) sight {
	seen.held = held
	for _, message := range []string{held.message, r.present} {
		if message != "" {
			seen.waits = append(seen.waits, message)
		}
	}
	return seen
}

// complete adds to a look at both clusters why a member does not join, and whether those of the source are gone.
func (r *retirement) complete(ctx context.Context, seen sight, held hold) sight {
	seen = r.explain(seen, held)
	left, missing, err := r.etcds.OnlyDestinationLeft(ctx)
	if err != nil {
		seen.errs = append(seen.errs, err)
	} else if !left {
		r.migration.Log.V(1).Info("Waiting for the source's etcd members to leave", "missing", missing)
	}
	seen.left = left && err == nil
	return seen
}

// advance takes one look at one cluster. The source retires its members, but leadership moves from here. If it cannot
// move, the source waits for it, and the condition says why.
func (r *retirement) advance(ctx context.Context, etcdRole string) (joint.Progress, error) {
	progress, err := r.etcds.Advance(ctx, etcdRole, naming.MembersPerSeed)
	if err != nil || !progress.Done {
		return progress, err
	}
	missing, err := r.etcds.TakeLeadership(ctx, etcdRole)
	if err != nil {
		r.migration.Log.Info("Failed to move leadership to the destination, retrying", "etcd",
			naming.EtcdName(etcdRole), "reason", err.Error())
		missing = err.Error()
	}
	if missing != "" {
		progress.Message += "; " + missing
	}
	return progress, nil
}

// abandonSource removes the members of a source that an operator has said to be lost, from time to time until it can.
// It is the destination's part of what the source does otherwise, and the last of this step. That the source is lost
// also makes the look at the clusters take longer, which is no fault.
func (r *retirement) abandonSource(ctx context.Context) {
	m := r.migration
	if !m.Step.PointOfNoReturn || !steps.AbandonSourceRequested(m.Shoot) ||
		m.Clock.Since(r.sourceMissed) < abandonPause {
		return
	}
	r.sourceMissed = m.Clock.Now()
	var err error
	if r.present, err = r.doWithoutSource(ctx, m, r.etcds); err != nil {
		r.present = fmt.Sprintf("Seed %s is not abandoned yet: %s", m.SourceSeed, err)
	}
	if r.present != "" {
		m.Log.Info("The source is not abandoned", "why", r.present)
	}
}

// lookAfterKubeAPIServer replaces pods that wait for a restart, from time to time: clients are led here, and here they
// need a kube-apiserver as soon as etcd answers again.
func (r *retirement) lookAfterKubeAPIServer(ctx context.Context) {
	if r.migration.Clock.Since(r.crashLoopsSeen) < backOffInterval {
		return
	}
	r.crashLoopsSeen = r.migration.Clock.Now()
	if err := r.replaceBackedOff(ctx, r.migration); err != nil {
		r.migration.Log.Info("Failed to replace the pods of the kube-apiserver that wait for a restart", "reason",
			err.Error())
	}
}

// shown is the reason in the condition: a fault, if there is one. Once the source has been asked to retire its members
// it reads the reason as its order, and a fault shows in the message only.
func shown(reason, fault steps.Reason) steps.Reason {
	if fault != "" && reason != steps.ReasonReadyForSourceMemberRemoval {
		return fault
	}
	return reason
}

func errorsOf(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

const (
	// pollEtcd is short, because the six-member window is made of such pauses.
	pollEtcd = 500 * time.Millisecond
	// overloadPause is how long an overloaded seed is left alone before it is asked again.
	overloadPause = 5 * time.Second
)
