// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// DNSAccessOptions are what a DNSAccess needs. All of them are required.
type DNSAccessOptions struct {
	// Garden reads the garden without a cache, with the identity that the DNSRecords are going to be made with.
	Garden client.Reader
	// Shoots reads the Shoots of the seed from a cache: listing them is permitted to no other reader.
	Shoots client.Reader
	// SeedName is the name of the agent's own seed.
	SeedName string
	// NameServers asks name servers as step 6 does.
	NameServers dns.NameServers
	// Clock is the clock.
	Clock clock.PassiveClock
}

// DNSAccess finds out whether the seed is able to move DNS records: whether the credentials that its DNSRecords would
// be given exist and can be read, and whether the name servers that step 6 asks answer in this seed. It changes
// nothing.
type DNSAccess struct {
	options DNSAccessOptions
}

// NewDNSAccess returns a DNSAccess.
func NewDNSAccess(options DNSAccessOptions) (*DNSAccess, error) {
	if err := required.Fields("the dry run of DNS", options); err != nil {
		return nil, err
	}
	return &DNSAccess{options: options}, nil
}

// Fact returns the value of the annotation seedfacts.AnnotationDNSAccess, given the current one. What was in order is
// looked at again when it is time to, everything else each time.
func (d *DNSAccess) Fact(ctx context.Context, current string) (string, error) {
	var known seedfacts.DNSAccess
	if json.Unmarshal([]byte(current), &known) != nil {
		known = seedfacts.DNSAccess{}
	}
	expected, err := d.domains(ctx)
	if err != nil {
		return "", err
	}
	fact := seedfacts.DNSAccess{}
	for _, domain := range expected {
		fact.Domains = append(fact.Domains, d.judge(ctx, domain, known.Domains))
	}
	if err := ctx.Err(); err != nil {
		// What was asked last was not given the time to answer.
		return "", err
	}
	return seedfacts.Encode(fact)
}

// judge returns what is to be published of the domain: what is known, if nothing has changed and it was looked at not
// long ago.
func (d *DNSAccess) judge(ctx context.Context, domain kept, known []seedfacts.Domain) seedfacts.Domain {
	recent := func(like func(seedfacts.Domain) bool) *seedfacts.Domain {
		for i := range known {
			if like(known[i]) && !known[i].Due(d.options.Clock.Now()) {
				return &known[i]
			}
		}
		return nil
	}
	if former := recent(func(former seedfacts.Domain) bool {
		return former.InOrder() && former.SameProvider(domain.Domain)
	}); former != nil {
		return *former
	}
	seen := d.look(ctx, domain)
	if former := recent(func(former seedfacts.Domain) bool {
		former.Looked = seen.Looked
		return reflect.DeepEqual(former, seen)
	}); former != nil {
		// The Seed is not written each minute as long as the same is wrong.
		return *former
	}
	return seen
}

// kept is a domain with the way to its credentials.
type kept struct {
	seedfacts.Domain
	// read reads the credentials.
	read func(ctx context.Context) error
}

// domains returns all domains below which the seed keeps records, or is going to.
func (d *DNSAccess) domains(ctx context.Context) ([]kept, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := d.options.Garden.Get(ctx, client.ObjectKey{Name: d.options.SeedName}, seed); err != nil {
		return nil, fmt.Errorf("failed to read Seed %s: %w", d.options.SeedName, err)
	}
	out, err := d.ofSeed(ctx, seed)
	if err != nil {
		return nil, err
	}
	shoots := &gardencorev1beta1.ShootList{}
	if err := d.options.Shoots.List(ctx, shoots); err != nil {
		return nil, fmt.Errorf("failed to list the Shoots of seed %s: %w", d.options.SeedName, err)
	}
	defaults := out
	for i := range shoots.Items {
		shoot := &shoots.Items[i]
		if role, ok := steps.RoleOf(shoot, d.options.SeedName); !ok || role != steps.Destination {
			continue
		}
		if domain, own := d.ofShoot(shoot, defaults); own {
			out = append(out, domain)
		}
	}
	return slices.DeleteFunc(out, func(domain kept) bool { return domain.Provider == core.DNSUnmanaged }), nil
}

// ofSeed returns the internal domain and the default domains of the seed, which are in its specification, or in secrets
// that Gardener has had for them before (upstream's ReadGardenInternalDomain and ReadGardenDefaultDomains).
func (d *DNSAccess) ofSeed(ctx context.Context, seed *gardencorev1beta1.Seed) ([]kept, error) {
	var (
		out       []kept
		namespace = gardenerutils.ComputeGardenNamespace(seed.Name)
	)
	if internal := seed.Spec.DNS.Internal; internal != nil {
		out = append(out, d.configured(seedfacts.UseInternal, *internal))
	} else {
		domain, err := gardenerutils.ReadGardenInternalDomain(ctx, d.options.Garden, namespace, false, nil)
		if err != nil {
			return nil, fmt.Errorf("failed to read the internal domain of seed %s: %w", seed.Name, err)
		}
		if domain != nil {
			out = append(out, found(seedfacts.UseInternal, domain))
		}
	}
	for _, provider := range seed.Spec.DNS.Defaults {
		out = append(out, d.configured(seedfacts.UseDefault, provider))
	}
	if len(seed.Spec.DNS.Defaults) == 0 {
		domains, err := gardenerutils.ReadGardenDefaultDomains(ctx, d.options.Garden, namespace, nil)
		if err != nil {
			return nil, fmt.Errorf("failed to read the default domains of seed %s: %w", seed.Name, err)
		}
		for _, domain := range domains {
			out = append(out, found(seedfacts.UseDefault, domain))
		}
	}
	return out, nil
}

