// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist_test

import (
	"context"
	"errors"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/controllerutils"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("ReadOnlyPublished", func() {
	var (
		ctx = context.Background()
		key = client.ObjectKey{Namespace: "garden-demo", Name: "live.ca-cluster"}

		garden client.WithWatch
		writes int
		failed error
	)

	// sync writes a ConfigMap as Gardener's library does.
	sync := func(labels, data map[string]string) error {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		_, err := controllerutils.GetAndCreateOrStrategicMergePatch(ctx, botanist.ReadOnlyPublished(garden),
			configMap, func() error {
				configMap.Labels, configMap.Data = labels, data
				return nil
			})
		return err
	}
	restricted := func(more ...string) map[string]string {
		labels := map[string]string{v1beta1constants.LabelUpdateRestriction: "true"}
		for _, label := range more {
			labels[label] = "true"
		}
		return labels
	}
	publish := func(data map[string]string) *corev1.ConfigMap {
		GinkgoHelper()
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: restricted()}, Data: data,
		}
		Expect(garden.Create(ctx, configMap)).To(Succeed())
		writes = 0
		return configMap
	}

	BeforeEach(func() {
		writes, failed = 0, nil
		garden = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build(),
			calls.Before(func(call calls.Call) error {
				if call.Writes() {
					writes++
				}
				if call.Verb == calls.Get {
					return failed
				}
				return nil
			}))
	})

	DescribeTable("leaves what is published to the gardenlet",
		func(data map[string]string, labels ...string) {
			before := publish(map[string]string{"ca.crt": "of the shoot"})
			Expect(sync(restricted(labels...), data)).To(Succeed())
			after := &corev1.ConfigMap{}
			Expect(garden.Get(ctx, key, after)).To(Succeed())
			Expect(after).To(Equal(before))
			Expect(writes).To(BeZero(), "an empty patch is refused as well")
		},
		Entry("when it is the same", map[string]string{"ca.crt": "of the shoot"}),
		Entry("when a label differs", map[string]string{"ca.crt": "of the shoot"}, "other"),
		Entry("when it would get another key", map[string]string{"ca.crt": "of the shoot", "more": "things"}),
		Entry("when it would lose a key", map[string]string{}),
	)

	It("should leave it to the gardenlet to publish what is missing", func() {
		Expect(sync(restricted(), map[string]string{"ca.crt": "of the shoot"})).To(Succeed())
		Expect(garden.Get(ctx, key, &corev1.ConfigMap{})).To(WithTransform(apierrors.IsNotFound, BeTrue()))
		Expect(writes).To(BeZero())
	})

	It("should fail when a control plane has other authorities than its clients trust", func() {
		publish(map[string]string{"ca.crt": "of the shoot"})
		Expect(sync(restricted(), map[string]string{"ca.crt": "of somebody else"})).To(MatchError(
			ContainSubstring("ConfigMap garden-demo/live.ca-cluster publishes another ca.crt than this " +
				"control plane has")))
		Expect(writes).To(BeZero())
	})

	It("should fail when it cannot compare", func() {
		configMap := publish(map[string]string{"ca.crt": "of the shoot"})
		failed = errors.New("no route")
		Expect(botanist.ReadOnlyPublished(garden).Patch(ctx, configMap, client.MergeFrom(configMap))).
			To(MatchError("failed to read ConfigMap garden-demo/live.ca-cluster: no route"))
		Expect(botanist.ReadOnlyPublished(garden).Create(ctx, configMap)).
			To(MatchError("failed to read ConfigMap garden-demo/live.ca-cluster: no route"))
		Expect(writes).To(BeZero())
	})

	It("should write everything else", func() {
		Expect(sync(nil, map[string]string{"ca.crt": "of the shoot"})).To(Succeed())
		Expect(sync(nil, map[string]string{"ca.crt": "of somebody else"})).To(Succeed())
		configMap := &corev1.ConfigMap{}
		Expect(garden.Get(ctx, key, configMap)).To(Succeed())
		Expect(configMap.Data).To(HaveKeyWithValue("ca.crt", "of somebody else"))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "live.monitoring"}}
		Expect(botanist.ReadOnlyPublished(garden).Create(ctx, secret)).To(Succeed())
		Expect(botanist.ReadOnlyPublished(garden).Patch(ctx, secret,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)))).To(Succeed())
		Expect(writes).To(Equal(4))
	})
})
