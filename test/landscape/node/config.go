// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/image"
)

const (
	// containerdSocket is inside the node's own /run.
	containerdSocket = "/run/containerd/containerd.sock"

	pauseImage       = "pause"
	volhelperImage   = "volhelper"
	corednsImage     = "coredns"
	provisionerImage = "local-path-provisioner"
)

// BaseImages are the recipes of what every node runs.
func BaseImages() []image.Recipe {
	return []image.Recipe{
		{Name: pauseImage, Package: "./test/landscape/images/pause"},
		{Name: volhelperImage, Package: "./test/landscape/images/volhelper"},
		{Name: corednsImage, Component: "coredns", Binary: "coredns"},
		{Name: provisionerImage, Component: "local-path-provisioner", Binary: "local-path-provisioner"},
	}
}

//go:embed manifests/small-machine.yaml
var smallMachineManifests string

//go:embed manifests/single-node.yaml
var singleNodeManifests string

//go:embed manifests/coredns.yaml
var corednsManifests string

//go:embed manifests/local-path-provisioner.yaml
var provisionerManifests string

// settings are the values of a node's configuration files and manifests.
type settings struct {
	Name, CgroupRoot, CAFile, CertFile, KeyFile, Kubeconfig, Runc         string
	ContainerdRoot, CNIBin, CNIConf, Resolv, Logs, Plugins, VolumeDir     string
	PodCIDR, DNSIP, Upstream                                              string
	PauseImage, CoreDNSImage, ProvisionerImage, VolumeHelperImage, Socket string
	GCPercent, MaxProcs                                                   int

	// Volumes are the folders of volumes of all nodes.
	Volumes []volumeFolder
	// Replicas is the number of replicas of the cluster's DNS.
	Replicas int
	// SeedPods is the range of the pods of all nodes.
	SeedPods string
	// Masquerade lets the network of the pods hide them behind the node from everybody who is not on it.
	Masquerade bool
}

// volumeFolder is where the volumes of a node are.
type volumeFolder struct{ Node, Path string }

// containerdTemplate: OOM scores are only raised where the machine lets them be, network namespaces are kept in the
// node's own /run, and the sandbox image is never pulled. Nobody asks for the usage of containers; by default every
// shim would be asked for it each second, which took a third of a processor with sixty pods.
const containerdTemplate = `version = 3
root = {{ printf "%q" .ContainerdRoot }}
state = "/run/containerd"

[grpc]
  address = {{ printf "%q" .Socket }}

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = {{ printf "%q" .PauseImage }}

[plugins.'io.containerd.cri.v1.runtime']
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  stats_collect_period = "1h"
  stats_retention_period = "2h"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [{{ printf "%q" .CNIBin }}]
    conf_dir = {{ printf "%q" .CNIConf }}
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = {{ printf "%q" .Runc }}
        SystemdCgroup = false
`

// kubeletTemplate: the kubelet works on cgroup version 1 only when it is told to. Nothing is evicted and no image is
// collected for want of space: an image that is gone cannot be pulled again. Without any threshold for evictions the
// kubelet does not ask the runtime for the usage of all containers every ten seconds either, which took a tenth of a
// processor.
const kubeletTemplate = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: {{ .CgroupRoot }}
failSwapOn: false
containerRuntimeEndpoint: unix://{{ .Socket }}
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{ printf "%q" .CAFile }}}
authorization: {mode: Webhook}
tlsCertFile: {{ printf "%q" .CertFile }}
tlsPrivateKeyFile: {{ printf "%q" .KeyFile }}
clusterDomain: cluster.local
clusterDNS: [{{ .DNSIP }}]
resolvConf: {{ printf "%q" .Resolv }}
podLogsDir: {{ printf "%q" .Logs }}
volumePluginDir: {{ printf "%q" .Plugins }}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard:
  memory.available: 0%
  nodefs.available: 0%
  nodefs.inodesFree: 0%
  imagefs.available: 0%
  imagefs.inodesFree: 0%
localStorageCapacityIsolation: false
maxPods: 200
oomScoreAdj: 0
enableDebuggingHandlers: true
serializeImagePulls: false
registryPullQPS: 0
kubeAPIQPS: 100
kubeAPIBurst: 200
`

// proxyTemplate: limits of connection tracking belong to the machine and are left alone.
const proxyTemplate = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
oomScoreAdj: 0
clusterCIDR: {{ .SeedPods }}
hostnameOverride: {{ .Name }}
clientConnection: {kubeconfig: {{ printf "%q" .Kubeconfig }}}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {minSyncPeriod: 100ms}
`

func (s settings) render(name, text string) ([]byte, error) { return apply.Render(name, text, s) }

// cniConfig returns the network configuration of the node's pods: a bridge, with masquerading towards the hub unless
// that is done for the pods of all nodes together. Leases
// are in the node's own /run, so that a restarted node starts with none.
func (s settings) cniConfig() ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipMasq": s.Masquerade, "ipMasqBackend": "nftables",
				"ipam": map[string]any{
					"type":    "host-local",
					"dataDir": "/run/cni/leases",
					"ranges":  []any{[]any{map[string]any{"subnet": s.PodCIDR}}},
					"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
		},
	}, "", "  ")
}

// firstIP returns the first usable address of a range, which Kubernetes gives to its own API server.
func firstIP(cidr string) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("failed to parse range %q: %w", cidr, err)
	}
	return prefix.Masked().Addr().Next().String(), nil
}
