// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
	"github.com/livecpm/livecpm/test/calls"
)

const (
	own, peer = "seed-a", "seed-b"
	image     = "registry.example/livecpm-relay:1"
)

// measured is what the way to the other seed is like.
var measured = answer.Measurement{RoundTrip: 2 * time.Millisecond, Sent: 50 << 20, Received: 40 << 20,
	ClockSkew: time.Second}

// leapingClock passes the time that somebody waits for at once.
type leapingClock struct{ *testclock.FakeClock }

func (c leapingClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	passed := make(chan time.Time, 1)
	passed <- c.Now()
	return passed
}

// authority is that of the other side.
var authority = sync.OnceValue(func() string {
	ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca",
		CertType: secretsutils.CACert}).GenerateCertificate()
	if err != nil {
		panic(err)
	}
	return string(ca.CertificatePEM)
})

// world is two seeds, of which the agent of one is tried. The other one is a script.
type world struct {
	ctx    context.Context
	clock  leapingClock
	garden client.Client
	// seed is the agent's own seed, and raw the same without what happens by itself in it.
	seed, raw client.Client
	prober    *probe.Prober

	// unready reports that pods of the probe do not become ready; pods and events are what says why.
	unready bool
	pods    []*corev1.Pod
	events  []*corev1.Event
	// unreadable is the answer to whoever lists pods.
	unreadable error
	// refused is the answer to every object that the probe creates in its namespace.
	refused error
	// needs are what the other seed asks for room for, and full reports that no node takes pods for that.
	needs []seedfacts.Need
	full  bool
	// controlPlanes are what the other seed asks for the images of, and pull is what becomes of the container of a pod
	// that pulls one; by default it has ended, with its image.
	controlPlanes []seedfacts.ControlPlane
	pull          func(container corev1.Container, ordinal int32) corev1.ContainerStatus
	// druidless reports that no etcd-druid runs.
	druidless bool
	// absent reports that the agent of the other seed does not take part.
	absent bool
	// measure is what the way is like.
	measure func(ctx context.Context, question answer.Question) (answer.Measurement, error)
	// seen are the objects that the probe has created.
	seen []client.Object
	// questions are those that were asked.
	questions []answer.Question
}

func newWorld(change ...func(*probe.Options)) *world {
	w := &world{ctx: context.Background(), clock: leapingClock{testclock.NewFakeClock(
		time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))}}
	w.measure = func(context.Context, answer.Question) (answer.Measurement, error) { return measured, nil }
	w.pull = func(container corev1.Container, _ int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: "sha256:1"}
	}
	garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
		WithObjects(newSeed(own), newSeed(peer)).Build()
	w.garden = interceptor.NewClient(garden, calls.After(func(call calls.Call) {
		if seed, ok := call.Object.(*gardencorev1beta1.Seed); ok && call.Writes() && seed.Name == own {
			w.answer(garden)
		}
	}))
	w.raw = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "istio-ingress", Name: "istio-ingressgateway"},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
				Ingress: []corev1.LoadBalancerIngress{{IP: "10.250.0.21"}}}},
		},
		newRecord(),
	).Build()
	w.seed = interceptor.NewClient(w.raw.(client.WithWatch), calls.Before(w.happens))
	options := probe.Options{
		Log: GinkgoLogr, Garden: w.garden, GardenClient: w.garden, SeedClient: w.seed, SeedName: own,
		RelayImage: image, Gateway: exposure.Istio{Namespace: "istio-ingress", ServiceName: "istio-ingressgateway",
			Labels: map[string]string{"istio": "ingressgateway"}},
		Images: probe.Images{Vector: vector, SeedVersion: func() string { return "1.34.1" }, Gardener: "v1.150.0"},
		Clock:  w.clock,
		Measure: func(ctx context.Context, question answer.Question) (answer.Measurement, error) {
			w.questions = append(w.questions, question)
			return w.measure(ctx, question)
		},
	}
	for _, c := range change {
		c(&options)
	}
	var err error
	w.prober, err = probe.New(options)
	Expect(err).NotTo(HaveOccurred())
	return w
}

func newSeed(name string) *gardencorev1beta1.Seed {
	return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gardencorev1beta1.SeedSpec{Ingress: &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".example"}}}
}

