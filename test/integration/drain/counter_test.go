// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// counter stands between livecpm-controller-manager and the garden, gives it its identity, and counts what it asks for.
type counter struct {
	server *httptest.Server

	lock  sync.Mutex
	count map[string]int
}

// startCounter returns a counter in front of the garden. It ends with the spec.
func startCounter(config *rest.Config) *counter {
	GinkgoHelper()
	asUser := rest.CopyConfig(config)
	asUser.Impersonate = rest.ImpersonationConfig{UserName: identity}
	transport, err := rest.TransportFor(asUser)
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	if target.Scheme == "" {
		target, err = url.Parse("https://" + config.Host)
		Expect(err).NotTo(HaveOccurred())
	}

	c := &counter{count: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport,
		// Watches are passed on event by event.
		FlushInterval: -1,
		// Watches end with the process that keeps them.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		c.see(request)
		proxy.ServeHTTP(w, request)
	}))
	DeferCleanup(func() {
		c.server.CloseClientConnections()
		c.server.Close()
	})
	return c
}

// see counts the request by its verb and resource. What the watchdog of the gate asks for is told apart: its proofs are dry
// runs.
func (c *counter) see(request *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	verb := request.Method
	switch query := request.URL.Query(); {
	case query.Get("watch") != "":
		verb = "WATCH"
	case query.Get("dryRun") != "":
		verb = "PROOF"
	}
	c.count[verb+" "+resourceOf(request.URL.Path)]++
}

// resourceOf returns resource and subresource of /api/v1 or /apis/group/version, with or without namespaces/name before.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 3
	if parts[0] == "api" {
		skip = 2
	}
	if len(parts) <= skip {
		return "discovery"
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// counts returns how often what was asked for.
func (c *counter) counts() map[string]int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.count)
}

var _ = DescribeTable("#resourceOf", func(path, expected string) {
	Expect(resourceOf(path)).To(Equal(expected))
},
	Entry("namespaced", "/apis/core.gardener.cloud/v1beta1/namespaces/garden-demo/shoots/x/binding", "shoots/binding"),
	Entry("cluster-scoped", "/apis/core.gardener.cloud/v1beta1/seeds/a/status", "seeds/status"),
	Entry("a list", "/apis/core.gardener.cloud/v1beta1/shoots", "shoots"),
	Entry("the core group", "/api/v1/namespaces/garden/configmaps/x", "configmaps"),
	Entry("a namespace itself", "/api/v1/namespaces/garden", "namespaces"),
	Entry("discovery", "/apis/core.gardener.cloud/v1beta1", "discovery"),
	Entry("discovery of the core group", "/api", "discovery"),
)

// kubeconfig returns a kubeconfig that leads through the counter.
func (c *counter) kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: garden
clusters: [{name: garden, cluster: {server: %q}}]
users: [{name: none, user: {}}]
contexts: [{name: garden, context: {cluster: garden, user: none}}]
`, c.server.URL)
}
