// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	vpnshoot "github.com/gardener/gardener/pkg/component/networking/vpn/shoot"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/gardenlet/operation/garden"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	fakerest "k8s.io/client-go/rest/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/test/calls"
	"github.com/livecpm/livecpm/test/patience"
)

// vpnClient stands for Gardener's component of the regular VPN client.
type vpnClient struct {
	vpnshoot.Interface
	journal func(string)
	pods    []net.IPNet
	// ready is what keeps the wait from its end.
	ready func() error
}

func (v *vpnClient) SetPodNetworkCIDRs(cidrs []net.IPNet) { v.pods = cidrs }
func (*vpnClient) SetServiceNetworkCIDRs([]net.IPNet)     {}
func (*vpnClient) SetNodeNetworkCIDRs([]net.IPNet)        {}
func (v *vpnClient) Deploy(context.Context) error         { v.journal("deploy regular client"); return nil }

func (v *vpnClient) Wait(context.Context) error {
	if v.ready != nil {
		if err := v.ready(); err != nil {
			return err
		}
	}
	v.journal("regular client ready")
	return nil
}

var _ = Describe("Shoots with workers", func() {
	var (
		lock    sync.Mutex
		entries []string
		fail    map[string]bool
	)
	journal := func(entry string) {
		lock.Lock()
		defer lock.Unlock()
		entries = append(entries, entry)
	}
	BeforeEach(func() { entries, fail = nil, map[string]bool{} })

	newShoot := func(objects ...client.Object) client.Client {
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.ShootScheme).WithObjects(objects...).
			WithInterceptorFuncs(calls.Before(func(call calls.Call) error {
				if _, ok := call.Object.(*appsv1.StatefulSet); ok && call.Verb == calls.Delete {
					journal("delete " + call.Key.Name)
				}
				return nil
			})).Build()
	}
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	// kubelets answers for the kubelets behind the kube-apiserver, unless the way to the one of that name fails.
	kubelets := func() rest.Interface {
		return &fakerest.RESTClient{
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
			Client: fakerest.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
				journal("GET " + request.URL.Path)
				status := http.StatusOK
				for name := range fail {
					if request.URL.Path == "/api/v1/nodes/"+name+"/proxy/healthz" {
						status = http.StatusServiceUnavailable
					}
				}
				return &http.Response{StatusCode: status, Header: http.Header{},
					Body: io.NopCloser(bytes.NewBufferString("ok"))}, nil
			}),
		}
	}
	newBotanist := func(deps *destination.Deps) *botanist.Botanist {
		manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, deps.SeedClientSet.Client(),
			"gardenlet", secretsmanager.WithNamespaces(namespace))
		Expect(err).NotTo(HaveOccurred())
		_, pods, err := net.ParseCIDR("100.64.0.0/11")
		Expect(err).NotTo(HaveOccurred())
		shoot := &shootpkg.Shoot{
			ControlPlaneNamespace: namespace, InternalClusterDomain: new("live.internal.example.com"),
			ExternalClusterDomain: new("live.example.com"),
			Networks:              &shootpkg.Networks{Pods: []net.IPNet{*pods}},
			Components: &shootpkg.Components{
				SystemComponents: &shootpkg.SystemComponents{VPNShoot: &vpnClient{journal: journal}},
			},
		}
		shoot.SetInfo(&gardencorev1beta1.Shoot{
			Spec: gardencorev1beta1.ShootSpec{Networking: &gardencorev1beta1.Networking{}},
		})
		return &botanist.Botanist{Operation: &gardeneroperation.Operation{
			Logger: logr.Discard(), Shoot: shoot, SecretsManager: manager, SeedClientSet: deps.SeedClientSet,
			APIServerAddress: "192.0.2.2", APIServerClusterIP: "240.4.5.6",
			Garden: &garden.Garden{
				InternalDomain: &gardenerutils.Domain{Provider: "local", Credentials: &corev1.Secret{}},
			},
		}}
	}

	Describe("the address inside of the shoot", func() {
		slice := func(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
					Labels: map[string]string{"kubernetes.io/service-name": service}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}},
			}
		}

		DescribeTable("is read from the shoot", func(address, text string, objects ...client.Object) {
			found, err := destination.PublishedAddress(ctx, newShoot(objects...))
			if text == "" {
				Expect(err).NotTo(HaveOccurred())
				Expect(found).To(Equal(address))
			} else {
				Expect(err).To(MatchError(ContainSubstring(text)))
			}
		},
			Entry("one", "240.1.2.3", "", slice("kubernetes", "kubernetes", "240.1.2.3"),
				slice("other", "other", "10.0.0.1")),
			Entry("the same twice", "240.1.2.3", "", slice("kubernetes", "kubernetes", "240.1.2.3"),
				slice("kubernetes-x", "kubernetes", "240.1.2.3")),
			Entry("IPv6", "64:ff9b:1::1", "", slice("kubernetes", "kubernetes", "64:ff9b:1::1")),
			Entry("two", "", "has the addresses [240.1.2.3 240.4.5.6] instead of one",
				slice("kubernetes", "kubernetes", "240.1.2.3", "240.4.5.6")),
			Entry("none", "", "has the addresses [] instead of one"),
		)

		It("should be compared by what it means", func() {
			Expect(destination.Moves("64:ff9b:1::6440:1", "64:ff9b:1::100.64.0.1")).To(BeFalse())
			Expect(destination.Moves("240.1.2.3", "240.1.2.3")).To(BeFalse())
			Expect(destination.Moves("240.1.2.3", "240.4.5.6")).To(BeTrue())
			Expect(destination.Moves("240.1.2.3", "")).To(BeTrue(),
				"an address that is not known is no reason to leave the nodes unprepared")
		})

		It("should have moved when nobody else's is published", func() {
			shoot := newShoot(slice("kubernetes", "kubernetes", "64:ff9b:1::6440:1"))
			Expect(destination.CheckPublished(ctx, shoot, "64:ff9b:1::100.64.0.1")).To(Succeed())
			Expect(destination.CheckPublished(ctx, shoot, "240.4.5.6")).
				To(MatchError(ContainSubstring(
					"is published as 64:ff9b:1::6440:1 inside of the shoot instead of 240.4.5.6")))
			Expect(destination.CheckPublished(ctx,
				newShoot(slice("kubernetes", "kubernetes", "240.1.2.3", "240.4.5.6")), "240.4.5.6")).To(HaveOccurred())
		})

		It("should be the one that was remembered, without asking again", func() {
			deps := newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
				Annotations: map[string]string{destination.AnnotationAdvertisedAddress: "240.1.2.3"}}})
			Expect(destination.LearnAdvertisement(ctx, deps, newBotanist(deps))).To(Equal("240.1.2.3"))
			Expect(destination.ForgetAdvertisement(ctx, deps, namespace)).To(Succeed())
			ns := &corev1.Namespace{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Name: namespace}, ns)).To(Succeed())
			Expect(ns.Annotations).NotTo(HaveKey(destination.AnnotationAdvertisedAddress))
		})

		It("should not be kept without DNS", func() {
			deps := newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			b := newBotanist(deps)
			b.Garden.InternalDomain = nil
			_, err := destination.LearnAdvertisement(ctx, deps, b)
			Expect(err).To(MatchError(ContainSubstring("the nodes have no apiserver-proxy")))
		})

		It("should take the place of the destination's own, which is known afterwards", func() {
			b := newBotanist(newDeps())
			Expect(destination.Advertise(b, "240.1.2.3", 2)).To(Equal("240.4.5.6"))
			Expect(b.APIServerClusterIP).To(Equal("240.1.2.3"))
		})

		It("should be the destination's own again when nothing is remembered", func() {
			b := newBotanist(newDeps())
			Expect(destination.Advertise(b, "", 1)).To(BeEmpty())
			Expect(b.APIServerClusterIP).To(Equal("240.4.5.6"))
		})
	})

	Describe("the VPN server, before the first kube-apiserver starts", func() {
		server := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
					Labels: map[string]string{"app": "vpn-seed-server"}},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
			}
		}
		// wait tells how often the pods of the server were looked at. The attempt may take as long as is given.
		wait := func(timeout time.Duration, shoot client.Client, pods ...client.Object) (looks int) {
			GinkgoHelper()
			deps := newDeps(pods...)
			deps.Timings.PollInterval, deps.Timings.RolloutTimeout = time.Millisecond, timeout
			seed := interceptor.NewClient(deps.SeedClientSet.Client().(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					if looks++; looks == 3 {
						late := server("late", corev1.ConditionTrue)
						Expect(client.IgnoreNotFound(c.Status().Update(ctx, late))).To(Succeed())
					}
					return c.List(ctx, list, options...)
				},
			})
			deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
			m := &migration.Migration{Log: logr.Discard(), Shoot: &gardencorev1beta1.Shoot{
				Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}}
			Expect(destination.WaitForVPN(ctx, deps, m, shoot)).To(Succeed())
			return looks
		}

		It("should be waited for until all its pods have clients", func() {
			Expect(wait(patience.Eventually, newShoot(node("a", corev1.ConditionTrue)),
				server("early", corev1.ConditionTrue), server("late", corev1.ConditionFalse))).To(Equal(3))
		})

		It("should not keep the kube-apiserver forever: the step checks the tunnel at its end", func() {
			for _, pods := range [][]client.Object{nil, {server("x", corev1.ConditionFalse)}} {
				Expect(wait(50*time.Millisecond, newShoot(node("a", corev1.ConditionTrue)), pods...)).
					To(BeNumerically(">", 0))
			}
		})

		It("should not be waited for where no client can run", func() {
			Expect(wait(patience.Eventually, newShoot())).To(BeZero())
			Expect(wait(patience.Eventually, newShoot(node("a", corev1.ConditionFalse)))).To(BeZero())
		})
	})

	Describe("the tunnel", func() {
		It("should stand if kubelets answer, each in its turn", func() {
			Expect(destination.CheckTunnel(ctx, newShoot(node("a", corev1.ConditionTrue),
				node("b", corev1.ConditionTrue), node("c", corev1.ConditionFalse)), kubelets())).To(Succeed())
			Expect(entries).To(HaveLen(6))
			Expect(entries[:3]).
				To(Equal([]string{"GET /api/v1/nodes/a/proxy/healthz", "GET /api/v1/nodes/b/proxy/healthz",
					"GET /api/v1/nodes/a/proxy/healthz"}))
			Expect(entries).NotTo(ContainElement(ContainSubstring("nodes/c")))
		})

		It("should not stand if one of them cannot be reached", func() {
			fail["b"] = true
			Expect(destination.CheckTunnel(ctx,
				newShoot(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue)), kubelets())).
				To(MatchError(ContainSubstring("failed to reach the kubelet of node b through the tunnel")))
		})

		It("should not be known to stand if no node is ready", func() {
			Expect(destination.CheckTunnel(ctx,
				newShoot(node("a", corev1.ConditionFalse), node("b", corev1.ConditionUnknown)), kubelets())).
				To(MatchError("none of the 2 nodes of the shoot is ready"))
			Expect(entries).To(BeEmpty())
		})

		It("should be of no account without nodes", func() {
			Expect(destination.CheckTunnel(ctx, newShoot(), kubelets())).To(Succeed())
			Expect(entries).To(BeEmpty())
		})
	})

	Describe("moving the regular VPN client", func() {
		temporary := func() client.Object {
			return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-vpn-shoot",
				Namespace: "kube-system", Labels: map[string]string{overlap.LabelTwin: overlap.VPN}}}
		}
		moveWithin := func(timeout time.Duration, shoot client.Client) error {
			deps := newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			deps.Timings.PollInterval, deps.Timings.RolloutTimeout = time.Millisecond, timeout
			b := newBotanist(deps)
			b.Shoot.VPNHighAvailabilityEnabled = true
			err := destination.MoveVPN(ctx, deps,
				destination.VPNMove{Botanist: b, Plain: b, Shoot: shoot, Kubelets: kubelets()})
			if err == nil {
				Expect(b.Shoot.Components.SystemComponents.VPNShoot.(*vpnClient).pods).To(HaveLen(1))
			}
			return err
		}
		move := func(shoot client.Client) error { return moveWithin(patience.Eventually, shoot) }

		It("should remove the temporary one only when the regular one stands, "+
			"and look at the tunnel without it", func() {
			Expect(move(newShoot(node("a", corev1.ConditionTrue), temporary()))).To(Succeed())
			Expect(slices.Compact(entries)).To(Equal([]string{
				"deploy regular client", "regular client ready", "delete livecpm-vpn-shoot",
				"GET /api/v1/nodes/a/proxy/healthz",
			}))
		})

		It("should remove the temporary one as soon as the regular one runs, where the server has one place", func() {
			applied := &resourcesv1alpha1.ManagedResource{
				ObjectMeta: metav1.ObjectMeta{Name: "shoot-core-vpn-shoot", Namespace: namespace},
				Status: resourcesv1alpha1.ManagedResourceStatus{Conditions: []gardencorev1beta1.Condition{
					{Type: resourcesv1alpha1.ResourcesApplied, Status: gardencorev1beta1.ConditionTrue}}},
			}
			regular := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "vpn-shoot", Namespace: metav1.NamespaceSystem},
				Status: appsv1.DeploymentStatus{UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}},
			}
			shoot := newShoot(node("a", corev1.ConditionTrue), temporary(), regular)
			deps := newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, applied)
			deps.Timings.PollInterval, deps.Timings.RolloutTimeout = time.Millisecond, patience.Eventually
			b := newBotanist(deps)
			b.Shoot.Components.SystemComponents.VPNShoot.(*vpnClient).ready = func() error {
				// The resource manager sees it later.
				left := &appsv1.StatefulSetList{}
				if err := shoot.List(ctx, left); err != nil || len(left.Items) == 0 {
					return err
				}
				return errors.New("not yet")
			}
			Expect(destination.MoveVPN(ctx, deps,
				destination.VPNMove{Botanist: b, Plain: b, Shoot: shoot, Kubelets: kubelets()})).To(Succeed())
			Expect(entries[:2]).To(Equal([]string{"deploy regular client", "delete livecpm-vpn-shoot"}))
			Expect(entries).To(ContainElement("regular client ready"))
		})

		It("should be repeatable", func() {
			shoot := newShoot(node("a", corev1.ConditionTrue), temporary())
			Expect(move(shoot)).To(Succeed())
			Expect(move(shoot)).To(Succeed())
		})

		It("should fail as long as the tunnel does not stand", func() {
			fail["a"] = true
			Expect(moveWithin(time.Second, newShoot(node("a", corev1.ConditionTrue), temporary()))).
				To(MatchError(ContainSubstring("failed to reach the kubelet of node a")))
		})
	})
})
