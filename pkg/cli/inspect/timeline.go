// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

// whereGarden is what the garden is called beside the names of seeds.
const whereGarden = "garden"

// maxLogBytes bounds what is read of one log. What is cut off is said.
const maxLogBytes = 64 << 20

// Timeline reads what was reported about one shoot, in the garden and in its seeds.
type Timeline struct {
	// Garden is the garden, Seeds are the seeds that the user has access to.
	Garden *access.Garden
	Seeds  access.Seeds
	// Runtime is the cluster that the garden's own components run in, or nil if there is no access to it.
	Runtime *access.Seed
	// Shoot is the shoot, Since the time from which on it is of interest.
	Shoot *gardencorev1beta1.Shoot
	Since time.Time
}

// Events returns the events in the order of time. The error tells what could not be read; what could be is returned
// nevertheless.
func (t Timeline) Events(ctx context.Context, seeds ...string) ([]view.Event, error) {
	out := []view.Event{}
	list := &corev1.EventList{}
	failures := []error{}
	if err := t.Garden.Client.List(ctx, list, client.InNamespace(t.Shoot.Namespace), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.name": t.Shoot.Name}),
	}); err != nil {
		failures = append(failures, fmt.Errorf("garden: failed to list the events of Shoot %s: %w",
			client.ObjectKeyFromObject(t.Shoot), err))
	}
	out = t.add(out, whereGarden, list.Items)
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(t.Shoot)
	for _, name := range seeds {
		seed, ok := t.Seeds[name]
		if !ok {
			failures = append(failures, noAccess(name))
			continue
		}
		list := &corev1.EventList{}
		if err := seed.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			failures = append(failures, fmt.Errorf("seed %s: failed to list the events in namespace %s: %w", name,
				namespace, err))
		}
		out = t.add(out, name, list.Items)
	}
	view.SortEvents(out)
	return out, errors.Join(failures...)
}

func noAccess(seed string) error {
	return fmt.Errorf("seed %s: no access; give --seed-kubeconfig %s=PATH", seed, seed)
}

func (t Timeline) add(out []view.Event, where string, events []corev1.Event) []view.Event {
	for _, event := range events {
		at := EventTime(&event)
		if at.Before(t.Since) {
			continue
		}
		count := event.Count
		if event.Series != nil {
			count = event.Series.Count
		}
		out = append(out, view.Event{
			Time: at, Where: where, Object: event.InvolvedObject.Kind + " " + event.InvolvedObject.Name,
			By:      cmp.Or(event.ReportingController, event.Source.Component),
			Warning: event.Type == corev1.EventTypeWarning, Reason: event.Reason, Message: event.Message, Count: count,
		})
	}
	return out
}

