// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passive_test

import (
	"context"
	"time"

	gardenercharts "github.com/gardener/gardener/charts"
	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/test/patience"
)

// process is an agent in some host. Its work is one runnable that only the leader runs.
type process struct {
	works chan struct{}
	clock *testclock.FakeClock
	stop  func()
}

// start starts an agent's manager in the host, as the service account of the seed that the chart gives the lease to.
func start(host agent.Host, serviceAccount string) *process {
	GinkgoHelper()
	config := &configv1alpha1.AgentConfiguration{}
	configv1alpha1.SetDefaults(config)
	// Who leads gives the lease back at its end, so the other one need not wait until it expires. On a slow machine
	// nobody loses it.
	config.LeaderElection.LeaseDuration.Duration = 3 * patience.Eventually
	config.LeaderElection.RenewDeadline.Duration = 2 * patience.Eventually
	config.LeaderElection.RetryPeriod.Duration = 200 * time.Millisecond

	restConfig := rest.CopyConfig(seed.Config)
	restConfig.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:garden:" + serviceAccount}
	log := zap.New(zap.WriteTo(GinkgoWriter)).WithValues("host", host)
	options := agent.ManagerOptions(log, config, host)
	options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
	mgr, err := manager.New(restConfig, options)
	Expect(err).NotTo(HaveOccurred())

	p := &process{works: make(chan struct{}),
		clock: testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		close(p.works)
		<-ctx.Done()
		return nil
	}))).To(Succeed())
	standby := agent.NewStandby(log, mgr, config, host)
	standby.Clock = p.clock
	Expect(mgr.Add(standby)).To(Succeed())

	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	stopped := false
	go func() { ended <- mgr.Start(running) }()
	p.stop = func() {
		GinkgoHelper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	}
	DeferCleanup(p.stop)
	return p
}

// permit creates the object in the manifest if it gives permissions.
func permit(manifest string) {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
	if object.GroupVersionKind().Group == rbacv1.GroupName &&
		(object.GetNamespace() == "" || object.GetNamespace() == "garden") {
		Expect(seed.Client.Create(ctx, object)).To(Succeed(), manifest)
	}
}

var _ = Describe("Two agents in one seed", func() {
	BeforeEach(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
		// The permissions of the chart for pods; those of the gardenlet, and of the chart for the drop-in.
		for _, values := range []map[string]any{nil, {"dropIn": true}} {
			installed := charts.Release{Chart: charts.Agent, Name: "livecpm-agent",
				Namespace: "garden", Kubernetes: "v1.36.3"}
			manifests, err := installed.Render(values)
			Expect(err).NotTo(HaveOccurred())
			for _, manifest := range manifests {
				permit(manifest.Content)
			}
		}
		rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderEmbeddedFS(
			gardenercharts.ChartGardenlet, gardenercharts.ChartPathGardenlet, "gardenlet", "garden", map[string]any{
				"config": map[string]any{"seedConfig": map[string]any{"metadata": map[string]any{"name": "seed"},
					"spec": map[string]any{"provider": map[string]any{"zones": []any{"a"}}}}},
			})
		Expect(err).NotTo(HaveOccurred())
		for _, manifest := range rendered.Manifests {
			permit(manifest.Content)
		}
	})

	lease := func(g Gomega) *coordinationv1.Lease {
		object := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent-leader-election"},
		}
		g.Expect(seed.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		return object
	}
	leadsIn := func(host agent.Host) func(Gomega) {
		return func(g Gomega) { g.Expect(lease(g).Labels).To(HaveKeyWithValue(agent.LabelHost, string(host))) }
	}

	It("should work one after the other: the second one stays passive and says so, until the first one ends", func() {
		pod := start(agent.HostPod, "livecpm-agent")
		Eventually(pod.works).Should(BeClosed())
		Eventually(leadsIn(agent.HostPod)).Should(Succeed())

		dropIn := start(agent.HostGardenlet, "gardenlet")
		Eventually(dropIn.clock.HasWaiters).Should(BeTrue())
		dropIn.clock.Step(time.Minute)
		Eventually(func(g Gomega) {
			list := &eventsv1.EventList{}
			g.Expect(seed.Client.List(ctx, list, client.InNamespace("garden"))).To(Succeed())
			g.Expect(list.Items).To(ContainElement(And(
				HaveField("Reason", agent.EventPassive),
				HaveField("Regarding.Name", "livecpm-agent-leader-election"),
				HaveField("Note",
					ContainSubstring("The agent in gardenlet stays passive, because one in livecpm-agent")),
			)))
		}).Should(Succeed())
		// Many times as long as it takes to try for the lease.
		Consistently(dropIn.works).WithTimeout(2 * time.Second).ShouldNot(BeClosed())

		By("ending the first one")
		pod.stop()
		Eventually(dropIn.works).Should(BeClosed())
		Eventually(leadsIn(agent.HostGardenlet)).Should(Succeed())
	})
})
