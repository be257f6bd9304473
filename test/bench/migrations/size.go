// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/fill"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
)

const (
	// sizeWrites is the load that continues while members join.
	sizeWrites = 50

	joinStep = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
)

// Size lets members of the destination join clusters of which etcd-main has so many MiB of data, and aborts then.
func (b *Bench) Size(ctx context.Context, mib int) (_ *data.SizeRun, err error) {
	source, destination, err := b.shoot.Seeds(ctx)
	if err != nil {
		return nil, err
	}
	out := &data.SizeRun{MiB: mib}
	b.shoot.Say("bench: writing %d MiB to etcd-main", mib)
	if out.DatabaseMiB, err = b.fill(ctx, source, mib); err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
		defer cancel()
		err = errors.Join(err, b.drain(ctx))
	}()

	var (
		reached  time.Time
		abortErr error
	)
	report, err := demo.Run(ctx, demo.Options{
		Landscape: b.Landscape, Namespace: b.Namespace, Shoot: b.Options.Shoot,
		Before: b.Before, Timeout: b.Timeout, Out: b.Out,
		Load: func(c *probe.Config) { c.WritesPerSecond, c.ReadsPerSecond, c.Watches = sizeWrites, 10, 2 },
		OnShoot: func(ctx context.Context, _ client.Client, shoot *gardencorev1beta1.Shoot) {
			if reached.IsZero() && joined(steps.Conditions(shoot)) {
				reached = time.Now()
				// At once: when the step is complete there is no way back.
				abortErr = b.shoot.Annotate(ctx, steps.AnnotationAbort, "true")
			}
		},
		Until: func(*gardencorev1beta1.Shoot) bool { return !reached.IsZero() },
	})
	if err != nil {
		return nil, err
	}
	sizeFigures(out, report, reached)
	b.shoot.Say("bench: joined with %d MiB: %s, the longest join took %.1f s", mib, out.Outcome, out.LongestJoin())
	if out.Outcome != data.OutcomeCompleted || abortErr != nil {
		return nil, errors.Join(report.Details.Migration, abortErr)
	}
	return out, b.goBack(ctx, source, destination)
}

// joined reports whether etcd-main has the members of the destination, or the step is past that.
func joined(conditions []gardencorev1beta1.Condition) bool {
	// Those of a former migration stay until the next one begins, and say that everything is done.
	if _, underWay := steps.Current(conditions); !underWay {
		return false
	}
	for _, condition := range conditions {
		if condition.Type == joinStep {
			return condition.Status == gardencorev1beta1.ConditionTrue ||
				strings.Contains(condition.Message, naming.EtcdName(driver.RoleMain)+": 5 voters")
		}
	}
	return false
}

// sizeFigures takes what a run has seen until the members had joined.
func sizeFigures(out *data.SizeRun, report *demo.Report, reached time.Time) {
	m := figures(report, data.KindLive, 0, nil)
	out.Outcome, out.Reason = m.Outcome, m.Reason
	out.Joins = m.Etcd[driver.RoleMain].Joins
	out.Writes, out.WritesFailed = m.Writes, m.WritesFailed
	out.WriteGapMs, out.WriteP50Ms, out.WriteP99Ms = m.WriteGapMs, m.WriteP50Ms, m.WriteP99Ms
	if len(m.Steps) > 0 {
		out.PrepareSeconds = m.Steps[0].Seconds
		out.JoinStepSeconds = math.Round(10*(reached.Sub(report.Details.Triggered).Seconds()-out.PrepareSeconds)) / 10
	}
}

// goBack waits until the migration is aborted and brings the shoot to rest. If the abort came too late, the migration
// continues to its end.
func (b *Bench) goBack(ctx context.Context, source, destination string) error {
	var aborted bool
	if err := b.shoot.Until(ctx, "the abort", func(shoot *gardencorev1beta1.Shoot) bool {
		aborted = steps.Aborted(steps.Conditions(shoot))
		return aborted || !steps.Abortable(steps.Conditions(shoot))
	}); err != nil {
		return err
	}
	if aborted {
		if err := b.shoot.Bind(ctx, source); err != nil {
			return err
		}
		return b.shoot.UntilReconciled(ctx, source)
	}
	b.shoot.Say("bench: the abort came too late, the migration continues to its end")
	if err := b.shoot.Annotate(ctx, steps.AnnotationAbort, ""); err != nil {
		return err
	}
	return b.shoot.UntilReconciled(ctx, destination)
}

// fill writes data to etcd-main and returns how large the database is then.
func (b *Bench) fill(ctx context.Context, seed string, mib int) (float64, error) {
	etcd, err := b.etcd(ctx, seed, 0)
	if err != nil {
		return 0, err
	}
	defer etcd.Close()
	return fill.Write(ctx, etcd, mib)
}

// drain takes away what fill has written, from wherever the shoot is, and makes the databases small again.
func (b *Bench) drain(ctx context.Context) error {
	shoot, err := b.shoot.Get(ctx)
	if err != nil {
		return err
	}
	seed := ptr.Deref(shoot.Status.SeedName, "")
	for ordinal := range naming.MembersPerSeed {
		if err := b.drainMember(ctx, seed, ordinal); err != nil {
			return fmt.Errorf("failed to clean up member %d of etcd-main in %s: %w", ordinal, seed, err)
		}
	}
	return nil
}

func (b *Bench) drainMember(ctx context.Context, seed string, ordinal int) error {
	etcd, err := b.etcd(ctx, seed, ordinal)
	if err != nil {
		return err
	}
	defer etcd.Close()
	if ordinal == 0 {
		// A deletion of everything at once would hold up etcd for as long.
		for {
			page, err := etcd.Get(ctx, fill.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
				clientv3.WithLimit(4096))
			if err != nil {
				return err
			}
			if len(page.Kvs) == 0 {
				if _, err := etcd.Compact(ctx, page.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
					return err
				}
				break
			}
			end := clientv3.GetPrefixRangeEnd(string(page.Kvs[len(page.Kvs)-1].Key))
			if _, err := etcd.Delete(ctx, fill.Prefix, clientv3.WithRange(end)); err != nil {
				return err
			}
		}
	}
	_, err = etcd.Defragment(ctx, etcd.Endpoints()[0])
	return err
}

func (b *Bench) etcd(ctx context.Context, seed string, ordinal int) (*clientv3.Client, error) {
	shoot, err := b.shoot.Get(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := driver.Connect(b.Landscape, seed)
	if err != nil {
		return nil, err
	}
	return cluster.Etcd(ctx, driver.EtcdPod{Namespace: shoot.Status.TechnicalID, Role: driver.RoleMain,
		Name: naming.PodName(driver.RoleMain, ordinal)})
}
