// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Watch runs one watch until the context ends.
func Watch(ctx context.Context, client rest.Interface) {
	newWatcher(client, "default", 1, func(error) {}).run(ctx)
}

// NewFastResolver returns a Resolver that soon asks again.
func NewFastResolver(server string, c clock.PassiveClock) *Resolver {
	r := NewResolver(server, c)
	r.client.Timeout = 50 * time.Millisecond
	return r
}