// newRecord is the wildcard record of the seed.
func newRecord() *extensionsv1alpha1.DNSRecord {
	return &extensionsv1alpha1.DNSRecord{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "seed-ingress"},
		Spec: extensionsv1alpha1.DNSRecordSpec{Name: "*.ingress." + own + ".example",
			Values: []string{"10.250.0.21"}},
		Status: extensionsv1alpha1.DNSRecordStatus{DefaultStatus: extensionsv1alpha1.DefaultStatus{
			LastOperation: &gardencorev1beta1.LastOperation{State: gardencorev1beta1.LastOperationStateSucceeded}}},
	}
}

// happens is what becomes of what the probe writes in its seed.
func (w *world) happens(call calls.Call) error {
	namespace, isNamespace := call.Object.(*corev1.Namespace)
	etcd, isEtcd := call.Object.(*druidcorev1alpha1.Etcd)
	_, ofPods := call.Object.(*corev1.PodList)
	switch {
	case ofPods && w.unreadable != nil:
		return w.unreadable
	case call.Verb == calls.Delete && isEtcd && etcd.Annotations["confirmation.gardener.cloud/deletion"] != "true":
		return apierrors.NewForbidden(druidcorev1alpha1.SchemeGroupVersion.WithResource("etcds").GroupResource(),
			etcd.Name, errors.New("the resource manager's webhook demands an annotation"))
	case call.Verb == calls.Delete && isNamespace:
		for _, object := range []client.Object{&corev1.Secret{}, &corev1.Service{}, &corev1.ConfigMap{},
			&corev1.Pod{}, &corev1.Event{}, &appsv1.StatefulSet{}, &druidcorev1alpha1.Etcd{}} {
			Expect(w.raw.DeleteAllOf(w.ctx, object, client.InNamespace(namespace.Name))).To(Succeed())
		}
	case call.Verb != calls.Create:
	case !isNamespace && w.refused != nil:
		return w.refused
	default:
		w.seen = append(w.seen, call.Object.(client.Object))
	}
	if call.Verb != calls.Create {
		return nil
	}
	switch object := call.Object.(type) {
	case *appsv1.StatefulSet:
		w.starts(object)
	case *druidcorev1alpha1.Etcd:
		w.reconciles(object)
	}
	return nil
}

// reconciles is what etcd-druid makes of an Etcd.
func (w *world) reconciles(etcd *druidcorev1alpha1.Etcd) {
	if w.druidless {
		return
	}
	statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name},
		Spec: appsv1.StatefulSetSpec{Replicas: &etcd.Spec.Replicas}}
	statefulSet.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "etcd", Image: "registry.example/etcd-wrapper:v0.8.1"},
		{Name: "backup-restore", Image: "registry.example/etcdbrctl:v0.44.1"}}
	Expect(w.raw.Create(w.ctx, statefulSet)).To(Succeed())
}

// starts is what becomes of the pods.
func (w *world) starts(statefulSet *appsv1.StatefulSet) {
	if strings.HasPrefix(statefulSet.Name, "room-") {
		w.finds(statefulSet)
		return
	}
	if !w.unready {
		statefulSet.Status = appsv1.StatefulSetStatus{ObservedGeneration: statefulSet.Generation,
			Replicas: *statefulSet.Spec.Replicas, ReadyReplicas: *statefulSet.Spec.Replicas}
		return
	}
	if statefulSet.Name != exposure.Name {
		return
	}
	for _, pod := range w.pods {
		pod.Namespace = statefulSet.Namespace
		Expect(w.raw.Create(w.ctx, pod)).To(Succeed())
	}
	for _, event := range w.events {
		event.Namespace = statefulSet.Namespace
		Expect(w.raw.Create(w.ctx, event)).To(Succeed())
	}
}

// finds is what becomes of the pods that look for room.
func (w *world) finds(statefulSet *appsv1.StatefulSet) {
	for ordinal := range *statefulSet.Spec.Replicas {
		name := fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: statefulSet.Namespace, Name: name,
			UID: types.UID(name), Labels: statefulSet.Spec.Template.Labels}, Spec: corev1.PodSpec{NodeName: "node"}}
		if w.full && ordinal > 0 {
			pod.Spec.NodeName = ""
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/3 nodes are available: 3 Insufficient cpu."}}
		}
		pod.Spec.Containers = statefulSet.Spec.Template.Spec.Containers
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, w.pull(container, ordinal))
		}
		Expect(w.raw.Create(w.ctx, pod)).To(Succeed())
	}
}

