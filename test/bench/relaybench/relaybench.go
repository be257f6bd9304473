// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package relaybench measures what the way through two relays costs, compared with a direct connection. Both ends are
// in this process, the relays in processes of their own, all over loopback.
package relaybench

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/machine"
	"github.com/livecpm/livecpm/test/program"
)

// Options say how much is measured.
type Options struct {
	// Command runs Serve with the configuration file that is added to it.
	Command []string
	// Rounds is how often direct and relayed take turns, so that both see the same machine. Connects and RoundTrips are
	// how many of them each has in a round, Transfer is how long each sends.
	Rounds, Connects, RoundTrips int
	Transfer                     time.Duration
	// Connections is how many idle connections are held for their memory.
	Connections int
	// Say takes the progress.
	Say func(format string, args ...any)
}

// DefaultOptions takes about a minute.
func DefaultOptions() Options {
	return Options{Rounds: 10, Connects: 30, RoundTrips: 2000, Transfer: time.Second, Connections: 400}
}

// settle is how long the relays are left alone before their memory is looked at.
const settle = 2 * time.Second

// Process is a relay.
type Process struct {
	command *exec.Cmd
}

// Sample returns what the relay has used until now.
func (p Process) Sample() (machine.Sample, error) {
	return machine.Read(machine.Proc, p.command.Process.Pid)
}

