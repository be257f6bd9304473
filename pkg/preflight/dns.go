// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// Step 6 lets the destination write over the records of the source. It has to write to the same zone: in another one,
// clients would keep the source's address, and the wait for the name servers would not end. What a seed is given to
// write to is in its specification.

const remedyDomain = "give both seeds the same type, domain and zone in spec.dns, or choose another destination"

// checkInternalDomain compares where the seeds keep the records of their internal domain.
func checkInternalDomain(f Facts) Finding {
	from, to := f.Source.Seed.Spec.DNS.Internal, f.Destination.Seed.Spec.DNS.Internal
	if domainOf(from) != domainOf(to) {
		return fail(InternalDomain, "choose a destination with the same internal domain",
			"the internal domain of seed %s is %q, that of seed %s is %q", f.Source.Name, domainOf(from),
			f.Destination.Name, domainOf(to))
	}
	if from != nil && to != nil && placeOf(*from) != placeOf(*to) {
		return fail(InternalDomain, remedyDomain, "the internal domain of seed %s is kept by %s, that of seed %s by %s",
			f.Source.Name, placeOf(*from), f.Destination.Name, placeOf(*to))
	}
	return pass(InternalDomain, "both seeds use %q", domainOf(from))
}

func domainOf(provider *gardencorev1beta1.SeedDNSProviderConfig) string {
	if provider == nil {
		return ""
	}
	return provider.Domain
}

// checkDefaultDomain compares what the seeds make of the shoot's own domain. If it is below a default domain of the
// seed, the record belongs to that, whatever the Shoot says of providers, and otherwise to the Shoot's provider
// (upstream's ConstructExternalDomain).
func checkDefaultDomain(f Facts) Finding {
	domain := seedfacts.DomainOf(f.Shoot)
	if domain == "" {
		return pass(DefaultDomain, "the shoot has no domain of its own")
	}
	from := defaultDomainFor(domain, f.Source.Seed)
	to := defaultDomainFor(domain, f.Destination.Seed)
	switch {
	case from == nil && to == nil:
		return pass(DefaultDomain, "%s is below no default domain of the seeds", domain)
	case from == nil || to == nil:
		has, lacks := f.Source.Name, f.Destination.Name
		if from == nil {
			has, lacks = lacks, has
		}
		return fail(DefaultDomain, remedyDomain, "%s is below a default domain of seed %s, and below none of seed %s",
			domain, has, lacks)
	case placeOf(*from) != placeOf(*to):
		return fail(DefaultDomain, remedyDomain, "%s is kept by %s for seed %s, and by %s for seed %s", domain,
			placeOf(*from), f.Source.Name, placeOf(*to), f.Destination.Name)
	}
	return pass(DefaultDomain, "%s is kept by %s for both seeds", domain, placeOf(*from))
}

// defaultDomainFor returns the first default domain of the seed that the domain is below, as upstream's
// DomainIsDefaultDomain does, or nil.
func defaultDomainFor(domain string, seed *gardencorev1beta1.Seed) *gardencorev1beta1.SeedDNSProviderConfig {
	for i, provider := range seed.Spec.DNS.Defaults {
		if strings.HasSuffix(domain, "."+provider.Domain) {
			return &seed.Spec.DNS.Defaults[i]
		}
	}
	return nil
}

// placeOf describes where records are kept: what is equal for two seeds has one text. A zone that is not named is found
// by the provider's controller, so it is not known whether it is one that is.
func placeOf(provider gardencorev1beta1.SeedDNSProviderConfig) string {
	zone := "the zone that it finds"
	if named := ptr.Deref(provider.Zone, ""); named != "" {
		zone = "zone " + named
	}
	return fmt.Sprintf("%s (domain %s, %s)", provider.Type, provider.Domain, zone)
}
