// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/permissions"
)

// newShoot returns a shoot in the default domain of the seeds.
func newShoot(name, seedName string) *gardencorev1beta1.Shoot {
	shoot := framework.NewShoot(name, seedName)
	shoot.Spec.DNS.Domain = new(name + ".demo." + defaultDomain)
	return shoot
}

// migratable creates a Shoot in seed-a with its BackupEntry, for agents that do in the garden all that a migration
// takes.
func migratable(name string) (*gardencorev1beta1.Shoot, client.ObjectKey) {
	GinkgoHelper()
	shoot := newShoot(name, seedA)
	// It publishes the keys of its issuer, and has credentials for its monitoring.
	shoot.Annotations = map[string]string{
		v1beta1constants.AnnotationAuthenticationIssuer: v1beta1constants.AnnotationAuthenticationIssuerManaged,
	}
	shoot.Spec.Purpose = new(gardencorev1beta1.ShootPurposeEvaluation)
	Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())

	entry := backupEntryOf(shoot, seeds[seedA])
	Eventually(func(g Gomega) {
		g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(entry), entry)).To(Succeed())
		g.Expect(entry.Status.SeedName).To(HaveValue(Equal(seedA)))
	}).Should(Succeed())
	return shoot, client.ObjectKeyFromObject(entry)
}

// withBucket creates the BackupBucket of the seed if need be.
func withBucket(seed *gardencorev1beta1.Seed) {
	GinkgoHelper()
	bucket := &gardencorev1beta1.BackupBucket{
		ObjectMeta: metav1.ObjectMeta{Name: string(seed.UID)},
		Spec: gardencorev1beta1.BackupBucketSpec{
			Provider: gardencorev1beta1.BackupBucketProvider{Type: framework.ProviderType,
				Region: seed.Spec.Provider.Region},
			CredentialsRef: seed.Spec.Backup.CredentialsRef, SeedName: &seed.Name,
		},
	}
	Expect(client.IgnoreAlreadyExists(garden.Client.Create(ctx, bucket))).To(Succeed())
}

// backupEntryOf creates the BackupEntry of the Shoot in the bucket of the seed.
func backupEntryOf(shoot *gardencorev1beta1.Shoot, seed *gardencorev1beta1.Seed) *gardencorev1beta1.BackupEntry {
	GinkgoHelper()
	withBucket(seed)
	name, err := gardenerutils.GenerateBackupEntryName(shoot.Status.TechnicalID, shoot.Status.UID, shoot.UID)
	Expect(err).NotTo(HaveOccurred())
	owner := metav1.NewControllerRef(shoot, gardencorev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	owner.BlockOwnerDeletion = new(false)
	entry := &gardencorev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: shoot.Namespace,
			OwnerReferences: []metav1.OwnerReference{*owner}},
		Spec: gardencorev1beta1.BackupEntrySpec{BucketName: string(seed.UID), SeedName: &seed.Name},
	}
	// Admission may not have heard of the bucket yet.
	Eventually(func() error { return garden.Client.Create(ctx, entry) }).Should(Succeed())
	return entry
}

