// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// lines is a log that a test reads while it is written.
type lines struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return strings.Count(l.text.String(), text)
}

var _ = Describe("Keeper", func() {
	const broken, whole = "shoot--demo--broken", "shoot--demo--whole"
	var (
		ctx    = context.Background()
		seed   client.WithWatch
		refuse func(namespace string) error
		clock  *testclock.FakeClock
		log    *lines
		lock   sync.Mutex
	)
	run := func(namespace, address string) {
		GinkgoHelper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: exposure.Name + "-0",
				Labels: map[string]string{"app": exposure.Name}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address},
		}
		Expect(client.IgnoreNotFound(seed.Delete(ctx, pod.DeepCopy()))).To(Succeed())
		Expect(seed.Create(ctx, pod)).To(Succeed())
	}
	published := func(namespace string) func() string {
		return func() string {
			slice := &discoveryv1.EndpointSlice{}
			if err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-peer-livecpm-relay"},
				slice); err != nil || len(slice.Endpoints) == 0 {
				return ""
			}
			return slice.Endpoints[0].Addresses[0]
		}
	}
	refusing := func(f func(namespace string) error) {
		lock.Lock()
		defer lock.Unlock()
		refuse = f
	}
	// look lets the keeper look once more.
	look := func() {
		GinkgoHelper()
		Eventually(clock.HasWaiters).Should(BeTrue())
		clock.Step(tunnel.KeeperPeriod)
	}

	BeforeEach(func() {
		log, clock = &lines{}, testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		refusing(func(string) error { return nil })
		seed = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, object client.Object,
				opts ...client.GetOption,
			) error {
				lock.Lock()
				defer lock.Unlock()
				if _, slices := object.(*discoveryv1.EndpointSlice); slices {
					if err := refuse(key.Namespace); err != nil {
						return err
					}
				}
				return under.Get(ctx, key, object, opts...)
			},
		}).Build()
		for _, namespace := range []string{broken, whole} {
			Expect(exposure.New(logr.Discard(), seed, exposure.Values{Namespace: namespace, Role: steps.Source,
				Image: "relay", TLSSecretName: "tls", Domain: "a.example", PeerDomain: "b.example",
			}).Deploy(ctx)).To(Succeed())
			run(namespace, "10.1.0.1")
		}
	})
	start := func() {
		GinkgoHelper()
		keeper, err := tunnel.NewKeeper(tunnel.KeeperOptions{Log: zap.New(zap.WriteTo(log)), SeedClient: seed,
			Clock: clock, Period: tunnel.KeeperPeriod})
		Expect(err).NotTo(HaveOccurred())
		Expect(keeper.NeedLeaderElection()).To(BeTrue())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- keeper.Start(running) }()
		DeferCleanup(func() {
			stop()
			Eventually(ended).Should(Receive(BeNil()))
		})
	}

	It("should publish relay pods that move, although there is no garden", func() {
		start()
		for _, namespace := range []string{broken, whole} {
			Eventually(published(namespace)).Should(Equal("10.1.0.1"))
			run(namespace, "10.1.0.2")
		}
		look()
		for _, namespace := range []string{broken, whole} {
			Eventually(published(namespace)).Should(Equal("10.1.0.2"))
		}
	})

	It("should not let one shoot's relay wait for another's, and say once what fails and when it works again", func() {
		refusing(func(namespace string) error {
			if namespace == broken {
				return errors.New("no such luck")
			}
			return nil
		})
		start()
		Eventually(published(whole)).Should(Equal("10.1.0.1"))
		run(whole, "10.1.0.2")
		look()
		Eventually(published(whole)).Should(Equal("10.1.0.2"))
		run(whole, "10.1.0.3")
		look()
		Eventually(published(whole)).Should(Equal("10.1.0.3"))
		Expect(log.count("no such luck")).To(Equal(1))
		refusing(func(string) error { return nil })
		Expect(published(broken)()).To(BeEmpty())
		look()
		Eventually(published(broken)).Should(Equal("10.1.0.1"))
		Eventually(func() int { return log.count("kept up to date again") }).Should(Equal(1))
	})

	It("should name what is missing", func() {
		_, err := tunnel.NewKeeper(tunnel.KeeperOptions{Period: time.Second})
		Expect(err).To(MatchError("failed to set up the keeper of relays: these options are missing: " +
			"Log, SeedClient, Clock"))
	})
})
