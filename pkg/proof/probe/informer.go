// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// informerTimeout bounds the first list of the informers.
const informerTimeout = time.Minute

// informer is client-go's reflector with its store, as each controller has them. It lists once and watches from then
// on; that it has to list again costs a cluster more than anything else that clients do.
type informer struct {
	kind      string
	ledger    *ledger
	sequence  func(object any) int64
	store     *countingStore
	reflector *cache.Reflector
}

// countingStore counts how often all that is in it is replaced, which is what a list leads to, however many requests it
// takes and whether it comes as a list or by a watch.
type countingStore struct {
	cache.Store
	replaced atomic.Int64
	// filled is closed when it has happened for the first time.
	filled chan struct{}
	fillIt func()
}

func newCountingStore() *countingStore {
	s := &countingStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), filled: make(chan struct{})}
	s.fillIt = sync.OnceFunc(func() { close(s.filled) })
	return s
}

// Replace puts the result of a list in the place of all that was there.
func (s *countingStore) Replace(objects []any, revision string) error {
	if err := s.Store.Replace(objects, revision); err != nil {
		return err
	}
	s.replaced.Add(1)
	s.fillIt()
	return nil
}

// relists is how often it had to list again.
func (i *informer) relists() int64 { return max(0, i.store.replaced.Load()-1) }

// missing counts the objects of which the informer does not hold what was acknowledged last, their deletion included.
func (i *informer) missing() (int64, []string) {
	held := map[string]int64{}
	for _, object := range i.store.List() {
		if meta, ok := object.(metav1.Object); ok {
			held[meta.GetName()] = i.sequence(object)
		}
	}
	return i.ledger.behind(held)
}

// newInformers returns one informer for ConfigMaps and one for the probe's own resource.
func (p *Probe) newInformers() ([]*informer, error) {
	c, err := p.keptLoadClient()
	if err != nil {
		return nil, err
	}
	configMaps, samples := c.core.ConfigMaps(p.namespace), c.dynamic.Resource(p.samples()).Namespace(p.namespace)
	sample := &unstructured.Unstructured{}
	sample.SetGroupVersionKind(p.samples().GroupVersion().WithKind(kindSample))
	return []*informer{
		p.newInformer(&corev1.ConfigMap{}, &informer{
			kind: kindConfigMap, ledger: p.ledger,
			sequence: func(object any) int64 {
				configMap, _ := object.(*corev1.ConfigMap)
				return sequenceOf(configMap)
			},
		}, source{
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return configMaps.List(ctx, options)
			},
			watch: configMaps.Watch,
		}),
		p.newInformer(sample, &informer{
			kind: kindSample, ledger: p.customs,
			sequence: func(object any) int64 {
				sample, _ := object.(*unstructured.Unstructured)
				return sampleSequence(sample)
			},
		}, source{
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return samples.List(ctx, options)
			},
			watch: samples.Watch,
		}),
	}, nil
}

// source is where an informer has its objects from.
type source struct {
	list  func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// newInformer completes the informer. Each of its requests that fails counts.
func (p *Probe) newInformer(example runtime.Object, i *informer, from source) *informer {
	i.store = newCountingStore()
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			options.LabelSelector = probeLabel
			r := request{verbList, i.kind, "for an informer"}
			if err = p.timedRead(ctx, r, func(ctx context.Context) (err error) {
				list, err = from.list(ctx, options)
				return err
			}); err != nil && !p.clients.closing.Load() {
				p.readFailed(r, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = probeLabel
			trying, attempt := withAttempt(ctx)
			stream, err := from.watch(trying, options)
			if err != nil && options.SendInitialEvents != nil && apierrors.IsInvalid(err) {
				// This API server does not list by a watch. The informer lists as of old.
				return stream, err
			}
			failure := err
			// client-go makes an empty watch of a connection that is closed instead of answered.
			if unanswered, cause := attempt.unanswered(); err == nil && unanswered {
				failure = fmt.Errorf("no answer: %w", cause)
			}
			r := request{verbWatch, i.kind, "for an informer"}
			p.kinds.sent(r)
			if failure != nil && ctx.Err() == nil {
				failure = attempt.explain(fmt.Errorf("failed to %s: %w", r, failure))
				p.kinds.failed(r, failure)
				p.watchFailed(failure)
			}
			return stream, err
		},
	}, example, i.store, cache.ReflectorOptions{Name: "probe", Logger: new(logr.Discard())})
	return i
}

// startInformers begins to inform and waits until all informers have listed once.
func (p *Probe) startInformers(ctx, watchCtx context.Context) error {
	var err error
	if p.informers, err = p.newInformers(); err != nil {
		return err
	}
	// What they would log is counted.
	watchCtx = klog.NewContext(watchCtx, logr.Discard())
	for _, i := range p.informers {
		p.watches.Go(func() { i.reflector.RunWithContext(watchCtx) })
	}
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	for _, i := range p.informers {
		select {
		case <-i.store.filled:
		case <-ctx.Done():
			return fmt.Errorf("failed to wait until the informer of %s has listed: %w", i.kind, context.Cause(ctx))
		}
	}
	return nil
}
