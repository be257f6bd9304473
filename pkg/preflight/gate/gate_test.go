// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	first = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
	last  = gardencorev1beta1.ShootLiveMigrationMigrationCompleted
)

var _ = Describe("Gate", func() {
	var (
		ctx   = context.Background()
		shoot *gardencorev1beta1.Shoot
		// answer is what the API server says to the status patch.
		answer error
		// asked is the constraint's status in the patch that arrived, dry reports whether it was a dry run.
		asked gardencorev1beta1.ConditionStatus
		dry   bool

		forbidden = func(text string) error {
			return apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "live", errors.New(text))
		}
		policy = func(name, message string) error {
			return forbidden(fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", name,
				name, message))
		}
		verify = func() error {
			c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).
				WithStatusSubresource(&gardencorev1beta1.Shoot{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(_ context.Context, _ client.Client, subResource string, obj client.Object,
						_ client.Patch, opts ...client.SubResourcePatchOption) error {
						Expect(subResource).To(Equal("status"))
						options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
						dry = len(options.DryRun) == 1 && options.DryRun[0] == metav1.DryRunAll
						for _, constraint := range obj.(*gardencorev1beta1.Shoot).Status.Constraints {
							if constraint.Type == gardencorev1beta1.ShootReadyForMigration {
								asked = constraint.Status
							}
						}
						return answer
					},
				}).Build()
			return gate.New(c, c).Verify(ctx, shoot)
		}
		beOpen = func(problem gate.Problem, text string) OmegaMatcher {
			return And(
				WithTransform(func(err error) gate.Problem {
					var open *gate.OpenError
					Expect(errors.As(err, &open)).To(BeTrue())
					Expect(open.Remedy).NotTo(BeEmpty())
					return open.Problem
				}, Equal(problem)),
				MatchError(ContainSubstring(text)),
			)
		}
	)

	BeforeEach(func() {
		asked, dry = "", false
		answer = policy(gate.PolicyName,
			"livecpm gate: the constraint ReadyForMigration must not be True while a live migration is in flight")
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Name: "live", Namespace: "garden-demo",
				Annotations: map[string]string{"migration.gardener.cloud/live-migrate": "true"},
			},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a")},
		}
	})

	It("should be closed when the policy refuses the dry run", func() {
		Expect(verify()).To(Succeed())
		Expect(asked).To(Equal(gardencorev1beta1.ConditionTrue))
		Expect(dry).To(BeTrue(), "the probe must be a dry run")
	})

	It("should ask with the constraint True also when it is False now", func() {
		shoot.Status.Constraints = []gardencorev1beta1.Condition{
			{Type: gardencorev1beta1.ShootReadyForMigration, Status: gardencorev1beta1.ConditionFalse},
			{Type: gardencorev1beta1.ShootHibernationPossible, Status: gardencorev1beta1.ConditionTrue},
		}
		Expect(verify()).To(Succeed())
		Expect(asked).To(Equal(gardencorev1beta1.ConditionTrue))
	})

	It("should need no policy when the shoot is not between two seeds", func() {
		shoot.Status.SeedName = shoot.Spec.SeedName
		answer = nil
		Expect(verify()).To(Succeed())
		Expect(asked).To(BeEmpty())
	})

	It("should be open when the dry run is accepted", func() {
		answer = nil
		Expect(verify()).To(beOpen(gate.ProblemNotInForce, "install or repair the chart livecpm-garden"))
	})

	It("should be open when the constraint is left over", func() {
		shoot.Status.Constraints = []gardencorev1beta1.Condition{
			{Type: gardencorev1beta1.ShootReadyForMigration, Status: gardencorev1beta1.ConditionTrue},
		}
		Expect(verify()).To(
			beOpen(gate.ProblemConstraintTrue, "the classic migration may start at any moment; remove the constraint"))
		Expect(asked).To(BeEmpty(), "nothing is to be asked when the answer does not matter")
	})

	DescribeTable("tells what to do about a left-over constraint",
		func(conditions []gardencorev1beta1.Condition, operation gardencorev1beta1.LastOperationType, released bool,
			remedy string, not string) {
			shoot.Status.Constraints = []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.ShootReadyForMigration, Status: gardencorev1beta1.ConditionTrue},
			}
			shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions}
			shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: operation}
			Expect(gate.Released(shoot)).To(Equal(released))
			Expect(verify()).To(And(
				beOpen(gate.ProblemConstraintTrue, remedy),
				Not(MatchError(ContainSubstring(not))),
			))
		},
		Entry("before the migration: either way is open", nil, gardencorev1beta1.LastOperationTypeReconcile, true,
			"remove the constraint from the Shoot's status to migrate live, or the annotation "+
				"migration.gardener.cloud/live-migrate", "gardenlet"),
		Entry("before the first step has begun",
			[]gardencorev1beta1.Condition{{Type: first, Status: gardencorev1beta1.ConditionUnknown}},
			gardencorev1beta1.LastOperationTypeReconcile, true,
			"remove the constraint from the Shoot's status to migrate live, or", "gardenlet"),
		Entry("before the first step, the conditions being those of an earlier migration",
			[]gardencorev1beta1.Condition{{Type: first, Status: gardencorev1beta1.ConditionTrue},
				{Type: last, Status: gardencorev1beta1.ConditionTrue}}, gardencorev1beta1.LastOperationTypeReconcile,
			true,
			"remove the constraint from the Shoot's status to migrate live, or", "gardenlet"),
		Entry("before the migration, but the classic one is under way", nil, gardencorev1beta1.LastOperationTypeMigrate,
			true,
			"remove the annotation migration.gardener.cloud/live-migrate and let it complete", "remove the constraint"),
		Entry("after a completed abort",
			[]gardencorev1beta1.Condition{{Type: first, Status: gardencorev1beta1.ConditionFalse,
				Reason: gate.ReasonAborted}}, gardencorev1beta1.LastOperationTypeLiveMigrate, true,
			"or the annotation migration.gardener.cloud/live-migrate to migrate classically", "gardenlet"),
		Entry("after the first step has begun: the annotation cannot go",
			[]gardencorev1beta1.Condition{{Type: first, Status: gardencorev1beta1.ConditionProgressing}},
			gardencorev1beta1.LastOperationTypeLiveMigrate, false,
			"remove the constraint from the Shoot's status at once and leave the annotation", "remove the annotation"),
		Entry("after the first step has begun, and the gardenlet has begun as well",
			[]gardencorev1beta1.Condition{{Type: first, Status: gardencorev1beta1.ConditionTrue},
				{Type: last, Status: gardencorev1beta1.ConditionUnknown}}, gardencorev1beta1.LastOperationTypeMigrate,
			false,
			"the gardenlet of seed seed-a has taken it for its start signal: stop that gardenlet at once, remove "+
				"the constraint", "remove the annotation"),
	)

	It("should be open without the intent annotation", func() {
		delete(shoot.Annotations, "migration.gardener.cloud/live-migrate")
		Expect(verify()).To(beOpen(gate.ProblemNoIntent, "live-migrate is not true"))
	})

	DescribeTable("is not proved when the dry run fails otherwise",
		func(err error) {
			answer = err
			Expect(verify()).To(beOpen(gate.ProblemNotProved, err.Error()))
		},
		Entry("missing permission", forbidden("User \"x\" cannot patch resource \"shoots/status\"")),
		Entry("another policy",
			policy("something-else", "livecpm gate: the constraint ReadyForMigration must not be True")),
		Entry("a rule of ours that could not be evaluated",
			policy(gate.PolicyName, "expression 'x' resulted in error: no such key: y")),
		Entry("the server is gone", errors.New("connection refused")),
	)

	It("should not be proved when the shoot cannot be read", func() {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
		err := gate.New(c, c).Verify(ctx, shoot)
		Expect(err).To(beOpen(gate.ProblemNotProved, "failed to read Shoot garden-demo/live"))
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})
})
