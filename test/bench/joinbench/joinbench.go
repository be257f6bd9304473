// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package joinbench measures how a learner joins an etcd by its snapshot, by what it waits for: a real etcd with so
// much data, a real learner, and two real relays between them as in a migration, all over loopback and with nothing
// else to do. What it takes beside a whole landscape is for the part of the sizes (test/bench/migrations).
package joinbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/fill"
	"github.com/livecpm/livecpm/test/bench/relaybench"
)

// Options say what is measured.
type Options struct {
	// Etcd is the path of the program.
	Etcd string
	// Relay runs relaybench.Serve with the configuration file that is added to it.
	Relay []string
	// Folder is where both etcds have their data. It is made, and removed with all that is in it. It should be on a
	// disk, and have room for four times the data.
	Folder string
	// MiB is how much data the etcd has.
	MiB int
	// Rounds is how often direct and relayed take turns, so that both see the same machine.
	Rounds int
	// Timeout is how long one join may take.
	Timeout time.Duration
	// Say takes the progress.
	Say func(format string, args ...any)
}

const (
	// startTimeout is how long an etcd without data may take to start.
	startTimeout = time.Minute
	// requestTimeout is how long etcd may take to answer a change of its members. It has no limit of its own.
	requestTimeout = 30 * time.Second
	// pollInterval is the pause between two attempts to make the learner a voter.
	pollInterval = 20 * time.Millisecond
	// copySize is in how large pieces etcd reads and writes a snapshot (io.Copy).
	copySize = 32 << 10

	mb = 1_000_000
)

