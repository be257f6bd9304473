// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package probe tries the connection between two seeds before a migration needs it. The agents of both seeds take part,
// each in its own seed: they deploy the relays of a migration, through the gateway of a migration, in a namespace that
// exists for the probe only, with an answerer in the place of an etcd member. Each measures the way to the other one,
// writes on its Seed what it has found, and removes everything.
//
// The agents find each other on their Seeds (seedfacts.Probes), which both may read: each publishes there the
// certificate of an authority that it has made for this one probe.
package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
)

const (
	// lookPeriod is how often the agent looks whether a probe is asked for.
	lookPeriod = 10 * time.Second
	// retryPause is how long after a probe that has found something the next one begins, as long as a migration waits.
	retryPause = 2 * time.Minute
	// roundLimit bounds a round. What is left of it then is removed.
	roundLimit = 20 * time.Minute
)

// Options are what a Prober needs. All of them are required, but for PullSecrets and Off.
type Options struct {
	// Log is the log.
	Log logr.Logger
	// Garden reads the garden without a cache.
	Garden client.Reader
	// GardenClient writes the agent's own Seed, and reads the Shoots of the seed from a cache: listing them is
	// permitted to no other reader.
	GardenClient client.Client
	// SeedClient is a client of the agent's own seed without a cache.
	SeedClient client.Client
	// SeedName is the name of that seed.
	SeedName string
	// RelayImage is the image of the relay.
	RelayImage string
	// PullSecrets are the Secrets with which the image is pulled.
	PullSecrets exposure.PullSecrets
	// Images are where the images of control planes come from.
	Images Images
	// Gateway is the ingress gateway that migrations take.
	Gateway exposure.Istio
	// Measure measures the way to the other seed; see answer.Measure.
	Measure func(ctx context.Context, question answer.Question) (answer.Measurement, error)
	// Clock is the clock.
	Clock clock.WithTicker
	// Off reports that the agent does not take part in probes, and says so on its Seed.
	Off bool
}

// Prober is a runnable of the manager that takes part in probes. Only the agent that leads does so.
type Prober struct {
	options Options

	// writing is held while the Seed is written.
	writing sync.Mutex

	lock sync.Mutex
	// running are the rounds of this agent, by the name of the other seed.
	running map[string]bool
	// swept is set when nothing is left of rounds that an agent before this one has not ended.
	swept  bool
	rounds sync.WaitGroup
}

// New returns a Prober.
func New(options Options) (*Prober, error) {
	if err := required.Fields("the probes of connections", options, "PullSecrets", "Off"); err != nil {
		return nil, err
	}
	if err := required.Fields("the probes of images", options.Images); err != nil {
		return nil, err
	}
	return &Prober{options: options, running: map[string]bool{}}, nil
}

