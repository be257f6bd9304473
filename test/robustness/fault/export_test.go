// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// NewMember returns the member that the client is connected to.
func NewMember(client *clientv3.Client, pod string) Member { return &member{client: client, pod: pod} }

// ComesBackAfter makes a fault that comes back do so sooner.
func ComesBackAfter(f Fault, every time.Duration) { f.(*again).every = every }
