// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// streaming are the methods of etcd whose calls do not end by themselves. Clients open them again when they end with
// Unavailable. All others are unary: a call that is not known to be a stream keeps a hold and a drain waiting, rather
// than being cut off.
var streaming = map[string]bool{
	"/etcdserverpb.Watch/Watch":          true,
	"/etcdserverpb.Lease/LeaseKeepAlive": true,
	"/etcdserverpb.Maintenance/Snapshot": true,
	"/v3electionpb.Election/Observe":     true,
	"/grpc.health.v1.Health/Watch":       true,
}

// retries is how many further members are tried for a call that could not be sent.
const retries = 3

// proxy passes calls on to members.
type proxy struct{ traffic *traffic }

// handle is the grpc.StreamHandler of all methods of etcd.
func (p *proxy) handle(_ any, client grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(client)
	if !ok {
		return status.Error(codes.Internal, "the call names no method")
	}
	ctx, cancel := context.WithCancelCause(passMetadata(client.Context()))
	defer cancel(nil)
	if streaming[method] {
		return p.stream(ctx, client, method, cancel)
	}
	return p.unary(ctx, client, method)
}

// passMetadata returns the context with what the client has sent for etcd. What belongs to the connection is written
// anew for that to the member.
func passMetadata(ctx context.Context) context.Context {
	sent, _ := metadata.FromIncomingContext(ctx)
	sent = sent.Copy()
	sent.Delete("grpc-accept-encoding")
	return metadata.NewOutgoingContext(ctx, sent)
}

// open lets a call go to a member. One that does not take it has not seen it, so another one is tried.
func (p *proxy) open(ctx context.Context, c *call, method string) (*upstream, error) {
	for try := 0; ; try++ {
		if err := p.traffic.enter(ctx, c); err != nil {
			return nil, err
		}
		m := c.member
		up, err := m.open(ctx, method)
		if err == nil {
			return up, nil
		}
		c.avoid = m
		p.traffic.leave(c)
		switch code := status.Code(err); {
		case ctx.Err() != nil:
			return nil, over(ctx)
		case code != codes.Unavailable && code != codes.Canceled:
			return nil, err
		case try == retries:
			p.traffic.metrics.refused.Inc()
			return nil, errNoMember
		}
		m.log.V(1).Info("Member did not take a request, trying another one", "reason", err.Error())
	}
}

// unary passes on a call that has one request. The request is complete before the call is under way, and the call has
// ended at the member before a slow client has got the answer.
func (p *proxy) unary(ctx context.Context, client grpc.ServerStream, method string) error {
	request := &frame{}
	if err := client.RecvMsg(request); err != nil {
		if errors.Is(err, io.EOF) {
			return status.Error(codes.InvalidArgument, "the call has no request")
		}
		return err
	}
	defer request.free()
	further := &frame{}
	if err := client.RecvMsg(further); err == nil {
		further.free()
		return status.Error(codes.Unimplemented, "the front does not know "+method+" as a method with several requests")
	} else if !errors.Is(err, io.EOF) {
		return err
	}

	c := &call{kind: unary}
	up, err := p.open(ctx, c, method)
	if err != nil {
		return err
	}
	defer up.cancel()
	defer p.traffic.leave(c)
	if err := up.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg has the status
		return err
	}
	_ = up.CloseSend() // always nil
	last := &frame{}
	defer func() { last.free() }()
	for n := 0; ; n++ {
		answer := &frame{}
		err := up.RecvMsg(answer)
		if n == 0 {
			passHeader(up, client)
		}
		if err != nil {
			p.traffic.leave(c)
		}
		if n > 0 { // if it is not the only one, the method answers with a stream
			if err := client.SendMsg(last); err != nil {
				answer.free()
				return err
			}
		}
		if err != nil {
			return finish(up, client, err)
		}
		last = answer
	}
}

func passHeader(up *upstream, client grpc.ServerStream) {
	if header, err := up.Header(); err == nil && header.Len() > 0 {
		_ = client.SetHeader(header) // fails only if the call has ended
	}
}

// finish passes on how the call has ended at the member.
func finish(up *upstream, client grpc.ServerStream, err error) error {
	client.SetTrailer(up.Trailer())
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// stream passes on a call in which both sides speak when they like, until it ends, or the front ends it.
func (p *proxy) stream(
	ctx context.Context, client grpc.ServerStream, method string, end context.CancelCauseFunc,
) error {
	c := &call{kind: stream, end: end}
	up, err := p.open(ctx, c, method)
	if err != nil {
		return err
	}
	defer p.traffic.leave(c)
	defer up.cancel()

	go passUp(up, client)
	ended := make(chan error, 1)
	go func() { ended <- passDown(up, client) }()
	// A client that does not read must not keep the stream at the member.
	select {
	case err = <-ended:
	case <-ctx.Done():
		return over(ctx)
	}
	if ctx.Err() != nil {
		return over(ctx)
	}
	return finish(up, client, err)
}

// passUp passes on messages of the client until there are no more.
func passUp(up *upstream, client grpc.ServerStream) {
	for {
		message := &frame{}
		switch err := client.RecvMsg(message); {
		case errors.Is(err, io.EOF):
			_ = up.CloseSend() // always nil
			return
		case err != nil:
			up.cancel()
			return
		}
		if err := up.SendMsg(message); err != nil { // the stream has ended: passDown gets the status
			message.free()
			return
		}
	}
}

// passDown passes on the messages of the member and returns how they end: io.EOF is a good end.
func passDown(up *upstream, client grpc.ServerStream) error {
	if header, err := up.Header(); err == nil && header != nil {
		_ = client.SendHeader(header) // fails only if the call has ended
	}
	for {
		message := &frame{}
		if err := up.RecvMsg(message); err != nil {
			return err
		}
		if err := client.SendMsg(message); err != nil {
			message.free()
			return status.Error(codes.Canceled, "failed to pass a message on: "+err.Error())
		}
	}
}
