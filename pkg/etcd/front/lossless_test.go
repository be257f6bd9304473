// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

// hold holds requests at the fronts. A hold fails if a request under way takes too long, which on a busy machine may
// happen: then nothing is held, and it is tried again.
func hold(fronts ...*runningFront) (release func()) {
	GinkgoHelper()
	s := steering(fronts...)
	Eventually(func() (err error) {
		release, err = s.Hold(context.Background(), 2*time.Second)
		return err
	}).Should(Succeed())
	return release
}

var _ = Describe("Without loss", func() {
	ctx := context.Background()

	It("should lose no write and no event while members stop and start one after the other", func() {
		e := newEtcd(3)
		one, two := startReady(e.members...), startReady(e.members...)
		seen := make(chan int64, 1<<20)
		watching, stop := context.WithCancel(ctx)
		DeferCleanup(stop)
		events := etcdClient(one, two).Watch(watching, "/", clientv3.WithPrefix(), clientv3.WithRev(1))
		go func() {
			defer close(seen)
			for response := range events {
				for _, event := range response.Events {
					seen <- event.Kv.ModRevision
				}
			}
		}()
		w := write(etcdClient(one, two), etcdClient(one, two), etcdClient(one, two))
		w.more(10)
		s := steering(one, two)
		for range 2 {
			for ordinal, m := range e.members {
				Expect(s.Drain(ctx, ordinal, time.Minute)).To(Succeed())
				Expect(m.atWork()).To(BeZero())
				Eventually(m.watched).Should(BeZero())
				m.stop()
				w.more(20)
				m.start()
				one.uses(3)
				two.uses(3)
				Expect(s.Restore(ctx, ordinal)).To(Succeed())
				w.more(20)
			}
		}
		writes := w.end()
		Expect(e.store.revision()).To(Equal(writes), "each write is carried out once")
		for revision := range writes {
			var got int64
			Eventually(seen).Should(Receive(&got))
			Expect(got).To(Equal(revision + 1))
		}
	})

	It("should fail no request through many holds and drains", func() {
		e := newEtcd(3)
		one, two := startReady(e.members...), startReady(e.members...)
		var clients []*clientv3.Client
		for range 6 {
			clients = append(clients, etcdClient(one, two))
		}
		w := write(clients...)
		s := steering(one, two)
		for n := range 20 {
			w.more(5)
			release := hold(one, two)
			for _, m := range e.members {
				Expect(m.atWork()).To(BeZero())
			}
			release()
			w.more(5)
			Expect(s.Drain(ctx, n%3, time.Minute)).To(Succeed())
			Expect(e.members[n%3].atWork()).To(BeZero())
			w.more(5)
			Expect(s.Restore(ctx, n%3)).To(Succeed())
		}
		writes := w.end()
		Expect(e.store.revision()).To(Equal(writes))
	})

	It("should let no client notice that one of two fronts ends", func() {
		e := newEtcd(3)
		one, two := startReady(e.members...), startReady(e.members...)
		watching, stop := context.WithCancel(ctx)
		DeferCleanup(stop)
		events := etcdClient(one, two).Watch(watching, "/", clientv3.WithPrefix(), clientv3.WithRev(1))
		w := write(etcdClient(one, two), etcdClient(one, two), etcdClient(one, two))
		w.more(20)
		one.stop()
		Eventually(one.ended).Should(Receive(BeNil()))
		w.more(20)
		writes := w.end()
		Expect(e.store.revision()).To(Equal(writes))
		for next := int64(1); next <= writes; {
			var response clientv3.WatchResponse
			Eventually(events).Should(Receive(&response))
			Expect(response.Err()).NotTo(HaveOccurred())
			for _, event := range response.Events {
				Expect(event.Kv.ModRevision).To(Equal(next))
				next++
			}
		}
	})

	It("should serve on while endpoints forget it, then end watches and wait for requests", func() {
		e := newEtcd(1)
		cfg := newConfig(e.members...)
		cfg.Limits.ShutdownDelay.Duration = time.Hour
		cfg.Limits.ShutdownTimeout.Duration = time.Hour
		clk := newSteppedClock()
		r := startFront(cfg, clk)
		r.uses(1)
		Expect(r.readiness()).To(Equal(200))
		kv, watch := r.kv(), watchAt(r)
		release := e.members[0].blocked()
		slow := in(putAt(kv))
		Eventually(e.members[0].atWork).Should(Equal(1))
		r.stop()
		Eventually(r.readiness).Should(Equal(503))
		Expect(readAtUnblocked(kv, e.members[0])).To(Succeed())
		Expect(r.ended).NotTo(Receive())

		clk.waitFor(time.Hour)
		clk.Step(time.Hour)
		_, err := watch.Recv()
		Expect(status.Code(err)).To(Equal(codes.Unavailable))
		Expect(r.ended).NotTo(Receive())
		release()
		Eventually(slow).Should(Receive(BeNil()))
		Eventually(r.ended).Should(Receive(BeNil()))
	})

	It("should not wait for requests for ever", func() {
		e := newEtcd(1)
		cfg := newConfig(e.members...)
		cfg.Limits.ShutdownDelay.Duration, cfg.Limits.ShutdownTimeout.Duration = time.Millisecond, time.Millisecond
		r := startFront(cfg, clock.RealClock{})
		r.uses(1)
		e.members[0].blocked()
		slow := in(putAt(r.kv()))
		Eventually(e.members[0].atWork).Should(Equal(1))
		r.stop()
		Eventually(r.ended).Should(Receive(BeNil()))
		Eventually(slow).Should(Receive(HaveOccurred()))
	})

	It("should end with an error when it cannot have its ports", func() {
		r := startReady(newEtcd(1).members...)
		cfg := newConfig(newEtcd(1).members...)
		cfg.Port = r.config.Port
		Eventually(startFront(cfg, clock.RealClock{}).ended).Should(Receive(MatchError(ContainSubstring("in use"))))
		cfg = newConfig(newEtcd(1).members...)
		cfg.Health.Port = r.config.Health.Port
		Eventually(startFront(cfg, clock.RealClock{}).ended).Should(Receive(MatchError(ContainSubstring("in use"))))
	})
})

// readAtUnblocked reads while writes are blocked.
func readAtUnblocked(kv etcdserverpb.KVClient, m *member) error {
	var block chan struct{}
	m.set(func(m *member) { block, m.block = m.block, nil })
	defer m.set(func(m *member) { m.block = block })
	return readAt(kv)()
}
