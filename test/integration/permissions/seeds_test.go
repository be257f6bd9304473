// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/integration/framework"
)

// belongings are a Shoot and what belongs to it in the garden.
type belongings struct {
	shoot   *gardencorev1beta1.Shoot
	objects map[string]client.Object
}

// newBelongings creates a Shoot in the seed, and what belongs to it.
func newBelongings(name, seedName string) *belongings {
	GinkgoHelper()
	shoot := newShoot(name, seedName)
	Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
	b := &belongings{shoot: shoot, objects: map[string]client.Object{"shoots": shoot}}
	add := func(resource string, object client.Object) {
		Expect(garden.Client.Create(ctx, object)).To(Succeed())
		b.objects[resource] = object
	}
	// Nobody deletes a ShootState unconfirmed.
	add("shootstates", &gardencorev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: shoot.Namespace,
		Annotations: map[string]string{v1beta1constants.ConfirmationDeletion: "true"},
	}})
	b.objects["backupentries"] = backupEntryOf(shoot, seeds[seedName])
	add("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: gardenerutils.ComputeShootProjectResourceName(name,
			gardenerutils.ShootProjectSecretSuffixSSHKeypair),
		Namespace: shoot.Namespace,
	}})
	add("internalsecrets", &gardencorev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
		Name:      gardenerutils.ComputeShootProjectResourceName(name, gardenerutils.ShootProjectSecretSuffixCAClient),
		Namespace: shoot.Namespace,
	}})
	add("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: gardenerutils.ComputeShootProjectResourceName(name,
			gardenerutils.ShootProjectConfigMapSuffixCACluster),
		Namespace: shoot.Namespace,
	}})
	return b
}

// everything is what gardenlets do with a Shoot of their seed and what belongs to it. Agents patch no ConfigMaps.
var everything = []string{
	"shoots get", "shoots patch", "shoots/status patch",
	"shootstates get", "shootstates patch", "shootstates delete",
	"backupentries patch", "backupentries delete",
	"secrets get", "secrets patch", "secrets delete",
	"internalsecrets get", "internalsecrets patch",
	"configmaps get", "configmaps patch",
}

