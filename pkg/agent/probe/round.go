// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	// pause is the pause between two looks in a round.
	pause = 3 * time.Second
	// joinPatience is how long one side waits until the other one takes part, readyPatience until its own pods are
	// ready, and reachPatience until it reaches the other side, whose pods may become ready later.
	joinPatience, readyPatience, reachPatience = 2 * time.Minute, 3 * time.Minute, 4 * time.Minute
	// stayPatience is how long one side that is done lets the other one reach it.
	stayPatience = readyPatience + reachPatience
	// endTimeout bounds what is done at the end of a round when the agent stops.
	endTimeout = 20 * time.Second
)

// round is one probe of the connection to another seed.
type round struct {
	*Prober
	log  logr.Logger
	peer string
	// stage is what is deployed in this seed.
	stage *stage
	// demand is what the other side is to try.
	demand demand
	// began is when the round began.
	began metav1.Time
}

// round makes one probe, writes down what it has found, and removes what it has made.
func (p *Prober) round(ctx context.Context, peer string) {
	r := &round{Prober: p, log: p.options.Log.WithValues("seed", p.options.SeedName, "peer", peer), peer: peer,
		began: metav1.NewTime(p.options.Clock.Now().UTC().Truncate(time.Second))}
	r.log.Info("Probing the connection to another seed")
	defer r.end(ctx)
	result := r.probe(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		// What failed last says nothing: the agent stops.
		return
	}
	result.LookedAt = metav1.NewTime(p.options.Clock.Now().UTC().Truncate(time.Second))
	if err := p.write(ctx, func(_ *gardencorev1beta1.Seed, probes *seedfacts.Probes) error {
		connection := probes.To(peer)
		connection.Result = &result
		probes.Set(connection)
		return nil
	}); err != nil {
		r.log.Error(err, "Failed to write down what a probe has found")
		return
	}
	r.log.Info("Probed the connection to another seed", "roundTrip", result.RoundTrip.Duration.String(),
		"sent", result.Sent, "received", result.Received, "clockSkew", result.ClockSkew.Duration.String(),
		"problems", result.Problems, "unknown", result.Unknown)
	if result.Measured() {
		r.stay(ctx)
	}
}

// probe returns what was found.
func (r *round) probe(ctx context.Context) seedfacts.ProbeResult {
	var out seedfacts.ProbeResult
	unknown := func(err error) seedfacts.ProbeResult {
		out.Unknown = append(out.Unknown, err.Error())
		return out
	}
	if err := r.setUp(ctx); err != nil {
		return unknown(err)
	}
	if err := r.announce(ctx); err != nil {
		return unknown(err)
	}
	theirs, err := r.awaitPeer(ctx)
	if err != nil {
		return unknown(err)
	}
	out.Of = seedfacts.Fingerprint(theirs.Authority)
	if err := r.prepare(ctx, theirs); err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			out.Problems = append(out.Problems, err.Error())
			return out
		}
		return unknown(err)
	}
	if out.Problems, out.Unknown = r.awaitReady(ctx); len(out.Problems)+len(out.Unknown) > 0 {
		return out
	}
	if len(theirs.Needs) > 0 {
		out.Room = new(seedfacts.RoomOf(theirs.Needs))
	}
	out.Images = r.stage.pulled()
	if err := r.stage.leaveRoom(ctx); err != nil {
		// They go with the namespace.
		r.log.Error(err, "Failed to remove what has looked for room")
	}
	return r.measure(ctx, theirs.Authority, out)
}

// prepare deploys what this side tries for the other one.
func (r *round) prepare(ctx context.Context, theirs seedfacts.ProbeRound) error {
	if err := errors.Join(seedfacts.CheckNeeds(theirs.Needs),
		seedfacts.CheckControlPlanes(theirs.ControlPlanes)); err != nil {
		return fmt.Errorf("seed %s: %w", r.peer, err)
	}
	images, err := r.options.Images.of(theirs.ControlPlanes)
	if err != nil {
		return err
	}
	if len(images) > 0 {
		ofEtcd, err := r.stage.etcdImages(ctx)
		if err != nil {
			return err
		}
		images = append(images, ofEtcd...)
	}
	r.stage.needs, r.stage.images = theirs.Needs, images
	return r.stage.deploy(ctx, theirs.Authority)
}

// setUp reads both seeds, and makes the namespace and the certificates.
func (r *round) setUp(ctx context.Context) error {
	own, err := botanist.ReadSeed(ctx, r.options.Garden, r.options.SeedName)
	if err != nil {
		return err
	}
	other, err := botanist.ReadSeed(ctx, r.options.Garden, r.peer)
	if err != nil {
		return err
	}
	if r.demand, err = r.Prober.demand(ctx, own, other.Name); err != nil {
		return err
	}
	r.stage, err = newStage(r.Prober, r.peer, exposure.Values{
		Namespace: NamespaceOf(own.Name, other.Name), Role: roleOf(own.Name, other.Name),
		Image: r.options.RelayImage, PullSecrets: r.options.PullSecrets, TLSSecretName: Name,
		Domain: exposure.IngressDomain(own), PeerDomain: exposure.IngressDomain(other),
		Istio: r.options.Gateway, Clock: r.options.Clock,
	})
	if err != nil {
		return err
	}
	return r.stage.open(ctx)
}

