// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// Whether nodes can pull an image shows only when a kubelet tries. So the pods that look for room have one more
// container for each image of the pods whose place they take. It has no program to run, so that it ends at once.

const (
	// pullPrefix begins the names of those containers.
	pullPrefix = "pull-"
	// noProgram is the command of those containers: a file that no image has.
	noProgram = "/livecpm-only-pulls-this-image"
	// beside is the name of the need whose pods pull the images of what is left out as small.
	beside = "images"
	// maxMessageLength bounds what is published of a kubelet's message.
	maxMessageLength = 300
)

// pullTroubles are why a container waits whose image the kubelet cannot pull (upstream's pkg/kubelet/images).
var pullTroubles = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
	"RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed"}

// startTroubles are why a container waits that has its image: the program that is not there does not start. It depends
// on the container runtime when it notices.
var startTroubles = []string{"CrashLoopBackOff", "RunContainerError", "CreateContainerError"}

// stillPulling is the error if images are being pulled, and nothing is wrong so far.
type stillPulling struct{ error }

// carriers are the needs, and one more for the images of what has none of its own.
func (s *stage) carriers() []seedfacts.Need {
	out := slices.Clone(s.needs)
	if slices.ContainsFunc(s.images, func(i image) bool { return s.carrier(i) == beside }) {
		out = append(out, seedfacts.Need{Name: beside, Pods: 1})
	}
	return out
}

// carrier returns the name of the need whose pods pull the image.
func (s *stage) carrier(i image) string {
	if slices.ContainsFunc(s.needs, func(need seedfacts.Need) bool { return need.Name == i.of }) {
		return i.of
	}
	return beside
}

// pulledBy returns the images that the pods of the need pull.
func (s *stage) pulledBy(need string) []image {
	var out []image
	for _, i := range s.images {
		known := func(other image) bool { return other.ref == i.ref }
		if s.carrier(i) == need && !slices.ContainsFunc(out, known) {
			out = append(out, i)
		}
	}
	return out
}

// pullers returns the containers that pull the images. They may do as little as the given container.
func (s *stage) pullers(need string, like corev1.Container) []corev1.Container {
	var out []corev1.Container
	for ordinal, i := range s.pulledBy(need) {
		out = append(out, corev1.Container{
			Name: fmt.Sprintf("%s%d-%s", pullPrefix, ordinal, i.name), Image: i.ref,
			// As Gardener and etcd-druid set it: an image that is there already is not asked for.
			ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{noProgram},
			SecurityContext: like.SecurityContext.DeepCopy(),
		})
	}
	return out
}

// checkPulls returns an error unless all images are on the nodes of the pods that pull them. It is stillPulling if
// nothing is wrong so far.
func (s *stage) checkPulls(ctx context.Context) error {
	if len(s.images) == 0 {
		return nil
	}
	pods := &corev1.PodList{}
	if err := s.options.SeedClient.List(ctx, pods, client.InNamespace(s.values.Namespace),
		client.HasLabels{LabelRoom}); err != nil {
		return fmt.Errorf("failed to list the pods in namespace %s: %w", s.values.Namespace, err)
	}
	var expected, pulled int
	failed := false
	for _, need := range s.carriers() {
		expected += int(need.Pods) * len(s.pulledBy(need.Name))
	}
	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			switch {
			case !strings.HasPrefix(status.Name, pullPrefix):
			case isPulled(status):
				pulled++
			case cannotPull(status):
				failed = true
			}
		}
	}
	if pulled >= expected {
		return nil
	}
	err := fmt.Errorf("%d of %d times, a node has an image of the control plane that a pod there would need", pulled,
		expected)
	if failed {
		return err
	}
	return stillPulling{err}
}

// isPulled reports whether the container has its image.
func isPulled(status corev1.ContainerStatus) bool {
	return status.ImageID != "" || status.State.Running != nil || status.State.Terminated != nil ||
		status.LastTerminationState.Terminated != nil ||
		status.State.Waiting != nil && slices.Contains(startTroubles, status.State.Waiting.Reason)
}

// cannotPull reports whether the kubelet has failed to pull the image of the container.
func cannotPull(status corev1.ContainerStatus) bool {
	return !isPulled(status) && status.State.Waiting != nil &&
		slices.Contains(pullTroubles, status.State.Waiting.Reason)
}

// pulled returns the references of the images, sorted.
func (s *stage) pulled() []string {
	var out []string
	for _, i := range s.images {
		out = append(out, i.ref)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var (
	// Registries lead to stores by URLs that are signed for a while, and proxies may have credentials in theirs.
	urlQuery    = regexp.MustCompile(`(https?://[^\s"'?]+)\?[^\s"']+`)
	urlUserinfo = regexp.MustCompile(`(https?://)[^\s"'/@]+@`)
)

// shortened leaves out of a kubelet's message what may be a credential, and what is too long.
func shortened(message string) string {
	message = urlQuery.ReplaceAllString(message, "$1?…")
	message = urlUserinfo.ReplaceAllString(message, "$1…@")
	return conditions.Cut(strings.TrimSpace(message), maxMessageLength)
}
