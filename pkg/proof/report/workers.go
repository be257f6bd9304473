// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// inClusterRow is a row of what clients inside of the shoot have noticed, on one node or on all.
func inClusterRow(name string, c recording.InClusterNode) Row {
	return Row{
		Cells: []string{name, strconv.Itoa(c.Requests), strconv.Itoa(c.Failed), strconv.Itoa(c.CutByProxy),
			strconv.FormatInt(c.LongestGapMs, 10)},
		Bad: c.Failed > c.CutByProxy || c.Requests == 0,
	}
}

// addOwnership tells how often both seeds were looked at, and what was found.
func (r *Report) addOwnership(o recording.Ownership) {
	r.Facts = append(r.Facts,
		Fact{Name: "violations of who acts in which seed", Note: fmt.Sprintf("in %d looks", o.Samples),
			Value: strconv.Itoa(len(o.Violations)), Bad: len(o.Violations) > 0 || o.Samples == 0})
	table := Table{
		Title: "Who acted in which seed", Header: []string{"what", "sum"},
		Rows: []Row{
			{Cells: []string{"looks at both seeds", strconv.Itoa(o.Samples)}, Bad: o.Samples == 0},
			{Cells: []string{"violations", strconv.Itoa(len(o.Violations))}, Bad: len(o.Violations) > 0},
		},
		Note: "Pods and extension objects of the shoot in both seeds, judged by the table of who may act in " +
			"which step.",
	}
	// Older recordings do not tell when the looks were.
	if len(o.Phases) > 0 {
		for _, phase := range ownership.Phases() {
			looks := o.Phases[phase.String()]
			table.Rows = append(table.Rows,
				Row{Cells: []string{"looks: " + phase.String(), strconv.Itoa(looks)}, Bad: looks == 0})
		}
	}
	for _, violation := range o.Violations {
		table.Rows = append(table.Rows, Row{Cells: []string{violation, ""}, Bad: true})
	}
	r.Tables = append(r.Tables, table)
}

// addWorkers tells what became of machines and nodes, of the state of extensions, and of who goes to the nodes and
// comes from them.
func (r *Report) addWorkers(w recording.Workers) {
	r.addMachines(w)
	r.addStates(w)
	r.addNodeTraffic(w)
}

func (r *Report) addMachines(w recording.Workers) {
	machines := Table{
		Title: "Worker pools, machines and nodes", Header: []string{"pool", "machine", "node before", "node after"},
		Note: fmt.Sprintf("machines created: %d, deleted: %d; nodes created: %d, deleted: %d", len(w.MachinesCreated),
			len(w.MachinesDeleted), len(w.NodesCreated), len(w.NodesDeleted)),
	}
	for _, pool := range w.Pools {
		for _, machine := range pool.Machines {
			machines.Rows = append(machines.Rows, Row{
				Cells: []string{orDash(pool.Name), machine.Name, orDash(machine.Before), orDash(machine.After)},
				Bad:   machine.Before != machine.After || machine.Before == "",
			})
		}
	}
	sum := 0
	for _, list := range []struct {
		what  string
		names []string
	}{
		{"machine created", w.MachinesCreated}, {"machine deleted", w.MachinesDeleted},
		{"node created", w.NodesCreated}, {"node deleted", w.NodesDeleted},
	} {
		sum += len(list.names)
		for _, name := range list.names {
			machines.Rows = append(machines.Rows, Row{Cells: []string{list.what, name, "", ""}, Bad: true})
		}
	}
	r.Tables = append(r.Tables, machines)
	r.Facts = append(r.Facts,
		Fact{Name: "machines and nodes created or deleted", Value: strconv.Itoa(sum), Bad: sum > 0})
}

func (r *Report) addStates(w recording.Workers) {
	states := Table{
		Title: "State of extensions", Header: []string{"resource", "before", "after"},
		Note: fmt.Sprintf("changed, with machines and nodes: %d; operations of the test extension: %d, of which "+
			"misdone: %d", len(w.Changed), w.Operations, len(w.Misdone)),
	}
	for _, state := range w.States {
		states.Rows = append(states.Rows,
			Row{Cells: []string{state.Resource, orDash(state.Before), orDash(state.After)},
				Bad: state.Before != state.After})
	}
	for _, text := range w.Changed {
		states.Rows = append(states.Rows, Row{Cells: []string{text, "", ""}, Bad: true})
	}
	for _, text := range w.Misdone {
		states.Rows = append(states.Rows, Row{Cells: []string{text, "", ""}, Bad: true})
	}
	r.Tables = append(r.Tables, states)
	r.Facts = append(r.Facts,
		Fact{Name: "machines, nodes and states of extensions that changed", Value: strconv.Itoa(len(w.Changed)),
			Bad: len(w.Changed) > 0},
		Fact{Name: "misdone operations of the test extension", Note: fmt.Sprintf("of %d", w.Operations),
			Value: strconv.Itoa(len(w.Misdone)), Bad: len(w.Misdone) > 0 || w.Operations == 0},
	)
}

