// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// lookups keep the pods that were looked up for one piece of work. A question to a member of the own seed otherwise
// gets its pod from the API server first: that takes longer than the answer, and the client's limiter spaces the
// questions of all migrations that the agent carries out.
//
// Pods may change meanwhile, so they are kept for work that takes a second or two and that looks at the cluster when it
// begins. A pod that goes away then shows as a member that does not answer.
type lookups struct {
	lock sync.Mutex
	pods map[string]*corev1.Pod
}

type lookupsKey struct{}

// withLookups returns a context under which each pod is looked up once.
func withLookups(ctx context.Context) context.Context {
	return context.WithValue(ctx, lookupsKey{}, &lookups{pods: map[string]*corev1.Pod{}})
}

// lookupsOf returns the lookups of the context, or nil if it has none.
func lookupsOf(ctx context.Context) *lookups {
	kept, _ := ctx.Value(lookupsKey{}).(*lookups)
	return kept
}

// find returns the pod with the name if it was looked up.
func (l *lookups) find(name string) (*corev1.Pod, bool) {
	if l == nil {
		return nil, false
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	pod, ok := l.pods[name]
	return pod, ok
}

// keep keeps a pod that can be reached.
func (l *lookups) keep(pod *corev1.Pod) {
	if l == nil {
		return
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.pods[pod.Name] = pod
}
