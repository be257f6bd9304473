// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"context"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/etcd/front"
)

// in runs something that ends with an error or nil, and returns where that arrives.
func in(act func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- act() }()
	return ended
}

func putAt(kv etcdserverpb.KVClient) func() error {
	return func() error {
		_, err := kv.Put(context.Background(), &etcdserverpb.PutRequest{})
		return err
	}
}

func readAt(kv etcdserverpb.KVClient) func() error {
	return func() error {
		_, err := kv.Range(context.Background(), &etcdserverpb.RangeRequest{})
		return err
	}
}

// watchAt opens a watch and returns it when it is there.
func watchAt(r *runningFront) etcdserverpb.Watch_WatchClient {
	GinkgoHelper()
	watch, err := etcdserverpb.NewWatchClient(r.connect()).Watch(context.Background())
	Expect(err).NotTo(HaveOccurred())
	Expect(watch.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{}}})).To(Succeed())
	_, err = watch.Recv()
	Expect(err).NotTo(HaveOccurred())
	return watch
}

// endOf reads the events of a watch until it ends.
func endOf(watch etcdserverpb.Watch_WatchClient) error {
	for {
		if _, err := watch.Recv(); err != nil {
			return err
		}
	}
}

const moment = 50 * time.Millisecond

var _ = Describe("Holding requests", func() {
	ctx := context.Background()

	It("should keep writes and reads back until they are released, and no watch", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		watch := watchAt(r)
		// The real clock ends a hold after two seconds at the latest; the fake one of a front does not.
		frozen := testclock.NewFakeClock(time.Now())
		other := startFront(newConfig(e.members...), frozen)
		other.uses(2)
		Expect(front.Hold(ctx, other.connect(), "one", 2*time.Second)).To(Succeed())
		kv := other.kv()
		put, read := in(putAt(kv)), in(readAt(kv))
		other.held(2)
		Expect(e.store.revision()).To(BeZero())

		_, err := r.kv().Put(ctx, &etcdserverpb.PutRequest{Key: []byte("passes elsewhere")})
		Expect(err).NotTo(HaveOccurred())
		_, err = watch.Recv()
		Expect(err).NotTo(HaveOccurred())
		held := watchAt(other)
		Expect(put).NotTo(Receive())
		Expect(read).NotTo(Receive())

		Expect(front.Release(ctx, other.connect(), "another")).To(Succeed())
		other.held(2)
		Expect(front.Release(ctx, other.connect(), "one")).To(Succeed())
		Eventually(put).Should(Receive(BeNil()))
		Eventually(read).Should(Receive(BeNil()))
		_, err = held.Recv()
		Expect(err).NotTo(HaveOccurred())
		Expect(front.Release(ctx, other.connect(), "one")).To(Succeed())
	})

	It("should let requests go on by itself", func() {
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(newEtcd(1).members...), clk)
		r.uses(1)
		conn := r.connect()
		Expect(front.Hold(ctx, conn, "one", 2*time.Second)).To(Succeed())
		put := in(putAt(r.kv()))
		r.held(1)
		clk.Step(2*time.Second - 1)
		Consistently(put, moment).ShouldNot(Receive())
		clk.Step(1)
		Eventually(put).Should(Receive(BeNil()))
		r.held(0)
		Expect(front.Hold(ctx, conn, "two", time.Second)).To(Succeed())
	})

	It("should forget a request whose client has gone", func() {
		e := newEtcd(1)
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(e.members...), clk)
		r.uses(1)
		conn := r.connect()
		Expect(front.Hold(ctx, conn, "one", 2*time.Second)).To(Succeed())
		until, cancel := context.WithCancel(ctx)
		put := in(func() error {
			_, err := r.kv().Put(until, &etcdserverpb.PutRequest{})
			return err
		})
		r.held(1)
		cancel()
		Eventually(put).Should(Receive(WithTransform(status.Code, Equal(codes.Canceled))))
		r.held(0)
		Expect(front.Release(ctx, conn, "one")).To(Succeed())
		Expect(e.members[0].received()).To(BeZero())
	})

	It("should hold nothing if a request under way does not end", func() {
		e := newEtcd(1)
		release := e.members[0].blocked()
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(e.members...), clk)
		r.uses(1)
		slow := in(putAt(r.kv()))
		Eventually(e.members[0].atWork).Should(Equal(1))
		hold := in(func() error { return front.Hold(ctx, r.connect(), "one", 2*time.Second) })
		r.says("livecpm_front_holding 1")
		kept := in(readAt(r.kv()))
		r.held(1)
		Expect(hold).NotTo(Receive())
		clk.Step(time.Second) // half of the time is left to who has asked
		var err error
		Eventually(hold).Should(Receive(&err))
		Expect(status.Code(err)).To(Equal(codes.DeadlineExceeded))
		Expect(err).To(MatchError(ContainSubstring("1 requests under way did not end in time")))
		release()
		Eventually(kept).Should(Receive(BeNil()))
		Eventually(slow).Should(Receive(BeNil()))
	})

	It("should wait for requests under way", func() {
		e := newEtcd(1)
		release := e.members[0].blocked()
		r := startFront(newConfig(e.members...), testclock.NewFakeClock(time.Now()))
		r.uses(1)
		slow := in(putAt(r.kv()))
		Eventually(e.members[0].atWork).Should(Equal(1))
		hold := in(func() error { return front.Hold(ctx, r.connect(), "one", time.Second) })
		r.says("livecpm_front_holding 1")
		kept := in(putAt(r.kv()))
		r.held(1)
		Expect(hold).NotTo(Receive())
		release()
		Eventually(hold).Should(Receive(BeNil()))
		Eventually(slow).Should(Receive(BeNil()))
		Expect(kept).NotTo(Receive())
	})

	It("should refuse a second hold, and what is out of bounds", func() {
		r := startFront(newConfig(newEtcd(1).members...), testclock.NewFakeClock(time.Now()))
		r.uses(1)
		conn := r.connect()
		for _, atMost := range []time.Duration{0, -1, 2*time.Second + 1} {
			Expect(status.Code(front.Hold(ctx, conn, "one", atMost))).To(Equal(codes.InvalidArgument))
		}
		Expect(status.Code(front.Hold(ctx, conn, "", time.Second))).To(Equal(codes.InvalidArgument))
		Expect(putAt(r.kv())()).To(Succeed())
		Expect(front.Hold(ctx, conn, "one", time.Second)).To(Succeed())
		Expect(status.Code(front.Hold(ctx, conn, "two", time.Second))).To(Equal(codes.FailedPrecondition))
		Expect(status.Code(front.Hold(ctx, conn, "one", time.Second))).To(Equal(codes.FailedPrecondition))
	})
})

