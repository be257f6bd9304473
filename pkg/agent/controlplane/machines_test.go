// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/test/calls"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Machines", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx   = context.Background()
		shoot = &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}
	)
	machine := func(namespace, name string) *machinev1alpha1.Machine {
		return &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	in := func(funcs interceptor.Funcs) *controlplane.ControlPlane {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(funcs).WithObjects(
			machine(namespace, "one"), machine(namespace, "two"), machine("shoot--demo--other", "three"),
			&machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool"}},
		).Build()
		return of(fakekubernetes.NewClientSetBuilder().WithAPIReader(c).Build(), patience.Eventually)
	}

	It("should have the machines of the shoot, and of no other", func() {
		view, err := in(interceptor.Funcs{}).Machines(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		Expect(view.Deployments).To(HaveLen(1))
		Expect(view.Machines).To(HaveLen(2))
	})

	It("should tell what could not be read", func() {
		_, err := in(calls.Refuse(errors.New("forbidden"), calls.List)).Machines(ctx, shoot)
		Expect(err).
			To(MatchError(ContainSubstring(
				"failed to list *v1alpha1.MachineDeploymentList in namespace shoot--demo--live: forbidden")))
	})
})
