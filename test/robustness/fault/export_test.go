// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import clientv3 "go.etcd.io/etcd/client/v3"

// NewMember returns the member that the client is connected to.
func NewMember(client *clientv3.Client, pod string) Member { return &member{client: client, pod: pod} }
