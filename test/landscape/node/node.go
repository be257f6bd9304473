// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs a seed: a complete Kubernetes cluster whose single node lives in namespaces of its own on this
// machine. One process (nodeinit) holds the namespaces; when it ends, the whole node is gone.
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

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// hostFolders are where the kubelet and the runtime keep things at fixed paths. The node sees folders of its own there,
// but a mount needs a folder to be mounted at.
var hostFolders = []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/containers"}

// The machines of a shoot with workers and its cloud controller have these mounted from the node, and do not start
// without them. The folder is what the machine has; where that has no modules, it is empty. Nobody listens on the
// socket: Docker is asked only for load balancers.
const (
	modulesFolder = "/lib/modules"
	dockerSocket  = "/run/docker.sock"
)

// Node is the node of a seed and with it the seed's cluster.
type Node struct {
	cfg       *config.Config
	seed      config.Seed
	processes *process.Manager
	cgroups   machine.Cgroups
}

// New returns the node of a seed.
func New(cfg *config.Config, seed config.Seed, processes *process.Manager) (*Node, error) {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, seed: seed, processes: processes, cgroups: cgroups}, nil
}

func (n *Node) dir(elem ...string) string {
	return n.cfg.Dir(append([]string{n.seed.Name}, elem...)...)
}

