// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/url"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The names of a shoot's addresses (status.advertisedAddresses), the one that end users are to use first.
var addressNames = []string{"external", "internal"}

// Shoot returns access to the shoot as end users have it, by its public name, with an administrator's credentials that
// the garden issues, and when they expire. The garden may issue them for a shorter time than is asked for.
func Shoot(
	ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot, validity time.Duration,
) (*rest.Config, time.Time, error) {
	key := client.ObjectKeyFromObject(shoot)
	request := &authenticationv1alpha1.AdminKubeconfigRequest{
		Spec: authenticationv1alpha1.AdminKubeconfigRequestSpec{ExpirationSeconds: ptr.To(int64(validity.Seconds()))},
	}
	if err := garden.SubResource("adminkubeconfig").Create(ctx, shoot, request); err != nil {
		return nil, time.Time{},
			fmt.Errorf("failed to request a kubeconfig of Shoot %s (permission: create shoots/adminkubeconfig): %w",
				key, err)
	}
	host, err := PublicHost(shoot)
	if err != nil {
		return nil, time.Time{}, err
	}
	kubeconfig, err := clientcmd.Load(request.Status.Kubeconfig)
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
			return config, request.Status.ExpirationTimestamp.Time, nil
		}
	}
	return nil, time.Time{}, fmt.Errorf("the kubeconfig of Shoot %s has no context for %s", key, host)
}

// PublicHost returns the name under which the shoot's API server is known outside.
func PublicHost(shoot *gardencorev1beta1.Shoot) (string, error) {
	for _, name := range addressNames {
		for _, address := range shoot.Status.AdvertisedAddresses {
			if address.Name != name {
				continue
			}
			server, err := url.Parse(address.URL)
			if err != nil {
				return "", fmt.Errorf("failed to parse the %s address of Shoot %s: %w", name,
					client.ObjectKeyFromObject(shoot), err)
			}
			return server.Hostname(), nil
		}
	}
	//nolint:staticcheck // It begins with a kind.
	return "", fmt.Errorf("Shoot %s advertises no address; wait until it is created",
		client.ObjectKeyFromObject(shoot))
}
