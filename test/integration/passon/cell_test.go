// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/program"
)

const (
	namespace   = "shoot--demo--single"
	source      = "seed-a-etcd-main-0"
	destination = "seed-b-etcd-main-0"

	// patience is how long a cell may take. A usual machine needs a quarter of it.
	patience = 3 * time.Minute
	// connectedFor is what the agent waits for before there are two voters (pkg/agent/destination/6_pass_on.go).
	connectedFor = 5500 * time.Millisecond
	// faultTime is how long a fault lasts that ends by itself.
	faultTime = 6 * time.Second
	// handsOff is how long the agent is watched that must leave a cluster alone.
	handsOff = 3 * time.Second
	pollTime = 200 * time.Millisecond
)

// moment is when a fault strikes.
type moment string

const (
	// hasData is when the member of the destination has the data and answers, beside the one voter.
	hasData moment = "one voter and a learner with the data"
	// twoVoters is right after the promotion.
	twoVoters moment = "two voters, the source leads"
	// leads is right after leadership has moved.
	leads moment = "two voters, the destination leads"
	// removed is right after the removal of the source's member, which still works.
	removed moment = "the source's member is removed"
)

var moments = []moment{hasData, twoVoters, leads, removed}

// end is where a cell has to end.
type end string

const (
	// passed is a cluster that consists of the member of the destination, without a person.
	passed end = "passed on"
	// forcedOn is the same after a person has made the member of the destination the only one (force-new-cluster).
	forcedOn end = "passed on, by a person"
	// forcedBack is a cluster of the source's member, after a person has done the same there.
	forcedBack end = "back in the source, by a person"
)

// cell is one fault at one moment.
type cell struct {
	fault fault
	when  moment
	end   end

	from, to *member
	writer   *writer
	// over is closed when the fault has ended.
	over chan struct{}

	lock sync.Mutex
	// struck is when the fault was injected.
	struck time.Time
	err    error
	// killAgent ends the agent that is at work.
	killAgent context.CancelFunc
	// changes are those that the agents have made.
	changes []string
	// answers is since when the learner was seen to answer.
	answers time.Time
}

// result is what a cell has shown.
type result struct {
	acknowledged int
	longest      time.Duration
	err          error
}

// run lets the cell happen with etcds of its own.
func (c *cell) run(ctx context.Context, binary, folder string, tls *certificates) (out result) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.over = make(chan struct{})
	defer c.close()
	if out.err = c.begin(ctx, binary, folder, tls); out.err != nil {
		return out
	}
	out.err = c.pass(ctx)
	out.acknowledged, out.longest = c.writer.seen()
	if out.err != nil {
		out.err = fmt.Errorf("%w\nchanges: %s\n%s\n%s", out.err, c.made(), tail(c.from), tail(c.to))
	}
	return out
}

func tail(m *member) string {
	log, err := os.ReadFile(m.output())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return m.name + ":\n" + strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// close ends all that belongs to the cell, when its fault is over: that may start an etcd.
func (c *cell) close() {
	if !c.struckAt().IsZero() {
		<-c.over
	}
	if c.writer != nil {
		c.writer.close()
	}
	for _, m := range []*member{c.from, c.to} {
		if m != nil {
			m.close()
		}
	}
}

// begin starts the member of the source, and its clients.
func (c *cell) begin(ctx context.Context, binary, folder string, tls *certificates) error {
	var err error
	if c.from, err = newMember(source, binary, folder, tls); err != nil {
		return err
	}
	if c.to, err = newMember(destination, binary, folder, tls); err != nil {
		return err
	}
	if err := c.from.start("--initial-cluster="+c.from.initial(), "--initial-cluster-state=new"); err != nil {
		return err
	}
	if err := c.untilServing(ctx, c.from); err != nil {
		return err
	}
	c.writer, err = newWriter(c.from, c.to)
	return err
}

// untilServing waits until a member answers a linearizable read.
func (c *cell) untilServing(ctx context.Context, m *member) error {
	client, err := clientOf(m)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Get(bounded, "health")
		cancel()
		if err == nil {
			return nil
		}
		if ended := program.Sleep(ctx, pollTime); ended != nil {
			return fmt.Errorf("failed to wait until %s serves: %w: %w", m.name, ended, err)
		}
	}
}

