// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// dialTimeout bounds how long a connection to the shoot may take.
const dialTimeout = 5 * time.Second

// ShootAccess is how an end user reaches the shoot's API server: by its public name, with an administrator's
// credentials that outlive the run.
func ShootAccess(ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot) (*rest.Config, error) {
	config, _, err := access.Shoot(ctx, garden, shoot, 12*time.Hour)
	return config, err
}

// DNSServer is the address of the server that knows the landscape's names.
func DNSServer(landscape *config.Config) string { return net.JoinHostPort(landscape.Garden.IP, "53") }

// ResolvedBy returns the same access for clients on this machine: the landscape's names are known to its own DNS server
// only.
func ResolvedBy(server string, access *rest.Config) *rest.Config {
	config := rest.CopyConfig(access)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	config.Dial = (&net.Dialer{Timeout: dialTimeout, Resolver: resolver}).DialContext
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return config
}

// DNSNames returns the names of all records of the shoot in the seed.
func DNSNames(ctx context.Context, seed client.Client, namespace string) ([]string, error) {
	records := &extensionsv1alpha1.DNSRecordList{}
	if err := seed.List(ctx, records, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list DNSRecords in namespace %s: %w", namespace, err)
	}
	names := []string{}
	for _, record := range records.Items {
		if !slices.Contains(names, record.Spec.Name) {
			names = append(names, record.Spec.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("namespace %s holds no DNSRecord", namespace)
	}
	return names, nil
}
