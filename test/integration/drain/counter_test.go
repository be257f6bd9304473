// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/livecpm/livecpm/test/integration/framework"
)

// startCounter returns a counter in front of the garden, with the identity of the controller manager. It ends with the
// spec.
func startCounter(config *rest.Config) *framework.Counter {
	GinkgoHelper()
	c, err := framework.NewCounter(config, identity)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

var _ = DescribeTable("resources of what is counted", func(path, expected string) {
	Expect(framework.ResourceOf(path)).To(Equal(expected))
},
	Entry("namespaced", "/apis/core.gardener.cloud/v1beta1/namespaces/garden-demo/shoots/x/binding", "shoots/binding"),
	Entry("cluster-scoped", "/apis/core.gardener.cloud/v1beta1/seeds/a/status", "seeds/status"),
	Entry("a list", "/apis/core.gardener.cloud/v1beta1/shoots", "shoots"),
	Entry("the core group", "/api/v1/namespaces/garden/configmaps/x", "configmaps"),
	Entry("a namespace itself", "/api/v1/namespaces/garden", "namespaces"),
	Entry("discovery", "/apis/core.gardener.cloud/v1beta1", "discovery"),
	Entry("discovery of the core group", "/api", "discovery"),
)
