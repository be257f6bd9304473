// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SeedReady is seedReady for tests.
var SeedReady = seedReady

// Create and Wait are steps of Up.
func (s *Shoot) Create(ctx context.Context, c client.Client) error { return s.create(ctx, c) }

// Wait waits for the last operation.
func (s *Shoot) Wait(ctx context.Context, c client.Client) error { return s.wait(ctx, c) }

// Remove is the step of Down that talks to the garden.
func (s *Shoot) Remove(ctx context.Context, c client.Client) error { return s.remove(ctx, c) }

// Manifest renders the shoot for the region.
func (s *Shoot) Manifest(region, version string) ([]byte, error) { return s.manifest(region, version) }
