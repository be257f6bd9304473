// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const (
	// CheckPeriod is how often Keeper reads what the gardenlet has. Tokens for the garden are renewed hours before they
	// expire.
	CheckPeriod = 30 * time.Second
	// retryPeriod is the wait between two attempts before the agent starts.
	retryPeriod = 2 * time.Second
)

// ErrChanged ends the agent, so that it starts again with what has changed.
var ErrChanged = errors.New("what the agent shares with the gardenlet has changed, restarting with it")

// Keeper keeps the files up to date: Adopt writes them before the agent starts, and as a runnable of the manager it
// follows the gardenlet from then on.
type Keeper struct {
	log    logr.Logger
	seed   client.Reader
	source *configv1alpha1.GardenletSource
	files  Files
	clock  clock.WithTicker
}

// NewKeeper returns a keeper of the files that the configuration names.
func NewKeeper(
	log logr.Logger, seed client.Reader, config *configv1alpha1.AgentConfiguration, c clock.WithTicker,
) *Keeper {
	return &Keeper{log: log.WithName("adoption"), seed: seed, source: config.Gardenlet.Source, files: FilesOf(config),
		clock: c}
}

// Adopt writes the files before the agent starts. It waits for the gardenlet: on a new seed both may come at the same
// time.
func (k *Keeper) Adopt(ctx context.Context) error {
	for {
		_, err := k.update(ctx)
		if err == nil {
			k.log.Info("Took over what the agent shares with the gardenlet", "deployment", k.source.Deployment)
			return nil
		}
		k.log.Error(err, "Failed to read what the agent shares with the gardenlet, retrying")
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for the gardenlet: %w", err)
		case <-k.clock.After(retryPeriod):
		}
	}
}

func (k *Keeper) update(ctx context.Context) (restart bool, err error) {
	content, err := Read(ctx, k.seed, k.source, k.files.Token)
	if err != nil {
		return false, err
	}
	return k.files.Write(content)
}

// Start implements manager.Runnable.
func (k *Keeper) Start(ctx context.Context) error {
	ticker := k.clock.NewTicker(CheckPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			restart, err := k.update(ctx)
			if restart {
				return ErrChanged
			}
			if err != nil && ctx.Err() == nil {
				// The gardenlet may be about to roll; what the agent has stays valid until something else is read.
				k.log.Error(err, "Failed to check the gardenlet for changes")
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has its own files.
func (k *Keeper) NeedLeaderElection() bool { return false }
