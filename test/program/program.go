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
	var last error
	for {
		err := ask(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
		if err == nil {
			return nil
		}
		// That the time was over while the last question was asked says less than the answer before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if Sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("not ready in time: %w", last)
		}
	}
}

// ask returns an error unless the answer is OK. A program that takes the question and never answers is waited for as
// long as the context lasts, and no longer.
func ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
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
