// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// surroundings are the garden, and the seeds as far as there is access to them.
type surroundings struct {
	*options
	garden  *access.Garden
	seeds   access.Seeds
	members *inspect.Members
	// config is the user's configuration, with what the garden is asked for to get into managed seeds; tried are those
	// that it was asked for.
	config access.Config
	tried  map[string]bool
	// forecast tells how long migrations take.
	forecast *inspect.Forecast
}

// look looks at a migration once.
type look func(context.Context) (summary.ControlPlane, error)

// open connects to the garden and to the seeds. Close ends what was connected to.
func (o *options) open(ctx context.Context) (*surroundings, error) {
	seeds, config, err := o.openSeeds()
	if err != nil {
		return nil, err
	}
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &surroundings{options: o, garden: g, seeds: seeds, members: inspect.NewMembers(seeds),
		config: config, tried: map[string]bool{}, forecast: o.forecast(g)}, nil
}

// forecast returns what tells how long migrations take, and asks name servers for it.
func (o *options) forecast(g *access.Garden) *inspect.Forecast {
	return &inspect.Forecast{Garden: g, NameServers: dns.NewNameServers(nil), Clock: o.clock}
}

// close closes the connections to etcd members.
func (s *surroundings) close() { s.members.Close() }

// lookAtShoot returns what looks at the shoot in the garden.
func (s *surroundings) lookAtShoot(name string) look {
	return func(ctx context.Context) (summary.ControlPlane, error) {
		shoot, err := s.garden.Shoot(ctx, name)
		if err != nil {
			return summary.ControlPlane{}, err
		}
		return summary.ControlPlane{Now: metav1.NewTime(s.clock.Now()), Shoot: shoot}, nil
	}
}

// lookAtGarden returns what looks at the shoot, and at what tells how long its migration takes.
func (s *surroundings) lookAtGarden(name string) look {
	lookAtShoot := s.lookAtShoot(name)
	return func(ctx context.Context) (summary.ControlPlane, error) {
		w, err := lookAtShoot(ctx)
		if err == nil {
			w.Expected = s.forecast.Of(ctx, w.Shoot, nil)
		}
		return w, err
	}
}

// lookAtAll returns what also looks at the seeds, and at the probe on this machine.
func (s *surroundings) lookAtAll(name string) look {
	lookAtShoot := s.lookAtShoot(name)
	return func(ctx context.Context) (summary.ControlPlane, error) {
		w, err := lookAtShoot(ctx)
		if err != nil {
			return w, err
		}
		migration := summary.Summarize(w.Shoot, w.Now.Time)
		s.reach(ctx, migration.Source, migration.Destination)
		w.Seeds = inspect.ControlPlanes(ctx, s.seeds, w.Shoot, migration.Source, migration.Destination)
		inspect.FillMembers(w.Seeds, s.members.Ask(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(w.Shoot),
			migration.Source, migration.Destination))
		if store, err := steer.DefaultCountsStore(); err == nil {
			w.Probe = store.Read(steer.CountsKey(s.garden.Host, w.Shoot), w.Now.Time)
		}
		w.Expected = s.forecast.Of(ctx, w.Shoot, w.Seeds)
		return w, nil
	}
}
