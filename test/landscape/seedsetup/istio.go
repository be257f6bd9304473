// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gardener/gardener/imagevector"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/networking/istio"
	"github.com/gardener/gardener/pkg/component/networking/istiobasicauthserver"
	vpnseedserver "github.com/gardener/gardener/pkg/component/networking/vpn/seedserver"
	sharedcomponent "github.com/gardener/gardener/pkg/component/shared"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/features"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// This file is about Istio: istiod and the ingress gateway of a seed, which are pilot-agent and Envoy. Gardener's own
// charts deploy them. Envoy is the project's own release, while the images of Istio have a build with more extensions.
// What needs these is switched off in this file and in manifests/envoy-filters.yaml, and nowhere else.

const (
	// toolIstio is the component with istiod, pilot-agent and the template of Envoy's configuration.
	toolIstio = "istio"

	istiodName     = "istiod"
	istioProxyName = "istio-proxy"
	// istioUser is the user of Istio's images, and of Gardener's charts.
	istioUser = "1337:1337"
)

//go:embed manifests/envoy-filters.yaml
var envoyFiltersManifest string

// withoutIstioExtensions are the settings of istiod with which it asks nothing of Envoy that only Istio's build can do,
// except for istio.stats, which has no setting (manifests/envoy-filters.yaml). Both concern traffic between workloads
// of a mesh, of which a seed has none: Gardener's charts inject no sidecars.
var withoutIstioExtensions = []string{"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false"}

// istiodImage is istiod under the reference of Gardener's image vector.
func istiodImage(programs programs, refs *gardenerRefs) tarball.Image {
	image := single(programs.upstream(toolIstio, "pilot-discovery"), "/usr/local/bin/pilot-discovery", istioUser,
		refs.find(imagevector.ContainerImageNameIstioIstiod))
	image.Env = withoutIstioExtensions
	return image
}

// istioProxyImage is pilot-agent with Envoy under the reference of Gardener's image vector. The paths are those of
// Istio's image, at which pilot-agent looks.
func istioProxyImage(
	ctx context.Context, cfg *config.Config, programs programs, refs *gardenerRefs,
) (tarball.Image, error) {
	envoy, err := build.Envoy(ctx, cfg, "/usr/local/bin/envoy")
	if err != nil {
		return tarball.Image{}, err
	}
	image := single(programs.upstream(toolIstio, "pilot-agent"), "/usr/local/bin/pilot-agent", istioUser,
		refs.find(imagevector.ContainerImageNameIstioProxy))
	image.Files = append(append(image.Files, envoy...), tarball.File{
		Path:   "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json",
		Source: programs.upstream(toolIstio, "envoy_bootstrap.json"), Mode: 0o644,
	})
	return image, nil
}

// deployEnvoyFilters takes out of all gateways what only Istio's own build of Envoy has. It comes before the first
// gateway, which would not become ready with it.
func (s *Setup) deployEnvoyFilters(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.IstioSystemNamespace}}
	if _, err := controllerutils.CreateOrGetAndMergePatch(ctx, s.client, namespace, func() error {
		return nil
	}); err != nil {
		return fmt.Errorf("failed to create namespace %q: %w", namespace.Name, err)
	}
	return apply.Manifests(ctx, s.client, []byte(envoyFiltersManifest))
}

// deployIstio deploys istiod and the ingress gateway and waits until they are healthy.
func (s *Setup) deployIstio(ctx context.Context) error {
	deployer, err := s.newIstio(ctx)
	if err != nil {
		return err
	}
	if err := component.OpWait(deployer).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy Istio: %w", err)
	}
	return nil
}

// Istio's component asks for the gardenlet's gates. Nobody can add gates any more when a program has made flags of
// them, as the API server does that the suites have in their own process.
func init() { gardenletfeatures.RegisterFeatureGates() }

// newIstio does what upstream's Seed reconciler does, with the same values. A seed here has no classes of exposure and
// no annotations of its load balancers. Where it has several zones, its settings say that there are no gateways of
// single ones (manifests/gardenlet-values.yaml): all shoots use the gateway that is in all zones.
func (s *Setup) newIstio(ctx context.Context) (istio.Interface, error) {
	if err := features.DefaultFeatureGate.SetFromMap(s.gardenlet.FeatureGates); err != nil {
		return nil, fmt.Errorf("failed to set feature gates: %w", err)
	}
	ingress := s.gardenlet.SNI.Ingress
	deployer, err := sharedcomponent.NewIstio(ctx, s.client, s.clients.ChartRenderer(), "", *ingress.Namespace,
		v1beta1constants.PriorityClassNameSeedSystemCritical, true,
		sharedcomponent.GetIstioZoneLabels(ingress.Labels, nil),
		[]string{gardenerutils.NetworkPolicyLabel(
			v1beta1constants.GardenNamespace+"-"+v1beta1constants.DeploymentNameIstioBasicAuthServer,
			istiobasicauthserver.Port)},
		nil, nil, nil, ingress.ServiceExternalIP, gatewayPorts(), nil, true, legacyPort(),
		s.gardenlet.SeedConfig.Spec.Provider.Zones, false, s.version)
	if err != nil {
		return nil, fmt.Errorf("failed to create Istio: %w", err)
	}
	return deployer, nil
}

// gatewayPorts are those of the ingress gateway's Service. The older way to the VPN has a port of its own for as long
// as a feature gate does not remove it.
func gatewayPorts() []corev1.ServicePort {
	ports := []corev1.ServicePort{
		{Name: "tcp", Port: 443, TargetPort: intstr.FromInt32(9443)},
		{Name: "http-proxy", Port: vpnseedserver.HTTPProxyGatewayPort,
			TargetPort: intstr.FromInt(vpnseedserver.HTTPProxyGatewayPort)},
	}
	if legacyPort() {
		ports = append(ports, corev1.ServicePort{Name: "tls-tunnel", Port: vpnseedserver.GatewayPort,
			TargetPort: intstr.FromInt32(vpnseedserver.GatewayPort)})
	}
	return ports
}

func legacyPort() bool {
	return !features.DefaultFeatureGate.Enabled(features.RemoveHTTPProxyLegacyPort)
}
