// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// AnnotationAbandon names the destination that the source is to abandon.
const AnnotationAbandon = steps.AnnotationAbandon

// Operator is an operator with another shell.
type Operator struct {
	Shell runner
	Pages map[string]*Page
	// Source and Destination are the names of the seeds.
	Source, Destination string
}

// Follow lets the operator follow the pages.
func (f Operator) Follow(ctx context.Context, scenario Scenario) error {
	return f.act(ctx, func(o *operator) error { return o.recover(ctx, scenario) })
}

// Abandon lets the operator abandon the destination.
func (f Operator) Abandon(ctx context.Context) error {
	return f.act(ctx, func(o *operator) error { return o.abandon(ctx) })
}

// AbandonSource lets the operator have the destination finish without the source, and clear the source.
func (f Operator) AbandonSource(ctx context.Context) error {
	return f.act(ctx, func(o *operator) error {
		return errors.Join(o.abandonSource(ctx), o.clearSource(ctx))
	})
}

// Abort lets the operator ask for an abort.
func (f Operator) Abort(ctx context.Context) error {
	return f.act(ctx, func(o *operator) error { return o.abort(ctx) })
}

// Stay lets the operator leave the shoot where it is after an abort.
func (f Operator) Stay(ctx context.Context) error {
	return f.act(ctx, func(o *operator) error { return o.stay(ctx) })
}

func (f Operator) act(ctx context.Context, do func(*operator) error) error {
	o := &operator{runner: f.Shell, pages: f.Pages, source: f.Source, destination: f.Destination}
	if err := o.begin(ctx, "NS=shoot--demo--live\n"); err != nil {
		return err
	}
	return do(o)
}

// PauseFor is the step before which the migration has to pause for the next of the losses.
var PauseFor = pauseFor

// AmidRoll reports whether the moment in the last step has come.
var AmidRoll = amidRoll

// ReplaceRelay replaces the relay of an ordinal.
var ReplaceRelay = replaceRelay

// Missing tells which of the members of etcd-main, by their former identifiers, have not joined again.
func Missing(now map[string]uint64, learners int, former map[string]uint64) string {
	list, lost := &membership{ids: now, learners: learners}, map[string]lostMember{}
	for name, id := range former {
		lost[name] = lostMember{etcd: "main", id: id}
	}
	return missing(map[string]*membership{"main": list}, lost)
}

// Sides are the roles that a loss of members can have.
var Sides = []steps.Role{steps.Source, steps.Destination}

// NewWriting returns what makes one attempt of a writing after the other.
func NewWriting(store objects, key string) func(context.Context) (uint64, error) {
	return (&writing{store: store, key: key}).attempt
}
