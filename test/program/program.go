// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package program helps tests and benchmarks that run programs of this repository on loopback.
package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// pollInterval is the pause between two looks at a program that starts.
const pollInterval = 50 * time.Millisecond

var lastPort atomic.Int32

// FreePort returns a port below those that the kernel gives to whoever asks for any: another connection of this machine
// would take one of them before the program does.
func FreePort() int {
	lastPort.CompareAndSwap(0, 11000+int32(os.Getpid()%8000)) // #nosec G115 -- It is below 8000.
	for {
		port := int(lastPort.Add(1))
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) // #nosec G102 -- It must be free on all addresses.
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
}

// AwaitReady waits until the program with the health port says that it is ready, for so long at most.
func AwaitReady(ctx context.Context, port int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		response, err := http.Get(
			fmt.Sprintf("http://127.0.0.1:%d/readyz", port)) // #nosec G107 -- The host is this one.
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		if Sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("not ready in time: %w", err)
		}
	}
}

// Build builds programs of the repository into the folder, each by the name of its package.
func Build(ctx context.Context, repo, folder string, packages ...string) error {
	command := exec.CommandContext(ctx, "go",
		append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", folder + "/"},
			packages...)...) //nolint:gosec // The packages are constants.
	command.Dir = repo
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("failed to build %s: %w\n%s", strings.Join(packages, ", "), err, output)
	}
	return nil
}

// Sleep waits, and returns the cause if the context ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