var _ = Describe("Draining a member", func() {
	ctx := context.Background()

	It("should wait for requests under way, end watches, and lead nothing there until it is restored", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		watches := []etcdserverpb.Watch_WatchClient{watchAt(r), watchAt(r)}
		Expect(e.members[0].watched()).To(Equal(1))
		Expect(e.members[1].watched()).To(Equal(1))
		release := e.members[0].blocked()
		kv := r.kv()
		puts := []<-chan error{in(putAt(kv)), in(putAt(kv))} // one at each of the members
		Eventually(e.members[0].atWork).Should(Equal(1))
		s := steering(r)
		drain := in(func() error { return s.Drain(ctx, 0, time.Minute) })
		Eventually(e.members[0].watched).Should(BeZero())
		before := e.members[0].received()
		for range 4 {
			Expect(putAt(kv)()).To(Succeed())
		}
		Consistently(drain, moment).ShouldNot(Receive())
		release()
		Eventually(drain).Should(Receive(BeNil()))
		for _, put := range puts {
			Eventually(put).Should(Receive(BeNil()))
		}
		Expect(e.members[0].received()).To(Equal(before))
		Expect(e.members[1].watched()).To(Equal(1))
		Expect(r.readiness()).To(Equal(200))

		By("letting clients open watches elsewhere")
		ended := make(chan error, len(watches))
		for _, watch := range watches {
			go func() { ended <- endOf(watch) }()
		}
		Eventually(ended).Should(Receive(WithTransform(status.Code, Equal(codes.Unavailable))))
		Expect(ended).NotTo(Receive())
		watchAt(r)
		Expect(e.members[1].watched()).To(Equal(2))
		Expect(e.members[0].watched()).To(BeZero())

		Expect(s.Drain(ctx, 0, time.Minute)).To(Succeed()) // again
		Expect(s.Restore(ctx, 0)).To(Succeed())
		Expect(s.Restore(ctx, 0)).To(Succeed())
		for range 4 {
			Expect(putAt(kv)()).To(Succeed())
		}
		Expect(e.members[0].received()).To(Equal(before + 2))
	})

	It("should refuse to leave no member", func() {
		e := newEtcd(3)
		e.members[2].set(func(m *member) { m.learner = true })
		r := startFront(newConfig(e.members...), clock.RealClock{})
		r.uses(2)
		watch := watchAt(r)
		s := steering(r)
		Expect(s.Drain(ctx, 0, time.Minute)).To(Succeed())
		err := s.Drain(ctx, 1, time.Minute)
		Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
		Expect(err).To(MatchError(ContainSubstring("failed to drain member 1 at the front at " + r.address)))
		Expect(putAt(r.kv())()).To(Succeed())
		Expect(e.members[1].received()).To(Equal(1))
		Expect(s.Restore(ctx, 0)).To(Succeed())
		Expect(s.Drain(ctx, 1, time.Minute)).To(Succeed())
		Expect(status.Code(endOf(watch))).To(Equal(codes.Unavailable)) // it was at either of the two
	})

	It("should give the member back by itself, unless it is asked for again", func() {
		e := newEtcd(2)
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(e.members...), clk)
		r.uses(2)
		s := steering(r)
		Expect(s.Drain(ctx, 0, time.Minute)).To(Succeed())
		clk.Step(time.Minute - 1)
		Expect(s.Drain(ctx, 0, time.Minute)).To(Succeed())
		clk.Step(time.Minute - 1)
		for range 4 {
			Expect(putAt(r.kv())()).To(Succeed())
		}
		Expect(e.members[0].received()).To(BeZero())
		clk.Step(1)
		kv := r.kv()
		Eventually(func() int { _ = putAt(kv)(); return e.members[0].received() }).ShouldNot(BeZero())
	})

	It("should remain when nobody waits for it any more", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		release := e.members[0].blocked()
		kv := r.kv()
		puts := []<-chan error{in(putAt(kv)), in(putAt(kv))}
		Eventually(e.members[0].atWork).Should(Equal(1))
		until, cancel := context.WithCancel(ctx)
		s := steering(r)
		drain := in(func() error { return s.Drain(until, 0, time.Minute) })
		r.says(`livecpm_front_member_drained{member="0"} 1`)
		cancel()
		Eventually(drain).Should(Receive(WithTransform(status.Code, Equal(codes.Canceled))))
		release()
		for _, put := range puts {
			Eventually(put).Should(Receive(BeNil()))
		}
		before := e.members[0].received()
		for range 4 {
			Expect(putAt(kv)()).To(Succeed())
		}
		Expect(e.members[0].received()).To(Equal(before))
	})

	It("should tell who waits that the member was restored meanwhile", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		e.members[0].blocked()
		kv := r.kv()
		_, _ = in(putAt(kv)), in(putAt(kv))
		Eventually(e.members[0].atWork).Should(Equal(1))
		s := steering(r)
		drain := in(func() error { return s.Drain(ctx, 0, time.Minute) })
		r.says(`livecpm_front_member_drained{member="0"} 1`)
		Expect(s.Restore(ctx, 0)).To(Succeed())
		Eventually(drain).Should(Receive(WithTransform(status.Code, Equal(codes.Aborted))))
	})

	It("should refuse what is out of bounds and members that are not there", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		s := steering(r)
		for _, atMost := range []time.Duration{0, -1, 15*time.Minute + 1} {
			Expect(status.Code(s.Drain(ctx, 0, atMost))).To(Equal(codes.InvalidArgument))
		}
		Expect(status.Code(s.Drain(ctx, 7, time.Minute))).To(Equal(codes.InvalidArgument))
		Expect(status.Code(s.Restore(ctx, 7))).To(Equal(codes.InvalidArgument))
		Expect(r.get(r.metrics, "/metrics")).To(ContainSubstring(`livecpm_front_member_drained{member="0"} 0`))
	})
})

