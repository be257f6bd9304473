// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	corebackupentry "github.com/gardener/gardener/pkg/component/garden/backupentry"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("The backups in the bucket of the source", func() {
	const (
		namespace = "shoot--demo--live"
		entryName = "shoot--demo--live--uid"
		former    = "source-" + entryName
		bucket    = "uid-of-seed-a"
	)
	var (
		ctx          = context.Background()
		key          = client.ObjectKey{Namespace: "garden-demo", Name: former}
		garden, seed client.WithWatch
		b            *botanist.Botanist
		room         *backups.Backups
		// tasks are those that etcd-druid was given. It is done with each of them at once, or fails.
		tasks  []druidcorev1alpha1.EtcdCopyBackupsTask
		failed error
		// raced is what the gardenlet does right before the entry is deleted in the garden.
		raced func(c client.Client) error
	)

	BeforeEach(func() {
		tasks, failed, raced = nil, nil, func(client.Client) error { return nil }
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "live"}}
		garden = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(shoot).Build(), gardenletFor(key, func(c client.Client) error { return raced(c) }))
		seed = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			&extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: former,
				Finalizers: []string{"extensions.gardener.cloud/backupentry"}},
				Spec: extensionsv1alpha1.BackupEntrySpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}}},
			secretOf("garden", "entry-"+former, ""), secretOf(namespace, "source-etcd-backup", bucket),
			secretOf(namespace, "etcd-backup", "uid-of-seed-b"),
		).Build(), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object,
			opts ...client.CreateOption) error {
			if task, ok := object.(*druidcorev1alpha1.EtcdCopyBackupsTask); ok {
				if failed != nil {
					return failed
				}
				tasks = append(tasks, *task.DeepCopy())
				task.Status.ObservedGeneration = ptr.To(task.Generation)
				task.Status.Conditions = []druidcorev1alpha1.Condition{{Status: druidcorev1alpha1.ConditionTrue,
					Type: druidcorev1alpha1.EtcdCopyBackupsTaskSucceeded}}
			}
			return c.Create(ctx, object, opts...)
		}})
		clientSet := fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		b = &botanist.Botanist{Operation: &gardeneroperation.Operation{Logger: logr.Discard(), GardenClient: garden,
			SeedClientSet: clientSet, Seed: &seedpkg.Seed{},
			Shoot: &shootpkg.Shoot{ControlPlaneNamespace: namespace, BackupEntryName: entryName,
				Components: &shootpkg.Components{
					ControlPlane: &shootpkg.ControlPlane{},
					SourceBackupEntry: corebackupentry.New(logr.Discard(), garden, &corebackupentry.Values{
						Namespace: key.Namespace, Name: key.Name, SeedName: ptr.To("seed-b"),
					}, time.Millisecond, patience.Eventually),
				}}}}
		b.Shoot.SetInfo(shoot)
		b.Seed.SetInfo(&gardencorev1beta1.Seed{Spec: gardencorev1beta1.SeedSpec{
			Backup: &gardencorev1beta1.Backup{Provider: "other"}}})
		var err error
		room, err = backups.New(backups.Options{GardenAPIReader: garden, SeedClientSet: clientSet, SeedName: "seed-b"})
		Expect(err).NotTo(HaveOccurred())
	})

	asked := func() bool {
		GinkgoHelper()
		shoot := &gardencorev1beta1.Shoot{}
		Expect(garden.Get(ctx, client.ObjectKeyFromObject(b.Shoot.GetInfo()), shoot)).To(Succeed())
		_, out := shoot.Annotations[steps.AnnotationDeleteFormerBackups]
		return out
	}
	left := func(c client.Client, objects ...client.Object) (out []string) {
		GinkgoHelper()
		for _, object := range objects {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err == nil {
				out = append(out, object.GetName())
			} else {
				Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			}
		}
		return out
	}
	entry := func() *gardencorev1beta1.BackupEntry {
		return &gardencorev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	task := func() client.Object {
		return &druidcorev1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "live"}}
	}

	It("should be copied to where the destination's are, and stay until they are deleted", func() {
		Expect(backups.CopyFormer(ctx, b, bucket)).To(Succeed())
		Expect(tasks).To(HaveLen(1))
		store := func(provider, container, secret string) types.GomegaMatcher {
			return And(HaveField("Provider", HaveValue(BeEquivalentTo(provider))),
				HaveField("Container", HaveValue(Equal(container))), HaveField("SecretRef.Name", secret),
				HaveField("Prefix", entryName+"/etcd-main"))
		}
		Expect(tasks[0].Spec.SourceStore).To(store("local", bucket, "source-etcd-backup"))
		Expect(tasks[0].Spec.TargetStore).To(store("other", "uid-of-seed-b", "etcd-backup"))
		Expect(tasks[0].Spec.WaitForFinalSnapshot).To(BeNil(), "the source has saved its last one long ago")
		Expect(tasks[0].Spec.MaxBackups).To(BeNil(), "all of them")
		Expect(left(seed, task())).To(BeEmpty())
		Expect(left(garden, entry())).To(ConsistOf(former))

		Expect(backups.CopyFormer(ctx, b, bucket)).To(Succeed(), "it can be repeated")
		Expect(tasks).To(HaveLen(2))
		Expect(backups.RemoveFormer(ctx, b)).To(Succeed())
		Expect(left(garden, entry())).To(BeEmpty())
	})

	It("should not be copied again when their deletion has begun", func() {
		Expect(backups.CopyFormer(ctx, b, bucket)).To(Succeed())
		Expect(garden.Delete(ctx, entry())).To(Succeed())
		Expect(left(garden, entry())).To(ConsistOf(former), "the gardenlet's finalizer keeps it")
		Expect(backups.CopyFormer(ctx, b, bucket)).To(Succeed())
		Expect(tasks).To(HaveLen(1))
		Expect(room.KeepFormer(ctx, b)).To(MatchError(ContainSubstring("is being deleted, and the backups with it")))
	})

	It("should stay where they are when they cannot be copied, without any way to them", func() {
		failed = errors.New("etcd-druid does not answer")
		Expect(backups.CopyFormer(ctx, b, bucket)).To(MatchError(ContainSubstring("etcd-druid does not answer")))
		failed = nil
		Expect(seed.Create(ctx, task())).To(Succeed())

		Expect(room.KeepFormer(ctx, b)).To(Succeed())
		Expect(left(garden, entry())).To(BeEmpty())
		Expect(left(seed, task(), &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: former}},
			secretOf("garden", "entry-"+former, ""), secretOf(namespace, "source-etcd-backup", ""),
			secretOf(namespace, "etcd-backup", ""))).To(ConsistOf("etcd-backup"))
		Expect(room.KeepFormer(ctx, b)).To(Succeed(), "it can be repeated")
	})

	It("should not be asked for any more when they stay and the entry has never come", func() {
		Expect(garden.Patch(ctx, b.Shoot.GetInfo().DeepCopy(), client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"`+steps.AnnotationDeleteFormerBackups+`":"true"}}}`)))).To(Succeed())
		Expect(asked()).To(BeTrue())
		Expect(room.KeepFormer(ctx, b)).To(Succeed())
		Expect(asked()).To(BeFalse())
	})

	It("should not be deleted by a gardenlet that takes the entry again in that moment", func() {
		Expect(backups.CopyFormer(ctx, b, bucket)).To(Succeed())
		raced = func(c client.Client) error {
			current := entry()
			if err := c.Get(ctx, key, current); err != nil {
				return err
			}
			Expect(current.Finalizers).To(BeEmpty(), "an entry with the finalizer is deleted with the backups")
			current.Finalizers = []string{gardencorev1beta1.GardenerName}
			return c.Update(ctx, current)
		}
		Expect(room.KeepFormer(ctx, b)).NotTo(Succeed())
		current := entry()
		Expect(garden.Get(ctx, key, current)).To(Succeed())
		Expect(current.DeletionTimestamp).To(BeNil())

		raced = func(client.Client) error { return nil }
		Expect(room.KeepFormer(ctx, b)).To(Succeed())
		Expect(left(garden, entry())).To(BeEmpty())
	})
})

func secretOf(namespace, name, bucket string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Finalizers: []string{"extensions.gardener.cloud/backupentry"}},
		Data: map[string][]byte{v1beta1constants.DataKeyBackupBucketName: []byte(bucket)},
	}
}

// gardenletFor does with a backup entry what the gardenlet does: it takes it, and, if it is deleted by force, deletes
// the backups and lets it go. Right before a deletion something else may happen.
func gardenletFor(key client.ObjectKey, raced func(client.Client) error) interceptor.Funcs {
	reconciled := func(ctx context.Context, c client.Client) error {
		entry := &gardencorev1beta1.BackupEntry{}
		if err := c.Get(ctx, key, entry); err != nil {
			return err
		}
		delete(entry.Annotations, v1beta1constants.GardenerOperation)
		entry.Finalizers = []string{gardencorev1beta1.GardenerName}
		entry.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded,
			// In whole seconds, after the moment of the request.
			LastUpdateTime: metav1.NewTime(time.Now().Add(2 * time.Second)),
		}
		return c.Update(ctx, entry)
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if err := c.Create(ctx, object, opts...); err != nil {
				return err
			}
			return reconciled(ctx, c)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if err := c.Patch(ctx, object, patch, opts...); err != nil {
				return err
			}
			if entry, ok := object.(*gardencorev1beta1.BackupEntry); ok && entry.DeletionTimestamp == nil &&
				entry.Annotations[v1beta1constants.GardenerOperation] != "" {
				return reconciled(ctx, c)
			}
			return nil
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			if err := raced(c); err != nil {
				return err
			}
			if err := c.Delete(ctx, object, opts...); err != nil {
				return err
			}
			entry := &gardencorev1beta1.BackupEntry{}
			if err := c.Get(ctx, key, entry); apierrors.IsNotFound(err) {
				return nil
			} else if err != nil || entry.Annotations[gardencorev1beta1.BackupEntryForceDeletion] != "true" {
				return err
			}
			entry.Finalizers = nil
			return c.Update(ctx, entry)
		},
	}
}
