// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

// traffic disturbs the connections of a probe at the load balancers.
type traffic struct {
	change loadbalancer.Fault
	// both reports that it does so in front of both seeds, not only of the destination.
	both bool
}

var (
	// closed is a load balancer that refuses what the other seed sends.
	closed = traffic{change: loadbalancer.Fault{Cut: loadbalancer.CutReset}}
	// far is a round trip that is longer than a probe permits, and shorter than one with distant regions may be.
	far = traffic{change: loadbalancer.Fault{Latency: metav1.Duration{Duration: 80 * time.Millisecond}}, both: true}
)

func (t traffic) plant(ctx context.Context, w *World) error {
	change := t.change
	change.SNI = fault.RelayNames(probe.NamespaceOf(w.Source, w.Seed.Name))
	return t.on(w, func(balancer fault.LoadBalancer) error { return balancer.Add(ctx, change) })
}

func (t traffic) remove(ctx context.Context, w *World) error {
	return t.on(w, func(balancer fault.LoadBalancer) error { return balancer.Lift(ctx, t.change) })
}

func (t traffic) on(w *World, do func(fault.LoadBalancer) error) error {
	seeds := []string{w.Seed.Name}
	if t.both {
		seeds = append(seeds, w.Source)
	}
	var errs []error
	for _, seed := range seeds {
		errs = append(errs, do(fault.LoadBalancerOf(w.Landscape, seed)))
	}
	return errors.Join(errs...)
}
