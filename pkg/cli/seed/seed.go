// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package seed looks at a shoot's control plane in the seeds, as far as the user has access to them.
package seed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/members"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/portforward"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// timeout bounds a look at one seed. The picture must not stand still because a seed does not answer.
const timeout = 5 * time.Second

// Seeds are the seeds that the user has access to, by name.
type Seeds map[string]client.Reader

// Open opens the seeds that the flags name, each as NAME=PATH of a kubeconfig.
func Open(flags []string) (Seeds, error) {
	configs, err := Configs(flags)
	if err != nil {
		return nil, err
	}
	out := Seeds{}
	for name, config := range configs {
		c, err := client.New(config, client.Options{Scheme: kubernetes.SeedScheme})
		if err != nil {
			return nil, fmt.Errorf("failed to create a client for seed %s: %w", name, err)
		}
		out[name] = c
	}
	return out, nil
}

// Configs returns how the seeds that the flags name are reached.
func Configs(flags []string) (map[string]*rest.Config, error) {
	out := map[string]*rest.Config{}
	for _, flag := range flags {
		name, path, ok := strings.Cut(flag, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--seed-kubeconfig is %q; give the name of a seed and the path of its kubeconfig, "+
				"as in seed-a=/path", flag)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("failed to read the kubeconfig of seed %s: %w", name, err)
		}
		config.WarningHandler = rest.NoWarnings{}
		config.Timeout = timeout
		out[name] = config
	}
	return out, nil
}

// Members returns what asks the etcd members in the seeds that the flags name.
func (s Seeds) Members(flags []string) (*members.Looker, error) {
	configs, err := Configs(flags)
	if err != nil {
		return nil, err
	}
	out := map[string]members.Seed{}
	for name, config := range configs {
		// A timeout of the client would end forwarded connections; what is asked through them has its own.
		config.Timeout = 0
		forwarder, err := portforward.New("seed "+name, config)
		if err != nil {
			return nil, err
		}
		out[name] = members.Seed{Reader: s[name], Dialer: forwarder}
	}
	return members.New(out), nil
}

// Look looks at the shoot's control plane in the named seeds. What can not be seen is unknown, with the reason.
func (s Seeds) Look(ctx context.Context, shoot *gardencorev1beta1.Shoot, names ...string) []summary.Seed {
	var out []summary.Seed
	for _, name := range names {
		if name == "" {
			continue
		}
		reader, ok := s[name]
		if !ok {
			out = append(out, summary.Seed{Name: name, Unknown: fmt.Sprintf("give --seed-kubeconfig %s=PATH", name)})
			continue
		}
		seed, err := look(ctx, reader, name, v1beta1helper.ControlPlaneNamespaceForShoot(shoot))
		if err != nil {
			seed = summary.Seed{Name: name, Unknown: err.Error()}
		}
		out = append(out, seed)
	}
	return out
}

func look(ctx context.Context, reader client.Reader, name, namespace string) (summary.Seed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	for _, etcd := range etcds.Items {
		view := summary.Etcd{
			Name:                    etcd.Name,
			MemberNamePrefix:        ptr.Deref(etcd.Spec.MemberNamePrefix, ""),
			DefragmentationSchedule: ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, ""),
			Pods: podsOf(pods, func(pod corev1.Pod) bool {
				owner := metav1.GetControllerOf(&pod)
				return owner != nil && owner.Kind == "StatefulSet" && owner.Name == etcd.Name
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
		// Those of the etcd members are no names of the shoot.
		if record.Labels[exposure.LabelKey] != exposure.LabelValue {
			out.Records = append(out.Records, summary.Record{Name: record.Spec.Name, Values: record.Spec.Values})
		}
	}
	slices.SortFunc(out.Records, func(a, b summary.Record) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func podsOf(pods *corev1.PodList, wanted func(corev1.Pod) bool) []summary.Pod {
	var out []summary.Pod
	for _, pod := range pods.Items {
		if !wanted(pod) {
			continue
		}
		view := summary.Pod{Name: pod.Name, Terminating: pod.DeletionTimestamp != nil}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady {
				view.Ready = condition.Status == corev1.ConditionTrue
			}
		}
		out = append(out, view)
	}
	slices.SortFunc(out, func(a, b summary.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