// Start implements manager.Runnable. When it ends, all rounds have ended, and what they had made is being removed.
func (p *Prober) Start(ctx context.Context) error {
	defer p.Wait()
	ticker := p.options.Clock.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		if err := p.Look(ctx); err != nil && ctx.Err() == nil {
			p.options.Log.Error(err, "Failed to look whether a probe is asked for, retrying")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Wait waits until the rounds that have begun have ended.
func (p *Prober) Wait() { p.rounds.Wait() }

// Look begins the probes that are asked for, and removes what was left behind.
func (p *Prober) Look(ctx context.Context) error {
	if err := p.sweep(ctx); err != nil {
		return err
	}
	var due []string
	if err := p.write(ctx, func(seed *gardencorev1beta1.Seed, probes *seedfacts.Probes) error {
		var err error
		if due, err = p.due(ctx, seed, *probes); err != nil {
			return err
		}
		p.tidy(seed, probes)
		return nil
	}); err != nil {
		return err
	}
	for _, peer := range due {
		p.begin(ctx, peer)
	}
	return nil
}

// tidy removes from the Seed what does not count any more, and the rounds that an agent before this one has not ended.
func (p *Prober) tidy(seed *gardencorev1beta1.Seed, probes *seedfacts.Probes) {
	now := p.options.Clock.Now()
	if p.options.Off {
		*probes = seedfacts.Probes{Off: true}
	} else {
		probes.Off = false
	}
	probes.Forget(now)
	for _, connection := range slices.Clone(probes.Connections) {
		if connection.Round != nil && !p.isRunning(connection.Seed) {
			connection.Round = nil
			probes.Set(connection)
		}
	}
	seedfacts.DropRequests(seed, *probes, now)
}

// due returns the seeds to which the connection is to be probed now.
func (p *Prober) due(
	ctx context.Context, seed *gardencorev1beta1.Seed, probes seedfacts.Probes,
) ([]string, error) {
	if p.options.Off {
		return nil, nil
	}
	now := p.options.Clock.Now()
	requests := seedfacts.ProbeRequests(seed, now)
	waiting, err := p.waiting(ctx)
	if err != nil {
		return nil, err
	}
	peers := maps.Clone(waiting)
	for peer := range requests {
		peers[peer] = true
	}
	var out []string
	for peer := range peers {
		if p.isRunning(peer) {
			continue
		}
		said, err := p.saidBy(ctx, peer)
		if err != nil {
			p.options.Log.Error(err, "Failed to look whether another seed probes, retrying", "peer", peer)
			continue
		}
		result, round := probes.To(peer).Result, said.To(p.options.SeedName).Round
		at, requested := requests[peer]
		switch {
		case said.Off:
		case requested && !seedfacts.Answers(result, at), waiting[peer] && needed(result, now),
			// The other side has begun again: it has found something else, or has lost what it had.
			round != nil && now.Sub(round.Began.Time) < joinPatience &&
				(result == nil || result.Of != seedfacts.Fingerprint(round.Authority)):
			out = append(out, peer)
		}
	}
	return out, nil
}

// needed reports whether a migration that waits for its first step needs another probe.
func needed(result *seedfacts.ProbeResult, now time.Time) bool {
	return result == nil || result.Outdated(now) || !result.InOrder() && now.Sub(result.LookedAt.Time) >= retryPause
}

// waiting returns the other seeds of the migrations that have not begun yet.
func (p *Prober) waiting(ctx context.Context) (map[string]bool, error) {
	shoots := &gardencorev1beta1.ShootList{}
	if err := p.options.GardenClient.List(ctx, shoots); err != nil {
		return nil, fmt.Errorf("failed to list the Shoots of seed %s: %w", p.options.SeedName, err)
	}
	out := map[string]bool{}
	for i := range shoots.Items {
		shoot := &shoots.Items[i]
		if _, ok := steps.RoleOf(shoot, p.options.SeedName); !ok || !steps.NeedsAgents(shoot) || steps.InFlight(shoot) {
			continue
		}
		source, destination, _ := steps.Seeds(shoot)
		if source == p.options.SeedName {
			out[destination] = true
		} else {
			out[source] = true
		}
	}
	return out, nil
}

// saidBy returns what the agent of the other seed says about its probes; nothing if it takes no part in any.
func (p *Prober) saidBy(ctx context.Context, peer string) (seedfacts.Probes, error) {
	var probes seedfacts.Probes
	seed, err := botanist.ReadSeed(ctx, p.options.Garden, peer)
	if err != nil {
		return probes, err
	}
	if _, published := seed.Annotations[seedfacts.AnnotationProbes]; !published {
		return probes, nil
	}
	return probes, seedfacts.Of(seed, seedfacts.AnnotationProbes, &probes)
}

// seenBy returns what the agent of the other seed knows of the connection to this one.
func (p *Prober) seenBy(ctx context.Context, peer string) (seedfacts.Connection, error) {
	probes, err := p.saidBy(ctx, peer)
	return probes.To(p.options.SeedName), err
}

// begin begins a round, unless one is running with the same seed.
func (p *Prober) begin(ctx context.Context, peer string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running[peer] {
		return
	}
	p.running[peer] = true
	p.rounds.Go(func() {
		defer func() {
			p.lock.Lock()
			defer p.lock.Unlock()
			delete(p.running, peer)
		}()
		ctx, cancel := context.WithTimeout(ctx, roundLimit)
		defer cancel()
		p.round(ctx, peer)
	})
}

func (p *Prober) isRunning(peer string) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.running[peer]
}

// sweep removes what rounds have left behind that this agent does not run.
func (p *Prober) sweep(ctx context.Context) error {
	p.lock.Lock()
	swept := p.swept
	p.lock.Unlock()
	if swept {
		return nil
	}
	namespaces := &corev1.NamespaceList{}
	if err := p.options.SeedClient.List(ctx, namespaces, client.MatchingLabels{LabelProbe: "true"}); err != nil {
		return fmt.Errorf("failed to list the namespaces of probes: %w", err)
	}
	for i := range namespaces.Items {
		if p.isRunning(namespaces.Items[i].Annotations[annotationPeer]) {
			continue
		}
		if err := client.IgnoreNotFound(p.options.SeedClient.Delete(ctx, &namespaces.Items[i])); err != nil {
			return fmt.Errorf("failed to delete namespace %s of a probe: %w", namespaces.Items[i].Name, err)
		}
	}
	p.setSwept(true)
	return nil
}

func (p *Prober) setSwept(swept bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.swept = swept
}

// write changes what the agent's own Seed says about probes.
func (p *Prober) write(
	ctx context.Context, change func(seed *gardencorev1beta1.Seed, probes *seedfacts.Probes) error,
) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	seed, err := botanist.ReadSeed(ctx, p.options.Garden, p.options.SeedName)
	if err != nil {
		return err
	}
	before := seed.DeepCopy()
	var probes seedfacts.Probes
	if seedfacts.Of(seed, seedfacts.AnnotationProbes, &probes) != nil {
		// There is none yet, or one that nobody can read: it is written again.
		probes = seedfacts.Probes{}
	}
	if err := change(seed, &probes); err != nil {
		return err
	}
	value, err := seedfacts.Encode(probes)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.AnnotationProbes, value)
	if maps.Equal(before.Annotations, seed.Annotations) {
		return nil
	}
	if err := p.options.GardenClient.Patch(ctx, seed, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to annotate Seed %s with what its probes have found: %w", p.options.SeedName, err)
	}
	return nil
}
