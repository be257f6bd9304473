// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// host is one node of a seed. The only node of a seed shares its namespaces with the control plane; of several, each
// has its own.
type host struct {
	*Node
	node config.Node
	// namespaces and cgroupFolders are those of its daemons.
	namespaces    process.Namespaces
	cgroupFolders []string
}

func (h *host) dir(elem ...string) string {
	return h.cfg.Dir(append([]string{h.node.Folder}, elem...)...)
}

// own returns the name of a certificate of the node. They all are in the folder of the seed.
func (h *host) own(name string) string {
	if h.seed.Apart() {
		return h.node.Name + "-" + name
	}
	return name
}

// daemon completes the specification of a daemon of the node.
func (h *host) daemon(name string, command []string, files ...string) process.Spec {
	return process.Spec{
		Name:       h.node.Name + "-" + name,
		Command:    command,
		Namespaces: h.namespaces,
		Cgroups:    h.cgroupFolders,
		Files:      files,
	}
}

// prepare connects the node to the network and starts its first process.
func (h *host) prepare(ctx context.Context) error {
	if err := network.EnsureMember(h.cfg, h.node.Netns, h.node.IP); err != nil {
		return err
	}
	if err := network.EnableForwarding(h.node.Netns); err != nil {
		return err
	}
	if h.seed.Apart() {
		if err := h.connectPods(ctx); err != nil {
			return err
		}
	}
	if h.seed.Apart() {
		if err := h.cgroups.Ensure(h.node.Cgroup, machine.WeightNode); err != nil {
			return err
		}
	}
	var err error
	if h.cgroupFolders, err = h.cgroups.EnsureLeaf(h.node.Cgroup, "daemons"); err != nil {
		return err
	}
	h.namespaces, err = h.ensureInit(ctx)
	return err
}

// connectPods routes between the pods of this node, the other nodes and the control plane. Pods keep their addresses on
// the way from node to node, as the policies for their traffic demand.
func (h *host) connectPods(ctx context.Context) error {
	if err := network.EnsureRoute(h.seed.Netns, h.node.PodCIDR, h.node.IP); err != nil {
		return err
	}
	for _, other := range h.seed.Nodes {
		if other.Name == h.node.Name {
			continue
		}
		if err := network.EnsureRoute(h.node.Netns, other.PodCIDR, other.IP); err != nil {
			return err
		}
	}
	nft, err := build.Installed("nft", "nftables")
	if err != nil {
		return err
	}
	return network.EnsureMasquerade(ctx, nft, h.node.Netns, h.seed.PodCIDR)
}

// startRuntime starts containerd and imports the images.
func (h *host) startRuntime(ctx context.Context, images ...image.Tarball) ([]string, error) {
	containerd, err := h.ensureContainerd(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.awaitContainerd(ctx, containerd); err != nil {
		return nil, err
	}
	return h.loadImages(ctx, images...)
}

// volumes are the folders of volumes of all nodes.
func (h *host) volumes() []volumeFolder {
	if !h.seed.Apart() {
		return []volumeFolder{{Node: "DEFAULT_PATH_FOR_NON_LISTED_NODES", Path: h.dir("volumes")}}
	}
	var folders []volumeFolder
	for _, other := range h.hosts() {
		folders = append(folders, volumeFolder{Node: other.node.Name, Path: other.dir("volumes")})
	}
	return folders
}

// ensureInit starts the first process of the node and returns the namespaces it holds.
func (h *host) ensureInit(ctx context.Context) (process.Namespaces, error) {
	var none process.Namespaces
	binary := filepath.Join(h.cfg.Bin(), "nodeinit")
	var binds []string
	for _, folder := range hostFolders {
		if err := h.ensureHostFolder(folder); err != nil {
			return none, err
		}
		own := h.dir("root", folder)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return none, fmt.Errorf("failed to make folder: %w", err)
		}
		binds = append(binds, own+"="+folder)
	}
	spec := process.Spec{
		Name: h.node.Name + "-nodeinit",
		// Volumes are in memory: the members of the shoots' etcds do sync what they write, and a dozen of them on one
		// disk wait up to a second for it whenever containers start. A volume of a real seed waits for nobody else's
		// writes.
		Command: []string{binary, "-hostname=" + h.node.Name, "-binds=" + strings.Join(binds, ","),
			"-memory=" + h.dir("volumes")},
		Namespaces:    process.Namespaces{Net: network.Path(h.node.Netns)},
		NewNamespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Cgroups:       h.cgroupFolders,
	}
	current, err := h.processes.Current(spec)
	if err != nil {
		return none, err
	}
	if !current {
		// The namespaces' other processes end with their first one, but not before it looks ended: wait until they have
		// release their ports.
		if err := machine.KillIn(network.Path(h.node.Netns)); err != nil {
			return none, fmt.Errorf("failed to end what is left of %s: %w", h.node.Name, err)
		}
	}
	if _, err := h.processes.Ensure(ctx, spec); err != nil {
		return none, err
	}
	pid := h.processes.PID(spec.Name)
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := h.processes.Wait(wait, spec.Name, func(context.Context) error {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/nodeinit-ready", pid))
		return err
	}); err != nil {
		return none, err
	}
	if h.cfg.HasWorkers() {
		if err := errors.Join(h.ensureHostFolder(modulesFolder),
			ensureSocket(fmt.Sprintf("/proc/%d/root%s", pid, dockerSocket))); err != nil {
			return none, err
		}
	}
	ns := func(kind string) string { return fmt.Sprintf("/proc/%d/ns/%s", pid, kind) }
	return process.Namespaces{Net: ns("net"), Mount: ns("mnt"), PID: ns("pid"), UTS: ns("uts"), IPC: ns("ipc")}, nil
}

