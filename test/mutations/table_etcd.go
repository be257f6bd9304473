// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

// projections are faults in what is projected before a membership changes.
var projections = []Mutation{
	{
		Name:     "promote-an-unproven-voter",
		Area:     Projections,
		Harm:     "A learner becomes a voter although its failure would then cost the quorum: writes stop",
		File:     "pkg/etcd/quorum/projection.go",
		Old:      `projected[i].Learner, projected[i].Healthy = false, false`,
		New:      `projected[i].Learner = false`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "remove-without-projection",
		Area:     Projections,
		Harm:     "A member is removed although the quorum is lost while it is down and still counts",
		File:     "pkg/etcd/quorum/projection.go",
		Old:      `require(change, s.down(id))`,
		New:      `require(change, s)`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "remove-the-leader",
		Area:     Projections,
		Harm:     "The leader is removed, and no write succeeds until another one is elected",
		File:     "pkg/etcd/quorum/projection.go",
		Old:      `if member.Leader {`,
		New:      `if member.Leader && member.Learner {`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "quorum-of-half",
		Area:     Projections,
		Harm:     "Half of an even number of voters counts as a quorum, so the moment with six voters looks safe",
		File:     "pkg/etcd/quorum/quorum.go",
		Old:      `return voters/2 + 1`,
		New:      `return (voters + 1) / 2`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "retire-beside-unhealthy-members",
		Area:     Projections,
		Harm:     "Members of the source leave while one of the destination is down, which soon are all that is left",
		File:     "pkg/etcd/quorum/projection.go",
		Old:      `if 2*len(voters.On(member.Side)) >= len(voters) {`,
		New:      `if len(voters) > 0 {`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "evict-at-the-weakest-moment",
		Area:     Projections,
		Harm:     "A node drain takes a member while there are six voters and no side decides alone",
		File:     "pkg/etcd/quorum/disruption.go",
		Old:      `if len(others) > 0 && max(len(own), len(others)) < Size(len(s)) {`,
		New:      `if len(others) > len(s) {`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "lead-by-an-unhealthy-member",
		Area:     Projections,
		Harm:     "Leadership moves to a member that does not answer",
		File:     "pkg/etcd/quorum/order.go",
		Old:      `if !m.Learner && m.Healthy {`,
		New:      `if !m.Learner {`,
		Packages: []string{"pkg/etcd/quorum"},
	},
}

