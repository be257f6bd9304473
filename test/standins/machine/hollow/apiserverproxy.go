// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/test/standins/machine/container"
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

// imageEnvoy is the folder of the image with envoy, below that of all images.
const imageEnvoy = "envoy"

// apiServerProxy is what runs of a pod of Gardener's apiserver-proxy: a stand-in for the sidecar, which keeps the
// address on an interface of the node, and the real envoy, with the pod's command and what it mounts. It is known by
// the two, so that it does not matter how the pod is called or who has made it; the one that Gardener makes and its
// twin may be on the node at the same time.
type apiServerProxy struct {
	*readiness
	log   logr.Logger
	node  *Node
	files mounted

	address  string
	device   string
	interval time.Duration
}

// newAPIServerProxy returns the apiserver-proxy if the pod is one.
func newAPIServerProxy(host host, pod *corev1.Pod) (*apiServerProxy, bool) {
	proxy := &apiServerProxy{readiness: newReadiness(host.changed), log: host.log, node: host.node,
		device: defaultInterface, interval: defaultInterval}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(container.Command) > 0 && path.Base(container.Command[0]) == "envoy" {
			proxy.files = mounted{client: host.client, pod: pod, container: container}
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
	return proxy, proxy.files.container != nil && proxy.address != "" && pod.Spec.HostNetwork
}

// run serves until the context ends. The address stays on the interface after that, as it does without the sidecar's
// flag --cleanup.
func (a *apiServerProxy) run(ctx context.Context) {
	defer a.node.removePodFolder(a.files.pod)
	keepRestarting(ctx, a.serve, func(err error) {
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
	mounts, err := a.files.materialise(ctx, a.node.podFolder(a.files.pod))
	if err != nil {
		return err
	}
	// First the address, by the init container: envoy does not listen at one that is not there.
	if err := device.Ensure(a.node.Links, a.device, address); err != nil {
		return err
	}
	output, err := a.node.containerLog(a.files)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	process, err := (&container.Container{Image: a.node.image(imageEnvoy), Args: a.files.command(), Env: a.files.env(),
		Mounts: mounts, Output: output}).Start()
	if err != nil {
		return err
	}
	a.log.Info("apiserver-proxy starts", "address", a.address, "interface", a.device)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	go a.keepAddress(probing, address)
	go a.files.probe(probing, a.node.IP.String(), a.set)
	select {
	case <-process.Done():
		return fmt.Errorf("envoy has ended (see %s): %w", output.Name(), exit(process.Err()))
	case <-ctx.Done():
	}
	ending := a.node.cuts.begin(address.String(), time.Now())
	process.Stop(a.files.grace())
	a.node.cuts.end(ending, time.Now())
	return ctx.Err()
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
