// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"fmt"

	"github.com/gardener/gardener/pkg/utils/imagevector"
)

// Image returns the image of the relay: the configured one, unless the overwrite of Gardener's image vector has another
// one of the name of the relay. The agent reads the same overwrite as the gardenlet beside it (environment variable
// IMAGEVECTOR_OVERWRITE): a landscape that takes all images from a registry of its own says so in one place.
func Image(configured string) (string, error) {
	vector, _, err := imagevector.WithEnvOverride(imagevector.ImageVector{{Name: relayImageName, Ref: &configured}},
		nil, imagevector.OverrideEnv)
	if err != nil {
		return "", fmt.Errorf("failed to read the overwrite of the image vector (environment variable %s): %w",
			imagevector.OverrideEnv, err)
	}
	image, err := vector.FindImage(relayImageName)
	if err != nil {
		return "", fmt.Errorf("failed to find image %s in the image vector: %w", relayImageName, err)
	}
	return image.String(), nil
}

// relayImageName is the name of the relay's image in an overwrite of Gardener's image vector.
const relayImageName = "livecpm-relay"
