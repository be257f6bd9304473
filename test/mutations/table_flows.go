// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

// source are faults in the part of the source.
var source = []Mutation{
	{
		Name:     "clients-not-waited-for",
		Area:     Source,
		Harm:     "The source's control plane ends before its clients have left, also if DNS has not moved",
		File:     "pkg/agent/source/7_clean_up_source.go",
		Old:      `if condition == nil || condition.Status != gardencorev1beta1.ConditionTrue {`,
		New:      `if condition == nil {`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name: "stopped-before-the-way-is-closed",
		Area: Source,
		Harm: "The kube-apiserver stops while the gateway still leads clients to it: their requests fail",
		File: "pkg/agent/source/7_clean_up_source.go",
		Old: `	closed := c.addClosing(flow.NewTaskIDs(stopControllers))
	return c.add(flow.Task{
		Name: "Stopping the kube-apiserver gracefully", Fn: c.stopKubeAPIServer,
		Dependencies: flow.NewTaskIDs(closed),`,
		New: `	_ = c.addClosing(flow.NewTaskIDs(stopControllers))
	return c.add(flow.Task{
		Name: "Stopping the kube-apiserver gracefully", Fn: c.stopKubeAPIServer,
		Dependencies: flow.NewTaskIDs(stopControllers),`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "unreachable-gateway-taken-for-closed",
		Area:     Source,
		Harm:     "A gateway that cannot be reached counts as closed: the kube-apiserver stops under its clients",
		File:     "pkg/agent/source/7_close_gateway.go",
		Old:      `return fmt.Errorf("failed to look whether the ingress gateway still takes clients: %w", err)`,
		New:      `return nil`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name: "controllers-announced-before-they-stop",
		Area: Source,
		Harm: "The destination starts its controllers while those of the source still act on the shoot",
		File: "pkg/agent/source/7_clean_up_source.go",
		Old: `	if err := c.deleteDeployments(ctx, controlplane.Controllers...); err != nil {
		return err
	}
	c.stage.enter(ctx, steps.ReasonSourceControllersStopped,
		"The controllers of the source have stopped; the destination may start its own ones")
	return nil`,
		New: `	c.stage.enter(ctx, steps.ReasonSourceControllersStopped,
		"The controllers of the source have stopped; the destination may start its own ones")
	return c.deleteDeployments(ctx, controlplane.Controllers...)`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "machines-deleted-unsaved",
		Area:     Source,
		Harm:     "The objects of machines are deleted although the ShootState lacks some: those nodes are replaced",
		File:     "pkg/agent/source/7_release_machines.go",
		Old:      `if err := s.ShootStates.CheckMachines(ctx, m.Shoot, machines.Items); err != nil {`,
		New:      `if err := s.ShootStates.CheckMachines(ctx, m.Shoot, machines.Items); err != nil && m.Shoot == nil {`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "shootstate-taken-from-what-is-left",
		Area:     Source,
		Harm:     "The ShootState is replaced by what is left in the source, and the state of extensions is lost",
		File:     "pkg/agent/source/shootstate.go",
		Old:      `case at <= steps.Index(gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined):`,
		New:      `case at > 0:`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "druid-left-running-before-retirement",
		Area:     Source,
		Harm:     "etcd-druid is suspended only while there are six voters, and makes that moment longer",
		File:     "pkg/agent/source/5_release_dns_records.go",
		Old:      `if err := etcds.PrepareRetirement(ctx); err != nil {`,
		New:      `if err := ctx.Err(); err != nil {`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "dns-record-left-to-its-controller",
		Area:     Source,
		Harm:     "The controller of a DNSRecord deletes the record with it, and clients find no kube-apiserver",
		File:     "pkg/agent/source/5_release_dns_records.go",
		Old:      "	record.Finalizers = nil\n",
		New:      "",
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name: "backup-entry-released-without-a-snapshot",
		Area: Source,
		Harm: "The backup entry passes to the destination before a full snapshot is in the source's bucket",
		File: "pkg/agent/source/1_prepare_source.go",
		Old:  `Dependencies: flow.NewTaskIDs(done.state, snapshot),`,
		New: `Dependencies: flow.NewTaskIDs(done.state),
		SkipIf:       snapshot == "",`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name: "members-removed-before-the-way-is-closed",
		Area: Source,
		Harm: "An abandoned member that can still reach the others starts again and joins once more",
		File: "pkg/agent/source/abandon.go",
		Old: `	if err := s.Tunnel.Destroy(ctx, m); err != nil {
		return steps.Outcome{}, err
	}
	if err := etcds.RemoveAbandoned(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to remove the etcd members of the destination: %w", err)
	}
`,
		New: `	if err := etcds.RemoveAbandoned(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to remove the etcd members of the destination: %w", err)
	}
	if err := s.Tunnel.Destroy(ctx, m); err != nil {
		return steps.Outcome{}, err
	}
`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "source-restored-beside-members-of-the-destination",
		Area:     Source,
		Harm:     "The way between the seeds goes while members of the destination still count as voters",
		File:     "pkg/agent/source/abort.go",
		Old:      `if err := etcds.RemoveDestination(ctx); err != nil {`,
		New:      `if err := ctx.Err(); err != nil {`,
		Packages: []string{"pkg/agent/source"},
	},
	{
		Name:     "shootstate-overwritten",
		Area:     Source,
		Harm:     "What was saved of extensions that are gone from the source is dropped from the ShootState",
		File:     "pkg/agent/shootstate/shootstate.go",
		Old:      `return s.persist(ctx, shoot, kept)`,
		New:      `return s.persist(ctx, shoot, replaced)`,
		Packages: []string{"pkg/agent/shootstate"},
	},
	{
		Name:     "shootstate-not-dated-ahead",
		Area:     Source,
		Harm:     "The gardenlet of the destination replaces the ShootState by what it finds there, which is nothing",
		File:     "pkg/agent/shootstate/shootstate.go",
		Old:      `return c.Clock.Now().Add(c.lead)`,
		New:      `return c.Clock.Now()`,
		Packages: []string{"pkg/agent/shootstate"},
	},
}

