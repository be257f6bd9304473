// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/etcd/front"
	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/program/pod"
)

var _ = Describe("Passing on requests", func() {
	ctx := context.Background()

	It("should pass on metadata both ways", func() {
		kv := startReady(newEtcd(1).members...).kv()
		var header, trailer metadata.MD
		answer, err := kv.Range(metadata.AppendToOutgoingContext(ctx, "x-sent", "a", "x-sent", "b", "x-agent", "c"),
			&etcdserverpb.RangeRequest{Key: []byte("key")}, grpc.Header(&header), grpc.Trailer(&trailer))
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Kvs).To(HaveLen(1))
		Expect(header.Get("x-header")).To(Equal([]string{"a,b"}))
		Expect(header.Get("x-bin")).To(Equal([]string{"\x00\x01"}))
		Expect(header.Get("content-type")).To(HaveLen(1))
		Expect(trailer.Get("x-trailer")).To(Equal([]string{"t"}))
		Expect(trailer.Get("x-agent")).To(Equal([]string{"c"}))
	})

	It("should pass on errors as they are, with their details and trailers", func() {
		kv := startReady(newEtcd(1).members...).kv()
		var trailer metadata.MD
		_, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("fail")}, grpc.Trailer(&trailer))
		failure := status.Convert(err)
		Expect(failure.Code()).To(Equal(codes.OutOfRange))
		Expect(failure.Message()).To(Equal("etcdserver: not so"))
		Expect(failure.Details()).To(HaveLen(1))
		Expect(failure.Details()[0].(*durationpb.Duration).AsDuration()).To(Equal(time.Duration(5)))
		Expect(trailer.Get("x-trailer")).To(Equal([]string{"t"}))
	})

	It("should pass on what is large", func() {
		kv := startReady(newEtcd(1).members...).kv()
		large := bytes.Repeat([]byte("x"), 20<<20)
		answer, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: large})
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Equal(answer.Kvs[0].Key, large)).To(BeTrue())
	})

	It("should pass on deadlines and cancellation", func() {
		e := newEtcd(1)
		kv := startReady(e.members...).kv()
		within, cancel := context.WithTimeout(ctx, 100*time.Hour)
		defer cancel()
		_, err := kv.Range(within, &etcdserverpb.RangeRequest{Key: []byte("deadline")})
		Expect(err).To(MatchError(ContainSubstring("100h")))

		ended := make(chan error)
		until, cancel := context.WithCancel(ctx)
		go func() {
			_, err := kv.Range(until, &etcdserverpb.RangeRequest{Key: []byte("hang")})
			ended <- err
		}()
		Eventually(e.members[0].atWork).Should(Equal(1))
		cancel()
		Eventually(ended).Should(Receive(WithTransform(status.Code, Equal(codes.Canceled))))
		Eventually(e.members[0].atWork).Should(BeZero())
	})

	It("should say so when a method is not there", func() {
		_, err := etcdserverpb.NewLeaseClient(startReady(newEtcd(1).members...).connect()).
			LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{})
		Expect(status.Code(err)).To(Equal(codes.Unimplemented))
	})

	It("should refuse a stream that it does not know as one", func() {
		stream, err := startReady(newEtcd(1).members...).connect().NewStream(ctx,
			&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/etcdserverpb.KV/Range")
		Expect(err).NotTo(HaveOccurred())
		Expect(stream.SendMsg(&etcdserverpb.RangeRequest{})).To(Succeed())
		Expect(stream.SendMsg(&etcdserverpb.RangeRequest{})).To(Succeed())
		Expect(status.Code(stream.RecvMsg(&etcdserverpb.RangeResponse{}))).To(Equal(codes.Unimplemented))
	})

	It("should pass on a watch while both sides speak", func() {
		e := newEtcd(1)
		r := startReady(e.members...)
		watch, err := etcdserverpb.NewWatchClient(r.connect()).Watch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(watch.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{}}})).To(Succeed())
		answer, err := watch.Recv()
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Created).To(BeTrue())
		for i := range 3 {
			_, err = r.kv().Put(ctx, &etcdserverpb.PutRequest{Key: []byte{byte(i)}})
			Expect(err).NotTo(HaveOccurred())
			answer, err = watch.Recv()
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Events).To(HaveLen(1))
			Expect(answer.Events[0].Kv.Key).To(Equal([]byte{byte(i)}))
		}
	})

	It("should lead requests to all members in turn", func() {
		e := newEtcd(3)
		kv := startReady(e.members...).kv()
		for range 9 {
			_, err := kv.Put(ctx, &etcdserverpb.PutRequest{})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, m := range e.members {
			Expect(m.received()).To(Equal(3))
		}
	})

	DescribeTable("should not use a member that",
		func(make, mend func(*member)) {
			e := newEtcd(3)
			e.members[1].set(make)
			cfg := newConfig(e.members...)
			r := startFront(cfg, clock.RealClock{})
			r.uses(2)
			kv := r.kv()
			put := func() {
				GinkgoHelper()
				_, err := kv.Put(ctx, &etcdserverpb.PutRequest{})
				Expect(err).NotTo(HaveOccurred())
			}
			for range 6 {
				put()
			}
			Expect(e.members[1].received()).To(BeZero())

			e.members[1].set(mend)
			Eventually(func() int { put(); return e.members[1].received() }).ShouldNot(BeZero())

			e.members[1].set(make)
			r.uses(2)
			before := e.members[1].received()
			for range 6 {
				put()
			}
			Expect(e.members[1].received()).To(Equal(before))
		},
		Entry("is a learner", func(m *member) { m.learner = true }, func(m *member) { m.learner = false }),
		Entry("has no leader", func(m *member) { m.leader = 0 }, func(m *member) { m.leader = 1 }),
	)

	It("should not use a member that is down, and use it again when it is back", func() {
		e := newEtcd(2)
		r := startReady(e.members...)
		e.members[0].stop()
		r.uses(1)
		kv := r.kv()
		for range 4 {
			_, err := kv.Put(ctx, &etcdserverpb.PutRequest{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(e.members[1].received()).To(Equal(4))
		e.members[0].start()
		r.uses(2)
	})

	It("should refuse requests in the words that let a client repeat them when no member is eligible", func() {
		e := newEtcd(1)
		e.members[0].set(func(m *member) { m.leader = 0 })
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(e.members...), clk)
		Eventually(r.readiness).Should(Equal(503))
		Expect(r.get(r.health, "/healthz")).To(BeEmpty())
		ended := make(chan error, 1)
		go func() {
			_, err := r.kv().Put(ctx, &etcdserverpb.PutRequest{})
			ended <- err
		}()
		var err error
		Eventually(func() chan error { clk.Step(r.config.Limits.MemberWait.Duration); return ended }).
			Should(Receive(&err))
		Expect(status.Code(err)).To(Equal(codes.Unavailable))
		Expect(status.Convert(err).Message()).To(Equal("there is no connection available"))
		Expect(e.members[0].received()).To(BeZero())
	})

	It("should let a request wait for a member", func() {
		e := newEtcd(1)
		e.members[0].set(func(m *member) { m.leader = 0 })
		cfg := newConfig(e.members...)
		cfg.Limits.MemberWait.Duration = time.Hour
		r := startFront(cfg, clock.RealClock{})
		Eventually(r.readiness).Should(Equal(503), "it listens")
		kv := r.kv()
		ended := make(chan error, 1)
		go func() {
			_, err := kv.Put(ctx, &etcdserverpb.PutRequest{})
			ended <- err
		}()
		Consistently(ended, 50*time.Millisecond).ShouldNot(Receive())
		e.members[0].set(func(m *member) { m.leader = 1 })
		Eventually(ended).Should(Receive(BeNil()))
		Expect(r.readiness()).To(Equal(200))
	})
})

var _ = Describe("Certificates", func() {
	call := func(r *runningFront, identity *tls.Config) error {
		GinkgoHelper()
		conn, err := grpc.NewClient("passthrough:///"+r.address,
			grpc.WithTransportCredentials(credentials.NewTLS(identity)))
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		_, err = etcdserverpb.NewKVClient(conn).Range(context.Background(), &etcdserverpb.RangeRequest{})
		return err
	}

	It("should refuse who has none of etcd's authority, and take a changed authority into use", func() {
		e := newEtcd(1)
		clk := testclock.NewFakeClock(time.Now())
		r := startFront(newConfig(e.members...), clk)
		r.uses(1)
		other, none, old := certificates.clientTLS(), certificates.clientTLS(), certificates.clientTLS()
		other.Certificates, none.Certificates = []tls.Certificate{certificates.other}, nil
		old.MaxVersion, old.MinVersion = tls.VersionTLS11, tls.VersionTLS10
		for _, identity := range []*tls.Config{other, none, old} {
			Expect(status.Code(call(r, identity))).To(Equal(codes.Unavailable))
		}
		Expect(e.members[0].received()).To(BeZero())
		Expect(call(r, certificates.clientTLS())).To(Succeed())

		both := append(append([]byte{}, certificates.authority...), certificates.otherAuthority...)
		Expect(os.WriteFile(r.config.TLS.CAFile, both, 0o600)).To(Succeed())
		Eventually(func() error { clk.Step(pod.ReloadInterval); return call(r, other) }).Should(Succeed())
		Expect(call(r, certificates.clientTLS())).To(Succeed())

		By("keeping what is in use while the files do not fit together")
		Expect(os.WriteFile(r.config.TLS.ServerKeyFile, certificates.client.PrivateKeyPEM, 0o600)).To(Succeed())
		Eventually(func() string { clk.Step(pod.ReloadInterval); return r.get(r.metrics, "/metrics") }).
			Should(ContainSubstring(`livecpm_front_certificate_reloads_total{result="failure"}`))
		Expect(call(r, other)).To(Succeed())
	})

	DescribeTable("should not start without them", func(spoil func(*config.TLS)) {
		cfg := newConfig(newEtcd(1).members...)
		spoil(&cfg.TLS)
		_, err := front.New(cfg, logr.Discard(), clock.RealClock{})
		Expect(err).To(HaveOccurred())
	},
		Entry("no file", func(t *config.TLS) { t.CAFile += "x" }),
		Entry("no authority", func(t *config.TLS) { t.CAFile = t.ServerKeyFile }),
		Entry("another key of the server", func(t *config.TLS) { t.ServerKeyFile = t.ClientKeyFile }),
		Entry("another key of the client", func(t *config.TLS) { t.ClientKeyFile = t.ServerKeyFile }),
	)
})

var _ = Describe("Further ports", func() {
	It("should pass connections on to a member that is eligible, and to none that is drained", func() {
		e := newEtcd(2)
		e.members[1].stop() // it moves to another address, so that both can have the same further port
		_, port, err := net.SplitHostPort(e.members[0].address)
		Expect(err).NotTo(HaveOccurred())
		e.members[1].address = net.JoinHostPort("127.0.0.2", port)
		e.members[1].start()
		shared := freePort()
		for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
			listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, shared))
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(listener.Close)
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						said, _ := io.ReadAll(conn)
						_, _ = conn.Write(append(said, ip...))
					}()
				}
			}()
		}
		cfg := newConfig(e.members...)
		cfg.Forwards = []config.Forward{{Port: freePort(), MemberPort: shared}}
		r := startFront(cfg, clock.RealClock{})
		r.uses(2)
		ask := func() string {
			GinkgoHelper()
			conn, err := net.Dial("tcp", local(cfg.Forwards[0].Port))
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			_, err = conn.Write([]byte("hello "))
			Expect(err).NotTo(HaveOccurred())
			Expect(conn.(*net.TCPConn).CloseWrite()).To(Succeed())
			answer, err := io.ReadAll(conn)
			Expect(err).NotTo(HaveOccurred())
			return string(answer)
		}
		Eventually(ask).Should(Equal("hello 127.0.0.1"))
		Eventually(ask).Should(Equal("hello 127.0.0.2"))
		Expect(steering(r).Drain(context.Background(), 0, time.Minute)).To(Succeed())
		for range 4 {
			Expect(ask()).To(Equal("hello 127.0.0.2"))
		}
		e.members[1].stop()
		r.uses(1)
		conn, err := net.Dial("tcp", local(cfg.Forwards[0].Port))
		if err == nil { // a reset may come as early as that
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1))
		}
		Expect(err).To(HaveOccurred())
	})

	It("should not be passed on to a member that is reached by its port for requests only", func() {
		cfg := newConfig(newEtcd(1).members...)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "hello")
				_ = conn.Close()
			}
		}()
		port := int32(listener.Addr().(*net.TCPAddr).Port) // #nosec G115 -- It is a port.
		cfg.Forwards = []config.Forward{{Port: freePort(), MemberPort: port}}
		cfg.Members[0].OnlyRequests = true
		r := startFront(cfg, clock.RealClock{})
		r.uses(1)
		conn, err := net.Dial("tcp", local(cfg.Forwards[0].Port))
		if err == nil { // a reset may come as early as that
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1))
		}
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("Addresses of a member", func() {
	It("should be tried all at once, and the first that accepts be taken", func() {
		listener, err := net.Listen("tcp", "127.0.0.2:0")
		Expect(err).NotTo(HaveOccurred())
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		conn, err := front.DialFirst(context.Background(), []string{"127.0.0.3", "127.0.0.2", "127.0.0.4"}, port)
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(conn.RemoteAddr().String()).To(Equal(listener.Addr().String()))

		_, err = front.DialFirst(context.Background(), []string{"127.0.0.3", "127.0.0.4"}, port)
		Expect(err).To(MatchError(And(ContainSubstring("127.0.0.3"), ContainSubstring("127.0.0.4"))))
		var operation *net.OpError
		Expect(errors.As(err, &operation)).To(BeTrue())
	})
})
