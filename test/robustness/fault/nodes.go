// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	familyNodeDrain = "node-drain"
	familyNodeLoss  = "node-loss"

	// drained marks nodes that a fault has cordoned, so that no others are opened again.
	drained = "landscape.livecpm.dev/drained"
	// etcdOfNode is the member whose node is drained or lost: neither the first one, which etcd is asked through, nor
	// the last one, which leaves first.
	etcdOfNode = v1beta1constants.ETCDMain + "-1"

	// drainLasts is how long a node is closed. Its pods with volumes on it wait until it is open again.
	drainLasts = 3 * time.Minute
	// lossLasts is how long a node is gone, longer than Kubernetes takes to notice.
	lossLasts = 2 * time.Minute
	// evictionsLast bounds evictions of all relays of a seed, one after the other.
	evictionsLast = 4 * time.Minute
	evictInterval = time.Second
)

// Power switches the nodes of a seed off and on.
type Power interface {
	// PowerOff ends a node, whose volumes are lost.
	PowerOff(node string) error
	// Off are the nodes that do not run. It is empty where a seed has one node.
	Off() []string
	// Replace forgets what was bound to nodes that do not run, and brings empty ones in their places. When it fails,
	// it can be called again.
	Replace(ctx context.Context) error
}

// OfNodes returns the faults that need seeds with several nodes. They are not part of All.
func OfNodes() []Fault {
	early := point{gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin, Inside}
	late := point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside}
	join := point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Inside}
	source := span{early, point{gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete, Inside}}
	destination := span{join, late}
	// Until the third member has joined in step 6, the disruption budgets of the destination's etcds let go of none.
	held := span{point{gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer, Boundary},
		point{gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady, Boundary}}
	only := span{point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary}, late}
	return []Fault{
		&nodeDrain{eviction: eviction{fault: fault{name: "node-drain-source", family: familyNodeDrain, span: source,
			course: Course{Lasts: drainLasts}}, role: steps.Source}},
		&nodeDrain{eviction: eviction{fault: fault{name: "node-drain-destination", family: familyNodeDrain,
			span: only, course: Course{Lasts: drainLasts}}, role: steps.Destination}},
		&nodeDrain{held: true, eviction: eviction{fault: fault{name: "node-drain-held-destination",
			family: familyNodeDrain, span: held, course: Course{Lasts: drainLasts}}, role: steps.Destination}},
		&nodeLoss{fault{name: "node-loss-destination", family: familyNodeLoss, span: only,
			course: Course{Lasts: lossLasts}}, steps.Destination},
		&relayEvictions{eviction{fault: fault{name: "relay-evict-source", family: "relay-evict", span: source,
			course: Course{Lasts: evictionsLast}}, role: steps.Source}},
		&relayEvictions{eviction{fault: fault{name: "relay-evict-destination", family: "relay-evict",
			span: destination, course: Course{Lasts: evictionsLast}}, role: steps.Destination}},
	}
}

// eviction is a fault that asks for evictions while the migration continues, and is told off by disruption budgets
// until they permit it.
type eviction struct {
	fault

	role steps.Role

	mu   sync.Mutex
	done bool
	err  error
}

// begin lets the evictions run beside the migration.
func (f *eviction) begin(ctx context.Context, evict func(context.Context) error) {
	f.mu.Lock()
	f.done, f.err = false, nil
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.course.Lasts)
	go func() {
		defer cancel()
		err := evict(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done, f.err = true, err
	}()
}

// InForce reports whether all that was to be evicted has been.
func (f *eviction) InForce(_ context.Context, targets *Targets) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		targets.Log("%s: %v", f.name, f.err)
	}
	return f.done && f.err == nil, nil
}

// evict asks for the eviction of a pod until it is granted, or the pod is gone for another reason.
func (t *Targets) evict(ctx context.Context, seed Seed, pod types.NamespacedName, uid types.UID) error {
	var last error
	if err := wait.PollUntilContextCancel(ctx, evictInterval, true, func(ctx context.Context) (bool, error) {
		last = evictOnce(ctx, seed, pod, uid)
		return last == nil || apierrors.IsNotFound(last) || apierrors.IsConflict(last), nil
	}); err != nil {
		return fmt.Errorf("failed to evict pod %s in %s: %w", pod, seed.Name, errors.Join(err, last))
	}
	t.Log("evicted pod %s in %s", pod, seed.Name)
	return nil
}

func evictOnce(ctx context.Context, seed Seed, pod types.NamespacedName, uid types.UID) error {
	return seed.Kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
}

// settle notes that all that was to be evicted has been, while the eviction continues to look after the rest.
func (f *eviction) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
}

// nodeDrain closes a node and evicts its pods as kubectl drain does.
type nodeDrain struct {
	eviction

	// held tells that disruption budgets keep the members of etcd for as long as the fault lasts: all others leave.
	held bool
}

// Inject closes the node. Its pods leave while the migration continues.
func (f *nodeDrain) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		node, err := targets.nodeOf(ctx, seed, etcdOfNode)
		if err != nil {
			return err
		}
		targets.Log("draining node %s", node)
		if err := cordon(ctx, seed, node); err != nil {
			return err
		}
		f.begin(ctx, func(ctx context.Context) error { return f.empty(ctx, targets, seed, node) })
		return nil
	})
}

