// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// SeedObserver watches the shoot's pods and extension objects in both seeds and hands every change to the tracker. It
// watches instead of sampling, so that not even a short overlap is missed.
type SeedObserver struct {
	namespace string
	seeds     []*Cluster
	tracker   *Tracker

	mu     sync.RWMutex
	stores map[string]cache.Store
}

// NewSeedObserver returns an observer that watches nothing yet.
func NewSeedObserver(namespace string, seeds []*Cluster, tracker *Tracker) *SeedObserver {
	return &SeedObserver{namespace: namespace, seeds: seeds, tracker: tracker, stores: map[string]cache.Store{}}
}

// Start begins to watch and returns when everything of now is known.
func (o *SeedObserver) Start(ctx context.Context) error {
	for _, seed := range o.seeds {
		pods, err := o.watchPods(ctx, seed)
		if err != nil {
			return err
		}
		synced, err := o.watchExtensions(ctx, seed)
		if err != nil {
			return err
		}
		if !cache.WaitForCacheSync(ctx.Done(), append(synced, pods.HasSynced)...) {
			return fmt.Errorf("failed to list the shoot's objects in %s: %w", seed.Name, ctx.Err())
		}
		o.mu.Lock()
		o.stores[seed.Name] = pods.GetStore()
		o.mu.Unlock()
	}
	return nil
}

func (o *SeedObserver) watchPods(ctx context.Context, seed *Cluster) (cache.SharedIndexInformer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(seed.Kube, 0, informers.WithNamespace(o.namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(handlers(
		func(pod *corev1.Pod) { o.tracker.Observe(time.Now(), seed.Name, pod) },
		func(pod *corev1.Pod) { o.tracker.Gone(time.Now(), seed.Name, pod) },
	)); err != nil {
		return nil, fmt.Errorf("failed to watch pods in %s: %w", seed.Name, err)
	}
	factory.Start(ctx.Done())
	return informer, nil
}

// watchExtensions watches every namespaced kind of extension that the seed knows.
func (o *SeedObserver) watchExtensions(ctx context.Context, seed *Cluster) ([]cache.InformerSynced, error) {
	version := extensionsv1alpha1.SchemeGroupVersion
	list, err := seed.Kube.Discovery().ServerResourcesForGroupVersion(version.String())
	if err != nil {
		return nil, fmt.Errorf("failed to discover the extension resources of %s: %w", seed.Name, err)
	}
	objects, err := dynamic.NewForConfig(seed.REST)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for %s: %w", seed.Name, err)
	}

	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 0, o.namespace, nil)
	var synced []cache.InformerSynced
	for _, resource := range list.APIResources {
		if !resource.Namespaced || strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "watch") {
			continue
		}
		informer := factory.ForResource(version.WithResource(resource.Name)).Informer()
		if _, err := informer.AddEventHandler(handlers(
			func(object *unstructured.Unstructured) { o.tracker.ObserveExtension(time.Now(), seed.Name, object) },
			func(object *unstructured.Unstructured) { o.tracker.ExtensionGone(time.Now(), seed.Name, object) },
		)); err != nil {
			return nil, fmt.Errorf("failed to watch %s in %s: %w", resource.Name, seed.Name, err)
		}
		synced = append(synced, informer.HasSynced)
	}
	factory.Start(ctx.Done())
	return synced, nil
}

func handlers[T any](observe, gone func(T)) cache.ResourceEventHandler {
	changed := func(object any) {
		if typed, ok := object.(T); ok {
			observe(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if typed, ok := object.(T); ok {
				gone(typed)
			}
		},
	}
}

// RunningPods implements PodReader.
func (o *SeedObserver) RunningPods(seed, workload string) []string {
	o.mu.RLock()
	store := o.stores[seed]
	o.mu.RUnlock()
	if store == nil {
		return nil
	}
	names := []string{}
	for _, object := range store.List() {
		pod := object.(*corev1.Pod)
		if workloadOf(pod) == workload && running(pod) && pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}
