// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package dryrun tries in a seed, before any migration, what migrations are going to need of it.
package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

const (
	// CanaryName is the name of the canary's Service and of its EndpointSlice.
	CanaryName = "livecpm-dns-canary"
	// CanaryAddress is the address in the slice. It is one of those for documentation (RFC 5737), which nobody has.
	CanaryAddress = "192.0.2.181"

	// canaryManager is who manages the slice, for the controllers of Kubernetes, which leave other's slices alone.
	canaryManager = "livecpm-agent"
	canaryPort    = 2380

	// canaryPatience is for how long the answer is waited for. A cluster DNS, or the cache on the node, may remember
	// for 30 s that the name did not exist, and each of two caches in a row does.
	canaryPatience = 90 * time.Second
	// canaryPause is the pause between two questions.
	canaryPause = 3 * time.Second
	// canaryQuestion bounds one question.
	canaryQuestion = 10 * time.Second
	// canaryCleanup bounds the removal of the canary when the agent stops.
	canaryCleanup = 10 * time.Second
)

// CanaryOptions are what a Canary needs. All of them are required.
type CanaryOptions struct {
	// SeedClient is a client of the seed without a cache.
	SeedClient client.Client
	// Namespace is the agent's own namespace in the seed.
	Namespace string
	// Lookup returns the addresses of a host, as pods of the seed see them.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Clock is the clock.
	Clock clock.Clock
}

// Canary finds out whether the DNS of the seed's cluster knows EndpointSlices that no controller of Kubernetes has
// made. The members of both seeds find each other by such slices (pkg/tunnel/exposure). kube-dns knows Endpoints only,
// from which Kubernetes makes slices, but not the other way round.
//
// The canary is a headless Service without a selector, and a slice with one address. They exist as long as the look
// takes.
type Canary struct {
	options CanaryOptions
	// swept is set when what an agent has left behind that was stopped during its look is gone.
	swept bool
}

// NewCanary returns a Canary.
func NewCanary(options CanaryOptions) (*Canary, error) {
	if err := required.Fields("the canary of the cluster DNS", options); err != nil {
		return nil, err
	}
	return &Canary{options: options}, nil
}

// ClusterLookup asks the DNS of the cluster as every pod does that runs in it: with the resolvers and the search list
// in /etc/resolv.conf. It keeps no answers.
func ClusterLookup(ctx context.Context, host string) ([]string, error) {
	return (&net.Resolver{PreferGo: true}).LookupHost(ctx, host)
}

// Fact returns the value of the annotation seedfacts.AnnotationClusterDNS, given the current one. It looks again when
// it is time to, or if something was wrong.
func (c *Canary) Fact(ctx context.Context, current string) (string, error) {
	if !c.swept {
		if err := c.remove(ctx, c.slice(), c.service()); err != nil {
			return "", err
		}
		c.swept = true
	}
	var known seedfacts.ClusterDNS
	if json.Unmarshal([]byte(current), &known) == nil && known.Problem == "" && !known.Due(c.options.Clock.Now()) {
		return current, nil
	}
	problem, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	return seedfacts.Encode(seedfacts.ClusterDNS{
		Looked:  seedfacts.Looked{LookedAt: metav1.NewTime(c.options.Clock.Now().UTC().Truncate(time.Second))},
		Problem: problem,
	})
}

// look returns what the cluster DNS answered instead of the address, or nothing if it answered with the address. It
// fails if that could not be found out.
func (c *Canary) look(ctx context.Context) (problem string, err error) {
	if err := c.remove(ctx, c.slice(), c.service()); err != nil {
		return "", err
	}
	service, slice := c.service(), c.slice()
	defer func() {
		// Also when the agent stops in the middle of it. What another agent has made meanwhile stays.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), canaryCleanup)
		defer cancel()
		if failed := c.remove(ctx, slice, service); failed != nil {
			c.swept = false
			err = errors.Join(err, failed)
		}
	}()
	// A name that was never asked for is in no cache.
	hostname := "canary-" + utilrand.String(8)
	if err := c.create(ctx, service, slice, hostname); err != nil {
		return "", err
	}
	return c.ask(ctx, fmt.Sprintf("%s.%s.%s.svc", hostname, CanaryName, c.options.Namespace))
}

