// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package naming knows the names, ports and URLs of a shoot's etcd members, as etcd-druid and Gardener give them in
// either seed, and those at which the members of the other seed are reached. It imports no client: whoever talks to
// etcd, or opens the way to it, gets the names here.
package naming

import (
	"fmt"
	"strconv"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// MembersPerSeed is how many members an etcd cluster has in one seed. While it spans both seeds, it has up to twice as
// many.
const MembersPerSeed = 3

// SingleMember is how many members the etcds of a shoot have that is not highly available.
const SingleMember = 1

// MembersOf returns how many members each etcd of the shoot has in one seed, as far as a live migration is concerned.
func MembersOf(shoot *gardencorev1beta1.Shoot) int {
	if steps.WithGap(shoot) {
		return SingleMember
	}
	return MembersPerSeed
}

const (
	// PortClient is where etcd serves its clients.
	PortClient = 2379
	// PortPeerSource is where the members of the source serve their peers: Gardener's ordinary port.
	PortPeerSource = 2380
	// PortPeerDestination is where the members of the destination serve their peers as long as the source's members are
	// in the cluster: member N has the same host name in both seeds, so the port has to tell their peer URLs apart.
	PortPeerDestination = 2381
)

// EtcdRoles are the roles of the etcd clusters of a shoot. The clusters are independent of each other.
var EtcdRoles = []string{v1beta1constants.ETCDRoleMain, v1beta1constants.ETCDRoleEvents}

// OtherEtcdRole returns the other one of EtcdRoles.
func OtherEtcdRole(etcdRole string) string {
	if etcdRole == v1beta1constants.ETCDRoleMain {
		return v1beta1constants.ETCDRoleEvents
	}
	return v1beta1constants.ETCDRoleMain
}

// PeerPort returns the peer port of the etcd members in the seed with the role.
func PeerPort(role steps.Role) int32 {
	if role == steps.Source {
		return PortPeerSource
	}
	return PortPeerDestination
}

// EtcdName returns the name of the Etcd resource, which is also that of its StatefulSet.
func EtcdName(etcdRole string) string { return "etcd-" + etcdRole }

// PodName returns the name of a member's pod. It is the same in both seeds.
func PodName(etcdRole string, ordinal int) string {
	return EtcdName(etcdRole) + "-" + strconv.Itoa(ordinal)
}

// MemberName returns the name that a member has in the member list: the prefix that its Etcd has
// (spec.memberNamePrefix), a dash and the name of its pod, or the latter alone if there is no prefix. Gardener's prefix
// is the name of the seed. It is set when an Etcd is created with the feature gate UpgradeEtcdVersion on, and never
// changes: the members of an older Etcd have none.
func MemberName(prefix, etcdRole string, ordinal int) string {
	if prefix == "" {
		return PodName(etcdRole, ordinal)
	}
	return prefix + "-" + PodName(etcdRole, ordinal)
}

// OrdinalOf returns the ordinal of the member with the name, and whether it is a member of the etcd with the role whose
// names have the prefix.
func OrdinalOf(name, prefix, etcdRole string) (int, bool) {
	// The names are not built and compared: every look at a list asks this of each member, for each prefix.
	suffix, found := name, true
	if prefix != "" {
		suffix, found = strings.CutPrefix(name, prefix+"-")
	}
	if suffix, named := strings.CutPrefix(suffix, EtcdName(etcdRole)+"-"); found && named {
		for ordinal := range MembersPerSeed {
			if suffix == strconv.Itoa(ordinal) {
				return ordinal, true
			}
		}
	}
	return -1, false
}

// ClientServiceName returns the name of the service for clients.
func ClientServiceName(etcdRole string) string { return EtcdName(etcdRole) + "-client" }

// PeerServiceName returns the name of the headless service of the members.
func PeerServiceName(etcdRole string) string { return EtcdName(etcdRole) + "-peer" }

// PeerURL returns the peer URL that etcd-druid gives to a member in the seed with the role.
func PeerURL(role steps.Role, namespace, etcdRole string, ordinal int) string {
	return fmt.Sprintf("https://%s:%d", MemberHost(namespace, etcdRole, ordinal), PeerPort(role))
}

// PlainPeerURL returns the peer URL of the only member of an etcd in the seed with the role. Gardener gives TLS between
// peers to highly available etcds only.
func PlainPeerURL(role steps.Role, namespace, etcdRole string) string {
	return fmt.Sprintf("http://%s:%d", MemberHost(namespace, etcdRole, 0), PeerPort(role))
}

// MemberHost returns the host name in a member's URLs. It is the same in both seeds.
func MemberHost(namespace, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", PodName(etcdRole, ordinal), PeerServiceName(etcdRole), namespace)
}

// ClientHost returns the host name of the service for clients.
func ClientHost(namespace, etcdRole string) string {
	return fmt.Sprintf("%s.%s.svc", ClientServiceName(etcdRole), namespace)
}
