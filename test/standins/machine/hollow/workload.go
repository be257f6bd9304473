// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// workload is what really runs of a pod.
type workload interface {
	// run runs it until the context ends.
	run(ctx context.Context)
	// unready returns why the pod is not ready; nil if it is.
	unready() error
}

// workloadOf returns what really runs of the pod, which has its address; nil for all pods but a few. changed is to be
// called when unready may say something else.
func (p *pods) workloadOf(pod *corev1.Pod, changed func()) workload {
	log := p.node.Log.WithValues("pod", pod.Namespace+"/"+pod.Name)
	host := host{log: log, node: p.node, client: p.client, changed: changed}
	if client, ok := newVPNClient(host, pod); ok {
		return client
	}
	if proxy, ok := newAPIServerProxy(host, pod); ok {
		return proxy
	}
	if proxy, ok := newKubeProxy(host, pod); ok {
		return proxy
	}
	if server, ok := newMetricsServer(host, pod); ok {
		return server
	}
	if client, ok := newInClusterClient(log, p.node, p.client, pod); ok {
		return client
	}
	return nil
}

// host is what a workload gets from its node.
type host struct {
	log    logr.Logger
	node   *Node
	client kubernetes.Interface
	// changed is to be called when unready may say something else.
	changed func()
}

// keepTrying makes an attempt, tells why it has ended, and makes the next one after the interval, until the context
// ends.
func keepTrying(ctx context.Context, interval time.Duration, attempt func(context.Context) error, ended func(error)) {
	for ctx.Err() == nil {
		if err := attempt(ctx); ctx.Err() == nil {
			ended(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// unready tells nothing: a pod of the VPN client has no probes.
func (v *vpnClient) unready() error { return nil }

// errStarting is why a pod is not ready whose program has not come that far.
var errStarting = errors.New("it is starting")

// readiness is whether a pod is ready, and tells changes.
type readiness struct {
	changed func()

	mu     sync.Mutex
	reason error
}

func newReadiness(changed func()) *readiness {
	return &readiness{changed: changed, reason: errStarting}
}

func (r *readiness) unready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

func (r *readiness) set(reason error) {
	r.mu.Lock()
	same := fmt.Sprint(r.reason) == fmt.Sprint(reason)
	r.reason = reason
	r.mu.Unlock()
	if !same {
		r.changed()
	}
}

// cuts remembers which apiserver-proxies of the node have ended and when, so that a client knows what it was disturbed
// by.
type cuts struct {
	mu  sync.Mutex
	all []*cut
}

// cut is the end of an apiserver-proxy. From begin to end it may still take connections, none of which lasts; end is
// zero before it is over.
type cut struct {
	// address is the one that the apiserver-proxy served.
	address    string
	begin, end time.Time
}

func (c *cuts) begin(address string, at time.Time) *cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &cut{address: address, begin: at}
	c.all = append(c.all, added)
	return added
}

// end says that it is over; of nil nothing.
func (c *cuts) end(over *cut, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if over != nil {
		over.end = at
	}
}

// cutShows is how long it may take until a client notices that its connection was closed.
const cutShows = 2 * time.Second

// cutByProxy reports whether the end of an apiserver-proxy has cost the request, whose connection broke: the connection
// must have been led to that one.
func (n *Node) cutByProxy(lost incluster.Lost) bool {
	address, _, err := net.SplitHostPort(n.rules.ledTo(lost.Local))
	return err == nil && n.cuts.between(address, lost.Begin, lost.End)
}

// between reports whether one with the address ended in that time, so that the end of a request can have come from it.
// What lasts longer has another reason.
func (c *cuts) between(address string, begin, end time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cut := range c.all {
		if cut.address != address {
			continue
		}
		over := cut.end
		if over.IsZero() || over.After(end) {
			over = end
		}
		if !over.Before(begin) && !cut.begin.After(end) && end.Sub(over) <= cutShows {
			return true
		}
	}
	return false
}

// podFolder is where files of the pod are kept.
func (n *Node) podFolder(pod *corev1.Pod) string {
	return filepath.Join(n.Folder, "pods", string(pod.UID))
}

// removePodFolder is called when the pod has ended.
func (n *Node) removePodFolder(pod *corev1.Pod) {
	if err := os.RemoveAll(n.podFolder(pod)); err != nil {
		n.Log.Info("Could not remove the files of a pod", "pod", pod.Namespace+"/"+pod.Name, "reason", err.Error())
	}
}

// SetReady makes a running pod ready, with all its containers, or not ready because of unready unless that is nil. It
// reports whether that is a change.
func SetReady(status *corev1.PodStatus, unready error, now metav1.Time) bool {
	value, reason, message, changed := corev1.ConditionTrue, "", "", false
	if unready != nil {
		value, reason, message = corev1.ConditionFalse, "ContainersNotReady", unready.Error()
	}
	ready := unready == nil
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != corev1.PodReady && condition.Type != corev1.ContainersReady ||
			condition.Status == value && condition.Message == message {
			continue
		}
		if condition.Status != value {
			condition.LastTransitionTime = now
		}
		condition.Status, condition.Reason, condition.Message, changed = value, reason, message, true
	}
	for i := range status.ContainerStatuses {
		if status.ContainerStatuses[i].Ready != ready {
			status.ContainerStatuses[i].Ready, changed = ready, true
		}
	}
	return changed
}
