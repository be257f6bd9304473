// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

var _ = Describe("#ManagerOptions", func() {
	config := func() *configv1alpha1.AgentConfiguration {
		c := &configv1alpha1.AgentConfiguration{}
		configv1alpha1.SetDefaults(c)
		return c
	}

	It("should make agents in all hosts take one lease", func() {
		pod, gardenlet := agent.ManagerOptions(logr.Discard(), config(), agent.HostPod),
			agent.ManagerOptions(logr.Discard(), config(), agent.HostGardenlet)
		for _, options := range []struct{ name, namespace, lock string }{
			{pod.LeaderElectionID, pod.LeaderElectionNamespace, pod.LeaderElectionResourceLock},
			{gardenlet.LeaderElectionID, gardenlet.LeaderElectionNamespace, gardenlet.LeaderElectionResourceLock},
		} {
			Expect(options.name).To(Equal("livecpm-agent-leader-election"))
			Expect(options.namespace).To(Equal("garden"))
			Expect(options.lock).To(Equal("leases"))
		}
		Expect(pod.LeaderElection && gardenlet.LeaderElection).To(BeTrue())
		Expect(pod.LeaseDuration).To(Equal(gardenlet.LeaseDuration))
		Expect(pod.LeaderElectionLabels).To(Equal(map[string]string{agent.LabelHost: "livecpm-agent"}))
		Expect(gardenlet.LeaderElectionLabels).To(Equal(map[string]string{agent.LabelHost: "gardenlet"}))
	})

	It("should serve probes and metrics only in a process of its own", func() {
		pod, gardenlet := agent.ManagerOptions(logr.Discard(), config(), agent.HostPod),
			agent.ManagerOptions(logr.Discard(), config(), agent.HostGardenlet)
		Expect(pod.HealthProbeBindAddress).To(Equal(":8081"))
		Expect(pod.Metrics.BindAddress).To(Equal(":8080"))
		Expect(gardenlet.HealthProbeBindAddress).To(Equal("0"))
		Expect(gardenlet.Metrics.BindAddress).To(Equal("0"))
	})

	It("should not use the queue that may never shut down", func() {
		for _, host := range []agent.Host{agent.HostPod, agent.HostGardenlet} {
			Expect(agent.ManagerOptions(logr.Discard(), config(), host).Controller.UsePriorityQueue).
				To(HaveValue(BeFalse()))
		}
	})
})

// output is a buffer that the log writes and the test reads.
type output struct {
	lock sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.Buffer.String()
}

var _ = Describe("Standby", func() {
	var (
		key      = client.ObjectKey{Namespace: "garden", Name: "livecpm-agent-leader-election"}
		clock    *testclock.FakeClock
		seed     client.WithWatch
		reads    atomic.Int32
		failing  atomic.Bool
		recorder *events.FakeRecorder
		elected  chan struct{}
		log      *output
		ended    chan error
	)

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		recorder, elected, log, ended = events.NewFakeRecorder(10), make(chan struct{}), &output{}, make(chan error, 1)
		reads.Store(0)
		failing.Store(false)
		seed = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build(),
			interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					opts ...client.GetOption) error {
					defer reads.Add(1)
					if failing.Load() {
						return errors.New("no route")
					}
					return c.Get(ctx, key, object, opts...)
				},
			})
	})

	start := func(host agent.Host) {
		GinkgoHelper()
		standby := &agent.Standby{
			Log: zap.New(zap.WriteTo(log)), Reader: seed, Recorder: recorder, Lease: key, Host: host, Elected: elected,
			Clock: clock,
		}
		Expect(standby.NeedLeaderElection()).To(BeFalse())
		ctx, stop := context.WithCancel(context.Background())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			ended <- standby.Start(ctx)
		}()
		Eventually(clock.HasWaiters).Should(BeTrue())
		DeferCleanup(func() {
			stop()
			Eventually(stopped).Should(BeClosed())
		})
	}
	// look lets the standby look once more, and waits until it has.
	look := func() {
		GinkgoHelper()
		before := reads.Load()
		clock.Step(15 * time.Second)
		Eventually(reads.Load).Should(Equal(before + 1))
	}
	held := func(holder string, host agent.Host) {
		GinkgoHelper()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{agent.LabelHost: string(host)}}}
		lease.Spec.HolderIdentity = ptr.To(holder)
		Expect(client.IgnoreNotFound(seed.Delete(context.Background(), lease.DeepCopy()))).To(Succeed())
		Expect(seed.Create(context.Background(), lease)).To(Succeed())
	}

	DescribeTable("should say that it is passive where the other kind of host leads",
		func(own, leading agent.Host) {
			held("the-first", leading)
			start(own)
			look()
			Eventually(recorder.Events).Should(Receive(And(
				HavePrefix("Warning AgentPassive"),
				ContainSubstring("The agent in %s stays passive, because one in %s (the-first) leads", own, leading),
			)))
			Expect(log.String()).To(ContainSubstring("Remove one of the two installations"))

			// Once is enough.
			look()
			look()
			Expect(recorder.Events).To(BeEmpty())
		},
		Entry("a pod beside a drop-in gardenlet", agent.HostPod, agent.HostGardenlet),
		Entry("a drop-in gardenlet beside a pod", agent.HostGardenlet, agent.HostPod),
	)

	It("should say it again when another one leads", func() {
		held("the-first", agent.HostGardenlet)
		start(agent.HostPod)
		look()
		Eventually(recorder.Events).Should(Receive(ContainSubstring("the-first")))
		held("the-second", agent.HostGardenlet)
		look()
		Eventually(recorder.Events).Should(Receive(ContainSubstring("the-second")))
	})

	It("should not complain about its own replica", func() {
		held("the-first", agent.HostPod)
		start(agent.HostPod)
		look()
		Eventually(log.String).Should(ContainSubstring("Stays passive while another replica leads"))
		Expect(recorder.Events).To(BeEmpty())
	})

	It("should continue looking when the seed does not answer", func() {
		held("the-first", agent.HostGardenlet)
		failing.Store(true)
		start(agent.HostPod)
		look()
		Eventually(log.String).Should(ContainSubstring("no route"))
		failing.Store(false)
		look()
		Eventually(recorder.Events).Should(Receive(ContainSubstring("the-first")))
	})

	It("should end when it leads itself", func() {
		start(agent.HostPod)
		close(elected)
		Eventually(ended).Should(Receive(BeNil()))
	})
})
