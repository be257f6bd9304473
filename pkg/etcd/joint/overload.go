// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
	"github.com/livecpm/livecpm/pkg/migration/overload"
)

// A member that answers after seconds is healthy for etcd, and so is its cluster. But requests wait for such answers
// with each move of leadership and each member that stops, and a hold is over before leadership has moved. So these
// moves are put off until the members that have to carry on answer within overload.Bound.

// overloadPause is how long members that were too slow are not asked again: that would be more work for them, and the
// figure in the message would change all the time.
const overloadPause = 5 * time.Second

// CheckPrompt returns an error unless both clusters answer a read, and their leaders and a majority of their voters
// answer for themselves, within overload.Bound. If they are too slow, overload.Is reports true for it.
func (j *Joint) CheckPrompt(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		seen, err := j.observeHealthy(ctx, etcdRole)
		if err != nil {
			return err
		}
		return j.checkPrompt(ctx, etcdRole, seen, func(prompt quorum.Set) error {
			if !prompt.HasQuorum() {
				return fmt.Errorf("too few voters of %s answer: %s", naming.EtcdName(etcdRole), prompt)
			}
			return nil
		})
	})
}

// putOff returns what speaks against a move that has to wait for members to be prompt and for the end of a
// defragmentation, or nil if the move must not wait any longer: with six voters, any cut between the seeds stops
// writes, and ending that moment is worth more than the requests that a slow move may cost. With fewer voters nothing
// is in danger, and there is no limit but that of the step. Nor is there one for a move that would lose the quorum
// while a member copies its database: that passes by itself. With six voters, a defragmentation that is only about to
// begin is one more reason to make the move at once.
func (j *Joint) putOff(
	ctx context.Context, etcdRole string, seen Observation, project func(prompt quorum.Set) error,
) error {
	slow := spell{etcdRole, "too slow for a move"}
	err := j.knownSlow(etcdRole)
	if err == nil {
		err = j.checkMove(ctx, etcdRole, seen, project)
	}
	if _, waits := migration.PutOff(err); !waits {
		j.end(slow)
		return err
	}
	j.noteSlow(etcdRole, err)
	waited := j.lasted(slow)
	six, hurry := len(seen.Members.Voters()) >= 2*naming.MembersPerSeed, defragmentation.IsAhead(err)
	if !six || !hurry && waited < overload.Patience || project(withoutBusy(seen.Members, err)) != nil {
		return err
	}
	j.Log.Info("Not waiting any longer with six voters, some requests may fail", "etcd", naming.EtcdName(etcdRole),
		"waited", waited.String(), "reason", err.Error())
	return nil
}

// slowness is what was found out last about a cluster that is too slow, and when.
type slowness struct {
	err error
	at  time.Time
}

// knownSlow returns why a cluster was too slow a moment ago, or nil.
func (j *Joint) knownSlow(etcdRole string) error {
	j.lock.Lock()
	defer j.lock.Unlock()
	if last, known := j.slow[etcdRole]; known && j.Clock.Since(last.at) < overloadPause {
		return last.err
	}
	return nil
}

// noteSlow keeps why a cluster is too slow, with the time of the first one that finds that out.
func (j *Joint) noteSlow(etcdRole string, err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	if last, known := j.slow[etcdRole]; !known || !errors.Is(last.err, err) {
		j.slow[etcdRole] = slowness{err: err, at: j.Clock.Now()}
	}
}

// mayStopNow returns an error as long as those that stay would not answer soon without the member.
func (j *Joint) mayStopNow(ctx context.Context, etcdRole string, seen Observation, victim quorum.Member) error {
	err := j.putOff(ctx, etcdRole, seen, func(prompt quorum.Set) error { return prompt.Stop(victim.ID) })
	if err != nil {
		return fmt.Errorf("member %s does not stop yet: %w", victim.Name, err)
	}
	return nil
}

// checkPrompt looks at how long the members have taken to answer. Who has taken too long is asked once more: the first
// answer may have had to wait for a connection, which over a distance takes several round trips. Who is still too slow
// counts as unhealthy in what the function projects. The leader must not be too slow in any case. The cluster also has
// to answer a read, which shows how fast the leader reaches a majority.
func (j *Joint) checkPrompt(
	ctx context.Context, etcdRole string, seen Observation, project func(prompt quorum.Set) error,
) error {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return err
	}
	var (
		group  sync.WaitGroup
		prompt = slices.Clone(seen.Members)
		late   = make([]error, len(prompt)+1)
	)
	for i, member := range prompt {
		if !member.Healthy {
			late[i] = seen.Late[member.ID]
			continue
		}
		if overload.Check(member.Name, seen.Statuses[member.ID].Took, nil) == nil {
			continue
		}
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			status, err := cluster.Status(ctx, seen.Raw[member.ID])
			late[i] = overload.Check(member.Name, status.Took, err)
		})
	}
	group.Wait()

	// A connection that it has to make is no part of it, either.
	for range 2 {
		if late[len(prompt)] = j.timeRead(ctx, etcdRole, cluster.Health); late[len(prompt)] == nil {
			break
		}
	}
	missing := late[len(prompt)]
	for i := range prompt {
		if late[i] != nil {
			prompt[i].Healthy = false
		}
		if prompt[i].Leader && !prompt[i].Healthy {
			missing = errors.Join(missing, late[i], fmt.Errorf("the leader does not answer: %s", prompt[i]))
		}
	}
	if missing = errors.Join(missing, project(prompt)); missing == nil {
		return nil
	}
	if slowest := overload.Slowest(late...); slowest != nil {
		return slowest
	}
	return missing
}

// timeRead reads from the cluster and judges how long that takes.
func (j *Joint) timeRead(ctx context.Context, etcdRole string, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	asked := j.Clock.Now()
	err := read(ctx)
	return overload.Check(naming.EtcdName(etcdRole), j.Clock.Since(asked), err)
}
