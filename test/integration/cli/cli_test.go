// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/test/integration/framework"
)

// The agents are simulated: what they would write into the conditions is written here, by the same functions.
// Everything else is done by the plugin alone, against the real gardener-apiserver and the real policies.
var _ = Describe("kubectl livecpm", func() {
	var (
		count       int
		source      string
		destination string
		shoot       *gardencorev1beta1.Shoot
		out, errs   bytes.Buffer

		livecpm = func(args ...string) exit.Code {
			out.Reset()
			errs.Reset()
			code := app.Run(ctx, app.Streams{Out: &out, Err: &errs},
				append([]string{"--kubeconfig", kubeconfig}, args...))
			GinkgoWriter.Printf("$ kubectl livecpm %v\n%s%s(code %d)\n", args, out.String(), errs.String(), code)
			return code
		}
		current = func() *gardencorev1beta1.Shoot {
			GinkgoHelper()
			out := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), out)).To(Succeed())
			return out
		}
		// write changes the status as an agent does.
		write = func(change func(old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition) {
			GinkgoHelper()
			s := current()
			patch := client.MergeFrom(s.DeepCopy())
			s.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: change(steps.Conditions(s))}
			Expect(garden.Client.Status().Patch(ctx, s, patch)).To(Succeed())
		}
		initialize = func() {
			GinkgoHelper()
			write(func(old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition {
				return conditions.Initialize(clock.RealClock{}, old)
			})
		}
		apply = func(number int, status gardencorev1beta1.ConditionStatus, reason steps.Reason) {
			GinkgoHelper()
			write(func(old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition {
				step := steps.Table()[number-1]
				updated, err := conditions.Apply(clock.RealClock{}, old, conditions.Change{
					Step: step, Role: step.Owner, Status: status,
					Reason: reason, Message: "simulated",
				})
				Expect(err).NotTo(HaveOccurred())
				return updated
			})
		}
		abort = func(role steps.Role, reason steps.Reason) {
			GinkgoHelper()
			write(func(old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition {
				updated, err := conditions.Abort(clock.RealClock{}, old, conditions.AbortChange{
					Role: role, Reason: reason, Message: "simulated",
				})
				Expect(err).NotTo(HaveOccurred())
				return updated
			})
		}
	)

	BeforeEach(func() {
		count++
		source, destination = fmt.Sprintf("source-%d", count), fmt.Sprintf("destination-%d", count)
		for _, name := range []string{source, destination} {
			seed := framework.NewSeed(name)
			Expect(garden.CreateSeed(ctx, seed)).To(Succeed())
		}
		shoot = framework.NewShoot(fmt.Sprintf("live-%d", count), source)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
	})

	It("should drive a migration: plan, start, watch, pause, resume, abort, start again, status, list", func() {
		By("plan")
		Expect(livecpm("plan", shoot.Name, "--to", destination)).To(Equal(exit.Done))
		Expect(out.String()).To(And(ContainSubstring("Ready to migrate."), ContainSubstring("GatePolicies")))
		Expect(out.String()).To(ContainSubstring("Next: kubectl livecpm start %s -n %s --to %s", shoot.Name,
			shoot.Namespace, destination))
		Expect(livecpm("plan", shoot.Name, "-o", "json")).To(Equal(exit.Done))
		var p view.Plan
		Expect(json.Unmarshal(out.Bytes(), &p)).To(Succeed())
		Expect(p.Candidates).To(ContainElement(And(HaveField("Seed", destination), HaveField("Fit", true))))

		By("start --dry-run")
		Expect(livecpm("start", shoot.Name, "--to", destination, "--dry-run=client")).To(Equal(exit.Done))
		Expect(out.String()).To(And(HavePrefix("Dry run (client)"),
			ContainSubstring("Change: Shoot %s/%s: set spec.seedName from %s to %s", shoot.Namespace, shoot.Name,
				source, destination)))
		// The admission plugins' informers may not know the seed yet.
		Eventually(func() exit.Code {
			return livecpm("start", shoot.Name, "--to", destination, "--dry-run=server")
		}).Should(Equal(exit.Done))
		Expect(current().Annotations).NotTo(HaveKey(steps.AnnotationIntent))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))

		By("start")
		// A start that is refused leaves nothing behind.
		Eventually(func() exit.Code {
			return livecpm("start", shoot.Name, "--to", destination, "--pause-before", "2")
		}).Should(Equal(exit.Done))
		Expect(out.String()).To(And(ContainSubstring("Before: None"), ContainSubstring("After:  Requested")))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(destination)))
		Expect(current().Annotations).To(And(HaveKeyWithValue(steps.AnnotationIntent, "true"),
			HaveKeyWithValue(steps.AnnotationPauseBefore, "DestinationEtcdPeersJoined")))
		Expect(livecpm("start", shoot.Name, "--to", destination)).To(Equal(exit.No))

		By("get")
		initialize()
		apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonPersistingShootState)
		Expect(livecpm("get", shoot.Name)).To(Equal(exit.Done))
		Expect(out.String()).To(And(ContainSubstring("PersistingShootState"),
			ContainSubstring("not known, give --seed-kubeconfig "+source+"=PATH")))
		apply(1, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		apply(2, gardencorev1beta1.ConditionUnknown, steps.ReasonPaused)
		Expect(livecpm("get", shoot.Name, "-o", "json")).To(Equal(exit.Done))
		var seen summary.Summary
		Expect(json.Unmarshal(out.Bytes(), &seen)).To(Succeed())
		Expect(seen.State).To(Equal(summary.Paused))

		By("resume and pause")
		Expect(livecpm("resume", shoot.Name)).To(Equal(exit.Done))
		Expect(current().Annotations).NotTo(HaveKey(steps.AnnotationPauseBefore))
		apply(2, gardencorev1beta1.ConditionProgressing, steps.ReasonJoiningEtcdMembers)
		Expect(livecpm("pause", shoot.Name, "--pause-before", "2")).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("the step has begun"))
		Expect(livecpm("pause", shoot.Name)).To(Equal(exit.Done))
		Expect(current().Annotations).
			To(HaveKeyWithValue(steps.AnnotationPauseBefore, "MigrateExtensionsNeededBeforeKubeAPIServer"))
		Expect(livecpm("resume", shoot.Name)).To(Equal(exit.Done))

		By("status with a timeout, and of a step")
		Expect(livecpm("status", shoot.Name, "--for", "1")).To(Equal(exit.Done))
		Expect(livecpm("status", shoot.Name, "--for", "2", "--wait=false")).To(Equal(exit.No))
		Expect(livecpm("status", shoot.Name, "--timeout", "100ms")).To(Equal(exit.Timeout))

		By("abort")
		Expect(livecpm("abort", shoot.Name, "--stay")).To(Equal(exit.No))
		Expect(livecpm("abort", shoot.Name)).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("After:  Aborting"))
		abort(steps.Destination, steps.ReasonWithdrawn)
		abort(steps.Source, steps.ReasonAborted)
		Expect(livecpm("status", shoot.Name)).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("not completed: Aborted"))
		Expect(livecpm("status", shoot.Name, "--for", "Aborted")).To(Equal(exit.Done))
		Expect(livecpm("get", shoot.Name, "-w")).To(Equal(exit.No))

		By("start again")
		Expect(livecpm("start", shoot.Name, "--to", destination)).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("the aborted migration begins again"))
		Expect(current().Annotations).NotTo(HaveKey(steps.AnnotationAbort))
		initialize()
		for number := 1; number <= 6; number++ {
			apply(number, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
			if number < 6 {
				apply(number, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
			}
		}

		By("abort is refused")
		Expect(livecpm("abort", shoot.Name)).To(Equal(exit.No))
		Expect(errs.String()).
			To(And(ContainSubstring("can only go forward"), ContainSubstring("kubectl livecpm pause")))

		By("retry")
		Expect(livecpm("retry", shoot.Name)).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("gardener.cloud/operation=retry"))

		By("list")
		Expect(livecpm("list")).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring(shoot.Name))
		Expect(livecpm("list", "-A", "-o", "json")).To(Equal(exit.Done))
		var list struct {
			Items []summary.Summary `json:"items"`
		}
		Expect(json.Unmarshal(out.Bytes(), &list)).To(Succeed())
		Expect(list.Items).To(ContainElement(And(
			HaveField("Name", shoot.Name), HaveField("State", summary.Processing),
			HaveField("Step", "EtcdMigrationComplete"),
		)))

		By("the end")
		for number := 6; number <= 7; number++ {
			apply(number, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		}
		s := current()
		patch := client.MergeFrom(s.DeepCopy())
		updated, err := conditions.Apply(clock.RealClock{}, steps.Conditions(s), conditions.Change{
			Step: steps.Last(), Role: steps.Last().Owner, Status: gardencorev1beta1.ConditionTrue,
			Reason: steps.ReasonCompleted, Message: "simulated",
		})
		Expect(err).NotTo(HaveOccurred())
		s.Status.LiveMigration.Conditions = updated
		s.Status.SeedName = new(destination)
		delete(s.Annotations, steps.AnnotationIntent)
		Expect(garden.Client.Status().Patch(ctx, s, patch)).To(Succeed())
		Expect(livecpm("status", shoot.Name)).To(Equal(exit.Done))
		Expect(livecpm("get", shoot.Name, "-w")).To(Equal(exit.Done), "it ends by itself")
		Expect(out.String()).To(ContainSubstring("Succeeded"))
	})

	It("should let an aborted shoot stay", func() {
		Eventually(func() exit.Code { return livecpm("start", shoot.Name, "--to", destination) }).
			Should(Equal(exit.Done))
		initialize()
		apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		Expect(livecpm("abort", shoot.Name)).To(Equal(exit.Done))
		abort(steps.Source, steps.ReasonAborted)
		Expect(livecpm("abort", shoot.Name, "--stay")).To(Equal(exit.Done))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))
		Expect(current().Annotations).NotTo(Or(HaveKey(steps.AnnotationIntent), HaveKey(steps.AnnotationAbort)))
	})

	It("should let an aborted shoot stay although no live migration to its seed would be admitted", func() {
		Eventually(func() exit.Code { return livecpm("start", shoot.Name, "--to", destination) }).
			Should(Equal(exit.Done))
		initialize()
		apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		Expect(livecpm("abort", shoot.Name)).To(Equal(exit.Done))
		abort(steps.Source, steps.ReasonAborted)

		By("the gardenlet of the source has another version by now")
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: source}}
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(seed), seed)).To(Succeed())
		patch := client.MergeFrom(seed.DeepCopy())
		seed.Status.Gardener.Version = "v1.151.0"
		Expect(garden.Client.Status().Patch(ctx, seed, patch)).To(Succeed())
		Eventually(func() error {
			s := current()
			patch := client.MergeFrom(s.DeepCopy())
			s.Spec.SeedName = new(source)
			return garden.Client.SubResource("binding").Patch(ctx, s, patch, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("same gardenlet version")), "the seed name alone is a new migration")

		By("and the shoot stays")
		Expect(livecpm("abort", shoot.Name, "--stay")).To(Equal(exit.Done))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))
		Expect(current().Annotations).NotTo(Or(HaveKey(steps.AnnotationIntent), HaveKey(steps.AnnotationAbort)))
		Expect(steps.Requested(current())).To(BeFalse())
	})

	It("should say what to lift when the seed of an aborted shoot takes none", func() {
		Eventually(func() exit.Code { return livecpm("start", shoot.Name, "--to", destination) }).
			Should(Equal(exit.Done))
		initialize()
		apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		Expect(livecpm("abort", shoot.Name)).To(Equal(exit.Done))
		abort(steps.Source, steps.ReasonAborted)
		taint := func(taints ...gardencorev1beta1.SeedTaint) {
			GinkgoHelper()
			seed := &gardencorev1beta1.Seed{}
			Expect(garden.Client.Get(ctx, client.ObjectKey{Name: source}, seed)).To(Succeed())
			patch := client.MergeFrom(seed.DeepCopy())
			seed.Spec.Taints = taints
			Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
		}

		taint(gardencorev1beta1.SeedTaint{Key: "for-others-only"})
		Eventually(func() exit.Code { return livecpm("abort", shoot.Name, "--stay", "--dry-run") }).
			Should(Equal(exit.No))
		Expect(livecpm("abort", shoot.Name, "--stay")).To(Equal(exit.No))
		Expect(errs.String()).To(And(ContainSubstring("taint"), ContainSubstring("lift it in Seed "+source)))
		Expect(current().Annotations).To(And(HaveKey(steps.AnnotationIntent), HaveKey(steps.AnnotationAbort)),
			"the gate is as closed as before")

		taint()
		Eventually(func() exit.Code { return livecpm("abort", shoot.Name, "--stay") }).Should(Equal(exit.Done))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))
	})

	It("should refuse to start what cannot go, and leave nothing behind", func() {
		patch := client.MergeFrom(shoot.DeepCopy())
		shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateFailed
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
		Expect(livecpm("plan", shoot.Name, "--to", destination)).To(Equal(exit.No))
		Expect(out.String()).To(ContainSubstring("Not ready to migrate: 1 check did not pass."))
		Expect(livecpm("start", shoot.Name, "--to", destination)).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("was not started"))
		Expect(current().Annotations).NotTo(HaveKey(steps.AnnotationIntent))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))
	})

	It("should take everything back when gardener-apiserver refuses what the plan did not know", func() {
		// A taint that the shoot does not tolerate is none of the migration's prerequisites.
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: destination}}
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(seed), seed)).To(Succeed())
		patch := client.MergeFrom(seed.DeepCopy())
		seed.Spec.Taints = []gardencorev1beta1.SeedTaint{{Key: "for-others-only"}}
		Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
		patch = client.MergeFrom(seed.DeepCopy())
		seed.Status.ObservedGeneration = seed.Generation
		Expect(garden.Client.Status().Patch(ctx, seed, patch)).To(Succeed())

		// Other refusals may come first, until the admission plugins' informers know the seed.
		Eventually(func() string {
			Expect(livecpm("start", shoot.Name, "--to", destination)).To(Equal(exit.No))
			return errs.String()
		}).Should(And(ContainSubstring("taint"), ContainSubstring("Nothing was started")))
		Expect(current().Annotations).NotTo(HaveKey(steps.AnnotationIntent))
		Expect(current().Spec.SeedName).To(HaveValue(Equal(source)))
	})

	It("should plan the drain of a seed, ask for it and take that back", func() {
		annotations := func() map[string]string {
			seed := &gardencorev1beta1.Seed{}
			Expect(garden.Client.Get(ctx, client.ObjectKey{Name: source}, seed)).To(Succeed())
			return seed.Annotations
		}
		Expect(livecpm("drain", source)).To(Equal(exit.Done))
		Expect(annotations()).To(HaveKeyWithValue(drain.AnnotationDrain, "true"))
		Expect(livecpm("drain", "wait", source, "--timeout", "100ms")).To(Equal(exit.Timeout))
		Expect(livecpm("drain", "cancel", source)).To(Equal(exit.Done))
		Expect(annotations()).NotTo(HaveKey(drain.AnnotationDrain))
		Expect(livecpm("drain", "cancel", source)).To(Equal(exit.No))
		Expect(livecpm("drain", "wait", source)).To(Equal(exit.No))

		// Whether the shoot could leave depends on what other specs have made; nothing is asked for in any case.
		Expect(livecpm("drain", "plan", source)).To(BeElementOf(exit.Done, exit.No))
		Expect(out.String()).To(ContainSubstring(shoot.Name))
		Expect(annotations()).NotTo(HaveKey(drain.AnnotationDrain))
	})

	It("should answer with its exit code whether anything is in flight", func() {
		Expect(livecpm("in-flight", "--seed", source)).To(Equal(exit.Done))
		Expect(out.String()).To(Equal("Upgrade of seed " + source + ": yes\nRemoval of seed " + source + ": yes\n"))
		Expect(livecpm("drain", source)).To(Equal(exit.Done))
		Expect(livecpm("in-flight", "--seed", source, "--before", "upgrade")).To(Equal(exit.No))
		Expect(livecpm("drain", "cancel", source)).To(Equal(exit.Done))

		Expect(livecpm("start", shoot.Name, "--to", destination)).To(Equal(exit.Done))
		for _, args := range [][]string{nil, {"--seed", source}, {"--seed", destination, "--before", "upgrade"}} {
			Expect(livecpm(append([]string{"in-flight", "-o", "json"}, args...)...)).To(Equal(exit.No))
			Expect(errs.String()).To(BeEmpty())
			in := summary.InFlight{}
			Expect(json.Unmarshal(out.Bytes(), &in)).To(Succeed())
			Expect(in.Migrations).To(ContainElement(summary.Moving{Namespace: shoot.Namespace, Name: shoot.Name,
				Source: source, Destination: destination, State: summary.Requested}))
			Expect(in.MayUpgrade || in.MayRemove).To(BeFalse())
		}
		Expect(livecpm("in-flight", "--seed", "no-such-seed")).To(Equal(exit.Error))
		Expect(errs.String()).To(ContainSubstring("there is no Seed no-such-seed"))
	})

	It("should show how far the drain of a seed is", func() {
		Expect(livecpm("drain", "status", source)).To(Equal(exit.Done))
		Expect(out.String()).To(Equal("Seed " + source + ": no drain requested\nThere is no table of its shoots.\n"))

		key := drain.Key{Namespace: shoot.Namespace, Name: shoot.Name}
		content, err := drain.SeedPlan{Seed: drain.Seed{Name: source, Draining: true}, Entries: []drain.Entry{
			{Shoot: drain.Shoot{Key: key}, State: drain.Blocked, Reason: drain.ReasonNoCandidate,
				Text: "the scheduler finds no other seed"},
		}}.Table().Encode()
		Expect(err).NotTo(HaveOccurred())
		table := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: drain.TableName(source)},
			Data: map[string]string{drain.TableKey: content}}
		Expect(garden.Client.Create(ctx, table)).To(Succeed())

		Expect(livecpm("drain", "status", source)).To(Equal(exit.Done))
		Expect(out.String()).To(And(ContainSubstring(shoot.Name), ContainSubstring("NoCandidate"),
			ContainSubstring("the scheduler finds no other seed")))
		Expect(livecpm("drain", "status", source, "-o", "json")).To(Equal(exit.Done))
		status := summary.Drain{}
		Expect(json.Unmarshal(out.Bytes(), &status)).To(Succeed())
		Expect(status.Table.Shoots).To(ConsistOf(HaveField("Name", shoot.Name)))
		Expect(livecpm("drain", "status", "no-such-seed")).To(Equal(exit.Error))
	})

	It("should complete shoots, seeds and namespaces", func() {
		for _, request := range []struct{ expected, command, word string }{
			{shoot.Name, "get", ""},
			{source, "drain", ""},
		} {
			Expect(livecpm("__complete", "--kubeconfig", kubeconfig, request.command, request.word)).
				To(Equal(exit.Done))
			Expect(out.String()).To(ContainSubstring(request.expected))
		}
		Expect(livecpm("__complete", "--kubeconfig", kubeconfig, "plan", shoot.Name, "--to", "")).
			To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring(destination))
		Expect(livecpm("__complete", "--kubeconfig", kubeconfig, "list", "-n", "")).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring(framework.ProjectNamespace))
	})
})
