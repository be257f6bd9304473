// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// pods reports the pods that are bound to the node as running, and lets those go that are deleted.
type pods struct {
	node   *Node
	client kubernetes.Interface
	store  cache.Store
	// enqueue has the pod looked at again.
	enqueue func(object any)

	mu    sync.Mutex
	known map[types.UID]*running
	next  netip.Addr
}

// running is what runs for a pod.
type running struct {
	end      context.CancelFunc
	ip       string
	workload workload // nil for most pods
	// ended is closed when nothing of the pod runs any more.
	ended chan struct{}
}

func (r *running) unready() error {
	if r.workload == nil {
		return nil
	}
	return r.workload.unready()
}

func (p *pods) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 10*time.Second))
	defer context.AfterFunc(ctx, queue.ShutDown)()
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	watch := cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", p.node.Name))
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: watch, ObjectType: &corev1.Pod{}, ResyncPeriod: time.Minute,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				if pod, ok := object.(*corev1.Pod); ok {
					p.end(pod.UID)
				}
			},
		},
	})
	p.store = store
	p.enqueue = enqueue
	go controller.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		return ctx.Err()
	}
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return ctx.Err()
		}
		if err := p.reconcile(ctx, key); err != nil {
			p.node.Log.Info("Trying again", "pod", key, "reason", err.Error())
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func (p *pods) reconcile(ctx context.Context, key string) error {
	object, exists, err := p.store.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	if pod.DeletionTimestamp != nil {
		// The kubelet lets go of a pod when its containers have ended.
		select {
		case <-p.end(pod.UID):
		case <-ctx.Done():
			return ctx.Err()
		}
		err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
				Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("failed to release pod %s: %w", key, err)
		}
		return nil
	}
	if finished(pod) {
		return nil
	}
	started, err := p.begin(ctx, pod)
	if err != nil {
		return err
	}
	unready := started.unready()
	if pod.Status.Phase == corev1.PodRunning {
		if !SetReady(&pod.Status, unready, metav1.Now()) {
			return nil
		}
	} else {
		pod.Status = RunningStatus(pod, p.node.IP.String(), started.ip, metav1.Now())
		SetReady(&pod.Status, unready, metav1.Now())
	}
	if _, err := p.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to report pod %s as running: %w", key, err)
	}
	return nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// begin starts what really runs of a pod, which is little: see workloadOf.
func (p *pods) begin(ctx context.Context, pod *corev1.Pod) (*running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if started, known := p.known[pod.UID]; known {
		return started, nil
	}
	if pod.Status.PodIP == "" {
		ip, err := p.address(ctx, pod)
		if err != nil {
			return nil, err
		}
		pod.Status.PodIP = ip
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &running{end: cancel, ip: pod.Status.PodIP,
		workload: p.workloadOf(pod, func() { p.enqueue(pod) }),
		ended:    make(chan struct{})}
	p.known[pod.UID] = started
	go func() {
		defer close(started.ended)
		if started.workload != nil {
			started.workload.run(ctx)
		}
	}()
	return started, nil
}

// end ends what runs of a pod. The result is closed when that is over.
func (p *pods) end(uid types.UID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	started, known := p.known[uid]
	if !known {
		over := make(chan struct{})
		close(over)
		return over
	}
	started.end()
	delete(p.known, uid)
	return started.ended
}

// address returns the address of the pod: one of the node's range, unless it shares the node's network. It leads
// nowhere if nothing of the pod listens. The mutex must be held.
func (p *pods) address(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.HostNetwork {
		return p.node.IP.String(), nil
	}
	if !p.next.IsValid() {
		node, err := p.client.CoreV1().Nodes().Get(ctx, p.node.Name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("failed to get Node %s: %w", p.node.Name, err)
		}
		prefix, err := netip.ParsePrefix(node.Spec.PodCIDR)
		if err != nil {
			return "", fmt.Errorf("failed to read the pod range of Node %s: %w", p.node.Name, err)
		}
		p.next = prefix.Masked().Addr().Next()
		// After a restart, addresses are in use already.
		for _, object := range p.store.List() {
			if used, err := netip.ParseAddr(object.(*corev1.Pod).Status.PodIP); err == nil && prefix.Contains(used) &&
				used.Compare(p.next) > 0 {
				p.next = used
			}
		}
	}
	p.next = p.next.Next()
	return p.next.String(), nil
}

// RunningStatus is the status of a pod of which everything runs.
func RunningStatus(pod *corev1.Pod, hostIP, podIP string, now metav1.Time) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, QOSClass: pod.Status.QOSClass,
		HostIP: hostIP, HostIPs: []corev1.HostIP{{IP: hostIP}}, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
		ObservedGeneration: pod.Generation,
	}
	kinds := []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady}
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.Contains(kinds, gate.ConditionType) {
			kinds = append(kinds, gate.ConditionType)
		}
	}
	for _, kind := range kinds {
		status.Conditions = append(status.Conditions,
			corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			status.Conditions = append(status.Conditions, condition)
		}
	}
	for _, container := range pod.Spec.InitContainers {
		state := corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now},
		}
		if ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(container, state))
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses,
			containerStatus(container, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}))
	}
	return status
}

func containerStatus(container corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: container.Image,
		ContainerID: "hollow://" + container.Name,
		Ready:       true, Started: ptr.To(state.Running != nil), State: state,
	}
}
