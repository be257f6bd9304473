// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"sync"
	"sync/atomic"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Pods are the pods of a namespace, to be followed.
type Pods interface {
	// List returns them.
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
	// Watch returns what becomes of them.
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// podWatch follows the pods of the etcds during one wait, for the locator and for nobody else. A look at both clusters
// otherwise gets twelve pods from the API server, twice per second, for minutes.
//
// It only finds addresses. What is decided about a pod (whether it is gone, whether to delete it, which revision it
// has) is read from the API server, as ever. An address that is out of date does no harm: whoever answers there has to
// show a certificate of the member's name and to say the member's identifier, and a member that does not answer is
// looked up at the API server the next time. So is one whose pod is not known here.
type podWatch struct {
	store  *podStore
	prefix string

	lock sync.Mutex
	// doubted are the names of pods whose members have not answered.
	doubted map[string]struct{}
}

// podStore knows whether it was filled.
type podStore struct {
	cache.Store

	filled atomic.Bool
}

// Replace implements cache.ReflectorStore.
func (s *podStore) Replace(list []any, resourceVersion string) error {
	err := s.Store.Replace(list, resourceVersion)
	if err == nil {
		s.filled.Store(true)
	}
	return err
}

type podWatchKey struct{}

// FollowPods returns a context under which the pods of the etcds are followed until the function is called, which must
// be called. It is for whoever looks at the clusters again and again; the functions of Joint that wait do it
// themselves.
func (j *Joint) FollowPods(ctx context.Context) (context.Context, func()) {
	if j.Pods == nil {
		return ctx, func() {}
	}
	watched := &podWatch{store: &podStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)},
		prefix: j.Namespace + "/", doubted: map[string]struct{}{}}
	selector := labels.SelectorFromSet(labels.Set{
		druidcorev1alpha1.LabelManagedByKey: druidcorev1alpha1.LabelManagedByValue}).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector = selector
			return j.Pods.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector = selector
			return j.Pods.Watch(ctx, opts)
		},
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, j.Pods),
		&corev1.Pod{}, watched.store, cache.ReflectorOptions{Logger: &j.Log, Name: "pods of the etcds"})
	following, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { reflector.RunWithContext(following) })
	return context.WithValue(ctx, podWatchKey{}, watched), func() {
		end()
		running.Wait()
	}
}

// watchedPods returns the pods that are followed under the context, or nil if none are.
func watchedPods(ctx context.Context) *podWatch {
	watched, _ := ctx.Value(podWatchKey{}).(*podWatch)
	return watched
}

// find returns the pod with the name, and whether it is to be believed.
func (w *podWatch) find(name string) (*corev1.Pod, bool) {
	if w == nil || !w.store.filled.Load() || w.doubts(name) {
		return nil, false
	}
	object, there, err := w.store.GetByKey(w.prefix + name)
	if err != nil || !there {
		return nil, false
	}
	pod, ok := object.(*corev1.Pod)
	return pod, ok
}

// doubts reports whether the pod is doubted, which holds for one look-up.
func (w *podWatch) doubts(name string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	_, doubted := w.doubted[name]
	delete(w.doubted, name)
	return doubted
}

// doubt lets pods be looked up at the API server the next time, because their members have not answered.
func (w *podWatch) doubt(names ...string) {
	if w == nil {
		return
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, name := range names {
		w.doubted[name] = struct{}{}
	}
}
