// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/livecpm/livecpm/test/landscape/config"
	. "github.com/livecpm/livecpm/test/landscape/garden"
)

var _ = Describe("The authorizers", func() {
	It("should be where the garden's kube-apiserver looks for them, and not be written twice", func() {
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		configuration, files, err := PrepareAuthorizers(cfg)
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(1))
		content, err := os.ReadFile(configuration)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(ContainSubstring(files[0]))
		kubeconfig, err := clientcmd.BuildConfigFromFlags("", files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(kubeconfig.Host).To(Equal("https://192.0.2.10:2725/webhooks/auth/seed"))

		before, err := os.Stat(configuration)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = PrepareAuthorizers(cfg)
		Expect(err).NotTo(HaveOccurred())
		after, err := os.Stat(configuration)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.SameFile(before, after) && before.ModTime().Equal(after.ModTime())).To(BeTrue())
	})

	DescribeTable("should not be in the way of a garden of the other kind, nor it in theirs",
		func(authorizers bool, left ...string) {
			ctx := context.Background()
			c := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
				&admissionregistrationv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: "gardener-admission-controller"},
				},
				&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:seeds"}},
				&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "livecpm:agent"}},
				&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "livecpm:controller-manager"}},
			).Build()
			Expect(RemoveLeftovers(ctx, c, &config.Config{Authorizers: authorizers})).To(Succeed())
			Expect(RemoveLeftovers(ctx, c, &config.Config{Authorizers: authorizers})).To(Succeed(), "there may be none")

			var names []string
			for _, list := range []client.ObjectList{&admissionregistrationv1.ValidatingWebhookConfigurationList{},
				&rbacv1.ClusterRoleBindingList{}} {
				Expect(c.List(ctx, list)).To(Succeed())
				switch typed := list.(type) {
				case *admissionregistrationv1.ValidatingWebhookConfigurationList:
					for _, item := range typed.Items {
						names = append(names, item.Name)
					}
				case *rbacv1.ClusterRoleBindingList:
					for _, item := range typed.Items {
						names = append(names, item.Name)
					}
				}
			}
			Expect(names).To(ConsistOf(left))
		},
		Entry("with them", true, "gardener-admission-controller", "livecpm:controller-manager"),
		Entry("without them", false, "gardener.cloud:system:seeds", "livecpm:agent", "livecpm:controller-manager"),
	)
})
