// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livecpm/livecpm/pkg/cli/screen"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// sizes are those that every screen is drawn in.
var sizes = map[string][2]int{"80x24": {80, 24}, "160x50": {160, 50}}

var _ = Describe("Migration", func() {
	var (
		ctx    context.Context
		cancel context.CancelCauseFunc
		src    *source
		steer  *steering
		term   *terminal
		shown  *screen.Migration
		change func(*screen.Options)
	)
	// show opens the screen on a world.
	show := func(name string, size [2]int) {
		GinkgoHelper()
		src.world = world(name)
		term = newTerminal(src.world.Now.Time)
		options := term.options()
		change(&options)
		shown = screen.NewMigration(ctx, "garden-demo/live", src, steer).With(options)
		term.open(shown, size[0], size[1])
	}

	BeforeEach(func() {
		ctx, cancel = context.WithCancelCause(context.Background())
		DeferCleanup(func() { cancel(nil) })
		src, steer = &source{}, &steering{}
		change = func(*screen.Options) {}
		for i := range 40 {
			src.events = append(src.events, view.Event{Time: time.Date(2026, 11, 20, 9, 0, i, 0, time.UTC),
				Where: "seed-b", Object: fmt.Sprintf("Pod etcd-main-%d", i%3), Reason: "Started",
				Message: "Started container"})
		}
	})

	for size, columns := range sizes {
		for _, name := range []string{"requested", "joining", "paused", "held", "waiting", "moving", "overdue",
			"aborting"} {
			It("should draw "+name+" in "+size, func() {
				show(name, columns)
				term.expectGolden("steps-" + name + "-" + size)
			})
		}

		It("should draw all views in "+size, func() {
			show("moving", columns)
			term.press("tab")
			term.expectGolden("etcd-" + size)
			term.press("tab")
			term.expectGolden("events-" + size)
			term.press("tab")
			term.expectGolden("probe-none-" + size)
			src.world.Probe = &summary.Probe{Started: metav1.NewTime(src.world.Now.Add(-90 * time.Second)),
				Namespace: "livecpm-probe-1a2b3c4d", Writes: 1440, WritesFailed: 1, Reads: 3600, WatchEvents: 14400,
				LongestWriteGapMs: 1400, SinceLastWriteMs: 1400}
			term.pass(2 * time.Second)
			term.expectGolden("probe-" + size)
			term.press("?")
			term.expectGolden("help-" + size)
		})

		It("should draw questions and answers in "+size, func() {
			show("joining", columns)
			term.press("p")
			term.expectGolden("ask-pause-" + size)
			term.press("y")
			term.expectGolden("paused-" + size)
			term.press("a", "liv")
			term.expectGolden("ask-abort-" + size)
			steer.err = errors.New("the live migration of Shoot garden-demo/live can no longer be aborted: the " +
				"current step is EtcdMigrationComplete. DNS moves to the destination, and etcd members of the source " +
				"may leave at any moment, so the migration can only go forward: to gain time, pause before the next " +
				"step")
			term.press("e", "enter")
			term.expectGolden("refused-" + size)
			term.press("t")
			term.expectGolden("ask-retry-" + size)
			show("paused", columns)
			term.press("r")
			term.expectGolden("ask-resume-" + size)
		})

		It("should draw what it cannot see in "+size, func() {
			term = newTerminal(world("joining").Now.Time)
			term.model = screen.NewMigration(ctx, "garden-demo/live", src, steer).With(term.options())
			term.resize(columns[0], columns[1])
			term.expectGolden("looking-" + size)
			away := errors.New("failed to get Shoot garden-demo/live: Get \"https://api.garden.example.org/apis/" +
				"core.gardener.cloud/v1beta1/namespaces/garden-demo/shoots/live\": context deadline exceeded")
			src.err = away
			show("joining", columns)
			term.expectGolden("looking-failed-" + size)
			src.err = nil
			show("joining", columns)
			src.err = away
			term.pass(2 * time.Second)
			term.expectGolden("look-failed-" + size)
			src.err, src.events = nil, src.events[:4]
			src.eventsErr = errors.New("seed seed-a: give --seed-kubeconfig seed-a=PATH; seed seed-b: failed to list " +
				"events: the server was unable to return a response in the time allotted")
			show("joining", columns)
			term.press("3")
			term.expectGolden("events-incomplete-" + size)
		})

		It("should draw a step whose agent is away in "+size, func() {
			show("joining", columns)
			led := metav1.NewTime(src.world.Now.Add(-3 * time.Minute))
			src.world.Seeds[1].Agent = &summary.Agent{Desired: 2, Led: &led}
			term.pass(2 * time.Second)
			term.expectGolden("steps-silent-" + size)
			Expect(term.shows()).To(ContainSubstring("No agent has led in seed seed-b"))
		})
	}

	It("should draw colors, and ASCII", func() {
		change = func(o *screen.Options) { o.Color = true }
		show("waiting", [2]int{80, 24})
		term.expectGolden("steps-waiting-color")
		show("moving", [2]int{100, 32})
		term.press("tab")
		term.expectGolden("etcd-color")
		show("joining", [2]int{100, 24})
		term.press("a", "liv")
		term.expectGolden("ask-abort-color")
		change = func(o *screen.Options) { o.ASCII = true }
		show("waiting", [2]int{80, 24})
		term.expectGolden("steps-waiting-ascii")
		Expect(term.shows()).To(MatchRegexp(`^[\x00-\x7f]*$`))
	})

	It("should fit every size, also one that changes", func() {
		show("moving", [2]int{80, 24})
		for _, size := range [][2]int{{40, 12}, {60, 20}, {81, 24}, {100, 30}, {200, 60}} {
			term.resize(size[0], size[1])
			for range 4 {
				term.press("tab")
				term.shows()
			}
			term.press("?")
			term.shows()
			term.press("?", "p")
			term.shows()
			term.press("esc")
		}
	})

	It("should count down every second, and look every two", func() {
		show("waiting", [2]int{100, 30})
		Expect(term.shows()).To(And(ContainSubstring("DNS caches: 23s of 1m left"),
			ContainSubstring("deadline in 29m15s"), ContainSubstring("09:02:50 UTC")))
		Expect(src.looks).To(Equal(1))
		term.pass(time.Second)
		Expect(term.shows()).To(And(ContainSubstring("DNS caches: 22s of 1m left"),
			ContainSubstring("deadline in 29m14s"), ContainSubstring("09:02:51 UTC")))
		Expect(src.looks).To(Equal(1))
		term.pass(9 * time.Second)
		Expect(src.looks).To(Equal(6))
	})

	It("should scroll, and stay within the text", func() {
		show("moving", [2]int{80, 24})
		term.press("2")
		first := term.shows()
		term.press("down")
		Expect(term.shows()).NotTo(Equal(first))
		term.press("up")
		Expect(term.shows()).To(Equal(first))
		term.press("G")
		Expect(term.shows()).To(ContainSubstring("api.live.demo.example.org -> 10.0.0.2"))
		term.press("pgup", "pgup", "pgup", "pgup", "up")
		Expect(term.shows()).To(Equal(first))
		term.press("pgdown", "g")
		Expect(term.shows()).To(Equal(first))
	})

	It("should keep the place in the text when another look comes", func() {
		show("moving", [2]int{80, 24})
		term.press("2", "down", "down", "down")
		before := strings.Split(term.shows(), "\n")[8]
		term.pass(10 * time.Second)
		Expect(strings.Split(term.shows(), "\n")[8]).To(Equal(before))
	})

	It("should go through the views in both directions", func() {
		show("moving", [2]int{80, 24})
		for _, name := range []string{"[2 etcd]", "[3 Events]", "[4 Probe]", "[1 Steps]"} {
			term.press("right")
			Expect(term.shows()).To(ContainSubstring(name))
		}
		term.press("shift+tab")
		Expect(term.shows()).To(ContainSubstring("[4 Probe]"))
		term.press("left", "3")
		Expect(term.shows()).To(ContainSubstring("[3 Events]"))
	})

	It("should read events only while they are looked at, from time to time, and follow the last ones", func() {
		show("moving", [2]int{80, 24})
		term.pass(time.Minute)
		Expect(src.reads).To(BeZero())
		term.press("3")
		Expect(src.reads).To(Equal(1))
		Expect(term.shows()).To(ContainSubstring("09:00:39Z"))
		term.press("1", "3")
		Expect(src.reads).To(Equal(1), "they were read a moment ago")
		src.events = append(src.events, view.Event{Time: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC), Reason: "New"})
		src.eventsErr = errors.New("seed seed-a: give --seed-kubeconfig seed-a=PATH")
		term.pass(11 * time.Second)
		Expect(src.reads).To(Equal(2))
		Expect(term.shows()).To(And(ContainSubstring("09:05:00Z"), ContainSubstring("Not complete: seed seed-a")))
		term.press("g")
		term.pass(11 * time.Second)
		Expect(term.shows()).To(ContainSubstring("09:00:00Z"), "who scrolls back stays there")
		term.press("1")
		term.pass(time.Minute)
		Expect(src.reads).To(Equal(3))
	})

	Describe("keys that change something", func() {
		It("should do what is confirmed, and say what was done", func() {
			show("joining", [2]int{80, 24})
			term.press("p")
			Expect(steer.asked).To(BeEmpty())
			term.press("y")
			Expect(steer.asked).To(Equal([]string{"pause"}))
			Expect(term.shows()).To(ContainSubstring("Set the annotation pause. Note: nothing else was done."))
			term.press("t", "Y")
			Expect(steer.asked).To(Equal([]string{"pause", "retry"}))
			show("paused", [2]int{80, 24})
			term.press("r", "y")
			Expect(steer.asked).To(Equal([]string{"pause", "retry", "resume"}))
		})

		It("should do nothing that is not confirmed", func() {
			show("joining", [2]int{80, 24})
			for _, keys := range [][]string{{"p", "n"}, {"p", "enter"}, {"p", "esc"}, {"p", "ctrl+c"}, {"p", "q"},
				{"a", "y", "enter"}, {"a", "enter"}, {"a", "live", "esc"}, {"a", "LIVE", "enter"},
				{"a", "livee", "enter"}} {
				term.press(keys...)
				Expect(steer.asked).To(BeEmpty(), "%v", keys)
				Expect(term.shows()).To(ContainSubstring("Nothing was changed."))
				Expect(term.ended).To(BeFalse())
			}
		})

		It("should abort only when the name of the shoot is typed", func() {
			show("joining", [2]int{80, 24})
			term.press("a", "livx", "backspace", "e")
			Expect(term.shows()).To(ContainSubstring("Type live to confirm, esc to leave it: live_"))
			term.press("enter")
			Expect(steer.asked).To(Equal([]string{"abort"}))
		})

		It("should say why something was refused", func() {
			show("joining", [2]int{80, 24})
			steer.err = errRefused
			term.press("p", "y")
			Expect(term.shows()).To(ContainSubstring("the API server refuses it"))
			term.press("down")
			Expect(term.shows()).NotTo(ContainSubstring("refuses"))
		})

		DescribeTable("should be offered where they have an effect", func(name string, offered ...string) {
			show(name, [2]int{160, 50})
			lines := strings.Split(strings.TrimSpace(term.shows()), "\n")
			for key, verb := range map[string]string{"p": "pause", "r": "resume", "t": "retry", "a": "abort"} {
				if slices.Contains(offered, verb) {
					Expect(lines[len(lines)-1]).To(ContainSubstring(key + " " + verb))
					continue
				}
				Expect(lines[len(lines)-1]).NotTo(ContainSubstring(verb))
				term.press(key)
				Expect(term.shows()).NotTo(ContainSubstring("[y/N]"))
				Expect(term.shows()).NotTo(ContainSubstring("to confirm"))
			}
		},
			Entry("requested", "requested", "pause", "abort"),
			Entry("joining", "joining", "pause", "retry", "abort"),
			Entry("paused", "paused", "resume", "abort"),
			Entry("held", "held", "pause", "abort"),
			Entry("moving", "moving", "pause", "retry"),
			Entry("overdue", "overdue", "pause", "retry", "abort"),
			Entry("aborting", "aborting"),
		)
	})

	Describe("its end", func() {
		It("should be the end of the migration", func() {
			show("moving", [2]int{80, 24})
			Expect(term.ended).To(BeFalse())
			src.world = world("succeeded")
			term.pass(2 * time.Second)
			Expect(term.ended).To(BeTrue())
			Expect(shown.Err()).NotTo(HaveOccurred())
			Expect(view.Summary(*shown.World()).State).To(Equal(summary.Succeeded))
		})

		It("should be a key", func() {
			for _, key := range []string{"q", "ctrl+c", "esc"} {
				show("moving", [2]int{80, 24})
				term.press(key)
				Expect(term.ended).To(BeTrue(), key)
				Expect(shown.Err()).NotTo(HaveOccurred())
			}
			show("moving", [2]int{80, 24})
			term.press("?", "esc")
			Expect(term.ended).To(BeFalse(), "it leaves the help first")
		})

		It("should be the end of the context, with its cause", func() {
			show("moving", [2]int{80, 24})
			cancel(errEnough)
			term.pass(2 * time.Second)
			Expect(term.ended).To(BeTrue())
			Expect(shown.Err()).To(MatchError(errEnough))
		})

		It("should be an error that a retry does not help, and no other", func() {
			show("moving", [2]int{80, 24})
			src.err = errors.New("the API server is away")
			term.pass(2 * time.Second)
			Expect(term.shows()).To(And(ContainSubstring("the API server is away; retrying"),
				ContainSubstring("seed-a-etcd-main-1 is stopping, as planned")))
			src.err = nil
			term.pass(2 * time.Second)
			Expect(term.shows()).NotTo(ContainSubstring("retrying"))
			src.err = apierrors.NewNotFound(schema.GroupResource{Resource: "shoots"}, "live")
			term.pass(2 * time.Second)
			Expect(term.ended).To(BeTrue())
			Expect(shown.Err()).To(MatchError(ContainSubstring("not found")))
		})
	})

	It("should say that it looks before it has seen anything, and ask nothing then", func() {
		src.err = errors.New("the API server is away")
		show("joining", [2]int{80, 24})
		Expect(term.shows()).To(And(ContainSubstring("Looking …"), ContainSubstring("away; retrying")))
		term.press("p", "y", "2", "4", "?")
		Expect(steer.asked).To(BeEmpty())
		term.shows()
		Expect(shown.World()).To(BeNil())
	})

	It("should name all keys that work in the help, also where they do not fit side by side", func() {
		all := []string{"tab, right", "shift+tab, left", "1, 2, 3, 4", "up, k", "down, j", "pgup, b", "pgdown, space",
			"g, home", "G, end", "p pause", "r resume", "t retry", "a abort", "w raw errors", "? help", "esc",
			"q, ctrl+c"}
		for _, width := range []int{40, 80, 160} {
			show("moving", [2]int{width, 50})
			term.press("?")
			text := regexp.MustCompile(` +`).ReplaceAllString(term.shows(), " ")
			for _, keys := range all {
				Expect(text).To(ContainSubstring(keys), "%d columns", width)
			}
		}
	})

	It("should write all points in time in its zone", func() {
		change = func(o *screen.Options) { o.Zone = time.FixedZone("CEST", 2*60*60) }
		show("moving", [2]int{160, 50})
		term.press("3")
		Expect(term.shows()).To(And(ContainSubstring("11:05:30 CEST"), ContainSubstring("2026-11-20T11:00:39+02:00")))
	})

	It("should show raw errors on demand", func() {
		show("moving", [2]int{160, 50})
		Expect(term.shows()).NotTo(ContainSubstring("d231989c1266553f"))
		term.press("w")
		Expect(term.shows()).To(And(ContainSubstring("d231989c1266553f"),
			ContainSubstring("context deadline exceeded")))
	})
})
