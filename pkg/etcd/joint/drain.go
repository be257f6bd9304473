// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// defaultFrontPatience is how long a front that fails is asked again.
	defaultFrontPatience = 30 * time.Second
	// drainTime is for how long a member is drained. It is prolonged while the member restarts. An agent that dies
	// leaves nothing drained for longer.
	drainTime = 5 * time.Minute
	// drainRenewal is when a drain is prolonged.
	drainRenewal = time.Minute
	// steerTimeout bounds one question to a front: it waits for the requests that are under way at the member.
	steerTimeout = 10 * time.Second
	// steerPause is the pause between two of them.
	steerPause = time.Second
)

// ledTo is a member of the destination that a front leads requests to.
type ledTo struct {
	etcdRole string
	ordinal  int
}

// ledState is what a front was asked for last.
type ledState struct {
	drained bool
	at      time.Time
}

// drain makes the cluster's front lead nothing to the member, which is about to stop, and prolongs that. Without a
// front there is nothing to do. A front that does not obey is asked again for FrontPatience. After that the member
// stops anyway, which its clients notice: the migration must not depend on what only spares them.
func (j *Joint) drain(ctx context.Context, member ledTo) error {
	if state, known := j.ledState(member); known && state.drained && j.Clock.Since(state.at) < drainRenewal {
		return nil
	}
	return j.steer(ctx, member, true, func(ctx context.Context, front Front) error {
		return front.Drain(ctx, member.ordinal, drainTime)
	})
}

// restore ends drain. What could not be restored restores itself when its time is over.
func (j *Joint) restore(ctx context.Context, member ledTo) error {
	if state, known := j.ledState(member); known && !state.drained {
		return nil
	}
	return j.steer(ctx, member, false, func(ctx context.Context, front Front) error {
		return front.Restore(ctx, member.ordinal)
	})
}

func (j *Joint) ledState(member ledTo) (ledState, bool) {
	j.lock.Lock()
	defer j.lock.Unlock()
	state, known := j.led[member]
	return state, known
}

// steer asks the front, again if it fails, and remembers what it was asked for. Its error is that of the context.
func (j *Joint) steer(
	ctx context.Context, member ledTo, drained bool, do func(ctx context.Context, front Front) error,
) error {
	var (
		log = j.Log.WithValues("etcd", naming.EtcdName(member.etcdRole), "member", member.ordinal,
			"drained", drained)
		begin = j.Clock.Now()
	)
	for {
		err := j.steerOnce(ctx, member.etcdRole, do)
		if err == nil || j.Clock.Since(begin) >= j.FrontPatience {
			if err != nil {
				log.Info("The front does not obey, continuing without it", "reason", err.Error())
			}
			j.lock.Lock()
			defer j.lock.Unlock()
			j.led[member] = ledState{drained: drained, at: j.Clock.Now()}
			return nil
		}
		log.Info("The front does not obey, trying again", "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to steer the front of %s: %w: %w", naming.EtcdName(member.etcdRole), ctx.Err(),
				err)
		case <-j.Clock.After(steerPause):
		}
	}
}

func (j *Joint) steerOnce(
	ctx context.Context, etcdRole string, do func(ctx context.Context, front Front) error,
) error {
	front, err := j.openFront(ctx, etcdRole)
	if err != nil || front == nil {
		return err
	}
	defer func() { _ = front.Close() }()
	ctx, cancel := context.WithTimeout(ctx, steerTimeout)
	defer cancel()
	return do(ctx, front)
}
