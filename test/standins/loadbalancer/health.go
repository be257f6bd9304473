// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Interval and number of failures are those that Kubernetes' cloud provider for GCP gives to load balancers.
const (
	checkInterval = 8 * time.Second
	// maxFailures is how many checks in a row have to fail until a node gets no more connections. One that succeeds is
	// enough for the opposite.
	maxFailures = 3
	// checkTimeout is longer than GCP's second, because the landscape shares its processors with everything else.
	checkTimeout = 5 * time.Second
)

// health is what is known of a node.
type health struct {
	healthy  bool
	failures int
}

// known returns the health of the node. A new one is not healthy before the first check. The caller holds the lock.
func (f *Front) known(node netip.Addr) *health {
	if h, ok := f.health[node]; ok {
		return h
	}
	return &health{}
}

// checkAll asks all nodes once.
func (f *Front) checkAll(ctx context.Context) {
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	var checks sync.WaitGroup
	for _, node := range target.Nodes {
		checks.Go(func() { f.record(node, checkNode(ctx, node, target.HealthPort)) })
	}
	checks.Wait()
}

func (f *Front) record(node netip.Addr, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.health[node]
	if !ok { // it has left meanwhile
		return
	}
	before := h.healthy
	if err == nil {
		h.healthy, h.failures = true, 0
	} else if h.failures++; h.failures >= maxFailures {
		h.healthy = false
	}
	if h.healthy != before {
		f.Log.Info("The health of a node has changed", "node", node.String(), "healthy", h.healthy, "error", err)
	}
}

// checks has connections of its own for every check: one that is kept would say nothing about new ones.
var checks = &http.Client{Timeout: checkTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// checkNode asks kube-proxy on the node whether it may have connections.
func checkNode(ctx context.Context, node netip.Addr, port int32) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(node, uint16(port))), nil)
	if err != nil {
		return fmt.Errorf("failed to build health check: %w", err)
	}
	response, err := checks.Do(request)
	if err != nil {
		return fmt.Errorf("failed to check health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("health check answers %s", response.Status)
	}
	return nil
}