// destination are faults in the part of the destination.
var destination = []Mutation{
	{
		Name:     "six-voters-beside-a-silent-source",
		Area:     Destination,
		Harm:     "The sixth voter joins although nobody would retire the first one: each seed's loss is the quorum's",
		File:     "pkg/agent/destination/6_last_member.go",
		Old:      `silence != "" && r.becomesSix(ctx, etcdRole) {`,
		New:      `silence != "" && etcdRole == "" {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "last-members-at-once",
		Area:     Destination,
		Harm:     "The last members of both etcds start at the same time, and leaders lose their leadership",
		File:     "pkg/agent/destination/6_last_member.go",
		Old:      `held.message != "" || !r.joined[first] {`,
		New:      `held.message != "" {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "dns-before-the-kube-apiserver-serves",
		Area: Destination,
		Harm: "DNS leads clients to a kube-apiserver that is not ready",
		File: "pkg/agent/destination/6_switch_dns.go",
		Old: `			return b.DeployOrDestroyExternalDNSRecord(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(serving),`,
		New: `			return b.DeployOrDestroyExternalDNSRecord(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(service),`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "caches-not-waited-for",
		Area:     Destination,
		Harm:     "The source's members leave while caches still lead clients to the source",
		File:     "pkg/agent/destination/6_switch_dns.go",
		Old:      `if left := wait.Left(now); left > 0 {`,
		New:      `if left := wait.Left(now); left > ttl+margin {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "restored-from-another-shootstate",
		Area: Destination,
		Harm: "The control plane is restored from a ShootState that somebody has changed: keys and states are lost",
		File: "pkg/agent/destination/shootstate.go",
		Old: `	case shootstate.IsDifference(err):
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonShootStateDiffers, "%s", err), nil
	case err != nil:`,
		New:      `	case err != nil && !shootstate.IsDifference(err):`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "members-move-before-dns",
		Area: Destination,
		Harm: "The source's members leave while DNS still leads all clients to the source",
		File: "pkg/agent/destination/6_move_etcd.go",
		Old: `	if outcome, err := d.switchDNS(ctx, m); err != nil || !outcome.Finished() {
		return outcome, err
	}
`,
		New:      ``,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "two-voters-before-etcd-would-remove-one",
		Area:     Destination,
		Harm:     "An etcd with one member has two voters, which need each other, for five seconds longer",
		File:     "pkg/agent/destination/6_pass_on.go",
		Old:      `case now.Sub(*since) < connectedFor:`,
		New:      `case now.Sub(*since) < connectedFor && other == "":`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "living-source-cut-off",
		Area:     Destination,
		Harm:     "The way to a source that is at work is closed, and its kube-apiserver loses its etcd",
		File:     "pkg/agent/destination/7_abandon_source.go",
		Old:      `if alive != "" {`,
		New:      `if alive != "" && m.SourceSeed == "" {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "kube-apiserver-not-probed",
		Area: Destination,
		Harm: "Step 4 ends before the kube-apiserver answers through the gateway of the destination",
		File: "pkg/agent/destination/4_start_kube_apiserver.go",
		Old: `	if err := d.waitUntilServing(ctx, m, start.botanist); err != nil {
		return steps.Outcome{}, err
	}
`,
		New:      ``,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "kube-apiserver-from-another-shootstate",
		Area: Destination,
		Harm: "The kube-apiserver starts with keys and extensions from a ShootState that somebody has changed",
		File: "pkg/agent/destination/4_start_kube_apiserver.go",
		Old: `	if outcome, err := d.restorable(ctx, m.Shoot); err != nil || !outcome.Finished() {
		return outcome, err
	}
`,
		New:      ``,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "handed-over-with-the-ports-of-the-migration",
		Area:     Destination,
		Harm:     "The shoot is handed over although members still listen on the port of the migration",
		File:     "pkg/agent/destination/8_complete.go",
		Old:      `} else if missing != "" {`,
		New:      `} else if missing != "" && facts.left == nil {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name: "handed-over-from-another-shootstate",
		Area: Destination,
		Harm: "The gardenlet restores workers and machines from a ShootState that somebody has changed",
		File: "pkg/agent/destination/shootstate.go",
		Old: `	outcome, err := d.restorable(ctx, shoot)
	if err != nil || !outcome.Finished() {`,
		New: `	outcome, err := steps.Done("not compared"), ctx.Err()
	if err != nil || !outcome.Finished() {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "plain-etcds-beside-members-of-the-source",
		Area:     Destination,
		Harm:     "The etcds leave the port of the migration while members of the source are in their lists",
		File:     "pkg/agent/destination/8_plain_etcds.go",
		Old:      `others > 0 {`,
		New:      `others > len(world.Members) {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "clients-led-to-a-front-without-pods",
		Area:     Destination,
		Harm:     "The kube-apiserver is led to a front of which no pod is ready, and loses its etcd",
		File:     "pkg/agent/front/lead.go",
		Old:      `if ready, err := c.anyReady(ctx); err != nil || !ready {`,
		New:      `if _, err := c.anyReady(ctx); err != nil {`,
		Packages: []string{"pkg/agent/front"},
	},
	{
		Name:     "clients-led-to-a-withdrawn-front",
		Area:     Destination,
		Harm:     "The kube-apiserver is led to a front that is about to end, and its requests to etcd fail",
		File:     "pkg/agent/front/lead.go",
		Old:      `if state, _, err := c.state(ctx); err != nil || state != stateLeading {`,
		New:      `if _, _, err := c.state(ctx); err != nil {`,
		Packages: []string{"pkg/agent/front"},
	},
}