// withExtensions lets both seeds have the extensions that the shoots need.
func withExtensions() {
	GinkgoHelper()
	for _, seedName := range []string{seedA, seedB} {
		installed := &gardencorev1beta1.ControllerInstallation{
			ObjectMeta: metav1.ObjectMeta{Name: "provider-local-" + seedName},
			Spec: gardencorev1beta1.ControllerInstallationSpec{
				RegistrationRef: corev1.ObjectReference{Name: "provider-local"},
				SeedRef:         &corev1.ObjectReference{Name: seedName},
			},
		}
		if err := garden.Client.Create(ctx, installed); apierrors.IsAlreadyExists(err) {
			continue
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
		for conditionType, status := range map[gardencorev1beta1.ConditionType]gardencorev1beta1.ConditionStatus{
			gardencorev1beta1.ControllerInstallationValid:       gardencorev1beta1.ConditionTrue,
			gardencorev1beta1.ControllerInstallationInstalled:   gardencorev1beta1.ConditionTrue,
			gardencorev1beta1.ControllerInstallationHealthy:     gardencorev1beta1.ConditionTrue,
			gardencorev1beta1.ControllerInstallationProgressing: gardencorev1beta1.ConditionFalse,
		} {
			installed.Status.Conditions = append(installed.Status.Conditions, gardencorev1beta1.Condition{
				Type: conditionType, Status: status, LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
			})
		}
		Expect(garden.Client.Status().Update(ctx, installed)).To(Succeed())
	}
}

var _ = Describe("A migration", Ordered, func() {
	BeforeAll(func() {
		withExtensions()
		Expect(garden.InstallPolicies(ctx)).To(Succeed())
	})

	for _, kind := range []string{"extension", "gardenlet"} {
		It(fmt.Sprintf("should get all that it asks of the garden with the identity of a %s, "+
			"but for one thing that the controller manager does", kind), func() {
			gardenlets()
			startControllerManager()
			shoot, entry := migratable("flow-" + kind)
			a, b := newParty(seedA, identities[kind](seedA)), newParty(seedB, identities[kind](seedB))
			if kind == "gardenlet" {
				mayReadSeeds(seedA, seedB)
			}
			a.tell()
			b.tell()
			published := a.publish(shoot)
			failures := migrate(shoot, a, b)

			By("being refused nothing but a BackupEntry for the other seed's bucket, and what the authorizer had not " +
				"heard of yet")
			var refusedEntries int
			for _, err := range forbidden(failures) {
				if strings.Contains(err.Error(), "awaited from livecpm-controller-manager") {
					Expect(err).To(MatchError(ContainSubstring("only allowed during shoot Restore operation")))
					refusedEntries++
					continue
				}
				Expect(err).To(MatchError(
					Or(ContainSubstring("no relationship found"), ContainSubstring("does not belong to seed"))))
			}
			Expect(refusedEntries).To(BeNumerically(">", 0))

			By("leaving nothing behind in the garden")
			former := client.ObjectKey{Namespace: entry.Namespace, Name: "source-" + entry.Name}
			Expect(garden.Client.Get(ctx, former, &gardencorev1beta1.BackupEntry{})).
				To(WithTransform(apierrors.IsNotFound, BeTrue()))
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), &gardencorev1beta1.ShootState{})).
				To(WithTransform(apierrors.IsNotFound, BeTrue()))
			current := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), current)).To(Succeed())
			Expect(current.Annotations).
				NotTo(Or(HaveKey(steps.AnnotationDeleteFormerBackups), HaveKey(steps.AnnotationIntent)))
			own := &gardencorev1beta1.BackupEntry{}
			Expect(garden.Client.Get(ctx, entry, own)).To(Succeed())
			Expect(own.Spec.BucketName).To(Equal(string(seeds[seedB].UID)))

			By("leaving what its gardenlet has published as it was")
			configMap := &corev1.ConfigMap{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(published), configMap)).To(Succeed())
			Expect(configMap).To(Equal(published))

			By("letting the source rest, although it may not read the Shoot any more")
			Eventually(func() error { return a.pass(client.ObjectKeyFromObject(shoot)) }).Should(Succeed())
			Expect(clientOf(identities[kind](seedA)).Get(ctx, client.ObjectKeyFromObject(shoot), current)).
				To(WithTransform(apierrors.IsForbidden, BeTrue()))

			if kind == "extension" {
				By("having used all that the chart permits")
				uses, err := garden.Used(func(user string) bool {
					return user == extensionName(seedA) || user == extensionName(seedB)
				})
				Expect(err).NotTo(HaveOccurred())
				var byRBAC permissions.Uses
				for _, use := range uses {
					if strings.HasPrefix(use.Reason, "RBAC: ") {
						byRBAC = append(byRBAC, use)
					}
				}
				Expect(byRBAC.Unused(permissions.Granted(rulesOf("livecpm:extension")...)...)).To(BeEmpty())
			}
		})
	}

	It("should use all that the chart permits to an identity of its own, which may do so in all seeds", func() {
		gardenlets()
		startControllerManager()
		shoot, _ := migratable("flow-own")
		identity := func(string) *rest.Config { return as(ownIdentity) }
		a, b := newParty(seedA, identity(seedA)), newParty(seedB, identity(seedB))
		a.tell()
		b.tell()
		a.publish(shoot)
		Expect(forbidden(migrate(shoot, a, b))).To(BeEmpty())

		uses, err := garden.Used(func(user string) bool { return user == ownIdentity })
		Expect(err).NotTo(HaveOccurred())
		unused := butSeries(uses.Unused(permissions.Granted(rulesOf("livecpm:agent")...)...))
		Expect(unused).To(ConsistOf(sorted(onlySomeShoots)),
			"what is permitted and not used has to go, or to be explained")
	})
})

// onlySomeShoots is what the chart permits to an identity of its own for Shoots that this one is not, with what uses
// it.
var onlySomeShoots = map[string]string{
	"core.gardener.cloud/exposureclasses get": "botanist.Factory, if the Shoot has one",
	"core.gardener.cloud/namespacedcloudprofiles get": "botanist.Factory, if the Shoot has one instead of a " +
		"CloudProfile",
	"core.gardener.cloud/secretbindings list":           "Gardener's shoot.Builder, if the Shoot names one",
	"core.gardener.cloud/secretbindings watch":          "as above; it is cached",
	"security.gardener.cloud/credentialsbindings list":  "Gardener's shoot.Builder, if the Shoot names one",
	"security.gardener.cloud/credentialsbindings watch": "as above; it is cached",
	"security.gardener.cloud/workloadidentities list": "Gardener's shoot.Builder, if credentials of the " +
		"Shoot are one",
	"security.gardener.cloud/workloadidentities watch": "as above; it is cached",
	"/secrets update": "Botanist.SyncPublicServiceAccountKeys, if the keys have changed",
}

// mayReadSeeds does for gardenlets' identities what rbac.subjects of the chart does.
func mayReadSeeds(seedNames ...string) {
	GinkgoHelper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "gardenlets-read-seeds"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "livecpm:extension"},
	}
	regions := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "gardenlets-read-regions", Namespace: v1beta1constants.GardenNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "livecpm:extension"},
	}
	for _, name := range seedNames {
		subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
			Name: v1beta1constants.SeedUserNamePrefix + name}
		binding.Subjects, regions.Subjects = append(binding.Subjects, subject), append(regions.Subjects, subject)
	}
	for _, object := range []client.Object{binding, regions} {
		Expect(garden.Client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func() { Expect(garden.Client.Delete(ctx, object)).To(Succeed()) })
	}
}

// rulesOf returns the rules of the roles and cluster roles with the name, as they are in the garden.
func rulesOf(name string) []rbacv1.PolicyRule {
	GinkgoHelper()
	var out []rbacv1.PolicyRule
	clusterRole := &rbacv1.ClusterRole{}
	Expect(garden.Client.Get(ctx, client.ObjectKey{Name: name}, clusterRole)).To(Succeed())
	out = append(out, clusterRole.Rules...)
	roles := &rbacv1.RoleList{}
	Expect(garden.Client.List(ctx, roles)).To(Succeed())
	for _, role := range roles.Items {
		if role.Name == name || strings.HasPrefix(role.Name, name+":") {
			out = append(out, role.Rules...)
		}
	}
	return out
}
