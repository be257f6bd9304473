// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The ShootState of the source", func() {
	const timestamp = "gardener.cloud/timestamp"
	var (
		ctx  = context.Background()
		deps *source.Deps
		m    *migration.Migration
		// begin is the time of the source's clock.
		begin time.Time
	)

	BeforeEach(func() {
		var objects []client.Object
		for _, name := range []string{"ca", "ca-client", "ca-etcd", "ca-etcd-peer",
			"kube-apiserver-etcd-encryption-key",
			"service-account-key"} {
			objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
				Labels: map[string]string{secretsmanager.LabelKeyPersist: secretsmanager.LabelValueTrue,
					secretsmanager.LabelKeyName: name}}, Data: map[string][]byte{"key": []byte(name)}})
		}
		extension := &extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "audit", Namespace: namespace}}
		extension.Status.State = &runtime.RawExtension{Raw: []byte(`{"generation":1}`)}
		deps = newDeps(append(objects, extension)...)
		begin = deps.Clock.Now()
		m = &migration.Migration{Log: logr.Discard(), Clock: deps.Clock, Role: steps.Source, SourceSeed: "seed-a",
			DestinationSeed: "seed-b", Shoot: &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
				Status:     gardencorev1beta1.ShootStatus{TechnicalID: namespace}}}
	})

	DescribeTable("should be kept as the step permits", func(number int, dated, takenAgain bool) {
		// What the gardenlet of the destination has left of it.
		Expect(deps.Garden.Create(ctx, &gardencorev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden-demo", Name: "live", Annotations: map[string]string{
				timestamp:                      begin.Format(time.RFC3339),
				"livecpm.gardener.cloud/taken": `{"machines":0,"states":{"Extension/audit":"00"}}`}},
		})).To(Succeed())
		m.Step = steps.Table()[number-1]
		source.KeepShootState(ctx, deps, m)

		state := &gardencorev1beta1.ShootState{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), state)).To(Succeed())
		if dated {
			Expect(state.Annotations).To(HaveKeyWithValue(timestamp,
				begin.Add(24*time.Hour).UTC().Format(time.RFC3339)))
		} else {
			Expect(state.Annotations).To(HaveKeyWithValue(timestamp, begin.Format(time.RFC3339)))
		}
		if takenAgain {
			Expect(state.Spec.Extensions).To(ConsistOf(HaveField("State.Raw", MatchJSON(`{"generation":1}`))))
			Expect(state.Spec.Gardener).To(HaveLen(6))
		} else {
			Expect(state.Spec.Extensions).To(BeEmpty())
		}
	},
		Entry("not in step 1, which writes it", 1, false, false),
		Entry("in step 2, with all of it", 2, true, true),
		Entry("in step 3, with what is left", 3, true, true),
		Entry("in step 6, with what is left", 6, true, true),
		Entry("in step 7, without a look at machines that may be going", 7, true, false),
		Entry("not in step 8, in which nothing is here", 8, false, false),
	)

	DescribeTable("should keep the state of an extension that is gone from this seed", func(number int, kept bool) {
		Expect(deps.Garden.Create(ctx, &gardencorev1beta1.ShootState{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", Annotations: map[string]string{
				timestamp:                      begin.Format(time.RFC3339),
				"livecpm.gardener.cloud/taken": `{"machines":0,"states":{"Extension/audit":"00"}}`}},
			Spec: gardencorev1beta1.ShootStateSpec{Extensions: []gardencorev1beta1.ExtensionResourceState{{
				Kind: extensionsv1alpha1.ExtensionResource, Name: new("early"),
				State: &runtime.RawExtension{Raw: []byte(`{"lease":7}`)}}}},
		})).To(Succeed())
		m.Step = steps.Table()[number-1]
		source.KeepShootState(ctx, deps, m)

		state := &gardencorev1beta1.ShootState{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), state)).To(Succeed())
		expected := []any{HaveField("Name", HaveValue(Equal("audit")))}
		if kept {
			expected = append(expected, And(HaveField("Name", HaveValue(Equal("early"))),
				HaveField("State.Raw", MatchJSON(`{"lease":7}`))))
		}
		Expect(state.Spec.Extensions).To(ConsistOf(expected...))
	},
		Entry("not in step 2, when all that the shoot has is here", 2, false),
		Entry("in step 3, which migrates it", 3, true),
		Entry("in step 6", 6, true),
	)
})
