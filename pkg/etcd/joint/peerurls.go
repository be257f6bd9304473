// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"slices"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// widenPeerURLs adds the ordinary peer URL of a member of the destination to that of the migration in the member list,
// right before the member restarts with the former.
//
// The sidecar of a member that starts changes the member list, and then stops etcd for a second time, if a peer URL of
// its configuration is missing there (etcd-backup-restore v0.44.1, pkg/server/backuprestoreserver.go,
// hasPeerURLChanged). With both of them it finds nothing to change. The other members try the two in turn, whenever
// they dial (etcd 3.5.27, rafthttp/urlpick.go), and at any time the member listens on one of them: they reach it as
// soon as it is back, without waiting for its sidecar. Who votes does not change, and connections that are open stay.
//
// Where the list has one of them only, as when an agent of an older release has let the member restart, the sidecar
// does as described.
func (j *Joint) widenPeerURLs(ctx context.Context, etcdRole string, member quorum.Member) error {
	return j.changePeerURLs(ctx, etcdRole, member, func(known []string) []string {
		return append(j.plainURLs(etcdRole, member.Ordinal), known...)
	})
}

// narrowPeerURLs ends widenPeerURLs when the member has restarted and serves, and reports whether there was something
// to end. It leaves a list alone in which the ordinary peer URL is missing: that is for the member's sidecar.
func (j *Joint) narrowPeerURLs(ctx context.Context, r rollout, seen Observation, ordinal int) (bool, error) {
	member, ok := memberOf(seen, ordinal)
	if !ok || !r.restarted(ordinal) || !isReady(r.pods[ordinal]) || member.Learner || !member.Healthy {
		return false, nil
	}
	known, plain := seen.Raw[member.ID].PeerURLs, j.plainURLs(r.etcdRole, ordinal)
	if sameURLs(known, plain) || !slices.Contains(known, plain[0]) {
		return false, nil
	}
	return true, j.changePeerURLs(ctx, r.etcdRole, member, func([]string) []string { return plain })
}

// changePeerURLs changes the peer URLs of a member in the list, if there is something to change. It lists the members
// again, demands a quorum of healthy voters and no stranger among them, and reads back what it has written.
func (j *Joint) changePeerURLs(
	ctx context.Context, etcdRole string, member quorum.Member, change func(known []string) []string,
) error {
	seen, err := j.observeHealthy(ctx, etcdRole)
	if err != nil {
		return err
	}
	listed, ok := seen.Raw[member.ID]
	if !ok {
		return fmt.Errorf("failed to change the peer URLs of etcd member %s: it is not in the member list any more: %s",
			member.Name, seen.Members)
	}
	wanted := urlSet(change(listed.PeerURLs))
	if sameURLs(listed.PeerURLs, wanted) {
		return nil
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return err
	}
	j.Log.Info("Changing the peer URLs of a member in the member list", "etcd", naming.EtcdName(etcdRole),
		"member", member.Name, "before", listed.PeerURLs, "after", wanted, "members", seen.Members.String())
	if err := cluster.UpdatePeerURLs(ctx, member.ID, wanted); err != nil {
		return fmt.Errorf("failed to change the peer URLs of etcd member %s: %w", member.Name, err)
	}
	list, err := cluster.List(ctx)
	if err != nil {
		return fmt.Errorf("failed to read the peer URLs of etcd member %s back: %w", member.Name, err)
	}
	for _, m := range list.Members {
		if m.ID == member.ID && sameURLs(m.PeerURLs, wanted) {
			return nil
		}
	}
	return fmt.Errorf("failed to change the peer URLs of etcd member %s to %v: the member list does not have them",
		member.Name, wanted)
}

// urlSet returns the URLs in order, each once.
func urlSet(urls []string) []string { return slices.Compact(slices.Sorted(slices.Values(urls))) }

// sameURLs reports whether both are the same URLs. etcd keeps no order of them.
func sameURLs(a, b []string) bool { return slices.Equal(urlSet(a), urlSet(b)) }
