// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// Whether a seed has room for a control plane shows only when its scheduler is asked. The source publishes what the
// pods of the largest control plane request that waits to move, and the destination deploys pods that request the same,
// for as long as the scheduler needs. They do nothing, and they have no priority, so that they drive nobody out.

const (
	// LabelRoom marks the pods that request what those of a control plane do. Its value is the name of the need.
	LabelRoom = "livecpm.gardener.cloud/probe-room"
	// roomPrefix begins the names of what makes them.
	roomPrefix = "room-"
)

// small is what pods may request and be left out: they fit beside the others.
var smallCPU, smallMemory = resource.MustParse("20m"), resource.MustParse("64Mi")

// demand is what the other side is to try for the control planes that wait to move there.
type demand struct {
	// needs are what the largest of them requests.
	needs []seedfacts.Need
	// controlPlanes are of which kinds they are.
	controlPlanes []seedfacts.ControlPlane
}

// demand returns what the control planes that wait to move to the other seed need; nothing if none waits. A shoot that
// somebody asks about counts as one that waits.
func (p *Prober) demand(ctx context.Context, own *gardencorev1beta1.Seed, peer string) (demand, error) {
	var out demand
	shoots, err := p.moving(ctx, own, peer)
	if err != nil {
		return out, err
	}
	for i := range shoots {
		if kind := kindOf(&shoots[i]); !slices.Contains(out.controlPlanes, kind) &&
			len(out.controlPlanes) < seedfacts.MaxControlPlanes {
			out.controlPlanes = append(out.controlPlanes, kind)
		}
		needs, err := p.needsOf(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(&shoots[i]))
		if err != nil {
			return out, err
		}
		if larger(seedfacts.RoomOf(needs), seedfacts.RoomOf(out.needs)) {
			out.needs = needs
		}
	}
	return out, nil
}

// moving returns the shoots that wait to move to the other seed. The one that somebody asks about comes first.
func (p *Prober) moving(
	ctx context.Context, own *gardencorev1beta1.Seed, peer string,
) ([]gardencorev1beta1.Shoot, error) {
	shoots := &gardencorev1beta1.ShootList{}
	if err := p.options.GardenClient.List(ctx, shoots); err != nil {
		return nil, fmt.Errorf("failed to list the Shoots of seed %s: %w", own.Name, err)
	}
	asked := func(shoot *gardencorev1beta1.Shoot) bool {
		return client.ObjectKeyFromObject(shoot).String() == seedfacts.RoomRequested(own, peer)
	}
	var out []gardencorev1beta1.Shoot
	for i := range shoots.Items {
		shoot := &shoots.Items[i]
		if shoot.Status.SeedName == nil || *shoot.Status.SeedName != own.Name {
			continue
		}
		source, destination, _ := steps.Seeds(shoot)
		waits := source == own.Name && destination == peer && steps.NeedsAgents(shoot) && !steps.InFlight(shoot)
		switch {
		case asked(shoot):
			out = slices.Insert(out, 0, *shoot)
		case waits:
			out = append(out, *shoot)
		}
	}
	return out, nil
}

func kindOf(shoot *gardencorev1beta1.Shoot) seedfacts.ControlPlane {
	return seedfacts.ControlPlane{
		Kubernetes: shoot.Spec.Kubernetes.Version, Workers: !v1beta1helper.IsWorkerless(shoot),
		HighlyAvailableVPN: v1beta1helper.IsHAVPNEnabled(shoot),
	}
}

func larger(one, other seedfacts.Room) bool {
	if c := one.CPU.Cmp(other.CPU); c != 0 {
		return c > 0
	}
	return one.Memory.Cmp(other.Memory) > 0
}

