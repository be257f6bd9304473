// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/dns"
)

func newPlan(o *options) *cobra.Command {
	f := &planFlags{}
	command := &cobra.Command{
		Use:   "plan SHOOT",
		Short: "Check whether a shoot is ready for a live migration, and show what would happen",
		Long: "Check whether a shoot is ready for a live migration. The plan shows every prerequisite with what was " +
			"seen, the steps with\n" +
			"how long they may take, and the next command. Without --to it compares the seeds. It writes nothing,\n" +
			"except with --probe: then it asks the agents of both seeds, by an annotation on their Seeds, to probe " +
			"the connection\nbetween them, and waits for what they find. That needs the permission to patch " +
			"Seeds.\n\n" +
			"If nothing but the distance is in the way, the plan shows the shortest way by other seeds, with the\n" +
			"commands for it. With --probe the agents of these seeds probe the connections on the way as well.\n\n" +
			"A check that cannot be made from here is Unknown; the agents make it before the migration begins.\n" +
			"The exit code is 1 if the shoot is not ready to migrate; with --probe 3 if the agents have not\n" +
			"completed the probe within 15 minutes and nothing else is in the way.",
		Example: example(
			"%[1]s plan live -n garden-demo",
			"%[1]s plan live --to seed-b",
			"%[1]s plan live --to seed-b --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml   # with "+
				"etcd and agents",
			"%[1]s plan live --to seed-b --probe     # with relays, through both gateways",
			"%[1]s plan live -o json | jq .canGo",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			p, err := o.plan(command.Context(), args[0], f)
			if err != nil {
				return err
			}
			if err := o.print(planDocument(p), func() string { return p.Text(o.view()) }); err != nil {
				return err
			}
			return o.planEnd(p)
		},
	}
	o.addPlanFlags(command, f)
	command.Flags().BoolVar(&f.probe, "probe", false,
		"let the agents of both seeds probe the connection between them before, through the gateways and relays that "+
			"a migration takes")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	o.addDryRun(command)
	return command
}

// planEnd ends plan. If a probe has timed out and nothing else is in the way, the answer is not known yet. What else is
// in the way is an answer, whatever the probe would find.
func (o *options) planEnd(p view.Plan) error {
	switch {
	case p.ProbeTimedOut == "":
		return exit.Answer(p.CanGo).Err()
	case inspect.OnlyProbeMissing(p):
		return exit.With(exit.Timeout, errors.New(p.ProbeTimedOut))
	}
	_, _ = fmt.Fprintf(o.Err, "Besides, %s.\n", p.ProbeTimedOut)
	return exit.With(exit.No, nil)
}

// planDocument names the seeds that are suitable, the best first.
func planDocument(p view.Plan) document.Document {
	answer := document.Document{Kind: document.Plan, Value: p}
	for _, candidate := range p.Candidates {
		if candidate.Fit {
			answer.Names = append(answer.Names, seedName(candidate.Seed))
		}
	}
	if len(p.Candidates) == 0 && p.CanGo {
		answer.Names = []string{seedName(p.Destination)}
	}
	return answer
}

// planFlags are what a plan is made for.
type planFlags struct {
	// to is the seed to move to.
	to string
	// probe asks for a probe of the connection between the seeds.
	probe bool
}

func (o *options) addPlanFlags(command *cobra.Command, f *planFlags) {
	command.Flags().StringVar(&f.to, "to", "", "seed to move to")
	complete(command, "to", o.seedNames)
}

func (o *options) plan(ctx context.Context, name string, f *planFlags) (view.Plan, error) {
	s, err := o.open(ctx)
	if err != nil {
		return view.Plan{}, err
	}
	defer s.close()
	shoot, err := s.garden.Shoot(ctx, name)
	if err != nil {
		return view.Plan{}, err
	}
	s.reach(ctx, ptr.Deref(shoot.Status.SeedName, ""), f.to)
	probed, err := o.probeConnection(ctx, s, shoot, f)
	late := ""
	switch {
	case errors.Is(err, steer.ErrProbeTimeout):
		late = err.Error()
	case err != nil:
		return view.Plan{}, err
	}
	judge := func() (view.Plan, error) {
		in, err := inspect.PlanReader{Garden: s.garden, Seeds: s.seeds, Members: s.members,
			NameServers: dns.NewNameServers(nil), Clock: o.clock}.Read(ctx, shoot, f.to)
		if err != nil {
			return view.Plan{}, err
		}
		in.Probed, in.ProbeTimedOut = probed, late
		return inspect.Plan(in, f.to)
	}
	p, err := judge()
	if err != nil || !probed || p.Detour == nil || len(p.Detour.NotMeasured()) == 0 {
		return p, err
	}
	switch err := o.probeDetour(ctx, s, shoot, *p.Detour); {
	case errors.Is(err, steer.ErrProbeTimeout):
		late = err.Error()
	case err != nil:
		return view.Plan{}, err
	}
	return judge()
}

// probeDetour lets the agents probe the connections on the way to a destination that is too far away for one migration.
func (o *options) probeDetour(
	ctx context.Context, s *surroundings, shoot *gardencorev1beta1.Shoot, detour view.Detour,
) error {
	for _, hop := range detour.NotMeasured() {
		probe := steer.ConnectionProbe{Client: s.garden.Client, Clock: o.clock, DryRun: o.dryRun, Out: o.Err}
		if hop.Source == ptr.Deref(shoot.Status.SeedName, "") {
			// Nobody knows in other seeds what the control plane needs.
			probe.Shoot = client.ObjectKeyFromObject(shoot)
		}
		if err := probe.Do(ctx, hop.Source, hop.Destination); err != nil {
			return err
		}
	}
	return nil
}

// probeConnection lets the agents probe the connection between the seeds, if that is asked for, and returns whether it
// was. A shoot that is not in a seed, or stays in its seed, has none; the plan says so.
func (o *options) probeConnection(
	ctx context.Context, s *surroundings, shoot *gardencorev1beta1.Shoot, f *planFlags,
) (bool, error) {
	source := ptr.Deref(shoot.Status.SeedName, "")
	switch {
	case !f.probe:
		return false, nil
	case f.to == "":
		return false, errNoSeedToProbe
	case source == "" || source == f.to:
		return false, nil
	}
	return !o.dry(), steer.ConnectionProbe{Client: s.garden.Client, Clock: o.clock, DryRun: o.dryRun,
		Shoot: client.ObjectKeyFromObject(shoot), Out: o.Err}.Do(ctx, source, f.to)
}

var errNoSeedToProbe = errors.New("--probe needs the seed to move to: give it with --to")

var errNoSeed = errors.New("give the seed to move to with --to; `kubectl livecpm plan SHOOT` compares the seeds")