// ensureSocket makes a socket that nobody listens on, unless it is there.
func ensureSocket(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("failed to make socket %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false)
	return listener.Close()
}

// ensureHostFolder makes a folder of the machine and remembers it, so that Down can remove it again.
func (h *host) ensureHostFolder(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to look for %s: %w", folder, err)
	}
	return machine.DefaultFolders().Make(folder)
}

// configure writes the configuration files of the node and returns what they say.
func (h *host) configure(ctx context.Context, controlPlane *cluster.ControlPlane) (*settings, error) {
	runc, err := build.Installed("runc", "runc")
	if err != nil {
		return nil, err
	}
	if _, err := build.Installed("nft", "nftables"); err != nil {
		return nil, err
	}
	cni, err := build.Tool(ctx, h.cfg, "cni")
	if err != nil {
		return nil, err
	}
	serving, proxyKubeconfig, err := h.issue(controlPlane)
	if err != nil {
		return nil, err
	}
	s := &settings{
		Name:              h.node.Name,
		CgroupRoot:        "/" + h.node.Cgroup,
		CAFile:            controlPlane.CA.File(),
		CertFile:          serving.CertFile,
		KeyFile:           serving.KeyFile,
		Kubeconfig:        proxyKubeconfig,
		Runc:              runc,
		ContainerdRoot:    h.dir("containerd"),
		CNIBin:            cni,
		CNIConf:           h.dir("conf", "cni"),
		Resolv:            h.dir("conf", "resolv.conf"),
		Logs:              h.dir("pod-logs"),
		Plugins:           h.dir("volume-plugins"),
		VolumeDir:         h.dir("volumes"),
		Volumes:           h.volumes(),
		Replicas:          min(2, len(h.seed.Nodes)),
		SeedPods:          h.seed.PodCIDR,
		PodCIDR:           h.node.PodCIDR,
		Masquerade:        !h.seed.Apart(),
		DNSIP:             h.seed.DNSIP,
		Upstream:          strings.Join(h.cfg.NameServers(), " "),
		Socket:            containerdSocket,
		PauseImage:        image.Ref(pauseImage),
		CoreDNSImage:      image.Ref(corednsImage),
		ProvisionerImage:  image.Ref(provisionerImage),
		VolumeHelperImage: image.Ref(volhelperImage),
		GCPercent:         process.GCPercent,
		MaxProcs:          process.MaxProcs(),
	}
	if err := h.writeConfiguration(s); err != nil {
		return nil, err
	}
	for _, folder := range []string{s.Logs, s.Plugins, s.VolumeDir} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("failed to make folder: %w", err)
		}
	}
	return s, nil
}

// issue issues the certificates of the node's programs. It returns the serving certificate of the kubelet and the
// kubeconfig of kube-proxy.
func (h *host) issue(controlPlane *cluster.ControlPlane) (serving *pki.Pair, proxyKubeconfig string, err error) {
	user := "system:node:" + h.node.Name
	if serving, err = controlPlane.CA.Ensure(h.own("kubelet-server"),
		pki.Request{CommonName: user, Organizations: []string{"system:nodes"}, DNSNames: []string{h.node.Name},
			IPs: []string{h.node.IP}}); err != nil {
		return nil, "", err
	}
	folder := h.cfg.PKI(h.seed.Name)
	proxyKubeconfig = filepath.Join(folder, "kube-proxy.kubeconfig")
	if err := controlPlane.Kubeconfig(proxyKubeconfig, "kube-proxy",
		pki.Request{CommonName: "system:kube-proxy"}); err != nil {
		return nil, "", err
	}
	if err := controlPlane.Kubeconfig(h.policyKubeconfig(), policyDaemon,
		pki.Request{CommonName: policyUser}); err != nil {
		return nil, "", err
	}
	return serving, proxyKubeconfig, controlPlane.Kubeconfig(
		filepath.Join(folder, h.own("kubelet")+".kubeconfig"), h.own("kubelet"),
		pki.Request{CommonName: user, Organizations: []string{"system:nodes"}})
}

