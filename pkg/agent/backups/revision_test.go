// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"net/http"
	"net/http/httptest"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("Up to where the snapshots of the source reach", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx    = context.Background()
		garden client.Client
		seed   *gardencorev1beta1.Seed
		writes int
	)

	lease := func(name string, holder *string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	}
	full := func(holder *string) client.Object { return lease("etcd-main-full-snap", holder) }
	delta := func(holder *string) client.Object { return lease("etcd-main-delta-snap", holder) }
	shoot := func() *gardencorev1beta1.Shoot {
		GinkgoHelper()
		out := &gardencorev1beta1.Shoot{}
		Expect(garden.Get(ctx, client.ObjectKey{Namespace: "garden-demo", Name: "live"}, out)).To(Succeed())
		return out
	}
	tell := func(c client.Client) error {
		GinkgoHelper()
		b := &botanist.Botanist{Operation: &gardeneroperation.Operation{Logger: logr.Discard(), GardenClient: garden,
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build(),
			Shoot:         &shootpkg.Shoot{ControlPlaneNamespace: namespace}, Seed: &seedpkg.Seed{}}}
		b.Shoot.SetInfo(shoot())
		b.Seed.SetInfo(seed)
		return backups.TellRevision(ctx, b)
	}
	seedWith := func(objects ...client.Object) client.WithWatch {
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
	}

	BeforeEach(func() {
		writes = 0
		seed = &gardencorev1beta1.Seed{Spec: gardencorev1beta1.SeedSpec{Backup: &gardencorev1beta1.Backup{
			Provider: "local"}}}
		garden = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(&gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
				Annotations: map[string]string{"other": "kept"}}}).Build(),
			calls.Before(func(call calls.Call) error {
				if call.Writes() {
					writes++
				}
				return nil
			}))
	})

	DescribeTable("should be told in the Shoot", func(full, delta client.Object, told string) {
		c := seedWith(full, delta)
		Expect(tell(c)).To(Succeed())
		Expect(shoot().Annotations).To(Equal(map[string]string{"other": "kept", steps.AnnotationSourceRevision: told}))
		Expect(tell(c)).To(Succeed())
		Expect(writes).To(Equal(1), "it is told once")
	},
		Entry("when a delta snapshot is the last one", full(new("100")), delta(new("230")), "230"),
		Entry("when a full snapshot is the last one", full(new("300")), delta(new("230")), "300"),
		Entry("when no delta snapshot was ever saved", full(new("300")), delta(nil), "300"),
	)

	DescribeTable("should not be guessed", func(objects ...client.Object) {
		Expect(tell(seedWith(objects...))).To(Succeed())
		Expect(writes).To(BeZero())
	},
		Entry("when the Etcd is gone with its leases"),
		Entry("when one of the two leases is gone", full(new("300"))),
		Entry("when no snapshot was ever saved", full(nil), delta(nil)),
		Entry("when somebody else holds the lease", full(new("300")), delta(new("etcd-main-0"))),
	)

	It("should stay told when the Etcd is gone", func() {
		Expect(tell(seedWith(full(new("100")), delta(new("230"))))).To(Succeed())
		Expect(tell(seedWith())).To(Succeed())
		Expect(shoot().Annotations).To(HaveKeyWithValue(steps.AnnotationSourceRevision, "230"))
	})

	It("should be no question in a seed that keeps no backups", func() {
		seed.Spec.Backup = nil
		Expect(tell(seedWith(full(new("100")), delta(new("230"))))).To(Succeed())
		Expect(writes).To(BeZero())
	})

	It("should hold when it cannot be read", func() {
		c := interceptor.NewClient(seedWith(), interceptor.Funcs{Get: func(context.Context, client.WithWatch,
			client.ObjectKey, client.Object, ...client.GetOption) error {
			return context.DeadlineExceeded
		}})
		Expect(tell(c)).To(MatchError(ContainSubstring(
			"failed to read Lease shoot--demo--live/etcd-main-full-snap")))
	})

	DescribeTable("should be compared with the newest full snapshot in the own bucket", func(status int, answer string,
		revision int, problem string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Expect(r.Method + " " + r.URL.Path).To(Equal("GET /snapshot/latest"))
			w.WriteHeader(status)
			_, _ = w.Write([]byte(answer))
		}))
		defer server.Close()
		got, err := backups.AskNewestRevision(ctx, server.Client(), server.URL+"/snapshot/latest")
		if problem != "" {
			Expect(err).To(MatchError(ContainSubstring(problem)))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeEquivalentTo(revision))
	},
		// As etcd-backup-restore v0.44.1 answers.
		Entry("which the sidecar reads", http.StatusOK, `{"fullSnapshot":{"createdOn":"2026-11-20T12:00:00Z",`+
			`"immutabilityExpriyTime":"0001-01-01T00:00:00Z","versionID":null,"kind":"Full","snapDir":"","snapName":`+
			`"Full-00000000-00004712-1795176000.final","prefix":"shoot--demo--live--uid/etcd-main/v2",`+
			`"compressionSuffix":"","startRevision":0,"lastRevision":4712,"isChunk":false,"isFinal":true},`+
			`"deltaSnapshots":[{"kind":"Incr","startRevision":4713,"lastRevision":4800}]}`, 4712, ""),
		Entry("which may not be there", http.StatusOK, `{"fullSnapshot":null,"deltaSnapshots":null}`, 0,
			"failed to find a full snapshot"),
		Entry("which it may not be able to read", http.StatusInternalServerError, "", 0,
			"etcd-backup-restore answers 500"),
		Entry("which may be something else", http.StatusOK, "ok", 0, "failed to understand"),
	)
})
