// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
)

// hookAnnotation makes an object a hook of Helm, which the renderer leaves out.
const hookAnnotation = "helm.sh/hook:"

// repack packs a chart again with all its files changed.
func repack(chart string, change func(string) string) []byte {
	GinkgoHelper()
	archive, err := charts.Archive(chart)
	Expect(err).NotTo(HaveOccurred())
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	Expect(err).NotTo(HaveOccurred())
	out := &bytes.Buffer{}
	compressor := gzip.NewWriter(out)
	from, to := tar.NewReader(compressed), tar.NewWriter(compressor)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(from)
		Expect(err).NotTo(HaveOccurred())
		changed := change(string(content))
		header.Size = int64(len(changed))
		Expect(to.WriteHeader(header)).To(Succeed())
		_, err = to.Write([]byte(changed))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(to.Close()).To(Succeed())
	Expect(compressor.Close()).To(Succeed())
	return out.Bytes()
}

// withHooks renders the hooks of the chart as if they were ordinary objects.
func withHooks(chart string, values map[string]any) []client.Object {
	GinkgoHelper()
	archive := repack(chart, func(content string) string {
		return strings.ReplaceAll(content, hookAnnotation, "example.com/hook:")
	})
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderArchive(archive,
		release, namespace, values)
	Expect(err).NotTo(HaveOccurred())
	var out []client.Object
	for _, manifest := range rendered.Manifests {
		object, _, err := strict.Decode([]byte(manifest.Content), nil, nil)
		Expect(err).NotTo(HaveOccurred(), manifest.Name+"\n"+manifest.Content)
		out = append(out, object.(client.Object))
	}
	return out
}

var _ = Describe("The check before Helm removes a release", func() {
	// secure are the pods that the reviewers of the Deployments accept.
	secure := func(pod corev1.PodSpec) {
		GinkgoHelper()
		Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
		Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
		for _, container := range append(append([]corev1.Container{}, pod.InitContainers...), pod.Containers...) {
			Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
			Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
			Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
			Expect(container.Resources.Requests).NotTo(BeEmpty())
		}
	}

	DescribeTable("is a hook that fails for good, with the access of the program that it is about",
		func(chart string, values map[string]any, token bool) {
			for _, object := range render(chart, values) {
				Expect(object).NotTo(BeAssignableToTypeOf(&batchv1.Job{}), "it would run when the chart is installed")
			}
			objects := withHooks(chart, values)
			job, deployment := only[*batchv1.Job](objects), only[*appsv1.Deployment](objects)
			Expect(job.Annotations).To(HaveKeyWithValue("example.com/hook", "pre-delete"))
			Expect(job.Namespace).To(Equal(namespace))
			Expect(job.Spec.BackoffLimit).To(HaveValue(BeZero()))
			Expect(job.Spec.ActiveDeadlineSeconds).NotTo(BeNil())

			pod, program := job.Spec.Template.Spec, deployment.Spec.Template.Spec
			secure(pod)
			Expect(pod.RestartPolicy).To(Equal(corev1.RestartPolicyNever))
			Expect(pod.AutomountServiceAccountToken).To(HaveValue(Equal(token)))
			Expect(pod.ServiceAccountName).To(Equal(program.ServiceAccountName))
			Expect(pod.Containers[0].Image).To(Equal(program.Containers[0].Image))
			Expect(pod.Containers[0].Args).To(Equal([]string{"removable", program.Containers[0].Args[0]}))
			Expect(pod.InitContainers).To(Equal(program.InitContainers))
			// It reads the same files.
			Expect(pod.Volumes).NotTo(BeEmpty())
			Expect(program.Volumes).To(ContainElements(pod.Volumes))
			Expect(program.Containers[0].VolumeMounts).To(ContainElements(pod.Containers[0].VolumeMounts))
			Expect(pod.Containers[0].VolumeMounts).To(HaveLen(len(pod.Volumes)))
			// It is none of the program's pods.
			Expect(labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).
				Matches(labels.Set(job.Spec.Template.Labels))).To(BeFalse())
		},
		Entry("the agent", charts.Agent, map[string]any{}, false),
		Entry("the agent that adopts", charts.Agent, map[string]any{"gardenlet": map[string]any{"adopt": true}}, true),
		Entry("the controller manager in the garden", charts.Garden,
			map[string]any{"controllerManager": map[string]any{"enabled": true}}, true),
		Entry("the controller manager beside a virtual garden", charts.Garden, map[string]any{
			"controllerManager": map[string]any{"enabled": true,
				"gardenKubeconfig": map[string]any{"secretName": "virtual-garden"}},
		}, false),
	)

	DescribeTable("is left out where there is nothing to check, or where the garden refuses the removal",
		func(chart string, values map[string]any) {
			for _, object := range withHooks(chart, values) {
				Expect(object).NotTo(BeAssignableToTypeOf(&batchv1.Job{}))
			}
		},
		Entry("an agent without it", charts.Agent, map[string]any{"removalCheck": map[string]any{"enabled": false}}),
		Entry("an agent that a gardenlet installs", charts.Agent,
			map[string]any{"gardener": map[string]any{"seed": map[string]any{"name": "my-seed"}}}),
		Entry("a drop-in gardenlet", charts.Agent, map[string]any{"dropIn": true}),
		Entry("a garden without controller manager", charts.Garden, map[string]any{}),
		Entry("a virtual garden", charts.Garden, map[string]any{"runtime": map[string]any{"enabled": false},
			"controllerManager": map[string]any{"enabled": true}}),
		Entry("a controller manager without it", charts.Garden,
			map[string]any{"controllerManager": map[string]any{"enabled": true,
				"removalCheck": map[string]any{"enabled": false}}}),
	)
})

var _ = Describe("#Archive", func() {
	It("should give the same bytes twice, and pack what renders as the chart does", func() {
		first, err := charts.Archive(charts.Agent)
		Expect(err).NotTo(HaveOccurred())
		second, err := charts.Archive(charts.Agent)
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Equal(first, second)).To(BeTrue())

		rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderArchive(first,
			release, namespace, nil)
		Expect(err).NotTo(HaveOccurred())
		installed := charts.Release{Chart: charts.Agent, Name: release, Namespace: namespace, Kubernetes: "v1.36.3"}
		manifests, err := installed.Render(nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(rendered.Manifests).To(HaveLen(len(manifests)))
		for i, manifest := range manifests {
			Expect(rendered.Manifests[i].Content).To(Equal(manifest.Content))
		}
	})

	It("should report a chart that is missing", func() {
		_, err := charts.Archive("none")
		Expect(err).To(MatchError(ContainSubstring("failed to pack chart none")))
	})
})
