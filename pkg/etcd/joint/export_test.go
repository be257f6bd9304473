// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// NewLocator returns what finds the members of a cluster.
func NewLocator(j *Joint, etcdRole string) etcdclient.Locator {
	return &locator{joint: j, etcdRole: etcdRole}
}

// Each repeats the attempt for both clusters until it is done.
func (j *Joint) Each(
	ctx context.Context, attempt func(ctx context.Context, etcdRole string) (Progress, error),
) error {
	return j.each(ctx, nil, attempt)
}
