// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"time"

	"k8s.io/utils/clock"
)

// NewFastResolver returns a Resolver that soon asks again.
func NewFastResolver(server string, c clock.PassiveClock) *Resolver {
	r := NewResolver(server, c)
	r.client.Timeout = 50 * time.Millisecond
	return r
}
