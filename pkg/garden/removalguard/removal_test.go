// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
)

// shoot returns a Shoot on its way between two seeds, with the labels that the garden gives it.
func shoot(name, source, destination string, changes ...func(*gardencorev1beta1.Shoot)) *gardencorev1beta1.Shoot {
	s := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden-demo", Name: name,
			Annotations: map[string]string{steps.AnnotationIntent: "true"},
			Labels: map[string]string{"name.seed.gardener.cloud/" + source: "true",
				"name.seed.gardener.cloud/" + destination: "true"},
		},
		Spec:   gardencorev1beta1.ShootSpec{SeedName: &destination},
		Status: gardencorev1beta1.ShootStatus{SeedName: &source},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func classic(s *gardencorev1beta1.Shoot) { s.Annotations = nil }

func aborted(s *gardencorev1beta1.Shoot) {
	s.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: []gardencorev1beta1.Condition{{
		Type:   steps.AbortOf(steps.Source).Condition,
		Status: gardencorev1beta1.ConditionFalse,
		Reason: string(steps.ReasonAborted),
	}}}
}

func aborting(s *gardencorev1beta1.Shoot) {
	aborted(s)
	s.Status.LiveMigration.Conditions[0].Reason = string(steps.ReasonWithdrawn)
}

// garden returns a garden with the Shoots.
func garden(shoots ...client.Object) client.WithWatch {
	return fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoots...).Build()
}

var _ = Describe("#InFlight", func() {
	DescribeTable("should tell for whom the agents are needed",
		func(s *gardencorev1beta1.Shoot, needed bool) {
			inFlight := removalguard.InFlight([]gardencorev1beta1.Shoot{*s})
			if !needed {
				Expect(inFlight).To(BeEmpty())
				return
			}
			Expect(inFlight).To(
				Equal(map[string][]string{"seed-a": {"garden-demo/live"}, "seed-b": {"garden-demo/live"}}))
		},
		Entry("a live migration that is asked for", shoot("live", "seed-a", "seed-b"), true),
		Entry("one whose abort is under way", shoot("live", "seed-a", "seed-b", aborting), true),
		Entry("one whose abort is complete", shoot("live", "seed-a", "seed-b", aborted), false),
		Entry("a classic migration", shoot("live", "seed-a", "seed-b", classic), false),
		Entry("a shoot that is where it should be", shoot("live", "seed-b", "seed-b"), false),
	)

	It("should put the names in order", func() {
		Expect(removalguard.InFlight([]gardencorev1beta1.Shoot{*shoot("b", "seed-a", "seed-b"),
			*shoot("a", "seed-c", "seed-b")})).To(Equal(map[string][]string{
			"seed-a": {"garden-demo/b"}, "seed-b": {"garden-demo/a", "garden-demo/b"}, "seed-c": {"garden-demo/a"},
		}))
	})
})

var _ = Describe("#Check", func() {
	ctx := context.Background()

	It("should find nothing where nothing is in flight", func() {
		Expect(removalguard.Check(ctx, garden(shoot("live", "seed-a", "seed-b", aborted)), "")).To(Succeed())
	})

	It("should name every Shoot once, and the way out", func() {
		err := removalguard.Check(ctx, garden(shoot("live", "seed-a", "seed-b"), shoot("other", "seed-c", "seed-d")),
			"")
		Expect(err).To(MatchError(And(
			ContainSubstring("in flight (garden-demo/live, garden-demo/other)"),
			ContainSubstring("abort them and remove the annotation migration.gardener.cloud/live-migrate"),
		)))
	})

	It("should look at the migrations of one seed", func() {
		c := garden(shoot("live", "seed-a", "seed-b"), shoot("other", "seed-c", "seed-d"))
		Expect(removalguard.Check(ctx, c, "seed-b")).
			To(MatchError(ContainSubstring("from or to seed seed-b (garden-demo/live)")))
		Expect(removalguard.Check(ctx, c, "seed-e")).To(Succeed())
	})

	It("should only ask for Shoots that the seed's identity may list", func() {
		var selectors []string
		c := interceptor.NewClient(garden(),
			interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				opts ...client.ListOption) error {
				options := (&client.ListOptions{}).ApplyOptions(opts)
				selectors = append(selectors, options.LabelSelector.String())
				return c.List(ctx, list, opts...)
			}})
		Expect(removalguard.Check(ctx, c, "seed-a")).To(Succeed())
		Expect(selectors).To(ConsistOf("name.seed.gardener.cloud/seed-a=true"))
	})

	It("should count the Shoots that it does not name", func() {
		var shoots []client.Object
		for i := range 7 {
			shoots = append(shoots, shoot(fmt.Sprintf("s%d", i), "seed-a", "seed-b"))
		}
		Expect(removalguard.Check(ctx, garden(shoots...), "")).
			To(MatchError(ContainSubstring("garden-demo/s4 and 2 more)")))
	})

	It("should not take a garden that does not answer for one without migrations", func() {
		c := interceptor.NewClient(garden(), calls.Refuse(errors.New("no route"), calls.List))
		Expect(removalguard.Check(ctx, c, "")).To(MatchError(ContainSubstring("no route")))
	})
})

var _ = Describe("#NewCommand", func() {
	run := func(seedName string, openErr error, objects ...client.Object) (string, error) {
		var out strings.Builder
		cmd := removalguard.NewCommand(
			"Fails", func() (client.Reader, string, error) { return garden(objects...), seedName, openErr })
		cmd.SetArgs([]string{})
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(context.Background())
		return out.String(), err
	}

	It("should say that nothing is in flight, and of which seed", func() {
		Expect(run("", nil)).To(Equal("No live migration is in flight.\n"))
		Expect(run("seed-e", nil, shoot("live", "seed-a", "seed-b"))).
			To(Equal("No live migration from or to seed seed-e is in flight.\n"))
	})

	It("should fail while livecpm is needed, and without access to the garden", func() {
		out, err := run("seed-b", nil, shoot("live", "seed-a", "seed-b"))
		Expect(err).To(MatchError(ContainSubstring("in flight from or to seed seed-b (garden-demo/live)")))
		Expect(out).To(BeEmpty())
		_, err = run("", errors.New("no access"))
		Expect(err).To(MatchError("no access"))
	})
})
