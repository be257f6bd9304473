// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	schedulerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/scheduler/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newDrain(o *options) *cobra.Command {
	var cancel, status bool
	command := &cobra.Command{
		Use:   "drain SEED",
		Short: "Move all shoots off a seed, show how far that is, or cancel it",
		Long: "Move all shoots off a seed: the annotation " + drain.AnnotationDrain + " is set on the Seed, and\n" +
			"livecpm-controller-manager does the rest. `drain start SEED` is the same, for seeds that have the name " +
			"of a command.",
		Example: example(
			"%[1]s drain plan seed-a       # which shoots can leave, and where to",
			"%[1]s drain seed-a",
			"%[1]s drain status seed-a",
			"%[1]s drain wait seed-a --timeout 12h",
			"%[1]s drain cancel seed-a",
		),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case status:
				return o.drainStatus(command.Context(), args[0])
			case cancel:
				return o.steerSeed(command.Context(), args[0], steer.Steerer.CancelDrain)
			}
			return o.drain(command, args[0])
		},
	}
	addSettings(command)
	command.Flags().BoolVar(&cancel, "cancel", false, "")
	old(command, "cancel", "a command: kubectl livecpm drain cancel SEED")
	command.Flags().BoolVar(&status, "status", false, "")
	old(command, "status", "a command: kubectl livecpm drain status SEED")
	command.MarkFlagsMutuallyExclusive("cancel", "status")
	o.addDryRun(command)
	o.ofSeed(command)
	command.AddCommand(newDrainPlan(o), newDrainStart(o), newDrainStatus(o), newDrainWait(o), newDrainCancel(o))
	return command
}

// ofSeed completes a command that is about one seed.
func (o *options) ofSeed(command *cobra.Command) *cobra.Command {
	command.Args = cobra.ExactArgs(1)
	completeArgument(command, o.seedNames)
	o.addOutput(command)
	return command
}

func newDrainPlan(o *options) *cobra.Command {
	var strategy string
	command := o.ofSeed(&cobra.Command{
		Use:   "plan SEED",
		Short: "Show which shoots could leave a seed, where to, and what keeps the others",
		Long: "Show what a drain of the seed would do, without asking for it: the shoots in the order in which they " +
			"would leave, their\n" +
			"destinations, and what blocks the others. livecpm-controller-manager decides by the same code when the " +
			"turn of a shoot has\ncome; by then other seeds may be the better choice.\n\n" +
			"The exit code is 0 if all shoots could leave, 1 if something blocks one of them.",
		Example: example("%[1]s drain plan seed-a", "%[1]s drain plan seed-a -o wide"),
		RunE: func(command *cobra.Command, args []string) error {
			return o.drainPlan(command, args[0], strategy)
		},
	})
	command.Flags().StringVar(&strategy, "strategy", strategies[0],
		"strategy of the scheduler, as in the configuration of livecpm-controller-manager: "+
			strings.Join(strategies, ", "))
	addSettings(command)
	complete(command, "strategy", func(*cobra.Command) ([]string, error) { return strategies, nil })
	return command
}

var strategies = []string{string(schedulerconfigv1alpha1.SameRegion), string(schedulerconfigv1alpha1.MinimalDistance)}

func (o *options) drainPlan(command *cobra.Command, name, strategy string) error {
	ctx := command.Context()
	if !slices.Contains(strategies, strategy) {
		return fmt.Errorf("--strategy is %q; it can be %s", strategy, strings.Join(strategies, ", "))
	}
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	plan, err := inspect.DrainPlanReader{Garden: g, Strategy: strategy, Clock: o.clock,
		Settings: settingsOf(command)}.Read(ctx, name)
	if err != nil {
		return err
	}
	drawn := view.DrainPlan{Seed: name, Counts: plan.Counts(), Shoots: plan.Table().Shoots}
	answer := document.Document{Kind: document.DrainPlan, Value: drawn, Names: namesOf(drawn.Shoots,
		func(row drain.TableRow) string { return shootName(row.Name) })}
	if err := o.print(answer, func() string { return drawn.Text(o.view()) }); err != nil {
		return err
	}
	return exit.Answer(drawn.Counts.Blocked == 0).Err()
}

func newDrainStart(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "start SEED",
		Short: "Move all shoots off a seed",
		Long:  "Move all shoots off a seed, as `drain SEED` does. No shoot is moved by this command itself.",
		Example: example("%[1]s drain start seed-a", "%[1]s drain start seed-a --canaries=3 --soak=2h",
			"%[1]s drain start seed-a --dry-run=server"),
		RunE: func(command *cobra.Command, args []string) error { return o.drain(command, args[0]) },
	}
	addSettings(command)
	o.addDryRun(command)
	return o.ofSeed(command)
}

// addSettings adds a flag for each setting of a drain, and says what they have in common.
func addSettings(command *cobra.Command) {
	command.Long += "\n\nThe settings of the drain are annotations of the Seed: --soak is " + drain.AnnotationSoak +
		", and so on.\nWithout a flag its annotation stays as it is. An empty value removes it."
	for _, setting := range drain.AllSettings() {
		command.Flags().String(setting.Name, "", setting.Means+": "+setting.Form)
	}
}

