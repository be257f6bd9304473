// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/screen"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// fleet shows migrations, and opens one of them.
type fleet struct {
	migrations screen.Migrations
	err        error
	looks      int
	one        *source
	steering   *steering
	opened     []string
	openErr    error
}

func (f *fleet) Look(context.Context) (screen.Migrations, error) {
	f.looks++
	return f.migrations, f.err
}

func (f *fleet) Open(namespace, name string) (screen.Source, screen.Steering, error) {
	f.opened = append(f.opened, namespace+"/"+name)
	return f.one, f.steering, f.openErr
}

func drained(name string) summary.Drain {
	GinkgoHelper()
	var out summary.Drain
	data, err := os.ReadFile(filepath.Join("..", "view", "testdata", "drains", name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(data, &out)).To(Succeed())
	return out
}

var _ = Describe("Fleet", func() {
	var (
		ctx    context.Context
		cancel context.CancelCauseFunc
		src    *fleet
		term   *terminal
		shown  *screen.Fleet
		start  = time.Date(2026, 11, 20, 9, 6, 0, 0, time.UTC)
	)
	// of is the migration of a world, under another name.
	of := func(name, namespace, as string) summary.Summary {
		GinkgoHelper()
		s := view.Summary(world(name))
		s.Namespace, s.Name = namespace, as
		return s
	}
	show := func(size [2]int) {
		term = newTerminal(start)
		shown = screen.NewFleet(ctx, "Live migrations in all namespaces", src, term.options())
		term.open(shown, size[0], size[1])
	}

	BeforeEach(func() {
		ctx, cancel = context.WithCancelCause(context.Background())
		DeferCleanup(func() { cancel(nil) })
		src = &fleet{one: &source{world: world("joining")}, steering: &steering{}}
		src.migrations.Summaries = []summary.Summary{
			of("succeeded", "garden-demo", "try-out"), of("moving", "garden-demo", "ci"),
			of("overdue", "garden-shop", "stage"), of("paused", "garden-shop", "store"),
			of("aborted", "garden-shop", "old"),
			of("held", "garden-demo", "blocked"), of("requested", "garden-demo", "next"),
		}
		src.migrations.Drains = []summary.Drain{drained("draining"), drained("asked")}
	})

	for size, columns := range sizes {
		It("should draw migrations and drains in "+size, func() {
			show(columns)
			term.expectGolden("fleet-" + size)
			term.press("down", "down")
			term.expectGolden("fleet-third-" + size)
			term.press("?")
			term.expectGolden("fleet-help-" + size)
		})

		It("should draw a garden without migrations in "+size, func() {
			src.migrations = screen.Migrations{Note: "Drains are not known: seeds is forbidden"}
			show(columns)
			term.expectGolden("fleet-empty-" + size)
		})

		It("should draw what it cannot see in "+size, func() {
			term = newTerminal(start)
			term.model = screen.NewFleet(ctx, "Live migrations in all namespaces", src, term.options())
			term.resize(columns[0], columns[1])
			term.expectGolden("fleet-looking-" + size)
			show(columns)
			src.err = errors.New("failed to list Shoots: Get \"https://api.garden.example.org/apis/" +
				"core.gardener.cloud/v1beta1/shoots\": context deadline exceeded")
			term.pass(2 * time.Second)
			term.expectGolden("fleet-failed-" + size)
		})

		It("should draw drains that are stopped, and those of which nothing is known, in "+size, func() {
			unknown := drained("not-permitted")
			unknown.Seed, unknown.Unknown = "seed-b", strings.ReplaceAll(unknown.Unknown, "seed-a", "seed-b")
			src.migrations.Drains = []summary.Drain{drained("circuit-open"), unknown}
			show(columns)
			term.expectGolden("fleet-drains-" + size)
		})

		It("should draw a migration that it has opened, also when that has ended, in "+size, func() {
			show(columns)
			term.press("down", "enter")
			term.expectGolden("opened-" + size)
			Expect(term.shows()).To(ContainSubstring("esc back"))
			src.one.world = world("succeeded")
			term.pass(2 * time.Second)
			term.expectGolden("opened-ended-" + size)
			Expect(term.shows()).To(ContainSubstring("esc back"))
		})

		It("should draw more migrations than fit in "+size, func() {
			for i := range 100 {
				one := of("waiting", "garden-many", fmt.Sprintf("shoot-%02d", i))
				src.migrations.Summaries = append(src.migrations.Summaries, one)
			}
			show(columns)
			term.press("G", "up", "up")
			term.expectGolden("fleet-many-" + size)
			last := term.shows()
			term.press("pgdown", "down", "pgdown")
			Expect(term.shows()).To(ContainSubstring("107 of 107"))
			term.press("up", "up")
			Expect(term.shows()).To(Equal(last))
			term.press("g")
			Expect(term.shows()).To(ContainSubstring("1 of 107"))
		})
	}

	It("should draw colors", func() {
		term = newTerminal(start)
		options := term.options()
		options.Color = true
		term.open(screen.NewFleet(ctx, "Live migrations in all namespaces", src, options), 100, 24)
		term.expectGolden("fleet-color")
	})

	It("should say that its keys move the cursor, and name all of them", func() {
		for _, width := range []int{40, 80} {
			show([2]int{width, 50})
			Expect(term.shows()).To(And(ContainSubstring("up/down move"), Not(ContainSubstring("scroll"))))
			term.press("?")
			Expect(term.shows()).To(And(MatchRegexp(`up, k +move up`), MatchRegexp(`down, j +move down`),
				MatchRegexp(`pgup, b +page up`), MatchRegexp(`pgdown, space +page down`), ContainSubstring("g, home"),
				ContainSubstring("G, end"), ContainSubstring("enter"), ContainSubstring("esc"),
				ContainSubstring("q, ctrl+c"), Not(ContainSubstring("scroll"))))
		}
	})

	It("should name every seed that is drained once", func() {
		Expect(src.migrations.Drains[0].Seed).NotTo(Equal(src.migrations.Drains[1].Seed))
	})

	It("should fit every size", func() {
		show([2]int{80, 24})
		for _, size := range [][2]int{{40, 12}, {60, 20}, {119, 24}, {120, 24}, {200, 60}} {
			term.resize(size[0], size[1])
			term.shows()
		}
	})

	It("should look again and again, and keep the cursor on its migration", func() {
		show([2]int{120, 30})
		term.press("down")
		Expect(term.shows()).To(ContainSubstring("> garden-demo/ci"))
		src.migrations.Summaries = append(src.migrations.Summaries, of("moving", "garden-aaa", "first"))
		term.pass(2 * time.Second)
		Expect(src.looks).To(Equal(2))
		Expect(term.shows()).To(And(ContainSubstring("> garden-demo/ci"), ContainSubstring("garden-aaa/first"),
			ContainSubstring("3 of 8")))
		src.migrations.Summaries = src.migrations.Summaries[:1]
		term.pass(2 * time.Second)
		Expect(term.shows()).To(ContainSubstring("> garden-demo/try-out"))
	})

	It("should open a migration, steer it, and come back", func() {
		show([2]int{120, 30})
		term.press("down", "enter")
		Expect(src.opened).To(Equal([]string{"garden-demo/ci"}))
		Expect(term.shows()).To(And(ContainSubstring("[1 Steps]"), ContainSubstring("DestinationEtcdPeersJoined"),
			ContainSubstring("esc back")))
		term.press("p", "y")
		Expect(src.steering.asked).To(Equal([]string{"pause"}))
		term.resize(80, 24)
		term.shows()
		looks := src.one.looks
		term.pass(4 * time.Second)
		Expect(src.one.looks).To(Equal(looks + 2))
		Expect(src.looks).To(Equal(3), "the fleet is looked at meanwhile")
		term.press("esc")
		Expect(term.shows()).To(ContainSubstring("> garden-demo/ci"))
		Expect(term.ended).To(BeFalse())
		term.pass(10 * time.Second)
		Expect(src.one.looks).To(Equal(looks+2), "nobody looks at it any more")

		term.press("enter")
		looks = src.one.looks
		term.pass(4 * time.Second)
		Expect(src.one.looks).To(Equal(looks+2), "not twice as often the second time")
		src.one.world = world("succeeded")
		term.pass(2 * time.Second)
		Expect(term.shows()).To(ContainSubstring("Succeeded"), "who has opened it may read how it has ended")
		term.press("q")
		Expect(term.ended).To(BeTrue())
	})

	It("should say why a migration cannot be opened, or is gone", func() {
		show([2]int{120, 30})
		src.openErr = errors.New("no access to the garden")
		term.press("enter")
		Expect(term.shows()).To(ContainSubstring("no access to the garden"))
		src.openErr = nil
		src.one.err = apierrors.NewNotFound(schema.GroupResource{Resource: "shoots"}, "live")
		term.press("enter")
		Expect(term.shows()).To(And(ContainSubstring(`shoots "live" not found`),
			ContainSubstring("Live migrations in")))
		Expect(term.ended).To(BeFalse())
	})

	It("should end with a key, with the context and with an error that a retry does not help", func() {
		for _, key := range []string{"q", "ctrl+c", "esc"} {
			show([2]int{80, 24})
			term.press(key)
			Expect(term.ended).To(BeTrue())
			Expect(shown.Err()).NotTo(HaveOccurred())
		}
		show([2]int{80, 24})
		src.err = errors.New("away")
		term.pass(2 * time.Second)
		Expect(term.shows()).To(And(ContainSubstring("away; retrying"), ContainSubstring("garden-demo/ci")))
		Expect(term.ended).To(BeFalse())
		src.err = apierrors.NewForbidden(schema.GroupResource{Resource: "shoots"}, "", errors.New("no"))
		term.pass(2 * time.Second)
		Expect(term.ended).To(BeTrue())
		Expect(shown.Err()).To(MatchError(ContainSubstring("forbidden")))

		src.err = nil
		show([2]int{80, 24})
		cancel(errEnough)
		term.pass(2 * time.Second)
		Expect(shown.Err()).To(MatchError(errEnough))
	})

	It("should not open anything where there is nothing", func() {
		src.migrations = screen.Migrations{}
		show([2]int{80, 24})
		term.press("down", "up", "pgdown", "G", "enter")
		Expect(src.opened).To(BeEmpty())
	})

	Describe("#DrainLeft", func() {
		running := func(seconds, remaining float64, name string) summary.Summary {
			return summary.Summary{Name: name,
				Expected: &summary.Expectation{Seconds: seconds, RemainingSeconds: remaining}}
		}
		table := func(waiting int, running ...string) drain.Table {
			out := drain.Table{Counts: drain.Counts{Waiting: waiting}}
			for _, name := range running {
				out.Shoots = append(out.Shoots, drain.TableRow{Name: name, State: drain.Running})
			}
			return out
		}

		It("should take the running ones for an example of those that wait", func() {
			all := []summary.Summary{running(600, 300, "a"), running(600, 100, "b")}
			left, known := screen.DrainLeft(table(4, "a", "b"), all)
			Expect(known).To(BeTrue())
			Expect(left).To(Equal(1400 * time.Second))
			left, _ = screen.DrainLeft(table(0, "b"), all)
			Expect(left).To(Equal(100 * time.Second))
		})

		It("should not guess where nothing runs, or nothing is expected", func() {
			for _, t := range []drain.Table{table(4), table(4, "unknown")} {
				_, known := screen.DrainLeft(t, []summary.Summary{running(1, 1, "a"), {Name: "unknown"}})
				Expect(known).To(BeFalse())
			}
		})
	})
})
