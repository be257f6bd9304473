// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"maps"
	"slices"
	"strings"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	sharedcomponent "github.com/gardener/gardener/pkg/component/shared"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const namespace = "shoot--demo--live"

// seedWorld is a seed, the configuration of its gardenlet, and where the shoot's control plane is.
type seedWorld struct {
	// zones are the zones of the seed, one letter each, and namespaceZones those that the shoot's namespace is pinned
	// to.
	zones, namespaceZones string
	// withoutZonal turns the zonal gateways of the seed off.
	withoutZonal bool
	// handlers are the ExposureClass handlers of the gardenlet, handler the one that the shoot asks for.
	handlers []string
	handler  string
	// namespace and labels are those of the default gateway if the gardenlet's configuration changes them.
	namespace string
	labels    map[string]string
	// withGap says that the shoot has etcds with one member, and permits a gap.
	withGap bool
}

func (w seedWorld) gardenlet() *gardenletconfigv1alpha1.GardenletConfiguration {
	config := &gardenletconfigv1alpha1.GardenletConfiguration{}
	if w.namespace != "" {
		config.SNI = &gardenletconfigv1alpha1.SNI{Ingress: &gardenletconfigv1alpha1.SNIIngress{Namespace: &w.namespace,
			Labels: w.labels}}
	}
	for _, name := range w.handlers {
		config.ExposureClassHandlers = append(config.ExposureClassHandlers,
			gardenletconfigv1alpha1.ExposureClassHandler{Name: name})
	}
	gardenletconfigv1alpha1.SetObjectDefaults_GardenletConfiguration(config)
	return config
}

func (w seedWorld) seed() *gardencorev1beta1.Seed {
	seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}
	seed.Spec.Provider.Zones = strings.Split(w.zones, "")
	seed.Spec.Ingress = &gardencorev1beta1.Ingress{Domain: "ingress.seed-a.example"}
	if w.withoutZonal {
		seed.Spec.Settings = &gardencorev1beta1.SeedSettings{
			LoadBalancerServices: &gardencorev1beta1.SeedSettingLoadBalancerServices{
				ZonalIngress: &gardencorev1beta1.SeedSettingLoadBalancerServicesZonalIngress{Enabled: new(false)}}}
	}
	return seed
}

// gateways returns the labels of the pods of all ingress gateways that the gardenlet deploys in the seed, by the
// namespace they run in (upstream's newIstio).
func (w seedWorld) gateways() map[string]map[string]string {
	config := w.gardenlet()
	out := map[string]map[string]string{}
	add := func(namespace string, labels map[string]string) {
		out[namespace] = sharedcomponent.GetIstioZoneLabels(labels, nil)
		if zones := strings.Split(w.zones, ""); len(zones) > 1 && !w.withoutZonal {
			for _, zone := range zones {
				out[sharedcomponent.GetIstioNamespaceForZone(namespace, zone)] =
					sharedcomponent.GetIstioZoneLabels(labels, &zone)
			}
		}
	}
	add(*config.SNI.Ingress.Namespace, config.SNI.Ingress.Labels)
	for _, handler := range config.ExposureClassHandlers {
		add(*handler.SNI.Ingress.Namespace,
			gardenerutils.GetMandatoryExposureClassHandlerSNILabels(handler.SNI.Ingress.Labels, handler.Name))
	}
	return out
}

// botanist returns what the tunnel takes of a botanist in the world.
func (w seedWorld) botanist(c client.Client, shoot *gardencorev1beta1.Shoot) *botanist.Botanist {
	GinkgoHelper()
	seed, object := &seedpkg.Seed{}, &shootpkg.Shoot{ControlPlaneNamespace: namespace}
	seed.SetInfo(w.seed())
	object.SetInfo(shoot)
	if w.handler != "" {
		object.ExposureClass = &gardencorev1beta1.ExposureClass{Handler: w.handler}
	}
	inSeed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if w.namespaceZones != "" {
		metav1.SetMetaDataAnnotation(&inSeed.ObjectMeta, resourcesv1alpha1.HighAvailabilityConfigZones,
			w.namespaceZones)
	}
	secrets, err := secretsmanager.New(context.Background(), logr.Discard(), clock.RealClock{}, c, "gardenlet",
		secretsmanager.WithNamespaces(namespace))
	Expect(err).NotTo(HaveOccurred())
	return &botanist.Botanist{Operation: &gardeneroperation.Operation{
		Config: w.gardenlet(), Seed: seed, Shoot: object, SeedNamespaceObject: inSeed, SecretsManager: secrets,
	}}
}

// tunnelKey is the key of the tunnel's objects in the seed.
var tunnelKey = client.ObjectKey{Namespace: namespace, Name: exposure.Name}

func newShoot() *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
		Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}
}

