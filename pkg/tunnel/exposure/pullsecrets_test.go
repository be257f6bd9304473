// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("The Secrets with which the image of the relay is pulled", func() {
	var (
		ctx    = context.Background()
		c      client.Client
		values Values
		one    = client.ObjectKey{Namespace: "garden", Name: "registry"}
		other  = client.ObjectKey{Namespace: "elsewhere", Name: "mirror"}
	)

	original := func(key client.ObjectKey, kind corev1.SecretType, content string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Type: kind,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(content)}}
	}
	exposure := func() Interface { return New(logr.Discard(), c, values) }
	// copies returns what is in the namespace of the shoot, by name.
	copies := func() map[string]string {
		GinkgoHelper()
		secrets := &corev1.SecretList{}
		Expect(c.List(ctx, secrets, client.InNamespace(namespace))).To(Succeed())
		out := map[string]string{}
		for _, secret := range secrets.Items {
			Expect(secret.Type).To(Equal(corev1.SecretTypeDockerConfigJson))
			out[secret.Name] = string(secret.Data[corev1.DockerConfigJsonKey])
		}
		return out
	}
	pod := func() corev1.PodSpec {
		GinkgoHelper()
		relays := &appsv1.StatefulSet{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, relays)).To(Succeed())
		return relays.Spec.Template.Spec
	}

	BeforeEach(func() {
		c = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			original(one, corev1.SecretTypeDockerConfigJson, "old"),
			original(other, corev1.SecretTypeDockerConfigJson, "mirror")).Build()
		values = Values{Namespace: namespace, Role: steps.Source, Image: "registry.example/livecpm-relay:1",
			PullSecrets: PullSecrets{one, other}, TLSSecretName: "livecpm-relay-abc", Domain: "ingress.seed-a.example",
			PeerDomain: "ingress.seed-b.example"}
	})

	It("should be in the shoot's namespace as long as there is the exposure", func() {
		Expect(exposure().Deploy(ctx)).To(Succeed())
		Expect(copies()).To(Equal(map[string]string{"livecpm-relay-pull-registry": "old",
			"livecpm-relay-pull-mirror": "mirror"}))
		Expect(pod().ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: "livecpm-relay-pull-registry"},
			{Name: "livecpm-relay-pull-mirror"}}))

		By("the relay being withdrawn, while the front of an etcd may still have its image")
		values.PullSecrets = nil
		Expect(exposure().Withdraw(ctx)).To(Succeed())
		Expect(copies()).To(HaveLen(2))
		Expect(exposure().Destroy(ctx)).To(Succeed())
		Expect(copies()).To(BeEmpty())
		for _, key := range []client.ObjectKey{one, other} {
			Expect(c.Get(ctx, key, &corev1.Secret{})).To(Succeed(), "the original")
		}
	})

	It("should follow credentials that change, and keep what it has when the original goes", func() {
		Expect(exposure().Deploy(ctx)).To(Succeed())
		Expect(c.Update(ctx, original(one, corev1.SecretTypeDockerConfigJson, "new"))).To(Succeed())
		Expect(c.Delete(ctx, original(other, "", ""))).To(Succeed())
		values.PullSecrets = PullSecrets{other, one}
		Expect(exposure().Sync(ctx)).To(Succeed())
		Expect(copies()).To(Equal(map[string]string{"livecpm-relay-pull-registry": "new",
			"livecpm-relay-pull-mirror": "mirror"}))
	})

	It("should not be there before the relay, and not without being configured", func() {
		Expect(exposure().Sync(ctx)).To(Succeed())
		Expect(copies()).To(BeEmpty())
		values.PullSecrets = nil
		Expect(exposure().Deploy(ctx)).To(Succeed())
		Expect(copies()).To(BeEmpty())
		Expect(pod().ImagePullSecrets).To(BeEmpty())
	})

	It("should be named when one is missing, before there is a pod that cannot start", func() {
		values.PullSecrets = PullSecrets{one, {Namespace: "garden", Name: "gone"}}
		Expect(exposure().Deploy(ctx)).To(MatchError(And(ContainSubstring("garden/gone"),
			ContainSubstring("relay.imagePullSecrets"))))
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name},
			&appsv1.StatefulSet{}))).To(BeTrue())
	})

	It("should never be another Secret that somebody names by mistake", func() {
		Expect(c.Create(ctx, original(client.ObjectKey{Namespace: "garden", Name: "gardenlet-kubeconfig"},
			corev1.SecretTypeOpaque, "secret"))).To(Succeed())
		values.PullSecrets = PullSecrets{{Namespace: "garden", Name: "gardenlet-kubeconfig"}}
		Expect(exposure().Deploy(ctx)).To(MatchError(And(ContainSubstring("garden/gardenlet-kubeconfig"),
			ContainSubstring(string(corev1.SecretTypeDockerConfigJson)))))
		Expect(copies()).To(BeEmpty())
	})
})
