// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/exposure"
	"github.com/livecpm/livecpm/pkg/ownership"
	"github.com/livecpm/livecpm/pkg/steps"
)

const (
	// ownershipInterval is the time from one look at both seeds to the next.
	ownershipInterval = time.Second
	// watchdogAccessSecret is the one by which dependency-watchdog gets at a shoot. Gardener does not export the name.
	watchdogAccessSecret = "shoot-access-dependency-watchdog-probe" // #nosec G101 -- No credential.
	// maxViolations bounds what is kept: a violation that lasts is found again with every look.
	maxViolations = 50
)

// OwnershipReport is what looking at both seeds again and again has shown.
type OwnershipReport struct {
	// Samples is how often both seeds were looked at.
	Samples int `json:"samples"`
	// Violations are what docs/concepts/ownership.md does not permit, one sentence each.
	Violations []string `json:"violations"`
}

// extensionSets tells to which set the resources of a kind belong. Resources of kind Extension are in two, see SeedLook.
var extensionSets = map[string]ownership.Name{
	extensionsv1alpha1.ExtensionResource:             ownership.Extensions,
	extensionsv1alpha1.ControlPlaneResource:          ownership.ControlPlane,
	extensionsv1alpha1.InfrastructureResource:        ownership.Infrastructure,
	extensionsv1alpha1.WorkerResource:                ownership.Worker,
	extensionsv1alpha1.NetworkResource:               ownership.NodeExtensions,
	extensionsv1alpha1.OperatingSystemConfigResource: ownership.NodeExtensions,
	extensionsv1alpha1.ContainerRuntimeResource:      ownership.NodeExtensions,
	extensionsv1alpha1.DNSRecordResource:             ownership.DNSRecords,
	extensionsv1alpha1.BackupEntryResource:           ownership.BackupEntry,
}

// SeedLook is what one look at a seed has shown of a shoot.
type SeedLook struct {
	// Pods are those in the shoot's namespace.
	Pods []corev1.Pod
	// Extensions are the shoot's extension resources.
	Extensions []unstructured.Unstructured
	// WatchdogAccess tells whether dependency-watchdog may look at the shoot from here.
	WatchdogAccess bool
}

// Running returns by what each set of controllers is at work in the seed. Extensions of the early types belong to the set that acts
// before kube-apiserver.
func (l SeedLook) Running(early sets.Set[string]) map[ownership.Name][]string {
	atWork := map[ownership.Name][]string{}
	for i := range l.Pods {
		pod := &l.Pods[i]
		if name := setOfWorkload(workloadOf(pod)); name != "" && running(pod) {
			atWork[name] = append(atWork[name], pod.Name)
		}
	}
	for i := range l.Extensions {
		object := &l.Extensions[i]
		name, known := extensionSets[object.GetKind()]
		// What the migration itself needs of DNS is not the shoot's.
		if !known || object.GetDeletionTimestamp() != nil || !inCharge(object) || object.GetLabels()[exposure.LabelKey] == exposure.LabelValue {
			continue
		}
		if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); name == ownership.Extensions && early.Has(kind) {
			name = ownership.EarlyExtensions
		}
		atWork[name] = append(atWork[name], object.GetKind()+" "+object.GetName())
	}
	if l.WatchdogAccess {
		atWork[ownership.DependencyWatchdog] = []string{"secret " + watchdogAccessSecret}
	}
	return atWork
}

// setOfWorkload returns the set whose pods the workload has, or nothing.
func setOfWorkload(workload string) ownership.Name {
	if workload == v1beta1constants.ETCDMain || workload == v1beta1constants.ETCDEvents {
		return ownership.Etcd
	}
	for _, set := range ownership.Sets() {
		if set.Deployment != "" && set.Deployment == workload {
			return set.Name
		}
	}
	return ""
}

// EarlyExtensionTypes returns the types of extensions that are reconciled before kube-apiserver is started.
func EarlyExtensionTypes(registrations []gardencorev1beta1.ControllerRegistration) sets.Set[string] {
	early := sets.New[string]()
	for _, registration := range registrations {
		for _, resource := range registration.Spec.Resources {
			if resource.Kind == extensionsv1alpha1.ExtensionResource && resource.Lifecycle != nil && resource.Lifecycle.Reconcile != nil &&
				*resource.Lifecycle.Reconcile == gardencorev1beta1.BeforeKubeAPIServer {
				early.Insert(resource.Type)
			}
		}
	}
	return early
}

// PhaseTracker tells the phase of the migration. It remembers that it has begun: the conditions of a migration that is over are those
// of one that has not begun.
type PhaseTracker struct {
	// Destination is the seed to which the shoot moves.
	Destination string
	begun       bool
}

// Observe returns the phase of the shoot as it is now.
func (t *PhaseTracker) Observe(shoot *gardencorev1beta1.Shoot) ownership.Phase {
	handedOver := shoot.Status.SeedName != nil && *shoot.Status.SeedName == t.Destination
	phase := ownership.PhaseOf(steps.Conditions(shoot), handedOver)
	if phase != ownership.Before {
		t.begun = true
	} else if _, unfinished := steps.Current(steps.Conditions(shoot)); t.begun && !unfinished {
		// The last step is done, and the hand-over is about to be seen.
		return ownership.Phase(len(steps.Table()) - 1)
	}
	return phase
}

