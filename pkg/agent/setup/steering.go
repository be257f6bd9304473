// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"crypto/tls"

	"github.com/livecpm/livecpm/pkg/etcd/front"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
)

// newSteering returns what steers the pods of a front.
func newSteering(addresses []string, serverName string, config *tls.Config) joint.Front {
	return front.NewSteering(front.SteeringConfig{Addresses: addresses, ServerName: serverName, TLS: config})
}
