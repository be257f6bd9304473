// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// otherObjects are what the fake has beside ConfigMaps and Events.
type otherObjects struct {
	definitions map[string]bool
	samples     map[string]*unstructured.Unstructured
	leases      map[string]*coordinationv1.Lease
	// role is what the probe's own credentials may do.
	role *rbacv1.Role
	// history is that of the samples.
	history []sampleEntry

	// metrics makes an aggregated API available.
	metrics atomic.Bool
	// keep lets deletions of ConfigMaps be acknowledged and not be carried out, and silent lets watches not tell of
	// them.
	keep, silent atomic.Bool
	// forget lets writes of samples or Leases be acknowledged and not be carried out.
	forget atomic.Pointer[func(kind, name string) bool]
	// cutWatches is how many watches of informers end without an answer.
	cutWatches atomic.Int64
	// lossy lets the last object be missing from each list of pages.
	lossy atomic.Bool
}

type sampleEntry struct {
	revision int64
	kind     string
	object   *unstructured.Unstructured
}

func newOtherObjects() otherObjects {
	return otherObjects{definitions: map[string]bool{}, samples: map[string]*unstructured.Unstructured{},
		leases: map[string]*coordinationv1.Lease{}}
}

func (f *fakeAPI) definitionCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.others.definitions)
}

// informs reports whether the watch is that of an informer, which asks for another time than the long watches.
func informs(r *http.Request) bool { return r.URL.Query().Get("timeoutSeconds") != "10800" }

func selectorOf(r *http.Request) labels.Selector {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	return selector
}

func (f *fakeAPI) forgotten(kind, name string) bool {
	forget := f.others.forget.Load()
	return forget != nil && (*forget)(kind, name)
}

// nextRevision is called with the lock held.
func (f *fakeAPI) nextRevision() string {
	f.revision++
	return strconv.FormatInt(f.revision, 10)
}

// listConfigMaps is called with the lock held.
func (f *fakeAPI) listConfigMaps(w http.ResponseWriter, r *http.Request) {
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	list.ResourceVersion = strconv.FormatInt(f.revision, 10)
	selected, limit, last := selectorOf(r), r.URL.Query().Get("limit"), ""
	for _, name := range slices.Sorted(maps.Keys(f.configMaps)) {
		if name <= r.URL.Query().Get("continue") || !selected.Matches(labels.Set(f.configMaps[name].Labels)) {
			continue
		}
		if limit != "" && limit != "0" && strconv.Itoa(len(list.Items)) == limit {
			list.Continue = last
			break
		}
		last = name
		list.Items = append(list.Items, *f.configMaps[name])
	}
	if f.others.lossy.Load() && list.Continue == "" && strings.Contains(selected.String(), "probe-page") {
		list.Items = list.Items[:len(list.Items)-1]
	}
	answer(w, 200, list)
}

// deleteConfigMap is called with the lock held.
func (f *fakeAPI) deleteConfigMap(w http.ResponseWriter, name string) {
	configMap := f.configMaps[name]
	if configMap == nil {
		answerStatus(w, 404, metav1.StatusReasonNotFound)
		return
	}
	configMap = configMap.DeepCopy()
	configMap.ResourceVersion = f.nextRevision()
	if !f.others.keep.Load() {
		delete(f.configMaps, name)
	}
	if !f.others.silent.Load() {
		f.history = append(f.history, historyEntry{revision: f.revision, kind: "DELETED", object: configMap})
	}
	close(f.changed)
	f.changed = make(chan struct{})
	answer(w, 200, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"})
}

// patchConfigMap takes patches that set data and labels, and applies what is there. It is called with the lock held.
func (f *fakeAPI) patchConfigMap(w http.ResponseWriter, r *http.Request, name string) {
	patch := &corev1.ConfigMap{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, patch)
	}
	if err != nil {
		answerStatus(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	kind, next := "MODIFIED", f.configMaps[name].DeepCopy()
	applied := strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch")
	switch {
	case next == nil && (!applied || patch.ResourceVersion != ""):
		answerStatus(w, 404, metav1.StatusReasonNotFound)
		return
	case next == nil:
		kind, next = "ADDED", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: patch.Labels}}
	case patch.ResourceVersion != next.ResourceVersion:
		answerStatus(w, 409, metav1.StatusReasonConflict)
		return
	}
	next.Data = patch.Data
	if f.onWrite != nil && f.onWrite(w, next) {
		return
	}
	f.store(kind, next)
	answer(w, 200, next)
}

// serveOthers serves what has groups.
func (f *fakeAPI) serveOthers(w http.ResponseWriter, r *http.Request, parts []string) {
	name := ""
	if len(parts) > 6 {
		name = parts[6]
	}
	switch {
	case len(parts) > 3 && parts[3] == "customresourcedefinitions":
		f.serveDefinitions(w, r, parts)
	case len(parts) > 5 && parts[5] == "samples" && r.URL.Query().Get("watch") != "":
		f.watchSamples(w, r)
	case len(parts) > 5 && parts[5] == "samples":
		f.serveSamples(w, r, name)
	case len(parts) > 5 && parts[5] == "leases":
		f.serveLeases(w, r, name)
	case len(parts) > 2 && parts[1] == "metrics.k8s.io" && f.others.metrics.Load():
		answer(w, 200, map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
			"items": []any{}})
	default:
		answerStatus(w, 404, metav1.StatusReasonNotFound)
	}
}

