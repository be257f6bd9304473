// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	fakeclientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	fakerest "k8s.io/client-go/rest/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/graphs"
	"github.com/livecpm/livecpm/test/patience"
)

const namespace = "shoot--demo--live"

var (
	ctx = context.Background()
	now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func newDeps(objects ...client.Object) *destination.Deps {
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
	return &destination.Deps{
		Garden:        fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build(),
		SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build(),
		Clock:         testclock.NewFakeClock(now),
		Timings:       flows.DefaultTimings(),
	}
}

// crashLooping is the state of a container that the kubelet lets wait for its restart.
func crashLooping() corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
}

// kubeAPIServerPod returns a pod of the shoot's kube-apiserver if the app is "kubernetes". Its sidecar has troubles
// that are nobody's business.
func kubeAPIServerPod(name, app string, restarts int32, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{"app": app, "role": "apiserver", "gardener.cloud/role": "controlplane"}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", RestartCount: 9, State: crashLooping()},
			{Name: "kube-apiserver", RestartCount: restarts, State: state},
		}},
	}
}

func newMigration() *migration.Migration {
	return &migration.Migration{
		Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo",
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: ptr.To("seed-b")},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace, SeedName: ptr.To("seed-a")},
		},
		Role: steps.Destination, SourceSeed: "seed-a", DestinationSeed: "seed-b",
		Clock:    testclock.NewFakeClock(now),
		Obstacle: func(context.Context) (steps.Reason, string) { return "", "" },
		// However wrong the clock of a test is: the source is at work.
		PeerSeen: func(context.Context) (time.Time, error) { return time.Now(), nil },
	}
}

var _ = Describe("Flows", func() {
	It("should have the tasks that are written down, each after what it waits for", func() {
		graphs.Compare("testdata/graphs", destination.Graphs(newDeps(), newMigration()))
	})

	It("should compile", func() {
		for situation, graph := range destination.Graphs(newDeps(), newMigration()) {
			compiled := graph.Compile()
			Expect(compiled.Len()).To(BeNumerically(">", 0), situation)
			fmt.Fprintf(GinkgoWriter, "%s: %s with %d tasks\n", situation, compiled.Name(), compiled.Len())
		}
	})
})

var _ = Describe("Waiting for DNS caches", func() {
	DescribeTable("takes the TTL and the margin", func(since time.Duration, finished bool, requeue time.Duration) {
		outcome := destination.WaitForCaches(now, now.Add(-since), 2*time.Minute, 30*time.Second)
		Expect(outcome.Finished()).To(Equal(finished))
		if !finished {
			Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForDNS))
			Expect(outcome.RequeueAfter).To(Equal(requeue))
		}
	},
		Entry("just moved", time.Duration(0), false, 10*time.Second),
		Entry("TTL over, margin not", 145*time.Second, false, 5*time.Second),
		Entry("both over", 150*time.Second, true, time.Duration(0)),
	)

	DescribeTable("begins with what the namespace says", func(movedAt, ttl string, moved, measured bool) {
		actuallyMoved, actuallyMeasured := destination.DNSSwitch(map[string]string{
			destination.AnnotationMovedAt: movedAt, destination.AnnotationFormerTTL: ttl,
		})
		Expect(actuallyMoved).To(Equal(moved))
		Expect(actuallyMeasured).To(Equal(measured))
	},
		Entry("not begun", "", "", false, false),
		Entry("measured, not moved", "", "2m0s", false, true),
		Entry("moved", "2026-11-20T12:00:00Z", "2m0s", true, true),
		Entry("moved, but nobody knows the TTL", "2026-11-20T12:00:00Z", "", true, false),
		Entry("a malformed moment", "yesterday", "2m0s", false, true),
		Entry("a malformed TTL", "2026-11-20T12:00:00Z", "long", true, false),
	)

	It("should continue where another agent stopped", func() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: map[string]string{
			destination.AnnotationFormerTTL: "2m0s",
			destination.AnnotationMovedAt:   now.Add(-time.Minute).Format(time.RFC3339),
		}}}
		outcome, err := destination.SwitchDNS(ctx, newDeps(ns), newMigration())
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForDNS))
		Expect(outcome.Message).To(ContainSubstring("2026-11-20T12:01:30Z"))
	})

	It("should not guess a TTL", func() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: map[string]string{
			destination.AnnotationMovedAt: now.Add(-time.Minute).Format(time.RFC3339),
		}}}
		_, err := destination.SwitchDNS(ctx, newDeps(ns), newMigration())
		Expect(err).To(MatchError(ContainSubstring(destination.AnnotationFormerTTL)))
	})
})

