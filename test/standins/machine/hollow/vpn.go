// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/test/standins/iptables"
	"github.com/livecpm/livecpm/test/standins/machine/container"
)

const (
	// imageVPN is the folder of the image with the VPN client, below that of all images.
	imageVPN = "vpn-client"
	// uplink is the interface by which the machine reaches everything else, and podGateway the address by which a pod
	// reaches its machine.
	uplink     = "eth0"
	podGateway = "169.254.1.1"
	forwarding = "/proc/sys/net/ipv4/ip_forward"
)

// vpnEntrypoint is that of the image of the VPN client: a shell that OpenVPN takes the place of, so that it is told
// when the pod ends.
var vpnEntrypoint = []string{"/bin/sh", "-c",
	"/bin/vpn-client && exec /usr/sbin/openvpn --config /openvpn-client.config"}

// vpnClient is what runs of a pod of the VPN client: its containers, in a network namespace of their own (see
// test/standins/vpn). It is known by its environment, so that it does not matter how the pod is called or who has made
// it.
type vpnClient struct {
	log   logr.Logger
	node  *Node
	files mounted
}

// newVPNClient returns the client if the pod is one.
func newVPNClient(host host, pod *corev1.Pod) (*vpnClient, bool) {
	for i := range pod.Spec.Containers {
		files := mounted{client: host.client, pod: pod, container: &pod.Spec.Containers[i]}
		given := map[string]bool{}
		for _, variable := range files.container.Env {
			given[variable.Name] = variable.Value != ""
		}
		if given["ENDPOINT"] && given["OPENVPN_PORT"] && given["REVERSED_VPN_HEADER"] &&
			given["REVERSED_VPN_HEADER_KEY"] {
			return &vpnClient{log: host.log, node: host.node, files: files}, true
		}
	}
	return nil, false
}

// run keeps the containers running until the context ends.
func (v *vpnClient) run(ctx context.Context) {
	defer v.node.removePodFolder(v.files.pod)
	keepRestarting(ctx, v.runPod, func(err error) {
		v.log.Info("The VPN client does not run", "reason", err.Error())
	})
	v.log.Info("VPN client ended")
}

func (v *vpnClient) runPod(ctx context.Context) error {
	network, err := v.node.connectPod(v.files.pod)
	if err != nil {
		return err
	}
	defer func() { _ = network.Close() }()
	for i := range v.files.pod.Spec.InitContainers {
		init := v.files
		init.container = &v.files.pod.Spec.InitContainers[i]
		if err := v.runContainer(ctx, init, init.command(), network); err != nil {
			return fmt.Errorf("init container %s has failed: %w", init.container.Name, err)
		}
	}
	args := v.files.command()
	if len(args) == 0 {
		args = vpnEntrypoint
	}
	return errors.Join(v.runContainer(ctx, v.files, args, network), errors.New("the VPN client has ended"))
}

// runContainer returns when the container has ended.
func (v *vpnClient) runContainer(
	ctx context.Context, files mounted, args []string, network *container.Network,
) error {
	mounts, err := files.materialise(ctx, v.node.podFolder(files.pod))
	if err != nil {
		return err
	}
	output, err := v.node.containerLog(files)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	process, err := (&container.Container{Image: v.node.image(imageVPN), Args: args, Env: files.env(), Mounts: mounts,
		Network: network, Output: output}).Start()
	if err != nil {
		return err
	}
	v.log.Info("A container of the VPN client starts", "container", files.container.Name, "log", output.Name())
	select {
	case <-process.Done():
	case <-ctx.Done():
		process.Stop(files.grace())
	}
	return process.Err()
}

// connectPod makes the network of a pod and connects it with the machine, which forwards for it and lends it its own
// addresses for everything that is not on the machine.
func (n *Node) connectPod(pod *corev1.Pod) (*container.Network, error) {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return nil, fmt.Errorf("failed to read the address of the pod: %w", err)
	}
	if err := os.WriteFile(forwarding, []byte("1"), 0o600); err != nil {
		return nil, fmt.Errorf("failed to let the machine forward: %w", err)
	}
	tables, _, err := iptables.Find()
	if err != nil {
		return nil, err
	}
	if err := tables.AppendOnce("nat", "POSTROUTING", "-s", address.String(), "-o", uplink, "-j", "MASQUERADE"); err !=
		nil {
		return nil, err
	}
	network, err := container.NewNetwork()
	if err != nil {
		return nil, err
	}
	// Names of interfaces have at most 15 characters.
	octets := address.As4()
	if err := network.Connect(container.Plug{Name: fmt.Sprintf("pod%d.%d.%d", octets[1], octets[2], octets[3]),
		Pod: address, Gateway: netip.MustParseAddr(podGateway)}); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return network, nil
}
