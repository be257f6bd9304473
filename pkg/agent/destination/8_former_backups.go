// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// formerLookBound is how long the sidecar of the leader, which has just taken a snapshot, is asked what it has
	// taken.
	formerLookBound = time.Minute
	// formerCopyBound is how long the hand-over waits until the backups in the bucket of the source are copied: as long
	// as a classic migration waits before it begins again (copybackupstask.DefaultTimeout). Most of that time the
	// members of etcd restart anyway.
	formerCopyBound = 5 * time.Minute
	// formerBackupsBound is how long the hand-over waits until they are deleted there, or until the access to them has
	// been given up. With a bucket that works it takes some seconds.
	formerBackupsBound = 3 * time.Minute
)

// addFormerBackups adds the snapshot after which the backups of the source may go, and what becomes of them. That takes
// a while and waits for the snapshot, so the snapshot is not left to the end of the restart. The sidecar of the leader
// takes it, and the leader is the last one to restart.
func (c *completion) addFormerBackups() flow.TaskID {
	snapshot := c.addTask(flow.Task{
		Name: "Taking a full snapshot into the bucket of the destination",
		Fn: func(ctx context.Context) error {
			return backups.Snapshot(ctx, c.botanist)
		},
		SkipIf:       !c.facts.hasBackup,
		Dependencies: flow.NewTaskIDs(c.etcdsDeployed),
	})
	former := formerBackups{
		obstacle: c.mixingObstacle,
		copy: flows.Retry(func(ctx context.Context) error {
			return backups.CopyFormer(ctx, c.botanist, c.facts.formerBucket)
		}, formerCopyBound),
		keep: flows.Retry(func(ctx context.Context) error {
			return c.Backups.KeepFormer(ctx, c.botanist)
		}, formerBackupsBound),
		remove: flows.Retry(func(ctx context.Context) error {
			return backups.RemoveFormer(ctx, c.botanist)
		}, formerBackupsBound),
	}
	// It ends by itself.
	return c.Add(flow.Task{
		Name: "Copying the backups in the bucket of the source, and deleting them there",
		Fn: func(ctx context.Context) error {
			return c.facts.left.behind(ctx, "the backups in the bucket "+c.facts.formerBucket, former.move)
		},
		SkipIf:       c.facts.formerBucket == "",
		Dependencies: flow.NewTaskIDs(snapshot),
	})
}

// mixingObstacle returns why the backups of the source must not come beside those of the destination; empty if they
// may.
func (c *completion) mixingObstacle(ctx context.Context) (string, error) {
	var here int64
	if err := flows.Retry(func(ctx context.Context) (err error) {
		here, err = backups.NewestRevision(ctx, c.botanist)
		return err
	}, formerLookBound)(ctx); err != nil {
		return "", err
	}
	return steps.MixingObstacle(c.migration.Shoot, here), nil
}

// formerBackups is what becomes of the backups in the bucket of the source: they are copied, so that the shoot can be
// restored to each point in time to which it could be before, and then deleted there. A backup of the source would
// outlive the shoot. A bucket that cannot be read or emptied is no reason to keep the shoot without controllers: the
// backups are left where they are, and the condition says so.
type formerBackups struct {
	// obstacle returns why they must not be copied; empty if they may be.
	obstacle func(ctx context.Context) (string, error)
	// copy copies them, keep gives up the access to them without deleting them, remove deletes them. Each ends by
	// itself.
	copy, keep, remove flow.TaskFn
}

// move copies and deletes the backups, or else returns why they are where they were.
func (f formerBackups) move(ctx context.Context) error {
	err := f.copied(ctx)
	if err == nil {
		if err = f.remove(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("they are copied, but not deleted: %w", err)
		}
		return err
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(fmt.Errorf("they are not copied: %w", err), f.keep(ctx))
}

func (f formerBackups) copied(ctx context.Context) error {
	obstacle, err := f.obstacle(ctx)
	if err != nil {
		return err
	}
	if obstacle != "" {
		return errors.New(obstacle)
	}
	return f.copy(ctx)
}

// leftovers is what a flow leaves behind because it cannot be removed, which is no reason to stop.
type leftovers struct {
	lock sync.Mutex
	text string
}

// behind removes something, and notes what it is if that fails. It only fails itself when the attempt is over: another
// one may succeed. What joined errors say is put into one line.
func (l *leftovers) behind(ctx context.Context, what string, remove flow.TaskFn) error {
	err := remove(ctx)
	if ctx.Err() != nil {
		return err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.text = ""; err != nil {
		l.text = fmt.Sprintf("%s are left behind: %s", what, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// String tells what was left behind; it is empty if nothing was.
func (l *leftovers) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text
}