// needsOf returns what the pods of a control plane request now, by what they belong to. That is what they have been
// given by autoscalers as well, not only what they were deployed with.
func (p *Prober) needsOf(ctx context.Context, namespace string) ([]seedfacts.Need, error) {
	pods := &corev1.PodList{}
	if err := p.options.SeedClient.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the pods in namespace %s: %w", namespace, err)
	}
	found := map[string]seedfacts.Need{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		name, counts := belongsTo(pod)
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		if !counts || requests.Cpu().Cmp(smallCPU) < 0 && requests.Memory().Cmp(smallMemory) < 0 {
			continue
		}
		need, known := found[name]
		if !known {
			need = seedfacts.Need{Name: name, Apart: apart(pod)}
		}
		need.Pods++
		// Those of an autoscaler may differ for a while.
		if need.CPU.Cmp(*requests.Cpu()) < 0 {
			need.CPU = *requests.Cpu()
		}
		if need.Memory.Cmp(*requests.Memory()) < 0 {
			need.Memory = *requests.Memory()
		}
		found[name] = need
	}
	var out []seedfacts.Need
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out, nil
}

// belongsTo returns the name of the StatefulSet or the Deployment of a pod, and whether the pod is one that the
// destination is going to have as well.
func belongsTo(pod *corev1.Pod) (string, bool) {
	ofLivecpm := pod.Labels[exposure.LabelKey] == exposure.LabelValue
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	if ofLivecpm || ended || pod.DeletionTimestamp != nil || owner == nil {
		return "", false
	}
	switch owner.Kind {
	case "StatefulSet":
		return owner.Name, true
	case "ReplicaSet":
		return strings.TrimSuffix(owner.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]), true
	}
	return "", false
}

// apart returns the topology keys of which the scheduler must not give two such pods the same value, or not many more
// than others; sorted.
func apart(pod *corev1.Pod) []string {
	keys := map[string]bool{}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
			keys[constraint.TopologyKey] = true
		}
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil {
		for _, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			keys[term.TopologyKey] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// placeholders returns what makes pods that request as much as the needs say, and pull the images.
func (s *stage) placeholders() []*appsv1.StatefulSet {
	var out []*appsv1.StatefulSet
	for _, need := range s.carriers() {
		labels := map[string]string{LabelRoom: need.Name}
		spec := exposure.Pod(labels, 1, s.idle(), []corev1.Volume{exposure.SecretVolume("tls", Name)})
		spec.ImagePullSecrets = s.values.PullSecrets.References()
		if pullers := s.pullers(need.Name, spec.Containers[0]); len(pullers) > 0 {
			// Not with the image of the relay beside them: the pods of a control plane have no pull secrets.
			spec.Containers, spec.Volumes, spec.ImagePullSecrets = pullers, nil, nil
		}
		spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: need.CPU,
			corev1.ResourceMemory: need.Memory}
		spec.PriorityClassName = ""
		spec.TopologySpreadConstraints = nil
		for _, key := range need.Apart {
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels}})
		}
		statefulSet := &appsv1.StatefulSet{ObjectMeta: s.meta(roomPrefix + need.Name), Spec: appsv1.StatefulSetSpec{
			Replicas: new(need.Pods), ServiceName: naming.PeerServiceName(etcdRole),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template:            corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		}}
		out = append(out, statefulSet)
	}
	return out
}

// checkRoom returns an error unless all of these pods have a node.
func (s *stage) checkRoom(ctx context.Context) error {
	if len(s.needs) == 0 {
		return nil
	}
	pods := &corev1.PodList{}
	if err := s.options.SeedClient.List(ctx, pods, client.InNamespace(s.values.Namespace),
		client.HasLabels{LabelRoom}); err != nil {
		return fmt.Errorf("failed to list the pods in namespace %s: %w", s.values.Namespace, err)
	}
	var placed int32
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" {
			placed++
		}
	}
	if room := seedfacts.RoomOf(s.needs); placed < room.Pods {
		return fmt.Errorf("%d of %d pods that request as much as those of the control plane (%s) have a node",
			placed, room.Pods, room)
	}
	return nil
}

// leaveRoom removes these pods: what they were there for is known.
func (s *stage) leaveRoom(ctx context.Context) error {
	for _, statefulSet := range s.placeholders() {
		if err := client.IgnoreNotFound(s.options.SeedClient.Delete(ctx, statefulSet)); err != nil {
			return fmt.Errorf("failed to delete StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
		}
	}
	return nil
}
