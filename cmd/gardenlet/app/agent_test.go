// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/cmd/gardenlet/app"
)

func kubeconfig(host string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: g, cluster: {server: "https://%s"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: g, user: u}}]
`, host)
}

var _ = Describe("The access of the agent in a gardenlet to the garden", func() {
	var (
		ctx    = context.Background()
		config *gardenletconfigv1alpha1.GardenletConfiguration
		folder string
	)

	BeforeEach(func() {
		folder = GinkgoT().TempDir()
		GinkgoT().Setenv("GARDEN_KUBECONFIG", "")
		config = &gardenletconfigv1alpha1.GardenletConfiguration{
			GardenClientConnection: &gardenletconfigv1alpha1.GardenClientConnection{},
		}
		config.GardenClientConnection.QPS = 7
	})

	seed := func(objects ...client.Object) client.Client {
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
	}
	registered := func() client.Object {
		config.GardenClientConnection.KubeconfigSecret = &corev1.SecretReference{Namespace: "garden",
			Name: "gardenlet-kubeconfig"}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardenlet-kubeconfig"},
			Data: map[string][]byte{"kubeconfig": kubeconfig("registered")}}
	}
	given := func(host string) string {
		file := filepath.Join(folder, host)
		Expect(os.WriteFile(file, kubeconfig(host), 0o600)).To(Succeed())
		return file
	}

	It("should be the one that the gardenlet has got when it registered", func() {
		secret := registered()
		config.GardenClientConnection.Kubeconfig = given("file")
		restConfig, err := app.GardenAccess(ctx, seed(secret), config)
		Expect(err).NotTo(HaveOccurred())
		Expect(restConfig.Host).To(Equal("https://registered"))
		Expect(restConfig.QPS).To(BeEquivalentTo(7))
	})

	It("should be the one that the gardenlet was given, of which the environment comes first", func() {
		registered()
		config.GardenClientConnection.Kubeconfig = given("file")
		restConfig, err := app.GardenAccess(ctx, seed(), config)
		Expect(err).NotTo(HaveOccurred())
		Expect(restConfig.Host).To(Equal("https://file"))

		GinkgoT().Setenv("GARDEN_KUBECONFIG", given("environment"))
		restConfig, err = app.GardenAccess(ctx, seed(), config)
		Expect(err).NotTo(HaveOccurred())
		Expect(restConfig.Host).To(Equal("https://environment"))
	})

	It("should not be there before the gardenlet has registered", func() {
		registered()
		_, err := app.GardenAccess(ctx, seed(), config)
		Expect(err).To(MatchError(app.ErrNoCredentials))
	})
})

var _ = Describe("The permissions of the agent in a gardenlet", func() {
	const namespace, lease = "garden", "livecpm-agent-leader-election"

	var (
		ctx   = context.Background()
		asked *authorizationv1.ResourceAttributes
	)

	seed := func(allowed bool, failure error) client.Client {
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				review := object.(*authorizationv1.SelfSubjectAccessReview)
				asked = review.Spec.ResourceAttributes
				review.Status.Allowed = allowed
				return failure
			},
		}).Build()
	}

	It("should suffice when the lease may be updated", func() {
		Expect(app.MayUpdate(ctx, seed(true, nil), namespace, lease)).To(Succeed())
		Expect(asked).To(Equal(&authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases",
			Verb: "update", Namespace: namespace, Name: lease}))
	})

	It("should not suffice before the registration has brought them", func() {
		err := app.MayUpdate(ctx, seed(false, nil), namespace, lease)
		Expect(err).To(MatchError(app.ErrNoPermissions))
		Expect(err).To(MatchError(ContainSubstring("garden/livecpm-agent-leader-election")))
	})

	It("should not suffice when the seed does not say", func() {
		Expect(app.MayUpdate(ctx, seed(true, errors.New("away")), namespace, lease)).
			To(MatchError(ContainSubstring("away")))
	})
})

var _ = Describe("The agent in a gardenlet", func() {
	It("should try again until it can start, and say why it cannot", func() {
		clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		log := &bytes.Buffer{}
		attempts := 0
		started := make(chan bool, 1)
		go func() {
			started <- app.Until(context.Background(), zap.New(zap.WriteTo(log)), clock, func() error {
				attempts++
				if attempts < 3 {
					return errors.New("not registered")
				}
				return nil
			})
		}()
		for range 2 {
			Eventually(clock.HasWaiters).Should(BeTrue())
			clock.Step(time.Minute)
		}
		Eventually(started).Should(Receive(BeTrue()))
		Expect(attempts).To(Equal(3))
		Expect(log.String()).To(ContainSubstring("not registered"))
	})

	It("should not start when the gardenlet ends meanwhile", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		Expect(app.Until(ctx, logr.Discard(), clock, func() error { return errors.New("not registered") })).
			To(BeFalse())
	})
})
