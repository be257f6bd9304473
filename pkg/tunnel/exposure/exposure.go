// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package exposure connects the etcd members of a shoot in one seed with those in the other one for the time of a
// migration. It runs the relay in the shoot's namespace, lets cluster DNS and services lead to it, and opens the way in
// through the default Istio ingress gateway of the seed, to which the wildcard record of its ingress domain leads.
//
// No etcd is changed for it. A member's host name resolves to the local pod and to the relay pod of the same ordinal;
// the port in the peer URL decides which of them accepts. Between the seeds the bytes travel inside a second TLS layer,
// whose certificate authority is known to this shoot's two relays only.
package exposure

import (
	"context"
	"fmt"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils/flow"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Values configure the exposure in one seed.
type Values struct {
	// Namespace is the shoot's namespace in the seed.
	Namespace string
	// Role is what the seed is in the migration.
	Role steps.Role
	// Image is the image of the relay.
	Image string
	// PullSecrets are those with which the image is pulled, if any.
	PullSecrets PullSecrets
	// TLSSecretName is the name of the secret with the relay's certificate and its CA; see GenerateTLS.
	TLSSecretName string
	// Domain is the ingress domain of this seed.
	Domain string
	// PeerDomain is the ingress domain of the other seed.
	PeerDomain string
	// PlainPeers reports that the etcd members have no TLS between peers, as only members have none. Their connections
	// are then told apart by the host that they ask for.
	PlainPeers bool
	// Istio is the ingress gateway to which the wildcard record of Domain leads.
	Istio Istio
	// Clock is used instead of the time package. It defaults to the real one.
	Clock clock.PassiveClock
}

// Istio is an Istio ingress gateway.
type Istio struct {
	// Namespace is its namespace.
	Namespace string
	// ServiceName is the name of its service of type LoadBalancer.
	ServiceName string
	// Labels select its pods.
	Labels map[string]string
}

// Interface is the exposure as a component in Gardener's sense.
type Interface interface {
	component.DeployWaiter
	// Withdraw removes everything that Destroy removes, except for the policy that permits the peer ports of both sides
	// between the members of this seed, and the copies of pull secrets. Members that leave the destination's port do so
	// one after the other, without the relay; until the last of them has left, the others still have to reach it there,
	// and fronts of etcds have the same image as the relay.
	Withdraw(ctx context.Context) error
	// Sync brings the addresses of the relay's pods up to date wherever they are published, and tells which pods are in
	// use. It does nothing before Deploy.
	Sync(ctx context.Context) error
	// LeaveMembers takes the relay out of the names of the members in the destination, for good: no member of the
	// source is left that they would have to lead to. The relay stays, with what leads to it from the other seed. It
	// returns for how long caches of the cluster DNS may still lead to it; zero if they cannot. Repeat it until then.
	LeaveMembers(ctx context.Context) (time.Duration, error)
	// KeepClientService lets the services of the source's etcd clusters lead through the relay to the destination, so
	// that they continue answering when the members of the source are gone.
	KeepClientService(ctx context.Context) error
}

const (
	waitInterval = time.Second
	waitTimeout  = 3 * time.Minute
)

// New returns the exposure of a shoot's etcd members. The client must not be backed by a cache.
func New(log logr.Logger, c client.Client, values Values) Interface {
	if values.Clock == nil {
		values.Clock = clock.RealClock{}
	}
	return &exposure{log: log.WithName("exposure"), client: c, values: values}
}

type exposure struct {
	log    logr.Logger
	client client.Client
	values Values
	// membersLeft reports that no name of a member leads to the relay any more; see LeaveMembers.
	membersLeft bool
}

func (e *exposure) Deploy(ctx context.Context) error {
	if err := e.values.validate(); err != nil {
		return err
	}
	config, err := e.values.relayConfigYAML()
	if err != nil {
		return err
	}

	zones, err := e.readZones(ctx)
	if err != nil {
		return err
	}

	if err := e.copyPullSecrets(ctx); err != nil {
		return err
	}

	objects := e.objects()
	for _, task := range []struct {
		object client.Object
		mutate func() error
	}{
		{objects.configMap, func() error { e.mutateConfigMap(objects.configMap, config); return nil }},
		{objects.service, func() error { return e.mutateService(objects.service) }},
		{objects.headlessService, func() error { return e.mutateHeadlessService(objects.headlessService) }},
		{objects.serviceMonitor, func() error { e.mutateServiceMonitor(objects.serviceMonitor); return nil }},
		{objects.relayPolicy, func() error { e.mutateRelayPolicy(objects.relayPolicy); return nil }},
		{objects.dialersPolicy, func() error { e.mutateDialersPolicy(objects.dialersPolicy); return nil }},
		{objects.etcdPolicy, func() error { e.mutateEtcdPolicy(objects.etcdPolicy); return nil }},
		{objects.podDisruptionBudget,
			func() error { e.mutatePodDisruptionBudget(objects.podDisruptionBudget); return nil }},
		{objects.statefulSet, func() error { e.mutateStatefulSet(objects.statefulSet, config, zones); return nil }},
		{objects.gateway, e.gatewayMutation(objects.gateway)},
		{objects.destinationRule, e.destinationRuleMutation(objects.destinationRule)},
		{objects.virtualService, e.virtualServiceMutation(objects.virtualService, objects.gateway)},
	} {
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, task.object, task.mutate); err != nil {
			return fmt.Errorf("failed to deploy %T %s: %w", task.object, client.ObjectKeyFromObject(task.object), err)
		}
	}
	return nil
}

