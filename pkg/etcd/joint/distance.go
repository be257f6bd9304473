// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// distanceSamples is how many answers of a leader it takes to know how far away it is. Only the fastest counts: a busy
// node makes answers slower, and nothing makes them faster than the distance allows.
const distanceSamples = 10

// LeaderDistance returns how long an answer of the leader takes at best, of the cluster whose leader is farther away.
// It is an error if a leader is not known or does not answer.
func (j *Joint) LeaderDistance(ctx context.Context) (time.Duration, error) {
	distances, errs := LookAtBoth(ctx, j.leaderDistance)
	for i, err := range errs {
		if err != nil {
			return 0, fmt.Errorf("failed to measure how far away the leader of %s is: %w",
				naming.EtcdName(naming.EtcdRoles[i]), err)
		}
	}
	return slices.Max(distances), nil
}

func (j *Joint) leaderDistance(ctx context.Context, etcdRole string) (time.Duration, error) {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return 0, err
	}
	leader, ok := seen.Members.Leader()
	if !ok {
		return 0, fmt.Errorf("no leader is known: %s", seen.Summary())
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return 0, err
	}
	// The way to the API server is no part of the distance.
	ctx = withLookups(ctx)
	var fastest time.Duration
	for i := range distanceSamples {
		asked := j.Clock.Now()
		if _, err := cluster.Status(ctx, seen.Raw[leader.ID]); err != nil {
			return 0, err
		}
		if took := j.Clock.Since(asked); i == 0 || took < fastest {
			fastest = took
		}
	}
	return fastest, nil
}
