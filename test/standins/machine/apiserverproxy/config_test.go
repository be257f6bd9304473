// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package apiserverproxy_test

import (
	"context"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	upstream "github.com/gardener/gardener/pkg/component/networking/apiserverproxy"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/test/standins/machine/apiserverproxy"
)

// rendered is envoy's configuration as Gardener's component makes it.
func rendered() string {
	GinkgoHelper()
	ctx := context.Background()
	c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	component := upstream.New(c, "shoot--demo--workers", nil,
		upstream.Values{ProxySeedServerHost: "api.workers.internal.example", DNSLookupFamily: "V4_ONLY"})
	component.SetAdvertiseIPAddress("240.1.2.3")
	Expect(component.Deploy(ctx)).To(Succeed())
	objects, err := managedresources.GetObjects(ctx, c, "shoot--demo--workers", "shoot-core-apiserver-proxy")
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			return configMap.Data["envoy.yaml"]
		}
	}
	Fail("Gardener's component has no ConfigMap")
	return ""
}

var _ = Describe("Parse", func() {
	It("should read what Gardener renders", func() {
		config, err := apiserverproxy.Parse([]byte(rendered()))
		Expect(err).NotTo(HaveOccurred())
		Expect(config).To(Equal(&apiserverproxy.Config{
			Listen: "240.1.2.3:443", Ready: "0.0.0.0:16910", Gateway: "api.workers.internal.example:8443",
			Network: "tcp4", ConnectTimeout: 5 * time.Second,
			Authority: "api.workers.internal.example:443",
			Header: map[string][]string{
				"X-Gardener-Destination": {"outbound|443||kube-apiserver.shoot--demo--workers.svc.cluster.local"},
			},
		}))
		Expect(config.ReadyPort()).To(Equal(16910))
	})

	It("should know the other families of addresses", func() {
		for family, network := range map[string]string{"V6_ONLY": "tcp6", "ALL": "tcp"} {
			config, err := apiserverproxy.Parse([]byte(strings.ReplaceAll(rendered(), "V4_ONLY", family)))
			Expect(err).NotTo(HaveOccurred())
			Expect(config.Network).To(Equal(network), family)
		}
	})

	DescribeTable("should refuse what it would do otherwise than envoy", func(before, after, message string) {
		content := rendered()
		Expect(content).To(ContainSubstring(before))
		_, err := apiserverproxy.Parse([]byte(strings.ReplaceAll(content, before, after)))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("no TCP proxy", "envoy.filters.network.tcp_proxy", "envoy.filters.network.other", "no TCP proxy"),
		Entry("two TCP proxies", "envoy.filters.network.http_connection_manager", "envoy.filters.network.tcp_proxy",
			"two TCP proxies"),
		Entry("no tunnel", "tunneling_config", "other_config", "asks by CONNECT with a header"),
		Entry("no header", "headers_to_add", "headers_to_drop", "asks by CONNECT with a header"),
		Entry("another cluster", "cluster: kube_apiserver", "cluster: elsewhere", `lacks the cluster "elsewhere"`),
		Entry("no endpoint", "lb_endpoints", "other_endpoints", "does not have one endpoint"),
		Entry("no timeout", "connect_timeout: 5s", "connect_timeout: five", "failed to read the timeout"),
		Entry("no YAML", "static_resources:", "static_resources: {", "failed to decode"),
	)
})
