// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"time"

	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// link is what goes from seed to seed for the shoot. Each connection passes one gateway, that of the seed it leads to.
type link struct {
	namespace string
	gateways  map[string]fault.Gateway
}

func (b *Bench) link(ctx context.Context) (*link, error) {
	shoot, err := b.shoot.Get(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{namespace: shoot.Status.TechnicalID, gateways: map[string]fault.Gateway{}}
	for _, seed := range b.Landscape.Seeds {
		cluster, err := driver.Connect(b.Landscape, seed.Name)
		if err != nil {
			return nil, err
		}
		l.gateways[seed.Name] = fault.GatewayOf(fault.Seed{Name: seed.Name, Kube: cluster.Kube})
	}
	return l, nil
}

// stretch adds the round trip. The gateway delays both directions of a connection.
func (l *link) stretch(ctx context.Context, roundTrip time.Duration) error {
	if roundTrip == 0 {
		return nil
	}
	for _, gateway := range l.gateways {
		if err := gateway.Add(ctx,
			fault.GatewayFault{SNI: "*--" + l.namespace + ".*", Latency: (roundTrip / 2).String()}); err != nil {
			return err
		}
	}
	return nil
}

func (l *link) reset(ctx context.Context) error {
	var errs []error
	for _, gateway := range l.gateways {
		errs = append(errs, gateway.Lift(ctx, fault.GatewayFault{}))
	}
	return errors.Join(errs...)
}
