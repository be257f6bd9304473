// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/permissions"
)

var _ = Describe("The controller manager", func() {
	It("should use all that the chart permits it", func() {
		gardenlets()
		startControllerManager()

		By("keeping the gate in force")
		for _, object := range []client.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName},
			},
			&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: gate.PolicyName}},
		} {
			Eventually(func() error {
				return client.IgnoreNotFound(garden.Client.Get(ctx, client.ObjectKeyFromObject(object), object))
			}).Should(Succeed())
			Expect(garden.Client.Delete(ctx, object)).To(Succeed())
			Eventually(func() error { return garden.Client.Get(ctx, client.ObjectKeyFromObject(object), object) }).
				Should(Succeed())
		}
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(garden.Client.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, policy)).To(Succeed())
		patch := client.MergeFrom(policy.DeepCopy())
		policy.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
		Expect(garden.Client.Patch(ctx, policy, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(garden.Client.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, policy)).To(Succeed())
			g.Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)))
		}).Should(Succeed())
		Expect(garden.Client.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, binding)).To(Succeed())
		patch = client.MergeFrom(binding.DeepCopy())
		binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		Expect(garden.Client.Patch(ctx, binding, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(garden.Client.Get(ctx, client.ObjectKey{Name: gate.PolicyName}, binding)).To(Succeed())
			g.Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
		}).Should(Succeed())

		By("draining a seed")
		source := framework.NewSeed("drained")
		Expect(garden.CreateSeed(ctx, source)).To(Succeed())
		other := framework.NewSeed("drained-to")
		Expect(garden.CreateSeed(ctx, other)).To(Succeed())
		patch = client.MergeFrom(other.DeepCopy())
		other.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded,
			LastUpdateTime: metav1.Now(),
		}
		Expect(garden.Client.Status().Patch(ctx, other, patch)).To(Succeed())
		shoot := framework.NewShoot("drained", source.Name)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
		annotate := func(value *string) {
			GinkgoHelper()
			seed := &gardencorev1beta1.Seed{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(source), seed)).To(Succeed())
			patch := client.MergeFrom(seed.DeepCopy())
			if value == nil {
				delete(seed.Annotations, drain.AnnotationDrain)
			} else {
				metav1.SetMetaDataAnnotation(&seed.ObjectMeta, drain.AnnotationDrain, *value)
			}
			Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
		}
		annotate(new("true"))
		Eventually(func(g Gomega) {
			g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
			g.Expect(shoot.Spec.SeedName).To(HaveValue(Equal(other.Name)))
		}).Should(Succeed())

		By("writing down what is in flight, and proving the gate")
		Eventually(func(g Gomega) {
			configMap := &corev1.ConfigMap{}
			g.Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: v1beta1constants.GardenNamespace,
				Name: removalguard.ConfigMapName}, configMap)).To(Succeed())
			g.Expect(configMap.Data).To(HaveKey(source.Name))
		}).Should(Succeed())

		By("opening the way to the backups that a migration leaves behind")
		open(shoot, source, other)

		By("noting how a move has ended, and ending the drain")
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
		patch = client.MergeFrom(shoot.DeepCopy())
		shoot.Status.SeedName = shoot.Spec.SeedName
		for i := range shoot.Status.LiveMigration.Conditions {
			shoot.Status.LiveMigration.Conditions[i].Status = gardencorev1beta1.ConditionTrue
		}
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
			g.Expect(shoot.Annotations).To(HaveKey(drain.AnnotationResult))
		}).Should(Succeed())
		annotate(nil)
		Eventually(func() bool {
			key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: drain.TableName(source.Name)}
			return apierrors.IsNotFound(garden.Client.Get(ctx, key, &corev1.ConfigMap{}))
		}).Should(BeTrue())

		Eventually(func(g Gomega) {
			uses, err := garden.Used(func(user string) bool { return user == manager })
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(butSeries(uses.Unused(permissions.Granted(rulesOf("livecpm:controller-manager")...)...))).
				To(ConsistOf(sorted(onlyNow)),
					"what is permitted and not used has to go, or to be explained")
		}).Should(Succeed())
	})
})

// butSeries leaves out the patch of events: one that is repeated becomes a series, and whether that happens is chance.
func butSeries(unused []string) []string {
	return slices.DeleteFunc(unused, func(permission string) bool { return permission == "events.k8s.io/events patch" })
}

// onlyNow is what the chart permits the controller manager for what does not happen here, with what uses it.
var onlyNow = map[string]string{
	"core.gardener.cloud/namespacedcloudprofiles list": "a drain that moves a Shoot with such a cloud profile: " +
		"gardener-scheduler's code reads it",
	"core.gardener.cloud/namespacedcloudprofiles watch": "as above; it is cached",
	"core.gardener.cloud/backupentries patch": "an abandonment: the shoot's own entry is taken from the seed that is " +
		"lost (pkg/garden/formerbackups/release.go)",
	"core.gardener.cloud/backupentries/status patch": "as above",
}

// open brings the migration into its last step, and lets the destination ask.
func open(shoot *gardencorev1beta1.Shoot, source, destination *gardencorev1beta1.Seed) {
	GinkgoHelper()
	withBucket(source)
	entry := backupEntryOf(shoot, destination)
	Eventually(func(g Gomega) {
		g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(entry), entry)).To(Succeed())
		g.Expect(entry.Status.SeedName).To(HaveValue(Equal(destination.Name)))
	}).Should(Succeed())
	for _, step := range steps.Table() {
		status := gardencorev1beta1.ConditionTrue
		if step.Condition == steps.Last().Condition {
			status = gardencorev1beta1.ConditionProgressing
		}
		Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
			Type: step.Condition, Status: status, Reason: "Test",
		})).To(Succeed())
	}
	patch := client.MergeFrom(shoot.DeepCopy())
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, steps.AnnotationDeleteFormerBackups, "true")
	Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
	former := &gardencorev1beta1.BackupEntry{}
	Eventually(func() error {
		return garden.Client.Get(ctx, client.ObjectKey{Namespace: entry.Namespace, Name: "source-" + entry.Name},
			former)
	}).Should(Succeed())
	Expect(former.Spec.BucketName).To(Equal(string(source.UID)))
	Expect(former.Spec.SeedName).To(HaveValue(Equal(destination.Name)))
}
