// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// bucket is the name of the seed's bucket, which is the UID of the Seed.
const bucket = "5b2d"

// reported returns the only condition.
func reported(etcd *druidcorev1alpha1.Etcd) *druidcorev1alpha1.Condition {
	if len(etcd.Status.Conditions) == 0 {
		return nil
	}
	return &etcd.Status.Conditions[0]
}

// backedUp is an etcd with what etcd-druid says of its backups.
func backedUp(namespace string, status druidcorev1alpha1.ConditionStatus) *druidcorev1alpha1.Etcd {
	etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}
	etcd.Spec.Backup.Store = &druidcorev1alpha1.StoreSpec{Provider: new(druidcorev1alpha1.StorageProvider("S3")),
		Container: new(bucket)}
	if status != "" {
		etcd.Status.Conditions = []druidcorev1alpha1.Condition{{Type: druidcorev1alpha1.ConditionTypeBackupReady,
			Status: status, Message: "leases of " + namespace}}
	}
	return etcd
}

var _ = Describe("Backups", func() {
	const yes, no = druidcorev1alpha1.ConditionTrue, druidcorev1alpha1.ConditionFalse
	var (
		ctx     = context.Background()
		clock   *testclock.FakeClock
		seed    *gardencorev1beta1.Seed
		objects []client.Object
		lists   int
		failure error
	)
	look := func(current string) (string, error) {
		GinkgoHelper()
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(seed).Build()
		inSeed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).
			WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
				list client.ObjectList, options ...client.ListOption) error {
				lists++
				if failure != nil {
					return failure
				}
				return c.List(ctx, list, options...)
			}}).Build()
		backups, err := dryrun.NewBackups(dryrun.BackupsOptions{Garden: garden, Seed: inSeed, SeedName: "seed-b",
			Reported: reported, Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		return backups.Fact(ctx, current)
	}
	fact := func(current string) string {
		GinkgoHelper()
		value, err := look(current)
		Expect(err).NotTo(HaveOccurred())
		return value
	}
	parse := func(value string) (out seedfacts.Backups) {
		GinkgoHelper()
		Expect(json.Unmarshal([]byte(value), &out)).To(Succeed())
		return out
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		seed = &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b", UID: bucket},
			Spec: gardencorev1beta1.SeedSpec{Backup: &gardencorev1beta1.Backup{Provider: "S3"}}}
		objects, lists, failure = nil, 0, nil
	})

	It("should not be set up without what they need", func() {
		_, err := dryrun.NewBackups(dryrun.BackupsOptions{SeedName: "seed-b", Clock: clock})
		Expect(err).To(MatchError(And(ContainSubstring("Garden"), ContainSubstring("Seed"))))
	})

	It("should count the etcds whose backups arrive, and those whose do not, and say what is wrong with one", func() {
		objects = []client.Object{backedUp("shoot--a", yes), backedUp("shoot--c", no), backedUp("shoot--b", no),
			backedUp("shoot--d", yes)}
		seen := parse(fact(""))
		Expect(seen).To(And(HaveField("Written", 2), HaveField("Failing", 2), HaveField("InOrder()", BeTrue()),
			HaveField("Problem", "BackupReady of Etcd shoot--b/etcd-main is False: leases of shoot--b")))
		Expect(seen.LookedAt.Time).To(BeTemporally("==", clock.Now()))
		objects = objects[1:3]
		Expect(parse(fact("")).InOrder()).To(BeFalse())
	})

	It("should bound what it says", func() {
		etcd := backedUp("shoot--a", no)
		etcd.Status.Conditions[0].Message = strings.Repeat("é", 1000)
		objects = []client.Object{etcd}
		Expect(len(parse(fact("")).Problem)).To(And(BeNumerically(">", 200), BeNumerically("<=", 310)))
	})

	DescribeTable("should not count",
		func(change func(*druidcorev1alpha1.Etcd)) {
			etcd := backedUp("shoot--a", no)
			change(etcd)
			objects = []client.Object{etcd}
			Expect(parse(fact(""))).To(And(HaveField("Written", 0), HaveField("Failing", 0), HaveField("Problem", ""),
				HaveField("InOrder()", BeTrue())))
		},
		Entry("an etcd of which etcd-druid cannot tell yet", func(e *druidcorev1alpha1.Etcd) {
			e.Status.Conditions[0].Status = druidcorev1alpha1.ConditionUnknown
		}),
		Entry("one of which it tells nothing", func(e *druidcorev1alpha1.Etcd) { e.Status.Conditions = nil }),
		Entry("one that is not backed up", func(e *druidcorev1alpha1.Etcd) { e.Spec.Backup.Store = nil }),
		Entry("one without a provider", func(e *druidcorev1alpha1.Etcd) { e.Spec.Backup.Store.Provider = nil }),
		Entry("one that has a bucket of its own", func(e *druidcorev1alpha1.Etcd) {
			e.Spec.Backup.Store.Container = new("of-the-virtual-garden")
		}),
		Entry("one that is being deleted", func(e *druidcorev1alpha1.Etcd) {
			e.DeletionTimestamp, e.Finalizers = new(metav1.NewTime(clock.Now())), []string{"druid.gardener.cloud/x"}
		}),
	)

	It("should not look where the seed has no backup", func() {
		seed.Spec.Backup = nil
		Expect(parse(fact("")).InOrder()).To(BeTrue())
		Expect(lists).To(BeZero())
	})

	It("should look again when it is time to, and each time while something is wrong", func() {
		objects = []client.Object{backedUp("shoot--a", yes)}
		first := fact("")
		clock.Step(9 * time.Minute)
		Expect(fact(first)).To(Equal(first))
		Expect(lists).To(Equal(1))
		clock.Step(time.Minute)
		objects = []client.Object{backedUp("shoot--a", no)}
		second := fact(first)
		Expect(lists).To(Equal(2))
		Expect(parse(second).InOrder()).To(BeFalse())
		clock.Step(time.Minute)
		Expect(fact(second)).To(Equal(second), "the same is wrong")
		Expect(lists).To(Equal(3))
		clock.Step(time.Minute)
		objects = []client.Object{backedUp("shoot--a", yes)}
		third := parse(fact(second))
		Expect(third.InOrder()).To(BeTrue())
		Expect(third.LookedAt.Time).To(BeTemporally("==", clock.Now()))
	})

	It("should not be known if the etcds cannot be read", func() {
		failure = errors.New("no connection")
		_, err := look("")
		Expect(err).To(MatchError(ContainSubstring("failed to list the Etcds of seed seed-b: no connection")))
		seed.Name = "seed-c"
		_, err = look("")
		Expect(err).To(MatchError(ContainSubstring("failed to read Seed seed-b")))
	})
})
