// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/extension"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/agent/source"
)

var _ = DescribeTable("An extension is needed before the kube-apiserver",
	func(lifecycle *gardencorev1beta1.ControllerResourceLifecycle, known, needed bool) {
		all := map[string]extension.Extension{}
		if known {
			all["audit"] = extension.Extension{Lifecycle: lifecycle}
		}
		obj := &extensionsv1alpha1.Extension{
			Spec: extensionsv1alpha1.ExtensionSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "audit"}},
		}
		Expect(source.NeededBefore(all, obj)).To(Equal(needed))
	},
	Entry("when it is reconciled before",
		&gardencorev1beta1.ControllerResourceLifecycle{Reconcile: ptr.To(gardencorev1beta1.BeforeKubeAPIServer)}, true,
		true),
	Entry("not when it is reconciled after",
		&gardencorev1beta1.ControllerResourceLifecycle{Reconcile: ptr.To(gardencorev1beta1.AfterKubeAPIServer)}, true,
		false),
	Entry("not because it is migrated before the kube-apiserver is deleted",
		&gardencorev1beta1.ControllerResourceLifecycle{Migrate: ptr.To(gardencorev1beta1.BeforeKubeAPIServer)}, true,
		false),
	Entry("not without a lifecycle", nil, true, false),
	Entry("not when the shoot does not want it", nil, false, false),
)
