// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/simulation"
)

// world is what the agents of a test act on instead of two seeds, and what it remembers of their deeds. It outlives the
// agents, as the real one does.
type world struct {
	key client.ObjectKey

	mu sync.Mutex
	// finished are the steps whose work is done, by their order of completion.
	finished []gardencorev1beta1.ConditionType
	// attempts counts how often a step's action has begun.
	attempts map[gardencorev1beta1.ConditionType]int
	// actors are the roles whose actions have run, by step.
	actors map[gardencorev1beta1.ConditionType]map[steps.Role]bool
	// running is the number of actions that run at this moment, overlap the largest there has been.
	running, overlap int
	// sourceMembers are the source's etcd members that are left, retired by the source's part in step 6.
	sourceMembers int
	// synced counts the Always actions, by role.
	synced map[steps.Role]int
	// blocking are the steps whose next attempt hangs until its agent is stopped; entered tells when one does.
	blocking map[gardencorev1beta1.ConditionType]bool
	entered  chan gardencorev1beta1.ConditionType
	// writers maps resource versions of the Shoot to the seed whose agent wrote them.
	writers map[string]string
	// history are all versions of the Shoot.
	history []*gardencorev1beta1.Shoot
}

// newWorld creates a shoot in seed-a and records what becomes of it.
func newWorld(name string) *world {
	GinkgoHelper()
	shoot := framework.NewShoot(name, seedA)
	Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())

	w := &world{
		key:           client.ObjectKeyFromObject(shoot),
		attempts:      map[gardencorev1beta1.ConditionType]int{},
		actors:        map[gardencorev1beta1.ConditionType]map[steps.Role]bool{},
		sourceMembers: 3,
		synced:        map[steps.Role]int{},
		blocking:      map[gardencorev1beta1.ConditionType]bool{},
		entered:       make(chan gardencorev1beta1.ConditionType, 100),
		writers:       map[string]string{},
	}

	watching, err := client.NewWithWatch(garden.Config, client.Options{Scheme: kubernetes.GardenScheme})
	Expect(err).NotTo(HaveOccurred())
	stream, err := watching.Watch(ctx, &gardencorev1beta1.ShootList{}, client.InNamespace(shoot.Namespace),
		client.MatchingFields{"metadata.name": name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: shoot.ResourceVersion}})
	Expect(err).NotTo(HaveOccurred())
	w.history = []*gardencorev1beta1.Shoot{shoot.DeepCopy()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			if version, ok := event.Object.(*gardencorev1beta1.Shoot); ok && event.Type == watch.Modified {
				w.mu.Lock()
				w.history = append(w.history, version)
				w.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() {
		stream.Stop()
		<-done
	})
	return w
}

func (w *world) shoot() *gardencorev1beta1.Shoot {
	GinkgoHelper()
	shoot := &gardencorev1beta1.Shoot{}
	Expect(garden.Client.Get(ctx, w.key, shoot)).To(Succeed())
	return shoot
}

// trigger does what an operator does.
func (w *world) trigger() {
	GinkgoHelper()
	shoot := w.shoot()
	Expect(garden.Intend(ctx, shoot)).To(Succeed())
	Expect(garden.Bind(ctx, shoot, seedB)).To(Succeed())
}

func (w *world) condition(conditionType gardencorev1beta1.ConditionType) gardencorev1beta1.Condition {
	if condition := v1beta1helper.GetCondition(steps.Conditions(w.shoot()), conditionType); condition != nil {
		return *condition
	}
	return gardencorev1beta1.Condition{}
}

func (w *world) done() []gardencorev1beta1.ConditionType {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]gardencorev1beta1.ConditionType(nil), w.finished...)
}

// block lets the next attempt at the step hang until its agent is stopped.
func (w *world) block(conditionType gardencorev1beta1.ConditionType) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocking[conditionType] = true
}

// step is the action of a step: two attempts at least, as most real ones need.
func (w *world) step(role steps.Role, conditionType gardencorev1beta1.ConditionType) migration.Action {
	return migration.ActionFunc(func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
		defer GinkgoRecover()
		Expect(m.Role).To(Equal(role))
		Expect(m.Step.Condition).To(Equal(conditionType))
		Expect(m.SourceSeed).To(Equal(seedA))
		Expect(m.DestinationSeed).To(Equal(seedB))

		w.mu.Lock()
		if w.actors[conditionType] == nil {
			w.actors[conditionType] = map[steps.Role]bool{}
		}
		w.actors[conditionType][role] = true
		w.attempts[conditionType]++
		attempt := w.attempts[conditionType]
		w.running++
		w.overlap = max(w.overlap, w.running)
		hang := w.blocking[conditionType]
		delete(w.blocking, conditionType)
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.running--
		}()

		if hang {
			w.entered <- conditionType
			<-ctx.Done()
			return steps.Outcome{}, ctx.Err()
		}
		if attempt == 1 {
			if err := m.Report(ctx, steps.ReasonStarted, "the first attempt is never enough"); err != nil {
				return steps.Outcome{}, err
			}
			return steps.Waiting(10*time.Millisecond, steps.ReasonStarted, "once more"), nil
		}

		w.mu.Lock()
		defer w.mu.Unlock()
		if asks := m.Step.Asks(); len(asks) > 0 && w.sourceMembers > 0 {
			// With each of the reasons once, and then with the last one.
			reason := asks[min(attempt-2, len(asks)-1)]
			if _, ahead := m.Step.Ahead(reason); ahead && attempt > 2 {
				// Nobody waits for what the peer does before its turn.
				w.finished = append(w.finished, conditionType)
				return steps.Done("done in attempt %d", attempt), nil
			}
			return steps.Waiting(10*time.Millisecond, reason, "%d source members are left", w.sourceMembers), nil
		}
		w.finished = append(w.finished, conditionType)
		return steps.Done("done in attempt %d", attempt), nil
	})
}

