// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("Access", func() {
	var (
		ctx     = context.Background()
		expires = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
		shoot   *gardencorev1beta1.Shoot
		asked   int64
		refuse  error
		garden  client.Client
	)

	BeforeEach(func() {
		refuse = nil
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
			Status: gardencorev1beta1.ShootStatus{AdvertisedAddresses: []gardencorev1beta1.ShootAdvertisedAddress{
				{Name: "internal", URL: "https://api.live.internal.example"},
				{Name: "external", URL: "https://api.live.example"},
			}},
		}
		kubeconfig := clientcmdapi.NewConfig()
		for _, name := range []string{"internal", "external"} {
			host := map[string]string{"internal": "api.live.internal.example", "external": "api.live.example"}[name]
			kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + host}
			kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "a-token"}
			kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		}
		kubeconfig.CurrentContext = "internal"
		data, err := clientcmd.Write(*kubeconfig)
		Expect(err).NotTo(HaveOccurred())

		scheme := runtime.NewScheme()
		Expect(gardencorev1beta1.AddToScheme(scheme)).To(Succeed())
		garden = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(_ context.Context, _ client.Client, resource string, object client.Object,
				sub client.Object, _ ...client.SubResourceCreateOption) error {
				Expect(resource).To(Equal("adminkubeconfig"))
				Expect(object.GetName()).To(Equal("live"))
				request := sub.(*authenticationv1alpha1.AdminKubeconfigRequest)
				asked = *request.Spec.ExpirationSeconds
				request.Status.Kubeconfig = data
				request.Status.ExpirationTimestamp = metav1.NewTime(expires)
				return refuse
			},
		}).Build()
	})

	It("should reach the shoot by the name that end users use", func() {
		config, until, err := access.Shoot(ctx, garden, shoot, time.Hour)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://api.live.example"))
		Expect(config.BearerToken).To(Equal("a-token"))
		Expect(until).To(BeTemporally("==", expires))
		Expect(asked).To(BeNumerically("==", 3600))
	})

	It("should know both names, and none of what else is advertised", func() {
		shoot.Status.AdvertisedAddresses = append(shoot.Status.AdvertisedAddresses,
			gardencorev1beta1.ShootAdvertisedAddress{Name: "service-account-issuer", URL: "https://issuer.example"},
			gardencorev1beta1.ShootAdvertisedAddress{Name: "external", URL: ":"})
		Expect(access.Hosts(shoot)).To(Equal([]string{"api.live.example", "api.live.internal.example"}))
	})

	It("should take the internal name if there is no other", func() {
		shoot.Status.AdvertisedAddresses = shoot.Status.AdvertisedAddresses[:1]
		Expect(access.PublicHost(shoot)).To(Equal("api.live.internal.example"))
		config, _, err := access.Shoot(ctx, garden, shoot, time.Hour)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://api.live.internal.example"))
	})

	DescribeTable("should say what is missing", func(spoil func(), message string) {
		spoil()
		_, _, err := access.Shoot(ctx, garden, shoot, time.Hour)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("the permission", func() { refuse = errors.New("forbidden") },
			"permission: create shoots/adminkubeconfig"),
		Entry("an address", func() { shoot.Status.AdvertisedAddresses = nil }, "advertises no address"),
		Entry("a context for it", func() { shoot.Status.AdvertisedAddresses[1].URL = "https://other.example" },
			"no context for other.example"),
	)
})
