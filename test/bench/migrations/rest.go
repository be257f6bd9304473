// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"math"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/machine"
)

// Rest measures for a while what the landscape uses when nothing moves.
func Rest(ctx context.Context, cfg *config.Config, lasts time.Duration) (*data.Landscape, error) {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	names := []string{cfg.Garden.Name}
	for _, seed := range cfg.Seeds {
		names = append(names, seed.Name)
	}
	look := func() (busy time.Duration, clusters map[string]machine.Usage, err error) {
		if busy, err = machine.BusyTime(); err != nil {
			return 0, nil, err
		}
		clusters = map[string]machine.Usage{}
		for _, name := range names {
			if clusters[name], err = cgroups.Usage(cfg.Prefix + "-" + name); err != nil {
				return 0, nil, err
			}
		}
		return busy, clusters, nil
	}

	busy, before, err := look()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(lasts):
	}
	busyAfter, after, err := look()
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	used, err := machine.UsedMemory()
	if err != nil {
		return nil, err
	}
	out := &data.Landscape{Machine: usage(busyAfter-busy, took, float64(used)), Clusters: map[string]data.Usage{}}
	for _, name := range names {
		out.Clusters[name] = usage(after[name].CPU-before[name].CPU, took, float64(after[name].Memory))
	}
	return out, nil
}

func usage(cpu, took time.Duration, memory float64) data.Usage {
	return data.Usage{CPUCores: math.Round(100*cpu.Seconds()/took.Seconds()) / 100,
		MemoryMiB: math.Round(memory / (1 << 20))}
}
