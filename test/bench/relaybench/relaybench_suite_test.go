// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relaybench_test

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/relaybench"
)

// envServe makes a relay of this program.
const envServe = "LIVECPM_TEST_RELAY"

func TestRelaybench(t *testing.T) {
	if os.Getenv(envServe) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := relaybench.Serve(ctx, os.Args[len(os.Args)-1]); err != nil {
			t.Fatal(err)
		}
		return
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Bench Relay Suite")
}
