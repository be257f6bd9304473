// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	extensionsv1alpha1helper "github.com/gardener/gardener/pkg/api/extensions/v1alpha1/helper"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/extensions/dnsrecord"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	clientgokubernetes "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

// shootAccess is access to the shoot through the gateway of this seed, as an administrator.
type shootAccess struct {
	client client.Client
	rest   rest.Interface
}

// throughGateway returns access to the shoot through the kube-apiserver of this seed, wherever DNS leads. Every request
// has a connection of its own, so that requests spread over the replicas.
func (d *destination) throughGateway(b *botanist.Botanist) (*shootAccess, error) {
	config, err := d.shootConfig(b)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("failed to set up TLS for the kube-apiserver of the destination: %w", err)
	}
	address := net.JoinHostPort(b.APIServerAddress, strconv.Itoa(443))
	dialer := &net.Dialer{Timeout: probeTimeout}
	return newShootAccess(&rest.Config{
		Host:    config.Host,
		Timeout: probeTimeout,
		Transport: &http.Transport{
			TLSClientConfig:   tls,
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
		},
	})
}

func newShootAccess(config *rest.Config) (*shootAccess, error) {
	c, err := newShootClient(config)
	if err != nil {
		return nil, err
	}
	clientSet, err := clientgokubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for the shoot: %w", err)
	}
	return &shootAccess{client: c, rest: clientSet.CoreV1().RESTClient()}, nil
}

func newShootClient(config *rest.Config) (client.Client, error) {
	c, err := client.New(config, client.Options{Scheme: kubernetes.ShootScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for the shoot: %w", err)
	}
	return c, nil
}

// vpnDomain is the name under which the temporary VPN client finds the gateway of this seed. It is below the shoot's
// internal domain, which the nodes can resolve: the regular VPN client and the apiserver-proxy find the kube-apiserver
// there.
func vpnDomain(b *botanist.Botanist) string {
	return "livecpm-vpn." + *b.Shoot.InternalClusterDomain
}

// vpnTTL is short, because nobody keeps the name for long.
const vpnTTL = int64(60)

// vpnRecord returns the DNS record of vpnDomain.
func (d *destination) vpnRecord(b *botanist.Botanist) dnsrecord.Interface {
	const name = "livecpm-vpn"
	ttl := vpnTTL
	values := &dnsrecord.Values{
		Namespace:         b.Shoot.ControlPlaneNamespace,
		Name:              name,
		SecretName:        "dnsrecord-" + name,
		AnnotateOperation: true,
		Type:              b.Garden.InternalDomain.Provider,
		DNSName:           vpnDomain(b),
		RecordType:        extensionsv1alpha1helper.GetDNSRecordType(b.APIServerAddress),
		Values:            []string{b.APIServerAddress},
		TTL:               &ttl,
		IPStack:           gardenerutils.GetIPStackForShoot(b.Shoot.GetInfo()),
	}
	if zone := b.Garden.InternalDomain.Zone; zone != "" {
		values.Zone = &zone
	}
	return dnsrecord.New(b.Logger, b.SeedClientSet.Client(), values, d.Timings.PollInterval,
		dnsrecord.DefaultSevereThreshold, dnsrecord.DefaultTimeout,
		dnsrecord.CredentialsDeployerFromCredentials(b.Garden.InternalDomain.Credentials, b.Shoot.GetInfo()))
}
