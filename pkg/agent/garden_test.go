// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/simulation"
)

const (
	seedA, seedB = "seed-a", "seed-b"
	version      = "v1.150.0"
)

var key = client.ObjectKey{Namespace: "garden-demo", Name: "live"}

// world is a garden with two seeds and a shoot on its way from seed-a to seed-b, and what the two agents did to it.
type world struct {
	client   client.Client
	clock    *testclock.FakeClock
	recorder *events.FakeRecorder

	gateErr  error
	findings map[steps.Role][]string

	lock          sync.Mutex
	ran           []string                        // "<role> <what> <condition type>"
	actions       map[string]migration.ActionFunc // by the same words; without one, a step is done at once
	handOver      func(*migration.Migration, *gardencorev1beta1.Shoot) error
	statusWrites  []string // the bodies of patches of shoots/status
	version       string   // that the agents are built with
	warnings      []string
	gets          int
	onStatusWrite func(ctx context.Context, c client.Client) error // runs before a patch of shoots/status
	// snapshots is what the role finds out of the snapshots in its seed.
	snapshots map[steps.Role]func(ctx context.Context) (string, error)
}

func newWorld() *world {
	w := &world{
		clock:    testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		recorder: events.NewFakeRecorder(1000),
		findings: map[steps.Role][]string{},
		version:  version,
		actions:  map[string]migration.ActionFunc{},
		handOver: simulation.HandOver,
	}

	shoot := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Generation: 7,
			Annotations: map[string]string{steps.AnnotationIntent: "true", "other": "kept"},
		},
		Spec: gardencorev1beta1.ShootSpec{SeedName: ptr.To(seedB)},
		Status: gardencorev1beta1.ShootStatus{
			SeedName: ptr.To(seedA), ObservedGeneration: 6,
			LastOperation: &gardencorev1beta1.LastOperation{
				Type:  gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100,
			},
			Conditions: []gardencorev1beta1.Condition{
				{Type: "APIServerAvailable", Status: gardencorev1beta1.ConditionTrue},
			},
		},
	}
	w.client = fakeclient.NewClientBuilder().
		WithScheme(kubernetes.GardenScheme).
		WithStatusSubresource(&gardencorev1beta1.Shoot{}, &gardencorev1beta1.Seed{}).
		WithObjects(shoot, seed(seedA, version), seed(seedB, version)).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: w.patchStatus}).
		Build()
	return w
}

func seed(name, version string) *gardencorev1beta1.Seed {
	out := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if version != "" {
		out.Status.Gardener = &gardencorev1beta1.Gardener{Version: version}
	}
	return out
}

// patchStatus does what the registry of gardener-apiserver does and the fake client does not: a patch of the status may
// change metadata as well.
//
//nolint:revive // The interceptor's signature.
func (w *world) patchStatus(
	ctx context.Context, c client.Client, _ string, obj client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if w.onStatusWrite != nil {
		if err := w.onStatusWrite(ctx, c); err != nil {
			return err
		}
	}
	if err := c.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	w.lock.Lock()
	w.statusWrites = append(w.statusWrites, string(data))
	w.lock.Unlock()

	var body struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	if annotations, ok := body.Metadata["annotations"]; ok {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			return err
		}
		return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data))
	}
	return nil
}

// agent returns a fresh agent of the seed, as if it had just been started.
func (w *world) agent(seedName string) *agent.Reconciler {
	config := &configv1alpha1.AgentConfiguration{}
	configv1alpha1.SetDefaults(config)
	reconciler, err := agent.New(agent.Options{
		GardenClient:    w.client,
		GardenAPIReader: w.client,
		Recorder:        w.recorder,
		Clock:           w.clock,
		SeedName:        seedName,
		Config:          config.Controllers.LiveMigration,
		Actions:         w.partsOfRoles(),
		Gate:            w,
		Preflight:       w.preflight(seedName),
	})
	Expect(err).NotTo(HaveOccurred())
	return reconciler
}

// partsOfRoles are the actions of both roles.
func (w *world) partsOfRoles() map[steps.Role]migration.Actions {
	parts := simulation.Both(func(steps.Role) simulation.Work {
		return simulation.Work{
			Step:          func(steps.Step) migration.Action { return w.action("step") },
			Assist:        func(steps.Step) migration.Action { return w.action("assist") },
			Always:        w.action("always"),
			Abort:         w.action("abort"),
			Abandon:       w.action("abandon"),
			Clear:         w.action("clear"),
			AbandonSource: w.action("abandon source"),
			HandOver: func(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
				return w.handOver(m, shoot)
			},
		}
	})
	for role, look := range w.snapshots {
		part := parts[role]
		part.Snapshots = func(ctx context.Context, _ *migration.Migration) (string, error) { return look(ctx) }
		parts[role] = part
	}
	return parts
}

// checks are those of an agent in the seed: they look at the versions, and find what the world says.
type checks struct {
	*world
	seedName string
}

func (w *world) preflight(seedName string) agent.Preflight { return &checks{w, seedName} }

func (c *checks) checker() *preflight.Checker {
	checker, err := preflight.New(preflight.Options{
		Reader: c.client, OwnSeed: c.seedName, Version: c.version, Clock: c.clock,
		Protocols: steps.OwnProtocols(),
		Gardenlet: &gardenletconfigv1alpha1.GardenletConfiguration{},
		Etcds: func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
			return nil, errors.New("there are no etcds in this test")
		},
		Running: simulation.RolledOut, Rollout: simulation.GardenletRolledOut,
		Extensions: simulation.NoExtensions, Machines: simulation.NoMachines, TLSEndsAtGateway: simulation.EndsTLS,
	})
	Expect(err).NotTo(HaveOccurred())
	return checker
}

