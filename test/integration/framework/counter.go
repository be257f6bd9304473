// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Counter stands between a program and the garden, gives it its identity, and counts what it asks for.
type Counter struct {
	server *httptest.Server

	lock  sync.Mutex
	count map[string]int
}

// NewCounter returns a counter in front of the garden. Whoever comes through it is the user, or who the configuration
// belongs to if there is none. The caller closes it.
func NewCounter(config *rest.Config, user string) (*Counter, error) {
	asUser := rest.CopyConfig(config)
	asUser.Impersonate = rest.ImpersonationConfig{UserName: user}
	transport, err := rest.TransportFor(asUser)
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	target, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("failed to read the garden's address: %w", err)
	}

	c := &Counter{count: map[string]int{}}
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
	return c, nil
}

// Close ends the counter and all connections through it.
func (c *Counter) Close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// URL is where the garden is found through the counter.
func (c *Counter) URL() string { return c.server.URL }

// see counts the request by its verb and resource. Proofs that the gate is closed are told apart: they are dry runs.
func (c *Counter) see(request *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	verb := request.Method
	switch query := request.URL.Query(); {
	case query.Get("watch") != "":
		verb = "WATCH"
	case query.Get("dryRun") != "":
		verb = "PROOF"
	}
	c.count[verb+" "+ResourceOf(request.URL.Path)]++
}

// Counts returns how often what was asked for, by verb and resource.
func (c *Counter) Counts() map[string]int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.count)
}

// Kubeconfig returns a kubeconfig that leads through the counter.
func (c *Counter) Kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: garden
clusters: [{name: garden, cluster: {server: %q}}]
users: [{name: none, user: {}}]
contexts: [{name: garden, context: {cluster: garden, user: none}}]
`, c.server.URL)
}

// ResourceOf returns resource and subresource of /api/v1 or /apis/group/version, with or without namespaces/name
// before.
func ResourceOf(path string) string {
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
