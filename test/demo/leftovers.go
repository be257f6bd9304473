// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// leftovers lists what a seed still holds of a shoot: every object of any kind in the shoot's namespace, and every other
// object whose name contains the namespace's.
func leftovers(ctx context.Context, seed *cluster, namespace string) ([]string, error) {
	_, lists, err := seed.kube.Discovery().ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("failed to discover the resources of %s: %w", seed.name, err)
	}
	objects, err := metadata.NewForConfig(seed.rest)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", seed.name, err)
	}

	var (
		found []string
		errs  []error
	)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("failed to parse group version %q: %w", list.GroupVersion, err)
		}
		for _, resource := range list.APIResources {
			// Events tell of what was, and go away by themselves.
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || strings.HasSuffix(version.Group, "metrics.k8s.io") {
				continue
			}
			items, err := objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("failed to list %s in %s: %w", resource.Name, seed.name, err))
				continue
			}
			for _, item := range items.Items {
				if item.Namespace == namespace || strings.Contains(item.Name, namespace) {
					found = append(found, fmt.Sprintf("%s %s", resource.Name, strings.TrimPrefix(item.Namespace+"/"+item.Name, "/")))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(errs...)
}
