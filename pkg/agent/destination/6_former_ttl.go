// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
)

// Caches may keep the source's address for the TTL that it came with. The source shortens that TTL when the migration
// begins (dns.shortTTL). What caches have taken before, they keep for the TTL of before. So the time at which all name
// servers were first seen to publish a shorter one is remembered on the shoot's namespace in the destination: as long
// after it as the TTL of before, caches have nothing but what came with the shorter one.

// annotationShortTTLSince is when all name servers were first seen to publish a shorter TTL than that of before.
const annotationShortTTLSince = "livecpm.gardener.cloud/short-dns-ttl-since"

// lookForShortTTL looks whether all name servers publish a TTL that is shorter than that of before, and remembers when
// they were first seen to. The steps before the switch call it where it costs them nothing. A failure costs time only:
// without it, the switch counts with the TTL of before.
func (d *destination) lookForShortTTL(ctx context.Context, m *migration.Migration, b *botanist.Botanist) {
	if err := d.tryToSeeShortTTL(ctx, m, recordsOf(b)); err != nil && ctx.Err() == nil {
		m.Log.Info("Not all name servers publish a shorter TTL yet", "because", err.Error())
	}
}

func (d *destination) tryToSeeShortTTL(ctx context.Context, m *migration.Migration, records []dnsRecord) error {
	namespace := &corev1.Namespace{}
	name := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	if _, seen := shortTTLSince(namespace); seen {
		return nil
	}
	before, err := d.ttlBefore(ctx, m, records)
	if err != nil {
		return err
	}
	published, err := d.publishedTTL(ctx, records)
	if err != nil {
		return err
	}
	if published >= before {
		return fmt.Errorf("they publish %s, and had %s", published, before)
	}
	return d.remember(ctx, namespace, annotationShortTTLSince, m.Clock.Now().UTC().Format(time.RFC3339Nano))
}

// shortTTLSince returns when all name servers were first seen to publish a shorter TTL, and whether they were. What is
// malformed counts as missing.
func shortTTLSince(namespace *corev1.Namespace) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339Nano, namespace.Annotations[annotationShortTTLSince])
	return since, err == nil
}

// ttlBefore returns the TTL that the records have where nobody has shortened it: the longest one that the gardenlets of
// both seeds give their records. The source shortens none that is longer.
func (d *destination) ttlBefore(
	ctx context.Context, m *migration.Migration, records []dnsRecord,
) (time.Duration, error) {
	var ttl time.Duration
	for _, record := range records {
		ttl = max(ttl, record.ttl)
	}
	waits, err := flows.PublishedWaits(ctx, d.GardenAPIReader, m.SourceSeed)
	switch {
	case apierrors.IsNotFound(err):
		// Somebody has removed the Seed of a source that is lost.
	case err != nil:
		return 0, err
	case waits != nil:
		ttl = max(ttl, waits.RecordTTL.Duration)
	}
	return ttl, nil
}

// publishedTTL returns the longest TTL with which one of the records enters caches now.
func (d *destination) publishedTTL(ctx context.Context, records []dnsRecord) (time.Duration, error) {
	var longest time.Duration
	for _, record := range records {
		published, err := dns.PublishedTTL(ctx, d.NameServers, record.name)
		if err != nil {
			return 0, fmt.Errorf("the TTL of DNS record %s is not known: %w", record.name, err)
		}
		longest = max(longest, published)
	}
	return longest, nil
}

// cachedFor returns for how long caches may keep the source's address from now on, while the name servers still lead
// there. The longest TTL is that which the records may have had at any time.
func (d *destination) cachedFor(
	ctx context.Context, m *migration.Migration, namespace *corev1.Namespace, records []dnsRecord,
) (time.Duration, error) {
	longest, err := d.formerTTL(ctx, m, records)
	if err != nil {
		return 0, err
	}
	since, seen := shortTTLSince(namespace)
	if !seen {
		return longest, nil
	}
	published, err := d.publishedTTL(ctx, records)
	if err != nil {
		m.Log.Info("Not all name servers publish the shorter TTL any more", "because", err.Error())
		return longest, nil
	}
	// What is told has whole seconds.
	left := since.Add(longest).Sub(m.Clock.Now()).Truncate(time.Second) + time.Second
	return min(longest, max(published, left)), nil
}
