// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog

import (
	"fmt"
	"sync"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	// EventNotInForce is the reason of the event that tells of an open gate. The conditions of the agents have the same
	// one.
	EventNotInForce = string(steps.ReasonGateNotInForce)
	// EventInForce is the reason of the event that tells that the gate is closed again.
	EventInForce = "GateInForce"

	eventAction = "WatchGate"
	// maxNoteLength is a little below what the API server accepts for the note of an event.
	maxNoteLength = 1000
	// unprovedTolerated is how many proofs in a row may fail without an answer before people are told: a garden that
	// does not answer for a moment says nothing about the gate.
	unprovedTolerated = 1
)

// Reporter tells of an open gate once, and again when it is closed. What it remembers is only what it has told: after a
// restart it may tell the same fault a second time.
type Reporter struct {
	Log      logr.Logger
	Recorder events.EventRecorder

	lock sync.Mutex
	// standing is what is wrong with the objects and could not, or must not, be restored.
	standing string
	shoots   map[client.ObjectKey]*told
}

// told is what was told about one Shoot.
type told struct {
	// fault is what the last event told of; empty while the gate is in force.
	fault string
	// unproved is how many proofs in a row had no answer.
	unproved int
}

// ObjectsRestored tells the Shoots on their way to another seed that the objects were found missing or changed, and
// were restored.
func (r *Reporter) ObjectsRestored(shoots []*gardencorev1beta1.Shoot, fault string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.standing = ""
	r.tell(shoots, fault)
}

// ObjectsFaulty tells the same Shoots that the objects were found missing or changed, and were not restored. Until
// ObjectsIntact or ObjectsRestored, no proof closes the gate again, because a proof tries one rule only.
func (r *Reporter) ObjectsFaulty(shoots []*gardencorev1beta1.Shoot, fault string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.standing = fault
	r.tell(shoots, fault)
}

func (r *Reporter) tell(shoots []*gardencorev1beta1.Shoot, fault string) {
	for _, shoot := range shoots {
		if t := r.of(shoot); t.fault != fault {
			t.fault = fault
			r.warn(shoot, fault)
		}
	}
}

// ObjectsIntact records that both objects are as the chart ships them.
func (r *Reporter) ObjectsIntact() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.standing = ""
}

// Proved records that the gate was proved to be in force for the Shoot just now.
func (r *Reporter) Proved(shoot *gardencorev1beta1.Shoot) {
	r.lock.Lock()
	defer r.lock.Unlock()

	metrics.GateProof("InForce")
	metrics.GateInForce(shoot.Namespace, shoot.Name, true)
	t := r.of(shoot)
	t.unproved = 0
	switch {
	case r.standing != "":
		if t.fault == "" {
			t.fault = r.standing
			r.warn(shoot, r.standing)
		}
	case t.fault != "":
		t.fault = ""
		r.Log.Info("The gate is in force again", "shoot", client.ObjectKeyFromObject(shoot))
		r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, EventInForce, eventAction, "%s",
			"The gate against the classic migration is proved to be in force again")
	}
}

// Open records that the gate was not proved to be in force for the Shoot.
func (r *Reporter) Open(shoot *gardencorev1beta1.Shoot, open *gate.OpenError) {
	r.lock.Lock()
	defer r.lock.Unlock()

	metrics.GateProof(string(open.Problem))
	metrics.GateInForce(shoot.Namespace, shoot.Name, false)
	t := r.of(shoot)
	if open.Problem == gate.ProblemNotProved {
		if t.unproved++; t.unproved <= unprovedTolerated {
			r.Log.Info("The gate could not be proved, trying again", "shoot", client.ObjectKeyFromObject(shoot),
				"cause", open.Error())
			return
		}
	} else {
		t.unproved = 0
	}

	// The text of a cause may differ each time; the kind of the problem is what is told once. That the policy is not in
	// force is no news after a fault of the objects has been told.
	fault := string(open.Problem)
	if t.fault == fault || (t.fault != "" && open.Problem == gate.ProblemNotInForce) {
		return
	}
	t.fault = fault
	r.warn(shoot, open.Error())
}

// Forget drops what is known of a Shoot that is not on its way to another seed any more.
func (r *Reporter) Forget(key client.ObjectKey) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.shoots, key)
	metrics.ForgetGateInForce(key.Namespace, key.Name)
}

func (r *Reporter) of(shoot *gardencorev1beta1.Shoot) *told {
	key := client.ObjectKeyFromObject(shoot)
	if r.shoots == nil {
		r.shoots = map[client.ObjectKey]*told{}
	}
	if r.shoots[key] == nil {
		r.shoots[key] = &told{}
	}
	return r.shoots[key]
}

func (r *Reporter) warn(shoot *gardencorev1beta1.Shoot, fault string) {
	r.Log.Info("The gate cannot be relied on, the classic migration may start", "shoot",
		client.ObjectKeyFromObject(shoot), "fault", fault)
	note := fmt.Sprintf("The gate against the classic migration cannot be relied on: %s", fault)
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeWarning, EventNotInForce, eventAction, "%s",
		conditions.Cut(note, maxNoteLength))
}