// permitted returns what of everything somebody may do. Nothing is changed by it.
func (b *belongings) permitted(c client.Client) []string {
	GinkgoHelper()
	var out []string
	for _, what := range everything {
		resource, verb, _ := strings.Cut(what, " ")
		resource, subresource, _ := strings.Cut(resource, "/")
		object := b.objects[resource].DeepCopyObject().(client.Object)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"true"}}}`))
		var err error
		switch {
		case verb == "get":
			err = c.Get(ctx, client.ObjectKeyFromObject(object), object)
		case subresource != "":
			err = c.SubResource(subresource).Patch(ctx, object, patch, client.DryRunAll)
		case verb == "patch":
			err = c.Patch(ctx, object, patch, client.DryRunAll)
		case verb == "delete":
			err = c.Delete(ctx, object, client.DryRunAll)
		}
		if err == nil {
			out = append(out, what)
			continue
		}
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		Expect(err).To(MatchError(ContainSubstring("cannot "+verb)), what)
	}
	return out
}

var _ = Describe("Seeds", func() {
	for _, kind := range []string{"extension", "gardenlet"} {
		It(fmt.Sprintf("should give the agent with the identity of a %s what belongs to the shoots of its seed, "+
			"from the request for a migration to the hand-over, and nothing of other seeds", kind), func() {
			identity := identities[kind]
			a, b, c := clientOf(identity(seedA)), clientOf(identity(seedB)), clientOf(identity(seedC))
			mine, foreign := newBelongings("live-"+kind, seedA), newBelongings("foreign-"+kind, seedC)
			permitted := func(what *belongings, who client.Client) func() []string {
				return func() []string { return what.permitted(who) }
			}

			By("before")
			Eventually(permitted(mine, a)).Should(Equal(everything))
			Expect(mine.permitted(b)).To(BeEmpty())
			Expect(mine.permitted(c)).To(BeEmpty())

			By("in the course of it")
			Expect(garden.Bind(ctx, mine.shoot, seedB)).To(Succeed())
			Eventually(permitted(mine, b)).Should(Equal(everything))
			Expect(mine.permitted(a)).To(Equal(everything))
			Expect(mine.permitted(c)).To(BeEmpty())

			By("after the hand-over")
			patch := client.MergeFrom(mine.shoot.DeepCopy())
			mine.shoot.Status.SeedName = new(seedB)
			Expect(garden.Client.Status().Patch(ctx, mine.shoot, patch)).To(Succeed())
			entry := mine.objects["backupentries"].(*gardencorev1beta1.BackupEntry)
			patch = client.MergeFrom(entry.DeepCopy())
			entry.Spec.SeedName, entry.Spec.BucketName = new(seedB), string(seeds[seedB].UID)
			Expect(garden.Client.Patch(ctx, entry, patch)).To(Succeed())
			Eventually(permitted(mine, a)).Should(BeEmpty())
			Expect(mine.permitted(b)).To(Equal(everything))

			By("never")
			Expect(foreign.permitted(a)).To(BeEmpty())
			Expect(foreign.permitted(b)).To(BeEmpty())
			Expect(foreign.permitted(c)).To(Equal(everything))
			for _, who := range []client.Client{a, b, c} {
				Expect(who.Delete(ctx, mine.shoot, client.DryRunAll)).To(WithTransform(apierrors.IsForbidden, BeTrue()))
				Expect(who.SubResource("binding").Patch(ctx, mine.shoot,
					client.RawPatch(types.MergePatchType, []byte(`{"spec":{"seedName":"seed-c"}}`)), client.DryRunAll)).
					To(WithTransform(apierrors.IsForbidden, BeTrue()), "only operators and the drain move shoots")
			}
		})

		It(fmt.Sprintf("should let the agent with the identity of a %s list "+
			"only what belongs to its seed", kind), func() {
			c := clientOf(identities[kind](seedB))
			ofSeed := func(name string) client.MatchingLabels {
				return client.MatchingLabels{v1beta1constants.LabelPrefixSeedName + name: "true"}
			}
			Expect(c.List(ctx, &gardencorev1beta1.ShootList{}, ofSeed(seedB))).To(Succeed())
			for what, err := range map[string]error{
				"Shoots of another seed": c.List(ctx, &gardencorev1beta1.ShootList{}, ofSeed(seedA)),
				"all Shoots":             c.List(ctx, &gardencorev1beta1.ShootList{}),
				"Secrets of a project": c.List(ctx, &corev1.SecretList{},
					client.InNamespace(framework.ProjectNamespace)),
				"Secrets of the garden": c.List(ctx, &corev1.SecretList{},
					client.InNamespace(v1beta1constants.GardenNamespace)),
				"Secrets of another seed": c.List(ctx, &corev1.SecretList{}, client.InNamespace("seed-"+seedA)),
				"ShootStates":             c.List(ctx, &gardencorev1beta1.ShootStateList{}),
				"installations on other seeds": c.List(ctx, &gardencorev1beta1.ControllerInstallationList{},
					client.MatchingFields{"spec.seedRef.name": seedA}),
			} {
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
			}
			Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace("seed-"+seedB))).To(Succeed())
			Expect(c.List(ctx, &gardencorev1beta1.ControllerInstallationList{},
				client.MatchingFields{"spec.seedRef.name": seedB})).To(Succeed())
		})
	}

	It("should let the agent read the Seed at the other end, and change it by no means", func() {
		c := clientOf(extension(seedB))
		Expect(c.Get(ctx, client.ObjectKey{Name: seedA}, &gardencorev1beta1.Seed{})).To(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"true"}}}`))
		for what, err := range map[string]error{
			"patch":        c.Patch(ctx, seeds[seedA].DeepCopy(), patch, client.DryRunAll),
			"patch status": c.Status().Patch(ctx, seeds[seedA].DeepCopy(), patch, client.DryRunAll),
			"delete":       c.Delete(ctx, seeds[seedA].DeepCopy(), client.DryRunAll),
			"list":         c.List(ctx, &gardencorev1beta1.SeedList{}),
		} {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		}
	})

	It("should let agents read the region distances of the garden namespace if they are told to, and write no "+
		"ConfigMap there", func() {
		list := func(config *rest.Config) error {
			return clientOf(config).List(ctx, &corev1.ConfigMapList{},
				client.InNamespace(v1beta1constants.GardenNamespace))
		}
		Expect(list(extension(seedA))).To(Succeed())
		Expect(list(extension(seedC))).To(WithTransform(apierrors.IsForbidden, BeTrue()))
		c := clientOf(extension(seedA))
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "regions", Namespace: v1beta1constants.GardenNamespace},
		}
		Expect(c.Patch(ctx, configMap, client.RawPatch(types.MergePatchType, []byte(`{"data":{}}`)), client.DryRunAll)).
			To(WithTransform(apierrors.IsForbidden, BeTrue()))
		Expect(c.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: v1beta1constants.GardenNamespace}},
			client.DryRunAll)).To(WithTransform(apierrors.IsForbidden, BeTrue()))
	})

	// If this fails, Gardener has become stricter: docs/security.md says it among what is not kept.
	It("should not keep a seed from deleting Secrets and ConfigMaps that nothing in Gardener refers to", func() {
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "regions", Namespace: v1beta1constants.GardenNamespace},
		}
		Expect(clientOf(extension(seedC)).Delete(ctx, configMap, client.DryRunAll)).To(Succeed())
		Expect(clientOf(gardenlet(seedC)).Delete(ctx, configMap, client.DryRunAll)).To(Succeed())
	})
})

