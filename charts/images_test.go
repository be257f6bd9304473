// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
)

// The relay's image is the agent's to know: its configuration is in a spec of its own.
var _ = Describe("The images of pods", func() {
	ref := "registry.example.com/mirror/program@sha256:" + strings.Repeat("0", 64)
	own := map[string]any{"image": map[string]any{"ref": ref},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}, map[string]any{"name": "mirror"}}}
	with := func(more map[string]any) map[string]any {
		out := maps.Clone(own)
		maps.Copy(out, more)
		return out
	}
	pods := func(objects []client.Object) map[string]corev1.PodSpec {
		out := map[string]corev1.PodSpec{}
		for _, object := range objects {
			switch object := object.(type) {
			case *appsv1.Deployment:
				out[object.Name] = object.Spec.Template.Spec
			case *batchv1.Job:
				out[object.Name] = object.Spec.Template.Spec
			}
		}
		return out
	}

	DescribeTable("should come from the registry that the values name, with its credentials",
		func(chart string, values map[string]any, expected ...string) {
			seen := pods(withHooks(chart, values))
			Expect(seen).To(HaveLen(len(expected)))
			for _, name := range expected {
				Expect(seen).To(HaveKey(name))
				Expect(seen[name].ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: "registry"},
					{Name: "mirror"}}), name)
				for _, container := range append(seen[name].InitContainers, seen[name].Containers...) {
					Expect(container.Image).To(Equal(ref), "%s of %s", container.Name, name)
				}
			}
		},
		Entry("of the agent", charts.Agent, with(nil), "livecpm-agent", "livecpm-agent-removal-check"),
		Entry("of an agent that takes over from the gardenlet", charts.Agent,
			with(map[string]any{"gardenlet": map[string]any{"adopt": true}}), "livecpm-agent",
			"livecpm-agent-removal-check"),
		Entry("of the controller manager", charts.Garden,
			map[string]any{"controllerManager": with(map[string]any{"enabled": true})}, "livecpm-controller-manager",
			"livecpm-removal-check"),
	)
})
