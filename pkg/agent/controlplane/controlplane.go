// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is about the objects of a shoot's control plane in the agent's own seed: both roles stop and
// remove them, and guards look at them.
package controlplane

import (
	"context"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration"
)

// Options are what a ControlPlane needs. All of them are required.
type Options struct {
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache.
	SeedClientSet kubernetes.Interface
	// Timings are the periods of the waits.
	Timings flows.Timings
	// Clock is the clock.
	Clock clock.PassiveClock
	// DestroyTunnel removes the way to the other seed from this seed and waits until it is gone.
	DestroyTunnel func(ctx context.Context, m *migration.Migration) error
}

// ControlPlane works on the control planes of shoots in the agent's own seed.
type ControlPlane struct {
	options Options
}

// New returns a ControlPlane.
func New(options Options) (*ControlPlane, error) {
	if err := required.Fields("the access to control planes", options); err != nil {
		return nil, err
	}
	return &ControlPlane{options: options}, nil
}
