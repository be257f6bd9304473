// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"

	"github.com/livecpm/livecpm/test/landscape/apply"
)

// ParseImages, FirstIP and PolicyRules let tests check what is read from others.
var (
	ParseImages = parseImages
	FirstIP     = firstIP
	PolicyRules = policyRules
)

// RenderForTest renders everything a node is configured with.
func RenderForTest() (map[string][]byte, error) {
	s := settings{
		Name: "seed-x", CgroupRoot: "/p-seed-x", CAFile: "/s/ca.crt", CertFile: "/s/k.crt", KeyFile: "/s/k.key",
		Kubeconfig: "/s/proxy.kubeconfig",
		Runc:       "/usr/sbin/runc", ContainerdRoot: "/s/containerd", CNIBin: "/c/cni", CNIConf: "/s/conf/cni",
		Resolv: "/s/resolv.conf", Logs: "/s/logs",
		Plugins: "/s/plugins", VolumeDir: "/s/volumes", PodCIDR: "10.241.0.0/16", DNSIP: "10.97.0.10",
		Upstream:   "10.250.0.10",
		PauseImage: "r/pause:t", CoreDNSImage: "r/coredns:t", ProvisionerImage: "r/lpp:t", VolumeHelperImage: "r/vol:t",
		Socket:    containerdSocket,
		Volumes:   []volumeFolder{{"x", "/s/volumes"}, {"y", "/t/volumes"}},
		Replicas:  2,
		SeedPods:  "10.241.0.0/16",
		GCPercent: 300, MaxProcs: 7,
	}
	result := map[string][]byte{}
	var err error
	for name, text := range map[string]string{
		"containerd": containerdTemplate, "kubelet": kubeletTemplate, "proxy": proxyTemplate,
		"coredns": corednsManifests, "provisioner": provisionerManifests,
		"single-node": singleNodeManifests, "small-machine": smallMachineManifests,
	} {
		if result[name], err = apply.Render(name, text, s); err != nil {
			return nil, err
		}
	}
	cni, err := s.cniConfig()
	result["cni"] = cni
	if err == nil && !json.Valid(cni) {
		err = json.Unmarshal(cni, &struct{}{})
	}
	return result, err
}

// DeleteClaim is deleteClaim for tests.
var DeleteClaim = deleteClaim

// EnsureSocket is ensureSocket for tests.
var EnsureSocket = ensureSocket
