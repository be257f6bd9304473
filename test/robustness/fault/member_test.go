// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"net"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

// maintenance is the part of etcd's API that the faults use.
type maintenance struct {
	etcdserverpb.UnimplementedMaintenanceServer

	alarms []*etcdserverpb.AlarmMember
	fails  bool
}

func (m *maintenance) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	if m.fails {
		return nil, status.Error(codes.Internal, "no quorum")
	}
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: 7}, Leader: 9}, nil
}

func (m *maintenance) Alarm(_ context.Context, r *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	if m.fails {
		return nil, status.Error(codes.Internal, "no quorum")
	}
	alarm := &etcdserverpb.AlarmMember{MemberID: r.MemberID, Alarm: r.Alarm}
	switch r.Action {
	case etcdserverpb.AlarmRequest_ACTIVATE:
		m.alarms = append(m.alarms, alarm)
	case etcdserverpb.AlarmRequest_DEACTIVATE:
		m.alarms = slices.DeleteFunc(
			m.alarms, func(a *etcdserverpb.AlarmMember) bool { return a.MemberID == r.MemberID && a.Alarm == r.Alarm })
	}
	return &etcdserverpb.AlarmResponse{Header: &etcdserverpb.ResponseHeader{}, Alarms: slices.Clone(m.alarms)}, nil
}

var _ = Describe("Member", func() {
	var (
		etcd   *maintenance
		member fault.Member
	)

	BeforeEach(func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		etcd = &maintenance{}
		server := grpc.NewServer()
		etcdserverpb.RegisterMaintenanceServer(server, etcd)
		go func() { _ = server.Serve(listener) }()
		DeferCleanup(server.Stop)

		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + listener.Addr().String()},
			Logger: zap.NewNop()})
		Expect(err).NotTo(HaveOccurred())
		member = fault.NewMember(client, "etcd-main-0")
		DeferCleanup(member.Close)
	})

	It("should tell who it is and who leads", func(ctx SpecContext) {
		id, leader, err := member.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect([]uint64{id, leader}).To(Equal([]uint64{7, 9}))
	})

	It("should raise the alarm of a full quota and disarm it", func(ctx SpecContext) {
		Expect(member.RaiseNoSpace(ctx, 7)).To(Succeed())
		Expect(etcd.alarms).
			To(ConsistOf(And(HaveField("MemberID", BeEquivalentTo(7)),
				HaveField("Alarm", etcdserverpb.AlarmType_NOSPACE))))
		Expect(member.Disarm(ctx)).To(Succeed())
		Expect(etcd.alarms).To(BeEmpty())
		Expect(member.Disarm(ctx)).To(Succeed())
	})

	It("should tell which pod does not answer", func(ctx SpecContext) {
		etcd.fails = true
		_, _, err := member.Status(ctx)
		Expect(err).To(MatchError(ContainSubstring("failed to get the status of etcd in pod etcd-main-0")))
		Expect(member.RaiseNoSpace(ctx, 7)).
			To(MatchError(ContainSubstring("failed to raise alarm NOSPACE for etcd member 7")))
		Expect(member.Disarm(ctx)).To(MatchError(ContainSubstring("failed to disarm etcd through pod etcd-main-0")))
	})
})
