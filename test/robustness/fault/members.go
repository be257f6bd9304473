// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/test/driver"
)

// membersOf are the members of an etcd that a fault takes, whichever seed they are in.
type membersOf struct {
	// name is the end of the fault's name, members how many it takes.
	name    string
	members int
	choose  chooser
}

// anyMembers are the single ones: leader and follower of each etcd. Losing one of them costs no etcd its quorum.
var anyMembers = []membersOf{
	{"main-leader", 1, leaderOf(v1beta1constants.ETCDMain)},
	{"main-follower", 1, followerOf(v1beta1constants.ETCDMain)},
	{"events-leader", 1, leaderOf(v1beta1constants.ETCDEvents)},
	{"events-follower", 1, followerOf(v1beta1constants.ETCDEvents)},
}

// twoMembers are the leader and a follower of etcd-main.
var twoMembers = membersOf{"main-two", 2, leaderAndFollower(v1beta1constants.ETCDMain)}

// fiveVoters is when etcds certainly have five voters or six, so that two may be missing.
var fiveVoters = span{
	point{gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer, Boundary},
	point{gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete, Boundary},
}

// etcdMemberKill kills members of an etcd. Their pods stay, and the kubelet starts their containers again.
type etcdMemberKill struct {
	fault

	members membersOf
}

// etcdMemberKills kill leaders and followers wherever they are, unlike etcdKills.
func etcdMemberKills() []Fault {
	faults := []Fault{}
	for _, which := range anyMembers {
		faults = append(faults, &etcdMemberKill{
			fault{name: familyEtcdKill + "-" + which.name, family: familyEtcdKill, span: whole}, which})
	}
	return append(faults, &etcdMemberKill{fault{name: familyEtcdKill + "-" + twoMembers.name, family: familyEtcdKill,
		span: fiveVoters}, twoMembers})
}

func (f *etcdMemberKill) sourceEtcdRestarts() int { return f.members.members }

// Inject implements Fault.
func (f *etcdMemberKill) Inject(ctx context.Context, targets *Targets) error {
	chosen, err := f.members.choose(ctx, targets)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		if err := targets.killContainer(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// voter is a voter that answers.
type voter struct {
	container

	leads bool
}

// voters returns the voters of an etcd that answer in both seeds, and how many voters there are.
func (t *Targets) voters(ctx context.Context, etcd string) (answering []voter, all int, err error) {
	var errs []error
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
			found, ids, err := t.voter(ctx, seed, pod.Name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = max(all, ids)
			if found != nil {
				answering = append(answering, *found)
			}
		}
	}
	if len(answering) == 0 {
		return nil, 0, errors.Join(append(errs, fmt.Errorf("no voter of %s answers", etcd))...)
	}
	return answering, all, nil
}

// voter returns the member of a pod if it is a voter, and how many voters it knows.
func (t *Targets) voter(ctx context.Context, seed Seed, pod string) (found *voter, all int, err error) {
	err = t.onMember(ctx, seed, pod, func(member Member, id uint64) error {
		ids, err := member.Voters(ctx)
		if err != nil {
			return err
		}
		_, leader, err := member.Status(ctx)
		if err != nil {
			return err
		}
		if all = len(ids); slices.Contains(ids, id) {
			found = &voter{leads: id == leader, container: container{seed: seed, name: etcdContainer,
				pod: types.NamespacedName{Namespace: t.Namespace, Name: pod}}}
		}
		return nil
	})
	return found, all, err
}

func leaderOf(etcd string) chooser {
	return func(ctx context.Context, targets *Targets) ([]container, error) {
		answering, _, err := targets.voters(ctx, etcd)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(answering, func(v voter) bool { return v.leads })
		if i < 0 {
			return nil, fmt.Errorf("the leader of %s does not show", etcd)
		}
		return []container{answering[i].container}, nil
	}
}

func followerOf(etcd string) chooser {
	return func(ctx context.Context, targets *Targets) ([]container, error) {
		answering, _, err := targets.voters(ctx, etcd)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(answering, func(v voter) bool { return !v.leads })
		if i < 0 {
			return nil, fmt.Errorf("no follower of %s answers", etcd)
		}
		return []container{answering[i].container}, nil
	}
}

// leaderAndFollower chooses both, unless those that answer beside them are less than a quorum.
func leaderAndFollower(etcd string) chooser {
	return func(ctx context.Context, targets *Targets) ([]container, error) {
		answering, all, err := targets.voters(ctx, etcd)
		if err != nil {
			return nil, err
		}
		if quorum := all/2 + 1; len(answering)-2 < quorum {
			return nil, fmt.Errorf("%s cannot spare two members: %d of %d voters answer", etcd, len(answering), all)
		}
		leader, err := leaderOf(etcd)(ctx, targets)
		if err != nil {
			return nil, err
		}
		follower, err := followerOf(etcd)(ctx, targets)
		if err != nil {
			return nil, err
		}
		return append(leader, follower...), nil
	}
}

// roleOf returns the role of the etcd that the pod belongs to.
func roleOf(pod string) string {
	if strings.HasPrefix(pod, v1beta1constants.ETCDEvents+"-") {
		return driver.RoleEvents
	}
	return driver.RoleMain
}