var _ = Describe("UpdateRestriction", func() {
	It("should let gardenlets write by what others come to trust a shoot, and no agent with another identity, not "+
		"even without a change", func() {
		shoot := newShoot("trusted", seedB)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: gardenerutils.ComputeShootProjectResourceName(shoot.Name,
				gardenerutils.ShootProjectConfigMapSuffixCACluster),
			Namespace: shoot.Namespace, Labels: map[string]string{v1beta1constants.LabelUpdateRestriction: "true"},
		}}
		refused := func(identity *rest.Config) {
			GinkgoHelper()
			c := clientOf(identity)
			for verb, write := range map[string]func() error{
				"create": func() error { return c.Create(ctx, configMap.DeepCopy(), client.DryRunAll) },
				"patch": func() error {
					return c.Patch(ctx, configMap.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")),
						client.DryRunAll)
				},
			} {
				// Who is a user of a seed has it when the authorizer has heard of the shoot.
				Eventually(write).Should(MatchError(ContainSubstring("update-restriction.gardener.cloud")), verb)
			}
		}
		Eventually(func() error { return clientOf(gardenlet(seedB)).Create(ctx, configMap) }).Should(Succeed())
		refused(extension(seedB))
		refused(as(ownIdentity, "system:masters"))
	})
})

var _ = Describe("SeedRestriction", func() {
	for _, kind := range []string{"extension", "gardenlet"} {
		It(fmt.Sprintf("should refuse what the agent with the identity of a %s would create "+
			"for the shoots of other seeds", kind), func() {
			own, foreign := newShoot("own-"+kind, seedB), newShoot("bare-"+kind, seedC)
			for _, shoot := range []*gardencorev1beta1.Shoot{own, foreign} {
				Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
			}
			c := clientOf(identities[kind](seedB))
			create := func(object client.Object) func() error {
				return func() error { return c.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll) }
			}
			meta := func(shoot *gardencorev1beta1.Shoot, suffix string) metav1.ObjectMeta {
				return metav1.ObjectMeta{Name: gardenerutils.ComputeShootProjectResourceName(shoot.Name, suffix),
					Namespace: shoot.Namespace}
			}
			objects := func(shoot *gardencorev1beta1.Shoot) map[string]client.Object {
				seedName := *shoot.Spec.SeedName
				return map[string]client.Object{
					"ShootState": &gardencorev1beta1.ShootState{
						ObjectMeta: metav1.ObjectMeta{Name: shoot.Name, Namespace: shoot.Namespace},
					},
					"Secret": &corev1.Secret{
						ObjectMeta: meta(shoot, gardenerutils.ShootProjectSecretSuffixSSHKeypair),
					},
					"InternalSecret": &gardencorev1beta1.InternalSecret{
						ObjectMeta: meta(shoot, gardenerutils.ShootProjectSecretSuffixCAClient),
					},
					"ConfigMap": &corev1.ConfigMap{
						ObjectMeta: meta(shoot, gardenerutils.ShootProjectConfigMapSuffixCACluster),
					},
					"BackupEntry": &gardencorev1beta1.BackupEntry{
						ObjectMeta: metav1.ObjectMeta{Name: "entry-" + shoot.Name, Namespace: shoot.Namespace},
						Spec: gardencorev1beta1.BackupEntrySpec{BucketName: string(seeds[seedName].UID),
							SeedName: &seedName},
					},
				}
			}
			for what, object := range objects(own) {
				Eventually(create(object)).Should(Succeed(), what)
			}
			refused := objects(foreign)
			refused["BackupEntry in the bucket of another seed"] = &gardencorev1beta1.BackupEntry{
				ObjectMeta: metav1.ObjectMeta{Name: "entry-elsewhere", Namespace: own.Namespace},
				Spec: gardencorev1beta1.BackupEntrySpec{BucketName: string(seeds[seedC].UID),
					SeedName: new(seedB)},
			}
			refused["BackupBucket"] = &gardencorev1beta1.BackupBucket{
				ObjectMeta: metav1.ObjectMeta{Name: "bucket"},
				Spec: gardencorev1beta1.BackupBucketSpec{
					Provider: gardencorev1beta1.BackupBucketProvider{Type: framework.ProviderType,
						Region: "region-seed-c"},
					CredentialsRef: seeds[seedC].Spec.Backup.CredentialsRef, SeedName: new(seedC),
				},
			}
			refused["Secret of nobody"] = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "anything", Namespace: own.Namespace},
			}
			refused["ConfigMap of nobody"] = &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "anything", Namespace: own.Namespace},
			}
			refused["Seed"] = &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "another"},
				Spec: seeds[seedC].Spec}
			for _, what := range sorted(refused) {
				Eventually(create(refused[what])).Should(And(
					WithTransform(apierrors.IsForbidden, BeTrue()),
					MatchError(ContainSubstring(`does not belong to seed "seed-b"`)),
				), what)
			}
		})
	}
})

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
