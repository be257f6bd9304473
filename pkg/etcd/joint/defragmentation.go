// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
)

// The guards look for a defragmentation before a step, and the moves that it would harm come minutes after that. So it
// is looked for again right before each of them: before a cluster gets its last member, before leadership moves, and
// before a member stops. The sidecar beside the leader defragments all members, those of the other seed as well. Its
// schedule is that of the Etcd in the leader's seed. Gardener computes it from the Shoot, so both seeds have the same,
// and each agent reads that of its own.

// defragmentingError is a defragmentation.Error that knows the members.
type defragmentingError struct {
	cause *defragmentation.Error
	// busy are the members that copy their database now.
	busy []uint64
}

// Error returns the cause.
func (e *defragmentingError) Error() string { return e.cause.Error() }

// Unwrap returns the error without the members.
func (e *defragmentingError) Unwrap() error { return e.cause }

// CheckDefragmentation returns an error as long as a member of either cluster is being defragmented or is about to be,
// and as long as that is not known. defragmentation.Is reports true for it.
func (j *Joint) CheckDefragmentation(ctx context.Context) error {
	return sideBySide(ctx, j.CheckDefragmentationOf)
}

// CheckDefragmentationOf does the same for one cluster.
func (j *Joint) CheckDefragmentationOf(ctx context.Context, etcdRole string) error {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return unknownDefragmentation(etcdRole, err)
	}
	return j.checkDefragmentation(ctx, etcdRole, seen)
}

// checkDefragmentation looks at the schedule and asks every member that answers. One that does not is not asked: it
// counts as down in every projection, and one that is lost for good must not stop anything by its silence.
func (j *Joint) checkDefragmentation(ctx context.Context, etcdRole string, seen Observation) error {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return unknownDefragmentation(etcdRole, err)
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return unknownDefragmentation(etcdRole, err)
	}
	var (
		group   sync.WaitGroup
		members = seen.Members.Healthy()
		copies  = make([]bool, len(members))
		errs    = make([]error, len(members))
	)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for i, member := range members {
		group.Go(func() { copies[i], errs[i] = cluster.Defragmenting(ctx, seen.Raw[member.ID]) })
	}
	group.Wait()

	var (
		busy   []uint64
		names  []string
		unread []error
	)
	for i, member := range members {
		switch {
		case copies[i]:
			busy, names = append(busy, member.ID), append(names, member.Name)
		case errs[i] != nil && !errors.Is(errs[i], etcdclient.ErrNoMetric):
			unread = append(unread, errs[i])
		}
	}
	if len(busy) > 0 {
		return &defragmentingError{busy: busy, cause: &defragmentation.Error{Etcd: etcd.Name,
			Problem: strings.Join(names, ", ") + " is being defragmented"}}
	}
	if err := defragmentation.CheckSchedule(etcd.Name, ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, ""),
		j.Clock.Now()); err != nil {
		return err
	}
	if len(unread) > 0 {
		return unknownDefragmentation(etcdRole, errors.Join(unread...))
	}
	return nil
}

func unknownDefragmentation(etcdRole string, err error) error {
	return &defragmentation.Error{Etcd: naming.EtcdName(etcdRole),
		Problem: fmt.Sprintf("it is not known whether a member is being defragmented: %v", err)}
}

// checkMove returns what speaks against a move: members that are too slow, or a defragmentation, which may be why. Both
// are looked at at the same time, because there may be six voters.
func (j *Joint) checkMove(
	ctx context.Context, etcdRole string, seen Observation, project func(prompt quorum.Set) error,
) error {
	var (
		group     sync.WaitGroup
		defragErr error
	)
	group.Go(func() { defragErr = j.checkDefragmentation(ctx, etcdRole, seen) })
	err := j.checkPrompt(ctx, etcdRole, seen, project)
	group.Wait()
	var busy *defragmentingError
	if err == nil || errors.As(defragErr, &busy) {
		return defragErr
	}
	return err
}

// withoutBusy returns the members as if those were down that copy their database according to the error.
func withoutBusy(members quorum.Set, err error) quorum.Set {
	var defragmenting *defragmentingError
	if !errors.As(err, &defragmenting) {
		return members
	}
	out := slices.Clone(members)
	for i := range out {
		if slices.Contains(defragmenting.busy, out[i].ID) {
			out[i].Healthy = false
		}
	}
	return out
}
