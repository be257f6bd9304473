// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
)

var _ = Describe("Prober", func() {
	namespace := probe.NamespaceOf(own, peer)

	It("should have the same namespace in both seeds, and another one for other seeds", func() {
		Expect(probe.NamespaceOf(peer, own)).To(Equal(namespace))
		Expect(probe.NamespaceOf(own, "seed-c")).NotTo(Equal(namespace))
	})

	It("should refuse to be made without what it needs", func() {
		_, err := probe.New(probe.Options{SeedName: own})
		Expect(err).To(MatchError(ContainSubstring("these options are missing: Log, Garden, GardenClient, SeedClient")))

		newWorld(func(o *probe.Options) {
			images := o.Images
			for _, lacking := range []probe.Images{
				{SeedVersion: images.SeedVersion, Gardener: images.Gardener},
				{Vector: images.Vector, Gardener: images.Gardener},
				{Vector: images.Vector, SeedVersion: images.SeedVersion},
			} {
				o.Images = lacking
				_, err := probe.New(*o)
				Expect(err).To(MatchError(ContainSubstring("the probes of images: these options are missing")))
			}
			o.Images = images
		})
	})

	It("should probe what an operator asks for, as a migration would use it, and leave nothing", func() {
		w := newWorld()
		w.ask()
		w.look()

		connection := w.connection()
		Expect(connection.Round).To(BeNil())
		Expect(connection.Result.InOrder()).To(BeTrue())
		Expect(*connection.Result).To(sameAs(w, seedfacts.ProbeResult{
			Of: seedfacts.Fingerprint(authority()), RoundTrip: metav1.Duration{Duration: 2 * time.Millisecond},
			Sent: 50 << 20, Received: 40 << 20, ClockSkew: metav1.Duration{Duration: time.Second},
		}))

		By("through the gateway of a migration")
		gateway := created[*istionetworkingv1beta1.Gateway](w, "livecpm-relay")
		Expect(gateway.Spec.Selector).To(HaveKeyWithValue("istio", "ingressgateway"))
		Expect(gateway.Spec.Servers[0].Hosts).
			To(ContainElement("etcd-main-0-client--" + namespace + ".ingress.seed-a.example"))

		By("with the relays of a migration, which know the other side's authority only")
		relay := created[*appsv1.StatefulSet](w, "livecpm-relay")
		Expect(relay.Namespace).To(Equal(namespace))
		Expect(relay.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
		secret := created[*corev1.Secret](w, "livecpm-probe")
		Expect(secret.Data).To(HaveKeyWithValue("ca.crt", []byte(authority())))

		By("to what stands in the place of an etcd member")
		answerer := created[*appsv1.StatefulSet](w, "etcd-main")
		Expect(answerer.Spec.Template.Labels).To(HaveKeyWithValue("app", "etcd-statefulset"))
		Expect(w.questions[0].TLS.ServerName).To(Equal("etcd-main-0.etcd-main-peer." + namespace + ".svc"))

		By("and nothing is left")
		Expect(w.namespaces()).To(BeEmpty())
		w.look()
		Expect(w.seedNamed(own).Annotations).NotTo(HaveKey(seedfacts.ProbeRequest(peer)))
		Expect(w.questions).To(HaveLen(1), "it is asked for once")
	})

	It("should pull the image of the relay with the Secrets that a migration pulls it with", func() {
		w := newWorld(func(o *probe.Options) {
			o.PullSecrets = exposure.PullSecrets{{Namespace: "garden", Name: "registry"}}
		})
		Expect(w.raw.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "registry"},
			Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{".dockerconfigjson": []byte("{}")}})).
			To(Succeed())
		w.needs = []seedfacts.Need{need("other", 1, "1/1Gi")}
		w.ask()
		w.look()
		Expect(w.connection().Result.InOrder()).To(BeTrue())
		Expect(created[*corev1.Secret](w, "livecpm-relay-pull-registry").Type).
			To(Equal(corev1.SecretTypeDockerConfigJson))
		for _, name := range []string{"livecpm-relay", "etcd-main", "room-other"} {
			Expect(created[*appsv1.StatefulSet](w, name).Spec.Template.Spec.ImagePullSecrets).
				To(ConsistOf(corev1.LocalObjectReference{Name: "livecpm-relay-pull-registry"}), name)
		}
		Expect(w.namespaces()).To(BeEmpty())
	})

	It("should probe for migrations that wait for their first step, and for no other", func() {
		w := newWorld()
		Expect(w.garden.Create(w.ctx, begun(newShoot("begun")))).To(Succeed())
		w.look()
		Expect(w.questions).To(BeEmpty(), "a migration that is under way needs no probe")

		Expect(w.garden.Create(w.ctx, newShoot("waiting"))).To(Succeed())
		w.look()
		Expect(w.questions).To(HaveLen(1))
		w.look()
		Expect(w.questions).To(HaveLen(1), "the result counts for all")

		By("and again when the result is too old")
		w.clock.Step(seedfacts.MaxAge + time.Second)
		w.look()
		Expect(w.questions).To(HaveLen(2))
	})

	It("should repeat a probe that has found something after a pause, as long as a migration waits", func() {
		w := newWorld()
		Expect(w.garden.Create(w.ctx, newShoot("waiting"))).To(Succeed())
		w.absent = true
		w.look()
		Expect(w.connection().Result.Unknown).NotTo(BeEmpty())
		w.absent = false
		w.look()
		Expect(w.questions).To(BeEmpty(), "not at once")
		w.clock.Step(2 * time.Minute)
		w.look()
		Expect(w.connection().Result.InOrder()).To(BeTrue())
	})

	It("should take part when the other side begins again", func() {
		w := newWorld()
		Expect(w.garden.Create(w.ctx, newShoot("waiting"))).To(Succeed())
		w.look()
		Expect(w.questions).To(HaveLen(1))
		w.say(w.garden, w.seedNamed(peer), seedfacts.Probes{Connections: []seedfacts.Connection{{Seed: own,
			Round: &seedfacts.ProbeRound{Began: metav1.NewTime(w.clock.Now()), Authority: "another one"}}}})
		w.look()
		Expect(w.questions).To(HaveLen(2))
	})

	It("should say that it takes no part where that is turned off, and not probe", func() {
		w := newWorld(func(o *probe.Options) { o.Off = true })
		Expect(w.garden.Create(w.ctx, newShoot("waiting"))).To(Succeed())
		w.ask()
		w.look()
		var probes seedfacts.Probes
		Expect(seedfacts.Of(w.seedNamed(own), seedfacts.AnnotationProbes, &probes)).To(Succeed())
		Expect(probes).To(Equal(seedfacts.Probes{Off: true}))
		Expect(w.seedNamed(own).Annotations).NotTo(HaveKey(seedfacts.ProbeRequest(peer)))
		Expect(w.seen).To(BeEmpty())
	})

	It("should not wait for a seed whose agent makes no probes", func() {
		w := newWorld()
		w.say(w.garden, w.seedNamed(peer), seedfacts.Probes{Off: true})
		w.absent = true
		w.ask()
		w.look()
		Expect(w.seen).To(BeEmpty())
	})

	It("should remove what an agent before it has left behind", func() {
		w := newWorld()
		Expect(w.raw.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
			Labels: map[string]string{probe.LabelProbe: "true"}}})).To(Succeed())
		Expect(w.raw.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})).To(Succeed())
		w.absent = true
		seed := w.seedNamed(own)
		w.say(w.garden, seed, seedfacts.Probes{Connections: []seedfacts.Connection{{Seed: peer,
			Round: &seedfacts.ProbeRound{Began: metav1.NewTime(w.clock.Now()), Authority: "lost"}}}})
		w.look()
		Expect(w.namespaces()).To(Equal([]string{"garden"}))
		Expect(w.connection().Round).To(BeNil())
	})

	It("should remove all and say nothing when the agent stops in the middle", func() {
		w := newWorld()
		ctx, stop := context.WithCancel(w.ctx)
		w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
			Expect(w.namespaces()).To(Equal([]string{namespace}))
			stop()
			return answer.Measurement{}, ctx.Err()
		}
		w.ask()
		Expect(w.prober.Look(ctx)).To(Succeed())
		w.prober.Wait()
		Expect(w.namespaces()).To(BeEmpty())
		Expect(w.connection()).To(Equal(seedfacts.Connection{Seed: peer}))
	})

	It("should reach the other side as soon as that is ready", func() {
		w := newWorld()
		w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
			if len(w.questions) < 3 {
				return answer.Measurement{}, errNobody
			}
			return measured, nil
		}
		w.ask()
		w.look()
		Expect(w.connection().Result.InOrder()).To(BeTrue())
	})

	pod := func(change func(*corev1.Pod)) []*corev1.Pod {
		out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-relay-0"}}
		change(out)
		return []*corev1.Pod{out}
	}

	DescribeTable("should find what a migration would fail at", func(
		plant func(w *world), problems, unknown []string,
	) {
		w := newWorld()
		plant(w)
		w.ask()
		w.look()
		result := w.connection().Result
		Expect(result).NotTo(BeNil())
		Expect(result.InOrder()).To(BeFalse())
		containing := func(texts []string) any {
			var matchers []any
			for _, text := range texts {
				matchers = append(matchers, ContainSubstring(text))
			}
			return ConsistOf(matchers...)
		}
		Expect(result.Problems).To(containing(problems).(OmegaMatcher))
		Expect(result.Unknown).To(containing(unknown).(OmegaMatcher))
		Expect(w.namespaces()).To(BeEmpty(), "nothing is left")
	},
		Entry("an image that cannot be pulled", func(w *world) {
			w.unready = true
			w.pods = pod(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "relay", Image: image,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
						Message: "401 Unauthorized"}}}}
			})
		}, []string{"was not ready within 3m0s",
			"image " + image + " of pod livecpm-relay-0: ImagePullBackOff: 401 Unauthorized"}, nil),
		Entry("no node that takes the pods", func(w *world) {
			w.unready = true
			w.pods = pod(func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Message: "0/3 nodes are available: 3 Insufficient memory."}}
			})
		}, []string{"was not ready within 3m0s",
			"no node takes pod livecpm-relay-0: 0/3 nodes are available: 3 Insufficient memory."}, nil),
		Entry("a quota, or an admission, that refuses the pods", func(w *world) {
			w.unready = true
			w.events = []*corev1.Event{{ObjectMeta: metav1.ObjectMeta{Name: "event"}, Type: corev1.EventTypeWarning,
				Reason: "FailedCreate", Message: "exceeded quota: pods",
				InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Name: "livecpm-relay"}}}
		}, []string{"was not ready within 3m0s", "StatefulSet livecpm-relay: FailedCreate: exceeded quota: pods"}, nil),
		Entry("an admission that refuses the objects", func(w *world) {
			w.refused = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "livecpm-probe",
				errors.New("denied by policy"))
		}, []string{"denied by policy"}, nil),
		Entry("a program that ends", func(w *world) {
			w.unready = true
			w.pods = pod(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "relay",
					LastTerminationState: corev1.ContainerState{
						Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
			})
		}, []string{"was not ready within 3m0s", "container relay of pod livecpm-relay-0 has ended with code 1"}, nil),
		Entry("a wildcard record that leads elsewhere", func(w *world) {
			record := newRecord()
			Expect(w.raw.Get(w.ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
			record.Spec.Values = []string{"10.250.0.99"}
			Expect(w.raw.Update(w.ctx, record)).To(Succeed())
		}, []string{"DNSRecord garden/seed-ingress leads to 10.250.0.99"}, nil),
		Entry("gateways that do not lead to the relays, or something in between that ends TLS", func(w *world) {
			w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
				return answer.Measurement{}, errNobody
			}
		}, []string{"seed seed-b was not reached within 4m0s: failed to complete the TLS handshake"}, nil),
		Entry("an agent that does not take part", func(w *world) { w.absent = true },
			nil, []string{"the agent of seed seed-b has not taken part within 2m0s"}),
		Entry("a seed on the other side that is not ready", func(w *world) {
			w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
				w.givesUp(seedfacts.ProbeResult{Problems: []string{"no node takes pod livecpm-relay-1"}})
				return answer.Measurement{}, errNobody
			}
		}, nil, []string{"seed seed-b was not reached before the agent there gave up: it has ended its part: no node " +
			"takes pod livecpm-relay-1"}),
		Entry("a seed without an ingress domain", func(w *world) {
			seed := w.seedNamed(peer)
			seed.Spec.Ingress = nil
			Expect(w.garden.Update(w.ctx, seed)).To(Succeed())
		}, nil, []string{"the ingress domain of the other seed is unknown"}),
	)
})

// sameAs compares a result but for its time, which has to be that of the world.
func sameAs(w *world, expected seedfacts.ProbeResult) OmegaMatcher {
	expected.LookedAt = metav1.NewTime(w.clock.Now())
	return WithTransform(func(got seedfacts.ProbeResult) seedfacts.ProbeResult {
		Expect(got.LookedAt.Time).To(BeTemporally("~", w.clock.Now(), time.Minute))
		got.LookedAt = expected.LookedAt
		return got
	}, Equal(expected))
}
