// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils/flow"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	istioapinetworkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

const (
	// annotationGatewayClosed is on the shoot's namespace in the source from when the ingress gateway was seen to take
	// no new connection of a client. Its value is that time (RFC 3339): Envoy drains the kept ones from then on.
	annotationGatewayClosed = "livecpm.gardener.cloud/gateway-closed"
	// annotationInnerGatewayClosed is the same for the connections that come from inside of the shoot.
	annotationInnerGatewayClosed = "livecpm.gardener.cloud/inner-gateway-closed"
	// suffixClosed ends the name of the EnvoyFilter that closes the way. It begins with the shoot's namespace, as those
	// of Gardener do.
	suffixClosed = "-livecpm-closed"
	// priorityClosed puts the EnvoyFilter behind those of Gardener, whose priority is 0, and behind the one of step 6.
	priorityClosed = 101
	// suffixWildcard ends the names of Gardener's objects for the seed's wildcard certificate, if another ingress
	// gateway serves it (emptyWildcardGateway in pkg/component/kubernetes/apiserverexposure/sni.go).
	suffixWildcard = "-wildcard"
	// managedResourceSNI has Gardener's EnvoyFilters of the shoot in it (managedResourceName in the same file).
	managedResourceSNI = "kube-apiserver-sni"
	// closedLooks is how many handshakes in a row must fail before the way counts as closed: behind the load balancer
	// there may be several gateways, each of which learns of the change by itself.
	closedLooks = 5
	// lookTimeout bounds each of them.
	lookTimeout = 5 * time.Second
	gatewayPort = "443"
)

// ingress is the shoot's way through the ingress gateway, in one attempt.
type ingress struct {
	*source
	migration *migration.Migration
	botanist  *botanist.Botanist
	namespace string
}

// newIngress returns the shoot's way through the ingress gateway. Only a botanist knows which gateways serve the shoot.
func (s *source) newIngress(ctx context.Context, m *migration.Migration) (*ingress, error) {
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return nil, err
	}
	return &ingress{source: s, migration: m, botanist: b,
		namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)}, nil
}

// frontDoor is how clients reach the source's kube-apiserver.
type frontDoor struct {
	// terminated reports whether Envoy ends the clients' TLS (IstioTLSTermination). The kube-apiserver then sees
	// connections of Envoy only, and nothing that it does to them reaches a client.
	terminated bool
	// gateways are Gardener's Gateways of the kube-apiserver by the namespace of the Envoys that serve them.
	gateways map[string]*istionetworkingv1beta1.Gateway
	// host is a name under which clients come.
	host string
}

// readFrontDoor reads how the kube-apiserver is exposed. What is deployed counts: feature gate and annotation may have
// been changed since. It returns nil if it is not exposed any more.
func (i *ingress) readFrontDoor(ctx context.Context) (*frontDoor, error) {
	var (
		reader = i.SeedClientSet.APIReader()
		name   = v1beta1constants.DeploymentNameKubeAPIServer
		routes = &istionetworkingv1beta1.VirtualService{}
		door   = &frontDoor{gateways: map[string]*istionetworkingv1beta1.Gateway{}}
	)
	found, err := controlplane.Exists(ctx, reader, client.ObjectKey{Namespace: i.namespace, Name: name}, routes)
	if err != nil {
		return nil, err
	}
	for suffix, of := range map[string]func() string{
		"": i.botanist.IstioNamespace, suffixWildcard: i.botanist.WildcardIstioNamespace,
	} {
		gateway := &istionetworkingv1beta1.Gateway{}
		exposed, err := controlplane.Exists(ctx, reader,
			client.ObjectKey{Namespace: i.namespace, Name: name + suffix}, gateway)
		if err != nil {
			return nil, err
		}
		if exposed && len(hostsOf(gateway)) > 0 {
			door.gateways[of()] = gateway
			if suffix == "" {
				door.host = hostsOf(gateway)[0]
			}
		}
	}
	if !found && len(door.gateways) == 0 {
		return nil, nil
	}
	if !found || door.host == "" {
		return nil, fmt.Errorf("failed to find out how clients reach the kube-apiserver: namespace %s has only one of "+
			"Gateway and VirtualService %s", i.namespace, name)
	}
	door.terminated = controlplane.EndsTLS(routes)
	return door, nil
}

