// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// What the agents have tried in their seeds is on the Seeds (pkg/agent/dryrun).

const remedyLook = "check that the agent of the seed runs, is of this release, and may patch its own Seed; its log " +
	"says what it could not find out, and it looks again every minute"

// checkClusterDNS asks for a cluster DNS in both seeds that answers with the addresses of the relays.
func checkClusterDNS(f Facts) Finding {
	for _, view := range []SeedView{f.Source, f.Destination} {
		var fact seedfacts.ClusterDNS
		if err := seedfacts.Of(view.Seed, seedfacts.AnnotationClusterDNS, &fact); err != nil {
			return unknown(ClusterDNS, remedyLook,
				"it is not known whether the cluster DNS of seed %s answers for EndpointSlices of others: %v",
				view.Name, err)
		}
		if fact.Outdated(f.Now) {
			return unknown(ClusterDNS, remedyLook,
				"it is not known any more whether the cluster DNS of seed %s answers for EndpointSlices of others: %s",
				view.Name, lookedAt(fact.Looked, f.Now))
		}
		if fact.Problem != "" {
			return fail(ClusterDNS, "let the cluster DNS of the seed read EndpointSlices, as CoreDNS does (kube-dns "+
				"does not): install CoreDNS for the pods of the seed; or set spec.seedName back and migrate "+
				"classically", "the cluster DNS of seed %s does not answer for EndpointSlices of others, as the etcd "+
				"members need it: %s", view.Name, fact.Problem)
		}
	}
	return pass(ClusterDNS, "the cluster DNS of both seeds answers for EndpointSlices of others")
}

// lookedAt says why a look does not count any more.
func lookedAt(looked seedfacts.Looked, now time.Time) string {
	return fmt.Sprintf("its agent has last looked at %s, and it is %s", looked.LookedAt.UTC().Format(time.RFC3339),
		now.UTC().Format(time.RFC3339))
}

// checkDNSAccess asks for a destination that can change the shoot's records in step 6, and can see that they have
// changed. That both seeds keep them in the same place is asked by checkInternalDomain and checkDefaultDomain.
func checkDNSAccess(f Facts) Finding {
	var fact seedfacts.DNSAccess
	if err := seedfacts.Of(f.Destination.Seed, seedfacts.AnnotationDNSAccess, &fact); err != nil {
		return unknown(DNSAccess, remedyLook,
			"it is not known whether seed %s is able to change DNS records: %v", f.Destination.Name, err)
	}
	var (
		seen  []string
		later string
	)
	for _, asked := range askedFor(f, fact) {
		if asked.domain == nil && asked.ofShoot && f.Planned {
			later = fmt.Sprintf("; its agent looks at %s when the migration is requested", asked.what)
			continue
		}
		if asked.domain == nil {
			return unknown(DNSAccess, remedyLook, "the agent of seed %s has not looked at %s yet", f.Destination.Name,
				asked.what)
		}
		if problem := judgeDomain(f, *asked.domain, asked.what); problem != nil {
			return *problem
		}
		seen = append(seen, fmt.Sprintf("%s (%s; name servers that answer: %d)", asked.domain.Domain,
			asked.domain.Provider, len(asked.domain.NameServers)))
	}
	if len(seen) == 0 && later == "" {
		return pass(DNSAccess, "Gardener manages no DNS record of the shoot")
	}
	if len(seen) == 0 {
		seen = []string{"no other domain"}
	}
	return pass(DNSAccess, "seed %s is able to change records of %s%s", f.Destination.Name,
		strings.Join(seen, " and "), later)
}

// asked is a domain below which the shoot has a record.
type asked struct {
	what string
	// domain is what the destination has found out about it; nil if it has not looked yet.
	domain *seedfacts.Domain
	// ofShoot reports that it is the shoot's own, which the destination looks at when the shoot is on its way.
	ofShoot bool
}