var _ = Describe("Scaling an Etcd", func() {
	It("should change the number of members only, and only upwards", func() {
		etcd := &druidcorev1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: namespace},
			Spec: druidcorev1alpha1.EtcdSpec{Replicas: 2, Etcd: druidcorev1alpha1.EtcdConfig{
				ServerPort: ptr.To[int32](2381),
				BootstrapWithExistingCluster: &druidcorev1alpha1.BootstrapWithExistingCluster{
					ClientEndpoints: []string{"https://x"},
				},
			}},
		}
		deps := newDeps(etcd)
		Expect(destination.ScaleEtcd(ctx, deps, newMigration(),
			destination.EtcdSize{Role: "main", Members: 3})).To(Succeed())

		scaled := &druidcorev1alpha1.Etcd{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(etcd), scaled)).To(Succeed())
		Expect(scaled.Spec.Replicas).To(Equal(int32(3)))
		Expect(scaled.Spec.Etcd).To(Equal(etcd.Spec.Etcd))
		Expect(scaled.Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))

		Expect(destination.ScaleEtcd(ctx, deps, newMigration(),
			destination.EtcdSize{Role: "main", Members: 2})).To(Succeed())
		after := &druidcorev1alpha1.Etcd{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(etcd), after)).To(Succeed())
		Expect(after.ResourceVersion).To(Equal(scaled.ResourceVersion))
	})

	It("should read the Etcd again if etcd-druid has written to it meanwhile", func() {
		etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: namespace},
			Spec: druidcorev1alpha1.EtcdSpec{Replicas: 2}}
		conflicts := 2
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(etcd).WithInterceptorFuncs(
			interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object,
				patch client.Patch, opts ...client.PatchOption) error {
				if written, ok := obj.(*druidcorev1alpha1.Etcd); ok && written.Spec.Replicas == 3 && conflicts > 0 {
					conflicts--
					other := &druidcorev1alpha1.Etcd{}
					Expect(c.Get(ctx, client.ObjectKeyFromObject(obj), other)).To(Succeed())
					metav1.SetMetaDataAnnotation(&other.ObjectMeta, "druid", fmt.Sprint(conflicts))
					Expect(c.Update(ctx, other)).To(Succeed())
				}
				return c.Patch(ctx, obj, patch, opts...)
			}}).Build()
		deps := newDeps()
		deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build()
		Expect(destination.ScaleEtcd(ctx, deps, newMigration(),
			destination.EtcdSize{Role: "main", Members: 3})).To(Succeed())
		scaled := &druidcorev1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), scaled)).To(Succeed())
		Expect(scaled.Spec.Replicas).To(Equal(int32(3)))
		Expect(scaled.Annotations).To(HaveKeyWithValue("druid", "0"), "nothing of the others is lost")
	})
})

// restSide is a kube-apiserver whose paths can be asked for, beside its objects.
type restSide struct {
	*fakeclientset.Clientset
	rest rest.Interface
}

func (s restSide) Discovery() discovery.DiscoveryInterface {
	return restDiscovery{DiscoveryInterface: s.Clientset.Discovery(), rest: s.rest}
}

type restDiscovery struct {
	discovery.DiscoveryInterface
	rest rest.Interface
}

func (d restDiscovery) RESTClient() rest.Interface { return d.rest }

var _ = Describe("Probing the kube-apiserver", func() {
	var asked []string

	newShoot := func(readyz int, objects ...runtime.Object) restSide {
		asked = nil
		return restSide{Clientset: fakeclientset.NewClientset(objects...), rest: &fakerest.RESTClient{
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
			Client: fakerest.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
				asked = append(asked, request.Method+" "+request.URL.Path)
				return &http.Response{StatusCode: readyz, Header: http.Header{},
					Body: io.NopCloser(bytes.NewBufferString("ok"))}, nil
			}),
		}}
	}

	probe := func(shoot restSide) error {
		_, err := destination.ProbeKubeAPIServer(ctx, shoot, testclock.NewFakeClock(now))
		return err
	}

	It("should ask whether it is ready, before anything is written", func() {
		shoot := newShoot(http.StatusInternalServerError)
		Expect(probe(shoot)).
			To(MatchError(ContainSubstring("failed to get /readyz of the kube-apiserver through the gateway")))
		Expect(asked).To(Equal([]string{"GET /readyz"}))
		Expect(shoot.Actions()).To(BeEmpty())
	})

	It("should not take a kube-apiserver for ready that it cannot ask", func() {
		shoot := newShoot(http.StatusOK)
		shoot.rest = nil
		Expect(probe(shoot)).
			To(MatchError(ContainSubstring("failed to get /readyz")))
		Expect(shoot.Actions()).To(BeEmpty())
	})

	It("should write, read and delete a canary, also when a former one is left", func() {
		shoot := newShoot(http.StatusOK,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-canary", Namespace: "kube-system"}})
		Expect(probe(shoot)).To(Succeed())
		Expect(asked).To(Equal([]string{"GET /readyz"}))

		var verbs []string
		for _, action := range shoot.Actions() {
			verbs = append(verbs, action.GetVerb())
		}
		Expect(verbs).To(ContainElements("delete", "create", "get", "delete"))
		left, err := shoot.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(left.Items).To(BeEmpty())
	})
})

