// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package seedlook writes on Seeds of tests what the agent of a seed finds out there, where no agent does.
package seedlook

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// NameServer is the name server that has answered.
const NameServer = "192.0.2.53:53"

// InOrder lets the Seed say that its agent has looked at the given time, at the cluster DNS, at the domains of the
// Seed's specification, at the extensions for the Seed's provider, and at the backups of an etcd, and that all is in
// order. Connections to other seeds are not probed.
func InOrder(seed *gardencorev1beta1.Seed, at time.Time) {
	looked := seedfacts.Looked{LookedAt: metav1.NewTime(at)}
	access := seedfacts.DNSAccess{}
	add := func(use seedfacts.Use, provider gardencorev1beta1.SeedDNSProviderConfig) {
		access.Domains = append(access.Domains, seedfacts.Domain{Looked: looked, Use: use, Domain: provider.Domain,
			Provider: provider.Type, Zone: ptr.Deref(provider.Zone, ""), NameServers: []string{NameServer}})
	}
	if seed.Spec.DNS.Internal != nil {
		add(seedfacts.UseInternal, *seed.Spec.DNS.Internal)
	}
	for _, provider := range seed.Spec.DNS.Defaults {
		add(seedfacts.UseDefault, provider)
	}
	Say(seed, seedfacts.AnnotationClusterDNS, seedfacts.ClusterDNS{Looked: looked})
	Say(seed, seedfacts.AnnotationDNSAccess, access)
	Say(seed, seedfacts.AnnotationExtensions, seedfacts.Extensions{Looked: looked, Ready: ofProvider(seed)})
	Say(seed, seedfacts.AnnotationBackups, seedfacts.Backups{Looked: looked, Written: 1})
	Say(seed, seedfacts.AnnotationProbes, seedfacts.Probes{Off: true})
}

// ofProvider returns the kinds and types of what an extension for the Seed's provider reconciles.
func ofProvider(seed *gardencorev1beta1.Seed) []string {
	ready := sets.New[string]()
	for _, kind := range []string{extensionsv1alpha1.ControlPlaneResource, extensionsv1alpha1.InfrastructureResource,
		extensionsv1alpha1.WorkerResource} {
		ready.Insert(gardenerutils.ExtensionsID(kind, seed.Spec.Provider.Type))
	}
	if seed.Spec.Backup != nil {
		for _, kind := range []string{extensionsv1alpha1.BackupBucketResource, extensionsv1alpha1.BackupEntryResource} {
			ready.Insert(gardenerutils.ExtensionsID(kind, seed.Spec.Backup.Provider))
		}
	}
	if seed.Spec.DNS.Internal != nil {
		ready.Insert(gardenerutils.ExtensionsID(extensionsv1alpha1.DNSRecordResource, seed.Spec.DNS.Internal.Type))
	}
	for _, provider := range seed.Spec.DNS.Defaults {
		ready.Insert(gardenerutils.ExtensionsID(extensionsv1alpha1.DNSRecordResource, provider.Type))
	}
	return sets.List(ready)
}

// Installed lets the agent of the Seed have found these kinds and types of extensions ready as well, as "Kind/type". It
// comes after InOrder.
func Installed(seed *gardencorev1beta1.Seed, ids ...string) {
	var extensions seedfacts.Extensions
	if err := seedfacts.Of(seed, seedfacts.AnnotationExtensions, &extensions); err != nil {
		panic(err)
	}
	extensions.Ready = sets.List(sets.New(extensions.Ready...).Insert(ids...))
	Say(seed, seedfacts.AnnotationExtensions, extensions)
}

// Connected lets the agents of both Seeds have probed the connection between them at the given time. It is a fast one.
func Connected(one, other *gardencorev1beta1.Seed, at time.Time) {
	result := seedfacts.ProbeResult{
		Looked:    seedfacts.Looked{LookedAt: metav1.NewTime(at)},
		RoundTrip: metav1.Duration{Duration: 2 * time.Millisecond}, Sent: 100 << 20, Received: 80 << 20,
		ClockSkew: metav1.Duration{Duration: time.Millisecond},
	}
	for from, to := range map[*gardencorev1beta1.Seed]string{one: other.Name, other: one.Name} {
		probed := result
		Say(from, seedfacts.AnnotationProbes, seedfacts.Probes{
			Connections: []seedfacts.Connection{{Seed: to, Result: &probed}}})
	}
}

// Below lets the agent of the Seed have looked at the given time at a default domain that is in a secret of the garden,
// not in the Seed's specification, and have found it in order. It comes after InOrder.
func Below(seed *gardencorev1beta1.Seed, at time.Time, domain, provider string) {
	var access seedfacts.DNSAccess
	if err := seedfacts.Of(seed, seedfacts.AnnotationDNSAccess, &access); err != nil {
		panic(err)
	}
	access.Domains = append(access.Domains, seedfacts.Domain{
		Looked: seedfacts.Looked{LookedAt: metav1.NewTime(at)}, Use: seedfacts.UseDefault, Domain: domain,
		Provider: provider, NameServers: []string{NameServer}})
	Say(seed, seedfacts.AnnotationDNSAccess, access)
}

// Again lets the agent of the Seed have looked at the given time at what it has looked at before, and have found the
// same.
func Again(seed *gardencorev1beta1.Seed, at time.Time) {
	looked := seedfacts.Looked{LookedAt: metav1.NewTime(at)}
	var dns seedfacts.ClusterDNS
	if seedfacts.Of(seed, seedfacts.AnnotationClusterDNS, &dns) == nil {
		dns.Looked = looked
		Say(seed, seedfacts.AnnotationClusterDNS, dns)
	}
	var extensions seedfacts.Extensions
	if seedfacts.Of(seed, seedfacts.AnnotationExtensions, &extensions) == nil {
		extensions.Looked = looked
		Say(seed, seedfacts.AnnotationExtensions, extensions)
	}
	var backups seedfacts.Backups
	if seedfacts.Of(seed, seedfacts.AnnotationBackups, &backups) == nil {
		backups.Looked = looked
		Say(seed, seedfacts.AnnotationBackups, backups)
	}
	var access seedfacts.DNSAccess
	if seedfacts.Of(seed, seedfacts.AnnotationDNSAccess, &access) == nil {
		for i := range access.Domains {
			access.Domains[i].Looked = looked
		}
		Say(seed, seedfacts.AnnotationDNSAccess, access)
	}
}

// Say writes the fact on the Seed.
func Say(seed *gardencorev1beta1.Seed, annotation string, fact any) {
	value, err := seedfacts.Encode(fact)
	if err != nil {
		panic(err)
	}
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, annotation, value)
}
