// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package fill writes so much data to an etcd that its snapshot has a given size.
package fill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// Prefix is that of all keys. It is below nothing that a kube-apiserver looks at.
const Prefix = "/livecpm-bench/"

const (
	// valueSize is that of a larger custom resource. Etcd holds the last 15,000 requests or so in memory, and what is
	// written faster than it makes room again also in files, which the landscape has in memory too: so a request has
	// few of them.
	valueSize  = 8 << 10
	perRequest = 4
	writers    = 32
)

// Write writes so many MiB of values that nothing on the way can make smaller, and returns how many MiB the database of
// the client's first endpoint has then.
func Write(ctx context.Context, etcd *clientv3.Client, mib int) (float64, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for first := 0; first < mib<<20/valueSize; first += perRequest {
		group.Go(func() error {
			if _, err := etcd.Txn(groupCtx).Then(values(first, min(perRequest, mib<<20/valueSize-first))...).
				Commit(); err != nil {
				return fmt.Errorf("failed to write to etcd: %w", err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	status, err := etcd.Status(ctx, etcd.Endpoints()[0])
	if err != nil {
		return 0, fmt.Errorf("failed to read the size of the database: %w", err)
	}
	return math.Round(10*float64(status.DbSize)/(1<<20)) / 10, nil
}

// values returns writes of random values.
func values(first, count int) []clientv3.Op {
	random := rand.NewChaCha8([32]byte{byte(first), byte(first >> 8),
		byte(first >> 16)}) //nolint:gosec // They are no secrets.
	ops := make([]clientv3.Op, 0, count)
	for i := range count {
		value := make([]byte, valueSize)
		_, _ = random.Read(value)
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%08d", Prefix, first+i), string(value)))
	}
	return ops
}