// writeConfiguration writes the files by which the node's programs are configured.
func (h *host) writeConfiguration(s *settings) error {
	network, err := s.cniConfig()
	if err != nil {
		return fmt.Errorf("failed to encode network configuration: %w", err)
	}
	files := map[string][]byte{
		"cni/10-pods.conflist": network,
		"resolv.conf":          []byte("nameserver " + h.cfg.Garden.IP + "\n"),
	}
	for name, text := range map[string]string{"containerd.toml": containerdTemplate, "kubelet.yaml": kubeletTemplate,
		"kube-proxy.yaml": proxyTemplate} {
		if files[name], err = s.render(name, text); err != nil {
			return err
		}
	}
	for name, content := range files {
		file := h.dir("conf", name)
		// kube-proxy exits when its file is written to, even with the same content.
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("failed to make folder: %w", err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("failed to write configuration: %w", err)
		}
	}
	return nil
}

func (h *host) ensureContainerd(ctx context.Context) (process.Spec, error) {
	dir, err := build.Tool(ctx, h.cfg, "containerd")
	if err != nil {
		return process.Spec{}, err
	}
	conf := h.dir("conf", "containerd.toml")
	spec := h.daemon("containerd", []string{filepath.Join(dir, "containerd"), "--config=" + conf}, conf)
	// It finds its shim through PATH.
	spec.Env = []string{"PATH=" + dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	_, err = h.processes.Ensure(ctx, spec)
	return spec, err
}

func (h *host) awaitContainerd(ctx context.Context, spec process.Spec) error {
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return h.processes.Wait(wait, spec.Name, func(ctx context.Context) error {
		_, err := h.ctr(ctx, "version")
		return err
	})
}

// ensureKubelet starts kubelet and service proxy and reports whether it has started the kubelet just now.
func (h *host) ensureKubelet(ctx context.Context) (bool, error) {
	dir, err := build.Tool(ctx, h.cfg, "kubernetes")
	if err != nil {
		return false, err
	}
	conf := h.dir("conf", "kubelet.yaml")
	fresh, err := h.processes.Ensure(ctx, h.daemon("kubelet", []string{
		filepath.Join(dir, "kubelet"),
		"--config=" + conf,
		"--kubeconfig=" + filepath.Join(h.cfg.PKI(h.seed.Name), h.own("kubelet")+".kubeconfig"),
		"--hostname-override=" + h.node.Name,
		"--node-ip=" + h.node.IP,
		"--node-labels=topology.kubernetes.io/region=" + h.seed.Region + ",topology.kubernetes.io/zone=" + h.node.Zone,
		"--root-dir=" + h.dir("kubelet"),
		"--cert-dir=" + h.dir("kubelet-certificates"),
	}, conf, filepath.Join(h.cfg.PKI(h.seed.Name), h.own("kubelet-server")+".crt")))
	if err != nil {
		return false, err
	}
	conf = h.dir("conf", "kube-proxy.yaml")
	_, err = h.processes.Ensure(ctx,
		h.daemon("kube-proxy", []string{filepath.Join(dir, "kube-proxy"), "--config=" + conf}, conf))
	return fresh, err
}

// running returns the namespaces of the running node.
func (h *host) running() (process.Namespaces, error) {
	pid := h.processes.PID(h.node.Name + "-nodeinit")
	if pid == 0 {
		return process.Namespaces{}, fmt.Errorf("%s does not run", h.node.Name)
	}
	ns := func(kind string) string { return "/proc/" + strconv.Itoa(pid) + "/ns/" + kind }
	return process.Namespaces{Net: ns("net"), Mount: ns("mnt"), PID: ns("pid"), UTS: ns("uts"), IPC: ns("ipc")}, nil
}

func (h *host) ctr(ctx context.Context, args ...string) (string, error) {
	dir, err := build.Tool(ctx, h.cfg, "containerd")
	if err != nil {
		return "", err
	}
	namespaces, err := h.running()
	if err != nil {
		return "", err
	}
	return process.Run(ctx, process.Spec{
		Command: append([]string{filepath.Join(dir, "ctr"), "--address=" + containerdSocket, "--namespace=k8s.io"},
			args...),
		Namespaces: namespaces,
	})
}

// loadImages imports those tarballs whose images the node does not have yet and returns their names.
func (h *host) loadImages(ctx context.Context, tarballs ...image.Tarball) ([]string, error) {
	listing, err := h.ctr(ctx, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("failed to list images of %s: %w", h.node.Name, err)
	}
	present := parseImages(listing)
	var imported []string
	for _, tarball := range tarballs {
		missing := false
		for _, ref := range tarball.Refs {
			missing = missing || tarball.Digest == "" || present[ref] != tarball.Digest
		}
		if !missing {
			continue
		}
		if _, err := h.ctr(ctx, "images", "import", "--local", tarball.File); err != nil {
			return nil, fmt.Errorf("failed to import image %s into %s: %w", tarball.Name, h.node.Name, err)
		}
		imported = append(imported, tarball.Name)
	}
	return imported, nil
}