// roleOf returns the role of the own seed. It only decides which ports are used: one side has to be the source.
func roleOf(own, other string) steps.Role {
	if own < other {
		return steps.Source
	}
	return steps.Destination
}

// announce lets the other side know how it is going to know this one.
func (r *round) announce(ctx context.Context) error {
	return r.write(ctx, func(_ *gardencorev1beta1.Seed, probes *seedfacts.Probes) error {
		connection := probes.To(r.peer)
		connection.Round = &seedfacts.ProbeRound{Began: r.began, Authority: r.stage.authority(), Needs: r.demand.needs,
			ControlPlanes: r.demand.controlPlanes}
		probes.Set(connection)
		return nil
	})
}

// awaitPeer waits until the other side has announced itself, and returns what it has announced.
func (r *round) awaitPeer(ctx context.Context) (seedfacts.ProbeRound, error) {
	var theirs seedfacts.ProbeRound
	err := r.until(ctx, joinPatience, func(ctx context.Context) error {
		seen, err := r.seenBy(ctx, r.peer)
		switch {
		case err != nil:
			return err
		case seen.Round == nil:
			return fmt.Errorf("the agent of seed %s has not taken part within %s", r.peer, joinPatience)
		}
		theirs = *seen.Round
		return nil
	})
	return theirs, err
}

// awaitReady waits until the pods in this seed are ready, and returns what keeps them, and what is not known yet.
func (r *round) awaitReady(ctx context.Context) (problems, unknown []string) {
	err := r.until(ctx, readyPatience, r.stage.ready)
	if err == nil {
		return nil, nil
	}
	what := fmt.Sprintf("what a migration needs in seed %s was not ready within %s: %v", r.options.SeedName,
		readyPatience, err)
	troubles := r.stage.troubles(ctx)
	if pulling := (stillPulling{}); errors.As(err, &pulling) && len(troubles) == 0 {
		return nil, []string{what}
	}
	return append([]string{what}, troubles...), nil
}

// measure measures the way to the other side, once that is ready.
func (r *round) measure(
	ctx context.Context, authority string, out seedfacts.ProbeResult,
) seedfacts.ProbeResult {
	question, err := r.stage.question(authority)
	if err != nil {
		out.Unknown = append(out.Unknown, err.Error())
		return out
	}
	gone := errors.New("it has ended its part")
	err = r.until(ctx, reachPatience, func(ctx context.Context) error {
		measured, err := r.options.Measure(ctx, question)
		if err == nil {
			out.RoundTrip.Duration, out.ClockSkew.Duration = measured.RoundTrip, measured.ClockSkew
			out.Sent, out.Received = measured.Sent, measured.Received
			return nil
		}
		if seen, readErr := r.seenBy(ctx, r.peer); readErr == nil && seen.Round == nil {
			if seen.Result != nil {
				gone = fmt.Errorf("%w: %s", gone,
					strings.Join(slices.Concat(seen.Result.Problems, seen.Result.Unknown), "; "))
			}
			return stop{fmt.Errorf("seed %s was not reached before the agent there gave up: %w", r.peer, gone)}
		}
		return err
	})
	var stopped stop
	switch {
	case errors.As(err, &stopped):
		out.Unknown = append(out.Unknown, stopped.Error())
	case err != nil:
		out.Problems = append(out.Problems,
			fmt.Sprintf("seed %s was not reached within %s: %v", r.peer, reachPatience, err))
	}
	return out
}

// stay lets the other side reach this one, until it has a result of this round, or has ended its part.
func (r *round) stay(ctx context.Context) {
	own := seedfacts.Fingerprint(r.stage.authority())
	if err := r.until(ctx, stayPatience, func(ctx context.Context) error {
		seen, err := r.seenBy(ctx, r.peer)
		switch {
		case err != nil:
			return err
		case seen.Round == nil || seen.Result != nil && seen.Result.Of == own:
			return nil
		}
		return errors.New("it has no result yet")
	}); err != nil && ctx.Err() == nil {
		r.log.Info("Ending a probe that the other seed has not completed", "cause", err.Error())
	}
}

// end removes what the round has made, also when the agent stops in the middle of it.
func (r *round) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if r.stage != nil {
		if err := r.stage.close(ctx); err != nil {
			r.log.Error(err, "Failed to remove what a probe has made, retrying")
			r.setSwept(false)
		}
	}
	if err := r.write(ctx, func(_ *gardencorev1beta1.Seed, probes *seedfacts.Probes) error {
		connection := probes.To(r.peer)
		connection.Round = nil
		probes.Set(connection)
		return nil
	}); err != nil {
		r.log.Error(err, "Failed to write down that a probe has ended; the next look does")
	}
}

// stop is an error that ends until at once.
type stop struct{ error }

// until repeats what fails, for as long as the patience lasts, and returns the last error.
func (p *Prober) until(ctx context.Context, patience time.Duration, try func(context.Context) error) error {
	deadline := p.options.Clock.Now().Add(patience)
	for {
		err := try(ctx)
		var stopped stop
		if err == nil || errors.As(err, &stopped) || !p.options.Clock.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-p.options.Clock.After(pause):
		}
	}
}
