// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

// logs are those of containers, by pod and container; with -previous for those before a restart.
type logs map[string]string

func (l logs) Logs(
	_ context.Context, _, pod string, options *corev1.PodLogOptions,
) (io.ReadCloser, error) {
	if options.SinceTime == nil || !options.Timestamps {
		return nil, errors.New("the whole log was asked for, or no times")
	}
	name := pod + "/" + options.Container
	if options.Previous {
		name += "-previous"
	}
	text, ok := l[name]
	if !ok {
		return nil, errors.New("no log of " + name)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

var _ = Describe("Timeline", func() {
	var (
		ctx      = context.Background()
		begin    = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		timeline inspect.Timeline
		read     logs
		refuse   error
	)

	event := func(namespace, name, object string, change func(*corev1.Event)) *corev1.Event {
		out := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			InvolvedObject: corev1.ObjectReference{Kind: "Thing", Name: object}, Reason: "Reason" + name}
		change(out)
		return out
	}
	at := func(offset time.Duration) func(*corev1.Event) {
		return func(event *corev1.Event) { event.LastTimestamp = metav1.NewTime(begin.Add(offset)) }
	}
	pod := func(namespace, name string, labels map[string]string, restarts int32) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
				RestartCount: restarts}}}}
	}

	BeforeEach(func() {
		refuse = nil
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--demo--live"}}
		byName := func(object client.Object) []string { return []string{object.(*corev1.Event).InvolvedObject.Name} }
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithIndex(&corev1.Event{}, "involvedObject.name", byName).WithObjects(
			event("garden-demo", "early", "live", at(-time.Hour)),
			event("garden-demo", "first", "live", at(time.Second)),
			event("garden-demo", "other", "dead", at(time.Second)),
			event("garden-demo", "series", "live", func(event *corev1.Event) {
				event.EventTime = metav1.NewMicroTime(begin.Add(-time.Hour))
				event.Series = &corev1.EventSeries{Count: 7,
					LastObservedTime: metav1.NewMicroTime(begin.Add(time.Minute))}
				event.Type, event.ReportingController = corev1.EventTypeWarning, "livecpm-agent"
			}),
		).Build()
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			event("shoot--demo--live", "new", "etcd", func(event *corev1.Event) {
				event.EventTime = metav1.NewMicroTime(begin.Add(30 * time.Second))
			}),
			event("shoot--demo--dead", "foreign", "etcd", at(time.Second)),
			pod("garden", "agent", map[string]string{"app": "livecpm", "role": "agent"}, 1),
			pod("garden", "gardenlet", map[string]string{"app": "gardener", "role": "gardenlet"}, 0),
			pod("garden", "other", map[string]string{"app": "other"}, 0),
			pod("shoot--demo--live", "relay", map[string]string{"app": "livecpm-relay"}, 0),
			pod("shoot--demo--dead", "relay-of-another", map[string]string{"app": "livecpm-relay"}, 0),
		).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
			list client.ObjectList, options ...client.ListOption) error {
			if refuse != nil {
				return refuse
			}
			return c.List(ctx, list, options...)
		}}).Build()
		read = logs{
			"agent/main-previous": "2026-11-25T12:00:01.5Z {\"msg\":\"one\",\"shoot\":{\"name\":\"live\"," +
				"\"namespace\":\"garden-demo\"}}\n" +
				"2026-11-25T12:00:02Z {\"shoot\":{\"name\":\"dead\",\"namespace\":\"garden-demo\"}}\n",
			"agent/main":     "2026-11-25T12:00:05Z three of garden-demo/live\nnot a line of a log\n",
			"gardenlet/main": "2026-11-25T12:00:06Z namespace=shoot--demo--live\n",
			"relay/main":     "2026-11-25T12:00:03.000000001Z two\n2026-11-25T12:00:03.000000001Z after two\n",
		}
		timeline = inspect.Timeline{Garden: &access.Garden{Client: garden, Namespace: "garden-demo"}, Shoot: shoot,
			Seeds: access.Seeds{"seed-a": {Reader: seed, Logs: read}}, Since: begin}
	})

	It("should show the events of garden and seeds in the order of time, from the beginning on", func() {
		events, err := timeline.Events(ctx, "seed-a")
		Expect(err).NotTo(HaveOccurred())
		var seen []string
		for _, event := range events {
			seen = append(seen, event.Where+" "+event.Reason)
		}
		Expect(seen).To(Equal([]string{"garden Reasonfirst", "seed-a Reasonnew", "garden Reasonseries"}))
		Expect(events[2]).To(And(HaveField("Count", BeEquivalentTo(7)), HaveField("Warning", true),
			HaveField("By", "livecpm-agent"), HaveField("Object", "Thing live")))
	})

	It("should show what agents wrote about the shoot and what relays wrote, also before a restart", func() {
		lines, err := timeline.Logs(ctx, "seed-a")
		Expect(err).NotTo(HaveOccurred())
		var seen []string
		for _, line := range lines {
			Expect(line.Where).To(Equal("seed-a"))
			seen = append(seen, line.Pod+": "+line.Text)
		}
		Expect(seen).To(Equal([]string{
			`agent: {"msg":"one","shoot":{"name":"live","namespace":"garden-demo"}}`,
			"relay: two", "relay: after two", "agent: three of garden-demo/live",
			"gardenlet: namespace=shoot--demo--live",
		}))
	})

	It("should show what the garden's controller manager wrote about the shoot, if it can be read", func() {
		runtime := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
			pod("garden", "manager", map[string]string{"app": "livecpm", "role": "controller-manager"}, 0),
			pod("garden", "removal", map[string]string{"app": "livecpm", "role": "removal-check"}, 0),
			pod("garden", "agent-there", map[string]string{"app": "livecpm", "role": "agent"}, 0),
		).Build()
		timeline.Runtime = &access.Seed{Reader: runtime, Logs: logs{"manager/main": "2026-11-25T12:00:04Z " +
			"{\"msg\":\"drains\",\"shoot\":\"garden-demo/live\"}\n2026-11-25T12:00:04Z garden-demo/dead\n"}}
		lines, err := timeline.Logs(ctx, "seed-a")
		Expect(err).NotTo(HaveOccurred())
		Expect(lines).To(HaveLen(6))
		Expect(lines[3]).To(And(HaveField("Where", "garden"), HaveField("Pod", "manager"),
			HaveField("Text", ContainSubstring("drains"))))

		timeline.Runtime.Logs = logs{}
		lines, err = timeline.Logs(ctx, "seed-a")
		Expect(lines).To(HaveLen(5))
		Expect(err).To(MatchError(Equal("runtime cluster of the garden: no log of manager/main")))
	})

	It("should show what it has, and say what is missing", func() {
		delete(read, "relay/main")
		lines, err := timeline.Logs(ctx, "seed-a", "seed-b")
		Expect(lines).To(HaveLen(3))
		Expect(err).To(MatchError(And(ContainSubstring("seed seed-a: no log of relay/main"),
			ContainSubstring("give --seed-kubeconfig seed-b=PATH"))))

		refuse = errors.New("forbidden")
		events, err := timeline.Events(ctx, "seed-a", "seed-b")
		Expect(events).To(HaveLen(2))
		Expect(err).To(MatchError(And(ContainSubstring("seed seed-a: failed to list the events"),
			ContainSubstring("seed-b=PATH"))))
	})

	It("should tell when an event was reported, whoever reported it", func() {
		created := metav1.NewTime(begin.Add(time.Hour))
		Expect(inspect.EventTime(&corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}})).
			To(Equal(created.Time))
		Expect(inspect.EventTime(&corev1.Event{FirstTimestamp: metav1.NewTime(begin)})).To(Equal(begin))
	})

	It("should draw in the order of time and keep the order of one log", func() {
		lines := []view.LogLine{{Time: begin.Add(time.Second), Text: "b"}, {Time: begin, Text: "a"},
			{Time: begin.Add(time.Second), Text: "c"}}
		view.SortLogs(lines)
		Expect(lines).To(HaveExactElements(HaveField("Text", "a"), HaveField("Text", "b"), HaveField("Text", "c")))
	})
})
