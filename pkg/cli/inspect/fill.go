// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// FillMembers replaces what etcd-druid reports on the members by what they say themselves. The cluster is one, wherever
// its members run; each is shown in the seed whose Etcd gives it its name, and one that has no name yet in the last
// seed.
func FillMembers(seeds []summary.Seed, etcds []Etcd) {
	for _, etcd := range etcds {
		var own []*summary.Etcd
		for i := range seeds {
			for j := range seeds[i].Etcds {
				if seeds[i].Etcds[j].Name == naming.EtcdName(etcd.Role) {
					own = append(own, &seeds[i].Etcds[j])
				}
			}
		}
		if len(own) == 0 {
			continue
		}
		if etcd.Err != nil {
			for _, view := range own {
				view.Unasked = etcd.Err.Error()
			}
			continue
		}

		for _, view := range own {
			view.Members = nil
		}
		leader, newest := etcd.Inspection.Leader(), uint64(0)
		for _, member := range etcd.Inspection.Members {
			newest = max(newest, member.Status.RaftIndex)
		}
		// etcd lists its members by ID, that is in an order that means nothing to people. One without a name has not
		// started.
		members := slices.SortedFunc(
			slices.Values(etcd.Inspection.Members), func(a, b etcdclient.MemberInspection) int {
				if (a.Name == "") != (b.Name == "") {
					return cmp.Compare(b.Name, a.Name)
				}
				return cmp.Compare(a.String(), b.String())
			})
		for _, member := range members {
			home := own[len(own)-1]
			for _, view := range own {
				if _, ok := naming.OrdinalOf(member.Name, view.MemberNamePrefix, etcd.Role); ok {
					home = view
				}
			}
			home.Members = append(home.Members, memberOf(member, leader, newest))
		}
	}
}

func memberOf(member etcdclient.MemberInspection, leader, newest uint64) summary.Member {
	out := summary.Member{Name: member.String(), Role: summary.RoleVoter, Status: "Ready"}
	switch {
	case member.Learner:
		out.Role = summary.RoleLearner
	case member.ID == leader:
		out.Role = summary.RoleLeader
	}
	if member.StatusError != nil {
		out.Status = "Unknown"
		return out
	}
	if member.Status.LeaderID == 0 {
		out.Status = "NoLeader"
	}
	out.Lag = ptr.To(newest - min(newest, member.Status.RaftAppliedIndex))
	out.DBSize = ptr.To(member.Status.DBSize)
	return out
}
