// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
)

const (
	familyEtcdKill = "etcd-kill"

	etcdContainer = "etcd"
)

// etcdSpans say from when to when each side has members.
var etcdSpans = map[steps.Role]span{
	steps.Source: {begin, point{gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete, Inside}},
	steps.Destination: {point{gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer, Boundary},
		end},
}

// etcdKill kills a member of etcd-main: the leader if it is in the seed, because that is the worst case.
type etcdKill struct {
	fault
	etcdVictims

	role steps.Role
}

// etcdVictims remembers which etcd pods of the source a fault has made restart.
type etcdVictims struct{ inSource int }

// killMembers kills the containers of members, all at once.
func (v *etcdVictims) killMembers(ctx context.Context, targets *Targets, members ...container) error {
	killed, err := targets.killContainers(ctx, members)
	v.inSource += targets.inSource(killed)
	return err
}

func (v *etcdVictims) sourceEtcdRestarts() int { return v.inSource }

func etcdKills() []Fault {
	const family = familyEtcdKill
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &etcdKill{
			fault: fault{name: family + "-" + string(role), family: family, span: etcdSpans[role]}, role: role})
	}
	return faults
}

// Inject implements Fault.
func (f *etcdKill) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		pods, err := etcdPods(ctx, seed, targets.Namespace, v1beta1constants.ETCDMain)
		if err != nil {
			return err
		}
		leader := types.NamespacedName{Namespace: targets.Namespace, Name: targets.leaderAmong(ctx, seed, pods)}
		return f.killMembers(ctx, targets, container{seed: seed, pod: leader, name: etcdContainer})
	})
}

// etcdPods returns the running pods of an etcd.
func etcdPods(ctx context.Context, seed Seed, namespace, etcd string) ([]corev1.Pod, error) {
	s, err := seed.Kube.AppsV1().StatefulSets(namespace).Get(ctx, etcd, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get StatefulSet %s/%s: %w", namespace, etcd, err)
	}
	return runningPods(ctx, seed, namespace, metav1.FormatLabelSelector(s.Spec.Selector))
}

// leaderAmong returns the pod of the leader, or the first one if the leader is not among them or does not show.
func (t *Targets) leaderAmong(ctx context.Context, seed Seed, pods []corev1.Pod) string {
	for _, pod := range pods {
		member, err := t.Etcd(ctx, seed, pod.Name)
		if err != nil {
			t.Log("%v", err)
			continue
		}
		id, leader, err := member.Status(ctx)
		_ = member.Close()
		if err != nil {
			t.Log("%v", err)
			continue
		}
		if id == leader {
			return pod.Name
		}
	}
	return pods[0].Name
}

// anyMember calls do with a member that answers, whichever seed it is in.
func (t *Targets) anyMember(ctx context.Context, do func(member Member, id uint64) error) error {
	err := fmt.Errorf("no pod of %s runs in either seed", v1beta1constants.ETCDMain)
	for _, role := range sides {
		seed, ok := t.Seeds[role]
		if !ok {
			continue
		}
		pods, listErr := etcdPods(ctx, seed, t.Namespace, v1beta1constants.ETCDMain)
		if listErr != nil {
			continue
		}
		for _, pod := range pods {
			if err = t.onMember(ctx, seed, pod.Name, do); err == nil {
				return nil
			}
		}
	}
	return err
}

func (t *Targets) onMember(ctx context.Context, seed Seed, pod string, do func(member Member, id uint64) error) error {
	member, err := t.Etcd(ctx, seed, pod)
	if err != nil {
		return err
	}
	defer func() { _ = member.Close() }()
	id, _, err := member.Status(ctx)
	if err != nil {
		return err
	}
	return do(member, id)
}

// ConnectEtcd is how faults connect to a shoot's etcds in the landscape.
func ConnectEtcd(
	landscape *config.Config, namespace string,
) func(ctx context.Context, seed Seed, pod string) (Member, error) {
	return func(ctx context.Context, seed Seed, pod string) (Member, error) {
		// The requests of the seed's own client have a timeout, which would cut the connection.
		cluster, err := driver.Connect(landscape, seed.Name)
		if err != nil {
			return nil, err
		}
		client, err := cluster.Etcd(ctx, driver.EtcdPod{Namespace: namespace, Role: roleOf(pod), Name: pod})
		if err != nil {
			return nil, err
		}
		return &member{client: client, pod: pod}, nil
	}
}
