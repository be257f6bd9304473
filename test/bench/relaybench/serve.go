// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relaybench

import (
	"context"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

// Serve runs a relay with the configuration in the file, in a process of its own so that its cost can be told from that
// of both ends. The program livecpm-relay would insist on the services of a shoot as targets.
func Serve(ctx context.Context, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the relay's configuration: %w", err)
	}
	cfg := &config.Config{}
	if err := yaml.Unmarshal(content, cfg); err != nil {
		return fmt.Errorf("failed to parse the relay's configuration: %w", err)
	}
	config.SetDefaults(cfg)
	if err := config.Validate(cfg).ToAggregate(); err != nil {
		return fmt.Errorf("the relay's configuration is not valid: %w", err)
	}
	r, err := relay.New(cfg, logr.Discard(), clock.RealClock{})
	if err != nil {
		return err
	}
	return r.Start(ctx)
}
