// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("MachinesView", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx   = context.Background()
		shoot = &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}
	)
	machine := func(namespace, name string) *machinev1alpha1.Machine {
		return &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	newDeps := func(funcs interceptor.Funcs) *operation.Deps {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(funcs).WithObjects(
			machine(namespace, "one"), machine(namespace, "two"), machine("shoot--demo--other", "three"),
			&machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool"}},
		).Build()
		return &operation.Deps{SeedClientSet: fakekubernetes.NewClientSetBuilder().WithAPIReader(c).Build()}
	}

	It("has the machines of the shoot, and of no other", func() {
		view, err := newDeps(interceptor.Funcs{}).MachinesView(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		Expect(view.Deployments).To(HaveLen(1))
		Expect(view.Machines).To(HaveLen(2))
	})

	It("tells what could not be read", func() {
		_, err := newDeps(calls.Refuse(errors.New("forbidden"), calls.List)).MachinesView(ctx, shoot)
		Expect(err).
			To(MatchError(ContainSubstring(
				"failed to list *v1alpha1.MachineDeploymentList in namespace shoot--demo--live: forbidden")))
	})
})

var _ = Describe("WithTemporaryVPNClients", func() {
	It("doubles the number of clients, and leaves that of the servers", func() {
		o := &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{VPNHighAvailabilityNumberOfSeedServers: 2,
			VPNHighAvailabilityNumberOfShootClients: 2}}
		operation.WithTemporaryVPNClients(o)
		Expect(o.Shoot.VPNHighAvailabilityNumberOfShootClients).To(Equal(4))
		Expect(o.Shoot.VPNHighAvailabilityNumberOfSeedServers).To(Equal(2))
	})
})
