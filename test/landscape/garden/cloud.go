// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"fmt"
	"os"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/pki"
)

// The images that only a shoot with workers needs, besides those of Gardener's own vector.
var (
	// MachineImage is that of provider-local's machines, which the cloud profile names.
	MachineImage = image.Ref("standin-machine")
	// MachineDriverImage and CloudControllerImage are those of provider-local's own vector.
	MachineDriverImage   = image.Ref("machine-controller-manager-provider-local")
	CloudControllerImage = image.Ref("cloud-controller-manager-local")
	// TestExtensionImage is that of the test extension.
	TestExtensionImage = image.Ref("extension-test")
)

// CloudKubeconfig makes the kubeconfig by which provider-local keeps machines in the cluster that plays the cloud, and
// returns it. It is what the credentials of a shoot with workers are.
func CloudKubeconfig(cfg *config.Config) ([]byte, error) {
	cloud := cfg.Cloud()
	ca, err := pki.EnsureCA(cfg.PKI(cloud.Name), "ca")
	if err != nil {
		return nil, err
	}
	identity, err := ca.Ensure("cloud", pki.Request{CommonName: "landscape:cloud"})
	if err != nil {
		return nil, err
	}
	file := cfg.Dir(cloud.Name, "cloud.kubeconfig")
	if err := pki.EnsureKubeconfig(file, "https://"+cloud.IP+":6443", ca, identity); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubeconfig %q: %w", file, err)
	}
	return content, nil
}
