// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/istio"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
)

// A kube-apiserver without its access control would take everybody's connection. So extensions for access control
// (botanist.Factory.AccessControl) are in force before the kube-apiserver starts, and long before its route exists.
// gardener-extension-acl (v1.18.0, findIstioNamespaceForExtension in pkg/controller/actuator.go) finds the ingress
// gateway by the Gateway of the kube-apiserver, and fails without it. So that Gateway comes first, alone.

// addGatewayWithoutRoute adds the Gateway of the kube-apiserver for the extensions that look for it.
func (d *destination) addGatewayWithoutRoute(g *flow.Graph, b *botanist.Botanist, namespace flow.TaskID) flow.TaskID {
	return g.Add(flow.Task{
		Name: "Deploying the gateway of the kube-apiserver without a route",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.deployGatewayWithoutRoute(ctx, b)
		}, d.Timings.RolloutTimeout),
		Dependencies: flow.NewTaskIDs(namespace),
	})
}

// deployGatewayWithoutRoute creates the Gateway that Gardener's component deploys later as it wants it: that one needs
// certificates which come with the kube-apiserver where Envoy ends TLS. A Gateway that passes TLS through leads nowhere
// without a VirtualService: istiod makes no filter chain for it (buildGatewayNetworkFiltersFromTLSRoutes in istio's
// pilot/pkg/networking/core/gateway.go). One that is there already stays as it is: a former attempt may have opened
// the route, with the extensions in force.
func (d *destination) deployGatewayWithoutRoute(ctx context.Context, b *botanist.Botanist) error {
	if b.Shoot.InternalClusterDomain == nil {
		return fmt.Errorf("failed to deploy the gateway of the kube-apiserver in namespace %s: the shoot has no "+
			"internal domain", b.Shoot.ControlPlaneNamespace)
	}
	hosts := []string{v1beta1helper.GetAPIServerDomain(*b.Shoot.InternalClusterDomain)}
	if b.Shoot.ExternalClusterDomain != nil {
		hosts = append(hosts, v1beta1helper.GetAPIServerDomain(*b.Shoot.ExternalClusterDomain))
	}
	gateway := &istionetworkingv1beta1.Gateway{ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Shoot.ControlPlaneNamespace, Name: v1beta1constants.DeploymentNameKubeAPIServer,
	}}
	if err := istio.GatewayWithTLSPassthrough(gateway, nil, b.IstioLabels(), hosts)(); err != nil {
		return fmt.Errorf("failed to make the gateway of the kube-apiserver: %w", err)
	}
	if err := d.SeedClientSet.Client().Create(ctx, gateway); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create Gateway %s: %w", client.ObjectKeyFromObject(gateway), err)
	}
	return nil
}

// addWaitForAccessControl adds the wait until what the extensions have written is in the seed. An extension is ready
// when it has written a ManagedResource; the seed's resource manager applies that a moment later. Nothing tells which
// ManagedResource is whose, so all of them that are for the seed have to be applied.
func (d *destination) addWaitForAccessControl(g *flow.Graph, start *start, ready flow.TaskID) flow.TaskID {
	return g.Add(flow.Task{
		Name: "Waiting until access control is in force",
		Fn: func(ctx context.Context) error {
			if err := retry.UntilTimeout(ctx, d.Timings.PollInterval, d.Timings.RolloutTimeout,
				func(ctx context.Context) (bool, error) {
					if err := d.checkApplied(ctx, start.botanist.Shoot.ControlPlaneNamespace); err != nil {
						return retry.MinorError(err)
					}
					return retry.Ok()
				}); err != nil {
				return fmt.Errorf("failed to wait until access control is in force (extensions %s): %w",
					strings.Join(start.accessControl, ", "), err)
			}
			return nil
		},
		Dependencies: flow.NewTaskIDs(ready),
	})
}

// checkApplied returns an error unless all ManagedResources for the seed in the shoot's namespace are applied.
func (d *destination) checkApplied(ctx context.Context, namespace string) error {
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := d.SeedClientSet.Client().List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("failed to list the managed resources in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		if ptr.Deref(list.Items[i].Spec.Class, "") != v1beta1constants.SeedResourceManagerClass {
			continue
		}
		if err := health.CheckManagedResourceApplied(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