// Run measures. The environment is left to the caller.
func Run(ctx context.Context, options Options) (*data.Relay, error) {
	folder, err := os.MkdirTemp("", "livecpm-relaybench-")
	if err != nil {
		return nil, fmt.Errorf("failed to make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := WriteTLS(folder); err != nil {
		return nil, err
	}
	end, roots, err := newTarget()
	if err != nil {
		return nil, err
	}
	defer end.Close()

	start := Start{Command: options.Command, Folder: folder}
	farPort, nearPort := program.FreePort(), program.FreePort()
	far, err := start.Relay(ctx, "far",
		fmt.Sprintf("far: {port: %d, routes: [{serverName: %q, innerSNI: [%q], target: %q}]}", farPort, OuterName(0),
			innerName, end.Addr()))
	if err != nil {
		return nil, err
	}
	defer far.Stop()
	near, err := start.Relay(ctx, "near",
		fmt.Sprintf("near: [{port: %d, routes: [{innerSNI: [%q], remote: {host: 127.0.0.1, port: %d, "+
			"serverName: %q}}]}]", nearPort, innerName, farPort, OuterName(0)))
	if err != nil {
		return nil, err
	}
	defer near.Stop()

	b := &bench{
		Options: options, near: near, far: far, result: &data.Relay{},
		direct:  way{end.Addr().String(), roots},
		relayed: way{fmt.Sprintf("127.0.0.1:%d", nearPort), roots},
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		// The relays have used nothing yet that they could use again.
		{"memory", b.memory},
		{"connect", b.connect}, {"round trip", b.roundTrip}, {"throughput", b.throughput},
	} {
		options.Say("relay: %s", part.name)
		if err := part.run(ctx); err != nil {
			return nil, fmt.Errorf("failed to measure %s: %w", part.name, err)
		}
	}
	return b.result, nil
}

type bench struct {
	Options
	near, far       Process
	direct, relayed way
	result          *data.Relay
}

// inTurns lets both ways take turns.
func (b *bench) inTurns(
	ctx context.Context, do func(context.Context, way) ([]time.Duration, error),
) (data.Pair, error) {
	var direct, relayed []time.Duration
	for range b.Rounds {
		for _, turn := range []struct {
			way way
			all *[]time.Duration
		}{{b.direct, &direct}, {b.relayed, &relayed}} {
			took, err := do(ctx, turn.way)
			if err != nil {
				return data.Pair{}, err
			}
			*turn.all = append(*turn.all, took...)
		}
	}
	return data.Pair{Direct: latency(direct), Relayed: latency(relayed)}, nil
}

func (b *bench) connect(ctx context.Context) (err error) {
	b.result.Connect, err = b.inTurns(ctx, func(ctx context.Context, w way) ([]time.Duration, error) {
		var all []time.Duration
		for range b.Connects {
			begin := time.Now()
			conn, err := w.dial(ctx)
			if err != nil {
				return nil, err
			}
			all = append(all, time.Since(begin))
			_ = conn.Close()
		}
		return all, nil
	})
	return err
}

func (b *bench) roundTrip(ctx context.Context) (err error) {
	b.result.RoundTrip, err = b.inTurns(ctx, func(ctx context.Context, w way) ([]time.Duration, error) {
		conn, err := w.echoing(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		message, answer := make([]byte, 1<<10), make([]byte, 1<<10)
		var all []time.Duration
		for range b.RoundTrips {
			begin := time.Now()
			if err := exchange(conn, message, answer); err != nil {
				return nil, err
			}
			all = append(all, time.Since(begin))
		}
		return all, nil
	})
	return err
}

func (b *bench) throughput(ctx context.Context) error {
	const mb = 1_000_000
	var (
		bytes        = map[string]int64{}
		took         = map[string]time.Duration{}
		nearCPU, far time.Duration
	)
	for range b.Rounds {
		count, duration, err := b.direct.transfer(ctx, b.Transfer)
		if err != nil {
			return err
		}
		bytes["direct"] += count
		took["direct"] += duration

		before, err := b.samples()
		if err != nil {
			return err
		}
		if count, duration, err = b.relayed.transfer(ctx, b.Transfer); err != nil {
			return err
		}
		after, err := b.samples()
		if err != nil {
			return err
		}
		bytes["relayed"] += count
		took["relayed"] += duration
		nearCPU += after[0].CPU - before[0].CPU
		far += after[1].CPU - before[1].CPU
	}
	b.result.DirectMBPerSecond = float64(bytes["direct"]) / mb / took["direct"].Seconds()
	b.result.RelayedMBPerSecond = float64(bytes["relayed"]) / mb / took["relayed"].Seconds()
	b.result.NearCPUSeconds = nearCPU.Seconds() * 100 * mb / float64(bytes["relayed"])
	b.result.FarCPUSeconds = far.Seconds() * 100 * mb / float64(bytes["relayed"])
	return nil
}

// samples returns what near and far relay have used.
func (b *bench) samples() ([2]machine.Sample, error) {
	near, err := b.near.Sample()
	if err != nil {
		return [2]machine.Sample{}, err
	}
	far, err := b.far.Sample()
	return [2]machine.Sample{near, far}, err
}

// memory holds idle connections over which something has gone in both directions.
func (b *bench) memory(ctx context.Context) error {
	if err := program.Sleep(ctx, settle); err != nil {
		return err
	}
	before, err := b.samples()
	if err != nil {
		return err
	}
	var connections []*tls.Conn
	defer func() {
		for _, conn := range connections {
			_ = conn.Close()
		}
	}()
	for range b.Connections {
		conn, err := b.relayed.echoing(ctx)
		if err != nil {
			return err
		}
		connections = append(connections, conn)
	}
	if err := program.Sleep(ctx, settle); err != nil {
		return err
	}
	after, err := b.samples()
	if err != nil {
		return err
	}
	each := func(i int) float64 {
		return (after[i].ResidentMiB - before[i].ResidentMiB) * 1024 / float64(b.Connections)
	}
	b.result.Connections, b.result.NearKiBPerConnection, b.result.FarKiBPerConnection = b.Connections, each(0), each(1)
	return nil
}

// Start starts relays.
type Start struct {
	// Command runs Serve with the configuration file that is added to it.
	Command []string
	// Folder has the credentials of the relays (WriteTLS), and gets their configurations.
	Folder string
}

// Relay runs a relay with the part of a configuration that is its own, and waits until it serves. The caller stops it.
func (s Start) Relay(ctx context.Context, name, part string) (Process, error) {
	health := program.FreePort()
	content := fmt.Sprintf("namespace: %s\ntls: {caFile: %[2]s/ca.crt, certFile: %[2]s/tls.crt, keyFile: "+
		"%[2]s/tls.key}\nhealth: {port: %d}\nmetrics: {port: %d}\n%s\n",
		namespace, s.Folder, health, program.FreePort(), part)
	file := filepath.Join(s.Folder, name+".yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return Process{}, fmt.Errorf("failed to write the configuration of the %s relay: %w", name, err)
	}
	arguments := append(slices.Clone(s.Command[1:]), file)
	p := Process{exec.Command(s.Command[0], arguments...)} //nolint:gosec // It is this very program.
	p.command.Stdout, p.command.Stderr = os.Stderr, os.Stderr
	if err := p.command.Start(); err != nil {
		return Process{}, fmt.Errorf("failed to start the %s relay: %w", name, err)
	}
	if err := program.AwaitReady(ctx, health, 20*time.Second); err != nil {
		p.Stop()
		return Process{}, fmt.Errorf("the %s relay is %w", name, err)
	}
	return p, nil
}

// Stop ends the relay without waiting for connections.
func (p Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGKILL)
	_ = p.command.Wait()
}
