// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/native"
)

const (
	pathEnvoy     = "/usr/local/bin/envoy"
	pathVPNServer = "/bin/vpn-server"
	pathVPNClient = "/bin/vpn-client"
	// machineImages is where a machine has the images of the containers that it runs, each in a folder (see
	// test/standins/machine/hollow).
	machineImages = "/images"
)

// containers are the files of images whose programs run both in a seed and on machines.
type containers struct {
	// envoy are those of an image with envoy, openVPN those of one with OpenVPN without what configures it.
	envoy, openVPN []tarball.File
	// vpn is the program that configures it.
	vpn string
}

func findContainers(ctx context.Context, cfg *config.Config, programs programs) (*containers, error) {
	envoy, err := build.Envoy(ctx, cfg, pathEnvoy)
	if err != nil {
		return nil, err
	}
	openVPN, err := native.OpenVPN()
	if err != nil {
		return nil, err
	}
	return &containers{envoy: envoy, openVPN: openVPN, vpn: programs.own("standin-vpn")}, nil
}

// server is the image of the VPN server. It starts as the one that it stands for does: OpenVPN takes the place of the
// shell, which with Debian's shell has to be asked for.
func (c *containers) server(ref string) tarball.Image {
	return tarball.Image{
		Refs:  []string{ref},
		Files: append(slices.Clone(c.openVPN), tarball.File{Path: pathVPNServer, Source: c.vpn}),
		Entrypoint: []string{"/bin/sh", "-c",
			pathVPNServer + " && exec /usr/sbin/openvpn --config /openvpn-server.config"},
	}
}

// machine is the image of the machines, with the images of the containers that they run, and iptables.
func (c *containers) machine(programs programs) (tarball.Image, error) {
	image := single(programs.own("standin-machine"), "/machine", "", garden.MachineImage)
	iptables, err := native.IPTables()
	if err != nil {
		return tarball.Image{}, err
	}
	client := append(slices.Clone(c.openVPN), tarball.File{Path: pathVPNClient, Source: c.vpn})
	image.Files = slices.Concat(image.Files,
		[]tarball.File{{Path: "/bin/sh", Source: programs.own("standin-shell")}}, iptables,
		native.Below(filepath.Join(machineImages, "vpn-client"), client),
		native.Below(filepath.Join(machineImages, "envoy"), c.envoy))
	return image, nil
}