func hostsOf(gateway *istionetworkingv1beta1.Gateway) []string {
	var hosts []string
	for _, server := range gateway.Spec.Servers {
		hosts = append(hosts, server.Hosts...)
	}
	return hosts
}

// closeFrontDoor lets the ingress gateway take no new connection to the kube-apiserver, and returns when a look from
// outside has shown that.
//
// An EnvoyFilter takes away the filter chains with the kube-apiserver's names, and nothing else. Envoy drains the
// connections of a chain that it loses: where it ends TLS, its next response on each has GOAWAY or "Connection: close",
// and it ends what is left after its drain time. Routes and clusters stay, so requests on these connections are served
// as before. Without the Gateway, istiod would give the draining chains an empty route table, and they would answer
// with 404 (buildGatewayHTTPRouteConfig in istio's pilot/pkg/networking/core/gateway.go); without Gardener's
// EnvoyFilters, those with client certificates would be nobody. The relay has filter chains of its own.
func (c *cleanup) closeFrontDoor(ctx context.Context) error {
	door, err := c.readFrontDoor(ctx)
	if err != nil || door == nil {
		return err
	}
	if err := c.changeFilterChains(ctx, door, closed()); err != nil {
		return err
	}
	if since, err := c.closedSince(ctx, annotationGatewayClosed); err != nil || !since.IsZero() {
		return err
	}
	address, err := kubernetesutils.GetLoadBalancerIngress(ctx, c.SeedClientSet.Client(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: c.botanist.IstioServiceName(), Namespace: c.botanist.IstioNamespace()},
	})
	if err != nil {
		return fmt.Errorf("failed to find the address of the ingress gateway: %w", err)
	}
	for range closedLooks {
		if err := c.look(ctx, net.JoinHostPort(address, gatewayPort), door.host); err != nil {
			return err
		}
	}
	return c.recordClosed(ctx, annotationGatewayClosed)
}

// chainChange is an EnvoyFilter that changes the filter chains with the kube-apiserver's names.
type chainChange struct {
	suffix   string
	priority int32
	patch    *istioapinetworkingv1alpha3.EnvoyFilter_Patch
}

// closed returns the change that takes the filter chains away.
func closed() chainChange {
	return chainChange{suffix: suffixClosed, priority: priorityClosed,
		patch: &istioapinetworkingv1alpha3.EnvoyFilter_Patch{
			Operation: istioapinetworkingv1alpha3.EnvoyFilter_Patch_REMOVE,
		}}
}

// changeFilterChains writes the EnvoyFilters for all Envoys that serve the kube-apiserver.
func (i *ingress) changeFilterChains(ctx context.Context, door *frontDoor, change chainChange) error {
	owner := &corev1.Namespace{}
	if err := i.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: i.namespace}, owner); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", i.namespace, err)
	}
	for namespace, gateway := range door.gateways {
		filter := i.emptyFilter(namespace, change.suffix)
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, i.SeedClientSet.Client(), filter, func() error {
			change.mutate(filter, owner, gateway)
			return nil
		}); err != nil {
			return fmt.Errorf("failed to write EnvoyFilter %s: %w", client.ObjectKeyFromObject(filter), err)
		}
	}
	return nil
}

// mutate fills the EnvoyFilter in. Like Gardener's own it belongs to the shoot's namespace, and goes with it if nobody
// deletes it before.
func (c chainChange) mutate(
	filter *istionetworkingv1alpha3.EnvoyFilter, owner *corev1.Namespace, gateway *istionetworkingv1beta1.Gateway,
) {
	filter.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Namespace")),
	}
	filter.Spec.Priority = c.priority
	filter.Spec.WorkloadSelector = &istioapinetworkingv1alpha3.WorkloadSelector{Labels: gateway.Spec.Selector}
	filter.Spec.ConfigPatches = nil
	for _, host := range hostsOf(gateway) {
		filter.Spec.ConfigPatches = append(filter.Spec.ConfigPatches, c.filterChain(host))
	}
}

