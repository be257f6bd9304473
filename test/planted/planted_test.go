// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted_test

import (
	"context"
	"slices"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/planted"
)

// named returns the fault of the name.
func named(name string) planted.Fault {
	GinkgoHelper()
	all := planted.Faults()
	i := slices.IndexFunc(all, func(fault planted.Fault) bool { return fault.Name == name })
	Expect(i).To(BeNumerically(">=", 0), name)
	return all[i]
}

var _ = Describe("The planted faults", func() {
	It("should be ten, each with a name and a text of its own", func() {
		names, texts := map[string]bool{}, map[string]bool{}
		for _, fault := range planted.Faults() {
			Expect(fault.Says).NotTo(BeEmpty(), fault.Name)
			names[fault.Name], texts[fault.Says] = true, true
		}
		Expect(names).To(HaveLen(10))
		Expect(texts).To(HaveLen(10))
	})

	Describe("of the seed", func() {
		var (
			ctx   = context.Background()
			world *planted.World
		)
		get := func(object client.Object) {
			GinkgoHelper()
			Expect(world.Seed.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		}
		BeforeEach(func() {
			world = &planted.World{Seed: &driver.Cluster{Name: "seed-b",
				Client: fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithStatusSubresource(
					&extensionsv1alpha1.DNSRecord{}).WithObjects(
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "open"}},
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "closed"},
						Spec: corev1.NodeSpec{Unschedulable: true}},
					&extensionsv1alpha1.DNSRecord{
						ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "seed-ingress", Generation: 2},
						Spec:       extensionsv1alpha1.DNSRecordSpec{Values: []string{"10.1.0.1", "10.1.0.2"}}},
				).Build()}}
		})

		It("should leave nodes as they were, also if they are planted or removed twice", func() {
			fault := named("no node for the control plane")
			open, closed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "open"}},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "closed"}}
			for range 2 {
				Expect(fault.Plant(ctx, world)).To(Succeed())
				get(open)
				Expect(open.Spec.Unschedulable).To(BeTrue())
			}
			for range 2 {
				Expect(fault.Remove(ctx, world)).To(Succeed())
				get(open)
				get(closed)
				Expect(open.Spec.Unschedulable).To(BeFalse())
				Expect(open.Annotations).To(BeEmpty())
				Expect(closed.Spec.Unschedulable).To(BeTrue(), "somebody else has closed it")
			}
		})

		It("should leave the wildcard record as it was, also if they are planted or removed twice", func() {
			fault := named("a wildcard record that leads elsewhere")
			record := &extensionsv1alpha1.DNSRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "garden",
				Name: "seed-ingress"}}
			for range 2 {
				Expect(fault.Plant(ctx, world)).To(Succeed())
				get(record)
				Expect(record.Spec.Values).To(HaveLen(1))
				Expect(record.Status.ObservedGeneration).To(Equal(record.Generation))
			}
			for range 2 {
				Expect(fault.Remove(ctx, world)).To(Succeed())
				get(record)
				Expect(record.Spec.Values).To(Equal([]string{"10.1.0.1", "10.1.0.2"}))
				Expect(record.Annotations).To(BeEmpty())
				Expect(record.Status.ObservedGeneration).To(Equal(record.Generation))
			}
		})
	})

	Describe("in a plan", func() {
		var (
			fault planted.Fault
			plan  view.Plan
		)
		BeforeEach(func() {
			fault = named("a backup bucket that is not in order")
			plan = view.Plan{Checks: []view.Check{
				{Name: preflight.SeedConnection, Status: view.Pass},
				{Name: preflight.EtcdMemberNames, Status: view.Unknown, Deferred: true},
				{Name: preflight.Backup, Status: view.Fail, Evidence: "seed seed-b: " + fault.Says,
					Remedy: "repair it"},
			}}
		})

		It("should be accepted if they alone are named, with their way out", func() {
			Expect(fault.Judge(plan)).To(Succeed())
			plan.Checks = append(plan.Checks, view.Check{Name: steps.DestinationSeedHealth, Status: view.Fail})
			Expect(fault.Judge(plan)).To(Succeed(), "it follows from the bucket")
		})

		DescribeTable("should not be accepted", func(change func(*view.Plan), why string) {
			change(&plan)
			Expect(fault.Judge(plan)).To(MatchError(ContainSubstring(why)))
		},
			Entry("if the migration may go", func(p *view.Plan) { p.CanGo = true }, "the plan permits the migration"),
			Entry("if they are not named", func(p *view.Plan) { p.Checks[2].Status = view.Pass }, "does not name"),
			Entry("if only a doubt is named", func(p *view.Plan) { p.Checks[2].Status = view.Unknown }, "is Unknown"),
			Entry("if something else is named", func(p *view.Plan) { p.Checks[2].Evidence = "no" }, "does not say"),
			Entry("without a way out", func(p *view.Plan) { p.Checks[2].Remedy = "" }, "names no way out"),
			Entry("if more is named", func(p *view.Plan) { p.Checks[0].Status = view.Fail },
				"which has nothing to do with"),
		)
	})
})
