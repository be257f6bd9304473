// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/screen"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("the environment", func() {
	utf8 := map[string]string{"TERM": "xterm", "LANG": "C.UTF-8"}
	with := func(name, value string) map[string]string {
		out := map[string]string{"TERM": "xterm", "LANG": "C.UTF-8"}
		out[name] = value
		return out
	}

	DescribeTable("should decide what is shown", func(e app.Environment, expected app.Shown) {
		if e.Color == "" {
			e.Color = "auto"
		}
		if e.System == "" {
			e.System = "linux"
		}
		Expect(e.Show()).To(Equal(expected))
	},
		Entry("a terminal", app.Environment{Terminal: true, Keys: true, Variables: utf8},
			app.Shown{Colored: true, Screens: true}),
		Entry("no terminal", app.Environment{Keys: true, Variables: utf8}, app.Shown{}),
		Entry("nothing to type on", app.Environment{Terminal: true, Variables: utf8}, app.Shown{Colored: true}),
		Entry("TERM=dumb", app.Environment{Terminal: true, Keys: true, Variables: with("TERM", "dumb")}, app.Shown{}),
		Entry("no TERM", app.Environment{Terminal: true, Keys: true, Variables: with("TERM", "")}, app.Shown{}),
		Entry("NO_COLOR", app.Environment{Terminal: true, Keys: true, Variables: with("NO_COLOR", "1")},
			app.Shown{Screens: true}),
		Entry("--color=never", app.Environment{Terminal: true, Keys: true, Variables: utf8, Color: "never"},
			app.Shown{Screens: true}),
		Entry("--color=always", app.Environment{Variables: map[string]string{"NO_COLOR": "1"}, Color: "always"},
			app.Shown{Colored: true}),
		Entry("a locale without UTF-8", app.Environment{Terminal: true, Keys: true, Variables: with("LC_ALL", "C")},
			app.Shown{Colored: true, Screens: true, ASCII: true}),
		Entry("a locale without UTF-8, and a file", app.Environment{Variables: with("LC_ALL", "C")}, app.Shown{}),
		Entry("Windows", app.Environment{Terminal: true, Keys: true, System: "windows"},
			app.Shown{Colored: true, Screens: true}),
	)
})

var _ = Describe("the screen of all migrations", func() {
	var (
		ctx     = context.Background()
		clock   *testclock.FakeClock
		objects []client.Object
		refused bool
		garden  client.Client
	)
	shoot := func(namespace, name string) *gardencorev1beta1.Shoot {
		return &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clock, nil)}},
		}
	}
	open := func(namespace string) screen.FleetSource {
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).
			WithInterceptorFuncs(calls.Before(func(call calls.Call) error {
				if _, seeds := call.Object.(*gardencorev1beta1.SeedList); seeds && refused {
					return errors.New("not permitted")
				}
				return nil
			})).Build()
		return app.NewFleet(&access.Garden{Client: garden, Namespace: "garden-demo"}, clock, namespace)
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
		refused = false
		table, err := drain.Table{APIVersion: drain.TableVersion, Kind: drain.TableKind, Seed: "seed-a",
			Counts: drain.Counts{Total: 3}, Shoots: []drain.TableRow{}}.Encode()
		Expect(err).NotTo(HaveOccurred())
		objects = []client.Object{
			shoot("garden-demo", "live"), shoot("garden-shop", "shop"),
			&gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "rests"}},
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a",
				Annotations: map[string]string{drain.AnnotationDrain: "true"}}},
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: drain.TableName("seed-a")},
				Data: map[string]string{drain.TableKey: table}},
		}
	})

	It("should show migrations with what is expected of them, and drains", func() {
		seen, err := open(metav1.NamespaceAll).Look(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Summaries).To(ConsistOf(
			And(HaveField("Name", "live"), HaveField("Expected.RemainingSeconds", BeNumerically(">", 60))),
			HaveField("Name", "shop")))
		Expect(seen.Drains).To(ConsistOf(And(HaveField("Seed", "seed-a"), HaveField("Table.Counts.Total", 3))))
		Expect(seen.Note).To(BeEmpty())
		Expect(open("garden-shop").Look(ctx)).To(HaveField("Summaries", ConsistOf(HaveField("Name", "shop"))))
	})

	It("should say that drains are not known where seeds may not be read", func() {
		refused = true
		seen, err := open(metav1.NamespaceAll).Look(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Summaries).To(HaveLen(2))
		Expect(seen.Note).To(ContainSubstring("not permitted"))
	})

	It("should open a migration of any namespace, and steer it", func() {
		source, steering, err := open(metav1.NamespaceAll).Open("garden-shop", "shop")
		Expect(err).NotTo(HaveOccurred())
		w, err := source.Look(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Shoot.Namespace).To(Equal("garden-shop"))
		Expect(w.Expected).NotTo(BeNil())
		Expect(w.Seeds).To(ConsistOf(HaveField("Unknown", Not(BeEmpty())), HaveField("Unknown", Not(BeEmpty()))))

		annotation := func(name string) string {
			GinkgoHelper()
			read := &gardencorev1beta1.Shoot{}
			Expect(garden.Get(ctx, client.ObjectKeyFromObject(w.Shoot), read)).To(Succeed())
			return read.Annotations[name]
		}
		answer, err := steering.Pause(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Done).To(ConsistOf(ContainSubstring(steps.AnnotationPauseBefore)))
		Expect(annotation(steps.AnnotationPauseBefore)).To(Equal(steps.First().String()))
		_, err = steering.Resume(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(annotation(steps.AnnotationPauseBefore)).To(BeEmpty())
		_, err = steering.Retry(ctx)
		Expect(err).To(MatchError(ContainSubstring("has not begun")))
		_, err = steering.Abort(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(annotation(steps.AnnotationAbort)).To(Equal("true"))
		w, err = source.Look(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Expected).To(BeNil(), "nothing is expected of an abort")
	})

	It("should say what is missing in the events", func() {
		source, _, err := open(metav1.NamespaceAll).Open("garden-demo", "live")
		Expect(err).NotTo(HaveOccurred())
		_, err = source.Events(ctx)
		Expect(err).To(MatchError(ContainSubstring("seed-a")))
	})
})
