// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"

// NewLocator returns what finds the members of a cluster.
func NewLocator(j *Joint, etcdRole string) etcdclient.Locator {
	return &locator{joint: j, etcdRole: etcdRole}
}