func (e *exposure) Wait(ctx context.Context) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()

	statefulSet := e.objects().statefulSet
	if err := retry.Until(timeoutCtx, waitInterval, func(ctx context.Context) (bool, error) {
		// Pods are ready only after they have been published.
		if err := e.Sync(ctx); err != nil {
			return retry.MinorError(err)
		}
		if err := e.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
			return retry.SevereError(
				fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err))
		}
		if err := health.CheckStatefulSet(statefulSet); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	}); err != nil {
		return fmt.Errorf("failed to wait for the pods of the relay: %w", err)
	}
	if err := e.Sync(ctx); err != nil {
		return err
	}
	return retry.Until(timeoutCtx, waitInterval, func(ctx context.Context) (bool, error) {
		if err := CheckRecord(ctx, e.client, e.values); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	})
}

func (e *exposure) Destroy(ctx context.Context) error {
	if err := e.Withdraw(ctx); err != nil {
		return err
	}
	if err := kubernetesutils.DeleteObject(ctx, e.client, e.objects().etcdPolicy); err != nil {
		return fmt.Errorf("failed to delete the policy of the peer ports: %w", err)
	}
	return e.deletePullSecrets(ctx)
}

func (e *exposure) Withdraw(ctx context.Context) error {
	// The way in closes first, then cluster DNS and services forget the relay, and the relay goes last.
	objects := e.objects()
	if err := kubernetesutils.DeleteObjects(ctx, e.client, objects.virtualService, objects.destinationRule,
		objects.gateway); err != nil {
		return fmt.Errorf("failed to delete the routes of the ingress gateway: %w", err)
	}
	for _, etcdRole := range naming.EtcdRoles {
		if err := kubernetesutils.DeleteObjects(ctx, e.client, e.emptyPeerSlice(etcdRole),
			e.emptyClientSlice(etcdRole)); err != nil {
			return fmt.Errorf("failed to delete the EndpointSlices of %s: %w", naming.EtcdName(etcdRole), err)
		}
	}
	role, binding := e.permission()
	if err := kubernetesutils.DeleteObjects(ctx, e.client, binding, role, objects.serviceMonitor,
		objects.statefulSet, objects.podDisruptionBudget, objects.service, objects.headlessService, objects.configMap,
		objects.relayPolicy, objects.dialersPolicy,
	); err != nil {
		return fmt.Errorf("failed to delete the relay: %w", err)
	}
	return nil
}

func (e *exposure) WaitCleanup(ctx context.Context) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()

	if err := flow.Parallel(func(ctx context.Context) error {
		return kubernetesutils.WaitUntilResourceDeleted(ctx, e.client, e.objects().statefulSet, waitInterval)
	}, func(ctx context.Context) error {
		return retry.Until(ctx, waitInterval, func(ctx context.Context) (bool, error) {
			pods, err := e.relayPods(ctx)
			if err != nil {
				return retry.SevereError(err)
			}
			if len(pods) > 0 {
				return retry.MinorError(fmt.Errorf("%d pods of the relay are still there", len(pods)))
			}
			return retry.Ok()
		})
	})(timeoutCtx); err != nil {
		return fmt.Errorf("failed to wait until the exposure is gone: %w", err)
	}
	return e.deleteTLS(ctx)
}

func (v Values) validate() error {
	for name, value := range map[string]string{
		"namespace": v.Namespace, "relay image": v.Image, "TLS secret": v.TLSSecretName,
		"ingress domain of this seed": v.Domain, "ingress domain of the other seed": v.PeerDomain,
	} {
		if value == "" {
			return fmt.Errorf("the exposure cannot be deployed: the %s is unknown", name)
		}
	}
	for _, host := range hosts(v.Namespace, v.Domain) {
		if label := len(host) - len(v.Domain) - 1; label > 63 {
			return fmt.Errorf("the exposure cannot be deployed: the first label of %s has %d characters, DNS allows 63",
				host, label)
		}
	}
	return nil
}

func (e *exposure) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: e.values.Namespace, Name: name, Labels: map[string]string{LabelKey: LabelValue}}
}

// relayPods returns the pods of the relay by ordinal.
func (e *exposure) relayPods(ctx context.Context) (map[int]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := e.client.List(ctx, list, client.InNamespace(e.values.Namespace),
		client.MatchingLabels(podSelector())); err != nil {
		return nil, fmt.Errorf("failed to list the pods of the relay: %w", err)
	}
	pods := map[int]corev1.Pod{}
	for ordinal := range naming.MembersPerSeed {
		for _, pod := range list.Items {
			if pod.Name == fmt.Sprintf("%s-%d", Name, ordinal) {
				pods[ordinal] = pod
			}
		}
	}
	return pods, nil
}

func podSelector() map[string]string {
	return map[string]string{v1beta1constants.LabelApp: Name}
}
