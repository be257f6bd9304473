// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"
	"encoding/json"
	"fmt"

	resourcemanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/resourcemanager/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/gardener/resourcemanager"
	"github.com/gardener/gardener/pkg/resourcemanager/webhook/highavailabilityconfig"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("The placement of relays", func() {
	var (
		ctx         = context.Background()
		seed        client.Client
		annotations map[string]string
	)
	// deployed returns the StatefulSet of the relay in a seed with three nodes.
	deployed := func() *appsv1.StatefulSet {
		GinkgoHelper()
		builder := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: annotations}})
		for i := range 3 {
			builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}})
		}
		seed = builder.Build()
		Expect(New(logr.Discard(), seed, Values{Namespace: namespace, Role: steps.Source, Image: "relay",
			TLSSecretName: "tls", Domain: "a.example", PeerDomain: "b.example",
			Istio: Istio{Namespace: "istio-ingress"}}).Deploy(ctx)).To(Succeed())
		statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		Expect(seed.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
		return statefulSet
	}
	// selected reports whether Gardener's webhook is called for the object.
	selected := func(object client.Object) bool {
		GinkgoHelper()
		webhook := resourcemanager.NewHighAvailabilityConfigMutatingWebhook(nil, nil, nil,
			func(*corev1.Secret, string) admissionregistrationv1.WebhookClientConfig {
				return admissionregistrationv1.WebhookClientConfig{}
			})
		selector, err := metav1.LabelSelectorAsSelector(webhook.ObjectSelector)
		Expect(err).NotTo(HaveOccurred())
		return selector.Matches(labels.Set(object.GetLabels()))
	}
	// mutated returns the StatefulSet as Gardener's webhook would make it.
	mutated := func(statefulSet *appsv1.StatefulSet) *appsv1.StatefulSet {
		GinkgoHelper()
		statefulSet = statefulSet.DeepCopy()
		statefulSet.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		raw, err := json.Marshal(statefulSet)
		Expect(err).NotTo(HaveOccurred())
		handler := &highavailabilityconfig.Handler{Logger: logr.Discard(), TargetClient: seed,
			Config: resourcemanagerconfigv1alpha1.HighAvailabilityConfigWebhookConfig{
				DefaultNotReadyTolerationSeconds:    new(int64(60)),
				DefaultUnreachableTolerationSeconds: new(int64(60)),
			},
			Decoder: admission.NewDecoder(kubernetes.SeedScheme)}
		response := handler.Handle(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind:      metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
			Namespace: namespace, Name: Name, Object: runtime.RawExtension{Raw: raw}}})
		Expect(response.Allowed).To(BeTrue())
		patch, err := json.Marshal(response.Patches)
		Expect(err).NotTo(HaveOccurred())
		out := statefulSet.DeepCopy()
		Expect(seed.Patch(ctx, out, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
		return out
	}
	// hard returns the topology keys of the constraints that can keep a pod pending.
	hard := func(statefulSet *appsv1.StatefulSet) map[string]int32 {
		out := map[string]int32{}
		for _, constraint := range statefulSet.Spec.Template.Spec.TopologySpreadConstraints {
			if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
				out[constraint.TopologyKey] = 0
				if constraint.MinDomains != nil {
					out[constraint.TopologyKey] = *constraint.MinDomains
				}
			}
		}
		return out
	}

	for failureTolerance, byWebhook := range map[string]map[string]int32{
		"node": {corev1.LabelHostname: 3},
		"zone": {corev1.LabelHostname: 3, corev1.LabelTopologyZone: 3},
	} {
		Context("of a shoot that tolerates the failure of a "+failureTolerance, func() {
			BeforeEach(func() {
				annotations = map[string]string{
					"high-availability-config.resources.gardener.cloud/failure-tolerance-type": failureTolerance,
					"high-availability-config.resources.gardener.cloud/zones":                  "b,a,c",
				}
			})

			It("should leave none pending while one of three nodes is drained", func() {
				statefulSet := deployed()
				Expect(hard(statefulSet)).To(BeEmpty())
				Expect(selected(statefulSet)).To(BeFalse())
				Expect(statefulSet.Spec.Template.Spec.TopologySpreadConstraints).To(ConsistOf(
					HaveField("TopologyKey", corev1.LabelHostname), HaveField("TopologyKey", corev1.LabelTopologyZone)))
				Expect(hard(mutated(statefulSet))).To(Equal(byWebhook), "what the webhook would make of it")
			})

			It("should be in the zones and leave lost nodes as if the webhook had been called", func() {
				statefulSet := deployed()
				expected := mutated(statefulSet).Spec.Template.Spec
				Expect(statefulSet.Spec.Template.Spec.Affinity).To(Equal(expected.Affinity))
				Expect(statefulSet.Spec.Template.Spec.Affinity).NotTo(BeNil())
				bare := statefulSet.DeepCopy()
				bare.ResourceVersion, bare.Spec.Template.Spec.Tolerations = "", nil
				Expect(seed.Update(ctx, bare)).To(Succeed())
				Expect(statefulSet.Spec.Template.Spec.Tolerations).
					To(Equal(mutated(bare).Spec.Template.Spec.Tolerations))
			})
		})
	}

	It("should be anywhere where the namespace pins nothing", func() {
		annotations = nil
		Expect(deployed().Spec.Template.Spec.Affinity).To(BeNil())
	})
})
