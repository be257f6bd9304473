// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

const (
	// dialTimeout is for one endpoint. Pods are one hop away: what does not answer in this time is gone.
	dialTimeout = 2 * time.Second
	// dialAttempts is how many endpoints are tried before the client is given up.
	dialAttempts = 3
)

// Backends finds and dials the endpoints of Services.
type Backends struct {
	// Reader is expected to answer from memory, as it is asked for each connection.
	Reader client.Reader
}

// Endpoints returns the addresses that may take new connections, in random order. Endpoints that are not ready or are
// terminating may not, even when there are no others.
func (b Backends) Endpoints(ctx context.Context, target Target) ([]string, error) {
	service := &corev1.Service{}
	if err := b.Reader.Get(ctx, client.ObjectKey{Namespace: target.Namespace, Name: target.Service},
		service); err != nil {
		return nil, fmt.Errorf("failed to get Service of target %s: %w", target, err)
	}
	var port *corev1.ServicePort
	for i := range service.Spec.Ports {
		if p := &service.Spec.Ports[i]; p.Port == int32(target.Port) &&
			(p.Protocol == corev1.ProtocolTCP || p.Protocol == "") {
			port = p
		}
	}
	if port == nil {
		return nil, fmt.Errorf("failed to find port of target %s in its Service", target)
	}
	slices := &discoveryv1.EndpointSliceList{}
	if err := b.Reader.List(ctx, slices, client.InNamespace(target.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: target.Service}); err != nil {
		return nil, fmt.Errorf("failed to list EndpointSlices of target %s: %w", target, err)
	}
	seen := map[string]bool{}
	var addresses []string
	for _, slice := range slices.Items {
		for _, p := range slice.Ports {
			if ptr.Deref(p.Name, "") != port.Name || p.Port == nil {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if !ptr.Deref(endpoint.Conditions.Ready, true) || ptr.Deref(endpoint.Conditions.Terminating, false) ||
					len(endpoint.Addresses) == 0 {
					continue
				}
				address := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*p.Port)))
				if !seen[address] {
					seen[address] = true
					addresses = append(addresses, address)
				}
			}
		}
	}
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	return addresses, nil
}

// Dial connects to one of the target's endpoints and moves on to another one when that fails.
func (b Backends) Dial(ctx context.Context, target Target) (*net.TCPConn, error) {
	addresses, err := b.Endpoints(ctx, target)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("failed to dial target %s: it has no ready endpoint", target)
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: wire.KeepAlive}
	var errs []error
	for _, address := range addresses[:min(len(addresses), dialAttempts)] {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("failed to dial target %s: %w", target, errors.Join(errs...))
}
