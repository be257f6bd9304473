// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"crypto/tls"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/policies"
)

const (
	namespace = "shoot--demo--live"
	allowed   = "allowed"
	// prefix begins the labels that Gardener's policies for services ask for.
	prefix = "networking.resources.gardener.cloud/to-"
)

// The policies are made by the code that makes them in a seed: Gardener's two controllers, and the exposure. The labels
// of etcd's and kube-apiserver's pods are those that Gardener v1.150.0 gives them (pkg/component/etcd/etcd,
// pkg/component/kubernetes/apiserver), those of the agent are in its chart.
var _ = Describe("Flows of a migration in a seed", func() {
	ctx := context.Background()

	labelled := func(app map[string]string, keys ...string) map[string]string {
		out := maps.Clone(app)
		for _, key := range keys {
			out[key] = allowed
		}
		return out
	}
	outside := []string{v1beta1constants.LabelNetworkPolicyToDNS, v1beta1constants.LabelNetworkPolicyToPublicNetworks,
		v1beta1constants.LabelNetworkPolicyToPrivateNetworks}
	// only says that each etcd has one member, which Gardener gives no label to reach another one.
	only := false
	BeforeEach(func() { only = false })
	etcdApp := func(etcdRole string) map[string]string {
		return map[string]string{"app": "etcd-statefulset", "role": etcdRole, "instance": "etcd-" + etcdRole}
	}

	// seed returns the ends of connections in a seed that plays the role, and what is permitted between them.
	seed := func(
		role steps.Role, change func(client.Client, exposure.Interface),
	) (policies.World, map[string]policies.End) {
		GinkgoHelper()
		pods := map[string]*corev1.Pod{}
		add := func(name, ns string, labels map[string]string) {
			pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}}
		}
		for _, etcdRole := range naming.EtcdRoles {
			client := prefix + "etcd-" + etcdRole + "-client-tcp-"
			keys := append(slices.Clone(outside), v1beta1constants.LabelNetworkPolicyToRuntimeAPIServer)
			if !only {
				keys = append(keys, client+"2379", client+"2380", client+"8080")
			}
			for _, member := range []string{"0", "1"} {
				add("etcd-"+etcdRole+"-"+member, namespace, labelled(etcdApp(etcdRole), keys...))
			}
		}
		add("kube-apiserver", namespace, labelled(map[string]string{"app": "kubernetes", "role": "apiserver"},
			append(outside, prefix+"etcd-main-client-tcp-2379", prefix+"etcd-events-client-tcp-2379")...))
		add("prometheus", namespace, labelled(map[string]string{"app": "prometheus"},
			append(outside, prefix+"all-scrape-targets")...))
		add("stranger", namespace, map[string]string{"app": "stranger"})
		agent := map[string]string{"app.kubernetes.io/name": "livecpm-agent"}
		shoots := prefix + "all-shoots-"
		add("agent", "garden", labelled(agent, append(outside, shoots+"livecpm-relay-tcp-22379",
			shoots+"etcd-main-client-tcp-2379", shoots+"etcd-main-client-tcp-8080",
			shoots+"etcd-events-client-tcp-2379", shoots+"etcd-events-client-tcp-8080")...))
		gardenlet := map[string]string{"app": "gardener", "role": "gardenlet"}
		add("gardenlet", "garden", labelled(gardenlet, shoots+"etcd-main-client-tcp-8080"))

		objects := []client.Object{
			seedNamespace("garden", map[string]string{}),
			seedNamespace(namespace, map[string]string{v1beta1constants.GardenRole: v1beta1constants.GardenRoleShoot}),
			apiServerEndpoints(),
			&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace},
				Spec: extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Object: &gardencorev1beta1.Shoot{
					TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}}}}},
		}
		peerPort := naming.PeerPort(role)
		for _, etcdRole := range naming.EtcdRoles {
			objects = append(objects, etcdService(etcdRole, etcdApp(etcdRole), peerPort))
		}
		for _, pod := range pods {
			objects = append(objects, pod)
		}
		c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()

		e := exposure.New(logr.Discard(), c, exposure.Values{
			Namespace: namespace, Role: role, Image: "relay", TLSSecretName: "relay",
			Domain: "ingress.seed-a.example", PeerDomain: "ingress.seed-b.example",
			Istio: exposure.Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway"},
		})
		Expect(e.Deploy(ctx)).To(Succeed())
		relays := &appsv1.StatefulSet{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: exposure.Name}, relays)).To(Succeed())
		add("relay", namespace, relays.Spec.Template.Labels)
		add("other-relay", namespace, relays.Spec.Template.Labels)
		change(c, e)
		deployments := &appsv1.DeploymentList{}
		Expect(c.List(ctx, deployments)).To(Succeed())
		for _, deployment := range deployments.Items {
			add(deployment.Name, namespace, deployment.Spec.Template.Labels)
		}

		world := makeWorld(ctx, c, namespace,
			map[string]map[string]string{"livecpm-agent": agent, "gardenlet": gardenlet})

		ends := map[string]policies.End{
			"public gateway":     {Address: netip.MustParseAddr("198.51.100.22")},
			"private gateway":    {Address: netip.MustParseAddr("10.250.0.22")},
			"node":               {Address: netip.MustParseAddr("10.250.0.11")},
			"service of another": {Address: netip.MustParseAddr("10.97.1.2")},
			"pod of another":     {Address: netip.MustParseAddr("10.241.9.9")},
		}
		address := netip.MustParseAddr("10.241.0.1")
		for name, pod := range pods {
			address = address.Next()
			ends[name] = policies.End{Pod: pod, Address: address}
		}
		return world, ends
	}

	type flow struct {
		from, to string
		port     int32
	}
	judge := func(world policies.World, ends map[string]policies.End, flows []flow, permitted bool) {
		GinkgoHelper()
		for _, f := range flows {
			Expect(ends).To(And(HaveKey(f.from), HaveKey(f.to)))
			is, err := world.Permits(ends[f.from], ends[f.to], f.port)
			Expect(err).NotTo(HaveOccurred())
			Expect(is).To(Equal(permitted), "%s to %s on %d", f.from, f.to, f.port)
		}
	}
	// During holds while both seeds have members.
	during := []flow{
		{"etcd-main-0", "etcd-main-1", 2379},
		{"etcd-main-0", "etcd-main-1", 2380}, {"etcd-main-0", "etcd-main-1", 2381},
		{"etcd-events-0", "etcd-events-1", 2380}, {"etcd-events-0", "etcd-events-1", 2381},
		{"etcd-main-0", "relay", 2380}, {"etcd-main-0", "relay", 2381}, {"etcd-main-0", "relay", 22379},
		{"relay", "etcd-main-0", 2380}, {"relay", "etcd-main-0", 2381}, {"relay", "etcd-main-0", 2379},
		{"relay", "public gateway", 443}, {"relay", "private gateway", 443},
		{"kube-apiserver", "etcd-main-0", 2379}, {"kube-apiserver", "relay", 22379},
		{"agent", "etcd-main-0", 2379}, {"agent", "etcd-events-0", 2379}, {"agent", "etcd-main-0", 8080},
		{"agent", "etcd-events-0", 8080}, {"agent", "relay", 22379},
		{"agent", "public gateway", 443}, {"agent", "private gateway", 53},
		{"gardenlet", "etcd-main-0", 8080}, {"prometheus", "relay", 8082},
		// A sidecar that is led there by the name of another one has to be refused, not dropped.
		{"etcd-main-0", "relay", 8080},
	}
	never := []flow{
		{"stranger", "etcd-main-0", 2379}, {"stranger", "etcd-main-0", 2381}, {"stranger", "relay", 22379},
		{"stranger", "relay", 8443}, {"stranger", "public gateway", 443}, {"stranger", "private gateway", 443},
		{"relay", "kube-apiserver", 443}, {"relay", "node", 443}, {"relay", "service of another", 443},
		{"relay", "pod of another", 2379}, {"relay", "agent", 8080}, {"relay", "etcd-main-0", 8080},
		{"kube-apiserver", "relay", 2380}, {"kube-apiserver", "etcd-main-0", 2381},
		{"gardenlet", "relay", 22379}, {"gardenlet", "etcd-main-0", 2379},
		{"agent", "etcd-main-0", 2381}, {"agent", "relay", 8443}, {"agent", "relay", 8082},
		{"stranger", "relay", 8080}, {"stranger", "relay", 8082}, {"etcd-main-0", "relay", 8082},
		{"kube-apiserver", "relay", 8080}, {"prometheus", "relay", 22379},
		{"prometheus", "relay", 8443}, {"prometheus", "relay", 2381},
	}

	DescribeTable("should be permitted, and no others", func(role steps.Role) {
		world, ends := seed(role, func(client.Client, exposure.Interface) {})
		judge(world, ends, during, true)
		judge(world, ends, never, false)
	}, Entry("in the source", steps.Source), Entry("in the destination", steps.Destination))

	It("should let the members reach each other on both ports while they leave that of the migration, and nobody else",
		func() {
			world, ends := seed(steps.Destination,
				func(_ client.Client, e exposure.Interface) { Expect(e.Withdraw(ctx)).To(Succeed()) })
			judge(world, ends, []flow{{"etcd-main-0", "etcd-main-1", 2380}, {"etcd-main-0", "etcd-main-1", 2381},
				{"etcd-events-1", "etcd-events-0", 2381}}, true)
			judge(world, ends, never, false)
			judge(world, ends, []flow{{"kube-apiserver", "relay", 22379}, {"agent", "relay", 22379}}, false)
		})

	// withFront deploys the fronts, and lets the services for clients select the pods with the labels.
	withFront := func(c client.Client, selected func(etcdRole string) map[string]string) {
		GinkgoHelper()
		pair := map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x"), "bundle.crt": []byte("x")}
		Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd"},
			Data: pair})).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			secret := corev1.SecretReference{Name: "etcd"}
			Expect(c.Create(ctx, &druidcorev1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)},
				Spec: druidcorev1alpha1.EtcdSpec{Etcd: druidcorev1alpha1.EtcdConfig{
					ClientUrlTLS: &druidcorev1alpha1.TLSConfig{ServerTLSSecretRef: secret, ClientTLSSecretRef: secret,
						TLSCASecretRef: druidcorev1alpha1.SecretReference{SecretReference: secret,
							DataKey: new("bundle.crt")}}}}})).To(Succeed())
		}
		fronts, err := front.New(front.Options{SeedClient: c, Image: "relay",
			NewSteering: func([]string, string, *tls.Config) joint.Front { return nil }})
		Expect(err).NotTo(HaveOccurred())
		Expect(fronts.Deploy(ctx, &migration.Migration{Log: logr.Discard(), Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				steps.AnnotationWithGap: strconv.FormatBool(only)}},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}})).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			service := &corev1.Service{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.ClientServiceName(etcdRole)},
				service)).To(Succeed())
			service.Spec.Selector = selected(etcdRole)
			Expect(c.Update(ctx, service)).To(Succeed())
		}
	}
	const mainFront, eventsFront = "livecpm-front-main", "livecpm-front-events"
	// The policies that Gardener derives are those of one of the two selectors, also when the service has the other.
	DescribeTable("should be permitted to the members and to the front, whichever of them the service selects",
		func(selected func(etcdRole string) map[string]string) {
			world, ends := seed(steps.Destination,
				func(c client.Client, _ exposure.Interface) { withFront(c, selected) })
			judge(world, ends, during, true)
			judge(world, ends, []flow{
				{"kube-apiserver", mainFront, 2379}, {"kube-apiserver", eventsFront, 2379}, {"relay", mainFront, 2379},
				{"relay", eventsFront, 2379}, {"etcd-main-0", mainFront, 2379}, {"agent", mainFront, 2379},
				{"agent", eventsFront, 2379}, {"etcd-events-0", eventsFront, 2379},
				{mainFront, "etcd-main-0", 2379}, {eventsFront, "etcd-events-1", 2379},
				{mainFront, "etcd-main-0", 8080}, {"gardenlet", mainFront, 8080}, {"agent", eventsFront, 8080},
				{"etcd-main-0", mainFront, 8080}, {"etcd-main-0", "etcd-main-1", 8080},
			}, true)
			judge(world, ends, never, false)
			judge(world, ends, []flow{
				{"stranger", mainFront, 2379}, {"stranger", mainFront, 8080}, {"kube-apiserver", mainFront, 8080},
				{mainFront, "etcd-events-0", 2379}, {eventsFront, "etcd-main-0", 8080},
				{mainFront, "etcd-main-0", 2381},
				{mainFront, "relay", 22379}, {mainFront, "public gateway", 443}, {mainFront, "kube-apiserver", 443},
				{mainFront, "node", 443}, {"relay", mainFront, 8080}, {"gardenlet", mainFront, 2379},
				{"kube-apiserver", mainFront, 8082}, {"agent", mainFront, 8081}, {"etcd-events-0", mainFront, 2379},
			}, false)
		},
		Entry("the members", etcdApp),
		Entry("the front", func(etcdRole string) map[string]string {
			return map[string]string{"app": "livecpm-front", "role": etcdRole}
		}),
	)

	It("should be permitted from the front through the relay to the source where each etcd has one member", func() {
		only = true
		world, ends := seed(steps.Destination, func(c client.Client, _ exposure.Interface) {
			withFront(c, func(etcdRole string) map[string]string {
				return map[string]string{"app": "livecpm-front", "role": etcdRole}
			})
		})
		judge(world, ends, []flow{
			{mainFront, "relay", 22379}, {eventsFront, "relay", 22379}, {mainFront, "etcd-main-0", 2379},
			{"kube-apiserver", mainFront, 2379}, {"relay", mainFront, 2379}, {"agent", mainFront, 2379},
			{"etcd-main-0", mainFront, 2379}, {"etcd-events-0", eventsFront, 2379}, {"etcd-main-0", "relay", 22379},
			{"etcd-main-0", "relay", 2380}, {"relay", "etcd-main-0", 2381}, {"relay", "etcd-main-0", 2379},
		}, true)
		judge(world, ends, never, false)
		judge(world, ends, []flow{
			{mainFront, "relay", 2380}, {mainFront, "relay", 8443}, {mainFront, "public gateway", 443},
			{"etcd-events-0", mainFront, 2379}, {"etcd-main-0", mainFront, 8082}, {"stranger", mainFront, 2379},
		}, false)
	})

	It("should not be permitted any more when the migration has ended", func() {
		world, ends := seed(steps.Source,
			func(_ client.Client, e exposure.Interface) { Expect(e.Destroy(ctx)).To(Succeed()) })
		judge(world, ends, never, false)
		judge(world, ends, []flow{{"etcd-main-0", "etcd-main-1", 2381}, {"etcd-main-0", "relay", 22379},
			{"relay", "etcd-main-0", 2379}, {"kube-apiserver", "relay", 22379}, {"agent", "relay", 22379}}, false)
		judge(world, ends, []flow{{"etcd-main-0", "etcd-main-1", 2380}, {"kube-apiserver", "etcd-main-0", 2379}}, true)
	})
})

// etcdService is the service for clients as etcd-druid makes it of an Etcd of Gardener.
func etcdService(etcdRole string, selector map[string]string, peerPort int32) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: druidcorev1alpha1.GetClientServiceName(
			metav1.ObjectMeta{Name: naming.EtcdName(etcdRole)}),
			Annotations: map[string]string{
				"networking.resources.gardener.cloud/namespace-selectors": `[{"matchLabels":` +
					`{"kubernetes.io/metadata.name":"garden"}}]`,
				"networking.resources.gardener.cloud/pod-label-selector-namespace-alias": "all-shoots",
			}},
		Spec: corev1.ServiceSpec{Selector: selector},
	}
	for _, port := range []int32{naming.PortClient, peerPort, 8080} {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: port,
			TargetPort: intstr.FromInt32(port)})
	}
	return service
}
