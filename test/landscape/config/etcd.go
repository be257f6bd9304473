// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"os"
)

// EnvEtcd names the environment variable that says how members of shoots' etcds stop: shipped, which is the default, or
// graceful.
const EnvEtcd = "LIVECPM_ETCD"

// EtcdStop says how a member of a shoot's etcd treats its clients when it stops.
type EtcdStop string

const (
	// EtcdShipped is the listener as etcd-druid configures it, with gRPC and HTTP on one port. A member that stops
	// answers what is in flight, and what follows on open connections, with an error that no client retries.
	EtcdShipped EtcdStop = "shipped"
	// EtcdGraceful lets a member end what is in flight: gRPC has a listener of its own. Real members do not have that;
	// it tells what comes from this difference.
	EtcdGraceful EtcdStop = "graceful"
)

// etcdStop reads how members stop.
func etcdStop() (EtcdStop, error) {
	switch value := EtcdStop(cmp.Or(os.Getenv(EnvEtcd), string(EtcdShipped))); value {
	case EtcdGraceful, EtcdShipped:
		return value, nil
	default:
		return "", fmt.Errorf("%s is %q; give shipped or graceful", EnvEtcd, value)
	}
}
