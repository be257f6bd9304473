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

	"github.com/livecpm/livecpm/pkg/etcd/naming"
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

	relaySelector = v1beta1constants.LabelApp + "=" + exposure.Name
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
	// While the cluster is joint and nobody joins or leaves, one member of each etcd may go in each seed.
	joint := span{point{gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer, Boundary},
		point{gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords, Inside}}
	only := span{point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary}, late}
	return []Fault{
		&nodeDrain{eviction{fault: fault{name: "node-drain-source", family: familyNodeDrain, span: source,
			course: Course{Lasts: drainLasts}}, roles: []steps.Role{steps.Source}}},
		&nodeDrain{eviction{fault: fault{name: "node-drain-destination", family: familyNodeDrain,
			span: only, course: Course{Lasts: drainLasts}}, roles: []steps.Role{steps.Destination}}},
		&nodeDrain{eviction{fault: fault{name: "node-drain-joint-destination", family: familyNodeDrain,
			span: joint, course: Course{Lasts: drainLasts}}, roles: []steps.Role{steps.Destination}}},
		&nodeDrain{eviction{fault: fault{name: "node-drain-joint-both", family: familyNodeDrain,
			span: joint, course: Course{Lasts: drainLasts}}, roles: []steps.Role{steps.Source, steps.Destination}}},
		&nodeLoss{fault{name: "node-loss-destination", family: familyNodeLoss, span: only,
			course: Course{Lasts: lossLasts}}, steps.Destination},
		&relayEvictions{eviction{fault: fault{name: "relay-evict-source", family: familyRelayEvict, span: source,
			course: Course{Lasts: evictionsLast}}, roles: []steps.Role{steps.Source}}},
		&relayEvictions{eviction{fault: fault{name: "relay-evict-destination", family: familyRelayEvict,
			span: destination, course: Course{Lasts: evictionsLast}}, roles: []steps.Role{steps.Destination}}},
	}
}

// eviction is a fault that asks for evictions while the migration continues, and is told off by disruption budgets
// until they permit it.
type eviction struct {
	fault

	roles []steps.Role

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

// Witness implements Witnessed.
func (f *eviction) Witness(ctx context.Context, targets *Targets) error {
	evicted, err := f.InForce(ctx, targets)
	if evicted {
		targets.Prove("%s has evicted all that it was to evict", f.name)
	}
	return err
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

// nodeDrain closes a node, in each of the seeds at the same time, and evicts its pods as kubectl drain does.
type nodeDrain struct{ eviction }

// Inject closes the nodes. Their pods leave while the migration continues.
func (f *nodeDrain) Inject(ctx context.Context, targets *Targets) error {
	type target struct {
		seed Seed
		node string
	}
	var closed []target
	if err := targets.on(f.roles, func(seed Seed) error {
		node, err := targets.nodeOf(ctx, seed, etcdOfNode)
		if err != nil {
			return err
		}
		targets.Log("draining node %s", node)
		closed = append(closed, target{seed, node})
		return cordon(ctx, seed, node)
	}); err != nil {
		return err
	}
	f.begin(ctx, func(ctx context.Context) error {
		errs := make([]error, len(closed))
		var group sync.WaitGroup
		for i, t := range closed {
			group.Go(func() { errs[i] = targets.emptyNode(ctx, t.seed, t.node) })
		}
		group.Wait()
		return errors.Join(errs...)
	})
	return nil
}

// Heal opens the nodes again.
func (f *nodeDrain) Heal(ctx context.Context, targets *Targets) error {
	return targets.on(f.roles, func(seed Seed) error {
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

// emptyNode evicts the pods of a node, those of DaemonSets left out, until none is left. Pods that a disruption budget
// holds do not hold the others.
func (t *Targets) emptyNode(ctx context.Context, seed Seed, node string) error {
	pods, err := podsOn(ctx, seed, node)
	if err != nil {
		return err
	}
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
		return err == nil && len(left) == 0, nil
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
		if pod.Spec.NodeName != node || owner != nil && owner.Kind == "DaemonSet" ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
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

// LosesMembers implements MemberLoss.
func (f *nodeLoss) LosesMembers() steps.Role { return f.role }

// Inject switches the node off.
func (f *nodeLoss) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		node, err := targets.nodeOf(ctx, seed, etcdOfNode)
		if err != nil {
			return err
		}
		targets.Log("node %s loses its power and its volumes", node)
		power := targets.Power(seed)
		if err := power.PowerOff(node); err != nil {
			return err
		}
		if err := eventually(ctx, "node "+node+" is off", func(context.Context) (bool, error) {
			return slices.Contains(power.Off(), node), nil
		}); err != nil {
			return err
		}
		targets.Prove("node %s in %s is off", node, seed.Name)
		return nil
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

// relayEvictions evicts the relays of a seed back to back: the next one as soon as the budget permits. The budget must
// not permit it before the replacement of the former one is in use.
type relayEvictions struct{ eviction }

// Inject begins with the first relay. The others follow while the migration continues.
func (f *relayEvictions) Inject(ctx context.Context, targets *Targets) error {
	return targets.on(f.roles, func(seed Seed) error {
		pods, err := runningPods(ctx, seed, targets.Namespace, relaySelector)
		if err != nil {
			return err
		}
		f.begin(ctx, func(ctx context.Context) error {
			for _, pod := range pods {
				if err := targets.evict(ctx, seed, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
					pod.UID); err != nil {
					return err
				}
				if err := targets.expectOthersInUse(ctx, seed, pod.Name); err != nil {
					return err
				}
			}
			return nil
		})
		return nil
	})
}

// expectOthersInUse expects all relays of the seed to be in use, apart from the one that has just been evicted.
func (t *Targets) expectOthersInUse(ctx context.Context, seed Seed, evicted string) error {
	pods, err := runningPods(ctx, seed, t.Namespace, relaySelector)
	if err != nil {
		return err
	}
	others := 0
	for _, pod := range pods {
		if pod.Name == evicted {
			continue
		}
		others++
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == exposure.ConditionInUse && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("the disruption budget let go of relay %s in %s while %s is not in use", evicted,
				seed.Name,
				pod.Name)
		}
	}
	if others != naming.MembersPerSeed-1 {
		return fmt.Errorf("the disruption budget let go of relay %s in %s while only %d others run", evicted, seed.Name,
			others)
	}
	return nil
}