func (i *ingress) emptyFilter(namespace, suffix string) *istionetworkingv1alpha3.EnvoyFilter {
	return &istionetworkingv1alpha3.EnvoyFilter{
		ObjectMeta: metav1.ObjectMeta{Name: i.namespace + suffix, Namespace: namespace},
	}
}

func (c chainChange) filterChain(host string) *istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectPatch {
	return &istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectPatch{
		ApplyTo: istioapinetworkingv1alpha3.EnvoyFilter_FILTER_CHAIN,
		Match: &istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectMatch{
			Context: istioapinetworkingv1alpha3.EnvoyFilter_GATEWAY,
			ObjectTypes: &istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectMatch_Listener{
				Listener: &istioapinetworkingv1alpha3.EnvoyFilter_ListenerMatch{
					FilterChain: &istioapinetworkingv1alpha3.EnvoyFilter_ListenerMatch_FilterChainMatch{Sni: host},
				},
			},
		},
		Patch: c.patch,
	}
}

// checkClosed comes as a client would and returns an error unless it is turned away: Envoy ends a connection whose
// server name no filter chain has before it shows a certificate. A gateway that cannot be reached proves nothing.
func checkClosed(ctx context.Context, address, host string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to look whether the ingress gateway still takes clients: %w", err)
	}
	defer func() { _ = raw.Close() }()
	var shown bool
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		InsecureSkipVerify: true, // #nosec G402 -- Nothing is sent. Whether there is a certificate is the question.
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].VerifyHostname(host) == nil
			return nil
		},
	})
	err = conn.HandshakeContext(ctx)
	var timeout net.Error
	switch {
	case shown:
		return fmt.Errorf("the ingress gateway at %s still takes connections to %s", address, host)
	case err != nil && (ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout()):
		return fmt.Errorf("failed to look whether the ingress gateway at %s still takes connections to %s: %w", address,
			host, err)
	default:
		return nil
	}
}

// closedSince reads a time from the shoot's namespace. It is zero if it is not recorded yet.
func (c *cleanup) closedSince(ctx context.Context, annotation string) (time.Time, error) {
	namespace := &corev1.Namespace{}
	if err := c.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: c.namespace}, namespace); err != nil {
		return time.Time{}, fmt.Errorf("failed to read namespace %s: %w", c.namespace, err)
	}
	value, found := namespace.Annotations[annotation]
	if !found {
		return time.Time{}, nil
	}
	since, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to parse annotation %s of namespace %s: %w", annotation, c.namespace,
			err)
	}
	return since, nil
}

func (c *cleanup) recordClosed(ctx context.Context, annotation string) error {
	return c.annotate(ctx, annotation, c.migration.Clock.Now().UTC().Format(time.RFC3339))
}

// annotate writes an annotation to the shoot's namespace.
func (i *ingress) annotate(ctx context.Context, annotation, value string) error {
	namespace := &corev1.Namespace{}
	if err := i.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: i.namespace}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", i.namespace, err)
	}
	patch := client.MergeFrom(namespace.DeepCopy())
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, annotation, value)
	if err := i.SeedClientSet.Client().Patch(ctx, namespace, patch); err != nil {
		return fmt.Errorf("failed to annotate namespace %s with %s: %w", i.namespace, annotation, err)
	}
	return nil
}

// gatewayDrained returns a task that waits until Envoy has drained the connections of a way that is closed since the
// time in the annotation. Envoy ends them by itself after its drain time, so the wait has an end in any case.
//
// If the kube-apiserver ends TLS, there is nothing to wait for: Envoy cannot tell its clients to leave and would cut
// them off after its drain time (45 s). The graceful end of the kube-apiserver (30 s) tells them, and begins now.
func (c *cleanup) gatewayDrained(annotation string) flow.TaskFn {
	return func(ctx context.Context) error {
		door, err := c.readFrontDoor(ctx)
		if err != nil || door == nil || !door.terminated {
			return err
		}
		since, err := c.closedSince(ctx, annotation)
		if err != nil {
			return err
		}
		if since.IsZero() {
			return fmt.Errorf("failed to find out since when the ingress gateway is closed: namespace %s lacks "+
				"annotation %s", c.namespace, annotation)
		}
		return c.waitFor(ctx, waits.Since(since, c.Timings.GatewayDrain, waits.Gateway))
	}
}

