// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// plugin is kubectl livecpm as a process of its own, as operators call it.
type plugin struct {
	cfg *config.Config
	// folder is the test's own.
	folder string
}

func (p plugin) binary() string { return filepath.Join(p.folder, "kubectl-livecpm") }

// build builds the plugin.
func (p plugin) build(ctx context.Context) {
	GinkgoHelper()
	By("building the plugin")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", p.binary(), "./cmd/kubectl-livecpm")
	build.Dir = p.cfg.Repo
	built, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(built))
}

// command returns a command with access to the garden and both seeds.
func (p plugin) command(ctx context.Context, args ...string) *exec.Cmd {
	all := []string{"--kubeconfig", p.cfg.Kubeconfig(p.cfg.Garden.Name), "-n", shoot.Namespace}
	for _, seed := range p.cfg.Seeds {
		all = append(all, "--seed-kubeconfig", seed.Name+"="+p.cfg.Kubeconfig(seed.Name))
	}
	cmd := exec.CommandContext(ctx, p.binary(), append(args, all...)...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(p.folder, "cache"), "NO_COLOR=1")
	// As Ctrl-C does: the probe has something to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Minute
	return cmd
}