// askedFor returns the domains below which the destination is going to keep the shoot's records.
func askedFor(f Facts, fact seedfacts.DNSAccess) []asked {
	var (
		out      []asked
		internal = f.Destination.Seed.Spec.DNS.Internal
		domain   = seedfacts.DomainOf(f.Shoot)
		find     = func(like func(seedfacts.Domain) bool) *seedfacts.Domain {
			if i := slices.IndexFunc(fact.Domains, like); i >= 0 {
				return &fact.Domains[i]
			}
			return nil
		}
	)
	// Without one in the specification there may be one in a secret, which only the agent sees.
	known := find(func(d seedfacts.Domain) bool {
		return d.Use == seedfacts.UseInternal && (internal == nil || sameProvider(d, *internal))
	})
	if known != nil || internal != nil && internal.Type != core.DNSUnmanaged {
		out = append(out, asked{what: "the internal domain " + domainOf(internal), domain: known})
	}
	if domain == "" {
		return out
	}
	if configured := defaultDomainFor(domain, f.Destination.Seed); configured != nil {
		if configured.Type == core.DNSUnmanaged {
			return out
		}
		known := find(func(d seedfacts.Domain) bool {
			return d.Use == seedfacts.UseDefault && sameProvider(d, *configured)
		})
		return append(out, asked{what: "the default domain " + configured.Domain, domain: known})
	}
	if found := find(func(d seedfacts.Domain) bool { return d.Has(domain) }); found != nil {
		return append(out, asked{what: "the default domain " + found.Domain, domain: found})
	}
	if unmanaged(f.Shoot.Spec.DNS.Providers) { //nolint:staticcheck // Deprecated, and still where the provider is.
		return out
	}
	own := find(func(d seedfacts.Domain) bool { return d.Use == seedfacts.UseShoot && d.Domain == domain })
	return append(out, asked{what: "the shoot's domain " + domain, domain: own, ofShoot: true})
}

// sameProvider reports whether what the agent has looked at is what the Seed has in its specification now.
func sameProvider(d seedfacts.Domain, provider gardencorev1beta1.SeedDNSProviderConfig) bool {
	return d.Domain == provider.Domain && d.Provider == provider.Type && d.Zone == ptr.Deref(provider.Zone, "")
}

// unmanaged reports whether the shoot's own records are made by somebody else.
func unmanaged(providers []gardencorev1beta1.DNSProvider) bool {
	return slices.ContainsFunc(providers, func(p gardencorev1beta1.DNSProvider) bool {
		return p.Type != nil && *p.Type == core.DNSUnmanaged
	})
}

// judgeDomain returns what speaks against a domain, or nil.
func judgeDomain(f Facts, d seedfacts.Domain, what string) *Finding {
	var finding Finding
	switch {
	case d.Outdated(f.Now):
		finding = unknown(DNSAccess, remedyLook,
			"it is not known any more whether seed %s is able to change records of %s: %s", f.Destination.Name, what,
			lookedAt(d.Looked, f.Now))
	case d.Missing != "":
		finding = fail(DNSAccess, "create the credentials in the garden, or correct the reference to them (spec.dns "+
			"of the Seed or the Shoot), or choose another destination",
			"seed %s has no credentials for %s: %s", f.Destination.Name, what, d.Missing)
	case len(d.Unknown) > 0:
		finding = unknown(DNSAccess, "let the agent read the credentials; let it reach the name servers on port 53 "+
			"(UDP and TCP) from its seed; take a server that is gone for good out of the zone's NS records, or name "+
			"the others in the agent's configuration (dns.resolvers); it looks again every minute",
			"seed %s could not find out whether it is able to change records of %s: %s", f.Destination.Name, what,
			strings.Join(d.Unknown, "; "))
	default:
		return nil
	}
	return &finding
}

// checkBackupsArrive asks for a destination whose etcds have their backups written to the bucket. A bucket may exist,
// and be ready for Gardener, although the credentials that etcd-backup-restore has do not let it write. Where no etcd
// has anything to write yet, as in a new seed, nobody knows.
func checkBackupsArrive(f Facts) Finding {
	name := f.Destination.Name
	var fact seedfacts.Backups
	if err := seedfacts.Of(f.Destination.Seed, seedfacts.AnnotationBackups, &fact); err != nil {
		return unknown(BackupsArrive, remedyLook, "it is not known whether backups arrive in the bucket of seed %s: %v",
			name, err)
	}
	switch {
	case fact.Outdated(f.Now):
		return unknown(BackupsArrive, remedyLook,
			"it is not known any more whether backups arrive in the bucket of seed %s: %s", name,
			lookedAt(fact.Looked, f.Now))
	case !fact.InOrder():
		return fail(BackupsArrive, "let etcd-backup-restore write to the bucket: correct the credentials of the "+
			"BackupBucket, or what its store permits; the agent of the seed looks again every minute",
			"no etcd in seed %s has its backups written to the bucket: %s", name, fact.Problem)
	case fact.Written == 0:
		return pass(BackupsArrive, "no etcd in seed %s has written to its bucket yet", name)
	}
	return pass(BackupsArrive, "backups of %s arrive in the bucket of seed %s", conditions.Count(fact.Written, "etcd"),
		name)
}
