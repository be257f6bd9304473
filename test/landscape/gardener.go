// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/livecpm/livecpm/test/authorizers"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/seedsetup"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// The phases in this file put Gardener on top of the plain clusters.

// makeSeedImages makes the images of what a seed is set up with.
func (l *Landscape) makeSeedImages(ctx context.Context) (err error) {
	l.seedImages, err = seedsetup.Tarballs(ctx, l.Config, seedsetup.ForSeed)
	return err
}

// makeShootImages makes the images of what the control planes of shoots consist of.
func (l *Landscape) makeShootImages(ctx context.Context) (err error) {
	l.shootImages, err = seedsetup.Tarballs(ctx, l.Config, seedsetup.ForShoot)
	return err
}

// startDNS starts the DNS stand-in, which serves the zones of shoots and seeds to seeds and machine.
func (l *Landscape) startDNS(ctx context.Context) error {
	binary, err := build.Own(ctx, l.Config, "standin-dns", "./test/standins/dns")
	if err != nil {
		return err
	}
	return garden.StartDNS(ctx, l.Config, l.Processes, binary)
}

// startGardener starts gardener-apiserver, gardener-admission-controller and gardener-controller-manager and configures
// the garden.
func (l *Landscape) startGardener(ctx context.Context) error {
	tools, err := build.Tool(ctx, l.Config, "gardener")
	if err != nil {
		return err
	}
	admissionTools := ""
	if l.Config.Authorizers {
		if admissionTools, err = build.Tool(ctx, l.Config, authorizers.Name); err != nil {
			return err
		}
	}
	ca, err := pki.EnsureCA(l.Config.PKI(l.Config.Garden.Name), "ca")
	if err != nil {
		return err
	}
	return (&garden.Garden{
		Config:         l.Config,
		Processes:      l.Processes,
		Tools:          tools,
		AdmissionTools: admissionTools,
		CA:             ca,
		EtcdServers:    "http://127.0.0.1:2379",
		Report:         l.progress.report,
	}).Up(ctx)
}

// setUpSeeds makes seeds of the plain clusters.
func (l *Landscape) setUpSeeds(ctx context.Context) error {
	ca, err := pki.EnsureCA(l.Config.PKI(l.Config.Garden.Name), "ca")
	if err != nil {
		return err
	}
	if len(l.seedImages) == 0 {
		if err := l.makeSeedImages(ctx); err != nil {
			return err
		}
	}
	// A pod without its image is not tried again at once.
	if err := l.importImages(ctx, l.seedImages); err != nil {
		return err
	}
	if l.Config.Gardenlet == config.GardenletDropIn {
		// The agents start with the gardenlets, and those end if an agent finds that it may not read what it has to.
		if err := l.applyGardenChart(ctx); err != nil {
			return err
		}
	}
	digests := map[string]string{}
	for _, tarball := range l.seedImages {
		digests[tarball.Name] = tarball.Digest
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, seed := range l.Config.Seeds {
		group.Go(func() error {
			return (&seedsetup.Setup{Config: l.Config, Seed: seed, GardenCA: ca, Digests: digests,
				Report: l.progress.report}).Up(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c, err := garden.Client(l.Config)
	if err != nil {
		return err
	}
	return shoot.WaitForSeeds(ctx, l.Config, c, l.progress.report)
}

// createShoot creates the landscape's shoot in the first seed.
func (l *Landscape) createShoot(ctx context.Context) error {
	if len(l.shootImages) == 0 {
		if err := l.makeShootImages(ctx); err != nil {
			return err
		}
	}
	if err := l.importImages(ctx, l.shootImages); err != nil {
		return err
	}
	made := &shoot.Shoot{Config: l.Config, Name: l.Config.Shoot, Workers: l.Config.HasWorkers(),
		Single: l.Config.HasOneMember(), Seed: l.Config.Seeds[0].Name, Report: l.progress.report}
	if err := made.Up(ctx); err != nil || l.Config.MemberPrefix || !made.Created {
		return err
	}
	return l.checkOlderEtcds(ctx, made)
}

// checkOlderEtcds returns an error unless the new shoot's Etcds have no prefix for the names of their members, as the
// landscape was asked for.
func (l *Landscape) checkOlderEtcds(ctx context.Context, made *shoot.Shoot) error {
	gardenClient, err := garden.Client(l.Config)
	if err != nil {
		return err
	}
	object := &gardencorev1beta1.Shoot{}
	key := client.ObjectKey{Namespace: shoot.Namespace, Name: made.Name}
	if err := gardenClient.Get(ctx, key, object); err != nil {
		return fmt.Errorf("failed to read shoot %s: %w", key, err)
	}
	restConfig, err := apply.RESTConfig(l.Config.Kubeconfig(made.Seed))
	if err != nil {
		return err
	}
	seed, err := client.New(restConfig, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return fmt.Errorf("failed to create client for %s: %w", made.Seed, err)
	}
	return seedsetup.CheckOlderEtcds(ctx, seed, v1beta1helper.ControlPlaneNamespaceForShoot(object))
}
