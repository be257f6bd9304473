// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Overlap is a time in which a controller of the shoot ran in both seeds.
type Overlap = recording.Overlap

// servers are the workloads of a control plane that only serve requests. They run in both seeds on purpose.
var servers = []string{"kube-apiserver", "etcd-main", "etcd-events", "livecpm-relay", "vpn-seed-server"}

// serializedInShoot are controllers whose lease lives in the shoot, which is one and the same from either seed: at most
// one of them is ever active, however many pods there are.
var serializedInShoot = []string{"kube-controller-manager", "kube-scheduler"}

// Tracker follows the shoot's pods and extension objects in both seeds. It notices controllers that act in both at
// once, and restarts of the etcd pods of the source.
type Tracker struct {
	source, destination string

	mu       sync.Mutex
	active   map[string]map[string]map[string]struct{} // controller, seed, pod
	since    map[string]time.Time
	overlaps []Overlap
	etcd     map[string]etcdPod
	restarts []string
}

type etcdPod struct {
	uid      string
	restarts map[string]int32
}

// NewTracker returns a tracker for a migration between the two seeds.
func NewTracker(source, destination string) *Tracker {
	return &Tracker{
		source:      source,
		destination: destination,
		active:      map[string]map[string]map[string]struct{}{},
		since:       map[string]time.Time{},
		etcd:        map[string]etcdPod{},
	}
}

// actor is a pod or an extension object in a seed that lets a controller act there.
type actor struct{ seed, controller, name string }

// podIn returns the pod as an actor. What only answers webhooks is none, in either seed, as long as it has the
// ServiceAccount that may write nothing; whether it also gets no Lease is what each look at who acts in which seed
// finds out (ownership.OnlyAnswersWebhooks).
func podIn(seed string, pod *corev1.Pod) actor {
	controller := workloadOf(pod)
	if controller == ownership.WebhookServer && pod.Spec.ServiceAccountName == ownership.WebhookServer {
		controller = ""
	}
	return actor{seed, controller, pod.Name}
}

func extensionIn(seed string, object *unstructured.Unstructured) actor {
	return actor{seed, extensionOf(object), object.GetName()}
}

// Observe takes a pod as it is now in the given seed.
func (t *Tracker) Observe(now time.Time, seed string, pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := podIn(seed, pod); running(pod) {
		t.acts(now, a)
	} else {
		t.rests(now, a)
	}
	if seed == t.source && strings.HasPrefix(workloadOf(pod), "etcd-") {
		t.observeEtcd(pod)
	}
}

// Gone takes a pod that no longer exists.
func (t *Tracker) Gone(now time.Time, seed string, pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rests(now, podIn(seed, pod))
}

// acts notes that the actor acts, rests that it does not.
func (t *Tracker) acts(now time.Time, a actor) {
	if seeds := t.seedsOf(a.controller); seeds != nil {
		seeds[a.seed][a.name] = struct{}{}
		t.compare(now, a.controller)
	}
}

func (t *Tracker) rests(now time.Time, a actor) {
	if seeds := t.seedsOf(a.controller); seeds != nil {
		delete(seeds[a.seed], a.name)
		t.compare(now, a.controller)
	}
}

// seedsOf returns the actors of the controller by seed, or nil if it may act in both.
func (t *Tracker) seedsOf(controller string) map[string]map[string]struct{} {
	if controller == "" || slices.Contains(servers, controller) || slices.Contains(serializedInShoot, controller) {
		return nil
	}
	if t.active[controller] == nil {
		t.active[controller] = map[string]map[string]struct{}{t.source: {}, t.destination: {}}
	}
	return t.active[controller]
}

// compare notes the beginning and the end of a time in which the controller acts in both seeds.
func (t *Tracker) compare(now time.Time, controller string) {
	seeds := t.active[controller]
	both := len(seeds[t.source]) > 0 && len(seeds[t.destination]) > 0
	since, before := t.since[controller]
	switch {
	case both && !before:
		t.since[controller] = now
	case !both && before:
		delete(t.since, controller)
		t.overlaps = append(t.overlaps,
			Overlap{Controller: controller, Since: since, Seconds: Seconds(now.Sub(since))})
	}
}

func (t *Tracker) observeEtcd(pod *corev1.Pod) {
	known, ok := t.etcd[pod.Name]
	if ok && known.uid != string(pod.UID) {
		t.restarts = append(t.restarts, fmt.Sprintf("pod %s was replaced", pod.Name))
		ok = false
	}
	if !ok {
		known = etcdPod{uid: string(pod.UID), restarts: map[string]int32{}}
		for _, status := range pod.Status.ContainerStatuses {
			known.restarts[status.Name] = status.RestartCount
		}
		t.etcd[pod.Name] = known
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		for range status.RestartCount - known.restarts[status.Name] {
			t.restarts = append(t.restarts, fmt.Sprintf("container %s of pod %s restarted", status.Name, pod.Name))
		}
		known.restarts[status.Name] = status.RestartCount
	}
}

// Restarts describes each restart of an etcd pod or one of its containers in the source.
func (t *Tracker) Restarts() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.restarts)
}

// Overlaps returns the times in which a controller ran in both seeds, those that last included.
func (t *Tracker) Overlaps(now time.Time) []Overlap {
	t.mu.Lock()
	defer t.mu.Unlock()
	overlaps := slices.Clone(t.overlaps)
	for controller, since := range t.since {
		overlaps = append(overlaps, Overlap{Controller: controller, Since: since, Seconds: Seconds(now.Sub(since))})
	}
	return overlaps
}

// ObserveExtension takes an extension object of the shoot as it is now in the given seed. Provider controllers run in
// every seed at all times: what counts is that not two of them are in charge of the same thing.
func (t *Tracker) ObserveExtension(now time.Time, seed string, object *unstructured.Unstructured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := extensionIn(seed, object); inCharge(object) {
		t.acts(now, a)
	} else {
		t.rests(now, a)
	}
}

// ExtensionGone takes an extension object that no longer exists.
func (t *Tracker) ExtensionGone(now time.Time, seed string, object *unstructured.Unstructured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rests(now, extensionIn(seed, object))
}

// extensionOf names what an extension object is about: the record for a DNSRecord, whose object may be called otherwise
// in another seed, and the object itself for all other kinds.
func extensionOf(object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetKind() == "DNSRecord" {
		name, _, _ = unstructured.NestedString(object.Object, "spec", "name")
	}
	return object.GetKind() + " " + name
}

// inCharge reports whether the seed's provider may act on the object. It no longer does once the object is migrated.
func inCharge(object *unstructured.Unstructured) bool {
	operation, _, _ := unstructured.NestedString(object.Object, "status", "lastOperation", "type")
	state, _, _ := unstructured.NestedString(object.Object, "status", "lastOperation", "state")
	return operation != string(gardencorev1beta1.LastOperationTypeMigrate) ||
		state != string(gardencorev1beta1.LastOperationStateSucceeded)
}

// workloadOf returns the name of the Deployment or StatefulSet that the pod belongs to.
func workloadOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	switch owner.Kind {
	case "StatefulSet":
		return owner.Name
	case "ReplicaSet":
		return strings.TrimSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
	}
	return ""
}

// running is true from the start of the first container to the end of the last: a controller acts before it is ready
// and until its grace period is over.
func running(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return true
		}
	}
	return false
}