// settingsOf returns the annotations that are asked for by flags.
func settingsOf(command *cobra.Command) map[string]string {
	out := map[string]string{}
	for _, setting := range drain.AllSettings() {
		if flag := command.Flags().Lookup(setting.Name); flag != nil && flag.Changed {
			out[setting.Annotation] = flag.Value.String()
		}
	}
	return out
}

// drain asks for the drain of the seed, with the settings of the flags.
func (o *options) drain(command *cobra.Command, name string) error {
	settings := settingsOf(command)
	return o.steerSeed(command.Context(), name,
		func(s steer.Steerer, ctx context.Context, seed *gardencorev1beta1.Seed) (steer.Result, error) {
			return s.Drain(ctx, seed, settings)
		})
}

func newDrainCancel(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "cancel SEED",
		Short: "Withdraw the request to move all shoots off a seed",
		Long: "Withdraw the request to move all shoots off a seed. Migrations in flight continue, and shoots that " +
			"have moved stay where\nthey are.",
		Example: example("%[1]s drain cancel seed-a"),
		RunE: func(command *cobra.Command, args []string) error {
			return o.steerSeed(command.Context(), args[0], steer.Steerer.CancelDrain)
		},
	}
	o.addDryRun(command)
	return o.ofSeed(command)
}

func newDrainStatus(o *options) *cobra.Command {
	return o.ofSeed(&cobra.Command{
		Use:   "status SEED",
		Short: "Show how far the drain of a seed is",
		Long: "Show how far the drain of a seed is: the condition " + string(drain.ConditionDrained) +
			" of the Seed,\nand every shoot with the reason why it waits or stays.",
		Example: example("%[1]s drain status seed-a", "%[1]s drain status seed-a -o wide"),
		RunE: func(command *cobra.Command, args []string) error {
			return o.drainStatus(command.Context(), args[0])
		},
	})
}

func newDrainWait(o *options) *cobra.Command {
	var timeout time.Duration
	command := o.ofSeed(&cobra.Command{
		Use:   "wait SEED",
		Short: "Wait until no shoot is left in a seed",
		Long: "Wait until no shoot is left in a seed that is drained, and write a line whenever the condition of the " +
			"Seed changes.\n\n" +
			"The exit code is 0 when no shoot is left; 1 if no drain is requested (any more); 3 if the timeout " +
			"expires; 4 if an operator\nhas to act: only shoots are left that something blocks, or too many " +
			"migrations have failed.",
		Example: example("%[1]s drain wait seed-a --timeout 12h"),
		RunE: func(command *cobra.Command, args []string) error {
			return o.drainWait(command.Context(), args[0], timeout)
		},
	})
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0 for no limit")
	return command
}

// steerSeed lets the act change the seed, and reports what it did.
func (o *options) steerSeed(ctx context.Context, name string,
	act func(steer.Steerer, context.Context, *gardencorev1beta1.Seed) (steer.Result, error),
) error {
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	seed, err := g.Seed(ctx, name)
	if err != nil {
		return err
	}
	result, err := act(o.steerer(g), ctx, seed)
	if err != nil {
		return err
	}
	return o.report(result)
}

// drainStatus shows the progress of the seed's drain.
func (o *options) drainStatus(ctx context.Context, name string) error {
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	d, err := drainOf(ctx, g, name)
	if err != nil {
		return err
	}
	return o.print(drainDocument(d), func() string { return view.Drain(d, o.view()) })
}

// drainOf reads the progress of the seed's drain. A user who may not read the table sees the condition.
func drainOf(ctx context.Context, g *access.Garden, name string) (summary.Drain, error) {
	seed, err := g.Seed(ctx, name)
	if err != nil {
		return summary.Drain{}, err
	}
	table, err := g.DrainTable(ctx, name)
	return summary.DrainOf(seed, table, err), nil
}

func drainDocument(d summary.Drain) document.Document {
	return document.Document{Kind: document.Drain, Value: d, Names: []string{seedName(d.Seed)}}
}

// drainWait waits until the drain has ended or needs an operator.
func (o *options) drainWait(ctx context.Context, name string, timeout time.Duration) error {
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := o.withTimeout(ctx, timeout)
	defer cancel()
	var (
		last     summary.Drain
		previous string
		showErr  error
	)
	// The loop takes care of looks that fail; what is seen is a drain here, not a migration.
	loop := o.loop(func(ctx context.Context) (summary.ControlPlane, error) {
		var err error
		last, err = drainOf(ctx, g, name)
		return summary.ControlPlane{}, err
	})
	err = loop.Run(ctx, func(summary.ControlPlane) bool {
		if line := view.DrainLine(last); line != previous {
			previous = line
			showErr = o.showDrain(last, line)
		}
		_, ended := exit.OfDrain(last)
		return ended || showErr != nil
	})
	switch {
	case errors.Is(err, view.ErrTimeout):
		return exit.With(exit.Timeout, errors.New("timed out; the last state is: "+previous))
	case err != nil || showErr != nil:
		return errors.Join(err, showErr)
	}
	code, _ := exit.OfDrain(last)
	if code == exit.Done {
		return nil
	}
	return exit.With(code, errors.New(previous))
}

func (o *options) showDrain(d summary.Drain, line string) error {
	if o.machine() {
		return o.printer.Stream(o.Out, drainDocument(d))
	}
	_, err := o.Out.Write([]byte(o.view().Clock(o.clock.Now()) + "  " + line + "\n"))
	return err
}
