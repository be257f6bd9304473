// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package hollow is a node of a shoot of which only the outside is there: it joins the shoot by the user data and the
// certificates that Gardener gives its machines, keeps its Node and its leases alive, and reports the pods that are
// bound to it as running without starting anything of them. What has an effect are requests of the kube-apiserver to
// the kubelet's port, which come through the VPN, and a few kinds of pods, of which a stand-in runs when one is bound
// to the node, or the real program: the VPN client (OpenVPN, see test/standins/vpn), the apiserver-proxy (envoy, in
// package container like the former), kube-proxy, the client that uses both (packages serviceproxy and incluster), and
// metrics-server.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	nodeagentconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/nodeagent/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/test/standins/machine/device"
)

const (
	// KubeletPort is the port of the kubelet's server.
	KubeletPort = 10250
	// leaseSeconds is how long the leases of kubelet and gardener-node-agent hold, heartbeat how often they are
	// renewed.
	leaseSeconds = 40
	heartbeat    = 10 * time.Second
	// retryInterval is the pause after an attempt that failed.
	retryInterval = 2 * time.Second
)

// Node is the hollow node.
type Node struct {
	Log  logr.Logger
	Data *UserData
	// Name is the name of the Node, IP its address.
	Name string
	IP   net.IP
	// Folder keeps the certificates and tells the machine's probe (see ReadyFile) that the node has joined.
	Folder string
	// Images is the folder with the images of the containers that run, each as a folder.
	Images string
	// Links are the network interfaces of the machine.
	Links device.Links

	// lives is done when the node ends, and what outlives its pods with it.
	lives   context.Context
	rules   rules
	cuts    cuts
	clients clients
}

// ReadyFile appears in the folder when the node has joined.
const ReadyFile = "joined"

// Run joins the shoot and is its node until the context ends.
func (n *Node) Run(ctx context.Context) error {
	if err := os.MkdirAll(n.Folder, 0o700); err != nil {
		return fmt.Errorf("failed to make folder: %w", err)
	}
	bootstrap := bootstrapConfig(n.Data)
	// gardener-node-agent's first: it gets none once there is a Node for the machine.
	agent, err := n.patiently(ctx, func() (*identity, error) {
		return obtain(ctx, bootstrap, n.Folder, nodeAgentRequest(n.Data.MachineName))
	})
	if err != nil {
		return err
	}
	kubelet, err := n.patiently(
		ctx, func() (*identity, error) { return obtain(ctx, bootstrap, n.Folder, kubeletRequest(n.Name)) })
	if err != nil {
		return err
	}
	kubeletClient, err := kubernetes.NewForConfig(kubelet.config(n.Data))
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}
	agentClient, err := kubernetes.NewForConfig(agent.config(n.Data))
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}
	if err := n.repeat(ctx, "register", func() error { return n.register(ctx, kubeletClient) }); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.Folder, ReadyFile), nil, 0o600); err != nil {
		return fmt.Errorf("failed to report that the node has joined: %w", err)
	}
	n.Log.Info("Joined", "node", n.Name, "ip", n.IP.String(), "server", n.Data.Server)

	group, ctx := errgroup.WithContext(ctx)
	n.lives = ctx
	group.Go(func() error {
		return n.beat(ctx, "kubelet", func(ctx context.Context) error { return n.keepNode(ctx, kubeletClient) })
	})
	group.Go(func() error {
		return n.beat(ctx, "gardener-node-agent", func(ctx context.Context) error { return n.agent(ctx, agentClient) })
	})
	pods := &pods{node: n, client: kubeletClient, known: map[types.UID]*running{}}
	group.Go(func() error { return pods.run(ctx) })
	group.Go(func() error { return n.serveCounts(ctx) })
	group.Go(func() error {
		serving, err := n.patiently(ctx, func() (*identity, error) {
			return obtain(ctx, kubelet.config(n.Data), n.Folder, servingRequest(n.Name, n.IP))
		})
		if err != nil {
			return err
		}
		return n.serveKubelet(ctx, serving)
	})
	if err := group.Wait(); ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// repeat calls f until it succeeds.