func (c *cleanup) waitFor(ctx context.Context, wait waits.Wait) error {
	left := wait.Left(c.migration.Clock.Now())
	if left == 0 {
		return nil
	}
	if err := c.stage.report(ctx, wait.String()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.migration.Clock.After(left):
		return nil
	}
}

// closeInnerDoor closes the way of clients inside of the shoot, which come through apiserver-proxy and CONNECT to a
// listener of the shoot's own. It is in an EnvoyFilter of Gardener, which goes with its ManagedResource; so do the
// routes of clients with certificates at the front door, which therefore is drained before.
func (c *cleanup) closeInnerDoor(ctx context.Context) error {
	door, err := c.readFrontDoor(ctx)
	if err != nil || door == nil || !door.terminated {
		return err
	}
	seed := c.SeedClientSet.Client()
	if err := managedresources.DeleteForSeed(ctx, seed, c.namespace, managedResourceSNI); err != nil {
		return fmt.Errorf("failed to delete managed resource %s/%s: %w", c.namespace, managedResourceSNI, err)
	}
	if err := managedresources.WaitUntilDeleted(ctx, seed, c.namespace, managedResourceSNI); err != nil {
		return fmt.Errorf("failed to wait for the end of managed resource %s/%s: %w", c.namespace, managedResourceSNI,
			err)
	}
	if since, err := c.closedSince(ctx, annotationInnerGatewayClosed); err != nil || !since.IsZero() {
		return err
	}
	return c.recordClosed(ctx, annotationInnerGatewayClosed)
}

// addClosing adds how the clients' way to the kube-apiserver is closed and drained at the ingress gateway.
func (c *cleanup) addClosing(dependencies flow.TaskIDs) flow.TaskID {
	closed := c.addRetried(flow.Task{
		Name: "Closing the way of clients at the ingress gateway",
		Fn:   c.closeFrontDoor, SkipIf: !c.left.kubeAPIServer, Dependencies: dependencies,
	})
	drained := c.add(flow.Task{
		Name: "Waiting until the ingress gateway has drained the connections of clients",
		Fn:   c.gatewayDrained(annotationGatewayClosed), SkipIf: !c.left.kubeAPIServer,
		Dependencies: flow.NewTaskIDs(closed),
	})
	if !c.left.workers {
		return drained
	}
	innerClosed := c.addRetried(flow.Task{
		Name: "Closing the way from inside of the shoot at the ingress gateway",
		Fn:   c.closeInnerDoor, SkipIf: !c.left.kubeAPIServer, Dependencies: flow.NewTaskIDs(drained),
	})
	return c.add(flow.Task{
		Name: "Waiting until the ingress gateway has drained the connections from inside of the shoot",
		Fn:   c.gatewayDrained(annotationInnerGatewayClosed), SkipIf: !c.left.kubeAPIServer,
		Dependencies: flow.NewTaskIDs(innerClosed),
	})
}

// removeFromGateway deletes what exposes the kube-apiserver. What keeps clients out goes last.
func (c *cleanup) removeFromGateway(ctx context.Context) error {
	if err := c.botanist.Shoot.Components.ControlPlane.KubeAPIServerSNI.Destroy(ctx); err != nil {
		return err
	}
	for _, namespace := range []string{c.botanist.IstioNamespace(), c.botanist.WildcardIstioNamespace()} {
		for _, suffix := range []string{suffixDrained, suffixClosed} {
			filter := c.emptyFilter(namespace, suffix)
			if err := c.SeedClientSet.Client().Delete(ctx, filter); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to delete EnvoyFilter %s: %w", client.ObjectKeyFromObject(filter), err)
			}
		}
	}
	return nil
}