// Run measures. The environment is left to the caller.
func Run(ctx context.Context, options Options) (_ *data.JoinRun, err error) {
	if err := os.MkdirAll(options.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("failed to make the folder of the etcds: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(options.Folder)) }()
	b := &bench{Options: options, ports: newPorts()}
	defer b.stop()
	if err := b.start(ctx); err != nil {
		return nil, err
	}

	options.Say("join: writing %d MiB", options.MiB)
	result := &data.JoinRun{MiB: options.MiB}
	if result.DatabaseMiB, err = fill.Write(ctx, b.client, options.MiB); err != nil {
		return nil, err
	}
	if err := b.speeds(ctx, result); err != nil {
		return nil, err
	}
	var direct, relayed []parts
	for round := range options.Rounds {
		for _, way := range []struct {
			name string
			port int
			all  *[]parts
		}{{"direct", b.ports.learner, &direct}, {"relayed", b.ports.toLearner, &relayed}} {
			took, err := b.join(ctx, way.port)
			if err != nil {
				return nil, fmt.Errorf("failed to measure the %s join of round %d: %w", way.name, round+1, err)
			}
			options.Say("join: %d MiB, round %d, %s: %s", options.MiB, round+1, way.name, took)
			*way.all = append(*way.all, took)
		}
	}
	result.Direct, result.Relayed = summed(direct), summed(relayed)
	return result, nil
}

type bench struct {
	Options
	ports  ports
	leader *member
	client *clientv3.Client
	// relays are that of the leader's side and that of the learner's.
	relays []relaybench.Process
}

// start starts the etcd with the data, still empty, and both relays.
func (b *bench) start(ctx context.Context) error {
	if err := writeTLS(b.Folder); err != nil {
		return err
	}
	if err := relaybench.WriteTLS(b.Folder); err != nil {
		return err
	}
	start := relaybench.Start{Command: b.Relay, Folder: b.Folder}
	for side, part := range b.ports.relays() {
		relay, err := start.Relay(ctx, fmt.Sprintf("side %d", side+1), part)
		if err != nil {
			return err
		}
		b.relays = append(b.relays, relay)
	}
	var err error
	if b.leader, err = b.etcd(leaderName, b.ports.leaderSide()); err != nil {
		return err
	}
	if b.client, err = b.leader.client(); err != nil {
		return err
	}
	return b.leader.awaitReady(ctx, startTimeout)
}

// stop ends all processes.
func (b *bench) stop() {
	if b.client != nil {
		_ = b.client.Close()
	}
	if b.leader != nil {
		b.leader.stop()
	}
	for _, relay := range b.relays {
		relay.Stop()
	}
}

// join lets a learner join that the leader reaches at the port, and takes it away again.
func (b *bench) join(ctx context.Context, port int) (_ parts, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	// The voter of the join before may have been the leader. etcd drops a change of its members without an answer until
	// a new leader has applied its log ("refusing propose conf change"); /health is a linearizable read, so it waits.
	if err := b.leader.awaitReady(ctx, startTimeout); err != nil {
		return parts{}, err
	}
	before, err := b.used()
	if err != nil {
		return parts{}, err
	}
	begin := time.Now()
	added, err := b.add(ctx, port)
	if err != nil {
		return parts{}, fmt.Errorf("failed to add the learner: %w\n%s", err, b.leader.tail())
	}
	learner, err := b.etcd(learnerName, b.ports.learnerSide(port))
	if err != nil {
		return parts{}, err
	}
	defer func() { err = errors.Join(err, learner.remove()) }()
	if err := b.promote(ctx, added.Member.ID); err != nil {
		return parts{}, fmt.Errorf("%w\n%s", err, learner.tail())
	}
	end := time.Now()

	after, err := b.used()
	if err != nil {
		return parts{}, err
	}
	own, err := learner.used()
	if err != nil {
		return parts{}, err
	}
	sync, err := learner.metric(ctx, "etcd_snap_db_fsync_duration_seconds_sum")
	if err != nil {
		return parts{}, err
	}
	out, err := partsOf(marks{begin: begin, end: end, leader: b.leader.log, learner: learner.log,
		id: fmt.Sprintf("%x", added.Member.ID), syncSeconds: sync})
	if err != nil {
		return parts{}, err
	}
	out.leaderCPU, out.relaysCPU = after.leader-before.leader, after.relays-before.relays
	out.learnerCPU = own
	removing, cancelRemoving := context.WithTimeout(ctx, requestTimeout)
	defer cancelRemoving()
	if _, err := b.client.MemberRemove(removing, added.Member.ID); err != nil {
		return parts{}, fmt.Errorf("failed to remove the member: %w\n%s", err, b.leader.tail())
	}
	return out, nil
}

// add adds the learner that the leader reaches at the port.
func (b *bench) add(ctx context.Context, port int) (*clientv3.MemberAddResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.client.MemberAddAsLearner(ctx, []string{peerURL(port)})
}

// promote makes the learner a voter as soon as etcd lets it.
func (b *bench) promote(ctx context.Context, id uint64) error {
	for {
		_, err := b.client.MemberPromote(ctx, id)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to promote the learner in time: %w", err)
		case <-time.After(pollInterval):
		}
	}
}

// usage is processor seconds.
type usage struct{ leader, relays float64 }

func (b *bench) used() (usage, error) {
	var out usage
	var err error
	if out.leader, err = b.leader.used(); err != nil {
		return usage{}, err
	}
	for _, relay := range b.relays {
		sample, err := relay.Sample()
		if err != nil {
			return usage{}, err
		}
		out.relays += sample.CPU.Seconds()
	}
	return out, nil
}

// speeds measures what a join consists of by itself.
func (b *bench) speeds(ctx context.Context, result *data.JoinRun) error {
	database := filepath.Join(b.leader.folder, "member", "snap", "db")
	size, took, err := copied(func() (int64, error) {
		file, err := os.Open(database)
		if err != nil {
			return 0, err
		}
		defer file.Close()
		return io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{file}, make([]byte, copySize))
	})
	if err != nil {
		return fmt.Errorf("failed to read the database: %w", err)
	}
	result.ReadMBPerSecond = speed(size, took)
	if size, took, err = copied(func() (int64, error) { return b.written(database) }); err != nil {
		return fmt.Errorf("failed to write as much as the database: %w", err)
	}
	result.WriteMBPerSecond = speed(size, took)
	if size, took, err = copied(func() (int64, error) {
		snapshot, err := b.client.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		defer snapshot.Close()
		return io.Copy(io.Discard, snapshot)
	}); err != nil {
		return fmt.Errorf("failed to take a snapshot as a client: %w", err)
	}
	result.ClientMBPerSecond = speed(size, took)
	return nil
}

// written copies a file as etcd saves a snapshot that it receives, and syncs it.
func (b *bench) written(from string) (size int64, err error) {
	source, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	target, err := os.CreateTemp(b.Folder, "written-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close(), os.Remove(target.Name())) }()
	if size, err = io.CopyBuffer(onlyWriter{target}, onlyReader{bufio.NewReaderSize(source, 1<<20)},
		make([]byte, copySize)); err != nil {
		return 0, err
	}
	return size, target.Sync()
}

// The buffer is used only if the ends do not copy by themselves.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func copied(do func() (int64, error)) (int64, time.Duration, error) {
	begin := time.Now()
	size, err := do()
	return size, time.Since(begin), err
}

func speed(size int64, took time.Duration) float64 {
	return math.Round(float64(size) / mb / took.Seconds())
}