// ofRole returns what a role does in this world.
func (w *world) ofRole(role steps.Role) simulation.Work {
	return simulation.Work{
		Step: func(step steps.Step) migration.Action { return w.step(role, step.Condition) },
		Assist: func(step steps.Step) migration.Action {
			return migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
				defer GinkgoRecover()
				Expect(step.Asks()).NotTo(BeEmpty(), "nobody asks for a part in step "+step.String())
				if _, ahead := step.Ahead(step.Asks()[0]); ahead {
					return steps.Outcome{}, nil
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.sourceMembers > 0 {
					w.sourceMembers--
				}
				return steps.Outcome{RequeueAfter: 10 * time.Millisecond}, nil
			})
		},
		Always: migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.synced[role]++
			return steps.Outcome{}, nil
		}),
	}
}

// start runs the agent of a seed in both roles, with the real gate and the real preflight. The returned function stops
// it and waits, as abruptly as a termination is: contexts are cancelled, nothing is finished.
func (w *world) start(seedName string) (stop func()) {
	GinkgoHelper()
	config := rest.CopyConfig(garden.Config)
	config.QPS, config.Burst = 1000, 2000

	mgr, err := manager.New(config, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		// as agent.ManagerOptions
		Controller: controllerconfig.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	})
	Expect(err).NotTo(HaveOccurred())
	gardenCluster, err := cluster.New(config, func(options *cluster.Options) {
		options.Scheme = kubernetes.GardenScheme
		options.Cache.DefaultNamespaces = map[string]cache.Config{w.key.Namespace: {}}
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(gardenCluster)).To(Succeed())

	watching, err := client.NewWithWatch(config, client.Options{Scheme: kubernetes.GardenScheme})
	Expect(err).NotTo(HaveOccurred())
	reconciler, err := simulation.NewReconciler(simulation.Agent{
		SeedName:        seedName,
		GardenClient:    w.recording(watching, seedName),
		GardenAPIReader: watching,
		Recorder:        events.NewFakeRecorder(10000),
		Config:          quickController(),
		Version:         framework.GardenletVersion,
		Actions:         simulation.Both(w.ofRole),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(reconciler.AddToManager(mgr, gardenCluster)).To(Succeed())
	return run(mgr)
}

// quickController is the configuration of an agent that does not wait long.
func quickController() configv1alpha1.LiveMigrationController {
	quick := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	return configv1alpha1.LiveMigrationController{
		ConcurrentSyncs: new(2),
		SyncPeriod:      quick(250 * time.Millisecond),
		GatePeriod:      quick(250 * time.Millisecond),
		HoldPeriod:      quick(100 * time.Millisecond),
		AttemptTimeout:  quick(time.Minute),
		RetryBackoff: configv1alpha1.RetryBackoff{Base: quick(20 * time.Millisecond),
			Max: quick(200 * time.Millisecond)},
	}
}

// recording remembers that what is written through the client is written by the agent of the seed.
func (w *world) recording(c client.WithWatch, seedName string) client.Client {
	return interceptor.NewClient(c, calls.After(func(call calls.Call) {
		if object, ok := call.Object.(client.Object); ok && call.Writes() {
			w.wrote(object, seedName)
		}
	}))
}

// run starts a manager and returns what stops it.
func run(mgr manager.Manager) (stop func()) {
	managerCtx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(managerCtx)).To(Succeed())
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			<-stopped
		})
	}
	DeferCleanup(stop)
	return stop
}

func (w *world) wrote(obj client.Object, seedName string) {
	if client.ObjectKeyFromObject(obj) == w.key {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writers[obj.GetResourceVersion()] = seedName
	}
}

// checkWrites goes through the history and checks who wrote what: a condition by the owner of its step only and only
// while that step is the current one; the first setting by the source.
func (w *world) checkWrites() {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()

	seedOf := map[steps.Role]string{steps.Source: seedA, steps.Destination: seedB}
	for i := 1; i < len(w.history); i++ {
		before, after := w.history[i-1], w.history[i]
		writer := w.writers[after.ResourceVersion]
		old, changed := steps.Conditions(before), steps.Conditions(after)

		for _, condition := range changed {
			former := v1beta1helper.GetCondition(old, condition.Type)
			if former != nil && former.Status == condition.Status && former.Reason == condition.Reason &&
				former.Message == condition.Message {
				continue
			}
			what := fmt.Sprintf("version %d, condition %s -> %s/%s, written by %q", i, condition.Type, condition.Status,
				condition.Reason, writer)
			if former == nil {
				Expect(writer).To(Equal(seedA), what)
				Expect(condition.Status).To(Equal(gardencorev1beta1.ConditionUnknown), what)
				continue
			}
			step, ok := steps.Get(condition.Type)
			Expect(ok).To(BeTrue(), what)
			Expect(writer).To(Equal(seedOf[step.Owner]), what)
			current, _ := steps.Current(old)
			Expect(current.Condition).To(Equal(condition.Type), what)
		}
		// A write that gardener-controller-manager has computed before the hand-over can arrive after it. It does no
		// harm: with equal seed names no migration starts, and the constraint is removed again.
		if _, _, between := steps.Seeds(after); between {
			constraint := v1beta1helper.GetCondition(after.Status.Constraints, gardencorev1beta1.ShootReadyForMigration)
			Expect(constraint == nil || constraint.Status == gardencorev1beta1.ConditionFalse).To(BeTrue(),
				"the classic migration must never be let in")
		}
	}
}
