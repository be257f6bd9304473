// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// holdTime bounds the time for which a front holds requests while leadership moves. Clients of etcd wait longer
	// than that.
	holdTime = 1500 * time.Millisecond
	// holdRest is what is left of it at least when the front says that it holds them: it does not wait for the requests
	// under way for longer than the rest allows.
	holdRest = holdTime / 4
	// holdPause is the pause between two holds. In it, the requests that the first one kept back get their answers.
	holdPause = 4 * time.Second
)

// notHeldError says that a front could not hold the requests of its clients.
type notHeldError struct{ cause error }

// Error returns the cause.
func (e *notHeldError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *notHeldError) Unwrap() error { return e.cause }

// transferHeld transfers leadership while the cluster's front holds the requests of its clients. It returns false if
// the cluster has no front, or if the front could not hold them for FrontPatience. The former is how it is in the
// source; the latter costs some requests, while leadership that does not move would stop the migration.
func (j *Joint) transferHeld(ctx context.Context, t transfer) (bool, error) {
	var (
		log   = j.Log.WithValues("etcd", naming.EtcdName(t.etcdRole))
		begin = j.Clock.Now()
	)
	for {
		front, err := j.openFront(ctx, t.etcdRole)
		if err == nil && front == nil {
			return false, nil
		}
		if err == nil {
			err = j.transferUnder(ctx, front, t)
			_ = front.Close()
		}
		var notHeld *notHeldError
		if err == nil || !errors.As(err, &notHeld) {
			return true, err
		}
		if waited := j.Clock.Since(begin); waited >= j.FrontPatience {
			log.Info("The front cannot hold the requests, transferring leadership without", "waited", waited.String(),
				"reason", err.Error())
			return false, nil
		}
		log.Info("The front cannot hold the requests, trying again", "reason", err.Error())
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("failed to transfer leadership of %s: %w: %w", naming.EtcdName(t.etcdRole),
				ctx.Err(), err)
		case <-j.Clock.After(holdPause):
		}
	}
}

// openFront returns the front of the cluster, or nil if it has none. Its error is a notHeldError.
func (j *Joint) openFront(ctx context.Context, etcdRole string) (Front, error) {
	if j.Front == nil {
		return nil, nil
	}
	front, err := j.Front(ctx, etcdRole)
	if err != nil {
		return nil, &notHeldError{
			cause: fmt.Errorf("failed to reach the front of %s: %w", naming.EtcdName(etcdRole), err),
		}
	}
	return front, nil
}

// transferUnder transfers leadership once, under a hold. What it must not be without is looked at before the hold, so
// that the hold does not wait for it, and the part that a moment may change once more under it.
func (j *Joint) transferUnder(ctx context.Context, front Front, t transfer) error {
	return j.inTurn(ctx, t, func(ctx context.Context, cluster etcdclient.Cluster, t transfer) error {
		log := j.Log.WithValues("etcd", naming.EtcdName(t.etcdRole))
		asked := j.Clock.Now()
		release, err := j.hold(ctx, front)
		if err != nil {
			return &notHeldError{
				cause: fmt.Errorf("failed to hold the requests to %s: %w", naming.EtcdName(t.etcdRole), err),
			}
		}
		defer release()
		// Whoever ends the step now, by a shutdown or because it has to stand still, waits until the requests are let
		// go: what moves leadership, and each look at it, has a bound of its own.
		ctx = context.WithoutCancel(ctx)
		log.Info("The front holds the requests", "waited", j.Clock.Since(asked).String())
		// The front has begun to hold them after it was asked.
		if err := j.move(ctx, cluster, t, max(holdTime-j.Clock.Since(asked), holdRest)); err != nil {
			return err
		}
		release()
		log.Info("Transferred leadership under a hold", "to", t.to.Name, "took", j.Clock.Since(asked).String())
		return nil
	})
}

// hold asks the front to hold requests. Reaching it is not a part of that time, and bounded as well.
func (j *Joint) hold(ctx context.Context, front Front) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, steerTimeout)
	defer cancel()
	return front.Hold(ctx, holdTime)
}
