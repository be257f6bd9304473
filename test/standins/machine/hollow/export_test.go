// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/livecpm/livecpm/test/standins/machine/container"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// Status is status for tests.
func (n *Node) Status(now metav1.Time) corev1.NodeStatus { return n.status(now) }

// Agent is agent for tests.
func (n *Node) Agent(ctx context.Context, client kubernetes.Interface) error {
	return n.agent(ctx, client)
}

// KeepNode is keepNode for tests.
func (n *Node) KeepNode(ctx context.Context, client kubernetes.Interface) error {
	return n.keepNode(ctx, client)
}

// Register makes the Node.
func (n *Node) Register(ctx context.Context, client kubernetes.Interface) error {
	return n.register(ctx, client)
}

// VPNMounts writes what the VPN client of the pod mounts below a folder, and tells whether the pod is one.
func VPNMounts(
	ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, folder string,
) ([]container.Mount, bool, error) {
	vpn, ok := newVPNClient(host{log: logr.Discard(), client: client}, pod)
	if !ok {
		return nil, false, nil
	}
	mounts, err := vpn.files.materialise(ctx, folder)
	return mounts, true, err
}

// CountsHandler is countsHandler for tests.
func (n *Node) CountsHandler() http.Handler { return n.countsHandler() }

// Pods are the pods of a node for tests, without a watch.
type Pods struct {
	pods  *pods
	Store cache.Store
	// Changed gets the keys of pods that are to be looked at again.
	Changed chan string
}

// NewPods returns the pods of the node, of which nothing outlives the context.
func NewPods(ctx context.Context, node *Node, client kubernetes.Interface) *Pods {
	node.lives = ctx
	out := &Pods{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), Changed: make(chan string, 100)}
	out.pods = &pods{node: node, client: client, store: out.Store, known: map[types.UID]*running{},
		enqueue: func(object any) {
			key, _ := cache.MetaNamespaceKeyFunc(object)
			out.Changed <- key
		}}
	return out
}

// Reconcile is reconcile for tests.
func (p *Pods) Reconcile(ctx context.Context, key string) error { return p.pods.reconcile(ctx, key) }

// End is end for tests.
func (p *Pods) End(uid types.UID) { p.pods.end(uid) }

// ReadFile returns the content of a file of the pod's first container.
func ReadFile(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, file string) ([]byte, error) {
	return mounted{client: client, pod: pod, container: &pod.Spec.Containers[0]}.read(ctx, file)
}

// MountedToken is a token that is mounted into the first container of a pod.
type MountedToken struct {
	Pod *corev1.Pod
	// At is where the container has it.
	At string
}

// KeepToken keeps the token in the file.
func KeepToken(ctx context.Context, client kubernetes.Interface, token MountedToken, file string) error {
	files := mounted{client: client, pod: token.Pod, container: &token.Pod.Spec.Containers[0]}
	projection, err := files.token(token.At)
	if err != nil {
		return err
	}
	return files.keepToken(ctx, logr.Discard(), projection, file)
}

// ProxyAddress is the address of the apiserver-proxy in question.
const ProxyAddress = "240.1.2.3"

// Disturbed reports whether a request of that time was disturbed by the proxy.
func (n *Node) Disturbed(begin, end time.Time) bool { return n.cuts.between(ProxyAddress, begin, end) }

// DisturbedElsewhere reports the same of a request that was led to another one.
func (n *Node) DisturbedElsewhere(begin, end time.Time) bool {
	return n.cuts.between("240.4.5.6", begin, end)
}

// CutByProxy tells whether the proxy has cost a request.
func (n *Node) CutByProxy(lost incluster.Lost) bool { return n.cutByProxy(lost) }

// ProxyEnds has the node remember that a proxy has begun to end at that time; it calls the result when it has ended.
func (n *Node) ProxyEnds(at time.Time) func(at time.Time) {
	cut := n.cuts.begin(ProxyAddress, at)
	return func(at time.Time) { n.cuts.end(cut, at) }
}