var _ = Describe("How fast the kube-apiserver answers", func() {
	It("should be what the slowest request took, but for the one that makes the connection", func() {
		clock := testclock.NewFakeClock(now)
		shoot := restSide{Clientset: fakeclientset.NewClientset(), rest: &fakerest.RESTClient{
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
			Client: fakerest.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
				clock.Step(time.Minute)
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
					Body: io.NopCloser(bytes.NewBufferString("ok"))}, nil
			}),
		}}
		for verb, takes := range map[string]time.Duration{"create": 2300 * time.Millisecond, "get": time.Second} {
			shoot.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				clock.Step(takes)
				return false, nil, nil
			})
		}
		Expect(destination.ProbeKubeAPIServer(ctx, shoot, clock)).To(Equal(2300 * time.Millisecond))
	})

	It("should keep DNS where it is as long as it takes too long, and be shown", func() {
		deps, m := newDeps(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-apiserver"},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			}},
		}), newMigration()
		deps.Timings.PollInterval, deps.Timings.RolloutTimeout = time.Millisecond, patience.Eventually
		var reported []string
		m.Report = func(_ context.Context, reason steps.Reason, message string) error {
			reported = append(reported, string(reason)+": "+message)
			return nil
		}
		took := []time.Duration{2300 * time.Millisecond, time.Second}
		Expect(destination.UntilServing(ctx, deps, m,
			destination.Promptly(m, func(context.Context) (time.Duration, error) {
				next := took[0]
				took = took[1:]
				return next, nil
			}))).To(Succeed())
		Expect(took).To(BeEmpty())
		Expect(reported).To(Equal([]string{"SeedOverloaded: the kube-apiserver of the destination answered in 2.3 s, " +
			"more than 1 s: the seed is overloaded"}))
	})
})

var _ = Describe("Completing", func() {
	It("should restore as long as there is a ShootState, and reconcile after it was deleted", func() {
		deps, m := newDeps(), newMigration()
		Expect(destination.LastOperationForCompletion(ctx, deps, m.Shoot)).
			To(Equal(gardencorev1beta1.LastOperationTypeReconcile))
		Expect(deps.Garden.Create(ctx,
			&gardencorev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"}})).
			To(Succeed())
		Expect(destination.LastOperationForCompletion(ctx, deps, m.Shoot)).
			To(Equal(gardencorev1beta1.LastOperationTypeRestore))
	})
})

var _ = Describe("Handing over", func() {
	actions := func() migration.Actions {
		GinkgoHelper()
		actions, err := destination.NewActions(newDeps().Options())
		Expect(err).NotTo(HaveOccurred())
		return actions
	}

	It("should make the shoot one of the destination that waits for a reconciliation", func() {
		m := newMigration()
		shoot := m.Shoot.DeepCopy()
		shoot.Status.LastErrors = []gardencorev1beta1.LastError{{Description: "x"}}
		Expect(actions().HandOver(m, shoot)).To(Succeed())

		Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(shoot.Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeRestore))
		Expect(shoot.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))
		Expect(shoot.Status.LastErrors).To(BeEmpty())
		Expect(shoot.Status.Gardener.Version).To(Equal("v1.150.0"))
		Expect(shoot.Annotations).To(Equal(map[string]string{steps.AnnotationIntent: "true"}),
			"the frame takes care of annotations")
	})

	It("should leave the restoration of a shoot with workers to the gardenlet", func() {
		m := newMigration()
		shoot := m.Shoot.DeepCopy()
		shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}}
		Expect(actions().HandOver(m, shoot)).To(Succeed())
		Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(shoot.Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeMigrate))
		Expect(shoot.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))
	})

	It("should refuse a shoot that is not meant for this seed", func() {
		m := newMigration()
		m.Shoot.Spec.SeedName = ptr.To("seed-c")
		Expect(actions().HandOver(m, m.Shoot)).
			To(MatchError(ContainSubstring("does not name seed seed-b")))
	})
})
