// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package front brings the front of a shoot's etcds into the destination and takes it out again.
//
// A front runs in the shoot's namespace from the start of the kube-apiserver in the destination until the members there
// have restarted for the last time. Whoever asks etcd by its service for clients reaches it: the selector of the
// service is changed from the etcd pods to the front's pods. EndpointSlices and Gardener's network policies follow a
// selector by themselves. What they permit in the moment of a change is permitted by policies of the front's own.
//
// etcd-druid owns the service. It sets the selector again whenever it reconciles the specification of the Etcd, which
// is when Gardener's operation annotation asks for it (the gardenlet's configuration has no automatic reconciliation)
// and nobody has suspended it. In a migration that happens when the last member joins and when the Etcd gets its
// ordinary specification. Sync puts the selector back then.
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	defaultPollInterval = 500 * time.Millisecond
	// waitTimeout bounds each wait. Pods have half a minute for their end, and may have to be scheduled.
	waitTimeout = 3 * time.Minute
	// SettleTime is how long the front continues after the EndpointSlices have led back to the etcd members: until
	// then every kube-proxy has followed them, and no new connection comes to the front.
	SettleTime = 5 * time.Second
)

// Options are what Fronts need. All of them are required, but for PullSecrets and PollInterval.
type Options struct {
	// SeedClient is a client of the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// Image is the image of the relay, which has the front as a command.
	Image string
	// PullSecrets are the Secrets with which the image is pulled. The exposure copies them (exposure.Interface).
	PullSecrets exposure.PullSecrets
	// NewSteering returns what steers the pods of one front. They are at the addresses (IP and port) and show a
	// certificate for the server name.
	NewSteering func(addresses []string, serverName string, config *tls.Config) joint.Front
	// PollInterval is the pause between two looks at a world that is expected to change soon. It defaults to half a
	// second.
	PollInterval time.Duration
}

// Fronts makes the fronts of shoots' etcds in the agent's own seed. Nothing is remembered: what a front is for at the
// moment stands in an annotation of its Deployment.
type Fronts struct {
	options Options
}

// New returns Fronts.
func New(options Options) (*Fronts, error) {
	if err := required.Fields("the front of etcd", options, "PullSecrets", "PollInterval"); err != nil {
		return nil, err
	}
	if options.PollInterval == 0 {
		options.PollInterval = defaultPollInterval
	}
	return &Fronts{options: options}, nil
}

// Deploy deploys the fronts of both etcds. Nobody is led to them yet. It fails if an Etcd, or one of the secrets that
// it has to refer to, is missing.
func (f *Fronts) Deploy(ctx context.Context, m *migration.Migration) error {
	return f.each(m, func(c *component) error { return c.deploy(ctx) })
}

// Wait waits until all pods of both fronts are ready.
func (f *Fronts) Wait(ctx context.Context, m *migration.Migration) error {
	return f.each(m, func(c *component) error { return c.wait(ctx) })
}

// Lead leads the clients of both etcds to the fronts, and returns when the EndpointSlices name no other pods. The
// fronts have to be ready. From here on, Sync keeps it so.
func (f *Fronts) Lead(ctx context.Context, m *migration.Migration) error {
	return f.each(m, func(c *component) error { return c.lead(ctx) })
}

// Sync leads clients to the fronts again after etcd-druid has led them to the members. It does nothing before Lead,
// and nothing from the beginning of LeadBack on. It may run beside every other function.
func (f *Fronts) Sync(ctx context.Context, m *migration.Migration) error {
	return f.each(m, func(c *component) error { return c.sync(ctx) })
}

// Keep calls the function and sees to it meanwhile that the clients are led to the fronts; see Sync. It is for work
// that makes etcd-druid lead them elsewhere. Failures of Sync are logged: they are no failures of the work.
func (f *Fronts) Keep(ctx context.Context, m *migration.Migration, work func(context.Context) error) error {
	keeping, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(keeping, m.Clock, f.options.PollInterval) == nil {
			if err := f.Sync(keeping, m); err != nil && keeping.Err() == nil {
				m.Log.Info("Failed to keep the front before etcd", "reason", err.Error())
			}
		}
	}()
	err := work(ctx)
	stop()
	<-ended
	return err
}

// LeadBack leads the clients of both etcds to their members again, as etcd-druid does. It returns when the
// EndpointSlices name ready members only and every kube-proxy has had the time to follow (SettleTime). Call it when all
// members are there to stay, and repeat it after any failure.
func (f *Fronts) LeadBack(ctx context.Context, m *migration.Migration) error {
	var fronted atomic.Bool
	if err := f.each(m, func(c *component) error {
		before, err := c.leadBack(ctx)
		if before {
			fronted.Store(true)
		}
		return err
	}); err != nil {
		return err
	}
	if !fronted.Load() {
		return nil
	}
	if err := sleep(ctx, m.Clock, SettleTime); err != nil {
		return err
	}
	return f.each(m, func(c *component) error { return c.checkLedBack(ctx) })
}

// Remove removes what Deploy has deployed, and returns when nothing is left. Its pods end gracefully: connections that
// are still there go to the members one request after the other. LeadBack has to come before. The network policies go
// last, when Gardener's own permit again what goes to the members.
func (f *Fronts) Remove(ctx context.Context, m *migration.Migration) error {
	return f.each(m, func(c *component) error { return c.remove(ctx) })
}

// Open returns what steers the front of an etcd, or nil if no client is led to one: before Lead, from LeadBack on, and
// in the source. It fails if a pod of the front cannot be steered: whoever holds requests back has to reach all of
// them. The caller closes what it gets.
func (f *Fronts) Open(ctx context.Context, m *migration.Migration, etcdRole string) (joint.Front, error) {
	return f.component(m, etcdRole).open(ctx, m.Clock)
}

func (f *Fronts) component(m *migration.Migration, etcdRole string) *component {
	return &component{
		Options: f.options, log: m.Log.WithName("front").WithValues("etcd", naming.EtcdName(etcdRole)),
		namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot), etcdRole: etcdRole,
		members: naming.MembersOf(m.Shoot),
	}
}

// each calls the function for both etcds at the same time.
func (f *Fronts) each(m *migration.Migration, fn func(c *component) error) error {
	var (
		errs = make([]error, len(naming.EtcdRoles))
		wg   sync.WaitGroup
	)
	for i, etcdRole := range naming.EtcdRoles {
		wg.Go(func() {
			if err := fn(f.component(m, etcdRole)); err != nil {
				errs[i] = fmt.Errorf("front of %s: %w", naming.EtcdName(etcdRole), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}
