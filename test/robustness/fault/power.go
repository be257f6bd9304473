// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/node"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// powerOf returns the switches of the landscape's nodes.
func powerOf(landscape *config.Config, log func(format string, args ...any)) func(seed Seed) Power {
	return func(seed Seed) Power { return &power{landscape: landscape, seed: seed.Name, log: log} }
}

type power struct {
	landscape *config.Config
	seed      string
	log       func(format string, args ...any)
}

func (p *power) cluster() (*node.Node, error) {
	seed, err := p.landscape.Seed(p.seed)
	if err != nil {
		return nil, err
	}
	return node.New(p.landscape, seed, process.NewManager(p.landscape.State))
}

func (p *power) PowerOff(name string) error {
	cluster, err := p.cluster()
	if err != nil {
		return err
	}
	return cluster.PowerOff(name)
}

func (p *power) Off() []string {
	cluster, err := p.cluster()
	if err != nil {
		p.log("failed to look at the nodes of %s: %v", p.seed, err)
		return nil
	}
	return cluster.Off()
}

func (p *power) Replace(ctx context.Context) error {
	cluster, err := p.cluster()
	if err != nil {
		return err
	}
	return cluster.Replace(ctx, p.log)
}