var _ = Describe("Steering", func() {
	ctx := context.Background()

	It("should hold at all fronts and release all", func() {
		e := newEtcd(2)
		clk := testclock.NewFakeClock(time.Now())
		one, two := startFront(newConfig(e.members...), clk), startFront(newConfig(e.members...), clk)
		one.uses(2)
		two.uses(2)
		release, err := steering(one, two).Hold(ctx, 2*time.Second)
		Expect(err).NotTo(HaveOccurred())
		puts := []<-chan error{in(putAt(one.kv())), in(putAt(two.kv()))}
		one.held(1)
		two.held(1)
		release()
		release()
		for _, put := range puts {
			Eventually(put).Should(Receive(BeNil()))
		}
	})

	It("should hold nothing if one front refuses, and name it", func() {
		e := newEtcd(2)
		clk := testclock.NewFakeClock(time.Now())
		one, two := startFront(newConfig(e.members...), clk), startFront(newConfig(e.members...), clk)
		one.uses(2)
		two.uses(2)
		Expect(front.Hold(ctx, two.connect(), "theirs", 2*time.Second)).To(Succeed())
		_, err := steering(one, two).Hold(ctx, 2*time.Second)
		Expect(err).To(MatchError(And(ContainSubstring("at the front at "+two.address),
			ContainSubstring("FailedPrecondition"), Not(ContainSubstring(one.address)))))
		Expect(putAt(one.kv())()).To(Succeed())
		kept := in(putAt(two.kv()))
		two.held(1) // the hold of the other remains
		Expect(front.Release(ctx, two.connect(), "theirs")).To(Succeed())
		Eventually(kept).Should(Receive(BeNil()))
	})

	It("should hold nothing if one front cannot be reached, and name it", func() {
		r := startFront(newConfig(newEtcd(2).members...), testclock.NewFakeClock(time.Now()))
		r.uses(2)
		nobody := &runningFront{address: local(freePort())}
		s := steering(r, nobody)
		_, err := s.Hold(ctx, 2*time.Second)
		Expect(err).To(MatchError(And(ContainSubstring("at the front at "+nobody.address),
			Not(ContainSubstring(r.address)))))
		Expect(putAt(r.kv())()).To(Succeed())
		Expect(s.Drain(ctx, 0, time.Minute)).To(MatchError(ContainSubstring(nobody.address)))
		Expect(s.Restore(ctx, 0)).To(MatchError(ContainSubstring(nobody.address)))
	})

	It("should hold nothing if one front does not answer", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		r := startFront(newConfig(newEtcd(2).members...), testclock.NewFakeClock(time.Now()))
		r.uses(2)
		mute := &runningFront{address: listener.Addr().String()}
		_, err = steering(r, mute).Hold(ctx, 2*time.Second)
		Expect(err).To(MatchError(ContainSubstring(mute.address)))
		Expect(putAt(r.kv())()).To(Succeed())
	})

	DescribeTable("should do nothing without what it needs", func(cfg front.SteeringConfig, message string) {
		s := front.NewSteering(cfg)
		_, err := s.Hold(ctx, time.Second)
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(s.Drain(ctx, 0, time.Second)).To(MatchError(ContainSubstring(message)))
		Expect(s.Restore(ctx, 0)).To(MatchError(ContainSubstring(message)))
		Expect(s.Close()).To(Succeed())
	},
		Entry("fronts", front.SteeringConfig{}, "has no pods"),
		Entry("TLS", front.SteeringConfig{Addresses: []string{"127.0.0.1:1"}}, "TLS is missing"),
	)
})
