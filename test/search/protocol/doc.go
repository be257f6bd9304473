// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package protocol searches what the agents of both seeds do to a Shoot and to what runs in the seeds, in every order.
//
// # What is real
//
//   - Every move of an agent is a call of agent.Reconciler.Reconcile: the frame with its decisions (pkg/migration), its
//     writes and its optimistic lock.
//   - The gate is proved by pkg/preflight/gate. The policy is that of the chart, evaluated by the code of the API
//     server. Every write goes through it while it is in force.
//   - Persons use pkg/cli/steer. Where that refuses, they set the annotation themselves, and the policy judges.
//   - Who may act where is judged by pkg/migration/ownership. What a person sees is told by pkg/migration/summary.
//   - A difference of versions is judged by the guard of pkg/preflight.
//
// # What is a model
//
//   - The garden (garden.go) has one Shoot. It refuses a patch of an earlier resource version.
//   - The seeds (seeds.go) are a record of which sets of the table of ownership are at work in each, how many etcd
//     members each has, and where DNS leads. The actions of the roles (work.go) change it, one part in each attempt.
//   - Time has two values, now and long ago, which is more than every deadline and every patience. "time passes" makes
//     everything that was now long ago. It does not happen while a pass is under way.
//   - All guards but that of the versions are one, the health of the etcds.
//   - An agent makes one pass at a time, and the replicas of a seed never both: leader election sees to that. What
//     accompanies a running action is not there; an action that is interrupted is one that is killed.
//   - Events are not recorded, and metrics decide nothing.
//
// # What may happen
//
// At any time: a pass of each agent; the end of each fault; time passes; what the state names to a person (persons.go).
//
// As often as Model.Faults permits: any call of a pass fails, or has its effect and its answer is lost, or is the first
// one after which the garden does not answer; an agent is slow before any call, while everybody else acts, and then
// continues with what it has read, or is killed; the API server of a seed does not answer; the relays are lost; an etcd
// member is not healthy; the versions differ; the gate is lost, and then the gardener-controller-manager sets the
// constraint ReadyForMigration, and then the gardenlet begins the classic migration; a gardenlet restarts and sets the
// last operation to Aborted; a seed is lost for good (World.losable says when: once, and where the protocol has a way
// out).
//
// As often as Model.Requests permits, whether it makes sense or not: a person pauses, resumes, retries, aborts,
// abandons either seed, starts again, confirms versions, sets or removes force-shrink, or takes any of that back. While
// the gate is lost, nobody does what only the gate would have refused, and nobody sets force-shrink when the
// destination is lost for good.
//
// # What must hold
//
// See rules.go. And from every state an end is reached without a further fault, if persons do what the state names: the
// shoot is handed over, or stays in the source, or is left to the classic migration when nothing of the live one is
// left. World.Goal has the ends.
package protocol
