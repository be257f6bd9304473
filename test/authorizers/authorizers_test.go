// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package authorizers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/livecpm/livecpm/test/authorizers"
)

var _ = Describe("Server", func() {
	server := authorizers.Server{Address: "192.0.2.10", Port: 2719, HealthPort: 2722, MetricsPort: 2723,
		CertDir: "/certs", CA: []byte("authority"), Kubeconfig: "/kubeconfig"}

	It("should lead every webhook of upstream to the server, SeedRestriction among them", func() {
		access, webhooks, err := server.Objects(context.Background())
		Expect(err).NotTo(HaveOccurred())

		var names []string
		var configs []admissionregistrationv1.WebhookClientConfig
		for _, object := range webhooks {
			switch typed := object.(type) {
			case *admissionregistrationv1.ValidatingWebhookConfiguration:
				for _, webhook := range typed.Webhooks {
					names, configs = append(names, webhook.Name), append(configs, webhook.ClientConfig)
				}
			case *admissionregistrationv1.MutatingWebhookConfiguration:
				for _, webhook := range typed.Webhooks {
					names, configs = append(names, webhook.Name), append(configs, webhook.ClientConfig)
				}
			}
		}
		Expect(names).To(ContainElements("seed-restriction.gardener.cloud",
			"sync-provider-secret-labels.gardener.cloud"))
		Expect(configs).To(HaveEach(And(
			HaveField("URL", HaveValue(HavePrefix("https://192.0.2.10:2719/webhooks/"))),
			HaveField("CABundle", Equal([]byte("authority"))),
		)))

		Expect(access).To(ConsistOf(BeAssignableToTypeOf(&rbacv1.ClusterRole{}), And(
			BeAssignableToTypeOf(&rbacv1.ClusterRoleBinding{}),
			HaveField("Subjects", ConsistOf(HaveField("Name", authorizers.User))),
		)))
	})

	It("should be asked over TLS", func() {
		content, err := server.WebhookKubeconfig()
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://192.0.2.10:2719/webhooks/auth/seed"))
		Expect(config.CAData).To(Equal([]byte("authority")))
		Expect(config.Insecure).To(BeFalse())
	})

	It("should be asked about seeds only, and after RBAC", func() {
		content, err := authorizers.AuthorizationConfigurationWithNodes("/some/kubeconfig")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(MatchRegexp(`(?s)type: Node.*type: RBAC.*type: Webhook`))
		Expect(string(content)).To(ContainSubstring("gardener.cloud:system:seeds"))
		Expect(string(content)).To(ContainSubstring("system:serviceaccounts:seed-"))
		content, err = authorizers.AuthorizationConfiguration("/some/kubeconfig")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).NotTo(ContainSubstring("Node"))
	})
})
