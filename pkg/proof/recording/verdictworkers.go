// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"maps"
	"slices"
)

const (
	// minRequests is below what a run proves nothing, through the VPN or by webhooks.
	minRequests = 60
	// maxCutByProxy is how many requests of a node may have been cut by its own apiserver-proxies. Two of them end in a
	// migration, and each may have a request of either connection in hand.
	maxCutByProxy = 4
	// maxBroken is how often one stream may break. A kube-apiserver ends its streams when it ends, as in every update
	// of Gardener: the client's kube-apiserver in the source does so, and the one in the destination when it is rolled
	// twice in step 8. The VPN's client is replaced there as well.
	maxBroken = 4
	// minInClusterPercent is the part of the requests that were due below which a run proves nothing.
	minInClusterPercent = 50
)

// Problems says what is wrong with the nodes of the shoot and those who go to them or come from them; nothing if all is
// as it was.
func (w *Workers) Problems() []string {
	var out problems
	for _, list := range []struct {
		what   string
		values []string
	}{
		{"machines were created", w.MachinesCreated}, {"machines were deleted", w.MachinesDeleted},
		{"nodes were created", w.NodesCreated}, {"nodes were deleted", w.NodesDeleted},
		{"is not as before", w.Changed}, {"an extension did what it must not", w.Misdone},
	} {
		if len(list.values) > 0 {
			out.add("%s: %v", list.what, list.values)
		}
	}
	if len(w.Machines) == 0 {
		out.add("there are no machines")
	}
	if w.Operations == 0 {
		out.add("the test extension has recorded no operation")
	}
	out = append(out, w.failed()...)
	if w.VPN.Requests < minRequests {
		out.add("only %d requests went through the VPN", w.VPN.Requests)
	}
	if w.Webhooks.Requests < minRequests {
		out.add("only %d requests asked the webhooks of the resource manager", w.Webhooks.Requests)
	}
	out = append(out, w.InCluster.problems()...)
	if len(w.Streams) == 0 {
		out.add("no stream to a pod was kept open")
	}
	for _, stream := range w.Streams {
		out = append(out, stream.problems()...)
	}
	return out
}

func (s Stream) problems() problems {
	var out problems
	if s.Opened == 0 {
		out.add("no stream of the kind %s was ever open", s.Kind)
	}
	if s.Broken > maxBroken {
		out.add("the stream of the kind %s broke %d times, more than %d, the first time: %s", s.Kind, s.Broken,
			maxBroken, first(s.Errors))
	}
	return out
}

// failed says which requests were not answered as they should.
func (w *Workers) failed() problems {
	var out problems
	if w.VPN.Failed > 0 {
		out.add("%d of %d requests through the VPN failed, the first one: %s", w.VPN.Failed, w.VPN.Requests,
			first(w.VPN.Errors))
	}
	if w.Webhooks.Failed > 0 {
		out.add("%d of %d requests that the webhooks of the resource manager judge failed, the first one: %s",
			w.Webhooks.Failed, w.Webhooks.Requests, first(w.Webhooks.Errors))
	}
	for _, stream := range w.Streams {
		if stream.Refused > 0 {
			out.add("%d of %d attempts to open a stream of the kind %s failed", stream.Refused,
				stream.Opened+stream.Refused, stream.Kind)
		}
	}
	if failed := w.InCluster.Failed - w.InCluster.CutByProxy; failed > 0 {
		out.add("%d of %d requests of the in-cluster clients failed, the first one: %s", failed, w.InCluster.Requests,
			first(w.InCluster.Errors))
	}
	return out
}

func (c *InCluster) problems() problems {
	out := problems(slices.Clone(c.Doubts))
	if len(c.Nodes) == 0 {
		out.add("there was no in-cluster client")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		node := c.Nodes[name]
		if node.CutByProxy > maxCutByProxy {
			out.add("%d requests of the in-cluster client on node %s were cut by the node's apiserver-proxies, more "+
				"than two that end can have in hand", node.CutByProxy, name)
		}
		if node.Requests == 0 || node.Due == 0 || node.Requests*100 < node.Due*minInClusterPercent {
			out.add("too little load: the in-cluster client on node %s sent %d requests of %d that were due", name,
				node.Requests, node.Due)
		}
	}
	return out
}

func first(texts []string) string {
	if len(texts) == 0 {
		return "unknown"
	}
	return texts[0]
}