// Up brings the cluster up, with the given images beside those every node has, and returns when its node, its DNS and
// its volume provisioner are ready. What runs already is left alone. Progress is reported through report.
func (n *Node) Up(ctx context.Context, report func(format string, args ...any), images ...image.Tarball) error {
	controlPlane, err := n.prepare(ctx)
	if err != nil {
		return err
	}
	settings, err := n.configure(ctx, controlPlane)
	if err != nil {
		return err
	}

	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := controlPlane.Up(groupCtx); err != nil {
			return err
		}
		report("%s: API server ready", n.seed.Name)
		return nil
	})
	group.Go(func() error {
		containerd, err := n.ensureContainerd(groupCtx, controlPlane)
		if err != nil {
			return err
		}
		if err := n.awaitContainerd(groupCtx, containerd); err != nil {
			return err
		}
		imported, err := n.LoadImages(groupCtx, images...)
		if err != nil {
			return err
		}
		if len(imported) > 0 {
			report("%s: imported %s", n.seed.Name, strings.Join(imported, ", "))
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}

	// Before the first pod.
	if err := n.enforcePolicies(ctx, controlPlane); err != nil {
		return err
	}
	fresh, err := n.ensureKubelet(ctx, controlPlane)
	if err != nil {
		return err
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	if err := n.installBase(ctx, c, settings); err != nil {
		return err
	}
	var since time.Time
	if fresh {
		since = time.Now()
	}
	if err := n.awaitReady(ctx, c, since); err != nil {
		return err
	}
	report("%s: node, DNS and volumes ready", n.seed.Name)
	return nil
}

// prepare connects the node to the network, starts its first process and returns its control plane, which is not
// started yet.
func (n *Node) prepare(ctx context.Context) (*cluster.ControlPlane, error) {
	if err := network.EnsureMember(n.cfg, n.seed.Netns, n.seed.IP); err != nil {
		return nil, err
	}
	if err := network.EnableForwarding(n.seed.Netns); err != nil {
		return nil, err
	}
	if err := n.cgroups.Ensure(n.seed.Netns, machine.WeightSeed); err != nil {
		return nil, err
	}
	daemons, err := n.cgroups.EnsureLeaf(n.seed.Netns, "daemons")
	if err != nil {
		return nil, err
	}
	namespaces, err := n.ensureInit(ctx, daemons)
	if err != nil {
		return nil, err
	}
	serviceIP, err := firstIP(n.seed.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	return cluster.New(n.cfg, n.processes, cluster.Values{
		Name:        n.seed.Name,
		IP:          n.seed.IP,
		ServiceCIDR: n.seed.ServiceCIDR,
		ServiceIP:   serviceIP,
		PodCIDR:     n.seed.PodCIDR,
		Scheduler:   true,
		Namespaces:  namespaces,
		Cgroups:     daemons,
	})
}

// installBase installs what every node has in its cluster.
func (n *Node) installBase(ctx context.Context, c client.Client, settings *settings) error {
	for _, manifests := range []struct{ name, text string }{
		// First, so that it already applies to the pods of the others.
		{"single-node", singleNodeManifests},
		{"coredns", corednsManifests},
		{"local-path-provisioner", provisionerManifests},
	} {
		rendered, err := settings.render(manifests.name, manifests.text)
		if err != nil {
			return err
		}
		if err := apply.Manifests(ctx, c, rendered); err != nil {
			return fmt.Errorf("failed to install %s in %s: %w", manifests.name, n.seed.Name, err)
		}
	}
	return nil
}

// Client returns a client of the seed's cluster.
func (n *Node) Client() (client.Client, error) {
	restConfig, err := apply.RESTConfig(n.cfg.Kubeconfig(n.seed.Name))
	if err != nil {
		return nil, err
	}
	c, err := client.New(restConfig, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("failed to make client of %s: %w", n.seed.Name, err)
	}
	return c, nil
}

// ensureInit starts the first process of the node and returns the namespaces it holds.
func (n *Node) ensureInit(ctx context.Context, cgroups []string) (process.Namespaces, error) {
	var none process.Namespaces
	binary := filepath.Join(n.cfg.Bin(), "nodeinit")
	var binds []string
	for _, folder := range hostFolders {
		if err := n.ensureHostFolder(folder); err != nil {
			return none, err
		}
		own := n.dir("root", folder)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return none, fmt.Errorf("failed to make folder: %w", err)
		}
		binds = append(binds, own+"="+folder)
	}
	spec := process.Spec{
		Name: n.seed.Name + "-nodeinit",
		// Volumes are in memory: the members of the shoots' etcds do sync what they write, and a dozen of them on one
		// disk wait up to a second for it whenever containers start. A volume of a real seed waits for nobody else's
		// writes.
		Command: []string{binary, "-hostname=" + n.seed.Name, "-binds=" + strings.Join(binds, ","),
			"-memory=" + n.dir("volumes")},
		Namespaces:    process.Namespaces{Net: network.Path(n.seed.Netns)},
		NewNamespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Cgroups:       cgroups,
	}
	current, err := n.processes.Current(spec)
	if err != nil {
		return none, err
	}
	if !current {
		// The namespaces' other processes end with their first one, but not before it looks ended: wait until they have
		// release their ports.
		if err := machine.KillIn(network.Path(n.seed.Netns)); err != nil {
			return none, fmt.Errorf("failed to end what is left of %s: %w", n.seed.Name, err)
		}
	}
	if _, err := n.processes.Ensure(ctx, spec); err != nil {
		return none, err
	}
	pid := n.processes.PID(spec.Name)
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := n.processes.Wait(wait, spec.Name, func(context.Context) error {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/nodeinit-ready", pid))
		return err
	}); err != nil {
		return none, err
	}
	if n.cfg.HasWorkers() {
		if err := errors.Join(n.ensureHostFolder(modulesFolder),
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
func (n *Node) ensureHostFolder(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to look for %s: %w", folder, err)
	}
	return machine.DefaultFolders().Make(folder)
}

// configure writes the configuration files of the node and returns what they say.
func (n *Node) configure(ctx context.Context, controlPlane *cluster.ControlPlane) (*settings, error) {
	runc, err := build.Installed("runc", "runc")
	if err != nil {
		return nil, err
	}
	if _, err := build.Installed("nft", "nftables"); err != nil {
		return nil, err
	}
	cni, err := build.Tool(ctx, n.cfg, "cni")
	if err != nil {
		return nil, err
	}
	serving, proxyKubeconfig, err := n.issue(controlPlane)
	if err != nil {
		return nil, err
	}
	s := &settings{
		Name:              n.seed.Name,
		CgroupRoot:        "/" + n.seed.Netns,
		CAFile:            controlPlane.CA.File(),
		CertFile:          serving.CertFile,
		KeyFile:           serving.KeyFile,
		Kubeconfig:        proxyKubeconfig,
		Runc:              runc,
		ContainerdRoot:    n.dir("containerd"),
		CNIBin:            cni,
		CNIConf:           n.dir("conf", "cni"),
		Resolv:            n.dir("conf", "resolv.conf"),
		Logs:              n.dir("pod-logs"),
		Plugins:           n.dir("volume-plugins"),
		VolumeDir:         n.dir("volumes"),
		PodCIDR:           n.seed.PodCIDR,
		DNSIP:             n.seed.DNSIP,
		Upstream:          strings.Join(n.cfg.NameServers(), " "),
		Socket:            containerdSocket,
		PauseImage:        image.Ref(pauseImage),
		CoreDNSImage:      image.Ref(corednsImage),
		ProvisionerImage:  image.Ref(provisionerImage),
		VolumeHelperImage: image.Ref(volhelperImage),
		GCPercent:         process.GCPercent,
		MaxProcs:          process.MaxProcs(),
	}
	if err := n.writeConfiguration(s); err != nil {
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
func (n *Node) issue(controlPlane *cluster.ControlPlane) (serving *pki.Pair, proxyKubeconfig string, err error) {
	user := "system:node:" + n.seed.Name
	if serving, err = controlPlane.CA.Ensure("kubelet-server",
		pki.Request{CommonName: user, Organizations: []string{"system:nodes"}, DNSNames: []string{n.seed.Name},
			IPs: []string{n.seed.IP}}); err != nil {
		return nil, "", err
	}
	folder := n.cfg.PKI(n.seed.Name)
	proxyKubeconfig = filepath.Join(folder, "kube-proxy.kubeconfig")
	if err := controlPlane.Kubeconfig(proxyKubeconfig, "kube-proxy",
		pki.Request{CommonName: "system:kube-proxy"}); err != nil {
		return nil, "", err
	}
	return serving, proxyKubeconfig, controlPlane.Kubeconfig(filepath.Join(folder, "kubelet.kubeconfig"), "kubelet",
		pki.Request{CommonName: user, Organizations: []string{"system:nodes"}})
}

// writeConfiguration writes the files by which the node's programs are configured.
func (n *Node) writeConfiguration(s *settings) error {
	network, err := s.cniConfig()
	if err != nil {
		return fmt.Errorf("failed to encode network configuration: %w", err)
	}
	files := map[string][]byte{
		"cni/10-pods.conflist": network,
		"resolv.conf":          []byte("nameserver " + n.cfg.Garden.IP + "\n"),
	}
	for name, text := range map[string]string{"containerd.toml": containerdTemplate, "kubelet.yaml": kubeletTemplate,
		"kube-proxy.yaml": proxyTemplate} {
		if files[name], err = s.render(name, text); err != nil {
			return err
		}
	}
	for name, content := range files {
		file := n.dir("conf", name)
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

func (n *Node) ensureContainerd(ctx context.Context, controlPlane *cluster.ControlPlane) (process.Spec, error) {
	dir, err := build.Tool(ctx, n.cfg, "containerd")
	if err != nil {
		return process.Spec{}, err
	}
	conf := n.dir("conf", "containerd.toml")
	spec := controlPlane.Daemon("containerd", []string{filepath.Join(dir, "containerd"), "--config=" + conf}, conf)
	// It finds its shim through PATH.
	spec.Env = []string{"PATH=" + dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	_, err = n.processes.Ensure(ctx, spec)
	return spec, err
}

func (n *Node) awaitContainerd(ctx context.Context, spec process.Spec) error {
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.processes.Wait(wait, spec.Name, func(ctx context.Context) error {
		_, err := n.ctr(ctx, "version")
		return err
	})
}

// ensureKubelet starts kubelet and service proxy and reports whether it has started the kubelet just now.
func (n *Node) ensureKubelet(ctx context.Context, controlPlane *cluster.ControlPlane) (bool, error) {
	dir, err := build.Tool(ctx, n.cfg, "kubernetes")
	if err != nil {
		return false, err
	}
	conf := n.dir("conf", "kubelet.yaml")
	fresh, err := n.processes.Ensure(ctx, controlPlane.Daemon("kubelet", []string{
		filepath.Join(dir, "kubelet"),
		"--config=" + conf,
		"--kubeconfig=" + filepath.Join(n.cfg.PKI(n.seed.Name), "kubelet.kubeconfig"),
		"--hostname-override=" + n.seed.Name,
		"--node-ip=" + n.seed.IP,
		"--node-labels=topology.kubernetes.io/region=" + n.seed.Region + ",topology.kubernetes.io/zone=" + n.seed.Zone,
		"--root-dir=" + n.dir("kubelet"),
		"--cert-dir=" + n.dir("kubelet-certificates"),
	}, conf, filepath.Join(n.cfg.PKI(n.seed.Name), "kubelet-server.crt")))
	if err != nil {
		return false, err
	}
	conf = n.dir("conf", "kube-proxy.yaml")
	_, err = n.processes.Ensure(ctx,
		controlPlane.Daemon("kube-proxy", []string{filepath.Join(dir, "kube-proxy"), "--config=" + conf}, conf))
	return fresh, err
}

// awaitReady waits for the node and for the pods of the base. What an earlier kubelet said about the node does not
// count: the kubelet has to have reported since the given time, unless that is zero.
func (n *Node) awaitReady(ctx context.Context, c client.Client, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	kubelet := n.seed.Name + "-kubelet"
	if err := n.processes.Wait(ctx, kubelet, func(ctx context.Context) error {
		if !since.IsZero() {
			lease := &coordinationv1.Lease{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.seed.Name},
				lease); err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
				return errors.New("kubelet has not reported yet")
			}
		}
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: n.seed.Name}, node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("node is not ready")
	}); err != nil {
		return fmt.Errorf("failed to wait for the node of %s: %w", n.seed.Name, err)
	}
	for _, name := range []string{"coredns", "local-path-provisioner"} {
		if err := n.processes.Wait(ctx, kubelet, func(ctx context.Context) error {
			deployment := &appsv1.Deployment{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, deployment); err != nil {
				return err
			}
			if deployment.Status.ObservedGeneration < deployment.Generation || deployment.Status.UpdatedReplicas < 1 ||
				deployment.Status.AvailableReplicas < 1 {
				return fmt.Errorf("deployment %s is not available", name)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("failed to wait for %s in %s: %w", name, n.seed.Name, err)
		}
	}
	return nil
}

// namespaces are those of the running node.
func (n *Node) namespaces() (process.Namespaces, error) {
	pid := n.processes.PID(n.seed.Name + "-nodeinit")
	if pid == 0 {
		return process.Namespaces{}, fmt.Errorf("%s does not run", n.seed.Name)
	}
	ns := func(kind string) string { return "/proc/" + strconv.Itoa(pid) + "/ns/" + kind }
	return process.Namespaces{Net: ns("net"), Mount: ns("mnt"), PID: ns("pid"), UTS: ns("uts"), IPC: ns("ipc")}, nil
}

func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	dir, err := build.Tool(ctx, n.cfg, "containerd")
	if err != nil {
		return "", err
	}
	namespaces, err := n.namespaces()
	if err != nil {
		return "", err
	}
	return process.Run(ctx, process.Spec{
		Command: append([]string{filepath.Join(dir, "ctr"), "--address=" + containerdSocket, "--namespace=k8s.io"},
			args...),
		Namespaces: namespaces,
	})
}

// LoadImages imports those tarballs whose images the node does not have yet and returns their names.
func (n *Node) LoadImages(ctx context.Context, tarballs ...image.Tarball) ([]string, error) {
	listing, err := n.ctr(ctx, "images", "ls")
	if err != nil {
		return nil, fmt.Errorf("failed to list images of %s: %w", n.seed.Name, err)
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
		if _, err := n.ctr(ctx, "images", "import", "--local", tarball.File); err != nil {
			return nil, fmt.Errorf("failed to import image %s into %s: %w", tarball.Name, n.seed.Name, err)
		}
		imported = append(imported, tarball.Name)
	}
	return imported, nil
}

// parseImages reads the table that ctr prints: the first column is the reference, the third one the digest.
func parseImages(listing string) map[string]string {
	images := map[string]string{}
	for _, line := range strings.Split(listing, "\n") {
		if fields := strings.Fields(line); len(fields) > 2 {
			images[fields[0]] = fields[2]
		}
	}
	return images
}

// Down ends the node and removes everything of it but its folder.
func (n *Node) Down() error {
	if err := machine.KillIn(network.Path(n.seed.Netns)); err != nil {
		return fmt.Errorf("failed to end %s: %w", n.seed.Name, err)
	}
	if err := network.Remove(n.seed.Netns); err != nil {
		return err
	}
	return n.cgroups.Remove(n.seed.Netns)
}

// Pods returns how many pods the seed has and which of them are not ready.
func (n *Node) Pods(ctx context.Context) (total int, notReady []string, err error) {
	c, err := n.Client()
	if err != nil {
		return 0, nil, err
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil, nil
		}
		return 0, nil, fmt.Errorf("failed to list pods of %s: %w", n.seed.Name, err)
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		total++
		ready := false
		for _, condition := range pod.Status.Conditions {
			ready = ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}
		if !ready {
			notReady = append(notReady, pod.Namespace+"/"+pod.Name)
		}
	}
	return total, notReady, nil
}
