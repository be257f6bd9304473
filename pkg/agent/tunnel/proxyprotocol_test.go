// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"

	"github.com/Masterminds/semver/v3"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	sharedcomponent "github.com/gardener/gardener/pkg/component/shared"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Istio's component asks for the gardenlet's gates.
func init() { gardenletfeatures.RegisterFeatureGates() }

// deployed returns the objects of the ingress gateways that Gardener's component makes in a seed of the zones a and b
// with an ExposureClass, behind load balancers that send the header of the PROXY protocol.
func deployed(ctx context.Context, w seedWorld) []client.Object {
	GinkgoHelper()
	var (
		c                 = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
		config            = w.gardenlet()
		kubernetesVersion = semver.MustParse("1.36.4")
		behindProxy       = true
		labels            = sharedcomponent.GetIstioZoneLabels(config.SNI.Ingress.Labels, nil)
	)
	deployer, err := sharedcomponent.NewIstio(ctx, c, chartrenderer.NewWithServerVersion(
		&version.Info{GitVersion: "v1.36.4"}), "", *config.SNI.Ingress.Namespace, "priority", false, labels, nil, nil,
		nil, nil, nil, []corev1.ServicePort{{Name: "tcp", Port: 443, TargetPort: intstr.FromInt32(9443)}}, &behindProxy,
		true, false, []string{"a", "b"}, false, kubernetesVersion)
	Expect(err).NotTo(HaveOccurred())
	handler := config.ExposureClassHandlers[0]
	zone := "b"
	for namespace, own := range map[string]map[string]string{
		sharedcomponent.GetIstioNamespaceForZone(*config.SNI.Ingress.Namespace, zone): sharedcomponent.
			GetIstioZoneLabels(labels, &zone),
		*handler.SNI.Ingress.Namespace: sharedcomponent.GetIstioZoneLabels(
			gardenerutils.GetMandatoryExposureClassHandlerSNILabels(handler.SNI.Ingress.Labels, handler.Name), nil),
	} {
		Expect(sharedcomponent.AddIstioIngressGateway(ctx, c, deployer, namespace, nil, own, nil, nil, nil, nil, false,
			&behindProxy, kubernetesVersion)).To(Succeed())
	}
	Expect(deployer.Deploy(ctx)).To(Succeed())
	objects, err := managedresources.GetObjects(ctx, c, v1beta1constants.IstioSystemNamespace, "istio")
	Expect(err).NotTo(HaveOccurred())
	return objects
}

var _ = Describe("A load balancer that sends the header of the PROXY protocol", func() {
	It("should be understood by the gateway of the tunnel, before that looks for the server name", func() {
		ctx := context.Background()
		seed := deployTunnel(ctx, proxied)
		gateway := &istionetworkingv1beta1.Gateway{}
		Expect(seed.Get(ctx, tunnelKey, gateway)).To(Succeed())
		selector := labels.SelectorFromSet(gateway.Spec.Selector)

		var pods, services, filters int
		for _, object := range deployed(ctx, proxied) {
			switch object := object.(type) {
			case *appsv1.Deployment:
				pods++
				Expect(selector.Matches(labels.Set(object.Spec.Template.Labels))).
					To(Equal(object.Namespace == "istio-ingress"), object.Namespace)
			case *corev1.Service:
				if object.Namespace != "istio-ingress" || object.Spec.Type != corev1.ServiceTypeLoadBalancer {
					continue
				}
				services++
				// Istio listens at the target port of the service's port that the Gateway names.
				Expect(object.Spec.Ports).To(ContainElement(And(
					HaveField("Port", BeEquivalentTo(gateway.Spec.Servers[0].Port.Number)),
					HaveField("TargetPort.IntVal", BeEquivalentTo(9443)))))
			case *istionetworkingv1alpha3.EnvoyFilter:
				if object.Namespace != "istio-ingress" || object.Name != "proxy-protocol-sni" {
					continue
				}
				filters++
				Expect(object.Spec.WorkloadSelector.Labels).To(Equal(gateway.Spec.Selector))
				patch := object.Spec.ConfigPatches[0]
				Expect(patch.Match.GetListener().PortNumber).To(BeEquivalentTo(9443))
				var names []string
				for _, filter := range patch.Patch.Value.Fields["listener_filters"].GetListValue().Values {
					names = append(names, filter.GetStructValue().Fields["name"].GetStringValue())
				}
				Expect(names).To(Equal([]string{"proxy_protocol", "envoy.filters.listener.tls_inspector"}))
			}
		}
		Expect([]int{pods, services, filters}).To(Equal([]int{3, 1, 1}), "pods, services, filters that were seen")
	})
})
