// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = DescribeTable("An extension of a migration that is aborted is",
	func(here bool, operation string, last gardencorev1beta1.LastOperationType,
		mutate ...func(*extensionsv1alpha1.Extension),
	) {
		object := &extensionsv1alpha1.Extension{}
		if operation != "" {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1beta1constants.GardenerOperation, operation)
		}
		if last != "" {
			object.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: last,
				State: gardencorev1beta1.LastOperationStateSucceeded}
		}
		for _, m := range mutate {
			m(object)
		}
		Expect(source.StaysHere(object)).To(Equal(here))
	},
	Entry("here as ever", true, "", gardencorev1beta1.LastOperationTypeReconcile),
	Entry("here, taken back", true, "", gardencorev1beta1.LastOperationTypeRestore),
	Entry("here, about to be restored", true, "restore", gardencorev1beta1.LastOperationTypeMigrate),
	Entry("here, about to be reconciled", true, "reconcile", gardencorev1beta1.LastOperationTypeReconcile),
	Entry("on its way out", false, "migrate", gardencorev1beta1.LastOperationTypeReconcile),
	Entry("migrated", false, "", gardencorev1beta1.LastOperationTypeMigrate),
	Entry("waiting for its state", false, "wait-for-state", gardencorev1beta1.LastOperationType("")),
	Entry("not seen by its controller", false, "", gardencorev1beta1.LastOperationType("")),
	Entry("being deleted", false, "", gardencorev1beta1.LastOperationTypeReconcile,
		func(e *extensionsv1alpha1.Extension) { e.DeletionTimestamp = &metav1.Time{} }),
	Entry("being deleted, although it was to be restored", false, "restore", gardencorev1beta1.LastOperationTypeMigrate,
		func(e *extensionsv1alpha1.Extension) { e.DeletionTimestamp = &metav1.Time{} }),
)

// reached returns the conditions of a migration that has begun so many steps, when its abort has come to the source.
func reached(begun int) []gardencorev1beta1.Condition {
	var out []gardencorev1beta1.Condition
	for i, step := range steps.Table() {
		condition := gardencorev1beta1.Condition{Type: step.Condition, Status: gardencorev1beta1.ConditionUnknown}
		switch {
		case i == 1 && begun > 1:
			condition.Status, condition.Reason = gardencorev1beta1.ConditionFalse, string(steps.ReasonWithdrawn)
		case i < begun-1:
			condition.Status = gardencorev1beta1.ConditionTrue
		case i < begun:
			condition.Status = gardencorev1beta1.ConditionProgressing
		}
		out = append(out, condition)
	}
	return out
}

var _ = DescribeTable("An abort undoes", func(begun int, undone ...int) {
	Expect(source.Undone(reached(begun))).To(ConsistOf(undone))
},
	Entry("nothing more in the first step", 1),
	Entry("nothing more in the second step", 2),
	Entry("nothing in the third step that the seed does not tell", 3),
	Entry("what is in the shoot from the fourth step on", 4, 4),
	Entry("the release of the DNSRecords from the fifth step on", 5, 4, 5),
)

var _ = DescribeTable("What an abandonment names as left behind", func(begun int, workers bool, left ...string) {
	shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--demo--live",
		LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: reached(begun)}}}
	if workers {
		shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "one"}}
	}
	text := source.LeftIn(shoot)
	for _, part := range append(left, "namespace and Cluster shoot--demo--live", "BackupEntry",
		"what exposes the etcds at the ingress gateway") {
		Expect(text).To(ContainSubstring(part))
	}
	if !workers {
		Expect(text).NotTo(ContainSubstring("DNS"), "etcd is found by the record of the seed's ingress domain")
	}
	if len(left) == 0 {
		Expect(text).NotTo(ContainSubstring("kube-apiserver"))
	}
	if !workers {
		Expect(text).NotTo(ContainSubstring("VPN"))
	}
},
	Entry("of the second step", 2, true),
	Entry("of the third step", 3, false),
	Entry("of the fourth step", 4, false, "a kube-apiserver without a quorum", "extensions"),
	Entry("of the fifth step with workers", 5, true, "a kube-apiserver without a quorum", "VPN server",
		"the DNS record of the temporary VPN client"),
)