func (n *Node) repeat(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		n.Log.Info("Trying again", "what", what, "reason", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

func (n *Node) patiently(ctx context.Context, f func() (*identity, error)) (out *identity, err error) {
	err = n.repeat(ctx, "obtain certificate", func() (err error) {
		out, err = f()
		return err
	})
	return out, err
}

// beat calls f with each heartbeat. A failure is only logged: a node continues without its kube-apiserver.
func (n *Node) beat(ctx context.Context, what string, f func(context.Context) error) error {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		beatCtx, cancel := context.WithTimeout(ctx, 2*heartbeat)
		err := f(beatCtx)
		cancel()
		if err != nil && ctx.Err() == nil {
			n.Log.Info("Missed a heartbeat", "of", what, "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// register creates the Node. One that is there already is that of an earlier run.
func (n *Node) register(ctx context.Context, client kubernetes.Interface) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: goruntime.GOARCH,
			// A flag of the kubelet (--node-labels). The kube-proxy of a pool goes to its nodes by this label.
			v1beta1constants.LabelWorkerKubernetesVersion: n.Data.KubernetesVersion,
		}},
		Status: n.status(metav1.Now()),
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create Node %s: %w", n.Name, err)
	}
	return nil
}

// status is that of a kubelet in good health.
func (n *Node) status(now metav1.Time) corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus,
		reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now,
			LastTransitionTime: now}
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.IP.String()},
			{Type: corev1.NodeHostName, Address: n.Name}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: KubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: "v" + n.Data.KubernetesVersion, OSImage: "hollow", ContainerRuntimeVersion: "hollow://1",
			OperatingSystem: "linux",
			Architecture:    goruntime.GOARCH, KernelVersion: "hollow", MachineID: n.Name, SystemUUID: n.Name,
			BootID: n.Name,
		},
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		},
	}
}

// keepNode renews the kubelet's lease and writes a status that somebody has changed or emptied.
func (n *Node) keepNode(ctx context.Context, client kubernetes.Interface) error {
	if err := renew(ctx, client, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: n.Name},
		n.Name); err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get Node %s: %w", n.Name, err)
	}
	if ready(node) && len(node.Status.Addresses) > 0 {
		return nil
	}
	node.Status = n.status(metav1.Now())
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("failed to write the status of Node %s: %w", n.Name, err)
	}
	return nil
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// renew renews a lease.
func renew(ctx context.Context, client kubernetes.Interface, key types.NamespacedName, holder string) error {
	leases := client.CoordinationV1().Leases(key.Namespace)
	lease, err := leases.Get(ctx, key.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	} else if err != nil {
		return fmt.Errorf("failed to get Lease %s: %w", key, err)
	}
	lease.Spec.HolderIdentity = &holder
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](leaseSeconds)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if missing {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("failed to renew Lease %s: %w", key, err)
	}
	return nil
}

// agent does what others see of gardener-node-agent: it renews its lease and reports the operating system configuration
// as applied. The rights to it are those of gardener-node-agent, by its authorizer in gardener-resource-manager.
func (n *Node) agent(ctx context.Context, client kubernetes.Interface) error {
	lease := gardenerutils.NodeAgentLeaseName(n.Name)
	if err := renew(ctx, client, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: lease},
		lease); err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get Node %s: %w", n.Name, err)
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, n.Data.SecretName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get Secret %s: %w", n.Data.SecretName, err)
	}
	wanted := secret.Annotations[nodeagentconfigv1alpha1.AnnotationKeyChecksumDownloadedOperatingSystemConfig]
	if wanted == "" || node.Annotations[nodeagentconfigv1alpha1.AnnotationKeyChecksumAppliedOperatingSystemConfig] ==
		wanted {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`,
		nodeagentconfigv1alpha1.AnnotationKeyChecksumAppliedOperatingSystemConfig, wanted)
	if _, err := client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("failed to annotate Node %s: %w", n.Name, err)
	}
	n.Log.Info("Applied operating system configuration", "secret", secret.Name, "checksum", wanted)
	return nil
}
