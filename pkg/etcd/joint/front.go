// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"time"
)

// Front is what the kube-apiservers of the destination reach an etcd cluster through during a migration: it passes on
// each request by itself, so it can keep requests back, or lead them past a member, without cutting any of them off.
// Package front has the real one.
type Front interface {
	// Hold lets no request through to etcd from when it returns until release is called, and no longer than the given
	// time. It returns when none is under way any more, or with an error when some do not end in time; then nothing is
	// held. Watches continue. release may be called more than once.
	Hold(ctx context.Context, atMost time.Duration) (release func(), err error)
	// Drain leads no request and no watch to the member of the destination with the ordinal any more, and returns when
	// none is under way there. That lasts until Restore, or for the given time: a caller that dies leaves nothing
	// behind. Calling it again prolongs it.
	Drain(ctx context.Context, ordinal int, atMost time.Duration) error
	// Restore ends Drain. The member is used again as soon as it is healthy.
	Restore(ctx context.Context, ordinal int) error
	// Close closes the connections to the front. What is held or drained remains so for the time that was given.
	Close() error
}
