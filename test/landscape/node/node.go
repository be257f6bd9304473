// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs a seed: a complete Kubernetes cluster whose nodes live in namespaces of their own on this machine.
// One process (nodeinit) holds the namespaces of a node; when it ends, the whole node is gone.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
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

// Node is a seed's cluster with its nodes.
type Node struct {
	cfg       *config.Config
	seed      config.Seed
	processes *process.Manager
	cgroups   machine.Cgroups
}

// New returns the cluster of a seed.
func New(cfg *config.Config, seed config.Seed, processes *process.Manager) (*Node, error) {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, seed: seed, processes: processes, cgroups: cgroups}, nil
}

// Up brings the cluster up, with the given images beside those every node has, and returns when its nodes, its DNS and
// its volume provisioner are ready. What runs already is left alone. Progress is reported through report.
func (n *Node) Up(ctx context.Context, report func(format string, args ...any), images ...image.Tarball) error {
	hosts := n.hosts()
	controlPlane, err := n.prepare(ctx, hosts)
	if err != nil {
		return err
	}
	var base *settings
	for _, h := range hosts {
		if base, err = h.configure(ctx, controlPlane); err != nil {
			return err
		}
	}

	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := controlPlane.Up(groupCtx); err != nil {
			return err
		}
		report("%s: API server ready", n.seed.Name)
		return nil
	})
	for _, h := range hosts {
		group.Go(func() error {
			imported, err := h.startRuntime(groupCtx, images...)
			if err == nil && len(imported) > 0 {
				report("%s: imported %s", h.node.Name, strings.Join(imported, ", "))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return n.join(ctx, hosts, base, report)
}

// join lets the nodes join the cluster, installs the base and waits until all of it is ready.
func (n *Node) join(
	ctx context.Context, hosts []*host, base *settings, report func(format string, args ...any),
) error {
	if err := n.permitPolicyDaemons(ctx); err != nil {
		return err
	}
	since := map[string]time.Time{}
	for _, h := range hosts {
		// Before the first pod.
		if err := h.enforcePolicies(ctx); err != nil {
			return err
		}
		fresh, err := h.ensureKubelet(ctx)
		if err != nil {
			return err
		}
		since[h.node.Name] = time.Time{}
		if fresh {
			since[h.node.Name] = time.Now()
		}
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	if err := n.installBase(ctx, c, base); err != nil {
		return err
	}
	for name, at := range since {
		if err := n.awaitNode(ctx, c, name, at); err != nil {
			return err
		}
	}
	if err := n.awaitBase(ctx, c); err != nil {
		return err
	}
	report("%s: %d of %d nodes, DNS and volumes ready", n.seed.Name, len(hosts), len(hosts))
	return nil
}

// hosts are the nodes of the seed.
func (n *Node) hosts() []*host {
	var hosts []*host
	for _, node := range n.seed.Nodes {
		hosts = append(hosts, &host{Node: n, node: node})
	}
	return hosts
}

// prepare connects the nodes to the network, starts the first process of each, and returns the control plane, which is
// not started yet.
func (n *Node) prepare(ctx context.Context, hosts []*host) (*cluster.ControlPlane, error) {
	if err := network.EnsureMember(n.cfg, n.seed.Netns, n.seed.IP); err != nil {
		return nil, err
	}
	if err := n.cgroups.Ensure(n.seed.Netns, machine.WeightSeed); err != nil {
		return nil, err
	}
	daemons, err := n.cgroups.EnsureLeaf(n.seed.Netns, "daemons")
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if err := h.prepare(ctx); err != nil {
			return nil, err
		}
	}
	namespaces := process.Namespaces{Net: network.Path(n.seed.Netns)}
	if !n.seed.Apart() {
		namespaces = hosts[0].namespaces
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
		Endpoints:   n.seed.Apart(),
		Scheduler:   true,
		Namespaces:  namespaces,
		Cgroups:     daemons,
	})
}

// installBase installs what every node has in its cluster.
func (n *Node) installBase(ctx context.Context, c client.Client, settings *settings) error {
	manifests := []struct{ name, text string }{
		// First, so that they already apply to the pods of the others.
		{"small-machine", smallMachineManifests},
		{"coredns", corednsManifests},
		{"local-path-provisioner", provisionerManifests},
	}
	if !n.seed.Apart() {
		manifests = slices.Insert(manifests, 1, struct{ name, text string }{"single-node", singleNodeManifests})
	}
	for _, manifests := range manifests {
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

// awaitNode waits for the node. What an earlier kubelet said about it does not count: the kubelet has to have reported
// since the given time, unless that is zero.
func (n *Node) awaitNode(ctx context.Context, c client.Client, name string, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := n.processes.Wait(ctx, name+"-kubelet", func(ctx context.Context) error {
		if !since.IsZero() {
			lease := &coordinationv1.Lease{}
			key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}
			if err := c.Get(ctx, key, lease); err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
				return errors.New("kubelet has not reported yet")
			}
		}
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("node is not ready")
	}); err != nil {
		return fmt.Errorf("failed to wait for the node %s: %w", name, err)
	}
	return nil
}

// awaitBase waits for the pods of the base.
func (n *Node) awaitBase(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for _, name := range []string{"coredns", "local-path-provisioner"} {
		if err := n.processes.Wait(ctx, n.seed.Nodes[0].Name+"-kubelet", func(ctx context.Context) error {
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

// LoadImages imports into each node those tarballs whose images it does not have yet, and returns their names.
func (n *Node) LoadImages(ctx context.Context, tarballs ...image.Tarball) ([]string, error) {
	hosts := n.hosts()
	imported := make([][]string, len(hosts))
	group, ctx := errgroup.WithContext(ctx)
	for i, h := range hosts {
		group.Go(func() error {
			var err error
			imported[i], err = h.loadImages(ctx, tarballs...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(imported...)
	slices.Sort(all)
	return slices.Compact(all), nil
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

// Down ends the cluster with its nodes and removes everything of it but its folder.
func (n *Node) Down() error {
	if n.seed.Apart() {
		for _, h := range n.hosts() {
			if err := h.end(); err != nil {
				return err
			}
		}
	}
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
