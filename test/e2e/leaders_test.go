// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/steps"
	"github.com/livecpm/livecpm/test/landscape/config"
)

const (
	agentNamespace = "garden"
	agentLease     = "livecpm-agent-leader-election"
)

// leaderKiller kills the leader of the agent in both seeds once per step. So that no step is over before it is seen, the
// migration pauses before each of them, and the kill follows at once when it is let go on.
type leaderKiller struct {
	landscape        *config.Config
	namespace, shoot string
	// killed holds the pods that were killed by step and seed.
	killed map[gardencorev1beta1.ConditionType]map[string]string
}

// pauseBefore makes the migration hold before the step, and lets it go on if it holds before another one.
func (k *leaderKiller) pauseBefore(ctx context.Context, garden client.Client, condition gardencorev1beta1.ConditionType) error {
	value := fmt.Sprintf("%q", condition)
	if condition == "" {
		value = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, steps.AnnotationPauseBefore, value)
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.shoot}}
	if err := garden.Patch(ctx, shoot, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("failed to pause before %s: %w", condition, err)
	}
	return nil
}

// onShoot acts when the migration holds before its current step.
func (k *leaderKiller) onShoot(ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot) {
	conditions := steps.Conditions(shoot)
	step, ok := steps.Current(conditions)
	if !ok || !steps.Initialized(conditions) || k.killed[step.Condition] != nil || !paused(conditions, step) {
		return
	}

	var next gardencorev1beta1.ConditionType
	if i := steps.Index(step.Condition) + 1; i < len(steps.Table()) {
		next = steps.Table()[i].Condition
	}
	if err := k.pauseBefore(ctx, garden, next); err != nil {
		GinkgoWriter.Println(err)
		return
	}
	if k.killed == nil {
		k.killed = map[gardencorev1beta1.ConditionType]map[string]string{}
	}
	k.killed[step.Condition] = map[string]string{}
	for _, seed := range k.landscape.Seeds {
		pod, err := k.kill(ctx, seed.Name)
		if err != nil {
			GinkgoWriter.Println(err)
			continue
		}
		k.killed[step.Condition][seed.Name] = pod
		GinkgoWriter.Printf("killed %s in %s at the start of %s\n", pod, seed.Name, step)
	}
}

func paused(conditions []gardencorev1beta1.Condition, step steps.Step) bool {
	for _, condition := range conditions {
		if condition.Type == step.Condition {
			return condition.Reason == string(steps.ReasonPaused)
		}
	}
	return false
}

// kill ends the pod that holds the lease, without giving it time to say goodbye.
func (k *leaderKiller) kill(ctx context.Context, seed string) (string, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", k.landscape.Kubeconfig(seed))
	if err != nil {
		return "", fmt.Errorf("failed to read kubeconfig of %s: %w", seed, err)
	}
	kube, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return "", fmt.Errorf("failed to create client for %s: %w", seed, err)
	}
	lease, err := kube.CoordinationV1().Leases(agentNamespace).Get(ctx, agentLease, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get lease of the agent in %s: %w", seed, err)
	}
	pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if pod == "" {
		return "", fmt.Errorf("no agent leads in %s", seed)
	}
	if err := kube.CoreV1().Pods(agentNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		return "", fmt.Errorf("failed to delete pod %s in %s: %w", pod, seed, err)
	}
	return pod, nil
}
