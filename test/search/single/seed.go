// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package single

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// anyTime is any time. Nothing here depends on it.
var anyTime = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// immediate is a clock on which whoever waits continues at once, later by that time.
type immediate struct {
	clock.Clock

	lock   sync.Mutex
	offset time.Duration
}

// Now implements clock.Clock.
func (c *immediate) Now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return anyTime.Add(c.offset)
}

// Since implements clock.Clock.
func (c *immediate) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After implements clock.Clock.
func (c *immediate) After(d time.Duration) <-chan time.Time {
	c.lock.Lock()
	c.offset += max(d, time.Millisecond)
	c.lock.Unlock()
	out := make(chan time.Time, 1)
	out <- c.Now()
	return out
}

// errUnknown says that the code under test has asked for something that this package knows nothing about. Teach it.
var errUnknown = errors.New("test/search/single does not know this")

// seedClient is the client of an agent in its seed. It has only the methods that are used; others panic.
type seedClient struct {
	client.Client

	world *World
	side  side
}

// Get implements client.Client.
func (c *seedClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	m := &c.world.members[c.side]
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	switch object := into.(type) {
	case *druidcorev1alpha1.Etcd:
		*object = druidcorev1alpha1.Etcd{ObjectMeta: meta}
		if m.paused {
			object.Annotations = map[string]string{
				druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation:       "true",
				druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation: "true",
			}
		}
	case *appsv1.StatefulSet:
		*object = appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(m.wanted)}}
	case *corev1.Pod:
		if !m.exists || key.Name != naming.PodName(etcdRole, 0) {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
		}
		*object = corev1.Pod{ObjectMeta: meta, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}}
		if m.deleting {
			object.DeletionTimestamp, object.DeletionGracePeriodSeconds = &metav1.Time{Time: anyTime}, new(int64(3))
		}
	default:
		return fmt.Errorf("%w: %T", errUnknown, into)
	}
	return nil
}

// Patch implements client.Client.
func (c *seedClient) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	m := &c.world.members[c.side]
	switch object := object.(type) {
	case *druidcorev1alpha1.Etcd:
		m.paused = metav1.HasAnnotation(object.ObjectMeta, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation)
	case *appsv1.StatefulSet:
		m.wanted = ptr.Deref(object.Spec.Replicas, 1)
		c.world.checkStop(c.side, "its StatefulSet gives it up")
	default:
		return fmt.Errorf("%w: a patch of %T", errUnknown, object)
	}
	return nil
}

// Delete implements client.Client, for the pod.
func (c *seedClient) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	if _, ok := object.(*corev1.Pod); !ok {
		return fmt.Errorf("%w: the deletion of %T", errUnknown, object)
	}
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	c.world.checkStop(c.side, "its pod was deleted")
	c.world.members[c.side].deleting = true
	return nil
}

// stop is what an agent must not do: it takes the pod away whatever its member is.
func (c *seedClient) stop() error {
	c.world.members[c.side].wanted = 0
	c.world.checkStop(c.side, "an agent was hasty")
	return nil
}

// checkStop judges the stop of a member by an agent.
func (w *World) checkStop(s side, why string) {
	if listed, ok := w.listed(s); ok && !listed.Learner && w.members[s].running {
		w.violates("the voter of the %s stops, because %s", s, why)
	}
}

// agentCluster is the etcd as an agent reaches it. What the agent changes is judged here, by the whole state.
type agentCluster struct {
	etcdclient.Cluster

	world *World
	side  side
}

// Promote implements etcdclient.Cluster.
func (c *agentCluster) Promote(ctx context.Context, id uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	for _, m := range c.world.cluster.Members() {
		if !m.Connected {
			c.world.violates("%s was promoted while %s does not answer", destination, sideOf(m.Member))
		}
	}
	return c.Cluster.Promote(ctx, id)
}

// Remove implements etcdclient.Cluster.
func (c *agentCluster) Remove(ctx context.Context, id uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	for _, m := range c.world.cluster.Members() {
		switch {
		case m.ID == id && m.Leader:
			c.world.violates("the leader was removed: %s", m.Member)
		case m.ID == id && !m.Learner && !m.Connected, m.ID != id && !m.Connected:
			c.world.violates("%x was removed while %s does not answer", id, sideOf(m.Member))
		case m.ID == id && sideOf(m.Member) != source:
			c.world.violates("the member of the destination was removed")
		}
	}
	return c.Cluster.Remove(ctx, id)
}

// MoveLeader implements etcdclient.Cluster.
func (c *agentCluster) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	return c.Cluster.MoveLeader(ctx, leader, to)
}

// Close implements etcdclient.Cluster.
func (c *agentCluster) Close() error { return nil }