// deployTunnel deploys the tunnel in the world and returns the seed.
func deployTunnel(ctx context.Context, w seedWorld) client.Client {
	GinkgoHelper()
	shoot, peer := newShoot(), w.seed()
	if w.withGap {
		shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
	}
	peer.Name, peer.Spec.Ingress.Domain = "seed-b", "ingress.seed-b.example"
	garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(w.seed(), peer).Build()
	seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	made, err := tunnel.New(tunnel.Options{GardenAPIReader: garden, SeedClient: seed, RelayImage: "relay"})
	Expect(err).NotTo(HaveOccurred())
	Expect(made.Deploy(ctx, &migration.Migration{Log: logr.Discard(), Shoot: shoot, Role: steps.Source,
		SourceSeed: "seed-a", DestinationSeed: "seed-b", Clock: clock.RealClock{}}, w.botanist(seed, shoot))).
		To(Succeed())
	return seed
}

var _ = Describe("The way into a seed", func() {
	ctx := context.Background()

	DescribeTable("carries what the members speak to each other", func(w seedWorld, plain types.GomegaMatcher) {
		configMap := &corev1.ConfigMap{}
		Expect(deployTunnel(ctx, w).Get(ctx, tunnelKey, configMap)).To(Succeed())
		Expect(configMap.Data["config.yaml"]).To(plain)
	},
		Entry("TLS", seedWorld{zones: "a"}, Not(ContainSubstring("inner: HTTP"))),
		Entry("HTTP between only members", seedWorld{zones: "a", withGap: true}, ContainSubstring("inner: HTTP")),
	)

	DescribeTable("leads through its default gateway, whichever the shoot has", func(own string, w seedWorld) {
		seed := deployTunnel(ctx, w)
		Expect(w.botanist(seed, newShoot()).IstioNamespace()).To(Equal(own), "the gateway of the shoot itself")

		gateway := &istionetworkingv1beta1.Gateway{}
		Expect(seed.Get(ctx, tunnelKey, gateway)).To(Succeed())
		serving := []string{}
		for _, in := range slices.Sorted(maps.Keys(w.gateways())) {
			if labels.SelectorFromSet(gateway.Spec.Selector).Matches(labels.Set(w.gateways()[in])) {
				serving = append(serving, in)
			}
		}
		expected := "istio-ingress"
		if w.namespace != "" {
			expected = w.namespace
		}
		Expect(serving).To(Equal([]string{expected}), "exactly the default gateway must serve the names")

		routes := &istionetworkingv1beta1.VirtualService{}
		Expect(seed.Get(ctx, tunnelKey, routes)).To(Succeed())
		Expect(routes.Spec.ExportTo).To(Equal([]string{expected}))
		service := &corev1.Service{}
		Expect(seed.Get(ctx, tunnelKey, service)).To(Succeed())
		Expect(service.Annotations).To(HaveKeyWithValue("networking.istio.io/exportTo", expected))
	},
		Entry("the only one", "istio-ingress", seedWorld{zones: "a"}),
		Entry("all zones", "istio-ingress", seedWorld{zones: "abc", namespaceZones: "a,b,c"}),
		Entry("pinned to a zone", "istio-ingress--b", seedWorld{zones: "abc", namespaceZones: "b"}),
		Entry("pinned to a zone without zonal gateways", "istio-ingress",
			seedWorld{zones: "abc", namespaceZones: "b", withoutZonal: true}),
		Entry("an ExposureClass", "istio-ingress-handler-intranet", seedWorld{zones: "a",
			handlers: []string{"intranet"}, handler: "intranet"}),
		Entry("an ExposureClass beside others", "istio-ingress-handler-intranet", seedWorld{zones: "a",
			handlers: []string{"dmz", "intranet", "internet"}, handler: "intranet"}),
		Entry("an ExposureClass, pinned to a zone", "istio-ingress-handler-intranet--c", seedWorld{zones: "abc",
			namespaceZones: "c", handlers: []string{"dmz", "intranet"}, handler: "intranet"}),
		Entry("several others in the seed", "istio-ingress", seedWorld{zones: "abc", namespaceZones: "a,b",
			handlers: []string{"dmz", "intranet"}}),
		Entry("another name of the default one", "gate", seedWorld{zones: "abc", namespaceZones: "a,b,c",
			namespace: "gate", labels: map[string]string{"istio": "gate", "app": "gate"}}),
		Entry("another name of the default one, pinned to a zone", "gate--a", seedWorld{zones: "abc",
			namespaceZones: "a", namespace: "gate", labels: map[string]string{"istio": "gate", "app": "gate"}}),
		Entry("another name of the default one, and an ExposureClass", "istio-ingress-handler-dmz", seedWorld{
			zones: "a", handlers: []string{"dmz"}, handler: "dmz", namespace: "gate",
			labels: map[string]string{"istio": "gate", "app": "gate"}}),
	)
})
