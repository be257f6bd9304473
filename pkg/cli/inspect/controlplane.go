// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package inspect is what kubectl-livecpm makes of what it sees: the control planes of a shoot in the seeds and their
// etcd members, whether a shoot is ready to migrate (Plan), and whether everything is in order after a migration
// (Verify). Plan and Verify are pure; their readers read what they judge. Nothing is changed from here.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// lookTimeout bounds a look at one seed. The screen must not stand still because a seed does not answer.
const lookTimeout = 5 * time.Second

// ControlPlanes looks at the shoot's control plane in the named seeds. What cannot be seen is unknown, with the reason.
func ControlPlanes(
	ctx context.Context, seeds access.Seeds, shoot *gardencorev1beta1.Shoot, names ...string,
) []summary.Seed {
	var out []summary.Seed
	for _, name := range names {
		if name == "" {
			continue
		}
		open, ok := seeds[name]
		if !ok {
			out = append(out, summary.Seed{Name: name, Unknown: fmt.Sprintf("give --seed-kubeconfig %s=PATH", name)})
			continue
		}
		seed, err := controlPlane(ctx, open.Reader, name, v1beta1helper.ControlPlaneNamespaceForShoot(shoot))
		if err != nil {
			seed = summary.Seed{Name: name, Unknown: err.Error()}
		}
		out = append(out, seed)
	}
	return out
}

func controlPlane(ctx context.Context, reader client.Reader, name, namespace string) (summary.Seed, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	out := summary.Seed{Name: name}
	var (
		agents  = &appsv1.DeploymentList{}
		etcds   = &druidcorev1alpha1.EtcdList{}
		pods    = &corev1.PodList{}
		records = &extensionsv1alpha1.DNSRecordList{}
	)
	if err := reader.List(ctx, agents, client.InNamespace(v1beta1constants.GardenNamespace),
		client.MatchingLabels{"app": "livecpm", "role": "agent"}); err != nil {
		return out, fmt.Errorf("failed to list the Deployments of the agent: %w", err)
	}
	for _, own := range []struct {
		kinds string
		list  client.ObjectList
	}{{"Etcds", etcds}, {"Pods", pods}, {"DNSRecords", records}} {
		if err := reader.List(ctx, own.list, client.InNamespace(namespace)); err != nil {
			return out, fmt.Errorf("failed to list the %s in namespace %s: %w", own.kinds, namespace, err)
		}
	}

	out.Agent = &summary.Agent{}
	for _, agent := range agents.Items {
		out.Agent.Desired += ptr.Deref(agent.Spec.Replicas, 1)
		out.Agent.Ready += agent.Status.ReadyReplicas
	}
	// Who may not read it sees the rest.
	if lease, err := lease(ctx, reader, configv1alpha1.DefaultLeaseName); err == nil && lease != nil {
		out.Agent.Led = ledAt(lease)
	}
	for _, etcd := range etcds.Items {
		view := summary.Etcd{
			Name:                    etcd.Name,
			MemberNamePrefix:        ptr.Deref(etcd.Spec.MemberNamePrefix, ""),
			DefragmentationSchedule: ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, ""),
			Pods: podsOf(pods, func(pod corev1.Pod) bool {
				return ownedByStatefulSet(pod, etcd.Name)
			}),
		}
		for _, member := range etcd.Status.Members {
			view.Members = append(view.Members,
				summary.Member{Name: member.Name, Role: string(ptr.Deref(member.Role, "")),
					Status: string(member.Status)})
		}
		out.Etcds = append(out.Etcds, view)
	}
	out.APIServers = podsOf(pods, func(pod corev1.Pod) bool {
		return pod.Labels[v1beta1constants.LabelApp] == v1beta1constants.LabelKubernetes &&
			pod.Labels[v1beta1constants.LabelRole] == v1beta1constants.LabelAPIServer
	})
	for _, record := range records.Items {
		out.Records = append(out.Records, summary.Record{Name: record.Spec.Name, Values: record.Spec.Values})
	}
	slices.SortFunc(out.Records, func(a, b summary.Record) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// ledAt returns when the lease was held for the last time, as far as it tells.
func ledAt(lease *coordinationv1.Lease) *metav1.Time {
	if lease.Spec.RenewTime == nil {
		return nil
	}
	return new(metav1.NewTime(lease.Spec.RenewTime.Time))
}

func podsOf(pods *corev1.PodList, wanted func(corev1.Pod) bool) []summary.Pod {
	var out []summary.Pod
	for _, pod := range pods.Items {
		if !wanted(pod) {
			continue
		}
		out = append(out, summary.Pod{Name: pod.Name, Ready: health.IsPodReady(&pod),
			Terminating: pod.DeletionTimestamp != nil})
	}
	slices.SortFunc(out, func(a, b summary.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func ownedByStatefulSet(pod corev1.Pod, name string) bool {
	owner := metav1.GetControllerOf(&pod)
	return owner != nil && owner.Kind == "StatefulSet" && owner.Name == name
}