// join does what the sidecar of the destination's member does: it adds the member as a learner, once more if its volume
// is gone, and starts it (etcd-backup-restore v0.44.1, pkg/initializer).
func (c *cell) join(ctx context.Context) error {
	client, err := clientOf(c.from)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("failed to list the members: %w", err)
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, c.to.peerURL()) {
			if _, err := client.MemberRemove(ctx, m.ID); err != nil {
				return fmt.Errorf("failed to remove the learner without a volume: %w", err)
			}
		}
	}
	if _, err := client.MemberAddAsLearner(ctx, []string{c.to.peerURL()}); err != nil {
		return fmt.Errorf("failed to add the learner: %w", err)
	}
	return c.to.start("--initial-cluster="+c.from.initial()+","+c.to.initial(), "--initial-cluster-state=existing")
}

// rejoin is what becomes of a learner that has lost its volume, when its pod is there again.
func (c *cell) rejoin() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.join(ctx)
}

// pass lets agents pass the cluster on until it is where it has to end, and looks what has become of it.
func (c *cell) pass(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		return err
	}
	home := c.to
	switch c.end {
	case passed:
		if err := c.untilPassed(ctx); err != nil {
			return err
		}
	case forcedOn, forcedBack:
		if c.end == forcedBack {
			home = c.from
		}
		if err := c.untilForced(ctx, home); err != nil {
			return err
		}
		if c.end == forcedOn {
			if err := c.untilPassed(ctx); err != nil {
				return err
			}
		}
	}
	if home == c.to {
		// The agent of the source takes the pod away (joint.RetireOnly).
		if err := c.from.stop(); err != nil {
			return err
		}
	}
	return c.judge(ctx, home)
}

// judge looks at the cluster at its end: it has one voter, clients write, and all that was acknowledged is there.
func (c *cell) judge(ctx context.Context, home *member) error {
	before, _ := c.writer.seen()
	for now := before; now <= before; now, _ = c.writer.seen() {
		if err := program.Sleep(ctx, pollTime); err != nil {
			return fmt.Errorf("nobody can write at the end: %w", err)
		}
	}
	client, err := clientOf(home)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("failed to list the members at the end: %w", err)
	}
	if len(list.Members) != 1 || list.Members[0].Name != home.name || list.Members[0].IsLearner {
		return fmt.Errorf("at the end there is more than %s: %v", home.name, list.Members)
	}
	lost, err := c.writer.lost(ctx, home)
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d acknowledged writes are lost, such as %s", len(lost), lost[0])
	}
	return nil
}

// untilPassed lets one agent after the other look until the member of the destination is the only one, and the fault is
// over.
func (c *cell) untilPassed(ctx context.Context) error {
	var last string
	for ctx.Err() == nil {
		done, said := c.agent(ctx, func(p joint.Progress, err error) bool { return err == nil && p.Done })
		last = said
		if !done {
			continue
		}
		if err := c.failure(); err != nil {
			return err
		}
		select {
		case <-c.over:
			return nil
		case <-ctx.Done():
		}
	}
	if err := c.failure(); err != nil {
		return err
	}
	if c.struckAt().IsZero() {
		return fmt.Errorf("the moment has not come: %s", last)
	}
	return fmt.Errorf("it is not passed on after %s: %s", patience, last)
}

// untilForced waits for the fault, watches that the agent says that the quorum is lost and leaves the cluster alone,
// and does then what a person has to (docs/concepts/single-member.md).
func (c *cell) untilForced(ctx context.Context, home *member) error {
	var (
		since time.Time
		made  []string
		said  string
	)
	for watched := false; !watched && ctx.Err() == nil && c.failure() == nil; {
		watched, said = c.agent(ctx, func(p joint.Progress, err error) bool {
			lost := p.Reason == steps.ReasonQuorumLost || err != nil &&
				strings.Contains(err.Error(), string(steps.ReasonQuorumLost))
			if c.struckAt().IsZero() || !lost {
				return false
			}
			if since.IsZero() {
				since, made = time.Now(), c.made()
			}
			return time.Since(since) >= handsOff
		})
	}
	if err := errors.Join(c.failure(), ctx.Err()); err != nil {
		return fmt.Errorf("the agent does not say that the quorum is lost, but %q: %w", said, err)
	}
	if now := c.made(); !slices.Equal(made, now) {
		return fmt.Errorf("the agent has changed a cluster without a quorum: %v, then %v", made, now)
	}
	return c.forceNewCluster(ctx, home)
}

// forceNewCluster is what a person does: the member that is left becomes the only one. The request must not stay in its
// configuration.
func (c *cell) forceNewCluster(ctx context.Context, home *member) error {
	home.lock.Lock()
	args := home.args
	home.lock.Unlock()
	for _, extra := range [][]string{{"--force-new-cluster"}, nil} {
		if err := home.stop(); err != nil {
			return err
		}
		if err := home.start(append(slices.Clone(args), extra...)...); err != nil {
			return err
		}
		if err := c.untilServing(ctx, home); err != nil {
			return err
		}
	}
	return nil
}

