// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"

	"github.com/gardener/gardener/imagevector"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// Images are what decides which images a control plane has in the agent's own seed. All of them are required.
type Images struct {
	// Vector is Gardener's image vector, with the overwrite of the environment.
	Vector imagevectorutils.ImageVector
	// SeedVersion returns the version of Kubernetes of the seed.
	SeedVersion func() string
	// Gardener is the version of Gardener. It is the tag of those of its own images that have none in the vector.
	Gardener string
}

// image is an image that the nodes of the seed have to be able to pull.
type image struct {
	// of is the name of the StatefulSet or Deployment whose pods have it.
	of string
	// name is the name of the image in the image vector, or of its container; ref is its reference.
	name, ref string
}

// part is an image of a control plane, as Gardener's botanist chooses it.
type part struct {
	of, name string
	// condition reports which control planes have it; nil for all of them.
	condition func(seedfacts.ControlPlane) bool
	// unversioned reports that it is found without any version, and that it has Gardener's as its tag if it has none
	// (upstream's NewTargetGardenerResourceManager).
	unversioned bool
}

func hasWorkers(c seedfacts.ControlPlane) bool { return c.Workers }

func hasTunnels(c seedfacts.ControlPlane) bool { return c.Workers && c.HighlyAvailableVPN }

// parts are the images of what a control plane consists of, but for those that etcd-druid chooses and those of
// extensions. Monitoring and autoscalers are left out: the shoot's API server does not need them.
var parts = []part{
	{of: v1beta1constants.DeploymentNameKubeAPIServer, name: imagevector.ContainerImageNameKubeApiserver},
	{of: v1beta1constants.DeploymentNameKubeAPIServer, name: imagevector.ContainerImageNameVpnClient,
		condition: hasTunnels},
	{of: v1beta1constants.DeploymentNameKubeAPIServer, name: imagevector.ContainerImageNameEnvoyProxy,
		condition: hasTunnels},
	{of: v1beta1constants.DeploymentNameKubeControllerManager,
		name: imagevector.ContainerImageNameKubeControllerManager},
	{of: v1beta1constants.DeploymentNameKubeScheduler, name: imagevector.ContainerImageNameKubeScheduler,
		condition: hasWorkers},
	{of: v1beta1constants.DeploymentNameGardenerResourceManager,
		name: imagevector.ContainerImageNameGardenerResourceManager, unversioned: true},
	{of: v1beta1constants.DeploymentNameMachineControllerManager,
		name: imagevector.ContainerImageNameMachineControllerManager, condition: hasWorkers},
	{of: v1beta1constants.DeploymentNameVPNSeedServer, name: imagevector.ContainerImageNameVpnServer,
		condition: hasWorkers},
	{of: v1beta1constants.DeploymentNameVPNSeedServer, name: imagevector.ContainerImageNameEnvoyProxy,
		condition: hasWorkers},
}

// of returns the images of the control planes, each of them once for each StatefulSet or Deployment.
func (i Images) of(controlPlanes []seedfacts.ControlPlane) ([]image, error) {
	var out []image
	for _, controlPlane := range controlPlanes {
		for _, part := range parts {
			if part.condition != nil && !part.condition(controlPlane) {
				continue
			}
			found, err := i.find(part, controlPlane)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(out, found) {
				out = append(out, found)
			}
		}
	}
	return out, nil
}

func (i Images) find(part part, controlPlane seedfacts.ControlPlane) (image, error) {
	var versions []imagevectorutils.FindOptionFunc
	if !part.unversioned {
		versions = append(versions, imagevectorutils.RuntimeVersion(i.SeedVersion()),
			imagevectorutils.TargetVersion(controlPlane.Kubernetes))
	}
	found, err := i.Vector.FindImage(part.name, versions...)
	if err != nil {
		return image{}, fmt.Errorf("failed to find the image of %s for Kubernetes %s in Gardener's image vector and "+
			"its overwrite (environment variable %s): %w", part.of, controlPlane.Kubernetes,
			imagevectorutils.OverrideEnv, err)
	}
	if part.unversioned {
		found.WithOptionalTag(i.Gardener)
	}
	return image{of: part.of, name: part.name, ref: found.String()}, nil
}