// configured is a domain of the Seed's specification.
func (d *DNSAccess) configured(use seedfacts.Use, provider gardencorev1beta1.SeedDNSProviderConfig) kept {
	return kept{
		Domain: seedfacts.Domain{Domain: provider.Domain, Use: use, Provider: provider.Type,
			Zone: ptr.Deref(provider.Zone, ""), Credentials: nameOf(provider.CredentialsRef)},
		read: d.reading(provider.CredentialsRef),
	}
}

// found is a domain that was found with its credentials.
func found(use seedfacts.Use, domain *gardenerutils.Domain) kept {
	return kept{
		Domain: seedfacts.Domain{Domain: domain.Domain, Use: use, Provider: domain.Provider, Zone: domain.Zone,
			Credentials: "Secret " + client.ObjectKeyFromObject(domain.Credentials).String()},
		read: func(context.Context) error { return nil },
	}
}

// ofShoot returns the domain of a shoot that is below no default domain, as upstream's ConstructExternalDomain finds
// it, and whether the shoot has one.
func (d *DNSAccess) ofShoot(shoot *gardencorev1beta1.Shoot, ofSeed []kept) (kept, bool) {
	own := seedfacts.DomainOf(shoot)
	if own == "" || slices.ContainsFunc(ofSeed, func(domain kept) bool { return domain.Has(own) }) {
		return kept{}, false
	}
	out := kept{Domain: seedfacts.Domain{Domain: own, Use: seedfacts.UseShoot}}
	//nolint:staticcheck // Deprecated, and still where the provider is.
	provider := v1beta1helper.FindPrimaryDNSProvider(shoot.Spec.DNS.Providers)
	if provider == nil {
		key := client.ObjectKeyFromObject(shoot)
		out.read = func(context.Context) error {
			//nolint:staticcheck // Shoot is the name of a kind.
			return fmt.Errorf("Shoot %s has no primary provider in spec.dns: %w", key, errNone)
		}
		return out, true
	}
	out.Provider = ptr.Deref(provider.Type, "")
	//nolint:staticcheck // Deprecated, and still where the zone is.
	if zones := provider.Zones; zones != nil && len(zones.Include) == 1 {
		out.Zone = zones.Include[0]
	}
	if ref := provider.CredentialsRef; ref != nil {
		credentials := corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name,
			Namespace: shoot.Namespace}
		out.Credentials, out.read = nameOf(credentials), d.reading(credentials)
		return out, true
	}
	out.Credentials = "those of Shoot " + client.ObjectKeyFromObject(shoot).String()
	out.read = func(ctx context.Context) error { return d.readOf(ctx, shoot) }
	return out, true
}

// errNone is why there are no credentials.
var errNone = errors.New("there are no credentials")

// readOf reads the credentials with which the infrastructure of the shoot is made.
func (d *DNSAccess) readOf(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	//nolint:staticcheck // Deprecated, but shoots may still refer to one.
	if name := shoot.Spec.SecretBindingName; name != nil {
		binding := &gardencorev1beta1.SecretBinding{} //nolint:staticcheck // See above.
		if err := d.options.Garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: *name},
			binding); err != nil {
			return fmt.Errorf("failed to read SecretBinding %s: %w", *name, err)
		}
		return d.reading(corev1.ObjectReference{APIVersion: "v1", Kind: "Secret",
			Namespace: binding.SecretRef.Namespace, Name: binding.SecretRef.Name})(ctx)
	}
	if name := shoot.Spec.CredentialsBindingName; name != nil {
		binding := &securityv1alpha1.CredentialsBinding{}
		if err := d.options.Garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: *name},
			binding); err != nil {
			return fmt.Errorf("failed to read CredentialsBinding %s: %w", *name, err)
		}
		return d.reading(binding.CredentialsRef)(ctx)
	}
	return fmt.Errorf("neither spec.dns nor the Shoot names credentials: %w", errNone)
}

func nameOf(ref corev1.ObjectReference) string {
	return fmt.Sprintf("%s %s/%s", ref.Kind, ref.Namespace, ref.Name)
}

func (d *DNSAccess) reading(ref corev1.ObjectReference) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := kubernetesutils.GetCredentialsByObjectReference(ctx, d.options.Garden, ref); err != nil {
			return fmt.Errorf("failed to read the credentials in %s: %w", nameOf(ref), err)
		}
		return nil
	}
}

// look reads the credentials of the domain and asks its name servers.
func (d *DNSAccess) look(ctx context.Context, domain kept) seedfacts.Domain {
	out := domain.Domain
	switch err := domain.read(ctx); {
	case errors.Is(err, errNone) || apierrors.IsNotFound(err):
		out.Missing = err.Error()
	case err != nil:
		out.Unknown = append(out.Unknown, err.Error())
	}
	answers, err := d.options.NameServers.Ask(ctx, domain.Domain.Domain, "SOA")
	switch {
	case err != nil:
		out.Unknown = append(out.Unknown, err.Error())
	case len(answers) == 0:
		out.Unknown = append(out.Unknown, fmt.Sprintf("no name server of %s was asked", domain.Domain.Domain))
	}
	for _, answer := range answers {
		if answer.Err != nil {
			out.Unknown = append(out.Unknown, answer.Err.Error())
			continue
		}
		out.NameServers = append(out.NameServers, answer.Server)
	}
	slices.Sort(out.NameServers)
	slices.Sort(out.Unknown)
	out.LookedAt = metav1.NewTime(d.options.Clock.Now().UTC().Truncate(time.Second))
	return out
}
