// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/patience"
)

var begin = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)

// migrated is a shoot whose migration was completed ten minutes after the beginning.
func migrated() *gardencorev1beta1.Shoot {
	clk := testclock.NewFakeClock(begin)
	all := conditions.Initialize(clk, nil)
	clk.Step(10 * time.Minute)
	for i := range all {
		all[i].Status, all[i].LastTransitionTime = gardencorev1beta1.ConditionTrue, metav1.NewTime(clk.Now())
		if all[i].Type == steps.First().Condition {
			all[i].LastTransitionTime = metav1.NewTime(begin)
		}
	}
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", UID: "shoot-uid", Generation: 3},
		Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b"), ControlPlane: &gardencorev1beta1.ControlPlane{
			HighAvailability: &gardencorev1beta1.HighAvailability{}}},
		Status: gardencorev1beta1.ShootStatus{
			SeedName: new("seed-b"), TechnicalID: namespace, UID: "shoot-uid", ObservedGeneration: 3,
			Conditions: []gardencorev1beta1.Condition{
				{Type: "APIServerAvailable", Status: gardencorev1beta1.ConditionTrue},
			},
			LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded},
			LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: all},
		},
	}
}

func backupEntry() *gardencorev1beta1.BackupEntry {
	return &gardencorev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: namespace + "--shoot-uid"},
		Spec:       gardencorev1beta1.BackupEntrySpec{BucketName: "seed-b-uid", SeedName: new("seed-b")},
		Status: gardencorev1beta1.BackupEntryStatus{
			SeedName: new("seed-b"),
			LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded},
		},
	}
}

