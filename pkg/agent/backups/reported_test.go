// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/backups"
)

// hurriedClock is one whose pauses are over at once.
type hurriedClock struct{ *testclock.FakeClock }

func (c hurriedClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	over := make(chan time.Time, 1)
	over <- c.Now()
	return over
}

var _ = Describe("What etcd-druid reports of the backups", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx       = context.Background()
		seed      client.Client
		room      *backups.Backups
		etcd      *druidcorev1alpha1.Etcd
		triggered int
		reports   []string
		wait      backups.ReportWait
	)

	BeforeEach(func() {
		etcd = &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: namespace}}
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(etcd).
			WithStatusSubresource(etcd).Build()
		var err error
		room, err = backups.New(backups.Options{
			GardenAPIReader: seed, SeedName: "seed-b",
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build(),
		})
		Expect(err).NotTo(HaveOccurred())
		triggered, reports = 0, nil
		wait = backups.ReportWait{
			Clock:    hurriedClock{testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))},
			Interval: 2 * time.Second, Bound: time.Minute,
			Trigger: func(context.Context) error { triggered++; return nil },
			Report: func(_ context.Context, missing string) error {
				reports = append(reports, missing)
				return nil
			},
		}
	})

	report := func(status druidcorev1alpha1.ConditionStatus, message string) {
		GinkgoHelper()
		current := &druidcorev1alpha1.Etcd{}
		Expect(seed.Get(ctx, client.ObjectKeyFromObject(etcd), current)).To(Succeed())
		current.Status.Conditions = []druidcorev1alpha1.Condition{
			{Type: druidcorev1alpha1.ConditionTypeReady, Status: druidcorev1alpha1.ConditionTrue},
			{Type: druidcorev1alpha1.ConditionTypeBackupReady, Status: status, Message: message},
		}
		Expect(seed.Status().Update(ctx, current)).To(Succeed())
	}

	It("should not be waited for when it is good", func() {
		report(druidcorev1alpha1.ConditionTrue, "")
		Expect(room.WaitUntilReported(ctx, namespace, wait)).To(BeEmpty())
		Expect(triggered).To(BeZero())
		Expect(reports).To(BeEmpty())
	})

	It("should be brought about by one delta snapshot", func() {
		report(druidcorev1alpha1.ConditionUnknown, "Cannot determine etcd backup status")
		wait.Trigger = func(context.Context) error {
			if triggered++; triggered == 1 {
				return errors.New("the snapshotter is not active")
			}
			return nil
		}
		wait.Report = func(_ context.Context, missing string) error {
			// etcd-druid looks at the leases every few seconds.
			if reports = append(reports, missing); len(reports) == 4 {
				report(druidcorev1alpha1.ConditionTrue, "")
			}
			return nil
		}
		Expect(room.WaitUntilReported(ctx, namespace, wait)).To(BeEmpty())
		Expect(triggered).To(Equal(2))
		Expect(reports[0]).To(Equal("etcd-druid reports BackupReady of etcd-main as Unknown: Cannot determine etcd " +
			"backup status; the snapshotter is not active"))
	})

	It("should be waited for no longer than the bound, and be told then", func() {
		begin := wait.Clock.Now()
		Expect(room.WaitUntilReported(ctx, namespace, wait)).
			To(Equal("etcd-druid does not report BackupReady of etcd-main"))
		Expect(wait.Clock.Since(begin)).To(Equal(wait.Bound))
	})

	It("should hold when it cannot be read", func() {
		Expect(seed.Delete(ctx, etcd)).To(Succeed())
		_, err := room.WaitUntilReported(ctx, namespace, wait)
		Expect(err).To(MatchError(ContainSubstring("failed to read Etcd shoot--demo--live/etcd-main")))
	})

	DescribeTable("should be asked of the sidecar", func(status int, succeeds bool) {
		var asked string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path
			w.WriteHeader(status)
		}))
		defer server.Close()
		err := backups.GetSnapshot(ctx, server.Client(), server.URL+"/snapshot/delta")
		Expect(asked).To(Equal("GET /snapshot/delta"))
		if succeeds {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(http.StatusText(status))))
	},
		Entry("with success", http.StatusOK, true),
		Entry("while its snapshotter is not active", http.StatusInternalServerError, false),
		Entry("while it knows no leader", http.StatusMethodNotAllowed, false),
	)
})