// Before implements agent.Preflight.
func (c *checks) Before(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step,
) (steps.Reason, string, []string) {
	if findings := c.findings[step.Owner]; len(findings) > 0 &&
		step.Condition == steps.AbortOf(step.Owner).Condition {
		return steps.ReasonPrerequisitesNotMet, strings.Join(findings, "; "), nil
	}
	warnings := slices.Clone(c.warnings)
	var versions []preflight.Finding
	for _, finding := range c.checker().CheckStep(ctx, shoot, step) {
		if finding.Name == steps.GardenletVersion {
			versions = append(versions, finding)
		}
	}
	for _, finding := range preflight.Warnings(versions) {
		warnings = append(warnings, finding.String())
	}
	reason, message := preflight.Verdict(versions)
	return reason, message, warnings
}

// During implements agent.Preflight.
func (c *checks) During(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step,
) (steps.Reason, string) {
	return c.checker().During(ctx, shoot, step)
}

// Rival implements agent.Preflight.
func (c *checks) Rival(ctx context.Context, shoot *gardencorev1beta1.Shoot) string {
	return c.checker().Rival(ctx, shoot)
}

// Prove implements agent.Gate.
func (w *world) Prove(context.Context, *gardencorev1beta1.Shoot) error { return w.gateErr }

// watched is a gate that tells when it is to be proved.
type watched struct {
	agent.Gate
	tell func()
}

// Prove implements agent.Gate.
func (g watched) Prove(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	g.tell()
	return g.Gate.Prove(ctx, shoot)
}

func (w *world) action(what string) migration.Action {
	return migration.ActionFunc(func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
		words := fmt.Sprintf("%s %s %s", m.Role, what, m.Step)
		w.lock.Lock()
		if what != "always" {
			w.ran = append(w.ran, words)
		}
		action := w.actions[words]
		if action == nil {
			action = w.actions[fmt.Sprintf("%s %s", m.Role, what)]
		}
		w.lock.Unlock()
		if action != nil {
			return action(ctx, m)
		}
		return steps.Done("done by the %s", m.Role), nil
	})
}

// pass lets the agent of the seed make one pass.
func (w *world) pass(seedName string) (reconcile.Result, error) {
	return w.passOf(w.agent(seedName))
}

func (w *world) passOf(r *agent.Reconciler) (reconcile.Result, error) {
	return r.Reconcile(logf.IntoContext(context.Background(), logr.Discard()), reconcile.Request{NamespacedName: key})
}

func (w *world) mustPass(seedName string) reconcile.Result {
	GinkgoHelper()
	result, err := w.pass(seedName)
	Expect(err).NotTo(HaveOccurred())
	return result
}

// goTo lets both agents work until the step is the current one.
func (w *world) goTo(step gardencorev1beta1.ConditionType) {
	GinkgoHelper()
	for range 20 {
		if current, ok := steps.Current(steps.Conditions(w.shoot())); ok &&
			steps.Initialized(steps.Conditions(w.shoot())) && current.Condition == step {
			w.lock.Lock()
			w.ran = nil
			w.lock.Unlock()
			w.events()
			return
		}
		w.clock.Step(time.Second)
		w.mustPass(seedA)
		if current, ok := steps.Current(steps.Conditions(w.shoot())); ok && current.Condition == step {
			continue
		}
		w.mustPass(seedB)
	}
	Fail(fmt.Sprintf("the migration did not get to step %s", step))
}

func (w *world) shoot() *gardencorev1beta1.Shoot {
	GinkgoHelper()
	shoot := &gardencorev1beta1.Shoot{}
	Expect(w.client.Get(context.Background(), key, shoot)).To(Succeed())
	return shoot
}

// change changes the shoot, metadata and status, as somebody else.
func (w *world) change(mutate func(*gardencorev1beta1.Shoot)) {
	GinkgoHelper()
	shoot := w.shoot()
	mutate(shoot)
	status := shoot.Status.DeepCopy()
	Expect(w.client.Update(context.Background(), shoot)).To(Succeed())
	shoot.Status = *status
	Expect(w.client.Status().Update(context.Background(), shoot)).To(Succeed())
}

func (w *world) condition(conditionType gardencorev1beta1.ConditionType) gardencorev1beta1.Condition {
	GinkgoHelper()
	all := steps.Conditions(w.shoot())
	i := slices.IndexFunc(all, func(c gardencorev1beta1.Condition) bool { return c.Type == conditionType })
	Expect(i).To(BeNumerically(">=", 0), "no condition "+string(conditionType))
	return all[i]
}

// events returns what was recorded since the last call.
func (w *world) events() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// statuses renders the conditions, one letter per step.
func (w *world) statuses() string {
	var b strings.Builder
	for _, condition := range steps.Conditions(w.shoot()) {
		b.WriteString(string(condition.Status)[:1])
	}
	return b.String()
}

func annotationsOf(shoot *gardencorev1beta1.Shoot) map[string]string {
	return maps.Clone(shoot.Annotations)
}

var errBoom = errors.New("failed to move the world")
