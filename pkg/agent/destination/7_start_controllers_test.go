// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Starting the controllers", func() {
	cleanUp, _ := steps.Get(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup)

	deployment := func(name string, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Status: appsv1.DeploymentStatus{AvailableReplicas: available}}
	}
	shootWith := func(workers int) *gardencorev1beta1.Shoot {
		return &gardencorev1beta1.Shoot{Spec: gardencorev1beta1.ShootSpec{
			Provider: gardencorev1beta1.Provider{Workers: make([]gardencorev1beta1.Worker, workers)}}}
	}

	It("should be what the source asks for when its own ones have stopped, and until its step is over", func() {
		Expect(cleanUp.Asks()).To(Equal([]steps.Reason{steps.ReasonSourceControllersStopped,
			steps.ReasonDeletingSourceResources}))
	})

	It("should be about those that pass in this step, and about none that a lease in the seed would have to keep apart",
		func() {
			Expect(destination.PassedControllers(shootWith(0), cleanUp)).To(Equal([]string{"kube-controller-manager",
				"gardener-resource-manager"}))
			Expect(destination.PassedControllers(shootWith(1), cleanUp)).To(Equal([]string{"kube-controller-manager",
				"kube-scheduler", "gardener-resource-manager"}))
			Expect(destination.PassedControllers(shootWith(1), steps.Last())).To(BeEmpty())
		})

	It("should leave those alone that run", func() {
		m := newMigration()
		m.Step = cleanUp
		outcome, err := destination.StartControllers(ctx, newDeps(deployment("kube-controller-manager", 1),
			deployment("gardener-resource-manager", 2)), m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Message).To(ContainSubstring("[kube-controller-manager gardener-resource-manager] run"))
	})

	DescribeTable("needs the kube-apiserver of the destination", func(text string, objects ...client.Object) {
		m := newMigration()
		m.Step = cleanUp
		_, err := destination.StartControllers(ctx, newDeps(append(objects,
			deployment("kube-controller-manager", 1), deployment("gardener-resource-manager", 0))...), m)
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("which is not there", "failed to read deployment shoot--demo--live/kube-apiserver, without which"),
		Entry("which somebody has scaled down", "deployment shoot--demo--live/kube-apiserver has no replicas",
			func() client.Object {
				out := deployment("kube-apiserver", 0)
				out.Spec.Replicas = ptr.To[int32](0)
				return out
			}()),
	)

	Describe("with the key that the kube-apiserver signs with", func() {
		newBotanist := func(deps *destination.Deps) *botanist.Botanist {
			GinkgoHelper()
			manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, deps.SeedClientSet.Client(),
				"gardenlet", secretsmanager.WithNamespaces(namespace))
			Expect(err).NotTo(HaveOccurred())
			return &botanist.Botanist{Operation: &gardeneroperation.Operation{
				Logger: logr.Discard(), SecretsManager: manager, SeedClientSet: deps.SeedClientSet,
				Shoot: &shootpkg.Shoot{ControlPlaneNamespace: namespace},
			}}
		}
		// generate makes a key as the deployment of the kube-apiserver does.
		generate := func(deps *destination.Deps, bits int) *corev1.Secret {
			GinkgoHelper()
			secret, err := newBotanist(deps).SecretsManager.Generate(ctx,
				&secretsutils.RSASecretConfig{Name: "service-account-key", Bits: bits},
				secretsmanager.Persist(), secretsmanager.Rotate(secretsmanager.KeepOld))
			Expect(err).NotTo(HaveOccurred())
			return secret
		}

		It("should know it afterwards, and no other one", func() {
			deps := newDeps()
			key := generate(deps, 4096)
			b := newBotanist(deps)
			_, found := b.SecretsManager.Get("service-account-key", secretsmanager.Current)
			Expect(found).To(BeFalse())

			Expect(destination.KnowServiceAccountKey(ctx, b)).To(Succeed())
			known, found := b.SecretsManager.Get("service-account-key", secretsmanager.Current)
			Expect(found).To(BeTrue())
			Expect(known.Name).To(Equal(key.Name))
			Expect(known.Data).To(Equal(key.Data))
		})

		It("should not make one where the kube-apiserver has none", func() {
			deps := newDeps()
			Expect(destination.KnowServiceAccountKey(ctx, newBotanist(deps))).
				To(MatchError(ContainSubstring("failed to find the secret of service-account-key")))
			secrets := &corev1.SecretList{}
			Expect(deps.SeedClientSet.Client().List(ctx, secrets)).To(Succeed())
			Expect(secrets.Items).To(BeEmpty())
		})

		It("should not let anybody sign with a key that the kube-apiserver does not know", func() {
			deps := newDeps()
			generate(deps, 2048)
			Expect(destination.KnowServiceAccountKey(ctx, newBotanist(deps))).
				To(MatchError(ContainSubstring("failed to find the key that the kube-apiserver signs with")))
		})
	})
})
