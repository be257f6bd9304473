// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/apimachinery/pkg/types"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	namespace = "shoot--search--live"
	members   = naming.MembersPerSeed
)

// side is one of the two seeds.
type side int

const (
	source side = iota
	destination
)

func (s side) role() steps.Role { return [...]steps.Role{steps.Source, steps.Destination}[s] }

// seed is the name of the seed, with which the names of its members begin.
func (s side) seed() string { return [...]string{"seed-a", "seed-b"}[s] }

// zone is the name of the side in the fake clusters.
func (s side) zone() string { return [...]string{"source", "destination"}[s] }

func (s side) String() string { return s.zone() }

// etcd is one of the two etcds of the shoot.
type etcd int

const (
	etcdMain etcd = iota
	etcdEvents
)

func (e etcd) role() string {
	return [...]string{v1beta1constants.ETCDRoleMain, v1beta1constants.ETCDRoleEvents}[e]
}

func (e etcd) String() string { return naming.EtcdName(e.role()) }

// place is where a member may be: a pod, its volume and its node.
type place struct {
	etcd    etcd
	side    side
	ordinal int
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.side, p.ordinal) }

func (p place) podName() string { return naming.PodName(p.etcd.role(), p.ordinal) }

func (p place) memberName() string { return namesOf[p.etcd][p.side][p.ordinal].member }

func (p place) peerURL() string { return namesOf[p.etcd][p.side][p.ordinal].url }

// named are the names of a place.
type named struct{ member, url, action string }

// The names of all places, and the places by the names and peer URLs of members. They are asked for all the time.
var (
	namesOf [2][2][members]named
	placeBy = map[string]place{}
)

func init() {
	forAll(func(p place) {
		n := named{
			member: naming.MemberName(p.side.seed(), p.etcd.role(), p.ordinal),
			url:    naming.PeerURL(p.side.role(), namespace, p.etcd.role(), p.ordinal),
			action: fmt.Sprintf("%s, %s-%d", p.etcd, p.side, p.ordinal),
		}
		namesOf[p.etcd][p.side][p.ordinal] = n
		placeBy[n.member], placeBy[n.url] = p, p
		movesAt[p.etcd][p.side][p.ordinal] = newPlaceMoves(p)
	})
}

func forAll(do func(p place)) {
	for e := range etcd(2) {
		for s := range side(2) {
			for ordinal := range members {
				do(place{e, s, ordinal})
			}
		}
	}
}

// placeOf returns where a member of a list is: by its name once it has started, by its peer URL before.
func placeOf(m etcdclient.Member) (place, bool) {
	if m.Name != "" {
		p, ok := placeBy[m.Name]
		return p, ok
	}
	for _, url := range m.PeerURLs {
		if p, ok := placeBy[url]; ok {
			return p, true
		}
	}
	return place{}, false
}

func zoneOf(m etcdclient.Member) string {
	p, _ := placeOf(m)
	return p.side.zone()
}

// process is what a member's container does.
type process int

const (
	// stopped waits for the sidecar to prepare the member.
	stopped process = iota
	// prepared has been added to the list, and its etcd starts next.
	prepared
	// running is an etcd with data.
	running
	// aside is an etcd that waits for a cluster of its own.
	aside
)

// bogus is the identity in the volume of an etcd that stood aside.
const bogus = 1

// memberAt is what is at a place.
type memberAt struct {
	// exists, deleting, grace, due and uid are those of the pod. newest says that it has the newest template.
	exists, deleting, newest bool
	grace                    int64
	due                      time.Time
	uid                      types.UID
	// lost says that the node is gone, and the volume with it.
	lost bool
	// lease says that the member has been in the cluster: its sidecar has renewed its Lease.
	lease   bool
	process process
	// volume is the identity of the member whose data the volume has; zero if it is empty.
	volume uint64
}

// place returns the place of a pod.
func (w *World) place(s side, podName string) (place, bool) {
	for e := range etcd(2) {
		for ordinal := range members {
			if p := (place{e, s, ordinal}); p.podName() == podName {
				return p, true
			}
		}
	}
	return place{}, false
}

func (w *World) at(p place) *memberAt { return &w.places[p.etcd][p.side][p.ordinal] }