// answer is what the agent of the other seed does when this one has written something.
func (w *world) answer(garden client.Client) {
	seed, other := &gardencorev1beta1.Seed{}, &gardencorev1beta1.Seed{}
	Expect(garden.Get(w.ctx, client.ObjectKey{Name: own}, seed)).To(Succeed())
	Expect(garden.Get(w.ctx, client.ObjectKey{Name: peer}, other)).To(Succeed())
	var mine, theirs seedfacts.Probes
	if w.absent || seedfacts.Of(seed, seedfacts.AnnotationProbes, &mine) != nil {
		return
	}
	seen, connection := mine.To(peer), seedfacts.Connection{Seed: own}
	if seen.Round != nil {
		connection.Round = &seedfacts.ProbeRound{Began: metav1.NewTime(w.clock.Now()), Authority: authority(),
			Needs: w.needs, ControlPlanes: w.controlPlanes}
		if seen.Result != nil {
			connection.Result = &seedfacts.ProbeResult{Of: seedfacts.Fingerprint(seen.Round.Authority)}
		}
	}
	theirs.Set(connection)
	w.say(garden, other, theirs)
}

func (w *world) say(garden client.Client, seed *gardencorev1beta1.Seed, probes seedfacts.Probes) {
	value, err := seedfacts.Encode(probes)
	Expect(err).NotTo(HaveOccurred())
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.AnnotationProbes, value)
	Expect(garden.Update(w.ctx, seed)).To(Succeed())
}

// givesUp lets the agent of the other seed end its part with a result.
func (w *world) givesUp(result seedfacts.ProbeResult) {
	seed := w.seedNamed(peer)
	w.say(w.garden, seed, seedfacts.Probes{Connections: []seedfacts.Connection{{Seed: own, Result: &result}}})
}

func (w *world) seedNamed(name string) *gardencorev1beta1.Seed {
	GinkgoHelper()
	seed := &gardencorev1beta1.Seed{}
	Expect(w.garden.Get(w.ctx, client.ObjectKey{Name: name}, seed)).To(Succeed())
	return seed
}

// ask requests a probe.
func (w *world) ask() {
	GinkgoHelper()
	seed := w.seedNamed(own)
	metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.ProbeRequest(peer), w.clock.Now().Format(time.RFC3339))
	Expect(w.garden.Update(w.ctx, seed)).To(Succeed())
}

// look lets the agent look once, and complete what it begins.
func (w *world) look() {
	GinkgoHelper()
	Expect(w.prober.Look(w.ctx)).To(Succeed())
	w.prober.Wait()
}

func (w *world) connection() seedfacts.Connection {
	GinkgoHelper()
	var probes seedfacts.Probes
	Expect(seedfacts.Of(w.seedNamed(own), seedfacts.AnnotationProbes, &probes)).To(Succeed())
	return probes.To(peer)
}

// namespaces are those that are left in the seed.
func (w *world) namespaces() []string {
	GinkgoHelper()
	list := &corev1.NamespaceList{}
	Expect(w.raw.List(w.ctx, list)).To(Succeed())
	var out []string
	for _, namespace := range list.Items {
		out = append(out, namespace.Name)
	}
	slices.Sort(out)
	return out
}

// created returns the object of the name that was created.
func created[T client.Object](w *world, name string) T {
	GinkgoHelper()
	for _, object := range w.seen {
		if typed, ok := object.(T); ok && typed.GetName() == name {
			return typed
		}
	}
	Fail("nothing of that name was created: " + name)
	panic("not reached")
}

// newShoot is on its way between the seeds.
func newShoot(name string) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name, Annotations: map[string]string{
			"migration.gardener.cloud/live-migrate": "true"}},
		Spec:   gardencorev1beta1.ShootSpec{SeedName: new(peer)},
		Status: gardencorev1beta1.ShootStatus{SeedName: new(own)},
	}
}

// begun lets the migration of the shoot have begun.
func begun(shoot *gardencorev1beta1.Shoot) *gardencorev1beta1.Shoot {
	all := conditions.Initialize(clock.RealClock{}, nil)
	all[0].Status = gardencorev1beta1.ConditionProgressing
	shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: all}
	return shoot
}

var errNobody = errors.New("failed to complete the TLS handshake: connection reset by peer")
