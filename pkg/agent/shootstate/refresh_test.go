// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Restoring from a ShootState again", func() {
	var (
		ctx = context.Background()
		// source and destination share the garden's ShootState.
		source, destination *world
	)

	BeforeEach(func() {
		source, destination = newWorld(), newWorld()
		source.extension("audit", `{"generation":1}`, gardencorev1beta1.LastOperationTypeMigrate)
		source.extension("later", `{"generation":1}`, gardencorev1beta1.LastOperationTypeMigrate)
		Expect(source.states.Replace(ctx, source.shoot)).To(Succeed())
		state := source.read()
		state.ResourceVersion = ""
		Expect(destination.garden.Create(ctx, state)).To(Succeed())
	})

	// restore does what Gardener does for each extension.
	restore := func(name string) string {
		GinkgoHelper()
		extension := &extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: name,
			Namespace: worldNamespace}}
		Expect(destination.seed.Get(ctx, client.ObjectKeyFromObject(extension), extension)).To(Succeed())
		Expect(gardenerextensions.RestoreExtensionObjectState(ctx, destination.seed, destination.read(), extension,
			extensionsv1alpha1.ExtensionResource)).To(Succeed())
		if extension.Status.State == nil {
			return ""
		}
		return string(extension.Status.State.Raw)
	}

	It("should begin with the state of the source", func() {
		destination.extension("audit", "", gardencorev1beta1.LastOperationTypeRestore)
		Expect(restore("audit")).To(Equal(`{"generation":1}`))
	})

	DescribeTable("should not restore an older state than the extension has", func(present string) {
		destination.extension("audit", present, gardencorev1beta1.LastOperationTypeRestore)
		Expect(destination.states.Refresh(ctx, destination.shoot)).To(Succeed())
		Expect(restore("audit")).To(Equal(present))
		Expect(destination.states.Compare(ctx, destination.shoot)).To(Succeed(), "the record has followed")

		// The object is deleted and restored once more.
		destination.extension("audit", "", gardencorev1beta1.LastOperationTypeRestore)
		Expect(restore("audit")).To(Equal(present))
		Expect(destination.read().Spec.Extensions).To(ContainElement(HaveField("Name", HaveValue(Equal("later")))),
			"what was not restored yet stays")
	},
		Entry("it has a newer one", `{"generation":2}`),
		Entry("it has none any more", ""),
	)

	DescribeTable("should keep the source's state of an extension that was not restored yet",
		func(mutate func(*extensionsv1alpha1.Extension)) {
			destination.extension("audit", "", gardencorev1beta1.LastOperationTypeRestore)
			extension := &extensionsv1alpha1.Extension{}
			key := client.ObjectKey{Namespace: worldNamespace, Name: "audit"}
			Expect(destination.seed.Get(ctx, key, extension)).To(Succeed())
			mutate(extension)
			status := extension.Status
			Expect(destination.seed.Update(ctx, extension)).To(Succeed())
			extension.Status = status
			Expect(destination.seed.Status().Update(ctx, extension)).To(Succeed())

			Expect(destination.states.Refresh(ctx, destination.shoot)).To(Succeed())
			Expect(restore("audit")).To(Equal(`{"generation":1}`))
		},
		Entry("nobody has worked on it", func(e *extensionsv1alpha1.Extension) { e.Status.LastOperation = nil }),
		Entry("its controller has not finished", func(e *extensionsv1alpha1.Extension) {
			e.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		}),
		Entry("its controller waits for the state", func(e *extensionsv1alpha1.Extension) {
			e.Annotations = map[string]string{v1beta1constants.GardenerOperation: "wait-for-state"}
		}),
		Entry("it was migrated", func(e *extensionsv1alpha1.Extension) {
			e.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
		}),
	)

	It("should take the resources that a state refers to as well", func() {
		Expect(destination.seed.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "audit-keys", Namespace: worldNamespace},
			Data:       map[string]string{"generation": "2"}})).To(Succeed())
		destination.extension("audit", `{"generation":2}`, gardencorev1beta1.LastOperationTypeRestore)
		extension := &extensionsv1alpha1.Extension{}
		Expect(destination.seed.Get(ctx, client.ObjectKey{Namespace: worldNamespace, Name: "audit"}, extension)).
			To(Succeed())
		extension.Status.Resources = []gardencorev1beta1.NamedResourceReference{{Name: "keys",
			ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "ConfigMap",
				Name: "audit-keys"}}}
		Expect(destination.seed.Status().Update(ctx, extension)).To(Succeed())

		Expect(destination.states.Refresh(ctx, destination.shoot)).To(Succeed())
		Expect(destination.read().Spec.Resources).To(ConsistOf(And(HaveField("Name", "audit-keys"),
			HaveField("Data.Raw", ContainSubstring(`"generation":"2"`)))))
		Expect(destination.states.Compare(ctx, destination.shoot)).To(Succeed())
	})

	It("should not write while there is nothing newer", func() {
		destination.extension("audit", `{"generation":1}`, gardencorev1beta1.LastOperationTypeRestore)
		Expect(destination.states.Refresh(ctx, destination.shoot)).To(Succeed())
		Expect(destination.patches).To(BeZero())
	})
})
