// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/test/patience"
)

// Watch runs one watch until the context ends.
func Watch(ctx context.Context, client rest.Interface) {
	newWatcher(client, "default", 1, func(error) {}).run(ctx)
}

// NewImpatientResolver returns a Resolver that soon gives up the given number of its first questions, which are those
// that are to get no answer, and waits for the answers to all others for as long as tests wait for anything.
func NewImpatientResolver(server string, c clock.PassiveClock, impatient int) *Resolver {
	r := NewResolver(server, c)
	asked := 0
	r.client.Dialer = &net.Dialer{Control: func(string, string, syscall.RawConn) error {
		// A socket is made for each question, before the time for it begins.
		asked++
		r.client.Timeout = patience.Eventually
		if asked <= impatient {
			r.client.Timeout = 50 * time.Millisecond
		}
		return nil
	}}
	return r
}
