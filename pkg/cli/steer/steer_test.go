// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer_test

import (
	"context"
	"errors"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Steerer", func() {
	var (
		ctx     = context.Background()
		clk     *testclock.FakeClock
		shoot   *gardencorev1beta1.Shoot
		c       client.Client
		steerer steer.Steerer
		// refusal is what the API server answers to the binding.
		refusal error
		// undone is what it answers to the second write of annotations.
		undone error
		// writes are the kinds of the writes in their order.
		writes []string
		// dryRuns tells of each of them whether nothing of it was to be kept.
		dryRuns []bool

		finish = func(until int) {
			GinkgoHelper()
			for _, step := range steps.Table()[:until-1] {
				updated, err := conditions.Apply(clk, steps.Conditions(shoot), conditions.Change{
					Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionTrue,
					Reason: steps.ReasonCompleted, Message: "done",
				})
				Expect(err).NotTo(HaveOccurred())
				shoot.Status.LiveMigration.Conditions = updated
			}
		}
		begin = func(number int) {
			GinkgoHelper()
			finish(number)
			step := steps.Table()[number-1]
			updated, err := conditions.Apply(clk, steps.Conditions(shoot), conditions.Change{
				Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionProgressing,
				Reason: steps.ReasonStarted, Message: "at work",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
		}
		aborted = func() {
			GinkgoHelper()
			shoot.Annotations[steps.AnnotationAbort] = "true"
			updated, err := conditions.Abort(clk, steps.Conditions(shoot), conditions.AbortChange{
				Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
		}
		step = func(number int) *steps.Step {
			s := steps.Table()[number-1]
			return &s
		}
		create = func() {
			GinkgoHelper()
			c = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).
				WithInterceptorFuncs(interceptor.Funcs{
					Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
						options ...client.PatchOption) error {
						data, err := patch.Data(object)
						Expect(err).NotTo(HaveOccurred())
						if undone != nil && len(writes) > 0 {
							return undone
						}
						writes = append(writes, string(data))
						dryRuns = append(dryRuns, len((&client.PatchOptions{}).ApplyOptions(options).DryRun) > 0)
						return c.Patch(ctx, object, patch, options...)
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, subResource string,
						object client.Object,
						patch client.Patch, options ...client.SubResourcePatchOption) error {
						Expect(subResource).To(Equal("binding"))
						if refusal != nil {
							return refusal
						}
						data, err := patch.Data(object)
						Expect(err).NotTo(HaveOccurred())
						writes = append(writes, "binding "+string(data))
						dry := (&client.SubResourcePatchOptions{}).ApplyOptions(options).DryRun
						dryRuns = append(dryRuns, len(dry) > 0)
						return c.Patch(ctx, object, client.RawPatch(patch.Type(), data),
							&client.PatchOptions{DryRun: dry})
					},
				}).Build()
			steerer = steer.Steerer{Client: c, Clock: clk}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
			writes, dryRuns = nil, nil
		}
		stored = func() *gardencorev1beta1.Shoot {
			GinkgoHelper()
			out := &gardencorev1beta1.Shoot{}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(shoot), out)).To(Succeed())
			return out
		}
	)

	BeforeEach(func() {
		clk = testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))
		refusal, undone = nil, nil
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
				Annotations: map[string]string{steps.AnnotationIntent: "true", "own": "kept"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{
				SeedName:      new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)},
			},
		}
	})

	Describe("Start", func() {
		BeforeEach(func() {
			shoot.Annotations = map[string]string{"own": "kept"}
			shoot.Spec.SeedName = new("seed-a")
			shoot.Status.LiveMigration = nil
		})

		It("should set the annotation, then the binding, and nothing else", func() {
			create()
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal([]string{
				`{"metadata":{"annotations":{"migration.gardener.cloud/live-migrate":"true"}}}`,
				`binding {"spec":{"seedName":"seed-b"}}`,
			}))
			Expect(result.Before).To(Equal("None"))
			Expect(result.After).To(Equal("Requested"))
			Expect(result.Done).To(HaveLen(2))
		})

		It("should ask with the annotation that permits a gap, and with no other, where users have set it", func() {
			shoot.Annotations[steps.AnnotationWithGap] = "true"
			shoot.Annotations[steps.AnnotationIntent] = "true"
			create()
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(stored().Annotations).To(Equal(map[string]string{"own": "kept", steps.AnnotationWithGap: "true"}))
			Expect(result.Done).To(ContainElement("set the annotation " + steps.AnnotationWithGap + "=true"))
		})

		It("should pause, and take away a request for an abort that is left over", func() {
			shoot.Annotations[steps.AnnotationAbort] = "true"
			create()
			_, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b", PauseBefore: step(6)})
			Expect(err).NotTo(HaveOccurred())
			Expect(stored().Annotations).To(Equal(map[string]string{
				"own": "kept", steps.AnnotationIntent: "true", steps.AnnotationPauseBefore: "EtcdMigrationComplete",
			}))
		})

		It("should name who asks for it, and nobody who has asked before", func() {
			shoot.Annotations[steps.AnnotationRequestedBy] = "bob"
			create()
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b", By: "alice"})
			Expect(err).NotTo(HaveOccurred())
			Expect(stored().Annotations).To(HaveKeyWithValue(steps.AnnotationRequestedBy, "alice"))
			Expect(result.Done).To(ContainElement("set the annotation " + steps.AnnotationRequestedBy + "=alice"))
		})

		It("should name nobody if nobody knows", func() {
			shoot.Annotations[steps.AnnotationRequestedBy] = "bob"
			create()
			_, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(stored().Annotations).NotTo(HaveKey(steps.AnnotationRequestedBy))
		})

		It("should leave everything as before when the API server refuses the binding", func() {
			shoot.Annotations[steps.AnnotationAbort] = "true"
			create()
			refusal = errors.New("must use the same provider type")
			_, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b", PauseBefore: step(6)})
			Expect(err).To(MatchError(SatisfyAll(ContainSubstring("must use the same provider type"),
				ContainSubstring("Nothing was started"))))
			Expect(stored().Annotations).To(Equal(map[string]string{"own": "kept", steps.AnnotationAbort: "true"}))
			Expect(stored().Spec.SeedName).To(HaveValue(Equal("seed-a")))
		})

		It("should not take for a refusal what leaves something behind", func() {
			create()
			refusal = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "live", errors.New("taints"))
			undone = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "live", errors.New("not any more"))
			_, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).To(MatchError(And(ContainSubstring("taints"), ContainSubstring("not any more"),
				ContainSubstring("remove "+steps.AnnotationIntent+" by hand"))))
			Expect(exit.Of(err)).To(Equal(exit.Error))
		})

		It("should send nothing in a dry run by the client, and say what it would send", func() {
			create()
			steerer.DryRun = steer.DryRunClient
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(BeEmpty())
			object := steer.Object{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Namespace: "garden-demo",
				Name: "live"}
			Expect(result.Object).To(Equal(object))
			Expect(result.Object.ResourceName()).To(Equal("shoot.core.gardener.cloud/live"))
			Expect(result.DryRun).To(Equal(steer.DryRunClient))
			Expect(result.Writes).To(HaveExactElements(
				steer.Write{Object: object,
					Patch: []byte(`{"metadata":{"annotations":{"migration.gardener.cloud/live-migrate":"true"}}}`)},
				steer.Write{Object: object, Subresource: "binding", Patch: []byte(`{"spec":{"seedName":"seed-b"}}`)}))
			Expect(result.Done).To(ContainElement("set spec.seedName from seed-a to seed-b"))
			Expect(result.After).To(Equal("Requested"))
		})

		It("should let the API server judge a dry run with all of it in one write, and keep nothing", func() {
			create()
			steerer.DryRun = steer.DryRunServer
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(dryRuns).To(Equal([]bool{true, true}))
			Expect(writes).To(Equal([]string{
				`{"metadata":{"annotations":{"migration.gardener.cloud/live-migrate":"true"}}}`,
				`binding {"metadata":{"annotations":{"migration.gardener.cloud/live-migrate":"true"}},` +
					`"spec":{"seedName":"seed-b"}}`,
			}))
			Expect(result.After).To(Equal("Requested"))
			Expect(stored().Annotations).To(Equal(map[string]string{"own": "kept"}))
			Expect(stored().Spec.SeedName).To(HaveValue(Equal("seed-a")))

			refusal = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "live", errors.New("taints"))
			_, err = steerer.Start(ctx, stored(), steer.Start{Destination: "seed-b"})
			Expect(err).To(MatchError(ContainSubstring("taints")))
			Expect(exit.Of(err)).To(Equal(exit.No))
		})

		It("should begin an aborted migration again by taking the request for the abort away", func() {
			shoot.Annotations[steps.AnnotationIntent] = "true"
			shoot.Spec.SeedName = new("seed-b")
			shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)}
			aborted()
			create()
			result, err := steerer.Start(ctx, shoot, steer.Start{Destination: "seed-b"})
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal(
				[]string{`{"metadata":{"annotations":{"migration.shoot.gardener.cloud/abort-live-migration":null}}}`}))
			Expect(result.After).To(Equal("Requested"))

			aborted()
			_, err = steerer.Start(ctx, shoot, steer.Start{Destination: "seed-c"})
			Expect(err).To(MatchError(ContainSubstring("has an aborted migration to seed seed-b")))
		})

		DescribeTable("refusals", func(prepare func(), destination, message string) {
			prepare()
			create()
			_, err := steerer.Start(ctx, shoot, steer.Start{Destination: destination})
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(writes).To(BeEmpty())
		},
			Entry("there already", func() {}, "seed-a", "is already in seed seed-a"),
			Entry("in flight", func() { shoot.Spec.SeedName = new("seed-b") }, "seed-b",
				"already on its way from seed seed-a to seed seed-b"),
			Entry("not created", func() { shoot.Status.SeedName = nil }, "seed-b", "is not in a seed yet"),
		)
	})

	Describe("Pause and Resume", func() {
		It("should pause before the next step, say what continues, and resume", func() {
			begin(3)
			create()
			result, err := steerer.Pause(ctx, shoot, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).
				To(
					Equal(
						[]string{
							`{"metadata":{"annotations":{"migration.gardener.cloud/pause-before":"DestinationKubeAPIServerReady"}}}`,
						}))
			Expect(result.Not).To(ConsistOf(ContainSubstring("a step that has begun is not stopped")))

			result, err = steerer.Resume(ctx, shoot)
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Done).
				To(ConsistOf("removed the annotation migration.gardener.cloud/pause-before (it was " +
					"DestinationKubeAPIServerReady)"))
			Expect(stored().Annotations).NotTo(HaveKey(steps.AnnotationPauseBefore))
			_, err = steerer.Resume(ctx, shoot)
			Expect(err).To(MatchError(ContainSubstring("no pause of Shoot")))
		})

		It("should pause before the migration is started, and warn of the last step", func() {
			shoot.Annotations, shoot.Spec.SeedName, shoot.Status.LiveMigration = nil, new("seed-a"), nil
			create()
			result, err := steerer.Pause(ctx, shoot, step(8))
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Not).To(ConsistOf(ContainSubstring("do not hold it for long")))
			Expect(stored().Annotations).To(HaveKeyWithValue(steps.AnnotationPauseBefore, "MigrationCompleted"))
		})

		It("should refuse a step that has begun, with the next one", func() {
			begin(3)
			create()
			_, err := steerer.Pause(ctx, shoot, step(3))
			Expect(err).To(MatchError(SatisfyAll(ContainSubstring("the step has begun"),
				ContainSubstring("pause before DestinationKubeAPIServerReady instead"))))
			_, err = steerer.Pause(ctx, shoot, step(1))
			Expect(err).To(HaveOccurred())
			Expect(writes).To(BeEmpty())
		})

		It("should refuse when the last step has begun", func() {
			begin(8)
			create()
			_, err := steerer.Pause(ctx, shoot, nil)
			Expect(err).To(MatchError(ContainSubstring("the last step, MigrationCompleted, has begun")))
		})
	})

	Describe("Retry", func() {
		It("should ask for a retry of a step that has begun", func() {
			begin(4)
			create()
			_, err := steerer.Retry(ctx, shoot)
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal([]string{`{"metadata":{"annotations":{"gardener.cloud/operation":"retry"}}}`}))
			_, err = steerer.Retry(ctx, shoot)
			Expect(err).To(MatchError(ContainSubstring("already")))
		})

		DescribeTable("refusals", func(prepare func(), message string) {
			prepare()
			create()
			_, err := steerer.Retry(ctx, shoot)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(writes).To(BeEmpty())
		},
			Entry("none", func() { shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a") },
				"no live migration to retry"),
			Entry("not begun", func() { finish(4) }, "has not begun, so there is nothing to retry"),
			Entry("abort", func() {
				begin(2)
				shoot.Annotations[steps.AnnotationAbort] = "true"
			}, "the agents retry an abort by themselves"),
		)
	})

	Describe("ConfirmVersions", func() {
		It("should name each version once, beyond the point of no return", func() {
			begin(7)
			create()
			result, err := steerer.ConfirmVersions(ctx, shoot, []string{"v1.150.1", "v1.150.0", "v1.150.1"})
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal([]string{
				`{"metadata":{"annotations":{"migration.gardener.cloud/confirm-versions":"v1.150.0,v1.150.1"}}}`,
			}))
			Expect(result.Done).To(ConsistOf(
				"set the annotation migration.gardener.cloud/confirm-versions=v1.150.0,v1.150.1"))
			Expect(steps.CheckConfirmed(stored(), []string{"v1.150.0", "v1.150.1"})).To(Succeed())
		})

		DescribeTable("refusals", func(prepare func(), versions []string, message string) {
			prepare()
			create()
			_, err := steerer.ConfirmVersions(ctx, shoot, versions)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(writes).To(BeEmpty())
		},
			Entry("none", func() { shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a") },
				[]string{"v1.150.0", "v1.150.1"}, "no live migration in flight"),
			Entry("too early", func() { begin(6) }, []string{"v1.150.0", "v1.150.1"}, "before the point of no return"),
			Entry("nothing", func() { begin(7) }, nil, "at least two"),
			Entry("one twice", func() { begin(7) }, []string{"v1.150.0", "v1.150.0"}, "at least two"),
			Entry("another minor", func() { begin(7) }, []string{"v1.150.0", "v1.151.0"}, "more than the patch"),
			Entry("a build", func() { begin(7) }, []string{"v1.150.0", "v1.150.1-dev"}, "is not a release"),
		)
	})

	Describe("Abort", func() {
		DescribeTable("should be possible until the step with the point of no return begins", func(prepare func()) {
			prepare()
			create()
			result, err := steerer.Abort(ctx, shoot)
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal([]string{
				`{"metadata":{"annotations":{"migration.shoot.gardener.cloud/abort-live-migration":"true"}}}`,
			}))
			Expect(result.After).To(HavePrefix("Aborting"))
			Expect(result.Not).To(ContainElement(ContainSubstring("spec.seedName is not set back")))
		},
			Entry("without conditions", func() { shoot.Status.LiveMigration = nil }),
			Entry("before the first step", func() {}),
			Entry("in the first step", func() { begin(1) }),
			Entry("in the second step", func() { begin(2) }),
			Entry("before the third step", func() { finish(3) }),
			Entry("in the fourth step", func() { begin(4) }),
			Entry("in the fifth step", func() { begin(5) }),
			Entry("before the sixth step", func() { finish(6) }),
			Entry("before the fourth step, in which etcd is to move", func() {
				finish(4)
				shoot.Annotations[steps.AnnotationForceShrink] = "true"
			}),
		)

		DescribeTable("should be refused later, with the reason and the alternative",
			func(prepare func(), messages ...string) {
				prepare()
				create()
				_, err := steerer.Abort(ctx, shoot)
				for _, message := range messages {
					Expect(err).To(MatchError(ContainSubstring(message)))
					Expect(exit.Of(err)).To(Equal(exit.No))
				}
				Expect(writes).To(BeEmpty())
			},
			Entry("in the sixth step", func() { begin(6) }, "the current step is EtcdMigrationComplete",
				"the migration can only go forward", "kubectl livecpm pause live -n garden-demo",
				"docs/operations/EtcdMigrationComplete.md", "kubectl livecpm retry"),
			Entry("in the fourth step, in which etcd moves", func() {
				begin(4)
				shoot.Annotations[steps.AnnotationForceShrink] = "true"
			}, "the current step is DestinationKubeAPIServerReady", "there is nothing to go back to"),
			Entry("after the point of no return", func() { begin(7) }, "there is nothing to go back to"),
			Entry("in flight", func() {
				begin(2)
				shoot.Annotations[steps.AnnotationAbort] = "true"
			}, "is already being aborted"),
			Entry("done", func() { aborted() }, "is already aborted", "abort live -n garden-demo --stay",
				"start live -n garden-demo --to seed-b"),
			Entry("none", func() { shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a") },
				"no live migration to abort"),
		)
	})

	Describe("Abandon", func() {
		DescribeTable("should be possible while a destination is there that is lost", func(prepare func()) {
			prepare()
			create()
			result, err := steerer.Abandon(ctx, shoot, "seed-b")
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(HaveLen(1))
			Expect(shoot.Annotations).To(And(HaveKeyWithValue(steps.AnnotationAbort, "true"),
				HaveKeyWithValue(steps.AnnotationAbandon, "seed-b")))
			Expect(result.After).To(HavePrefix("Aborting"))
			Expect(result.Not).To(ContainElement(ContainSubstring("nothing in seed seed-b is removed")))
		},
			Entry("in the second step", func() { begin(2) }),
			Entry("in the fifth step", func() { begin(5) }),
			Entry("when an abort waits for it", func() {
				begin(4)
				shoot.Annotations[steps.AnnotationAbort] = "true"
			}),
		)

		DescribeTable("should be refused", func(prepare func(), typed, message string) {
			prepare()
			create()
			_, err := steerer.Abandon(ctx, shoot, typed)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(writes).To(BeEmpty())
		},
			Entry("with the name of another seed", func() { begin(4) }, "seed-a",
				`the destination of Shoot garden-demo/live is seed "seed-b", not "seed-a"`),
			Entry("without a name", func() { begin(4) }, "", "name the seed that is lost"),
			Entry("too late", func() { begin(6) }, "seed-b", "docs/operations/recovery.md"),
			Entry("while etcd moves first", func() {
				begin(4)
				shoot.Annotations[steps.AnnotationForceShrink] = "true"
			}, "seed-b", "docs/operations/recovery.md"),
			Entry("if nothing is there", func() { begin(1) }, "seed-b", "abort without it"),
			Entry("twice", func() {
				begin(4)
				shoot.Annotations[steps.AnnotationAbort] = "true"
				shoot.Annotations[steps.AnnotationAbandon] = "seed-b"
			}, "seed-b", "is already being abandoned"),
			Entry("after the abort", func() { aborted() }, "seed-b", "is already aborted"),
			Entry("without a migration", func() { shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a") },
				"seed-b",
				"no live migration to abort"),
		)
	})

	Describe("AbandonSource", func() {
		DescribeTable("should be possible while the destination cannot finish without the source", func(number int) {
			begin(number)
			create()
			result, err := steerer.AbandonSource(ctx, shoot, "seed-a")
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(HaveExactElements(MatchJSON(
				`{"metadata":{"annotations":{"migration.gardener.cloud/abandon-source":"seed-a"}}}`)))
			Expect(result.Not).To(ContainElement(ContainSubstring("only when neither its agent nor its gardenlet")))
		},
			Entry("in the sixth step", 6),
			Entry("in the seventh step", 7),
		)

		It("should be possible before the seventh step, which a source that is lost does not begin", func() {
			finish(7)
			create()
			_, err := steerer.AbandonSource(ctx, shoot, "seed-a")
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(HaveLen(1))
		})

		DescribeTable("should be refused", func(prepare func(), typed, message string) {
			prepare()
			create()
			_, err := steerer.AbandonSource(ctx, shoot, typed)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(writes).To(BeEmpty())
		},
			Entry("with the name of another seed", func() { begin(7) }, "seed-b",
				`the source of Shoot garden-demo/live is seed "seed-a", not "seed-b"`),
			Entry("without a name", func() { begin(7) }, "", "name the seed that is lost"),
			Entry("before the sixth step", func() { finish(6) }, "seed-a", "the shoot is what seed seed-a has"),
			Entry("in the second step", func() { begin(2) }, "seed-a", "docs/operations/recovery.md"),
			Entry("in the last step", func() { begin(8) }, "seed-a", "asks nothing of it"),
			Entry("twice", func() {
				begin(7)
				shoot.Annotations[steps.AnnotationAbandonSource] = "seed-a"
			}, "seed-a", "is already being abandoned"),
			Entry("when it has been done", func() {
				begin(7)
				updated, err := conditions.AbandonSource(clk, steps.Conditions(shoot), "done")
				Expect(err).NotTo(HaveOccurred())
				shoot.Status.LiveMigration.Conditions = updated
			}, "seed-a", "is abandoned already"),
			Entry("without a migration", func() { shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a") },
				"seed-a", "no live migration to finish"),
		)

		It("should show what keeps the destination from it", func() {
			begin(7)
			shoot.Annotations[steps.AnnotationAbandonSource] = "seed-a"
			updated, err := conditions.AbandoningSource(clk, steps.Conditions(shoot), "its gardenlet answers")
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
			Expect(steerer.Summary(shoot)).To(And(HaveField("Step", "SourceSeedCleanup"),
				HaveField("Reason", "AbandoningSource"), HaveField("Message", "its gardenlet answers")))
		})
	})

	Describe("Stay", func() {
		It("should set the seed back when the abort is completed", func() {
			aborted()
			shoot.Annotations[steps.AnnotationPauseBefore] = "MigrateDNSRecords"
			create()
			result, err := steerer.Stay(ctx, shoot)
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(HaveExactElements(HavePrefix("binding ")), "one write, which no admission can part")
			Expect(strings.TrimPrefix(writes[0], "binding ")).To(MatchJSON(`{
				"metadata": {"annotations": {
					"migration.gardener.cloud/live-migrate": null,
					"migration.gardener.cloud/pause-before": null,
					"migration.shoot.gardener.cloud/abort-live-migration": null
				}},
				"spec": {"seedName": "seed-a"}
			}`))
			Expect(result.Done).To(HaveExactElements(
				"set spec.seedName from seed-b back to seed-a",
				"removed the annotation migration.gardener.cloud/live-migrate (it was true)",
				"removed the annotation migration.gardener.cloud/pause-before (it was MigrateDNSRecords)",
				"removed the annotation migration.shoot.gardener.cloud/abort-live-migration (it was true)",
			))
			Expect(result.After).To(HavePrefix("Aborted"))
		})

		It("should say what keeps a seed from taking its shoot back", func() {
			aborted()
			create()
			refusal = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "live",
				errors.New("forbidden to use a seed whose taints are not tolerated by the shoot"))
			_, err := steerer.Stay(ctx, shoot)
			Expect(err).To(MatchError(And(ContainSubstring("taints are not tolerated"),
				ContainSubstring("lift it in Seed seed-a"))))
		})

		It("should be refused before, and when there is nothing to set back", func() {
			begin(2)
			shoot.Annotations[steps.AnnotationAbort] = "true"
			create()
			_, err := steerer.Stay(ctx, shoot)
			Expect(err).To(MatchError(ContainSubstring("only when its live migration is Aborted")))
			shoot.Spec.SeedName = new("seed-a")
			_, err = steerer.Stay(ctx, shoot)
			Expect(err).To(MatchError(ContainSubstring("not on its way")))
			Expect(writes).To(BeEmpty())
		})
	})

	Describe("Drain", func() {
		It("should set and remove the annotation, and print the condition", func() {
			seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}
			create()
			Expect(c.Create(ctx, seed)).To(Succeed())

			result, err := steerer.Drain(ctx, seed, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal([]string{`{"metadata":{"annotations":{"migration.gardener.cloud/drain":"true"}}}`}))
			Expect(result.Before).To(Equal("no drain requested, no condition Drained"))
			Expect(result.After).To(Equal("drain requested, no condition Drained"))
			_, err = steerer.Drain(ctx, seed, nil)
			Expect(err).
				To(MatchError("a drain of Seed seed-a is already requested; see kubectl livecpm drain status seed-a"))

			seed.Status.Conditions = []gardencorev1beta1.Condition{
				{Type: "Drained", Status: gardencorev1beta1.ConditionProgressing, Reason: "Draining",
					Message: "3 of 5 shoots have left"},
			}
			Expect(steer.Drained(seed)).
				To(Equal("drain requested, Drained is Progressing (Draining): 3 of 5 shoots have left"))

			result, err = steerer.CancelDrain(ctx, seed)
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Not).NotTo(ContainElement(ContainSubstring("between two migrations")))
			Expect(seed.Annotations).NotTo(HaveKey(drain.AnnotationDrain))
			_, err = steerer.CancelDrain(ctx, seed)
			Expect(err).To(MatchError("no drain of Seed seed-a is requested"))
		})

		Describe("with settings", func() {
			const windows, soak, canaries = drain.AnnotationWindows, drain.AnnotationSoak, drain.AnnotationCanaries
			var seed *gardencorev1beta1.Seed

			BeforeEach(func() {
				seed = &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a",
					Annotations: map[string]string{soak: "1h"}}}
				create()
				Expect(c.Create(ctx, seed)).To(Succeed())
			})

			It("should set them together with the request, and remove what is empty", func() {
				result, err := steerer.Drain(ctx, seed,
					map[string]string{windows: "maintenance", soak: "", canaries: ""})
				Expect(err).NotTo(HaveOccurred())
				Expect(writes).To(HaveExactElements(MatchJSON(`{"metadata":{"annotations":{` +
					`"migration.gardener.cloud/drain":"true","migration.gardener.cloud/drain-soak":null,` +
					`"migration.gardener.cloud/drain-windows":"maintenance"}}}`)))
				Expect(result.Done).To(HaveExactElements("set the annotation migration.gardener.cloud/drain=true",
					"removed the annotation migration.gardener.cloud/drain-soak (it was 1h)",
					"set the annotation migration.gardener.cloud/drain-windows=maintenance"))
			})

			It("should change them while the drain is requested", func() {
				_, err := steerer.Drain(ctx, seed, nil)
				Expect(err).NotTo(HaveOccurred())
				result, err := steerer.Drain(ctx, seed, map[string]string{canaries: "3"})
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Done).
					To(HaveExactElements("set the annotation migration.gardener.cloud/drain-canaries=3"))
				Expect(seed.Annotations).To(HaveKeyWithValue(canaries, "3"))
			})

			It("should refuse what the drain could not read, also what is there already", func() {
				_, err := steerer.Drain(ctx, seed, map[string]string{canaries: "few"})
				Expect(err).To(MatchError(And(ContainSubstring("the drain of Seed seed-a would hold all shoots"),
					ContainSubstring("set it to a number that is not negative"))))
				seed.Annotations[soak] = "soon"
				_, err = steerer.Drain(ctx, seed, nil)
				Expect(err).To(MatchError(ContainSubstring(soak)))
				Expect(writes).To(BeEmpty())
			})
		})

		It("should say where to find shoots that are between two migrations", func() {
			seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a",
				Annotations: map[string]string{drain.AnnotationDrain: "true", drain.AnnotationMaxHops: "2"}}}
			create()
			Expect(c.Create(ctx, seed)).To(Succeed())
			result, err := steerer.CancelDrain(ctx, seed)
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Not).To(ContainElement("shoots between two migrations stay in the seed on the way: the " +
				"status names them, and how to continue"))
		})
	})
})
