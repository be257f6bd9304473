// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

const (
	// probeValidity is what credentials for the shoot are asked for. The garden may give them for a shorter time.
	probeValidity = 12 * time.Hour
	// probeReserve is how long before the credentials expire the load must end, so that it can be verified and cleaned
	// up.
	probeReserve = 5 * time.Minute
	// minimumRate gives one request per second of each kind.
	minimumRate = 4
)

// probeFlags are what the user can choose.
type probeFlags struct {
	rate, connections, newPercent, watches int
	duration, after, every                 time.Duration
	untilComplete                          bool
	dnsServer                              string
}

func newProbe(o *options) *cobra.Command {
	f := &probeFlags{}
	command := &cobra.Command{
		Use:   "probe SHOOT",
		Short: "Put load on the API server of a shoot and measure what its clients notice",
		Long: "Put load on the API server of a shoot, by its public name and without any retry, and measure what its " +
			"clients notice:\n" +
			"reads, writes and Events over kept and new connections, lists in pages, custom resources, an election " +
			"of leaders,\n" +
			"informers, and long watches. Every write that was acknowledged must reach each watch and be there in " +
			"the end.\n\n" +
			"It works in a namespace of its own in the shoot, livecpm-probe-…, with 2,000 small ConfigMaps to " +
			"list, and with\n" +
			"a CustomResourceDefinition of its own. It removes them in the end, also on Ctrl-C. The load ends\n" +
			"with --duration, with the migration (--until-complete), or on Ctrl-C. The exit code is 1 if anything " +
			"failed or was lost.\n" +
			"Access to the shoot is requested from the garden (shoots/adminkubeconfig).",
		Example: example(
			"%[1]s probe live --until-complete        # in a second terminal: kubectl livecpm start live --to "+
				"seed-b --watch",
			"%[1]s probe live --duration 10m --rate 100 --connections 8 --new 20",
			"%[1]s probe live --duration 1m -o json | jq .failures",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			if o.dry() {
				return o.wouldProbe(command.Context(), args[0], f)
			}
			return o.probe(command.Context(), args[0], f)
		},
	}
	flags := command.Flags()
	flags.IntVar(&f.rate, "rate", 70, "requests per second: about two fifths are writes, the rest reads")
	flags.IntVar(&f.connections, "connections", 4, "number of kept connections that requests share")
	flags.IntVar(&f.newPercent, "new", 50,
		"percentage of the requests that use a new connection and a new DNS lookup each")
	flags.IntVar(&f.watches, "watches", 10, "number of long watches")
	flags.DurationVar(&f.duration, "duration", 0, "how long the load lasts; 0 for no limit")
	flags.BoolVar(&f.untilComplete, "until-complete", false,
		"end the load when the live migration has ended; wait for one if none is in flight")
	flags.DurationVar(&f.after, "after", 30*time.Second,
		"how long the load continues after the migration, with --until-complete")
	flags.DurationVar(&f.every, "every", 10*time.Second, "time between two lines about the progress")
	flags.StringVar(&f.dnsServer, "dns-server", "",
		"address of the DNS server to ask, as in 10.0.0.1:53; it also shows moments without a record (default: the "+
			"system's resolver)")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	o.addDryRun(command)
	return command
}

func (f *probeFlags) validate() error {
	switch {
	case f.rate < minimumRate:
		return fmt.Errorf("--rate is %d; it must be at least %d", f.rate, minimumRate)
	case f.connections < 1:
		return fmt.Errorf("--connections is %d; it must be at least 1", f.connections)
	case f.newPercent < 0 || f.newPercent > 100:
		return fmt.Errorf("--new is %d; it is a percentage", f.newPercent)
	case f.watches < 1:
		return fmt.Errorf("--watches is %d; it must be at least 1", f.watches)
	case f.duration < 0 || f.duration > probeValidity-probeReserve:
		return fmt.Errorf("--duration is %s; it can be at most %s, because the credentials for the shoot expire",
			f.duration, probeValidity-probeReserve)
	case f.every < time.Second:
		return fmt.Errorf("--every is %s; it must be at least 1s", f.every)
	}
	if f.dnsServer != "" {
		if _, _, err := net.SplitHostPort(f.dnsServer); err != nil {
			return fmt.Errorf("--dns-server is %q; give address and port, as in 10.0.0.1:53", f.dnsServer)
		}
	}
	return nil
}

// config divides the rate up as the demo of the repository does.
func (f *probeFlags) config() probe.Config {
	events := max(1, f.rate/35)
	writes := max(1, (f.rate-events)*7/17)
	return probe.Config{
		DNSServer:       f.dnsServer,
		WritesPerSecond: writes, ReadsPerSecond: max(1, f.rate-events-writes), EventsPerSecond: events,
		KeptConnections: f.connections, NewPercent: &f.newPercent, Watches: f.watches,
	}
}

// load is what a dry run of the probe shows.
type load struct {
	// Namespace and Shoot name the shoot.
	Namespace string `json:"namespace"`
	Shoot     string `json:"shoot"`
	// WritesPerSecond, ReadsPerSecond and EventsPerSecond are the requests, Connections the kept connections that they
	// share, Watches the long watches.
	WritesPerSecond int `json:"writesPerSecond"`
	ReadsPerSecond  int `json:"readsPerSecond"`
	EventsPerSecond int `json:"eventsPerSecond"`
	Connections     int `json:"connections"`
	Watches         int `json:"watches"`
	// Creates are what would be created, in the garden and in the shoot.
	Creates []string `json:"creates"`
}

