// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects are the Etcds, StatefulSets and ConfigMaps of a seed, by kind and name. Who is in here never changes: a write
// replaces it. So a copy of the map is a copy of all.
type objects map[string]client.Object

// errUnknown says that the code under test has asked for something that this package knows nothing about. Teach it.
var errUnknown = errors.New("test/search/membership does not know this")

// errKilled is what an agent gets that was killed in the middle of a move.
var errKilled = errors.New("the agent was killed")

// agentClient is the client of an agent in its seed. It has only the methods that package joint uses; others panic.
type agentClient struct {
	client.Client

	world *World
	side  side
	lock  sync.Mutex
}

// kindOf names the kinds that there are.
func kindOf(object client.Object) (string, error) {
	switch object.(type) {
	case *druidcorev1alpha1.Etcd:
		return "Etcd", nil
	case *appsv1.StatefulSet:
		return "StatefulSet", nil
	case *corev1.ConfigMap:
		return "ConfigMap", nil
	case *corev1.Pod:
		return "Pod", nil
	}
	return "", fmt.Errorf("%w: %T", errUnknown, object)
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func conflict(kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New(why))
}

// Get implements client.Client.
func (c *agentClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	kind, err := kindOf(into)
	if err != nil {
		return err
	}
	if key.Namespace != namespace {
		return notFound(kind, key.String())
	}
	if pod, ok := into.(*corev1.Pod); ok {
		p, found := c.world.place(c.side, key.Name)
		if !found || !c.world.at(p).exists {
			return notFound(kind, key.Name)
		}
		c.world.describe(p, pod)
		return nil
	}
	stored, found := c.world.objects[c.side][kind+" "+key.Name]
	if !found {
		return notFound(kind, key.Name)
	}
	return copyInto(stored, into)
}

func copyInto(from, into client.Object) error {
	switch object := into.(type) {
	case *druidcorev1alpha1.Etcd:
		from.(*druidcorev1alpha1.Etcd).DeepCopyInto(object)
	case *appsv1.StatefulSet:
		from.(*appsv1.StatefulSet).DeepCopyInto(object)
	case *corev1.ConfigMap:
		from.(*corev1.ConfigMap).DeepCopyInto(object)
	default:
		return fmt.Errorf("%w: %T", errUnknown, into)
	}
	return nil
}

// Patch implements client.Client. All patches of package joint are the difference between what was read and the object,
// so the object is what is wanted. It is refused unless what was read is the newest.
func (c *agentClient) Patch(
	_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption,
) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	kind, err := kindOf(object)
	if err != nil {
		return err
	}
	stored, found := c.world.objects[c.side][kind+" "+object.GetName()]
	switch {
	case kind == "Pod":
		return fmt.Errorf("%w: a patch of a pod", errUnknown)
	case !found:
		return notFound(kind, object.GetName())
	case stored.GetResourceVersion() != object.GetResourceVersion():
		return conflict(kind, object.GetName(), "it has changed")
	}
	if kind != "Etcd" && druidcorev1alpha1.AreManagedResourcesProtected(c.world.etcdOf(c.side, object).ObjectMeta) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, object.GetName(),
			errors.New("etcd-druid protects it"))
	}
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	if statefulSet, ok := object.(*appsv1.StatefulSet); ok {
		c.world.checkScale(c.side, statefulSet)
	}
	c.world.put(c.side, object)
	return nil
}

// Delete implements client.Client, for pods.
func (c *agentClient) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if _, ok := object.(*corev1.Pod); !ok {
		return fmt.Errorf("%w: the deletion of a %T", errUnknown, object)
	}
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	p, found := c.world.place(c.side, object.GetName())
	if !found || !c.world.at(p).exists {
		return notFound("Pod", object.GetName())
	}
	m := c.world.at(p)
	if options.Preconditions != nil && ptr.Deref(options.Preconditions.UID, m.uid) != m.uid {
		return conflict("Pod", object.GetName(), "another UID")
	}
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	c.world.checkStop(p, "its pod was deleted")
	c.world.endPod(p, ptr.Deref(options.GracePeriodSeconds, defaultGrace))
	return nil
}

// defaultGrace is how many seconds a pod of etcd-druid may take to stop.
const defaultGrace = 30

// put stores an object, with the next version.
func (w *World) put(s side, object client.Object) {
	kind, err := kindOf(object)
	if err != nil {
		panic(err)
	}
	w.version++
	object.SetResourceVersion(fmt.Sprint(w.version))
	stored, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		panic(errUnknown)
	}
	if strings.HasPrefix(object.GetName(), etcdMain.String()) {
		w.changes[etcdMain]++
	} else {
		w.changes[etcdEvents]++
	}
	w.objects[s] = maps.Clone(w.objects[s])
	w.objects[s][kind+" "+object.GetName()] = stored
}

// endPod lets a pod be told to end. A shorter time than before is taken over.
func (w *World) endPod(p place, grace int64) {
	m := w.at(p)
	if m.deleting && m.grace <= grace {
		return
	}
	m.deleting, m.grace, m.due = true, grace, w.clock.Now().Add(time.Duration(grace)*time.Second)
}

// describe writes what the API server knows of a pod.
func (w *World) describe(p place, pod *corev1.Pod) {
	m := w.at(p)
	*pod = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.podName(), UID: m.uid,
			Labels: map[string]string{appsv1.StatefulSetRevisionLabel: revisions[m.newest]}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
	}
	if m.deleting {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: m.due}, &m.grace
	}
	if w.ready(p) {
		pod.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if !m.lost && (m.process == running || m.process == aside) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "etcd",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
}

// revisions are those of the template of the pods, by whether it is the newest.
var revisions = map[bool]string{false: "of-two", true: "of-three"}

func uidOf(number int) types.UID { return types.UID(fmt.Sprint("pod-", number)) }
