// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/outlook"
)

// Digest is digest for tests.
func Digest(state any) string { return digest(state) }

// AskWebhook has the kube-apiserver ask the webhooks of the resource manager once.
func AskWebhook(ctx context.Context, shoot kubernetes.Interface) error {
	return (&workersObserver{shoot: shoot}).askWebhook(ctx)
}

// StreamPatience is how long a stream of KeepStream may be silent.
const StreamPatience = 200 * time.Millisecond

// KeepStream keeps a stream of the kind "some" to the pod pod-a open until the context ends.
func KeepStream(ctx context.Context, run func(ctx context.Context, answered func()) error) StreamReport {
	s := NewStreams(nil, nil)
	s.pods, s.patience, s.pause = []string{"pod-a"}, StreamPatience, 10*time.Millisecond
	s.runKinds(ctx, []streamKind{{"some", func(ctx context.Context, _ string, answered func()) error {
		return run(ctx, answered)
	}}})
	return s.Report()[0]
}

// FollowLog follows the log of the pod.
func FollowLog(ctx context.Context, shoot kubernetes.Interface, pod string, answered func()) error {
	return NewStreams(shoot, nil).followLog(ctx, pod, answered)
}

// Dial is dial for tests.
func Dial(ctx context.Context, dialer httpstream.Dialer) (httpstream.Connection, error) {
	return dial(ctx, dialer)
}

// ByProxy is byProxy for tests.
func ByProxy(ctx context.Context, access *rest.Config) (*rest.Config, error) {
	return byProxy(ctx, access)
}

// Repeat asks until the context ends, and returns what was counted.
func Repeat(ctx context.Context, ask func(ctx context.Context, i int) (string, error)) RequestsReport {
	o := &workersObserver{}
	o.repeat(ctx, &o.report.Webhooks, ask)
	return o.report.Webhooks
}

// Moment is what a run shows at one moment.
type Moment struct {
	Phase   string
	Elapsed time.Duration
	States  []driver.StepState
	Members *driver.MemberTimeline
	Load    probe.Snapshot
}

// Screen returns what a terminal of the given width shows.
func (m Moment) Screen(width int) string {
	var out bytes.Buffer
	newDisplay(nil, outlook.NewTerminalScreen(&out, width)).show(m.view())
	return out.String()
}

// Lines returns what is printed where there is no terminal, for the same moment shown several times.
func (m Moment) Lines(times int) string {
	var out bytes.Buffer
	d := newDisplay(&out, nil)
	for range times {
		d.show(m.view())
	}
	return out.String()
}

func (m Moment) view() view {
	seeds := []string{"seed-a", "seed-b"}
	return view{
		phase:   m.Phase,
		elapsed: m.Elapsed,
		steps:   m.States,
		members: map[string]map[string]string{driver.RoleMain: m.Members.BySeed(seeds...)},
		seeds:   seeds,
		load:    &m.Load,
	}
}

// WithLatencies adds to the steps what writes took in each of them.
var WithLatencies = withLatencies