// wouldProbe shows the load and what it would create.
func (o *options) wouldProbe(ctx context.Context, name string, f *probeFlags) error {
	if o.dryRun == steer.DryRunServer {
		return errors.New("the shoot's API server cannot be asked without credentials, and the garden issues these " +
			"for real; use --dry-run=client")
	}
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	shoot, err := g.Shoot(ctx, name)
	if err != nil {
		return err
	}
	config := f.config()
	would := load{Namespace: shoot.Namespace, Shoot: shoot.Name, WritesPerSecond: config.WritesPerSecond,
		ReadsPerSecond: config.ReadsPerSecond, EventsPerSecond: config.EventsPerSecond,
		Connections: config.KeptConnections, Watches: config.Watches,
		Creates: []string{
			"garden: shoots/adminkubeconfig of Shoot " + shoot.Namespace + "/" + shoot.Name,
			"shoot: Namespace livecpm-probe-<run>, with a ServiceAccount, a Role, a RoleBinding, 2,000 ConfigMaps, " +
				"Leases and Events in it",
			"shoot: CustomResourceDefinition samples.run-<run>.probe.livecpm.gardener.cloud",
		}}
	return o.print(document.Document{Kind: document.Load, Value: would, Names: []string{shootName(name)}},
		func() string {
			var out strings.Builder
			out.WriteString("Dry run (client): nothing was sent.\n")
			fmt.Fprintf(&out, "Load:   %d writes, %d reads and %d Events a second over %d kept connections, with %d "+
				"watches\n", would.WritesPerSecond, would.ReadsPerSecond, would.EventsPerSecond, would.Connections,
				would.Watches)
			for _, create := range would.Creates {
				out.WriteString("Create: " + create + "\n")
			}
			return out.String()
		})
}

// probed is what probe shows to programs.
type probed struct {
	*probe.Result
	// Failures says what went wrong.
	Failures []string `json:"failures"`
	// Details says more.
	Details *probe.Details `json:"details"`
}

func (o *options) probe(ctx context.Context, name string, f *probeFlags) error {
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	shoot, err := g.Shoot(ctx, name)
	if err != nil {
		return err
	}
	config, duration, err := o.probeConfig(ctx, g, shoot, f)
	if err != nil {
		return err
	}
	load, err := probe.New(config)
	if err != nil {
		return err
	}
	store, err := steer.DefaultCountsStore()
	if err != nil {
		return err
	}
	key := steer.CountsKey(g.Host, shoot)

	result, runErr := steer.ProbeRun{
		Load: load, Shoot: func(ctx context.Context) (*gardencorev1beta1.Shoot, error) { return g.Shoot(ctx, name) },
		Duration: duration, UntilComplete: f.untilComplete, After: f.after, Every: f.every,
		Publish: publisher(store, key, load.Series),
		Clock:   o.clock, Zone: zone, Out: o.Err,
	}.Do(ctx)
	runErr = errors.Join(runErr, store.Remove(key))
	if result == nil {
		return runErr
	}
	// By the end, the migration may have taken the annotation away.
	result.AgreedGap = steps.WithGap(shoot)
	return o.probeResult(name, result, runErr)
}

// publisher publishes the counts of the probe each time, and its course, which is longer, every few seconds.
func publisher(store steer.CountsStore, key string, series func() *recording.Series) func(summary.Probe) error {
	const every = 5 * time.Second
	var last time.Time
	return func(counts summary.Probe) error {
		err := store.Write(key, counts)
		if counts.Updated.Sub(last) < every {
			return err
		}
		last = counts.Updated.Time
		return errors.Join(err, store.WriteSeries(key, series()))
	}
}

// probeConfig returns what the probe works with, and for how long: as long as the credentials for the shoot last, if
// that is shorter than what was asked for.
func (o *options) probeConfig(
	ctx context.Context, g *access.Garden, shoot *gardencorev1beta1.Shoot, f *probeFlags,
) (probe.Config, time.Duration, error) {
	config := f.config()
	credentials, expires, err := access.Shoot(ctx, g.Client, shoot, probeValidity)
	if err != nil {
		return config, 0, err
	}
	config.REST = credentials
	if f.dnsServer != "" {
		host, err := access.PublicHost(shoot)
		if err != nil {
			return config, 0, err
		}
		config.DNSNames = []string{host}
	}
	left := expires.Sub(o.clock.Now()) - probeReserve
	if expires.IsZero() || (f.duration != 0 && f.duration <= left) {
		return config, f.duration, nil
	}
	// The garden may have given the credentials for a shorter time than they were asked for.
	if left <= 0 {
		return config, 0, fmt.Errorf("the garden gives credentials for the shoot until %s only, which is too short",
			o.view().Moment(expires))
	}
	_, _ = fmt.Fprintf(o.Err, "The load ends in %s at the latest: the credentials for the shoot expire.\n",
		view.Duration(left))
	return config, left, nil
}

// probeResult prints what was measured. The error is that of the run.
func (o *options) probeResult(name string, result *probe.Result, runErr error) error {
	failures := result.Failures()
	if failures == nil {
		failures = []string{}
	}
	answer := document.Document{Kind: document.LoadResult,
		Value: probed{Result: result, Failures: failures, Details: result.Details},
		Names: []string{shootName(name)}}
	if err := o.print(answer, func() string { return view.ProbeResult(result, o.view()) }); err != nil {
		return errors.Join(runErr, err)
	}
	if runErr != nil {
		return runErr
	}
	return exit.Answer(len(failures) == 0).Err()
}