func (f *fakeAPI) serveDefinitions(w http.ResponseWriter, r *http.Request, parts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		if f.refuse == "customresourcedefinitions" {
			answerStatus(w, 403, metav1.StatusReasonForbidden)
			return
		}
		definition := decodeSample(r)
		f.others.definitions[definition.GetName()] = true
		answer(w, 201, definition)
	case http.MethodDelete:
		if !f.others.definitions[parts[4]] {
			answerStatus(w, 404, metav1.StatusReasonNotFound)
			return
		}
		delete(f.others.definitions, parts[4])
		answerStatus(w, 200, "")
	}
}

func decodeSample(r *http.Request) *unstructured.Unstructured {
	body, err := io.ReadAll(r.Body)
	out := &unstructured.Unstructured{}
	if err == nil {
		err = out.UnmarshalJSON(body)
	}
	if err != nil {
		panic(err)
	}
	return out
}

func (f *fakeAPI) serveSamples(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.others.samples[name]
	switch {
	case r.Method == http.MethodGet && name == "":
		list := &unstructured.UnstructuredList{Object: map[string]any{"kind": "SampleList", "apiVersion": "v1",
			"metadata": map[string]any{"resourceVersion": strconv.FormatInt(f.revision, 10)}}}
		for _, sample := range f.others.samples {
			list.Items = append(list.Items, *sample)
		}
		answer(w, 200, list)
	case r.Method == http.MethodGet && current == nil:
		answerStatus(w, 404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		answer(w, 200, current)
	case r.Method == http.MethodPost:
		next := decodeSample(r)
		delete(next.Object, "status")
		f.storeSample(w, "ADDED", next)
	default:
		sent := decodeSample(r)
		if current == nil || sent.GetResourceVersion() != current.GetResourceVersion() {
			answerStatus(w, 409, metav1.StatusReasonConflict)
			return
		}
		next, part := current.DeepCopy(), "spec"
		if strings.HasSuffix(r.URL.Path, "/status") {
			part = "status"
		}
		next.Object[part] = sent.Object[part]
		f.storeSample(w, "MODIFIED", next)
	}
}

// storeSample is called with the lock held.
func (f *fakeAPI) storeSample(w http.ResponseWriter, kind string, sample *unstructured.Unstructured) {
	sample.SetResourceVersion(f.nextRevision())
	if !f.forgotten("Sample", sample.GetName()) {
		f.others.samples[sample.GetName()] = sample.DeepCopy()
		f.others.history = append(f.others.history,
			sampleEntry{revision: f.revision, kind: kind, object: sample.DeepCopy()})
		close(f.changed)
		f.changed = make(chan struct{})
	}
	answer(w, 200, sample)
}

// watchSamples begins with what is there if it is asked to.
func (f *fakeAPI) watchSamples(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	initial := r.URL.Query().Get("sendInitialEvents") != ""
	if err != nil && !initial {
		answerStatus(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(kind string, object *unstructured.Unstructured) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
	}
	f.mu.Lock()
	end := f.endWatches
	if initial {
		for _, sample := range f.others.samples {
			send("ADDED", sample)
		}
		version := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/"), "/namespaces/")[0]
		bookmark := &unstructured.Unstructured{Object: map[string]any{"kind": "Sample", "apiVersion": version}}
		bookmark.SetResourceVersion(strconv.FormatInt(f.revision, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send("BOOKMARK", bookmark)
		from = f.revision
	}
	f.mu.Unlock()
	for next := 0; ; {
		f.mu.Lock()
		entries, changed := f.others.history[next:], f.changed
		next = len(f.others.history)
		f.mu.Unlock()
		for _, entry := range entries {
			if entry.revision > from {
				send(entry.kind, entry.object)
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeAPI) serveLeases(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.others.leases[name]
	switch {
	case r.Method == http.MethodGet && name == "":
		list := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1",
			Kind: "LeaseList"}}
		for _, lease := range f.others.leases {
			if selectorOf(r).Matches(labels.Set(lease.Labels)) {
				list.Items = append(list.Items, *lease)
			}
		}
		answer(w, 200, list)
	case r.Method == http.MethodGet && current == nil:
		answerStatus(w, 404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		answer(w, 200, current)
	default:
		next := &coordinationv1.Lease{}
		decode(r, next)
		if r.Method == http.MethodPut && (current == nil || current.ResourceVersion != next.ResourceVersion) {
			answerStatus(w, 409, metav1.StatusReasonConflict)
			return
		}
		next.ResourceVersion = f.nextRevision()
		if !f.forgotten("Lease", next.Name) {
			f.others.leases[next.Name] = next
		}
		answer(w, 200, next)
	}
}
