// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/test/standins/machine/apiserverproxy"
	"github.com/livecpm/livecpm/test/standins/machine/device"
)

// The flags of the sidecar of the apiserver-proxy, and what they are without being given.
const (
	flagAddress      = "--ip-address="
	flagInterface    = "--interface="
	flagInterval     = "--sync-interval="
	defaultInterface = "lo"
	defaultInterval  = time.Minute
)

// apiServerProxy is what runs of a pod of Gardener's apiserver-proxy: the sidecar, which keeps the address on an
// interface of the node, and envoy. It is known by the two, so that it does not matter how the pod is called or who has
// made it; the one that Gardener makes and its twin may be on the node at the same time. The configuration is read
// once, when the pod starts, as by envoy: Gardener's ConfigMaps have a name for each content, and another one means
// another pod.
type apiServerProxy struct {
	*readiness
	log   logr.Logger
	node  *Node
	files mounted

	configFile string
	address    string
	device     string
	interval   time.Duration
	probedPort int
}

// newAPIServerProxy returns the apiserver-proxy if the pod is one.
func newAPIServerProxy(host host, pod *corev1.Pod) (*apiServerProxy, bool) {
	proxy := &apiServerProxy{readiness: newReadiness(host.changed), log: host.log, node: host.node,
		device: defaultInterface, interval: defaultInterval}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(container.Command) > 0 && path.Base(container.Command[0]) == "envoy" {
			for j := 1; j+1 < len(container.Command); j++ {
				if container.Command[j] == "-c" {
					proxy.configFile = container.Command[j+1]
					proxy.files = mounted{client: host.client, pod: pod, container: container}
				}
			}
			if probe := container.ReadinessProbe; probe != nil && probe.HTTPGet != nil {
				proxy.probedPort = probe.HTTPGet.Port.IntValue()
			}
		}
		for _, arg := range container.Args {
			if value, is := strings.CutPrefix(arg, flagAddress); is {
				proxy.address = value
			}
			if value, is := strings.CutPrefix(arg, flagInterface); is {
				proxy.device = value
			}
			if value, is := strings.CutPrefix(arg, flagInterval); is {
				if interval, err := time.ParseDuration(value); err == nil && interval > 0 {
					proxy.interval = interval
				}
			}
		}
	}
	return proxy, proxy.configFile != "" && proxy.address != "" && pod.Spec.HostNetwork
}

// run serves until the context ends. The address stays on the interface after that, as it does without the sidecar's
// flag --cleanup.
func (a *apiServerProxy) run(ctx context.Context) {
	keepTrying(ctx, retryInterval, a.serve, func(err error) {
		a.set(err)
		a.log.Info("apiserver-proxy does not serve", "reason", err.Error())
	})
	a.log.Info("apiserver-proxy ended", "address", a.address, "interface", a.device)
}

func (a *apiServerProxy) serve(ctx context.Context) error {
	address, err := netip.ParseAddr(a.address)
	if err != nil {
		return fmt.Errorf("failed to read the address of the apiserver-proxy: %w", err)
	}
	content, err := a.files.read(ctx, a.configFile)
	if err != nil {
		return err
	}
	config, err := apiserverproxy.Parse(content)
	if err != nil {
		return err
	}
	// First the address, by the init container: envoy does not listen at one that is not there.
	if err := device.Ensure(a.node.Links, a.device, address); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.keepAddress(ctx, address)
	var ending atomic.Pointer[cut]
	err = (&apiserverproxy.Proxy{
		Log: a.log, Config: config,
		Listening: func(listens net.Addr) {
			a.log.Info("apiserver-proxy serves", "address", listens.String(), "interface", a.device, "gateway",
				config.Gateway)
			// The kubelet asks where the pod says, and envoy answers where its configuration says.
			if a.probedPort != 0 && a.probedPort != config.ReadyPort() {
				a.set(fmt.Errorf("the readiness probe asks port %d, and envoy tells at port %d that it is ready",
					a.probedPort, config.ReadyPort()))
				return
			}
			a.set(nil)
		},
		Ending: func(connections int) {
			ending.Store(a.node.cuts.begin(time.Now()))
			a.log.Info("apiserver-proxy closes its connections", "connections", connections)
		},
	}).Run(ctx)
	a.node.cuts.end(ending.Load(), time.Now())
	if err == nil {
		err = errors.New("it ended")
	}
	return err
}

// keepAddress is the sidecar.
func (a *apiServerProxy) keepAddress(ctx context.Context, address netip.Addr) {
	ticker := time.NewTicker(a.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := device.Ensure(a.node.Links, a.device, address); err != nil {
				a.log.Info("Could not keep the address of the apiserver-proxy", "reason", err.Error())
			}
		}
	}
}
