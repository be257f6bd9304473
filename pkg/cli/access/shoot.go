// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/url"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Shoot returns access to the shoot as end users have it, by its public name, with an administrator's credentials that
// the garden issues, and when they expire. The garden may issue them for a shorter time than is asked for.
func Shoot(
	ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot, validity time.Duration,
) (*rest.Config, time.Time, error) {
	return credentials(ctx, garden, shoot, adminKubeconfig(validity))
}

// credentials asks for a kubeconfig of the shoot.
func credentials(
	ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot, request kubeconfigRequest,
) (*rest.Config, time.Time, error) {
	key := client.ObjectKeyFromObject(shoot)
	if err := garden.SubResource(request.subresource).Create(ctx, shoot, request.object); err != nil {
		return nil, time.Time{},
			fmt.Errorf("failed to request a kubeconfig of Shoot %s (permission: create shoots/%s): %w",
				key, request.subresource, err)
	}
	content, expires := request.answer()
	host, err := PublicHost(shoot)
	if err != nil {
		return nil, time.Time{}, err
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("failed to read the kubeconfig of Shoot %s: %w", key, err)
	}
	for name, c := range kubeconfig.Contexts {
		endpoint := kubeconfig.Clusters[c.Cluster]
		if endpoint == nil {
			continue
		}
		if server, err := url.Parse(endpoint.Server); err == nil && server.Hostname() == host {
			config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, name, nil, nil).ClientConfig()
			if err != nil {
				return nil, time.Time{}, fmt.Errorf("failed to read the kubeconfig of Shoot %s: %w", key, err)
			}
			return config, expires, nil
		}
	}
	return nil, time.Time{}, fmt.Errorf("the kubeconfig of Shoot %s has no context for %s", key, host)
}

// PublicHost returns the name under which end users reach the shoot's API server.
func PublicHost(shoot *gardencorev1beta1.Shoot) (string, error) {
	hosts := Hosts(shoot)
	if len(hosts) == 0 {
		//nolint:staticcheck // It begins with a kind.
		return "", fmt.Errorf("Shoot %s advertises no address; wait until it is created",
			client.ObjectKeyFromObject(shoot))
	}
	return hosts[0], nil
}

// Hosts returns the names under which the shoot's API server is known outside, for which Gardener keeps DNS records.
// The one that end users are to use comes first. What is no URL in the Shoot's status is left out.
func Hosts(shoot *gardencorev1beta1.Shoot) []string {
	var hosts []string
	for _, name := range []string{v1beta1constants.AdvertisedAddressExternal,
		v1beta1constants.AdvertisedAddressInternal} {
		for _, address := range shoot.Status.AdvertisedAddresses {
			if address.Name != name {
				continue
			}
			if server, err := url.Parse(address.URL); err == nil && server.Hostname() != "" {
				hosts = append(hosts, server.Hostname())
			}
		}
	}
	return hosts
}