// members are faults in how members join and leave.
var members = []Mutation{
	{
		Name: "stop-without-projection",
		Area: Members,
		Harm: "The pod of a member is stopped although the others are no quorum: all writes stop",
		File: "pkg/etcd/joint/departure.go",
		Old: `	case replicas == with:
		if err := d.mayStop(seen, victim); err != nil {`,
		New: `	case replicas == with:
		if err := d.mayStop(seen, victim); err != nil && d.reason == "" {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "stop-a-new-voter-unseen",
		Area:     Members,
		Harm:     "A pod that was given up ends although its member has become a voter that the quorum needs",
		File:     "pkg/etcd/joint/departure.go",
		Old:      `	if victim.Healthy {`,
		New:      `	if victim.Healthy && d.reason == "" {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "stopped-member-left-in-the-list",
		Area:     Members,
		Harm:     "An abort never ends: a stopped member keeps one of the source that lost its data from joining",
		File:     "pkg/etcd/joint/withdraw.go",
		Old:      `		if stopped {`,
		New:      `		if stopped && d.reason == "" {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name: "scale-without-stopping-first",
		Area: Members,
		Harm: "The StatefulSet ends the pod in its own time, and the moment with six voters takes longer",
		File: "pkg/etcd/joint/departure.go",
		Old: `		if _, err := j.endPod(ctx, pod); err != nil {
			return Progress{}, err
		}
`,
		New:      ``,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "remove-before-the-etcd-has-ended",
		Area:     Members,
		Harm:     "A removed member that restarts wipes its data and joins again",
		File:     "pkg/etcd/joint/departure.go",
		Old:      `if there != nil && !j.hasEnded(ctx, victim, there) {`,
		New:      `if there != nil && !j.hasEnded(ctx, victim, there) && pod == "" {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "remove-a-member-that-answers",
		Area:     Members,
		Harm:     "A member that still serves is taken out of the cluster",
		File:     "pkg/etcd/joint/departure.go",
		Old:      `if current.Healthy {`,
		New:      `if current.Healthy && current.Learner {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name: "druid-not-paused",
		Area: Members,
		Harm: "etcd-druid starts the pods of the source again that the agent takes away",
		File: "pkg/etcd/joint/retire.go",
		Old: `return j.annotate(ctx, etcd, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation,
		druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)`,
		New:      `return j.annotate(ctx, etcd, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "retire-beside-a-learner",
		Area:     Members,
		Harm:     "Members of the source leave while one of the destination is still catching up",
		File:     "pkg/etcd/joint/retire.go",
		Old:      `if learners := seen.Members.Learners().On(quorum.Destination); len(learners) > 0 {`,
		New:      `if learners := seen.Members.Learners().On(quorum.Destination); len(learners) > len(seen.Members) {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "clusters-out-of-step",
		Area:     Members,
		Harm:     "One etcd loses its source members while the other one has six voters, which then last longer",
		File:     "pkg/etcd/joint/retire.go",
		Old:      `case left == naming.MembersPerSeed:`,
		New:      `case left > naming.MembersPerSeed:`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "lead-before-the-destination-decides",
		Area:     Members,
		Harm:     "Leadership moves to members that are no quorum: writes wait for votes of the other seed",
		File:     "pkg/etcd/joint/retire.go",
		Old:      `if !seen.Members.Decides(quorum.Destination) {`,
		New:      `if !seen.Members.HasQuorum() {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "lead-while-clients-wait",
		Area:     Members,
		Harm:     "Leadership moves while the kube-apiserver gets no processor, and its clients wait still longer",
		File:     "pkg/etcd/joint/retire.go",
		Old:      `if err := j.ClientsWait(ctx); err != nil {`,
		New:      `if err := j.ClientsWait(ctx); err != nil && j.Clients == nil {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "two-etcds-with-six-voters",
		Area:     Members,
		Harm:     "Both etcds have six voters at the same time, for longer, and a cut between the seeds stops both",
		File:     "pkg/agent/destination/6_last_member.go",
		Old:      `if len(seen.Members.On(quorum.Source)) < naming.MembersPerSeed {`,
		New:      `if len(seen.Members.On(quorum.Source)) <= naming.MembersPerSeed {`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "join-while-clients-wait",
		Area:     Members,
		Harm:     "The second etcd gets its last member while clients still wait because of that of the first one",
		File:     "pkg/agent/destination/6_last_member.go",
		Old:      `return r.clientsWait(ctx, etcdRole)`,
		New:      `return hold{}`,
		Packages: []string{"pkg/agent/destination"},
	},
	{
		Name:     "retire-before-leadership-has-moved",
		Area:     Members,
		Harm:     "The second member of the source leaves while the source still leads",
		File:     "pkg/etcd/joint/retire.go",
		Old:      `if seen.Members.Decides(quorum.Destination) && !seen.Members.LeadershipIsOn(quorum.Destination) {`,
		New:      `if seen.Members.Decides(quorum.Destination) && !seen.Members.HasQuorum() {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "promote-before-it-answers",
		Area:     Members,
		Harm:     "A sixth voter that does not answer holds up every look at the cluster at its weakest moment",
		File:     "pkg/etcd/joint/learner.go",
		Old:      `if !learner.Healthy {`,
		New:      `if !learner.Healthy && !learner.Learner {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name: "hold-lifted-early",
		Area: Members,
		Harm: "etcd-druid restarts the members of the destination while those of the source leave",
		File: "pkg/etcd/joint/check.go",
		Old: `	if err != nil || !left || j.Role != steps.Destination {
		return left, missing, err
	}
	if err := j.ReleaseRollout(ctx); err != nil {
		return false, "", err
	}
`,
		New: `	if j.Role == steps.Destination {
		if err := j.ReleaseRollout(ctx); err != nil {
			return false, "", err
		}
	}
	if err != nil || !left {
		return left, missing, err
	}
`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "hold-forgotten",
		Area:     Members,
		Harm:     "With the third member of the destination its two others restart, just when there are six voters",
		File:     "pkg/etcd/joint/hold.go",
		Old:      `partition := int32(naming.MembersPerSeed - 1)`,
		New:      `partition := int32(0)`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "druid-paused-in-the-middle",
		Area:     Members,
		Harm:     "etcd-druid finds its order after the migration, and restarts members then",
		File:     "pkg/etcd/joint/hold.go",
		Old:      `if druidcorev1alpha1.HasReconcileOperationAnnotation(etcd.ObjectMeta) {`,
		New:      `if etcd.Name == "" {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "lost-voter-retired-at-once",
		Area:     Members,
		Harm:     "A member of the source that merely restarts is removed for good",
		File:     "pkg/etcd/joint/lostmember.go",
		Old:      `if j.lasted(since) < j.StuckAfter {`,
		New:      `if j.lasted(since) < 0 {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "abandon-without-a-quorum",
		Area:     Members,
		Harm:     "The way to the destination is closed although the source cannot decide alone: the etcd stands still",
		File:     "pkg/etcd/joint/abandon.go",
		Old:      `case !seen.Members.Decides(quorum.Source):`,
		New:      `case !seen.Members.HasQuorum():`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "withdraw-without-a-whole-source",
		Area:     Members,
		Harm:     "An abort takes members of the destination away although members of the source have left for good",
		File:     "pkg/etcd/joint/withdraw.go",
		Old:      `left < j.Members {`,
		New:      `left < 0 {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "second-voter-beside-a-silent-member",
		Area:     Members,
		Harm:     "The only voter gets a second one that does not answer, and the cluster stops",
		File:     "pkg/etcd/quorum/single.go",
		Old:      `return s.requireAll("promoting " + learner.String())`,
		New:      `return nil`,
		Packages: []string{"pkg/etcd/quorum"},
	},
	{
		Name:     "only-pod-of-a-voter-taken-away",
		Area:     Members,
		Harm:     "The pod of one of two voters is stopped before its member is removed, and the cluster stops",
		File:     "pkg/etcd/joint/retireonly.go",
		Old:      `len(voters) > 0 {`,
		New:      `len(voters) > 1 {`,
		Packages: []string{"pkg/etcd/joint"},
	},
	{
		Name:     "front-uses-an-unhealthy-member",
		Area:     Members,
		Harm:     "Requests of the kube-apiserver go to a member that has no leader, and fail",
		File:     "pkg/etcd/front/traffic.go",
		Old:      `return m.eligible && m.drain == nil && m.connected()`,
		New:      `return m.drain == nil && m.connected()`,
		Packages: []string{"pkg/etcd/front"},
	},
}