// agent is one process of the destination's agent: it looks until it is killed or until is met, and returns whether it
// was, and what it has said last.
func (c *cell) agent(ctx context.Context, until func(joint.Progress, error) bool) (bool, string) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	c.lock.Lock()
	c.killAgent = kill
	c.lock.Unlock()
	j := joint.New(joint.Config{
		Log: logr.Discard(), Namespace: namespace, Role: steps.Destination, Members: naming.SingleMember,
		SourceSeed: "seed-a", DestinationSeed: "seed-b",
		Client: fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(&druidcorev1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}).Build(),
		NewCluster: func(context.Context, string) (etcdclient.Cluster, error) {
			return &watched{Cluster: etcdclient.New(c.from.tls.client, c, 0), cell: c}, nil
		},
	})
	defer func() { _ = j.Close() }()
	var said string
	for ctx.Err() == nil {
		progress, err := j.PassOn(ctx, "main", c.ready)
		if said = progress.Message; err != nil {
			said = err.Error()
		}
		if until(progress, err) {
			return true, said
		}
		_ = program.Sleep(ctx, pollTime)
	}
	return false, said
}

// ready waits as the agent does, until etcd would remove the member of the source at once.
func (c *cell) ready(context.Context) (*joint.Progress, error) {
	c.reached(hasData)
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.answers.IsZero() {
		c.answers = time.Now()
	}
	if c.err != nil || time.Since(c.answers) < connectedFor {
		return &joint.Progress{Message: "not connected for long enough"}, nil
	}
	return nil, nil
}

// reached lets the fault strike, if this is its moment.
func (c *cell) reached(now moment) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if now != c.when || !c.struck.IsZero() {
		return
	}
	c.struck, c.answers = time.Now(), time.Time{}
	if c.fault.killsAgent {
		c.killAgent()
	}
	if c.err = c.fault.strike(c); c.err != nil {
		close(c.over)
		return
	}
	go func() {
		defer close(c.over)
		if c.fault.heal == nil {
			return
		}
		time.Sleep(faultTime)
		if err := c.fault.heal(c); err != nil {
			c.lock.Lock()
			defer c.lock.Unlock()
			c.err = err
		}
	}()
}

func (c *cell) struckAt() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.struck
}

func (c *cell) failure() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.err
}

func (c *cell) made() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.changes)
}

func (c *cell) change(text string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changes = append(c.changes, text)
}

// Service implements etcdclient.Locator. The agent of the destination asks its own member first.
func (c *cell) Service(context.Context) ([]etcdclient.Endpoint, error) {
	return []etcdclient.Endpoint{{Address: c.to.client, ServerName: serverName},
		{Address: c.from.client, ServerName: serverName}}, nil
}

// Member implements etcdclient.Locator.
func (c *cell) Member(_ context.Context, m etcdclient.Member) (etcdclient.Endpoint, error) {
	for _, known := range []*member{c.from, c.to} {
		if m.Name == known.name {
			return etcdclient.Endpoint{Address: known.client, ServerName: serverName}, nil
		}
	}
	return etcdclient.Endpoint{}, fmt.Errorf("member %s is of neither seed", m)
}

// watched is a cluster whose changes are the moments.
type watched struct {
	etcdclient.Cluster

	cell *cell
}

// after notes a change that was made, and lets the fault strike.
func (w *watched) after(ctx context.Context, err error, now moment) error {
	if err != nil {
		return err
	}
	w.cell.change(string(now))
	w.cell.reached(now)
	return ctx.Err()
}

// Promote implements etcdclient.Writer.
func (w *watched) Promote(ctx context.Context, id uint64) error {
	return w.after(ctx, w.Cluster.Promote(ctx, id), twoVoters)
}

// MoveLeader implements etcdclient.Writer.
func (w *watched) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	return w.after(ctx, w.Cluster.MoveLeader(ctx, leader, to), leads)
}

// Remove implements etcdclient.Writer.
func (w *watched) Remove(ctx context.Context, id uint64) error {
	return w.after(ctx, w.Cluster.Remove(ctx, id), removed)
}

// folderOf is where a cell keeps its volumes.
func folderOf(root string, number int) (string, error) {
	folder := filepath.Join(root, fmt.Sprint(number))
	return folder, os.MkdirAll(folder, 0o700)
}