var _ = Describe("Verify", func() {
	var in inspect.VerificationInput

	BeforeEach(func() {
		in = inspect.VerificationInput{
			Now: metav1.NewTime(begin.Add(time.Hour)), Shoot: migrated(), Source: "seed-a",
			DestinationBucket: "seed-b-uid",
			BackupEntry:       backupEntry(),
			Secrets: []inspect.SecretDigest{{Name: "ca", Digest: "1", Issued: new(begin.Add(-time.Hour))},
				{Name: "ca-etcd", Digest: "2"}},
			Kept:   []inspect.SecretDigest{{Name: "ca", Digest: "1"}, {Name: "ca-etcd", Digest: "2"}},
			KeptIn: "the ShootState",
			Records: []inspect.Resolution{
				{Name: "api.live.example", Values: []string{"10.0.0.2"}, Resolved: []string{"10.0.0.2"}},
			},
			Unknown: map[preflight.Name]string{},
		}
		for _, name := range []string{"etcd-main", "etcd-events"} {
			etcd := inspect.EtcdData{Name: name, ClusterID: "c1", Revision: 42}
			for i := range 3 {
				etcd.Members = append(etcd.Members,
					inspect.MemberData{Name: fmt.Sprintf("seed-b-%s-%d", name, i), Hash: 7, Compacted: 40})
			}
			in.Etcds = append(in.Etcds, etcd)
		}
	})

	It("should prove a migration after which everything is in order", func() {
		result := inspect.Verify(in)
		Expect(result).To(And(HaveField("Failed", 0), HaveField("Unknown", 0), HaveField("Source", "seed-a"),
			HaveField("Destination", "seed-b")))
		Expect(result.Checks).To(HaveLen(9))
		for _, check := range result.Checks {
			Expect(check.Status).To(Equal(view.Pass), "%s: %s", check.Name, check.Evidence)
			Expect(check.Evidence).NotTo(BeEmpty())
		}
	})

	It("should expect one member of etcds that are not highly available", func() {
		in.Shoot.Spec.ControlPlane = nil
		for i := range in.Etcds {
			in.Etcds[i].Members = in.Etcds[i].Members[:1]
		}
		Expect(inspect.Verify(in).Failed).To(BeZero())
	})

	DescribeTable("should find what is wrong",
		func(name preflight.Name, status view.Status, evidence string, spoil func()) {
			spoil()
			result := inspect.Verify(in)
			for _, check := range result.Checks {
				if check.Name != name {
					Expect(check.Status).To(Equal(view.Pass), "%s: %s", check.Name, check.Evidence)
					continue
				}
				Expect(check.Status).To(Equal(status), check.Evidence)
				Expect(check.Evidence).To(ContainSubstring(evidence))
				if status == view.Fail {
					Expect(check.Remedy).NotTo(BeEmpty())
				}
			}
			Expect(result.Failed + result.Unknown).To(Equal(1))
		},
		Entry("a condition that is not True", inspect.CheckCompleted, view.Fail, "the state is", func() {
			in.Shoot.Status.LiveMigration.Conditions[7].Status = gardencorev1beta1.ConditionProgressing
		}),
		Entry("no migration at all", inspect.CheckCompleted, view.Fail,
			"None", func() { in.Shoot.Status.LiveMigration = nil }),
		Entry("a failed reconciliation", inspect.CheckHandedOver, view.Fail, "Reconcile, Failed", func() {
			in.Shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateFailed
		}),
		Entry("a generation that nobody has seen", inspect.CheckHandedOver, view.Fail,
			"generation 3 is observed, the shoot has 4", func() { in.Shoot.Generation = 4 }),
		Entry("a source that it is still in", inspect.CheckHandedOver, view.Fail,
			"was given as the source", func() { in.Source = "seed-b" }),
		Entry("a shoot that is not well", inspect.CheckShootHealth, view.Fail, "APIServerAvailable is False", func() {
			in.Shoot.Status.Conditions[0].Status = gardencorev1beta1.ConditionFalse
		}),
		Entry("a member that is not well", inspect.CheckEtcdMembers, view.Fail,
			"it knows no leader", func() { in.Etcds[0].Members[1].Problem = "it knows no leader" }),
		Entry("a learner", inspect.CheckEtcdMembers, view.Fail,
			"is a learner", func() { in.Etcds[0].Members[1].Learner = true }),
		Entry("a member in the source", inspect.CheckEtcdMembers, view.Fail,
			"seed-a-etcd-main-1 does not belong to seed seed-b",
			func() { in.Etcds[0].Members[1].Name = "seed-a-etcd-main-1" }),
		Entry("too few members", inspect.CheckEtcdMembers, view.Fail,
			"2 members instead of 3", func() { in.Etcds[0].Members = in.Etcds[0].Members[:2] }),
		Entry("more members than without high availability", inspect.CheckEtcdMembers, view.Fail,
			"3 members instead of 1", func() { in.Shoot.Spec.ControlPlane = nil }),
		Entry("another cluster", inspect.CheckEtcdMembers, view.Fail,
			"was c0 before", func() { in.ClusterIDs = map[string]string{"etcd-main": "c0"} }),
		Entry("data that differs", inspect.CheckEtcdHash, view.Fail,
			"differ at revision 42: 00000007 (seed-b-etcd-events-0, seed-b-etcd-events-2), 00000008 "+
				"(seed-b-etcd-events-1)", func() { in.Etcds[1].Members[1].Hash = 8 }),
		Entry("a compaction in between", inspect.CheckEtcdHash, view.Unknown,
			"compacted in the meantime", func() { in.Etcds[1].Members[1].Compacted = 41 }),
		Entry("a member without a hash", inspect.CheckEtcdHash, view.Unknown,
			"away", func() { in.Etcds[1].Members[1].HashProblem = "away" }),
		Entry("leftovers", inspect.CheckSourceEmpty, view.Fail,
			"holds 7 objects of the shoot: o1, o2, o3, o4, o5 and 2 more",
			func() { in.LeftInSource = []string{"o1", "o2", "o3", "o4", "o5", "o6", "o7"} }),
		Entry("a lost secret", inspect.CheckSecrets, view.Fail, "compared with the ShootState, missing: ca-client",
			func() { in.Kept = append(in.Kept, inspect.SecretDigest{Name: "ca-client", Digest: "3"}) }),
		Entry("another secret", inspect.CheckSecrets, view.Fail, "changed: ca", func() { in.Kept[0].Digest = "9" }),
		Entry("a secret that was issued again", inspect.CheckSecrets, view.Fail,
			"issued after the migration had begun: ca", func() { in.Secrets[0].Issued = new(begin.Add(time.Minute)) }),
		Entry("no secrets", inspect.CheckSecrets, view.Fail,
			"has no persisted secret", func() { in.Secrets, in.Kept = nil, nil }),
		Entry("nothing to compare secrets with", inspect.CheckSecrets, view.Unknown,
			"no copy", func() { in.Kept, in.KeptIn = nil, "" }),
		Entry("a name that points elsewhere", inspect.CheckDNS, view.Fail,
			"api.live.example resolves to 10.0.0.1, the destination publishes 10.0.0.2",
			func() { in.Records[0].Resolved = []string{"10.0.0.1"} }),
		Entry("a name that points nowhere", inspect.CheckDNS, view.Fail,
			"resolves to nothing", func() { in.Records[0].Resolved = nil }),
		Entry("a name that cannot be looked up", inspect.CheckDNS, view.Unknown,
			"no such host", func() { in.Records[0].Problem = "no such host" }),
		Entry("no records", inspect.CheckDNS, view.Fail, "manages no DNS record", func() { in.Records = nil }),
		Entry("backups elsewhere", inspect.CheckBackup, view.Fail,
			"is stored in bucket seed-a-uid", func() { in.BackupEntry.Spec.BucketName = "seed-a-uid" }),
		Entry("what could not be looked at", inspect.CheckSourceEmpty, view.Unknown,
			"give --seed-kubeconfig",
			func() { in.Unknown[inspect.CheckSourceEmpty] = "seed seed-a: give --seed-kubeconfig seed-a=PATH" }),
	)

	It("should accept a baseline from before the migration as proof", func() {
		in.KeptBefore, in.KeptIn = true, "the baseline of yesterday"
		in.Secrets[0].Issued = new(begin.Add(time.Minute))
		Expect(inspect.Verify(in).Checks).
			To(ContainElement(And(HaveField("Name", inspect.CheckSecrets), HaveField("Status", view.Pass),
				HaveField("Evidence", "2 secrets have the digests of the baseline of yesterday"))))
	})
})

