// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"

	"github.com/gardener/gardener/imagevector"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
)

// What this file adds is for a shoot with workers. Its infrastructure, control plane, operating system configuration
// and machines are served by the real provider-local, with the real machine-controller-manager and its driver, and the
// real kube-scheduler. provider-local keeps machines as pods of the cluster whose kubeconfig is in the shoot's
// credentials, in any case the same one, wherever the control plane is: here the first seed, which plays the cloud. The
// image of its machines is not available and is stood in for (test/standins/machine). The images of the VPN have
// Debian's OpenVPN, and a stand-in for what configures it (test/standins/vpn). Envoy is the real one.

// The components that only such a shoot needs.
const (
	toolMachineControllerManager = "machine-controller-manager"
	toolGardenerMachines         = "gardener-machines"
)

var (
	//go:embed manifests/cloud.yaml
	cloudManifest string
	//go:embed manifests/machines.yaml
	machinesManifest string
)

// workerBinaries are the programs of this repository that only a shoot with workers needs.
var workerBinaries = []binary{
	{name: "standin-machine", dir: "test/standins/machine"},
	{name: "standin-shell", dir: "test/standins/machine/shell"},
	{name: "standin-vpn", dir: "test/standins/vpn"},
	{name: "extension-test", dir: "test/extension"},
}

// workerImages are the images that only a shoot with workers needs.
func workerImages(
	ctx context.Context, cfg *config.Config, kubernetes string, refs *gardenerRefs,
) (map[string]tarball.Image, error) {
	programs, err := findPrograms(ctx, cfg, toolMachineControllerManager, toolGardenerMachines, "kubernetes")
	if err != nil {
		return nil, err
	}
	target := imagevectorutils.TargetVersion(kubernetes)
	container, err := findContainers(ctx, cfg, programs)
	if err != nil {
		return nil, err
	}
	machine, err := container.machine(programs)
	if err != nil {
		return nil, err
	}
	return map[string]tarball.Image{
		"kube-scheduler": single(programs.upstream("kubernetes", "kube-scheduler"),
			"/usr/local/bin/kube-scheduler", "", refs.find(imagevector.ContainerImageNameKubeScheduler, target)),
		"machine-controller-manager": single(
			programs.upstream(toolMachineControllerManager, "machine-controller-manager"),
			"/machine-controller-manager", nonroot,
			refs.find(imagevector.ContainerImageNameMachineControllerManager)),
		"machine-controller-manager-provider-local": single(
			programs.upstream(toolGardenerMachines, "machine-controller-manager-provider-local"),
			"/machine-controller-manager-provider-local", nonroot, garden.MachineDriverImage),
		"cloud-controller-manager-local": single(
			programs.upstream(toolGardenerMachines, "cloud-controller-manager-local"),
			"/cloud-controller-manager-local", "", garden.CloudControllerImage),
		"extension-test": single(programs.own("extension-test"), "/extension-test", nonroot,
			garden.TestExtensionImage),
		"standin-machine":    machine,
		"standin-vpn-server": container.server(refs.find(imagevector.ContainerImageNameVpnServer, target)),
		"envoy-proxy": {Refs: []string{refs.find(imagevector.ContainerImageNameEnvoyProxy, target)},
			Files: container.envoy, Entrypoint: []string{pathEnvoy}, User: nonroot},
	}, nil
}

// deployCloud prepares the seed that plays the cloud: what provider-local may do there, the custom resource of Calico
// that it writes, and what machines may reach.
func (s *Setup) deployCloud(ctx context.Context) error {
	if s.Seed.Name != s.Config.Cloud().Name {
		return nil
	}
	if err := apply.Manifests(ctx, s.client, []byte(cloudManifest)); err != nil || !s.Config.HasWorkers() {
		return err
	}
	machines, err := s.machinesManifest()
	if err != nil {
		return err
	}
	return apply.Manifests(ctx, s.client, machines)
}

// machinesManifest lets the machines of the landscape's shoot out of their pods. They are in a namespace of the name
// that provider-local gives them (NamespaceName in gardener's pkg/provider-local/controller/infrastructure).
func (s *Setup) machinesManifest() ([]byte, error) {
	network, err := netip.ParsePrefix(s.Config.HubIP + "/24")
	if err != nil {
		return nil, fmt.Errorf("failed to find the network of the landscape: %w", err)
	}
	return apply.Render("machines.yaml", machinesManifest, map[string]string{
		"Namespace": "infra-shoot--demo--" + s.Config.Shoot,
		"Network":   network.Masked().String(),
	})
}