// EventTime returns when the event was reported last. Older and newer reporters write it into different fields.
func EventTime(event *corev1.Event) time.Time {
	if event.Series != nil && !event.Series.LastObservedTime.IsZero() {
		return event.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{event.LastTimestamp.Time, event.EventTime.Time, event.FirstTimestamp.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return event.CreationTimestamp.Time
}

// sourceOfLogs are pods of one kind, and which of their lines are of interest.
type sourceOfLogs struct {
	namespace string
	labels    client.MatchingLabels
	about     func(string) bool
}

// Logs returns the lines about the shoot that the garden's controller manager, agents and gardenlets have written, and
// everything that its relays and fronts have, in the order of time. The error tells what could not be read; what could
// be is returned nevertheless.
func (t Timeline) Logs(ctx context.Context, seeds ...string) ([]view.LogLine, error) {
	out := []view.LogLine{}
	failures := []error{}
	if t.Runtime != nil {
		lines, err := t.clusterLogs(ctx, whereGarden, *t.Runtime, []sourceOfLogs{
			{v1beta1constants.GardenNamespace, client.MatchingLabels{v1beta1constants.LabelApp: "livecpm",
				v1beta1constants.LabelRole: "controller-manager"}, t.about},
		})
		out, failures = append(out, lines...), append(failures, err)
	}
	for _, name := range seeds {
		seed, ok := t.Seeds[name]
		if !ok {
			failures = append(failures, noAccess(name))
			continue
		}
		lines, err := t.clusterLogs(ctx, name, seed, t.sourcesInSeed())
		out, failures = append(out, lines...), append(failures, err)
	}
	view.SortLogs(out)
	return out, errors.Join(failures...)
}

// sourcesInSeed are whose logs are read in a seed.
func (t Timeline) sourcesInSeed() []sourceOfLogs {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(t.Shoot)
	all := func(string) bool { return true }
	return []sourceOfLogs{
		{v1beta1constants.GardenNamespace, client.MatchingLabels{v1beta1constants.LabelApp: "livecpm",
			v1beta1constants.LabelRole: "agent"}, t.about},
		// The drop-in gardenlet is the agent as well.
		{v1beta1constants.GardenNamespace, client.MatchingLabels{v1beta1constants.LabelApp: "gardener",
			v1beta1constants.LabelRole: "gardenlet"}, t.about},
		{namespace, client.MatchingLabels{v1beta1constants.LabelApp: "livecpm-relay"}, all},
		{namespace, client.MatchingLabels{v1beta1constants.LabelApp: "livecpm-front"}, all},
	}
}

// clusterLogs reads the logs of one cluster.
func (t Timeline) clusterLogs(
	ctx context.Context, where string, cluster access.Seed, sources []sourceOfLogs,
) ([]view.LogLine, error) {
	var (
		out      []view.LogLine
		failures []error
	)
	miss := func(err error) {
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", spoken(where), err))
		}
	}
	for _, of := range sources {
		pods := &corev1.PodList{}
		if err := cluster.Reader.List(ctx, pods, client.InNamespace(of.namespace), of.labels); err != nil {
			miss(fmt.Errorf("failed to list the pods in namespace %s: %w", of.namespace, err))
			continue
		}
		for i := range pods.Items {
			lines, err := t.podLogs(ctx, cluster, &pods.Items[i], of.about)
			for n := range lines {
				lines[n].Where = where
			}
			out = append(out, lines...)
			miss(err)
		}
	}
	return out, errors.Join(failures...)
}

// spoken names a cluster in a message.
func spoken(where string) string {
	if where == whereGarden {
		return "runtime cluster of the garden"
	}
	return "seed " + where
}

// about reports whether a line of a log is about the shoot: its key is in all that agents write about it, be it as JSON
// or as text, and its namespace in a seed in all else.
func (t Timeline) about(line string) bool {
	quoted := func(text string) string { return `"` + text + `"` }
	return strings.Contains(line, v1beta1helper.ControlPlaneNamespaceForShoot(t.Shoot)) ||
		strings.Contains(line, t.Shoot.Namespace+"/"+t.Shoot.Name) ||
		strings.Contains(line, quoted(t.Shoot.Name)) && strings.Contains(line, quoted(t.Shoot.Namespace))
}

// podLogs reads the logs of all containers of the pod, also those of a container that was started again.
func (t Timeline) podLogs(
	ctx context.Context, cluster access.Seed, pod *corev1.Pod, about func(string) bool,
) ([]view.LogLine, error) {
	var (
		out      []view.LogLine
		failures []error
	)
	for _, container := range pod.Spec.Containers {
		restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
			return status.Name == container.Name && status.RestartCount > 0
		})
		for _, previous := range []bool{true, false} {
			if previous && !restarted {
				continue
			}
			options := &corev1.PodLogOptions{Container: container.Name, Previous: previous, Timestamps: true}
			if !t.Since.IsZero() {
				since := metav1.NewTime(t.Since)
				options.SinceTime = &since
			}
			stream, err := cluster.Logs.Logs(ctx, pod.Namespace, pod.Name, options)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			lines, err := logLines(stream, about)
			for i := range lines {
				lines[i].Pod, lines[i].Container = pod.Name, container.Name
			}
			out = append(out, lines...)
			if err != nil {
				failures = append(failures, fmt.Errorf("log of pod %s/%s: %w", pod.Namespace, pod.Name, err))
			}
		}
	}
	return out, errors.Join(failures...)
}

// logLines splits a log whose lines begin with the time at which the kubelet has read them.
func logLines(stream io.ReadCloser, about func(string) bool) ([]view.LogLine, error) {
	defer stream.Close()
	const longest = 1 << 20
	limited := &io.LimitedReader{R: stream, N: maxLogBytes}
	scanner := bufio.NewScanner(limited)
	scanner.Buffer(nil, longest)
	var out []view.LogLine
	for scanner.Scan() {
		stamp, text, _ := strings.Cut(scanner.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || !about(text) {
			continue
		}
		out = append(out, view.LogLine{Time: at, Text: text})
	}
	if err := scanner.Err(); err != nil {
		return out, fmt.Errorf("failed to read: %w", err)
	}
	if limited.N <= 0 {
		return out, fmt.Errorf("only the first %d MiB were read; ask for a shorter time with --since", maxLogBytes>>20)
	}
	return out, nil
}
