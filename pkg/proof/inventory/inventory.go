// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory lists what a seed holds of a shoot, object by object, so that two moments can be compared.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Object is one object of a seed.
type Object struct {
	// Resource is the plural name of its kind.
	Resource string
	// Namespace and Name name it; the namespace of a cluster-scoped one is empty.
	Namespace, Name string
	// UID tells it from one of the same name that came before it.
	UID types.UID
	// Generation counts the changes of its specification.
	Generation int64
}

// String names the object.
func (o Object) String() string {
	return fmt.Sprintf("%s %s", o.Resource, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// List returns every object of any kind in the shoot's namespace, and every other object whose name contains the
// namespace's, in a fixed order. The cluster's name is used in errors.
func List(ctx context.Context, config *rest.Config, cluster, namespace string) ([]Object, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", cluster, err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("failed to discover the resources of %s: %w", cluster, err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", cluster, err)
	}

	var (
		found []Object
		errs  []error
	)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("failed to parse group version %q: %w", list.GroupVersion, err)
		}
		for _, resource := range list.APIResources {
			// Events tell of what was, and go away by themselves.
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" ||
				strings.HasSuffix(version.Group, "metrics.k8s.io") {
				continue
			}
			items, err := objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("failed to list %s in %s: %w", resource.Name, cluster, err))
				continue
			}
			for _, item := range items.Items {
				if item.Namespace == namespace || strings.Contains(item.Name, namespace) {
					found = append(found, Object{Resource: resource.Name, Namespace: item.Namespace, Name: item.Name,
						UID: item.UID, Generation: item.Generation})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(found, func(a, b Object) bool { return a.String() == b.String() && a.UID == b.UID }),
		errors.Join(errs...)
}

// Names returns the objects' names, each once.
func Names(objects []Object) []string {
	var names []string
	for _, object := range objects {
		names = append(names, object.String())
	}
	return slices.Compact(names)
}

// Exempt tells what need not be the same at two moments, by how the words for an object (see Object.String) begin.
type Exempt struct {
	// Replaced may be others of the same names.
	Replaced []string
	// Changed may have other specifications.
	Changed []string
}

func exempt(prefixes []string, object Object) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(object.String(), prefix) })
}

// Diff returns a line for each object that is gone, new, another one of the same name, or changed.
func Diff(before, after []Object, exempted Exempt) []string {
	var out []string
	index := map[string]Object{}
	for _, object := range before {
		index[object.String()] = object
	}
	for _, object := range after {
		former, known := index[object.String()]
		delete(index, object.String())
		switch {
		case !known:
			out = append(out, "new: "+object.String())
		case former.UID != object.UID && !exempt(exempted.Replaced, object):
			out = append(out, "replaced: "+object.String())
		case former.UID == object.UID && former.Generation != object.Generation && !exempt(exempted.Changed, object):
			out = append(out, fmt.Sprintf("changed: %s (generation %d, was %d)", object, object.Generation,
				former.Generation))
		}
	}
	for name := range index {
		out = append(out, "gone: "+name)
	}
	slices.Sort(out)
	return out
}