func (r *Report) addNodeTraffic(w recording.Workers) {
	r.Facts = append(r.Facts,
		Fact{Name: "failed requests through the VPN", Note: fmt.Sprintf("of %d", w.VPN.Requests),
			Value: strconv.Itoa(w.VPN.Failed), Bad: w.VPN.Failed > 0 || w.VPN.Requests == 0},
	)
	// Older recordings do not count them.
	if w.Webhooks.Requests > 0 {
		r.Facts = append(r.Facts, Fact{Name: "failed requests that webhooks judge",
			Note: fmt.Sprintf("of %d", w.Webhooks.Requests), Value: strconv.Itoa(w.Webhooks.Failed),
			Bad: w.Webhooks.Failed > 0})
	}
	r.Facts = append(r.Facts,
		Fact{
			Name: "failed requests of in-cluster clients", Value: strconv.Itoa(w.InCluster.Failed),
			Note: fmt.Sprintf("of %d; %d of the failed ones cut by an apiserver-proxy that ended", w.InCluster.Requests,
				w.InCluster.CutByProxy),
			Bad: w.InCluster.Failed > w.InCluster.CutByProxy || w.InCluster.Requests == 0,
		},
	)
	for _, node := range w.InCluster.Nodes {
		// One node without a request is as bad as none.
		if node.Requests == 0 {
			r.Facts[len(r.Facts)-1].Bad = true
		}
	}
	r.Tables = append(r.Tables, requestsTable("Through the VPN", "Requests of kube-apiserver to kubelets.", w.VPN))
	if w.Webhooks.Requests > 0 {
		r.Tables = append(r.Tables, requestsTable("Webhooks", "Pods in kube-system that are refused if no resource "+
			"manager answers its webhook. None is stored.", w.Webhooks))
	}
	r.addStreams(w.Streams)
	inside := Table{
		Title:  "Inside of the shoot",
		Header: []string{"node", "requests", "failed", "of these cut", "longest time without an answer (ms)"},
		Note: fmt.Sprintf("Clients on the nodes, by the address of the Service default/kubernetes. Cut are requests "+
			"whose connection broke because it led to an apiserver-proxy of the same node that ended. "+
			"The longest time without an answer before the trigger was %d ms.", w.InCluster.BaselineLongestGapMs),
	}
	for _, name := range slices.Sorted(maps.Keys(w.InCluster.Nodes)) {
		inside.Rows = append(inside.Rows, inClusterRow(name, w.InCluster.Nodes[name]))
	}
	inside.Rows = append(inside.Rows, inClusterRow("all", recording.InClusterNode{
		Requests: w.InCluster.Requests, Failed: w.InCluster.Failed, CutByProxy: w.InCluster.CutByProxy,
		LongestGapMs: w.InCluster.LongestGapMs,
	}))
	for _, text := range slices.Concat(w.InCluster.Doubts, w.InCluster.Errors) {
		inside.Rows = append(inside.Rows, Row{Cells: []string{text, "", "", "", ""}, Bad: true})
	}
	r.Tables = append(r.Tables, inside)
}

// addStreams tells how streams to pods fared; older recordings have none.
func (r *Report) addStreams(streams []recording.Stream) {
	if len(streams) == 0 {
		return
	}
	table := Table{
		Title:  "Streams to pods",
		Header: []string{"kind", "opened", "broke", "not opened", "longest time without an answer (ms)"},
		Note: "A log that is followed, a command and a forwarded port, each kept open through the VPN and opened " +
			"again whenever it broke. Every kube-apiserver that ends breaks its streams.",
	}
	refused := 0
	for _, stream := range streams {
		refused += stream.Refused
		table.Rows = append(table.Rows, Row{Cells: []string{stream.Kind, strconv.Itoa(stream.Opened),
			strconv.Itoa(stream.Broken), strconv.Itoa(stream.Refused), strconv.FormatInt(stream.LongestGapMs, 10)},
			Bad: stream.Opened == 0 || stream.Refused > 0})
		for _, text := range stream.Errors {
			table.Rows = append(table.Rows, Row{Cells: []string{text, "", "", "", ""}})
		}
	}
	r.Tables = append(r.Tables, table)
	r.Facts = append(r.Facts, Fact{Name: "streams to pods that could not be opened", Value: strconv.Itoa(refused),
		Bad: refused > 0})
}

// requestsTable tells how many requests of a kind there were, and why some failed.
func requestsTable(title, note string, requests recording.Requests) Table {
	table := Table{
		Title: title, Header: []string{"requests", "failed"}, Note: note,
		Rows: []Row{{Cells: []string{strconv.Itoa(requests.Requests), strconv.Itoa(requests.Failed)},
			Bad: requests.Failed > 0}},
	}
	for _, text := range requests.Errors {
		table.Rows = append(table.Rows, Row{Cells: []string{text, ""}, Bad: true})
	}
	return table
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
