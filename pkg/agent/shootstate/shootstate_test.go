// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate_test

import (
	"context"
	"errors"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/shootstate"
)

var _ = Describe("ShootState", func() {
	const namespace = "shoot--demo--live"

	var (
		ctx   = context.Background()
		now   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		shoot = &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}
		names = []string{"ca", "ca-client", "ca-etcd", "ca-etcd-peer", "kube-apiserver-etcd-encryption-key",
			"service-account-key"}
		gardenClient client.Client
		seedClient   client.Client
		gardenlet    *gardenletconfigv1alpha1.GardenletConfiguration
	)

	states := func() *shootstate.ShootStates {
		GinkgoHelper()
		states, err := shootstate.New(shootstate.Options{
			GardenClient: gardenClient, GardenAPIReader: gardenClient, SeedClient: seedClient,
			GardenletConfig: gardenlet, Clock: testclock.NewFakeClock(now), Lead: 24 * time.Hour,
		})
		Expect(err).NotTo(HaveOccurred())
		return states
	}
	addSecret := func(name string) {
		Expect(seedClient.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
				secretsmanager.LabelKeyPersist: secretsmanager.LabelValueTrue,
				secretsmanager.LabelKeyName:    name,
			}},
			Data: map[string][]byte{"key": []byte(name)},
		})).To(Succeed())
	}

	BeforeEach(func() {
		gardenClient = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
		seedClient = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
		gardenlet = &gardenletconfigv1alpha1.GardenletConfiguration{SeedConfig: &gardenletconfigv1alpha1.SeedConfig{}}
		gardenlet.SeedConfig.Name = "seed-a"
	})

	It("should be persisted with a timestamp ahead of the migration", func() {
		for _, name := range names {
			addSecret(name)
		}
		Expect(states().Replace(ctx, shoot)).To(Succeed())

		state := &gardencorev1beta1.ShootState{}
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), state)).To(Succeed())
		Expect(state.Annotations).
			To(HaveKeyWithValue("gardener.cloud/timestamp", now.Add(24*time.Hour).Format(time.RFC3339)))
		Expect(shootstate.Check(state, now.Add(23*time.Hour))).To(Succeed())
		Expect(shootstate.Check(state, now.Add(25*time.Hour))).To(MatchError(ContainSubstring("not ahead")))
	})

	It("should be dated back to now without another change", func() {
		for _, name := range names {
			addSecret(name)
		}
		Expect(states().Replace(ctx, shoot)).To(Succeed())
		before := &gardencorev1beta1.ShootState{}
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), before)).To(Succeed())

		Expect(states().Date(ctx, shoot)).To(Succeed())
		after := &gardencorev1beta1.ShootState{}
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), after)).To(Succeed())
		Expect(after.Annotations).To(HaveKeyWithValue("gardener.cloud/timestamp", now.Format(time.RFC3339)))
		Expect(after.Spec).To(Equal(before.Spec))
	})

	It("should not be dated when it is not there", func() {
		Expect(states().Date(ctx, shoot)).
			To(MatchError(ContainSubstring("failed to read ShootState garden-demo/live")))
	})

	It("should replace entries of before when it is overwritten, and keep them otherwise", func() {
		for _, name := range names {
			addSecret(name)
		}
		addSecret("extension-state")
		Expect(states().Replace(ctx, shoot)).To(Succeed())
		Expect(seedClient.Delete(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "extension-state", Namespace: namespace}})).To(Succeed())

		state := &gardencorev1beta1.ShootState{}
		Expect(states().Merge(ctx, shoot)).To(Succeed())
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), state)).To(Succeed())
		Expect(state.Spec.Gardener).To(ContainElement(HaveField("Name", "extension-state")))

		Expect(states().Replace(ctx, shoot)).To(Succeed())
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), state)).To(Succeed())
		Expect(state.Spec.Gardener).NotTo(ContainElement(HaveField("Name", "extension-state")))
	})

	It("should be refused when a secret is missing that makes the cluster what it is", func() {
		for _, name := range names[1:] {
			addSecret(name)
		}
		Expect(states().Replace(ctx, shoot)).
			To(MatchError(ContainSubstring("lacks secrets [ca]")))
	})

	It("should get the time of now when it is renewed", func() {
		Expect(states().Replace(ctx, shoot)).NotTo(Succeed())
		Expect(states().Renew(ctx, shoot)).To(Succeed())

		state := &gardencorev1beta1.ShootState{}
		Expect(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot), state)).To(Succeed())
		Expect(state.Annotations).To(HaveKeyWithValue("gardener.cloud/timestamp", now.Format(time.RFC3339)))
	})

	It("should be deleted where the gardenlet keeps none, also twice", func() {
		Expect(states().Renew(ctx, shoot)).To(Succeed())
		Expect(states().Delete(ctx, shoot)).To(Succeed())
		Expect(states().Delete(ctx, shoot)).To(Succeed())
		Expect(apierrors.IsNotFound(gardenClient.Get(ctx, client.ObjectKeyFromObject(shoot),
			&gardencorev1beta1.ShootState{}))).To(BeTrue())
	})

	It("should be known to exist or not, unless it cannot be read", func() {
		Expect(states().Exists(ctx, shoot)).To(BeFalse())
		Expect(states().Renew(ctx, shoot)).To(Succeed())
		Expect(states().Exists(ctx, shoot)).To(BeTrue())

		gardenClient = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithInterceptorFuncs(
			interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
				...client.GetOption) error {
				return errors.New("no route")
			}}).Build()
		_, err := states().Exists(ctx, shoot)
		Expect(err).To(MatchError("failed to read ShootState garden-demo/live: no route"))
	})

	It("should not be accessible without all that it takes", func() {
		_, err := shootstate.New(shootstate.Options{GardenClient: gardenClient})
		Expect(err).To(MatchError("failed to set up the access to ShootStates: these options are missing: " +
			"GardenAPIReader, SeedClient, GardenletConfig, Clock, Lead"))
	})

	DescribeTable("is kept as the gardenlet's configuration says", func(syncs *int, kept bool) {
		gardenlet.Controllers = &gardenletconfigv1alpha1.GardenletControllerConfiguration{
			ShootState: &gardenletconfigv1alpha1.ShootStateControllerConfiguration{ConcurrentSyncs: syncs},
		}
		Expect(states().Kept(ctx)).To(Equal(kept))
	},
		Entry("controller with workers", ptr.To(5), true),
		Entry("controller without workers", ptr.To(0), false),
		Entry("nothing said", nil, false),
	)
})
