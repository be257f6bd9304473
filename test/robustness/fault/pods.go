// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// gardenNamespace is where Gardener's components and the agent run in a seed.
const gardenNamespace = "garden"

// podsOf returns the running pods of a Deployment by name, those that are about to end left out.
func podsOf(ctx context.Context, seed Seed, namespace, deployment string) ([]corev1.Pod, error) {
	d, err := seed.Kube.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get deployment %s/%s: %w", namespace, deployment, err)
	}
	return runningPods(ctx, seed, namespace, metav1.FormatLabelSelector(d.Spec.Selector))
}

func runningPods(ctx context.Context, seed Seed, namespace, selector string) ([]corev1.Pod, error) {
	list, err := seed.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("failed to list pods in namespace %s: %w", namespace, err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	})
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod with %s runs in namespace %s", selector, namespace)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

// deletePod deletes a pod. Without a grace period it is left the time that the pod asks for itself.
func (t *Targets) deletePod(ctx context.Context, seed Seed, pod types.NamespacedName, grace *int64) error {
	before, err := seed.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get pod %s: %w", pod, err)
	}
	t.Log("deleting pod %s in %s", pod, seed.Name)
	err = seed.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if err != nil {
		err = fmt.Errorf("failed to delete pod %s: %w", pod, err)
		if !mayBeDone(err) {
			return err
		}
	}
	// Whether the pod leaves decides, also where the answer was lost.
	if unproven := t.proveLeaving(ctx, seed, pod, before.UID); unproven != nil {
		return errors.Join(err, unproven)
	}
	return nil
}

// mayBeDone reports whether a request may have been carried out although it has failed: nobody has answered it, or who
// answered did not know.
func mayBeDone(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err)
}

// container is a container of a pod in a seed.
type container struct {
	seed Seed
	pod  types.NamespacedName
	name string
}

// String returns the container in words.
func (c container) String() string {
	return fmt.Sprintf("container %s of pod %s in %s", c.name, c.pod, c.seed.Name)
}

// processesIn returns the processes of a container that runs.
func (t *Targets) processesIn(ctx context.Context, c container) ([]int, error) {
	pod, err := c.seed.Kube.CoreV1().Pods(c.pod.Namespace).Get(ctx, c.pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get pod %s: %w", c.pod, err)
	}
	id := containerID(pod, c.name)
	if id == "" {
		return nil, fmt.Errorf("container %s of pod %s does not run", c.name, c.pod)
	}
	pids, err := processesOf(t.Proc, id)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("failed to find a process of container %s of pod %s on this machine", c.name, c.pod)
	}
	return pids, nil
}

// killContainers ends the processes of containers by SIGKILL, all at once, so that nothing of them can end in good
// order. A deletion would not do: the kubelet sends SIGTERM first, whatever the grace period. It returns those that got
// the signal, also if something else failed.
func (t *Targets) killContainers(ctx context.Context, chosen []container) (killed []container, err error) {
	pids := make([][]int, len(chosen))
	for i, c := range chosen {
		if pids[i], err = t.processesIn(ctx, c); err != nil {
			return nil, err
		}
	}
	for i, c := range chosen {
		t.Log("killing %s (processes %v)", c, pids[i])
		if err := t.killProcesses(pids[i]); err != nil {
			return killed, fmt.Errorf("failed to kill %s: %w", c, err)
		}
		killed = append(killed, c)
	}
	for i, c := range chosen {
		if err := t.proveEnded(ctx, pids[i], c.String()); err != nil {
			return killed, err
		}
	}
	return killed, nil
}

// killProcesses sends SIGKILL to the processes of a container. One may end with another one before its turn; not all.
func (t *Targets) killProcesses(pids []int) error {
	var gone error
	signalled := false
	for _, pid := range pids {
		err := t.Signal(pid, unix.SIGKILL)
		switch {
		case errors.Is(err, unix.ESRCH):
			gone = fmt.Errorf("process %d: %w", pid, err)
		case err != nil:
			return fmt.Errorf("process %d: %w", pid, err)
		default:
			signalled = true
		}
	}
	if !signalled {
		return gone
	}
	return nil
}

// inSource counts the containers in the source.
func (t *Targets) inSource(containers []container) int {
	n := 0
	for _, c := range containers {
		if c.seed.Name == t.Seeds[steps.Source].Name {
			n++
		}
	}
	return n
}

func containerID(pod *corev1.Pod, container string) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container && status.State.Running != nil {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return id
		}
	}
	return ""
}

// processesOf returns the processes in the cgroup of a container. The nodes of the landscape are namespaces of this
// machine, so their processes are to be seen from here.
func processesOf(proc, containerID string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("failed to list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		content, err := fs.ReadFile(os.DirFS(proc), filepath.Join(entry.Name(), "cgroup"))
		if err != nil {
			continue // ended since
		}
		for line := range strings.Lines(string(content)) {
			if strings.HasSuffix(strings.TrimSpace(line), "/"+containerID) {
				pids = append(pids, pid)
				break
			}
		}
	}
	slices.Sort(pids)
	return pids, nil
}