var _ = Describe("Digest", func() {
	It("should distinguish contents, and how they are divided up", func() {
		a := map[string][]byte{"a": []byte("x"), "b": []byte("y")}
		Expect(inspect.Digest(a)).To(Equal(inspect.Digest(map[string][]byte{"b": []byte("y"), "a": []byte("x")})))
		for _, other := range []map[string][]byte{{}, {"a": []byte("x")}, {"a": []byte("xy"), "b": nil},
			{"ab": []byte("x"), "": []byte("y")}} {
			Expect(inspect.Digest(other)).NotTo(Equal(inspect.Digest(a)))
		}
	})
})

var _ = Describe("VerificationReader", func() {
	const content = "top-secret-content"

	var (
		ctx           = context.Background()
		shoot         *gardencorev1beta1.Shoot
		gardenObjects []client.Object
		seedObjects   []client.Object
		lookup        map[string]string
		baseline      *inspect.Baseline

		secret = func(name, content string) *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
					"managed-by": "secrets-manager", "persist": "true", "name": name,
					"issued-at-time": strconv.FormatInt(begin.Add(-time.Hour).Unix(), 10),
				}},
				Data: map[string][]byte{"key": []byte(content)},
			}
		}
		kept = func(name, content string) gardencorev1beta1.GardenerResourceData {
			raw, err := json.Marshal(map[string][]byte{"key": []byte(content)})
			Expect(err).NotTo(HaveOccurred())
			return gardencorev1beta1.GardenerResourceData{Name: name, Type: "secret",
				Data: runtime.RawExtension{Raw: raw}}
		}
		reader = func() inspect.VerificationReader {
			seeds := access.Seeds{"seed-b": {Reader: fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
				WithObjects(seedObjects...).Build()}}
			return inspect.VerificationReader{
				Garden: &access.Garden{Client: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
					WithObjects(gardenObjects...).Build()},
				Seeds:   seeds,
				Members: inspect.NewMembers(seeds),
				Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
					if address, ok := lookup[host]; ok {
						return []netip.Addr{netip.MustParseAddr(address)}, nil
					}
					return nil, errors.New("no such host: " + host)
				},
				Baseline: baseline,
				Clock:    testclock.NewFakeClock(begin.Add(time.Hour)),
			}
		}
		status = func(in inspect.VerificationInput, name preflight.Name) (view.Status, string) {
			for _, check := range inspect.Verify(in).Checks {
				if check.Name == name {
					return check.Status, check.Evidence
				}
			}
			return "", ""
		}
	)

	BeforeEach(func() {
		shoot, baseline = migrated(), nil
		lookup = map[string]string{"api.live.example": "10.0.0.2", "balancer.example": "10.0.0.2"}
		gardenObjects = []client.Object{
			backupEntry(),
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b", UID: "seed-b-uid"}},
			&gardencorev1beta1.ShootState{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
				Spec: gardencorev1beta1.ShootStateSpec{Gardener: []gardencorev1beta1.GardenerResourceData{
					kept("ca", content), {Name: "other", Type: "machine-state"},
				}},
			},
		}
		seedObjects = []client.Object{
			secret("ca", content),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "issued-anywhere",
				Labels: map[string]string{"managed-by": "secrets-manager"}}},
			&extensionsv1alpha1.DNSRecord{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "external"},
				Spec: extensionsv1alpha1.DNSRecordSpec{Name: "api.live.example", Values: []string{"balancer.example"}}},
		}
	})

	It("should see secrets, names and backups, and leave out what it cannot see", func() {
		in := reader().Read(ctx, shoot, "")
		Expect(in.Secrets).To(HaveLen(1))
		for name, expected := range map[preflight.Name]view.Status{
			inspect.CheckCompleted: view.Pass, inspect.CheckSecrets: view.Pass, inspect.CheckDNS: view.Pass,
			inspect.CheckBackup:      view.Pass,
			inspect.CheckSourceEmpty: view.Unknown, inspect.CheckEtcdMembers: view.Unknown,
			inspect.CheckEtcdHash: view.Unknown,
		} {
			actual, evidence := status(in, name)
			Expect(actual).To(Equal(expected), "%s: %s", name, evidence)
		}
	})

	It("should notice a secret of another content, and never show it", func() {
		seedObjects[0] = secret("ca", "another-"+content)
		result := inspect.Verify(reader().Read(ctx, shoot, ""))
		data, err := json.Marshal(result)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(data)).To(And(ContainSubstring("changed: ca"), Not(ContainSubstring(content))))
	})

	It("should say in the zone of the machine when the baseline was recorded", func() {
		in := reader()
		recorded, err := in.Record(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		in.Baseline, in.Zone = &recorded, time.FixedZone("HERE", 2*60*60)
		_, evidence := status(in.Read(ctx, shoot, ""), inspect.CheckSecrets)
		Expect(evidence).To(HaveSuffix("the baseline of %s", recorded.Recorded.In(in.Zone).Format(time.RFC3339)))
		Expect(evidence).To(HaveSuffix("+02:00"))
	})

	It("should not quote a ShootState that it cannot read", func() {
		gardenObjects[2].(*gardencorev1beta1.ShootState).Spec.Gardener[0].Data.Raw = []byte(
			`{"key": {"nested": "` + content + `"}}`)
		actual, evidence := status(reader().Read(ctx, shoot, ""), inspect.CheckSecrets)
		Expect(actual).To(Equal(view.Unknown))
		Expect(evidence).To(And(ContainSubstring("failed to read secret ca"), Not(ContainSubstring(content))))
	})

	It("should say what it needs access to", func() {
		r := reader()
		r.Seeds = access.Seeds{}
		in := r.Read(ctx, shoot, "seed-a")
		for name, seedName := range map[preflight.Name]string{
			inspect.CheckSourceEmpty: "seed-a", inspect.CheckEtcdHash: "seed-b",
			inspect.CheckDNS: "seed-b", inspect.CheckSecrets: "seed-b",
		} {
			_, evidence := status(in, name)
			Expect(evidence).To(ContainSubstring("give --seed-kubeconfig " + seedName + "=PATH"))
		}
	})

	It("should guess the source only where there is one choice", func() {
		r := reader()
		Expect(r.Source("seed-b")).To(BeEmpty())
		r.Seeds["seed-a"] = r.Seeds["seed-b"]
		Expect(r.Source("seed-b")).To(Equal("seed-a"))
		r.Seeds["seed-c"] = r.Seeds["seed-b"]
		Expect(r.Source("seed-b")).To(BeEmpty())
		r.Baseline = &inspect.Baseline{Seed: "seed-c"}
		Expect(r.Source("seed-b")).To(Equal("seed-c"))
	})

	It("should record before a migration what it compares with afterwards, without any content", func() {
		recorded, err := reader().Record(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), "baseline.json")
		Expect(recorded.Write(path)).To(Succeed())
		Expect(recorded.Write(path)).To(MatchError(os.ErrExist), "it should not be overwritten after the migration")
		data, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(data)).NotTo(ContainSubstring(content))

		_, err = inspect.ReadBaseline(path, "garden-demo", "other")
		Expect(err).To(MatchError(ContainSubstring("is of Shoot garden-demo/live")))
		read, err := inspect.ReadBaseline(path, "garden-demo", "live")
		Expect(err).NotTo(HaveOccurred())
		baseline = &read
		actual, evidence := status(reader().Read(ctx, shoot, ""), inspect.CheckSecrets)
		Expect(actual).To(Equal(view.Pass))
		Expect(evidence).To(ContainSubstring("1 secrets have the digests of the baseline"))

		shoot.Spec.SeedName = new("seed-a")
		_, err = reader().Record(ctx, shoot)
		Expect(err).To(MatchError(ContainSubstring("record the baseline before a migration")))
	})
})

