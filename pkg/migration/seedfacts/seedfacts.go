// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package seedfacts holds what the agent of a seed writes on its Seed before any migration: what it has found out by
// trying in its seed, and what it knows by its configuration and the gardenlet's. Whoever plans a migration from or to
// the seed, and the agent of the other one, read it there. Nobody but that agent can tell it. Which versions of the
// protocol it speaks stands in the package steps, with the protocol.
package seedfacts

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationClusterDNS on a Seed holds a ClusterDNS as JSON.
	AnnotationClusterDNS = "livecpm.gardener.cloud/cluster-dns"
	// AnnotationDNSAccess on a Seed holds a DNSAccess as JSON.
	AnnotationDNSAccess = "livecpm.gardener.cloud/dns-access"
	// AnnotationExtensions on a Seed holds an Extensions as JSON.
	AnnotationExtensions = "livecpm.gardener.cloud/extensions"
	// AnnotationBackups on a Seed holds a Backups as JSON.
	AnnotationBackups = "livecpm.gardener.cloud/backups"
	// AnnotationAgent on a Seed holds an Agent as JSON.
	AnnotationAgent = "livecpm.gardener.cloud/agent"

	// LookPeriod is how often an agent looks again at what was in order. What was not is looked at again sooner.
	LookPeriod = 10 * time.Minute
	// MaxAge is how old a look may be to count. An agent that does not look any more does not take part in a migration
	// either.
	MaxAge = 30 * time.Minute
	// maxSkew is how far ahead the clock of the agent that has looked may be.
	maxSkew = 5 * time.Minute
)

// Looked is when an agent has looked.
type Looked struct {
	// LookedAt is the end of the look.
	LookedAt metav1.Time `json:"lookedAt"`
}

// Due reports whether it is time to look again at what was in order.
func (l Looked) Due(now time.Time) bool {
	return now.Sub(l.LookedAt.Time) >= LookPeriod || l.ahead(now)
}

// Outdated reports whether the look is too old to count, or later than now.
func (l Looked) Outdated(now time.Time) bool {
	return now.Sub(l.LookedAt.Time) > MaxAge || l.ahead(now)
}

func (l Looked) ahead(now time.Time) bool { return l.LookedAt.Sub(now) > maxSkew }

// Agent is what the agent of a seed is. Nothing is decided by it; people compare it.
type Agent struct {
	// Release is the release of livecpm that it is of, Gardener the version of Gardener that it was built with.
	Release  string `json:"release"`
	Gardener string `json:"gardener"`
	// Relay is the image that it gives to relays and fronts.
	Relay string `json:"relay"`
	// Waits are how long its steps wait for a time to pass; nil if it is of a release that does not say so.
	Waits *Waits `json:"waits,omitempty"`
}

// Waits are the configured times for which the steps of an agent wait, whatever the shoot is. They tell how long a
// migration will take.
type Waits struct {
	// DNSMargin is waited for after the TTL of the former DNS records (dns.margin); counts in the destination.
	DNSMargin metav1.Duration `json:"dnsMargin"`
	// ShortTTL is the TTL that the source gives the shoot's DNS records when a migration begins (dns.shortTTL). The
	// longer one of both agents counts. It is zero if the agent wants none, or is of a release that knows none.
	ShortTTL metav1.Duration `json:"shortTTL,omitzero"`
	// RecordTTL is the TTL that the gardenlet of the seed gives DNS records of shoots. It is zero if the agent is of a
	// release that does not say so.
	RecordTTL metav1.Duration `json:"recordTTL,omitzero"`
	// Drain is given to clients that were told to leave before etcd members of the source stop; counts in the
	// destination.
	Drain metav1.Duration `json:"drain"`
	// DrainTimeout is given to requests where nobody can tell clients to leave (flows.drainTimeout), GatewayDrain
	// where the ingress gateway can (flows.gatewayDrain); they count in the source.
	DrainTimeout metav1.Duration `json:"drainTimeout"`
	GatewayDrain metav1.Duration `json:"gatewayDrain"`
}

// ShortTTL returns the TTL that the source gives the shoot's DNS records when a migration between two agents begins:
// the longer one of what they want. It is zero if one of them wants none, or is not known to want one.
func ShortTTL(source, destination *Waits) time.Duration {
	if source == nil || destination == nil || source.ShortTTL.Duration == 0 || destination.ShortTTL.Duration == 0 {
		return 0
	}
	return max(source.ShortTTL.Duration, destination.ShortTTL.Duration)
}

// ClusterDNS is how the DNS of a seed's cluster answers for an EndpointSlice that no controller of Kubernetes has made.
type ClusterDNS struct {
	Looked `json:",inline"`
	// Problem is what it answered instead of the address in the slice; empty if it answered with the address.
	Problem string `json:"problem,omitempty"`
}

