// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

// link is what goes from seed to seed for the shoot. Each connection passes one load balancer, that of the seed it
// leads to.
type link struct {
	namespace     string
	loadBalancers []fault.LoadBalancer
}

func (b *Bench) link(ctx context.Context) (*link, error) {
	shoot, err := b.shoot.Get(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{namespace: shoot.Status.TechnicalID}
	for _, seed := range b.Landscape.Seeds {
		l.loadBalancers = append(l.loadBalancers, fault.LoadBalancerOf(b.Landscape, seed.Name))
	}
	return l, nil
}

// stretch adds the round trip. The load balancer delays both directions of a connection, and its begin by a round
// trip.
func (l *link) stretch(ctx context.Context, roundTrip time.Duration) error {
	if roundTrip == 0 {
		return nil
	}
	change := loadbalancer.Fault{SNI: fault.RelayNames(l.namespace), Latency: metav1.Duration{Duration: roundTrip / 2}}
	for _, loadBalancer := range l.loadBalancers {
		if err := loadBalancer.Add(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

func (l *link) reset(ctx context.Context) error {
	var errs []error
	for _, loadBalancer := range l.loadBalancers {
		errs = append(errs, loadBalancer.Lift(ctx, loadbalancer.Fault{}))
	}
	return errors.Join(errs...)
}