var _ = Describe("Hashes", func() {
	It("should ask every member at a revision that all have", func() {
		ctx := context.Background()
		cluster := fake.New(func(name string) string { return "https://" + name }, "seed-b-etcd-main-0",
			"seed-b-etcd-main-1")
		cluster.SetHash("seed-b-etcd-main-0", 7, 40)
		cluster.SetHash("seed-b-etcd-main-1", 8, 40)
		inspection, err := etcdclient.Inspect(ctx, cluster, patience.Eventually)
		Expect(err).NotTo(HaveOccurred())
		inspection.Members[0].Status.Revision, inspection.Members[1].Status.Revision = 50, 42
		etcd := inspect.Hashes(ctx, cluster, "etcd-main", inspect.Etcd{Inspection: inspection})
		Expect(etcd.Revision).To(BeNumerically("==", 42))
		Expect(etcd.Members).To(HaveExactElements(HaveField("Hash", uint32(7)), HaveField("Hash", uint32(8))))

		cluster.SetUp("seed-b-etcd-main-1", false)
		etcd = inspect.Hashes(ctx, cluster, "etcd-main", inspect.Etcd{Inspection: inspection})
		Expect(etcd.Members[1].HashProblem).To(ContainSubstring(strings.TrimSpace(fake.ErrDown.Error())))
	})
})
