// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/process"
)

const controllerManager = "livecpm-controller-manager"

// KillManager kills livecpm-controller-manager without a warning. Nobody starts it again but StartManager.
func KillManager(ctx context.Context, landscape *config.Config) error {
	processes := process.NewManager(landscape.State)
	pid := processes.PID(controllerManager)
	if pid == 0 {
		return errors.New(controllerManager + " does not run")
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("failed to kill %s: %w", controllerManager, err)
	}
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return processes.PID(controllerManager) == 0, nil
	}); err != nil {
		return fmt.Errorf("%s is not gone in time: %w", controllerManager, err)
	}
	return nil
}

// StartManager starts livecpm-controller-manager as the landscape does, unless it runs.
func StartManager(ctx context.Context, landscape *config.Config) error {
	binary, err := build.Own(ctx, landscape, controllerManager, "./cmd/"+controllerManager)
	if err != nil {
		return err
	}
	return garden.StartLivecpm(ctx, landscape, process.NewManager(landscape.State), binary)
}