// ownershipSampler looks at both seeds again and again and judges what it sees by the table of who acts where. It asks the API servers
// instead of watching: what a watch knows of two seeds is not of one moment.
type ownershipSampler struct {
	garden              client.Reader
	shoot               client.ObjectKey
	namespace           string
	source, destination *cluster
	workers             bool
	early               sets.Set[string]
	phases              PhaseTracker

	mu     sync.Mutex
	report OwnershipReport
	failed error
}

func newOwnershipSampler(ctx context.Context, garden client.Reader, shoot *gardencorev1beta1.Shoot, source, destination *cluster) (*ownershipSampler, error) {
	registrations := &gardencorev1beta1.ControllerRegistrationList{}
	if err := garden.List(ctx, registrations); err != nil {
		return nil, fmt.Errorf("failed to list ControllerRegistrations: %w", err)
	}
	return &ownershipSampler{
		garden:      garden,
		shoot:       client.ObjectKeyFromObject(shoot),
		namespace:   shoot.Status.TechnicalID,
		source:      source,
		destination: destination,
		workers:     !v1beta1helper.IsWorkerless(shoot),
		early:       EarlyExtensionTypes(registrations.Items),
		phases:      PhaseTracker{Destination: destination.name},
		report:      OwnershipReport{Violations: []string{}},
	}, nil
}

// run samples until the context ends.
func (s *ownershipSampler) run(ctx context.Context) {
	ticker := time.NewTicker(ownershipInterval)
	defer ticker.Stop()
	for {
		sample, err := s.sample(ctx)
		if ctx.Err() != nil {
			return
		}
		s.record(sample, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sample takes one look. The destination comes first: see ownership.Sample.
func (s *ownershipSampler) sample(ctx context.Context) (*ownership.Sample, error) {
	sample := &ownership.Sample{Running: map[ownership.Name]map[steps.Role][]string{}}
	var err error
	if sample.From, err = s.phase(ctx); err != nil {
		return nil, err
	}
	sample.Time = time.Now()
	for _, side := range []struct {
		role steps.Role
		seed *cluster
	}{{steps.Destination, s.destination}, {steps.Source, s.source}} {
		look, err := s.look(ctx, side.seed)
		if err != nil {
			return nil, err
		}
		for name, objects := range look.Running(s.early) {
			if sample.Running[name] == nil {
				sample.Running[name] = map[steps.Role][]string{}
			}
			slices.Sort(objects)
			sample.Running[name][side.role] = objects
		}
	}
	if sample.To, err = s.phase(ctx); err != nil {
		return nil, err
	}
	return sample, nil
}

func (s *ownershipSampler) phase(ctx context.Context) (ownership.Phase, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := s.garden.Get(ctx, s.shoot, shoot); err != nil {
		return 0, fmt.Errorf("failed to get shoot %s: %w", s.shoot, err)
	}
	return s.phases.Observe(shoot), nil
}

// look reads what the seed has of the shoot. Without workers, a shoot has nothing of what only shoots with workers have.
func (s *ownershipSampler) look(ctx context.Context, seed *cluster) (SeedLook, error) {
	look := SeedLook{}
	pods := &corev1.PodList{}
	if err := seed.client.List(ctx, pods, client.InNamespace(s.namespace)); err != nil {
		return look, fmt.Errorf("failed to list pods in %s: %w", seed.name, err)
	}
	look.Pods = pods.Items
	for kind, name := range extensionSets {
		if set, _ := ownership.Get(name); set.OnlyWithWorkers && !s.workers {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind + "List"))
		options := []client.ListOption{client.InNamespace(s.namespace)}
		if kind == extensionsv1alpha1.BackupEntryResource {
			options = nil
		}
		if err := seed.client.List(ctx, list, options...); err != nil {
			return look, fmt.Errorf("failed to list %s in %s: %w", kind, seed.name, err)
		}
		for _, object := range list.Items {
			if kind == extensionsv1alpha1.BackupEntryResource && !strings.HasPrefix(object.GetName(), s.namespace+"--") {
				continue
			}
			look.Extensions = append(look.Extensions, object)
		}
	}
	if s.workers {
		err := seed.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: watchdogAccessSecret}, &corev1.Secret{})
		if client.IgnoreNotFound(err) != nil {
			return look, fmt.Errorf("failed to read secret %s in %s: %w", watchdogAccessSecret, seed.name, err)
		}
		look.WatchdogAccess = !apierrors.IsNotFound(err)
	}
	return look, nil
}

func (s *ownershipSampler) record(sample *ownership.Sample, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err != nil {
		return
	}
	s.report.Samples++
	for _, violation := range ownership.Judge(*sample) {
		if len(s.report.Violations) < maxViolations {
			s.report.Violations = append(s.report.Violations, violation.String())
		}
	}
}

// result returns what was found, and why the last look failed if it did.
func (s *ownershipSampler) result() (OwnershipReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return OwnershipReport{Samples: s.report.Samples, Violations: slices.Clone(s.report.Violations)}, s.failed
}
