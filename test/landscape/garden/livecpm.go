// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
)

const (
	// LivecpmIdentity is the user that livecpm-controller-manager is in the garden. What it may do is in the chart.
	LivecpmIdentity = "livecpm-controller-manager"

	livecpm            = "livecpm-controller-manager"
	livecpmHealthPort  = 2720
	livecpmMetricsPort = 2721
)

//go:embed manifests/livecpm-controller-manager.yaml
var livecpmConfig string

// StartLivecpm starts the program livecpm-controller-manager in the binary beside gardener-controller-manager and waits
// until it answers.
func StartLivecpm(ctx context.Context, cfg *config.Config, processes *process.Manager, binary string) error {
	ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
	if err != nil {
		return err
	}
	identity, err := ca.Ensure(livecpm+"-client", pki.Request{CommonName: LivecpmIdentity})
	if err != nil {
		return err
	}
	g := &Garden{Config: cfg, CA: ca}
	kubeconfig := cfg.Dir(cfg.Garden.Name, livecpm+".kubeconfig")
	if err := pki.EnsureKubeconfig(kubeconfig, g.server(), ca, identity); err != nil {
		return err
	}
	content, err := apply.Render(livecpm+".yaml", livecpmConfig, map[string]any{
		"Kubeconfig": kubeconfig, "HealthPort": livecpmHealthPort, "MetricsPort": livecpmMetricsPort,
		"DrainBudget": cfg.DrainBudget,
	})
	if err != nil {
		return err
	}
	file := cfg.Dir(cfg.Garden.Name, livecpm+".yaml")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("failed to write configuration of %s: %w", livecpm, err)
	}
	daemons, err := cgroups(cfg)
	if err != nil {
		return err
	}
	if _, err := processes.Ensure(ctx, process.Spec{
		Name:       livecpm,
		Command:    []string{binary, "--config=" + file},
		Namespaces: process.Namespaces{Net: filepath.Join("/run/netns", cfg.Garden.Netns)},
		Cgroups:    daemons,
		Files:      []string{binary, file, kubeconfig},
	}); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return processes.Wait(waitCtx, livecpm, g.probe("http://127.0.0.1:"+strconv.Itoa(livecpmHealthPort)+"/readyz"))
}
