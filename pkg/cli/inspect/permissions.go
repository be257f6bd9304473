// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/history"
)

// need is something that commands need in the garden.
type need struct {
	// what are the commands.
	what string
	// optional says that they do without, and tell less.
	optional bool
	// permits are the permissions that all must be there.
	permits []permit
}

// permit is a permission in the garden.
type permit struct {
	attributes authorizationv1.ResourceAttributes
	// where says where, if that is not the user's namespace.
	where string
}

// String says in words what is permitted.
func (p permit) String() string {
	out := p.attributes.Verb + " " + p.attributes.Resource
	for _, part := range []string{p.attributes.Subresource, p.attributes.Name} {
		if part != "" {
			out += "/" + part
		}
	}
	return out + p.where
}

// core is a permission for a resource of Gardener's core, in the namespace or in none.
func core(verb, resource, namespace string) permit {
	return permit{attributes: authorizationv1.ResourceAttributes{Group: gardencorev1beta1.GroupName, Verb: verb,
		Resource: resource, Namespace: namespace}}
}

// inGarden is a permission for a resource in the namespace garden.
func inGarden(verb, group, resource string) permit {
	return permit{where: " in the namespace garden", attributes: authorizationv1.ResourceAttributes{Verb: verb,
		Group: group, Resource: resource, Namespace: v1beta1constants.GardenNamespace}}
}

// of returns the permission for a subresource.
func (p permit) of(subresource string) permit {
	p.attributes.Subresource = subresource
	return p
}

// named returns the permission for one object.
func (p permit) named(name string) permit {
	p.attributes.Name = name
	return p
}

// needs are the permissions that docs/usage lists for commands. Those about one shoot are asked for in the user's
// namespace. What other checks of an installation try by themselves is not among them.
func needs(namespace string) []need {
	shoot := func(verb string) permit { return core(verb, "shoots", namespace) }
	seed := func(verb string) permit { return core(verb, "seeds", "") }
	own := func(verb, group, resource string) permit {
		return permit{attributes: authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource,
			Namespace: namespace}}
	}
	allShoots := core("list", "shoots", "")
	allShoots.where = " of all namespaces"
	managedSeeds := seedmanagementv1alpha1.GroupName

	return []need{
		{what: "get, status and list", permits: []permit{shoot("get"), shoot("list")}},
		{what: "plan", permits: []permit{seed("list")}},
		{what: "start", permits: []permit{shoot("patch"), shoot("patch").of("binding")}},
		{what: "pause, retry and abort", permits: []permit{shoot("patch")}},
		{what: "drain and plan --probe", permits: []permit{seed("get"), seed("patch")}},
		{what: "drain plan", permits: []permit{allShoots, core("list", "projects", ""),
			core("list", "exposureclasses", ""), core("get", "cloudprofiles", "")}},
		{what: "in-flight", permits: []permit{allShoots, seed("list")}},
		{what: "probe", permits: []permit{shoot("create").of("adminkubeconfig")}},
		{what: "verify", permits: []permit{seed("get"), core("get", "backupentries", namespace)}},
		{what: "history", permits: []permit{inGarden("get", "", "configmaps").named(history.ConfigMapName)}},
		{what: "events and report", optional: true, permits: []permit{own("list", "", "events")}},
		{what: "verify", optional: true, permits: []permit{core("get", "shootstates", namespace)}},
		{what: "plan", optional: true, permits: []permit{own("list", operationsv1alpha1.GroupName, "bastions")}},
		{what: "plan and drain plan", optional: true, permits: []permit{inGarden("list", "", "configmaps"),
			inGarden("list", managedSeeds, "managedseeds")}},
	}
}

// accessNeed is what it takes to get into seeds that are shoots.
func accessNeed(kind access.Credentials) need {
	subresource := "viewerkubeconfig"
	if kind == access.CredentialsAdmin {
		subresource = "adminkubeconfig"
	}
	shoots := gardencorev1beta1.GroupName
	return need{what: "access to managed seeds", permits: []permit{
		inGarden("get", seedmanagementv1alpha1.GroupName, "managedseeds"), inGarden("get", shoots, "shoots"),
		inGarden("create", shoots, "shoots").of(subresource)}}
}

// permissions asks for everything that commands need, each question once. Where there is access to all the seeds, or
// none is wanted, nobody needs the garden for it.
func (r InstallationReader) permissions(ctx context.Context, seeds []gardencorev1beta1.Seed) []Permission {
	all := needs(r.Garden.Namespace)
	closed := slices.ContainsFunc(seeds, func(seed gardencorev1beta1.Seed) bool {
		_, open := r.Seeds[seed.Name]
		return !open
	})
	if closed && r.Credentials != access.CredentialsNone {
		all = append(all, accessNeed(r.Credentials))
	}
	var (
		out      []Permission
		answered = map[permit]bool{}
	)
	for _, need := range all {
		out = append(out, r.permission(ctx, need, answered))
	}
	return out
}

// permission asks the API server whether the user may do what is needed, unless it has answered that already.
func (r InstallationReader) permission(ctx context.Context, need need, answered map[permit]bool) Permission {
	out := Permission{For: need.what, Optional: need.optional, Allowed: true}
	for _, permit := range need.permits {
		allowed, known := answered[permit]
		if !known {
			review := &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &permit.attributes}}
			if err := r.Garden.Client.Create(ctx, review); err != nil {
				out.Err = err
				return out
			}
			allowed = review.Status.Allowed
			answered[permit] = allowed
		}
		if !allowed {
			out.Allowed, out.Text = false, permit.String()
			return out
		}
	}
	return out
}