// DNSAccess is what a seed has of the providers of DNS records.
type DNSAccess struct {
	// Domains are the domains below which the seed keeps records of shoots: those of its specification, and those that
	// shoots on their way to the seed bring along.
	Domains []Domain `json:"domains"`
}

// Extensions is which resources of extensions are reconciled in a seed, by its ControllerInstallations.
type Extensions struct {
	Looked `json:",inline"`
	// Ready are the kinds and types, as "Kind/type", for which an installation is in order; sorted.
	Ready []string `json:"ready,omitempty"`
	// NotReady are those for which there are only installations that are not, each with what is wrong with one of them.
	NotReady map[string]string `json:"notReady,omitempty"`
}

// Backups is whether backups arrive in the bucket of a seed, by what etcd-druid says of the etcds that lead there.
type Backups struct {
	Looked `json:",inline"`
	// Written and Failing are how many etcds of the seed have their backups written to the bucket, and how many do not.
	// Etcds of which etcd-druid cannot tell yet are in neither.
	Written int `json:"written"`
	Failing int `json:"failing"`
	// Problem is what etcd-druid says of one that does not; empty if none fails.
	Problem string `json:"problem,omitempty"`
}

// InOrder reports whether nothing speaks against the bucket. One etcd that fails beside others that do not has a
// problem of its own. Where no etcd writes anything yet, nothing is known, and nothing can be.
func (b Backups) InOrder() bool { return b.Failing == 0 || b.Written > 0 }

// Use says what a domain is for.
type Use string

const (
	// UseInternal is for the internal domain of the seed.
	UseInternal Use = "internal"
	// UseDefault is for a default domain of the seed.
	UseDefault Use = "default"
	// UseShoot is for the domain of a shoot, below no default domain of the seed.
	UseShoot Use = "shoot"
)

// Domain is what a seed has of the provider of one domain.
type Domain struct {
	Looked `json:",inline"`
	// Domain is the domain; empty if it could not be found out.
	Domain string `json:"domain,omitempty"`
	// Use says what it is for.
	Use Use `json:"use"`
	// Provider is the type of the provider, Zone the zone; empty if the provider finds the zone itself.
	Provider string `json:"provider,omitempty"`
	Zone     string `json:"zone,omitempty"`
	// Credentials names the object with the credentials.
	Credentials string `json:"credentials,omitempty"`
	// Missing says which credentials do not exist.
	Missing string `json:"missing,omitempty"`
	// NameServers are the name servers that have answered.
	NameServers []string `json:"nameServers,omitempty"`
	// Unknown says what could not be looked at: credentials that could not be read, name servers that did not answer.
	Unknown []string `json:"unknown,omitempty"`
}

// InOrder reports whether nothing is wrong with the provider.
func (d Domain) InOrder() bool { return d.Missing == "" && len(d.Unknown) == 0 }

// SameProvider reports whether the other one is kept in the same place with the same credentials.
func (d Domain) SameProvider(other Domain) bool {
	return d.Use == other.Use && d.Domain == other.Domain && d.Provider == other.Provider && d.Zone == other.Zone &&
		d.Credentials == other.Credentials
}

// Has reports whether records of a shoot with the domain are kept below this default domain, as upstream's
// DomainIsDefaultDomain judges.
func (d Domain) Has(domain string) bool {
	return d.Use == UseDefault && strings.HasSuffix(domain, "."+d.Domain)
}

// DomainOf returns the domain of the shoot itself, for which Gardener makes a record unless somebody else manages it;
// empty if the shoot has none.
func DomainOf(shoot *gardencorev1beta1.Shoot) string {
	if shoot.Spec.DNS == nil || shoot.Spec.DNS.Domain == nil {
		return ""
	}
	return *shoot.Spec.DNS.Domain
}

// Of decodes what the annotation of the Seed holds into the fact. It fails if the annotation is missing or malformed.
func Of(seed *gardencorev1beta1.Seed, annotation string, fact any) error {
	value, ok := seed.Annotations[annotation]
	if !ok {
		return fmt.Errorf("Seed %s has no annotation %s", seed.Name, annotation) //nolint:staticcheck // A kind.
	}
	if err := json.Unmarshal([]byte(value), fact); err != nil {
		return fmt.Errorf("failed to parse annotation %s of Seed %s: %w", annotation, seed.Name, err)
	}
	return nil
}

// Encode returns the value of the annotation for the fact.
func Encode(fact any) (string, error) {
	value, err := json.Marshal(fact)
	if err != nil {
		return "", fmt.Errorf("failed to encode what was found out about the seed: %w", err)
	}
	return string(value), nil
}