// empty evicts the pods of the node. If budgets are to hold members of etcd, it asks for these as well until the time
// is over, as a drain does, and returns an error if one is let go.
func (f *nodeDrain) empty(ctx context.Context, targets *Targets, seed Seed, node string) error {
	if !f.held {
		return targets.emptyNode(ctx, seed, node, func(*corev1.Pod) bool { return true })
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members := make(chan error, 1)
	go func() { members <- targets.expectHeld(ctx, seed, node) }()
	if err := targets.emptyNode(ctx, seed, node, func(pod *corev1.Pod) bool { return !isMember(pod) }); err != nil {
		return err
	}
	f.settle()
	return <-members
}

// isMember reports whether the pod is one of an Etcd.
func isMember(pod *corev1.Pod) bool {
	return pod.Labels["app.kubernetes.io/managed-by"] == "etcd-druid"
}

// expectHeld asks for the eviction of the node's members of etcd until the context ends. All of it must be refused by
// their disruption budgets.
func (t *Targets) expectHeld(ctx context.Context, seed Seed, node string) error {
	pods, err := podsOn(ctx, seed, node)
	if err != nil {
		return err
	}
	refused := 0
	_ = wait.PollUntilContextCancel(ctx, evictInterval, true, func(ctx context.Context) (bool, error) {
		for _, pod := range pods {
			if !isMember(&pod) {
				continue
			}
			switch evictErr := evictOnce(ctx, seed, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
				pod.UID); {
			case evictErr == nil:
				err = fmt.Errorf("the disruption budget let go of pod %s/%s on node %s", pod.Namespace, pod.Name, node)
				return true, nil
			case apierrors.IsTooManyRequests(evictErr):
				refused++
			}
		}
		return false, nil
	})
	if err == nil && refused == 0 {
		err = fmt.Errorf("no member of etcd was held on node %s", node)
	}
	return err
}

// Heal opens the node again.
func (f *nodeDrain) Heal(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		nodes, err := seed.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: drained})
		if err != nil {
			return fmt.Errorf("failed to list nodes: %w", err)
		}
		for _, node := range nodes.Items {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"spec":{"unschedulable":null}}`, drained)
			if _, err := seed.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch),
				metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("failed to open node %s: %w", node.Name, err)
			}
		}
		return nil
	})
}

// nodeOf returns the node of a pod of the shoot, of which the seed must have several.
func (t *Targets) nodeOf(ctx context.Context, seed Seed, name string) (string, error) {
	nodes, err := seed.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to list nodes: %w", err)
	}
	if len(nodes.Items) < 2 {
		return "", errors.New("the seed has a single node, which cannot be spared")
	}
	pod, err := seed.Kube.CoreV1().Pods(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get pod %s: %w", name, err)
	}
	if pod.Spec.NodeName == "" {
		return "", fmt.Errorf("pod %s is on no node", name)
	}
	return pod.Spec.NodeName, nil
}

func cordon(ctx context.Context, seed Seed, node string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}},"spec":{"unschedulable":true}}`, drained)
	if _, err := seed.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("failed to close node %s: %w", node, err)
	}
	return nil
}

// emptyNode evicts the pods of a node that are to leave, those of DaemonSets left out, until none is left. Pods that a
// disruption budget holds do not hold the others.
func (t *Targets) emptyNode(ctx context.Context, seed Seed, node string, leaves func(*corev1.Pod) bool) error {
	stays := func(pod corev1.Pod) bool { return !leaves(&pod) }
	pods, err := podsOn(ctx, seed, node)
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, stays)
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	for i := range pods {
		pod := &pods[i]
		group.Go(func() {
			errs[i] = t.evict(ctx, seed, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := wait.PollUntilContextCancel(ctx, evictInterval, true, func(ctx context.Context) (bool, error) {
		left, err := podsOn(ctx, seed, node)
		return err == nil && len(slices.DeleteFunc(left, stays)) == 0, nil
	}); err != nil {
		return fmt.Errorf("failed to empty node %s: %w", node, err)
	}
	t.Log("node %s is empty", node)
	return nil
}

// podsOn returns the pods on the node that a drain has to evict.
func podsOn(ctx context.Context, seed Seed, node string) ([]corev1.Pod, error) {
	list, err := seed.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list pods on node %s: %w", node, err)
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		owner := metav1.GetControllerOf(&pod)
		if owner != nil && owner.Kind == "DaemonSet" || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			continue
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// nodeLoss lets a node lose its power, and with it its volumes. At the end the node and what was bound to it are
// forgotten, and an empty one takes its place.
type nodeLoss struct {
	fault

	role steps.Role
}

// Inject switches the node off.
func (f *nodeLoss) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		node, err := targets.nodeOf(ctx, seed, etcdOfNode)
		if err != nil {
			return err
		}
		targets.Log("node %s loses its power and its volumes", node)
		return targets.Power(seed).PowerOff(node)
	})
}

// Heal brings empty nodes in the places of those that are gone.
func (f *nodeLoss) Heal(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		power := targets.Power(seed)
		if len(power.Off()) == 0 {
			return nil
		}
		return power.Replace(ctx)
	})
}

// InForce reports whether the node is still gone.
func (f *nodeLoss) InForce(_ context.Context, targets *Targets) (bool, error) {
	off := false
	err := targets.on([]steps.Role{f.role}, func(seed Seed) error {
		off = len(targets.Power(seed).Off()) > 0
		return nil
	})
	return off, err
}

// relayEvictions evicts the relays of a seed back to back: the next one as soon as the budget permits.
type relayEvictions struct{ eviction }

// Inject begins with the first relay. The others follow while the migration continues.
func (f *relayEvictions) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		pods, err := runningPods(ctx, seed, targets.Namespace, v1beta1constants.LabelApp+"="+exposure.Name)
		if err != nil {
			return err
		}
		f.begin(ctx, func(ctx context.Context) error {
			for _, pod := range pods {
				if err := targets.evict(ctx, seed, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
					pod.UID); err != nil {
					return err
				}
			}
			return nil
		})
		return nil
	})
}
