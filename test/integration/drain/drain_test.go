// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

const specLabel = "test.livecpm.example/spec"

var _ = Describe("Drain", func() {
	var (
		count  int
		prefix string
		source *gardencorev1beta1.Seed
		sim    *agents
		config *configv1alpha1.ControllerManagerConfiguration
	)

	newSeed := func(name string, change ...func(*gardencorev1beta1.Seed)) *gardencorev1beta1.Seed {
		GinkgoHelper()
		seed := framework.NewSeed(prefix + name)
		seed.Labels = map[string]string{specLabel: prefix + "spec"}
		for _, change := range change {
			change(seed)
		}
		Expect(garden.CreateSeed(ctx, seed)).To(Succeed())
		patch := client.MergeFrom(seed.DeepCopy())
		// The scheduler chooses no seed that its gardenlet has never reconciled.
		seed.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
			State: gardencorev1beta1.LastOperationStateSucceeded, LastUpdateTime: metav1.Now()}
		Expect(garden.Client.Status().Patch(ctx, seed, patch)).To(Succeed())
		return seed
	}
	newShoot := func(name string, change ...func(*gardencorev1beta1.Shoot)) *gardencorev1beta1.Shoot {
		GinkgoHelper()
		shoot := framework.NewShoot(prefix+name, source.Name)
		shoot.Spec.SeedSelector = &gardencorev1beta1.SeedSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{specLabel: prefix + "spec"}},
		}
		for _, change := range change {
			change(shoot)
		}
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
		return shoot
	}
	// hibernate makes the shoot one that is hibernated.
	hibernate := func(shoot *gardencorev1beta1.Shoot) {
		GinkgoHelper()
		patch := client.MergeFrom(shoot.DeepCopy())
		shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(true)}
		Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
		patch = client.MergeFrom(shoot.DeepCopy())
		shoot.Status.IsHibernated = true
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
	}
	newShoots := func(n int) {
		GinkgoHelper()
		for i := range n {
			newShoot(fmt.Sprint(i))
		}
	}
	get := func(g Gomega) *gardencorev1beta1.Seed {
		seed := &gardencorev1beta1.Seed{}
		g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(source), seed)).To(Succeed())
		return seed
	}
	annotate := func(annotations map[string]string) {
		GinkgoHelper()
		seed := get(Default)
		patch := client.MergeFrom(seed.DeepCopy())
		for key, value := range annotations {
			if value == "" {
				delete(seed.Annotations, key)
				continue
			}
			metav1.SetMetaDataAnnotation(&seed.ObjectMeta, key, value)
		}
		Expect(garden.Client.Patch(ctx, seed, patch)).To(Succeed())
	}
	begin := func() { GinkgoHelper(); annotate(map[string]string{drain.AnnotationDrain: "true"}) }
	cancel := func() { GinkgoHelper(); annotate(map[string]string{drain.AnnotationDrain: ""}) }
	// condition returns status, reason and message of the condition in one string.
	condition := func(g Gomega) string {
		condition := v1beta1helper.GetCondition(get(g).Status.Conditions, drain.ConditionDrained)
		if condition == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
	}
	table := func(g Gomega) map[string]string {
		configMap := &corev1.ConfigMap{}
		g.Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: drain.TableName(source.Name)},
			configMap)).To(Succeed())
		table, err := drain.DecodeTable(configMap.Data[drain.TableKey])
		g.Expect(err).NotTo(HaveOccurred())
		out := map[string]string{}
		for _, row := range table.Shoots {
			out[row.Name[len(prefix):]] = fmt.Sprintf("%s %s %s", row.State, row.Reason, row.Way)
		}
		return out
	}
	visible := func(g Gomega) bool { return get(g).Spec.Settings.Scheduling.Visible }
	start := func() (stop func()) {
		GinkgoHelper()
		restConfig := rest.CopyConfig(garden.Config)
		restConfig.Impersonate = rest.ImpersonationConfig{UserName: identity}
		mgr, err := livecpm.NewManagerFor(zap.New(zap.WriteTo(GinkgoWriter)), restConfig,
			config, func(options *manager.Options) {
				options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
				options.Controller.SkipNameValidation = new(true)
			})
		Expect(err).NotTo(HaveOccurred())
		running, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		stopped := false
		stop = func() {
			GinkgoHelper()
			if !stopped {
				stopped = true
				end()
				Eventually(ended).Should(Receive(BeNil()))
			}
		}
		DeferCleanup(stop)
		return stop
	}
	running := func() map[string]int { return sim.peak() }

	BeforeEach(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
		count++
		prefix = fmt.Sprintf("d%d-", count)
		config = &configv1alpha1.ControllerManagerConfiguration{}
		configv1alpha1.SetControllerManagerDefaults(config)
		config.LeaderElection.LeaderElect = new(false)
		config.Controllers.Drain.Pause.Duration = 0
		config.Controllers.Drain.SyncPeriod.Duration = time.Second
		source = newSeed("a", func(s *gardencorev1beta1.Seed) { s.Labels["test.livecpm.example/only"] = s.Name })
		newSeed("b")

		var end func()
		sim, end = startAgents(garden.Config, prefix)
		DeferCleanup(func() {
			end()
			Expect(sim.errors()).NotTo(HaveOccurred())
		})
	})

	It("should move each in the gentlest way that it permits within the budget, and tell why the rest stays", func() {
		newShoots(6)
		newShoot("single", func(s *gardencorev1beta1.Shoot) { s.Spec.ControlPlane = nil })
		newShoot("opted-out", func(s *gardencorev1beta1.Shoot) {
			s.Annotations = map[string]string{drain.AnnotationOptOut: "true"}
		})
		newShoot("nowhere", func(s *gardencorev1beta1.Shoot) {
			s.Spec.SeedSelector.MatchLabels = map[string]string{"test.livecpm.example/only": source.Name}
		})
		hibernate(newShoot("hibernated"))

		// None is moved before the second one is started, however slow the controller is.
		sim.hold(true)
		start()
		begin()
		Eventually(visible).Should(BeFalse())
		Eventually(sim.starts).Should(HaveLen(2))
		sim.hold(false)
		Eventually(condition).
			Should(Equal("False ShootsBlocked The remaining shoots stay until nothing blocks them any more. " +
				"10 shoots: 7 done, 0 running, 0 waiting, 3 blocked (NoCandidate: 1, NotHighlyAvailable: 1, " +
				"OptedOut: 1)"))
		Expect(table(Default)).To(Equal(map[string]string{
			"0": "Done Moved Live", "1": "Done Moved Live", "2": "Done Moved Live", "3": "Done Moved Live",
			"4": "Done Moved Live", "5": "Done Moved Live",
			"single": "Blocked NotHighlyAvailable ", "opted-out": "Blocked OptedOut ",
			"nowhere": "Blocked NoCandidate ", "hibernated": "Done Moved ClassicWhileHibernated",
		}))
		Expect(sim.starts()).To(HaveLen(7))
		Expect(sim.starts()).To(HaveEach(1))
		Expect(running()).To(Equal(map[string]int{"total": 2, "out of " + source.Name: 2, "into " + prefix + "b": 2}))

		events := func(g Gomega) []string {
			list := &eventsv1.EventList{}
			g.Expect(garden.Client.List(ctx, list)).To(Succeed())
			var out []string
			for _, event := range list.Items {
				if event.Regarding.Kind == "Seed" && event.Regarding.Name == source.Name {
					out = append(out, event.Type+" "+event.Reason)
				}
			}
			return out
		}
		Eventually(events).Should(ConsistOf("Normal DrainStarted", "Normal Draining", "Warning ShootsBlocked"))
	})

	It("should restore the seed when the drain is cancelled, let running moves finish, and continue later", func() {
		newShoots(4)
		patch := client.MergeFrom(source.DeepCopy())
		source.Spec.Settings.Scheduling.Visible = true
		Expect(garden.Client.Patch(ctx, source, patch)).To(Succeed())
		sim.hold(true)
		start()
		begin()
		Eventually(condition).Should(HavePrefix("Progressing Draining 4 shoots: 0 done, 2 running, 2 waiting"))

		cancel()
		Eventually(visible).Should(BeTrue())
		Eventually(condition).Should(HavePrefix("Progressing Cancelling "))
		sim.hold(false)
		Eventually(condition).Should(BeEmpty())
		Expect(sim.starts()).To(HaveLen(2))
		Eventually(func() bool {
			return apierrors.IsNotFound(garden.Client.Get(ctx,
				client.ObjectKey{Namespace: "garden", Name: drain.TableName(source.Name)}, &corev1.ConfigMap{}))
		}).Should(BeTrue())
		Consistently(sim.starts).WithTimeout(2 * time.Second).Should(HaveLen(2))

		begin()
		Eventually(visible).Should(BeFalse())
		Eventually(condition).
			Should(Equal("True Empty No shoot is left in the seed. 4 shoots: 4 done, 0 running, 0 waiting, 0 blocked"))
		Expect(sim.starts()).To(HaveEach(1))

		cancel()
		Eventually(visible).Should(BeTrue())
		Eventually(func(g Gomega) map[string]string { return get(g).Annotations }).
			ShouldNot(HaveKey(HavePrefix("migration.gardener.cloud/drain")))
	})

	It("should leave a seed invisible that was so before", func() {
		patch := client.MergeFrom(source.DeepCopy())
		source.Spec.Settings.Scheduling.Visible = false
		Expect(garden.Client.Patch(ctx, source, patch)).To(Succeed())
		start()
		begin()
		Eventually(condition).Should(HavePrefix("True Empty "))
		cancel()
		Eventually(condition).Should(BeEmpty())
		Expect(visible(Default)).To(BeFalse())
	})

	It("should continue after a restart in the middle, as if nothing had happened", func() {
		newShoots(5)
		sim.hold(true)
		stop := start()
		begin()
		Eventually(condition).Should(HavePrefix("Progressing Draining 5 shoots: 0 done, 2 running, 3 waiting"))
		stop()
		stop = start()
		Consistently(sim.starts).WithTimeout(2 * time.Second).Should(HaveLen(2))
		sim.hold(false)
		Eventually(func() int { return len(sim.starts()) }).Should(BeNumerically(">=", 3))
		stop()
		start()
		Eventually(condition).Should(HavePrefix("True Empty "))
		Expect(sim.starts()).To(HaveLen(5))
		Expect(sim.starts()).To(HaveEach(1))
		Expect(running()["total"]).To(Equal(2))
	})

	It("should stop after failures in a row, and continue when the drain is started again", func() {
		newShoots(4)
		// One at a time: while the second of two was still going, the failure of the first would make room for a third.
		config.Controllers.Drain.MaxFailuresInARow, config.Controllers.Drain.MaxPerSource = new(2), new(1)
		sim.hold(true)
		start()
		begin()
		var gone []string
		for i := range 2 {
			Eventually(sim.starts).Should(HaveLen(i + 1))
			Eventually(condition).Should(HavePrefix("Progressing Draining 4 shoots: 0 done, 1 running"))
			gone = slices.Collect(maps.Keys(sim.starts()))
			sim.abort(gone...)
		}
		Eventually(condition).Should(HavePrefix("False CircuitOpen 2 migrations in a row have failed"))
		Consistently(sim.starts).WithTimeout(2 * time.Second).Should(HaveLen(2))

		// The operator brings the shoots back, as docs/operations/abort.md says.
		for _, name := range gone {
			shoot := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: framework.ProjectNamespace, Name: name}, shoot)).
				To(Succeed())
			Expect(garden.Bind(ctx, shoot, source.Name)).To(Succeed())
		}
		sim.abort()
		cancel()
		Eventually(visible).Should(BeTrue())
		sim.hold(false)
		begin()
		Eventually(condition).
			Should(Equal("True Empty No shoot is left in the seed. 4 shoots: 4 done, 0 running, 0 waiting, 0 blocked"))
	})

	It("should retry a start that the garden has refused, and then leave the shoot alone", func() {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: prefix + "refuse"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
							Rule: admissionregistrationv1.Rule{APIGroups: []string{"core.gardener.cloud"},
								APIVersions: []string{"v1beta1"}, Resources: []string{"shoots/binding"}},
						}}}},
				Validations: []admissionregistrationv1.Validation{
					{Expression: fmt.Sprintf("object.metadata.name != '%srefused'", prefix), Message: "not this one"},
				},
			},
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: policy.ObjectMeta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		}
		for _, object := range []client.Object{policy, binding} {
			Expect(garden.Client.Create(ctx, object)).To(Succeed())
			DeferCleanup(func() { Expect(garden.Client.Delete(ctx, object)).To(Succeed()) })
		}
		refused := newShoot("refused")
		Eventually(func() error {
			moved := refused.DeepCopy()
			moved.Spec.SeedName = new(prefix + "b")
			return garden.Client.SubResource("binding").Patch(ctx, moved, client.MergeFrom(refused.DeepCopy()),
				client.DryRunAll)
		}).Should(MatchError(ContainSubstring("not this one")))

		config.Controllers.Drain.MaxAttempts = new(2)
		config.Controllers.Drain.RetryAfter.Duration = 2 * time.Second
		start()
		begin()
		Eventually(condition).Should(HavePrefix("False ShootsBlocked "))
		Expect(table(Default)).To(HaveKeyWithValue("refused", HavePrefix("Blocked StartRefused")))
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(refused), refused)).To(Succeed())
		Expect(refused.Annotations).To(And(
			HaveKeyWithValue(drain.AnnotationAttempts, "2"),
			HaveKeyWithValue(drain.AnnotationMessage, ContainSubstring("not this one")),
			Not(HaveKey("migration.gardener.cloud/live-migrate")),
		))
	})

	It("should take a classic move for one that continues until the destination has restored the shoot", func() {
		hibernate(newShoot("hibernated"))
		sim.holdRestore(true)
		start()
		begin()
		Eventually(func(g Gomega) string {
			shoot := &gardencorev1beta1.Shoot{}
			g.Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: framework.ProjectNamespace,
				Name: prefix + "hibernated"}, shoot)).To(Succeed())
			return *shoot.Status.SeedName
		}).Should(Equal(prefix + "b"))
		continues := Equal(map[string]string{"hibernated": "Running Migrating ClassicWhileHibernated"})
		Eventually(table).Should(continues)
		Consistently(table).WithTimeout(2 * time.Second).Should(continues)
		sim.holdRestore(false)
		Eventually(table).Should(Equal(map[string]string{"hibernated": "Done Moved ClassicWhileHibernated"}))
	})

	It("should wait for a shoot that goes into hibernation, and keep a hibernated one where that is asked for", func() {
		annotate(map[string]string{drain.AnnotationHibernated: drain.HibernatedStay})
		asleep := newShoot("hibernated")
		hibernate(asleep)
		dozing := newShoot("dozing", func(s *gardencorev1beta1.Shoot) {
			s.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(true)}
		})
		start()
		begin()
		Eventually(table).Should(
			Equal(map[string]string{"hibernated": "Blocked ShootHibernated ", "dozing": "Blocked ShootHibernated "}))
		annotate(map[string]string{drain.AnnotationHibernated: ""})
		Eventually(table).Should(Equal(map[string]string{"hibernated": "Done Moved ClassicWhileHibernated",
			"dozing": "Waiting Hibernating "}))
		hibernate(dozing)
		Eventually(table).Should(Equal(map[string]string{"hibernated": "Done Moved ClassicWhileHibernated",
			"dozing": "Done Moved ClassicWhileHibernated"}))
	})

	It("should begin with canaries, and with the others when these have soaked", func() {
		newShoots(4)
		annotate(map[string]string{drain.AnnotationCanaries: "1", drain.AnnotationSoak: "1h"})
		start()
		begin()
		Eventually(func(g Gomega) []string { return slices.Sorted(maps.Values(table(g))) }).Should(Equal([]string{
			"Done Moved Live", "Waiting Soaking Live", "Waiting Soaking Live", "Waiting Soaking Live"}))
		Expect(sim.starts()).To(HaveLen(1))
		annotate(map[string]string{drain.AnnotationSoak: "0s"})
		Eventually(condition).Should(HavePrefix("True Empty "))
	})

	It("should start nothing in a change freeze, nor outside of the maintenance windows if asked, nor if what is "+
		"asked for cannot be read", func() {
		now := time.Now().UTC()
		newShoot("x", func(s *gardencorev1beta1.Shoot) {
			later := now.Add(6 * time.Hour)
			s.Spec.Maintenance = &gardencorev1beta1.Maintenance{TimeWindow: &gardencorev1beta1.MaintenanceTimeWindow{
				Begin: later.Format("150405-0700"), End: later.Add(2 * time.Hour).Format("150405-0700")}}
		})
		annotate(map[string]string{drain.AnnotationWindows: drain.WindowsMaintenance,
			drain.AnnotationFreezes: drain.FormatTime(now.Add(-time.Hour)) + "/" +
				drain.FormatTime(now.Add(time.Hour))})
		start()
		begin()
		Eventually(table).Should(Equal(map[string]string{"x": "Waiting ChangeFreeze Live"}))
		annotate(map[string]string{drain.AnnotationFreezes: "tomorrow"})
		Eventually(table).Should(Equal(map[string]string{"x": "Blocked SettingsInvalid "}))
		annotate(map[string]string{drain.AnnotationFreezes: ""})
		Eventually(table).Should(Equal(map[string]string{"x": "Waiting WaitingForMaintenanceWindow Live"}))
		Expect(sim.starts()).To(BeEmpty())
		annotate(map[string]string{drain.AnnotationWindows: ""})
		Eventually(condition).Should(HavePrefix("True Empty "))
	})

	It("should tell the webhook before a move begins, and wait while it does not answer", func() {
		var (
			lock     sync.Mutex
			refusing = true
			subjects []string
		)
		server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
			var event struct{ Subject string }
			err := json.NewDecoder(request.Body).Decode(&event)
			lock.Lock()
			defer lock.Unlock()
			if err != nil || refusing {
				answer.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			subjects = append(subjects, event.Subject)
		}))
		DeferCleanup(server.Close)
		config.Controllers.Drain.Notice.Webhook = &configv1alpha1.DrainWebhook{URL: server.URL}
		configv1alpha1.SetControllerManagerDefaults(config)
		config.Controllers.Drain.Notice.Webhook.RetryAfter.Duration = time.Second
		newShoots(2)
		start()
		begin()
		Eventually(table).Should(
			Equal(map[string]string{"0": "Waiting NoticeFailed Live", "1": "Waiting NoticeFailed Live"}))
		Expect(sim.starts()).To(BeEmpty())
		lock.Lock()
		refusing = false
		lock.Unlock()
		Eventually(condition).Should(HavePrefix("True Empty "))
		lock.Lock()
		defer lock.Unlock()
		Expect(subjects).To(ConsistOf(framework.ProjectNamespace+"/"+prefix+"0",
			framework.ProjectNamespace+"/"+prefix+"1"))
	})

	Describe("where all destinations are too far away", func() {
		far := func(region string) func(*gardencorev1beta1.Seed) {
			return func(s *gardencorev1beta1.Seed) { s.Spec.Provider.Region = region }
		}
		// distant is a shoot that belongs into the region of seed b.
		distant := func() *gardencorev1beta1.Shoot {
			GinkgoHelper()
			return newShoot("distant", func(s *gardencorev1beta1.Shoot) {
				s.Spec.Purpose = new(gardencorev1beta1.ShootPurposeProduction)
			})
		}
		seeds := func(shoot *gardencorev1beta1.Shoot) func(Gomega) string {
			return func(g Gomega) string {
				g.Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
				return fmt.Sprintf("%s to %s", (*shoot.Status.SeedName)[len(prefix):],
					(*shoot.Spec.SeedName)[len(prefix):])
			}
		}

		BeforeEach(func() {
			// Seeds far-a, m and b lie in a row. No shoot goes to seed a.
			patch := client.MergeFrom(source.DeepCopy())
			source.Spec.Settings.Scheduling.Visible = false
			Expect(garden.Client.Patch(ctx, source, patch)).To(Succeed())
			source = newSeed("far-a", far("start"))
			newSeed("m", far("middle"))
			regions := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: prefix + "regions", Namespace: v1beta1constants.GardenNamespace,
					Labels: map[string]string{
						v1beta1constants.SchedulingPurpose: v1beta1constants.SchedulingPurposeRegionConfig},
					Annotations: map[string]string{
						v1beta1constants.AnnotationSchedulingCloudProfiles: framework.CloudProfile}},
				Data: map[string]string{"start": "middle: 100\nregion: 300\n",
					"middle": "start: 100\nregion: 110\n", "region": "start: 300\nmiddle: 110\n"},
			}
			Expect(garden.Client.Create(ctx, regions)).To(Succeed())
			DeferCleanup(func() { Expect(garden.Client.Delete(ctx, regions)).To(Succeed()) })
		})

		It("should move by way of another seed if that is permitted, over restarts", func() {
			shoot := distant()
			Eventually(func() error {
				moved := shoot.DeepCopy()
				metav1.SetMetaDataAnnotation(&moved.ObjectMeta, "migration.gardener.cloud/live-migrate", "true")
				moved.Spec.SeedName = new(prefix + "b")
				return garden.Client.SubResource("binding").Patch(ctx, moved, client.MergeFrom(shoot.DeepCopy()),
					client.DryRunAll)
			}).Should(MatchError(ContainSubstring("exceeds threshold 180")), "the garden refuses the direct way")

			stop := start()
			begin()
			Eventually(table).Should(Equal(map[string]string{"distant": "Blocked RegionsTooDistant "}))
			Consistently(sim.starts).WithTimeout(2 * time.Second).Should(BeEmpty())

			sim.hold(true)
			annotate(map[string]string{drain.AnnotationMaxHops: "2"})
			Eventually(seeds(shoot)).Should(Equal("far-a to m"))
			stop()
			sim.hold(false)
			Eventually(seeds(shoot)).Should(Equal("m to m"))
			sim.hold(true)
			stop = start()
			Eventually(seeds(shoot)).Should(Equal("m to b"))
			Expect(condition(Default)).NotTo(HavePrefix("True"))
			stop()
			sim.hold(false)
			Eventually(seeds(shoot)).Should(Equal("b to b"))
			start()
			Eventually(condition).Should(Equal(
				"True Empty No shoot is left in the seed. 1 shoot: 1 done, 0 running, 0 waiting, 0 blocked"))
			Expect(table(Default)).To(Equal(map[string]string{"distant": "Done Moved Live"}))
			Expect(sim.starts()).To(Equal(map[string]int{prefix + "distant": 2}))
		})

		It("should rest on the way after a cancellation, say where, and continue", func() {
			shoot := distant()
			annotate(map[string]string{drain.AnnotationMaxHops: "2"})
			sim.hold(true)
			start()
			begin()
			Eventually(seeds(shoot)).Should(Equal("far-a to m"))
			cancel()
			Eventually(condition).Should(HavePrefix("Progressing Cancelling "))
			sim.hold(false)
			Eventually(condition).Should(HavePrefix(fmt.Sprintf("False StoppedBetweenSeeds The drain is cancelled. "+
				"Between two migrations: 1 shoot (%s/%s is in seed %sm on its way to seed %sb). ",
				shoot.Namespace, shoot.Name, prefix, prefix)))
			Consistently(seeds(shoot)).WithTimeout(2 * time.Second).Should(Equal("m to m"))
			begin()
			Eventually(condition).Should(HavePrefix("True Empty "))
			Expect(seeds(shoot)(Default)).To(Equal("b to b"))
		})
	})

	It("should let shoots that cannot go live go classically in their maintenance window, where that is "+
		"permitted", func() {
		window := func(offset time.Duration) func(*gardencorev1beta1.Shoot) {
			return func(s *gardencorev1beta1.Shoot) {
				s.Spec.ControlPlane = nil
				begin := time.Now().UTC().Add(offset)
				s.Spec.Maintenance = &gardencorev1beta1.Maintenance{
					TimeWindow: &gardencorev1beta1.MaintenanceTimeWindow{
						Begin: begin.Format("150405-0700"), End: begin.Add(2 * time.Hour).Format("150405-0700"),
					}}
			}
		}
		newShoot("in", window(-time.Hour))
		newShoot("out", window(6*time.Hour))
		start()
		begin()
		Eventually(condition).Should(HavePrefix("False ShootsBlocked "))

		annotate(map[string]string{drain.AnnotationFallback: drain.FallbackClassic})
		Eventually(table).Should(
			Equal(map[string]string{"in": "Done Moved Classic", "out": "Waiting WaitingForMaintenanceWindow Classic"}))
	})
})
