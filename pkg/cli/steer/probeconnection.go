// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

const (
	// probeInterval is the pause between two looks at what the agents have found.
	probeInterval = 5 * time.Second
	// probePatience is how long the agents may take. A request does not count for longer.
	probePatience = seedfacts.RequestMaxAge
)

// ErrProbeTimeout is in the error of a probe that the agents have not both completed in time.
var ErrProbeTimeout = errors.New("the probe of the connection timed out")

// ConnectionProbe asks the agents of two seeds to probe the connection between them, and waits for what they find.
type ConnectionProbe struct {
	// Client reads and writes the Seeds.
	Client client.Client
	// Clock is the clock.
	Clock clock.Clock
	// DryRun says whether the agents are asked; if not, what would be written is told, and nothing is waited for.
	DryRun DryRun
	// Shoot is the shoot for whose control plane room is looked for in the destination; nothing is looked for if it is
	// empty.
	Shoot client.ObjectKey
	// Out is where it says what it waits for.
	Out io.Writer
}

// Do asks and waits. It returns when both agents have found something; what they have found is on the Seeds. When it is
// no use to wait any longer, it fails with ErrProbeTimeout and names the seeds without a result.
func (p ConnectionProbe) Do(ctx context.Context, source, destination string) error {
	before := map[string]*seedfacts.ProbeResult{}
	for own, other := range map[string]string{source: destination, destination: source} {
		seed, probes, err := p.read(ctx, own)
		if err != nil {
			return err
		}
		if why := takesNoPart(seed, probes); why != "" {
			p.tell("The connection is not probed: %s", why)
			return nil
		}
		before[own] = probes.To(other).Result
	}
	asked := p.Clock.Now()
	steerer := Steerer{Client: p.Client, Clock: p.Clock, DryRun: p.DryRun}
	for own, other := range map[string]string{source: destination, destination: source} {
		seed, _, err := p.read(ctx, own)
		if err != nil {
			return err
		}
		annotations := map[string]string{seedfacts.ProbeRequest(other): asked.UTC().Format(time.RFC3339)}
		if own == source && p.Shoot != (client.ObjectKey{}) {
			annotations[seedfacts.RoomRequest(other)] = p.Shoot.String()
		}
		write, err := steerer.annotate(ctx, seed, annotations)
		if err != nil {
			return err
		}
		if steerer.dry() {
			p.tell("Dry run (%s), nothing is kept: %s %s", p.DryRun, write.Object, write.Patch)
		}
	}
	if steerer.dry() {
		return nil
	}
	p.tell("Probing the connection between seeds %s and %s; this takes a minute or two", source, destination)
	return p.wait(ctx, source, destination, before)
}

// wait waits until both agents have another result than before.
func (p ConnectionProbe) wait(
	ctx context.Context, source, destination string, before map[string]*seedfacts.ProbeResult,
) error {
	var missing []string
	for deadline := p.Clock.Now().Add(probePatience); p.Clock.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Clock.After(probeInterval):
		}
		missing = nil
		for own, other := range map[string]string{source: destination, destination: source} {
			_, probes, err := p.read(ctx, own)
			if err != nil {
				return err
			}
			if result := probes.To(other).Result; result == nil ||
				before[own] != nil && result.LookedAt.Equal(&before[own].LookedAt) {
				missing = append(missing, own)
			}
		}
		if len(missing) == 0 {
			return nil
		}
	}
	slices.Sort(missing)
	return fmt.Errorf("%w after %s: waited for a result from seed %s", ErrProbeTimeout, probePatience,
		strings.Join(missing, " and from seed "))
}

func (p ConnectionProbe) read(ctx context.Context, name string) (*gardencorev1beta1.Seed, seedfacts.Probes, error) {
	var (
		seed   = &gardencorev1beta1.Seed{}
		probes seedfacts.Probes
	)
	if err := p.Client.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return nil, probes, fmt.Errorf("failed to read Seed %s: %w", name, err)
	}
	if _, published := seed.Annotations[seedfacts.AnnotationProbes]; !published {
		return seed, probes, nil
	}
	return seed, probes, seedfacts.Of(seed, seedfacts.AnnotationProbes, &probes)
}

// takesNoPart says why it is no use to ask the agent of the seed; empty if it is.
func takesNoPart(seed *gardencorev1beta1.Seed, probes seedfacts.Probes) string {
	_, published := seed.Annotations[seedfacts.AnnotationProbes]
	switch {
	case !published:
		return fmt.Sprintf("the agent of seed %s does not say that it takes part", seed.Name)
	case probes.Off:
		return fmt.Sprintf("the agent of seed %s makes no probes (controllers.liveMigration.probe)", seed.Name)
	}
	return ""
}

func (p ConnectionProbe) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
}
