// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package stateful_test

import (
	"context"
	"errors"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/test/extension/stateful"
)

var _ = Describe("Keeper", func() {
	ctx := context.Background()

	type seed struct {
		client client.Client
		keeper *stateful.Keeper
		object *extensionsv1alpha1.Extension
	}
	newSeed := func(name string, funcs interceptor.Funcs, state *runtime.RawExtension) seed {
		object := &extensionsv1alpha1.Extension{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--demo--workers", Name: "test-early"},
			Spec: extensionsv1alpha1.ExtensionSpec{
				DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "test-early"},
			},
		}
		object.Status.State = state
		c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(object).
			WithStatusSubresource(object).WithInterceptorFuncs(funcs).Build()
		return seed{c, &stateful.Keeper{Client: c, Seed: name, Record: &stateful.Record{Client: c}}, object}
	}
	stored := func(s seed) string {
		object := &extensionsv1alpha1.Extension{}
		ExpectWithOffset(1, s.client.Get(ctx, client.ObjectKeyFromObject(s.object), object)).To(Succeed())
		if object.Status.State == nil {
			return ""
		}
		return string(object.Status.State.Raw)
	}

	It("should carry a state from one seed to another and back to what it was", func() {
		source := newSeed("seed-a", interceptor.Funcs{}, nil)
		Expect(source.keeper.Reconcile(ctx, source.object)).To(Succeed())
		before := stored(source)
		Expect(before).To(MatchRegexp(`^{"id":"[0-9a-f-]{36}"}$`))
		Expect(source.keeper.Reconcile(ctx, source.object)).To(Succeed())
		Expect(stored(source)).To(Equal(before), "the state is given once")

		Expect(source.keeper.Migrate(ctx, source.object)).To(Succeed())
		Expect(stored(source)).To(ContainSubstring(`"migratedFrom":"seed-a"`))
		Expect(source.keeper.Delete(ctx, source.object)).To(Succeed())

		destination := newSeed("seed-b", interceptor.Funcs{}, source.object.Status.State.DeepCopy())
		Expect(destination.keeper.Restore(ctx, destination.object)).To(Succeed())
		Expect(destination.keeper.Restore(ctx, destination.object)).To(Succeed(), "an attempt may be repeated")
		Expect(destination.keeper.Reconcile(ctx, destination.object)).To(Succeed())
		Expect(stored(destination)).To(Equal(before))
		Expect(destination.keeper.Restore(ctx, destination.object)).To(Succeed(),
			"the library reconciles what it has restored, and the attempt may be repeated then as well")
		Expect(stored(destination)).To(Equal(before))

		operations, err := stateful.Read(ctx, source.client)
		Expect(err).NotTo(HaveOccurred())
		Expect(operations).To(HaveExactElements(
			HaveField("Operation", "Reconcile"), HaveField("Operation", "Reconcile"),
			And(HaveField("Operation", "Migrate"), HaveField("Seed", "seed-a"), HaveField("Kind", "Extension"),
				HaveField("Type", "test-early"), HaveField("Error", "")),
			HaveField("Operation", "Delete"),
		))
		for _, operation := range operations {
			Expect(operation.End).To(BeTemporally(">=", operation.Begin))
		}
	})

	DescribeTable("should refuse to restore", func(state *runtime.RawExtension, expected string) {
		s := newSeed("seed-b", interceptor.Funcs{}, state)
		Expect(s.keeper.Restore(ctx, s.object)).To(MatchError(ContainSubstring(expected)))
		operations, err := stateful.Read(ctx, s.client)
		Expect(err).NotTo(HaveOccurred())
		Expect(operations).To(
			HaveExactElements(And(HaveField("Operation", "Restore"), HaveField("Error", ContainSubstring(expected)))))
	},
		Entry("without a state", nil, "did not arrive"),
		Entry("from a state of before the migration", &runtime.RawExtension{Raw: []byte(`{"id":"1"}`)},
			"before the extension had migrated"),
		Entry("where the object came from", &runtime.RawExtension{Raw: []byte(`{"id":"1","migratedFrom":"seed-b"}`)},
			"has left seed seed-b"),
		Entry("from what is no state", &runtime.RawExtension{Raw: []byte(`[]`)}, "failed to decode the state"),
	)

	It("should forget a migration that was given up", func() {
		s := newSeed("seed-a", interceptor.Funcs{},
			&runtime.RawExtension{Raw: []byte(`{"id":"1","migratedFrom":"seed-a"}`)})
		Expect(s.keeper.Reconcile(ctx, s.object)).To(Succeed())
		Expect(stored(s)).To(Equal(`{"id":"1"}`))
	})

	It("should fail an operation that cannot be written down", func() {
		s := newSeed("seed-a",
			interceptor.Funcs{Create: func(
				context.Context, client.WithWatch, client.Object, ...client.CreateOption,
			) error {
				return errors.New("no room")
			}}, nil)
		Expect(s.keeper.Reconcile(ctx, s.object)).To(MatchError(ContainSubstring("no room")))
	})

	It("should keep the newest operations only", func() {
		s := newSeed("seed-a", interceptor.Funcs{}, nil)
		record := &stateful.Record{Client: s.client}
		for range 501 {
			Expect(record.Add(ctx, stateful.Operation{Operation: "Reconcile"})).To(Succeed())
		}
		Expect(record.Add(ctx, stateful.Operation{Operation: "Migrate"})).To(Succeed())
		operations, err := stateful.Read(ctx, s.client)
		Expect(err).NotTo(HaveOccurred())
		Expect(operations).To(HaveLen(500))
		Expect(operations[499].Operation).To(Equal("Migrate"))
	})

	It("should read nothing where the extension never ran", func() {
		operations, err := stateful.Read(ctx, newSeed("seed-a", interceptor.Funcs{}, nil).client)
		Expect(err).NotTo(HaveOccurred())
		Expect(operations).To(BeEmpty())
	})
})
