// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// watcher is one long watch on the written objects.
type watcher struct {
	client    rest.Interface
	namespace string
	// failed is told about each attempt to establish the watch that did not succeed.
	failed func(err error)

	events      atomic.Int64
	established atomic.Int64
	duplicates  atomic.Int64
	disorder    atomic.Int64
	resets      atomic.Int64
	maxLag      atomic.Int64

	mu       sync.Mutex
	revision uint64
	seen     map[string]*bitset
}

// watchTimeoutSeconds keeps the server from ending the watch by its own, shorter default within a usual run.
const watchTimeoutSeconds = 3 * 60 * 60

// causeDecoding is the cause that client-go gives when the stream, not the server's message, is at fault.
const causeDecoding metav1.CauseType = "ClientWatchDecoding"

// retryDelay is how long a watcher waits after an attempt that failed.
const retryDelay = 250 * time.Millisecond

func newWatcher(client rest.Interface, namespace string, revision uint64, failed func(error)) *watcher {
	return &watcher{client: client, namespace: namespace, revision: revision, failed: failed,
		seen: map[string]*bitset{}}
}

// run watches until the context ends and begins again where it stopped each time the server ends the stream.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		err := w.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		// client-go makes an empty stream of a connection that is closed instead of answered: where nobody serves
		// behind an address that accepts, one would follow the other without a pause.
		pause := err == nil && time.Since(begin) < retryDelay
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			// Whatever happened since is lost to this watcher: it begins again at the present state.
			w.resets.Add(1)
			err = w.restart(ctx)
		}
		if err != nil {
			w.failed(err)
			pause = true
		}
		if pause {
			select {
			case <-ctx.Done():
			case <-time.After(retryDelay):
			}
		}
	}
}

func (w *watcher) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	revision, err := currentRevision(ctx, w.client, w.namespace)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.revision = revision
	w.mu.Unlock()
	return nil
}

// stream follows one watch to its end. The error tells that it could not be established or that the server ended it
// with an error; the mere end of an established stream is none.
func (w *watcher) stream(ctx context.Context) error {
	w.mu.Lock()
	revision := w.revision
	w.mu.Unlock()

	timeout := int64(watchTimeoutSeconds)
	stream, err := w.client.Get().
		MaxRetries(0).
		Namespace(w.namespace).
		Resource("configmaps").
		VersionedParams(&metav1.ListOptions{
			Watch:               true,
			LabelSelector:       probeLabel,
			ResourceVersion:     strconv.FormatUint(revision, 10),
			AllowWatchBookmarks: true,
			TimeoutSeconds:      &timeout,
		}, scheme.ParameterCodec).
		Watch(ctx)
	if err != nil {
		return err
	}
	defer stream.Stop()
	w.established.Add(1)

	for event := range stream.ResultChan() {
		switch event.Type {
		case watch.Error:
			err := apierrors.FromObject(event.Object)
			if apierrors.HasStatusCause(err, causeDecoding) {
				// The stream broke off. The connection's own count holds it, and the next watch shows whether
				// anything got lost by it.
				return nil
			}
			return err
		case watch.Added, watch.Modified, watch.Bookmark:
			configMap, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				return errors.New("watch delivered something else than a ConfigMap")
			}
			w.observe(event.Type, configMap, time.Now())
		}
	}
	return nil
}

func (w *watcher) observe(kind watch.EventType, configMap *corev1.ConfigMap, now time.Time) {
	revision, err := strconv.ParseUint(configMap.ResourceVersion, 10, 64)
	if err != nil {
		w.disorder.Add(1)
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == watch.Bookmark {
		w.revision = max(w.revision, revision)
		return
	}

	w.events.Add(1)
	if sent, err := strconv.ParseInt(configMap.Data[dataSentAt], 10, 64); err == nil {
		if lag := now.UnixNano() - sent; lag > w.maxLag.Load() {
			w.maxLag.Store(lag)
		}
	}

	sequence := sequenceOf(configMap)
	seen := w.seen[configMap.Name]
	if seen == nil {
		seen = &bitset{}
		w.seen[configMap.Name] = seen
	}
	switch {
	case seen.has(sequence):
		w.duplicates.Add(1)
	case revision <= w.revision:
		w.disorder.Add(1)
	}
	seen.add(sequence)
	w.revision = max(w.revision, revision)
}

// missing counts the acknowledged writes of which this watch delivered no event.
func (w *watcher) missing(l *ledger) (int64, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.missing(w.seen)
}

func currentRevision(ctx context.Context, client rest.Interface, namespace string) (uint64, error) {
	list := &corev1.ConfigMapList{}
	if err := client.Get().
		MaxRetries(0).
		Namespace(namespace).
		Resource("configmaps").
		VersionedParams(&metav1.ListOptions{LabelSelector: probeLabel}, scheme.ParameterCodec).
		Do(ctx).
		Into(list); err != nil {
		return 0, err
	}
	return strconv.ParseUint(list.ResourceVersion, 10, 64)
}

func sequenceOf(configMap *corev1.ConfigMap) int64 {
	sequence, err := strconv.ParseInt(configMap.Data[dataSequence], 10, 64)
	if err != nil {
		return 0
	}
	return sequence
}
