// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package membership explores what the two agents do to the membership of a shoot's etcds, in every order of events and
// with losses: a world for package search. What decides is the real code of pkg/etcd/joint, for both roles. The rest is
// a model of what surrounds it:
//
//   - The etcds are fake clusters (pkg/etcd/client/fake), which refuse what etcd refuses. They know which members have
//     which committed entries, who may be elected, and who reaches whom while the seeds are cut from each other.
//   - The API servers of the seeds are maps of the few kinds that package joint uses. A call that is not known is an
//     error or a panic, never a success.
//   - etcd-druid, the controller of StatefulSets, the kubelet and the sidecar of a member (etcd-backup-restore) are a
//     few lines each, with their sources named beside them. Each of their moves may come at any time, or not for long.
//   - What the agents do around package joint is repeated here: which of its functions they call in steps 2 and 6 and
//     in an abort, when the last member is asked for, and what a restart forgets (agents.go).
//
// One move of an agent is one look at one etcd, with what follows from it. Nothing else happens within a move, but an
// agent may be killed after each of its writes. Time has no length: "time passes" is longer than any patience.
//
// What is not here: steps 7 and 8, an abandonment, force-shrink-etcd, fronts, members that are slow, alarms, disruption
// budgets, and pods that are evicted. While the seeds are cut from each other, each agent reaches its own seed only.
// A node that is lost is not replaced. The node of a pod is found to be lost at once.
//
// In each state and after each event:
//
//   - What a majority has acknowledged can be served, now or with members that can come back: a quorum of the voters
//     has its volume, and one of them has all entries. No event but a loss changes that, and no single loss does.
//   - No leader is elected that lacks what a majority has acknowledged.
//   - An agent removes no leader, no member that works, and none whose removal costs the quorum. It stops no member if
//     the others are no quorum then, and promotes none if a failure of the new voter would cost the quorum.
//   - No member of the source that works leaves before three members of the destination vote, and none leaves in an
//     abort.
//   - From each state there is a way to three voters in the destination or, in an abort, in the source, on which no
//     fault happens. Otherwise each way ends where the agents name what is missing.
package membership
