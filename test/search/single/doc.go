// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package single explores how an etcd with one member passes from one seed to the other, in every order of events and
// with losses: a world for package search. What decides is the real code: PassOn and TakeOnlyPod of pkg/etcd/joint. The
// etcd is a fake cluster (pkg/etcd/client/fake), the seeds are a few facts, and the sidecar of a member
// (etcd-backup-restore v0.44.1, pkg/initializer) is a few lines, tried against the real one
// (docs/concepts/single-member.md).
//
// The world begins when everything else is ready: the member of the destination has no pod yet, and the ConfigMap of
// the source names both members. It ends when the member of the destination is the only one, the pod of the source is
// gone, and clients of the source are led to the destination.
//
// After each event:
//
//   - While there are two voters, each has all that was acknowledged: no single loss of a volume costs that.
//   - No member begins a cluster of its own beside the shoot's.
//   - An agent stops no voter, and removes none but one that works, beside another one that works.
//   - Without a loss of a volume there is a way to the end from each state. With one, each way ends where an agent asks
//     a person.
//
// What is not here: the other etcd of the shoot, with which nothing is shared; a learner that does not start, and a
// destination that begins while the source does not answer, which are in package membership; time; an abort.
package single