// ask asks for the host until the address is the answer, and says in the end what was answered instead. It fails if
// nothing was answered, because then nothing is known.
func (c *Canary) ask(ctx context.Context, host string) (string, error) {
	until := c.options.Clock.Now().Add(canaryPatience)
	for {
		asking, cancel := context.WithTimeout(ctx, canaryQuestion)
		addresses, err := c.options.Lookup(asking, host)
		cancel()
		if err == nil && slices.Equal(addresses, []string{CanaryAddress}) {
			return "", nil
		}
		if !c.options.Clock.Now().Before(until) {
			return answered(host, addresses, err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-c.options.Clock.After(canaryPause):
		}
	}
}

// answered says what the cluster DNS has answered, or fails if it has answered nothing.
func answered(host string, addresses []string, err error) (string, error) {
	var failure *net.DNSError
	switch {
	case err == nil:
		slices.Sort(addresses)
		return fmt.Sprintf("it answers [%s] for %s instead of [%s]", strings.Join(addresses, " "), host,
			CanaryAddress), nil
	case errors.As(err, &failure) && failure.IsNotFound:
		return fmt.Sprintf("it does not know %s, %s after an EndpointSlice for it was made", host, canaryPatience), nil
	}
	return "", fmt.Errorf("failed to ask the cluster DNS for %s: %w", host, err)
}

func (c *Canary) create(
	ctx context.Context, service *corev1.Service, slice *discoveryv1.EndpointSlice, hostname string,
) error {
	service.Spec = corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone,
		Ports:     []corev1.ServicePort{{Name: "canary", Port: canaryPort, Protocol: corev1.ProtocolTCP}},
	}
	if err := c.options.SeedClient.Create(ctx, service); err != nil {
		return fmt.Errorf("failed to create Service %s: %w", client.ObjectKeyFromObject(service), err)
	}
	slice.Labels[discoveryv1.LabelServiceName] = CanaryName
	slice.Labels[discoveryv1.LabelManagedBy] = canaryManager
	// Where the agent is killed, whoever deletes the Service deletes the slice.
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name,
		UID: service.UID}}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Ports = []discoveryv1.EndpointPort{{Name: new("canary"), Port: new(int32(canaryPort)),
		Protocol: new(corev1.ProtocolTCP)}}
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{CanaryAddress}, Hostname: &hostname,
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}}
	if err := c.options.SeedClient.Create(ctx, slice); err != nil {
		return fmt.Errorf("failed to create EndpointSlice %s: %w", client.ObjectKeyFromObject(slice), err)
	}
	return nil
}

// remove deletes the objects, if they are there. Those that were created are deleted only as long as they are the same.
func (c *Canary) remove(ctx context.Context, slice *discoveryv1.EndpointSlice, service *corev1.Service) error {
	for _, object := range []client.Object{slice, service} {
		var options []client.DeleteOption
		if uid := object.GetUID(); uid != "" {
			options = append(options, client.Preconditions{UID: &uid})
		}
		err := client.IgnoreNotFound(c.options.SeedClient.Delete(ctx, object, options...))
		if err != nil && !(len(options) > 0 && apierrors.IsConflict(err)) {
			return fmt.Errorf("failed to delete %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

func (c *Canary) service() *corev1.Service { return &corev1.Service{ObjectMeta: c.objectMeta()} }

func (c *Canary) slice() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: c.objectMeta()}
}

func (c *Canary) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: CanaryName, Namespace: c.options.Namespace,
		Labels: map[string]string{"app.kubernetes.io/part-of": "livecpm"}}
}
