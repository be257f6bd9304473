// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/driver"
)

// membersOf are the members of an etcd that a fault takes, whichever seed they are in.
type membersOf struct {
	// name is the end of the fault's name.
	name   string
	choose chooser
}

// anyMembers are the single ones: leader and follower of each etcd. Losing one of them costs no etcd its quorum.
var anyMembers = []membersOf{
	{"main-leader", leaderOf(v1beta1constants.ETCDMain)},
	{"main-follower", followerOf(v1beta1constants.ETCDMain)},
	{"events-leader", leaderOf(v1beta1constants.ETCDEvents)},
	{"events-follower", followerOf(v1beta1constants.ETCDEvents)},
}

// twoMembers are the leader and a follower of etcd-main.
var twoMembers = membersOf{"main-two", leaderAndFollower(v1beta1constants.ETCDMain)}

// fiveVoters is when etcds certainly have five voters or six, so that two may be missing.
var fiveVoters = span{
	point{gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer, Boundary},
	point{gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete, Boundary},
}

// etcdMemberKill kills members of an etcd. Their pods stay, and the kubelet starts their containers again.
type etcdMemberKill struct {
	fault
	etcdVictims

	members membersOf
}

// etcdMemberKills kill leaders and followers wherever they are, unlike etcdKills.
func etcdMemberKills() []Fault {
	const family = familyEtcdKill
	faults := []Fault{}
	for _, which := range anyMembers {
		faults = append(faults, &etcdMemberKill{
			fault: fault{name: family + "-" + which.name, family: family, span: whole}, members: which})
	}
	return append(faults, &etcdMemberKill{
		fault: fault{name: family + "-" + twoMembers.name, family: family, span: fiveVoters}, members: twoMembers})
}

// Inject implements Fault.
func (f *etcdMemberKill) Inject(ctx context.Context, targets *Targets) error {
	chosen, err := f.members.choose(ctx, targets)
	if err != nil {
		return err
	}
	return f.killMembers(ctx, targets, chosen...)
}

// voter is a voter that answers.
type voter struct {
	container

	leads bool
}

// voters are those of an etcd that answer, the source's first, each seed's by name.
type voters struct {
	etcd      string
	answering []voter
	// all is how many voters there are.
	all int
}

// voterLooks is how often members are asked before none of them is said to answer: on a saturated machine all of them
// can be late at once.
const voterLooks = 3

// voters asks the members of an etcd in both seeds until one of them answers as a voter, a few times at most.
func (t *Targets) voters(ctx context.Context, etcd string) (seen *voters, err error) {
	for range voterLooks {
		if seen, err = t.askVoters(ctx, etcd); err == nil || ctx.Err() != nil {
			break
		}
	}
	return seen, err
}

// askVoters asks the members of an etcd in both seeds, all at once.
func (t *Targets) askVoters(ctx context.Context, etcd string) (*voters, error) {
	var (
		members []container
		errs    []error
	)
	for _, role := range sides {
		seed, there := t.Seeds[role]
		if !there {
			continue
		}
		pods, err := etcdPods(ctx, seed, t.Namespace, etcd)
		if err != nil {
			errs = append(errs, err) // a seed may have none
			continue
		}
		for _, pod := range pods {
			members = append(members, container{seed: seed, pod: client.ObjectKeyFromObject(&pod), name: etcdContainer})
		}
	}
	found, known, failed := make([]*voter, len(members)), make([]int, len(members)), make([]error, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() { found[i], known[i], failed[i] = t.voter(ctx, member) })
	}
	group.Wait()
	seen := &voters{etcd: etcd}
	for i := range members {
		seen.all = max(seen.all, known[i])
		if found[i] != nil {
			seen.answering = append(seen.answering, *found[i])
		}
	}
	if len(seen.answering) == 0 {
		return nil, errors.Join(append(append(errs, failed...), fmt.Errorf("no voter of %s answers", etcd))...)
	}
	return seen, nil
}

// voter returns the member in the container if it is a voter, and how many voters it knows.
func (t *Targets) voter(ctx context.Context, c container) (found *voter, known int, err error) {
	member, err := t.Etcd(ctx, c.seed, c.pod.Name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = member.Close() }()
	id, leader, err := member.Status(ctx)
	if err != nil {
		return nil, 0, err
	}
	ids, err := member.Voters(ctx)
	if err != nil {
		return nil, 0, err
	}
	if slices.Contains(ids, id) {
		found = &voter{container: c, leads: id == leader}
	}
	return found, len(ids), nil
}

func (v *voters) leader() (container, error) {
	i := slices.IndexFunc(v.answering, func(v voter) bool { return v.leads })
	if i < 0 {
		return container{}, fmt.Errorf("the leader of %s does not show", v.etcd)
	}
	return v.answering[i].container, nil
}

// follower returns the first follower that answers: one of the source for as long as it has one.
func (v *voters) follower() (container, error) {
	i := slices.IndexFunc(v.answering, func(v voter) bool { return !v.leads })
	if i < 0 {
		return container{}, fmt.Errorf("no follower of %s answers", v.etcd)
	}
	return v.answering[i].container, nil
}

func leaderOf(etcd string) chooser { return oneOf(etcd, (*voters).leader) }

func followerOf(etcd string) chooser { return oneOf(etcd, (*voters).follower) }

func oneOf(etcd string, which func(*voters) (container, error)) chooser {
	return func(ctx context.Context, targets *Targets) ([]container, error) {
		seen, err := targets.voters(ctx, etcd)
		if err != nil {
			return nil, err
		}
		chosen, err := which(seen)
		if err != nil {
			return nil, err
		}
		return []container{chosen}, nil
	}
}

// leaderAndFollower chooses both, unless those that answer beside them are less than a quorum.
func leaderAndFollower(etcd string) chooser {
	return func(ctx context.Context, targets *Targets) ([]container, error) {
		seen, err := targets.voters(ctx, etcd)
		if err != nil {
			return nil, err
		}
		if quorum := seen.all/2 + 1; len(seen.answering)-2 < quorum {
			return nil, fmt.Errorf("%s cannot spare two members: %d of %d voters answer", etcd, len(seen.answering),
				seen.all)
		}
		leader, err := seen.leader()
		if err != nil {
			return nil, err
		}
		follower, err := seen.follower()
		if err != nil {
			return nil, err
		}
		return []container{leader, follower}, nil
	}
}

// roleOf returns the role of the etcd that the pod belongs to.
func roleOf(pod string) string {
	if strings.HasPrefix(pod, v1beta1constants.ETCDEvents+"-") {
		return driver.RoleEvents
	}
	return driver.RoleMain
}
