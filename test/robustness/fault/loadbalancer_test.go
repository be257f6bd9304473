// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

var _ = Describe("LoadBalancerOf", func() {
	var (
		faults    *loadbalancer.Faults
		landscape *config.Config
		kept      atomic.Int32 // requests after which the connection stays
		first     fault.LoadBalancer
		second    fault.LoadBalancer

		frozen  = loadbalancer.Fault{SNI: "*--shoot--demo--live.*", Cut: loadbalancer.CutFreeze}
		delayed = loadbalancer.Fault{SNI: "*--shoot--demo--live.*",
			Latency: metav1.Duration{Duration: 90 * time.Millisecond}}
	)

	BeforeEach(func() {
		faults = loadbalancer.NewFaults(loadbalancer.NewWho(), "seed-a", "seed-b")
		landscape = &config.Config{HubIP: "127.0.0.1"}
		// The port is a fixed one. It is free on some address of the loopback network.
		var listener net.Listener
		Eventually(func(g Gomega) {
			landscape.HubIP = fmt.Sprintf("127.%d.%d.%d", GinkgoRandomSeed()%200+2, GinkgoParallelProcess(),
				time.Now().UnixNano()%250+2)
			var err error
			listener, err = net.Listen("tcp", landscape.LoadBalancerAdmin())
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
		kept.Store(0)
		admin := loadbalancer.AdminHandler(logr.Discard(), faults)
		server := &http.Server{ReadHeaderTimeout: time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !r.Close {
					kept.Add(1)
				}
				admin.ServeHTTP(w, r)
			})}
		go func() { _ = server.Serve(listener) }()
		DeferCleanup(server.Close)
		first, second = fault.LoadBalancerOf(landscape, "seed-a"), fault.LoadBalancerOf(landscape, "seed-b")
	})

	inForce := func() []string {
		list := []string{}
		for _, f := range faults.List() {
			list = append(list, fmt.Sprintf("%v %s %s %s", f.To, f.SNI, f.Cut, f.Latency.Duration))
		}
		return list
	}

	It("should put faults in force and lift them, in the words of the stand-in", func(ctx SpecContext) {
		Expect(first.Add(ctx, frozen)).To(Succeed())
		Expect(first.Add(ctx, delayed)).To(Succeed())
		Expect(second.Add(ctx, frozen)).To(Succeed())
		Expect(inForce()).To(Equal([]string{
			"[seed-a] *--shoot--demo--live.* freeze 0s",
			"[seed-a] *--shoot--demo--live.*  90ms",
			"[seed-b] *--shoot--demo--live.* freeze 0s",
		}))
		Expect(first.Lift(ctx, loadbalancer.Fault{Cut: loadbalancer.CutFreeze})).To(Succeed())
		Expect(inForce()).To(Equal([]string{
			"[seed-a] *--shoot--demo--live.*  90ms",
			"[seed-b] *--shoot--demo--live.* freeze 0s",
		}))
		Expect(first.Lift(ctx, loadbalancer.Fault{Latency: metav1.Duration{Duration: time.Second}})).To(Succeed())
		Expect(inForce()).To(HaveLen(2))
		Expect(first.Lift(ctx, loadbalancer.Fault{Latency: delayed.Latency})).To(Succeed())
		Expect(inForce()).To(HaveLen(1))
	})

	It("should keep no connection, which a load balancer that has started again would not know", func(ctx SpecContext) {
		Expect(first.Add(ctx, frozen)).To(Succeed())
		Expect(first.InForce(ctx, frozen)).To(BeTrue())
		Expect(first.Lift(ctx, loadbalancer.Fault{})).To(Succeed())
		Expect(kept.Load()).To(BeZero())
	})

	It("should know a cut that comes back from one that stays", func(ctx SpecContext) {
		again := frozen
		again.Every, again.For = metav1.Duration{Duration: time.Hour}, metav1.Duration{Duration: time.Minute}
		Expect(first.Add(ctx, again)).To(Succeed())
		Expect(first.InForce(ctx, again)).To(BeTrue())
		Expect(first.InForce(ctx, frozen)).To(BeFalse())
		Expect(first.Lift(ctx, again)).To(Succeed())
		Expect(first.InForce(ctx, again)).To(BeFalse())
	})

	It("should lift all faults of the seed for those who name none", func(ctx SpecContext) {
		Expect(first.Add(ctx, frozen)).To(Succeed())
		Expect(first.Add(ctx, delayed)).To(Succeed())
		Expect(second.Add(ctx, delayed)).To(Succeed())
		Expect(first.Lift(ctx, loadbalancer.Fault{})).To(Succeed())
		Expect(inForce()).To(Equal([]string{"[seed-b] *--shoot--demo--live.*  90ms"}))
	})

	It("should tell that the load balancer refuses a fault", func(ctx SpecContext) {
		Expect(first.Add(ctx, loadbalancer.Fault{SNI: "*", Cut: "sideways"})).To(MatchError(SatisfyAll(
			ContainSubstring("failed to change the faults of the load balancer of seed-a"),
			ContainSubstring("sideways"))))
		Expect(fault.LoadBalancerOf(landscape, "seed-c").Add(ctx, frozen)).
			To(MatchError(ContainSubstring(`there is no "seed-c"`)))
		Expect(inForce()).To(BeEmpty())
	})

	It("should tell that nobody answers", func(ctx SpecContext) {
		landscape.HubIP = "127.0.0.255"
		Expect(fault.LoadBalancerOf(landscape, "seed-a").Lift(ctx, loadbalancer.Fault{})).
			To(MatchError(ContainSubstring("failed to change the faults of the load balancer of seed-a")))
	})
})
