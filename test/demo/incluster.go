// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/standins/machine/hollow"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// InClusterReport is what clients inside of the shoot have noticed.
type InClusterReport = recording.InCluster

// InClusterNode is what was counted on one node.
type InClusterNode = recording.InClusterNode

const (
	inClusterInterval = 2 * time.Second
	// inClusterStart is how long the clients may take until they are served.
	inClusterStart = 3 * time.Minute
	// inClusterTimeout is how long reading the counts of all nodes may take.
	inClusterTimeout = 20 * time.Second
)

// InClusterTally adds up the counts of all clients. A client that began again counts from 0 again: what it had counted
// before is kept.
type InClusterTally struct {
	// Since is when the run began: machines keep the counts of clients of earlier runs as well.
	Since time.Time

	mu sync.Mutex
	// all are the last counts by node and by when counting began there.
	all      map[string]map[time.Time]incluster.Counts
	baseline int64
}

// Note takes the counts that were read of a node, and reports whether there were any of this run.
func (t *InClusterTally) Note(counts []incluster.Counts) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts = slices.DeleteFunc(
		slices.Clone(counts), func(count incluster.Counts) bool { return count.Started.Before(t.Since) })
	for _, count := range counts {
		if t.all == nil {
			t.all = map[string]map[time.Time]incluster.Counts{}
		}
		if t.all[count.Node] == nil {
			t.all[count.Node] = map[time.Time]incluster.Counts{}
		}
		// A reading that was in flight for long may be older than the last one.
		began := count.Started.UTC().Round(0)
		if last, known := t.all[count.Node][began]; !known || last.Requests() <= count.Requests() {
			t.all[count.Node][began] = count
		}
	}
	return len(counts) > 0
}

// Trigger remembers the longest gap so far.
func (t *InClusterTally) Trigger() {
	report := t.Report(time.Now(), nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.baseline = report.LongestGapMs
}

// Report returns the sums. unread are the nodes that could not be asked in the end, with the reason.
func (t *InClusterTally) Report(now time.Time, unread map[string]error) InClusterReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := InClusterReport{Nodes: map[string]InClusterNode{}, BaselineLongestGapMs: t.baseline}
	for _, name := range slices.Sorted(maps.Keys(t.all)) {
		node := InClusterNode{}
		starts := slices.SortedFunc(maps.Keys(t.all[name]), time.Time.Compare)
		for _, began := range starts {
			count := t.all[name][began]
			node.Requests += count.Requests()
			node.Failed += count.Failed
			node.CutByProxy += count.CutByProxy
			out.Stale += count.Stale
			out.FirstFailed, out.LastFailed = span(out.FirstFailed, out.LastFailed, count.FirstFailed,
				count.LastFailed)
			node.LongestGapMs = max(node.LongestGapMs, count.LongestGapMs)
			for _, text := range count.Errors {
				out.Errors = append(out.Errors, name+": "+text)
			}
		}
		node.Seconds = driver.Seconds(now.Sub(starts[0]))
		node.Due = int(math.Round(node.Seconds / incluster.DefaultInterval.Seconds() * incluster.RequestsPerInterval))
		if len(starts) > 1 {
			out.Doubts = append(out.Doubts,
				fmt.Sprintf("the in-cluster client on node %s began again %d times, the last time at %s: what it "+
					"noticed right before is not known",
					name, len(starts)-1, starts[len(starts)-1].Format(time.RFC3339)))
		}
		out.Requests += node.Requests
		out.Failed += node.Failed
		out.CutByProxy += node.CutByProxy
		out.LongestGapMs = max(out.LongestGapMs, node.LongestGapMs)
		out.Nodes[name] = node
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		out.Doubts = append(out.Doubts,
			fmt.Sprintf("what the in-cluster client on node %s has noticed in the end is not known: %v", name,
				unread[name]))
	}
	return out
}

// span returns the time that has both times in it; one that is zero is none.
func span(first, last, otherFirst, otherLast time.Time) (time.Time, time.Time) {
	if first.IsZero() || !otherFirst.IsZero() && otherFirst.Before(first) {
		first = otherFirst
	}
	if otherLast.After(last) {
		last = otherLast
	}
	return first, last
}

// inClusterObserver has clients run in the shoot and reads what they count. They are read through the seed that has the
// machines: by another way than the one that is measured.
type inClusterObserver struct {
	tally     InClusterTally
	cloud     kubernetes.Interface
	namespace string // of the machines
	shoot     kubernetes.Interface
	nodes     []string
}

// start deploys the clients and waits until every node has one that is served. Those of an earlier run that was
// interrupted go first.
func (o *inClusterObserver) start(ctx context.Context, nodes []string) error {
	o.nodes = nodes
	ctx, cancel := context.WithTimeout(ctx, inClusterStart)
	defer cancel()
	if err := incluster.Remove(ctx, o.shoot); err != nil {
		return err
	}
	o.tally.Since = time.Now()
	if err := incluster.Apply(ctx, o.shoot); err != nil {
		return err
	}
	for {
		unread := o.read(ctx)
		if len(unread) == 0 {
			return nil
		}
		if err := wait(ctx, inClusterInterval); err != nil {
			for _, name := range slices.Sorted(maps.Keys(unread)) {
				return fmt.Errorf("the in-cluster clients on %d of %d nodes are not served by the address of the "+
					"Service default/kubernetes, node %s: %w", len(unread), len(nodes), name, unread[name])
			}
		}
	}
}

// run reads the counts until the context ends.
func (o *inClusterObserver) run(ctx context.Context) {
	for wait(ctx, inClusterInterval) == nil {
		_ = o.read(ctx)
	}
}

// read asks the machines of all nodes, and returns those that gave no counts.
func (o *inClusterObserver) read(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, inClusterTimeout)
	defer cancel()
	var (
		mu      sync.Mutex
		readers sync.WaitGroup
		unread  = map[string]error{}
	)
	for _, name := range o.nodes {
		readers.Go(func() {
			counts, err := o.readNode(ctx, name)
			if err == nil && !o.tally.Note(counts) {
				err = fmt.Errorf("no request has succeeded yet; see the log of pod %s in namespace %s", name,
					o.namespace)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				unread[name] = err
			}
		})
	}
	readers.Wait()
	return unread
}

func (o *inClusterObserver) readNode(ctx context.Context, name string) ([]incluster.Counts, error) {
	content, err := o.cloud.CoreV1().Pods(o.namespace).ProxyGet("http", name, strconv.Itoa(hollow.CountsPort),
		hollow.CountsPath, nil).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to read the counts of machine %s: %w", name, err)
	}
	var counts []incluster.Counts
	if err := json.Unmarshal(content, &counts); err != nil {
		return nil, fmt.Errorf("failed to decode the counts of machine %s: %w", name, err)
	}
	return counts, nil
}

// finish reads the counts for the last time and returns the report.
func (o *inClusterObserver) finish(ctx context.Context) InClusterReport {
	unread := o.read(ctx)
	return o.tally.Report(time.Now(), unread)
}

// remove takes the clients out of the shoot.
func (o *inClusterObserver) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return incluster.Remove(ctx, o.shoot)
}
