// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedfacts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationProbes on a Seed holds Probes as JSON. Its agent writes it.
	AnnotationProbes = "livecpm.gardener.cloud/probes"
	// requestPrefix and the name of another seed are the key of an annotation on a Seed that asks its agent to probe
	// the connection to that seed. The value is the time of the request (RFC 3339). An operator sets it on both Seeds
	// (kubectl livecpm plan --probe), and the agents remove it.
	requestPrefix = "probe.livecpm.gardener.cloud/"

	// roomPrefix and the name of another seed are the key of an annotation on a Seed that names the shoot, as
	// namespace/name, for whose control plane a probe is to look for room in that seed. An operator sets it on the Seed
	// of the shoot, together with the request for the probe.
	roomPrefix = "room.livecpm.gardener.cloud/"

	// RequestMaxAge is how long a request for a probe counts.
	RequestMaxAge = 15 * time.Minute
)

// Probes are the probes of the connections between a seed and others, as the agent of the seed has made them.
type Probes struct {
	// Off reports that the agent makes none, because its configuration says so.
	Off bool `json:"off,omitempty"`
	// Connections are the connections to other seeds, in the order of their names.
	Connections []Connection `json:"connections,omitempty"`
}

// Connection is what an agent knows of the connection to another seed.
type Connection struct {
	// Seed is the name of the other seed.
	Seed string `json:"seed"`
	// Round is the probe that is under way; nil if there is none.
	Round *ProbeRound `json:"round,omitempty"`
	// Result is what the last probe has found out; nil if there was none.
	Result *ProbeResult `json:"result,omitempty"`
}

// ProbeRound is a probe that is under way.
type ProbeRound struct {
	// Began is when it began, by the clock of the agent.
	Began metav1.Time `json:"began"`
	// Authority is the certificate of the authority by which the other side knows this one, in PEM form. Its key is
	// made for this round, and never leaves the memory of the agent.
	Authority string `json:"authority"`
	// Needs are what the pods of the largest control plane request that waits to move to the other seed, in the order
	// of their names. The agent of that seed looks for room for them.
	Needs []Need `json:"needs,omitempty"`
	// ControlPlanes are the kinds of control planes that wait to move to the other seed, each of them once. The agent
	// of that seed tries whether its nodes can pull their images.
	ControlPlanes []ControlPlane `json:"controlPlanes,omitempty"`
}

// ControlPlane is what decides of which images a control plane is made.
type ControlPlane struct {
	// Kubernetes is the version of Kubernetes of the shoot.
	Kubernetes string `json:"kubernetes"`
	// Workers reports that the shoot has workers, and HighlyAvailableVPN that its kube-apiservers reach them through a
	// VPN of several tunnels.
	Workers            bool `json:"workers,omitempty"`
	HighlyAvailableVPN bool `json:"highlyAvailableVPN,omitempty"`
}

// Need is what the pods of one StatefulSet or Deployment of a control plane request.
type Need struct {
	// Name is the name of the StatefulSet or Deployment.
	Name string `json:"name"`
	// Pods is how many pods there are.
	Pods int32 `json:"pods"`
	// CPU and Memory are what each of them requests.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	// Apart are the keys of the topology, such as that of zones, over which the pods have to be spread.
	Apart []string `json:"apart,omitempty"`
}

// Bounds of what one seed may ask another one to look for room for. Real control planes need far less.
const (
	maxNeeds = 50
	maxPods  = 10
	// MaxControlPlanes is of how many kinds of control planes a probe tries the images.
	MaxControlPlanes = 10
)

// CheckNeeds returns an error if somebody asks for more room than a control plane can need.
func CheckNeeds(needs []Need) error {
	if len(needs) > maxNeeds {
		return fmt.Errorf("room for %d kinds of pods is asked for, at most %d are permitted", len(needs), maxNeeds)
	}
	for _, need := range needs {
		if need.Pods < 1 || need.Pods > maxPods {
			return fmt.Errorf("room for %d pods of %s is asked for, 1 to %d are permitted", need.Pods, need.Name,
				maxPods)
		}
	}
	return nil
}

// CheckControlPlanes returns an error if somebody asks for the images of more kinds of control planes than a probe
// tries, or of a version that is none.
func CheckControlPlanes(controlPlanes []ControlPlane) error {
	if len(controlPlanes) > MaxControlPlanes {
		return fmt.Errorf("the images of %d kinds of control planes are asked for, at most %d are permitted",
			len(controlPlanes), MaxControlPlanes)
	}
	for _, controlPlane := range controlPlanes {
		if _, err := semver.StrictNewVersion(controlPlane.Kubernetes); err != nil {
			return fmt.Errorf("the images of Kubernetes %q are asked for, which is no version: %w",
				controlPlane.Kubernetes, err)
		}
	}
	return nil
}

