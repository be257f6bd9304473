// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

const (
	// beforeStart is how long before the first condition was written something about the migration may be reported.
	beforeStart = time.Minute
	// recent is how far back one looks if the beginning of the migration is not known.
	recent = time.Hour
)

// reported is a kind of things that were reported about a shoot, in several places.
type reported[T comparable] struct {
	read func(inspect.Timeline, context.Context, ...string) ([]T, error)
	at   func(T) time.Time
	draw func([]T, view.Options) string
	// inGarden says that some of it is in the cluster that the garden's own components run in.
	inGarden bool
	// kind and name are for programs.
	kind document.Kind
	name func(T) string
}

func newEvents(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "events SHOOT",
		Short: "Show the events of a live migration, of the garden and of both seeds in one list",
		Long: "Show the events of a live migration in the order of time: those of the Shoot in the garden, and those " +
			"of its namespace in\nthe seeds that there is access to. They begin with the migration, unless --since " +
			"says otherwise. API servers keep events\nfor an hour. With -f, show what is added until an " +
			"interrupt.\n\n" +
			"The exit code is 1 if the events of a seed could not be read. An interrupt ends -f with 0.",
		Example: example(
			"%[1]s events live --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s events live --since 10m -o wide",
			"%[1]s events live -f",
		),
	}
	return timeline(o, command, reported[view.Event]{
		read: inspect.Timeline.Events, draw: view.Events, kind: document.EventList, name: eventName,
		at: func(event view.Event) time.Time { return event.Time },
	})
}

func newLogs(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "logs SHOOT",
		Short: "Show what agents and relays of both seeds have logged about a live migration",
		Long: "Show the logs of a live migration in the order of time: what the agents of both seeds (or the drop-in " +
			"gardenlets) have\nwritten about the shoot, and what its relays and fronts have. They begin with the " +
			"migration, unless --since says\notherwise. That needs access to the seeds. With --runtime-kubeconfig, " +
			"also what livecpm-controller-manager has written about\nthe shoot. With -f, show what is added until an " +
			"interrupt.\n\n" +
			"The exit code is 1 if a log could not be read. An interrupt ends -f with 0.",
		Example: example(
			"%[1]s logs live --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s logs live --since 10m | grep '\"level\":\"error\"'",
			"%[1]s logs live -f --since 1m",
			"%[1]s logs live --runtime-kubeconfig runtime.yaml",
		),
	}
	o.addRuntimeAccess(command)
	return timeline(o, command, reported[view.LogLine]{
		read: inspect.Timeline.Logs, draw: view.Logs, inGarden: true, kind: document.LogLineList,
		name: func(line view.LogLine) string { return "pod/" + line.Pod },
		at:   func(line view.LogLine) time.Time { return line.Time },
	})
}

// timeline completes a command that shows what was reported about one shoot.
func timeline[T comparable](o *options, command *cobra.Command, r reported[T]) *cobra.Command {
	var (
		since  time.Duration
		follow bool
	)
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(command *cobra.Command, args []string) error {
		s, err := o.open(command.Context())
		if err != nil {
			return err
		}
		defer s.close()
		ctx := command.Context()
		shoot, err := s.garden.Shoot(ctx, args[0])
		if err != nil {
			return err
		}
		migration := summary.Summarize(shoot, o.clock.Now())
		s.reach(ctx, migration.Source, migration.Destination)
		t := inspect.Timeline{Garden: s.garden, Seeds: s.seeds, Shoot: shoot, Since: o.since(migration, since)}
		if r.inGarden {
			if t.Runtime, err = s.openRuntime(); err != nil {
				return err
			}
		}
		if follow {
			return r.follow(ctx, o, t, s.seedsOf(migration))
		}
		found, missing := r.read(t, ctx, s.seedsOf(migration)...)
		if err := o.print(r.document(found), func() string { return r.draw(found, o.view()) }); err != nil {
			return err
		}
		return o.incomplete(missing)
	}
	command.Flags().DurationVar(&since, "since", 0,
		"show what is not older than this, as in 10m (default: since the migration began)")
	command.Flags().BoolVarP(&follow, "follow", "f", false, "show what is added, until an interrupt")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

func (r reported[T]) document(found []T) document.Document {
	return document.Document{Kind: r.kind, Value: found, Names: slices.Compact(namesOf(found, r.name))}
}

// follow shows what there is and what is added, each thing once, until the context ends. What is missing is said
// whenever it is something else.
func (r reported[T]) follow(ctx context.Context, o *options, t inspect.Timeline, seeds []string) error {
	var (
		shown = map[T]bool{}
		told  string
	)
	for {
		found, missing := r.read(t, ctx, seeds...)
		if ctx.Err() != nil {
			return interrupted(context.Cause(ctx))
		}
		if missing == nil {
			// Whoever could not be read may have something older to say.
			t.Since = r.advance(t.Since, found)
			maps.DeleteFunc(shown, func(each T, _ bool) bool { return r.at(each).Before(t.Since) })
			told = ""
		} else if told != missing.Error() {
			told = missing.Error()
			_ = o.incomplete(missing)
		}
		added := slices.DeleteFunc(found, func(each T) bool { return shown[each] || r.at(each).Before(t.Since) })
		for _, each := range added {
			shown[each] = true
		}
		if err := r.write(o, added); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return interrupted(context.Cause(ctx))
		case <-o.clock.After(cmp.Or(o.interval, view.DefaultInterval)):
		}
	}
}

// lag is how much later than another something may be seen that was reported at the same time.
const lag = 30 * time.Second

// advance returns from when on the next look has to read.
func (r reported[T]) advance(since time.Time, found []T) time.Time {
	for _, each := range found {
		if at := r.at(each).Add(-lag); at.After(since) {
			since = at
		}
	}
	return since
}

// write shows what was added, if anything was.
func (r reported[T]) write(o *options, added []T) error {
	switch {
	case len(added) == 0:
		return nil
	case o.machine():
		return o.printer.Stream(o.Out, r.document(added))
	}
	_, err := io.WriteString(o.Out, o.glyphs(r.draw(added, o.view())))
	return err
}

// since returns the time from which on something about the migration is of interest.
func (o *options) since(migration summary.Summary, asked time.Duration) time.Time {
	switch {
	case asked > 0:
		return o.clock.Now().Add(-asked)
	case migration.Started != nil:
		return migration.Started.Add(-beforeStart)
	}
	return o.clock.Now().Add(-recent)
}

// seedsOf returns the seeds of the migration, and all others that there is access to: a Shoot does not know which seed
// it came from.
func (s *surroundings) seedsOf(migration summary.Summary) []string {
	seeds := map[string]bool{}
	for _, name := range append(slices.Collect(maps.Keys(s.seeds)), migration.Source, migration.Destination) {
		if name != "" {
			seeds[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seeds))
}

// eventName is the name of the object that the event is about.
func eventName(event view.Event) string {
	kind, name, _ := strings.Cut(event.Object, " ")
	return strings.ToLower(kind) + "/" + name
}

// incomplete says what is missing in an answer, and makes it the answer no.
func (o *options) incomplete(missing error) error {
	if missing == nil {
		return nil
	}
	_, _ = fmt.Fprintf(o.Err, "Not complete:\n%v\n", missing)
	return exit.Answer(false).Err()
}
