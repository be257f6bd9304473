// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// KeepRolledCluster does for both clusters what keepRolledCluster does, if their members are being restarted. It is for
// the time in which nobody accompanies that: a member that loses its data must be able to join again in a hold as well.
func (j *Joint) KeepRolledCluster(ctx context.Context) error {
	var errs []error
	for _, etcdRole := range naming.EtcdRoles {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !(rollout{etcd: etcd}).underWay() {
			continue
		}
		seen, err := j.Observe(ctx, etcdRole)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, problem := seen.problem(); problem != "" {
			continue
		}
		j.keepRolledCluster(ctx, etcdRole, seen)
	}
	return errors.Join(errs...)
}

// keepRolledCluster keeps the initial cluster in the configuration of the destination's members what a member needs
// that loses its data while they restart with the ordinary specification.
//
// That specification names all members by their ordinary peer URLs, but in the member list each has the one of the
// migration until it has restarted. etcd does not start a member without data beside others that its initial cluster
// names by other URLs (see WidenInitialCluster), and the others do not restart as long as one of them has no vote:
// without this, nobody would move any more. So the configuration follows the member list as long as a member is missing
// there, or has no vote. Otherwise it is what etcd-druid has written, which is suspended meanwhile.
//
// A running etcd does not look at the configuration, so nothing restarts for it. Only a member that has lost its data
// needs it, so nothing else waits for it if it fails.
func (j *Joint) keepRolledCluster(ctx context.Context, etcdRole string, seen Observation) {
	if err := j.changeInitialCluster(ctx, etcdRole, func(entries []string) []string {
		return j.rolledEntries(etcdRole, seen, entries)
	}); err != nil && ctx.Err() == nil {
		j.Log.Error(err, "Failed to keep the peer URLs of the members in their configuration", "etcd",
			naming.EtcdName(etcdRole))
	}
}

// rolledEntries names each member of the destination by the peer URL by which it is to be found. The one without a vote
// comes back with the ordinary one, whatever it had before.
func (j *Joint) rolledEntries(etcdRole string, seen Observation, entries []string) []string {
	urls := map[string][]string{}
	for ordinal := range j.Members {
		urls[naming.MemberName(j.DestinationSeed, etcdRole, ordinal)] = j.plainURLs(etcdRole, ordinal)
	}
	if voters := seen.Members.Voters().On(quorum.Destination); len(voters) < j.Members {
		for _, member := range voters {
			if known := seen.Raw[member.ID].PeerURLs; len(known) > 0 {
				urls[member.Name] = slices.Sorted(slices.Values(known))
			}
		}
	}
	var (
		out   []string
		named = map[string]bool{}
	)
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry, "=")
		known, ours := urls[name]
		switch {
		case !ours:
			out = append(out, entry)
		case !named[name]:
			// etcd wants an entry for each peer URL of a member (types.NewURLsMap).
			for _, url := range known {
				out = append(out, name+"="+url)
			}
		}
		named[name] = true
	}
	return out
}