// Room is what all pods of a control plane request together.
type Room struct {
	// Pods is how many pods there are, CPU and Memory what they request.
	Pods   int32             `json:"pods"`
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

// RoomOf returns what the needs are together.
func RoomOf(needs []Need) Room {
	var out Room
	for _, need := range needs {
		out.Pods += need.Pods
		for range need.Pods {
			out.CPU.Add(need.CPU)
			out.Memory.Add(need.Memory)
		}
	}
	return out
}

// String returns how many pods with how much CPU and memory there are.
func (r Room) String() string {
	return fmt.Sprintf("%d pods, %.2f CPU, %.1f GiB", r.Pods, r.CPU.AsApproximateFloat64(),
		r.Memory.AsApproximateFloat64()/(1<<30))
}

// ProbeResult is what a probe has found out about the connection from one seed to another.
type ProbeResult struct {
	Looked `json:",inline"`
	// Of is the fingerprint of the authority of the other side; empty if that has not taken part.
	Of string `json:"of,omitempty"`
	// RoundTrip is the shortest time between a question to the other seed and the answer.
	RoundTrip metav1.Duration `json:"roundTrip,omitzero"`
	// Sent and Received are how many bytes per second have come through to the other seed, and from there.
	Sent     int64 `json:"sent,omitempty"`
	Received int64 `json:"received,omitempty"`
	// ClockSkew is how far the clock of the other seed's node is ahead; negative if it is behind.
	ClockSkew metav1.Duration `json:"clockSkew,omitzero"`
	// Room is what was found room for in this seed: the largest control plane that waited to move here; nil if none
	// did.
	Room *Room `json:"room,omitempty"`
	// Images are those that nodes of this seed have pulled, or had: of the control planes that waited to move here,
	// sorted. It is empty if none did, and if the other agent is too old to say.
	Images []string `json:"images,omitempty"`
	// Problems say what a migration would fail at.
	Problems []string `json:"problems,omitempty"`
	// Unknown says what could not be found out.
	Unknown []string `json:"unknown,omitempty"`
}

// Measured reports whether both sides have reached each other.
func (r ProbeResult) Measured() bool { return r.RoundTrip.Duration > 0 }

// InOrder reports whether nothing was wrong.
func (r ProbeResult) InOrder() bool {
	return r.Measured() && len(r.Problems) == 0 && len(r.Unknown) == 0
}

// Fingerprint returns what a result names the authority by.
func Fingerprint(authority string) string {
	sum := sha256.Sum256([]byte(authority))
	return hex.EncodeToString(sum[:8])
}

// To returns what is known of the connection to the seed; the zero value, with the name, if nothing is.
func (p Probes) To(seed string) Connection {
	if i := slices.IndexFunc(p.Connections, func(c Connection) bool { return c.Seed == seed }); i >= 0 {
		return p.Connections[i]
	}
	return Connection{Seed: seed}
}

// Set writes down what is known of a connection; one of which nothing is known is left out.
func (p *Probes) Set(connection Connection) {
	p.Connections = slices.DeleteFunc(p.Connections, func(c Connection) bool { return c.Seed == connection.Seed })
	if connection.Round != nil || connection.Result != nil {
		p.Connections = append(p.Connections, connection)
	}
	slices.SortFunc(p.Connections, func(a, b Connection) int { return strings.Compare(a.Seed, b.Seed) })
}

// Forget leaves out the results that do not count any more, and returns whether there were any.
func (p *Probes) Forget(now time.Time) bool {
	forgotten := false
	for _, connection := range slices.Clone(p.Connections) {
		if connection.Result != nil && connection.Result.Outdated(now) {
			connection.Result, forgotten = nil, true
			p.Set(connection)
		}
	}
	return forgotten
}

// ProbeRequest returns the annotation that asks for a probe of the connection to the seed.
func ProbeRequest(seed string) string { return requestPrefix + seed }

// RoomRequest returns the annotation that names the shoot for whose control plane a probe looks for room in the seed.
func RoomRequest(seed string) string { return roomPrefix + seed }

// RoomRequested returns the shoot, as namespace/name, for which the Seed asks that room be looked for in the other
// one; empty if it asks for none.
func RoomRequested(seed *gardencorev1beta1.Seed, other string) string {
	return seed.Annotations[RoomRequest(other)]
}

// ProbeRequests returns the requests on the Seed that count, by the name of the other seed.
func ProbeRequests(seed *gardencorev1beta1.Seed, now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for key, value := range seed.Annotations {
		name, ok := strings.CutPrefix(key, requestPrefix)
		if !ok || name == "" || name == seed.Name {
			continue
		}
		at, err := time.Parse(time.RFC3339, value)
		if err == nil && now.Sub(at) < RequestMaxAge && at.Sub(now) < maxSkew {
			out[name] = at
		}
	}
	return out
}

// DropRequests removes the requests from the Seed, in memory, that do not count any more or have been answered, and
// returns whether there were any.
func DropRequests(seed *gardencorev1beta1.Seed, probes Probes, now time.Time) bool {
	open, dropped := ProbeRequests(seed, now), false
	for key := range seed.Annotations {
		name, ok := strings.CutPrefix(key, requestPrefix)
		if !ok {
			continue
		}
		at, counts := open[name]
		if connection := probes.To(name); counts && !probes.Off && !Answers(connection.Result, at) {
			continue
		}
		delete(seed.Annotations, key)
		dropped = true
	}
	for key := range seed.Annotations {
		name, ok := strings.CutPrefix(key, roomPrefix)
		if _, asked := seed.Annotations[ProbeRequest(name)]; ok && !asked {
			delete(seed.Annotations, key)
			dropped = true
		}
	}
	return dropped
}

// Answers reports whether the result is one of a probe that ended after the request.
func Answers(result *ProbeResult, requested time.Time) bool {
	return result != nil && !result.LookedAt.Time.Before(requested)
}
