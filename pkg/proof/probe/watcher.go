// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/utils/clock"
)

// watcher is one long watch on the written objects.
type watcher struct {
	client    rest.Interface
	namespace string
	// ledger tells what the watch has to deliver.
	ledger *ledger
	clock  clock.Clock
	// failed is told about each failure of the watch; the package comment says what is one.
	failed func(err error)

	events      atomic.Int64
	established atomic.Int64
	duplicates  atomic.Int64
	disorder    atomic.Int64
	resets      atomic.Int64
	broken      atomic.Int64
	failures    atomic.Int64
	maxLag      atomic.Int64

	mu       sync.Mutex
	revision uint64
	seen     map[string]*bitset
	// next is the position in the ledger of the first write that was not delivered, so far as was looked.
	next int
}

const (
	// watchTimeoutSeconds keeps the server from ending the watch by its own, shorter default within a usual run.
	watchTimeoutSeconds = 3 * 60 * 60
	// maxWatchSilence is how long an established watch may deliver nothing: the API server sends a bookmark every
	// minute, and counts on up to 15 s more by itself (DefaultEventFreshDuration in k8s.io/apiserver).
	maxWatchSilence = 75 * time.Second
	// watchDue is how long after its acknowledgement a write may not have been delivered yet when a watch ends.
	watchDue = 5 * time.Second
	// retryDelay is how long a watcher waits after an attempt that failed.
	retryDelay = 250 * time.Millisecond
)

// causeDecoding is the cause that client-go gives when the stream, not the server's message, is at fault.
const causeDecoding metav1.CauseType = "ClientWatchDecoding"

// newWatcher returns a watcher with the given client, namespace, ledger, clock and receiver of failures, which begins
// after the given revision.
func newWatcher(w *watcher) *watcher {
	w.seen = map[string]*bitset{}
	return w
}

// run watches until the context ends and begins again where it stopped each time the server ends the stream.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		begin := w.clock.Now()
		err := w.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		// Streams that end as soon as they begin must not follow one another without a pause.
		pause := err != nil || w.clock.Since(begin) < retryDelay
		if err != nil {
			w.fail(err)
		}
		if expired(err) {
			// Whatever happened since is lost to this watcher: it begins again at the present state.
			w.resets.Add(1)
			if err := w.restart(ctx); err != nil && ctx.Err() == nil {
				w.fail(err)
			}
		}
		if pause {
			select {
			case <-ctx.Done():
			case <-w.clock.After(retryDelay):
			}
		}
	}
}

func (w *watcher) fail(err error) {
	w.failures.Add(1)
	w.failed(err)
}

// expired reports whether the server cannot continue a watch where it stopped. Every informer would list again.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

func (w *watcher) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	written := w.ledger.written()
	var revision uint64
	if err := try(ctx, func(ctx context.Context) (err error) {
		revision, err = currentRevision(ctx, w.client, w.namespace)
		return err
	}); err != nil {
		return fmt.Errorf("failed to list for a watch that could not continue: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision, w.next = revision, max(w.next, written)
	return nil
}

// stream opens a watch and follows it to its end. The error tells why it has failed, if it has.
func (w *watcher) stream(ctx context.Context) error {
	w.mu.Lock()
	revision := w.revision
	w.mu.Unlock()

	ctx, attempt := withAttempt(ctx)
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
		return attempt.explain(fmt.Errorf("failed to watch from revision %d: %w", revision, err))
	}
	defer stream.Stop()
	// client-go makes an empty watch of a connection that is closed instead of answered.
	if unanswered, cause := attempt.unanswered(); unanswered {
		return attempt.explain(fmt.Errorf("failed to watch from revision %d, no answer: %w", revision,
			errors.Join(cause, ctx.Err())))
	}
	w.established.Add(1)
	return w.follow(stream)
}

// follow takes what an established watch delivers until it ends. The error tells why it has failed, if it has: its mere
// end, in order or not, is no failure, for every client resumes a watch.
func (w *watcher) follow(stream watch.Interface) error {
	silence := w.clock.NewTimer(maxWatchSilence)
	defer silence.Stop()
	for {
		select {
		case <-silence.C():
			return fmt.Errorf("watch delivered neither an event nor a bookmark for %s", maxWatchSilence)
		case event, open := <-stream.ResultChan():
			if !open {
				return w.ended("watch ended")
			}
			if event.Type == watch.Error {
				return w.endedBy(apierrors.FromObject(event.Object))
			}
			configMap, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				return fmt.Errorf("watch delivered %T instead of a ConfigMap", event.Object)
			}
			w.observe(event.Type, configMap, w.clock.Now())
			if !silence.Stop() {
				select {
				case <-silence.C():
				default:
				}
			}
			silence.Reset(maxWatchSilence)
		}
	}
}

// endedBy judges an error that a stream ended with.
func (w *watcher) endedBy(err error) error {
	switch {
	case apierrors.HasStatusCause(err, causeDecoding):
		// The stream broke off. The connection's own count holds it, and the next watch continues.
		w.broken.Add(1)
		return w.ended("watch broke off")
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return w.ended("watch ended by a timeout")
	}
	return fmt.Errorf("watch ended with an error: %w", err)
}

// ended tells whether a stream has ended although an event had been due for longer than watchDue.
func (w *watcher) ended(how string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	position, write := w.ledger.unseen(w.next, w.seen)
	w.next = position
	if write == nil {
		return nil
	}
	due := w.clock.Since(write.at)
	if due <= watchDue {
		return nil
	}
	return fmt.Errorf("%s without an event of write %d of %s, which had been acknowledged %s before", how,
		write.sequence, write.object, due.Round(time.Millisecond))
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
	sequence := sequenceOf(configMap)
	if kind == watch.Deleted {
		// It comes with the last state of the object, which tells when that was sent, and is the write after it.
		sequence++
	} else if sent, err := strconv.ParseInt(configMap.Data[dataSentAt], 10, 64); err == nil {
		if lag := now.UnixNano() - sent; lag > w.maxLag.Load() {
			w.maxLag.Store(lag)
		}
	}

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

// result returns what the watch has seen.
func (w *watcher) result() WatchDetails {
	lost, examples := w.missing(w.ledger)
	return WatchDetails{
		Events:       w.events.Load(),
		Lost:         lost,
		LostExamples: examples,
		Established:  w.established.Load(),
		Resets:       w.resets.Load(),
		Broken:       w.broken.Load(),
		Failed:       w.failures.Load(),
		Duplicates:   w.duplicates.Load(),
		OutOfOrder:   w.disorder.Load(),
		MaxLagMs:     milliseconds(time.Duration(w.maxLag.Load())),
	}
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
