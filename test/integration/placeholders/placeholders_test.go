// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	"github.com/livecpm/livecpm/test/landscape/seedsetup"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	realImage = "registry.example.com/real:v1"
	// waitForPolicies is how long policies may take to come into force.
	waitForPolicies = patience.Eventually
)

// container has everything that a program may bring along.
func container(name, image string) corev1.Container {
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080), Path: "/healthz"},
		},
	}
	return corev1.Container{
		Name:           name,
		Image:          image,
		Command:        []string{"/program"},
		Args:           []string{"--flag"},
		Env:            []corev1.EnvVar{{Name: "KEY", Value: "value"}},
		Ports:          []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: probe.DeepCopy(),
		LivenessProbe:  probe.DeepCopy(),
		StartupProbe:   probe.DeepCopy(),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/stop"}}},
		},
	}
}

// initContainer has what one that is run before the others may have.
func initContainer(name, image string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Command: []string{"/prepare"}, Args: []string{"--flag"}}
}

func sidecar(name, image string) corev1.Container {
	out := container(name, image)
	out.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return out
}

// created returns the pod as the kube-apiserver has taken it. The policies are in force a moment after they were
// created.
func created(containers, initContainers []corev1.Container, taken func(Gomega, *corev1.Pod)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "pod-"},
			Spec:       corev1.PodSpec{Containers: containers, InitContainers: initContainers},
		}
		g.Expect(seed.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		taken(g, pod)
	}).WithTimeout(waitForPolicies).Should(Succeed())
}

// asGiven reports whether a container is still what it was.
func asGiven(g Gomega, actual, given corev1.Container) {
	GinkgoHelper()
	g.Expect(actual.Command).To(Equal(given.Command))
	g.Expect(actual.Args).To(Equal(given.Args))
	for _, pair := range [][2]*corev1.Probe{{actual.ReadinessProbe, given.ReadinessProbe},
		{actual.LivenessProbe, given.LivenessProbe}, {actual.StartupProbe, given.StartupProbe}} {
		g.Expect(pair[0] == nil).To(Equal(pair[1] == nil))
	}
	g.Expect(actual.Lifecycle).To(Equal(given.Lifecycle))
}

func expectStripped(g Gomega, actual corev1.Container) {
	GinkgoHelper()
	g.Expect(actual.Command).To(BeEmpty())
	g.Expect(actual.ReadinessProbe).To(BeNil())
	g.Expect(actual.LivenessProbe).To(BeNil())
	g.Expect(actual.StartupProbe).To(BeNil())
	g.Expect(actual.Lifecycle).To(BeNil())
}

var _ = Describe("The policy for placeholders", func() {
	It("should take away what is the real program's, and nothing else", func() {
		given := container("placeholder", seedsetup.PlaceholderImage)
		created([]corev1.Container{given}, nil, func(g Gomega, pod *corev1.Pod) {
			g.Expect(pod.Spec.Containers).To(HaveLen(1))
			expectStripped(g, pod.Spec.Containers[0])
			g.Expect(pod.Spec.Containers[0].Args).To(BeEmpty())
			g.Expect(pod.Spec.Containers[0].Env).To(Equal(given.Env))
			g.Expect(pod.Spec.Containers[0].Ports).To(HaveLen(1))
			g.Expect(pod.Spec.Containers[0].Image).To(Equal(seedsetup.PlaceholderImage))
		})
	})

	It("should leave the other containers of the pod alone", func() {
		real := container("real", realImage)
		bare := corev1.Container{Name: "bare", Image: seedsetup.PlaceholderImage}
		created([]corev1.Container{real, container("placeholder", seedsetup.PlaceholderImage), bare},
			nil, func(g Gomega, pod *corev1.Pod) {
				asGiven(g, pod.Spec.Containers[0], real)
				expectStripped(g, pod.Spec.Containers[1])
				g.Expect(pod.Spec.Containers[2].Image).To(Equal(seedsetup.PlaceholderImage))
			})
	})

	It("should let init containers end, and those continue that run beside the others", func() {
		real := initContainer("real", realImage)
		created(
			[]corev1.Container{container("placeholder", seedsetup.PlaceholderImage)},
			[]corev1.Container{initContainer("first", seedsetup.PlaceholderImage),
				sidecar("second", seedsetup.PlaceholderImage), real},
			func(g Gomega, pod *corev1.Pod) {
				g.Expect(pod.Spec.InitContainers).To(HaveLen(3))
				expectStripped(g, pod.Spec.InitContainers[0])
				g.Expect(pod.Spec.InitContainers[0].Args).To(Equal([]string{"--end"}))
				expectStripped(g, pod.Spec.InitContainers[1])
				g.Expect(pod.Spec.InitContainers[1].Args).To(BeEmpty())
				asGiven(g, pod.Spec.InitContainers[2], real)
			})
	})

	It("should leave pods without placeholders alone", func() {
		real, before := container("real", realImage), initContainer("before", realImage)
		// The policies are in force by now, or an earlier spec would wait for them.
		created([]corev1.Container{container("placeholder", seedsetup.PlaceholderImage)},
			nil, func(g Gomega, pod *corev1.Pod) { expectStripped(g, pod.Spec.Containers[0]) })
		created([]corev1.Container{real}, []corev1.Container{before}, func(g Gomega, pod *corev1.Pod) {
			asGiven(g, pod.Spec.Containers[0], real)
			asGiven(g, pod.Spec.InitContainers[0], before)
		})
	})
})

var _ = Describe("The policy for objects without an operator", func() {
	DescribeTable("should let nobody wait for their health", func(annotations map[string]string) {
		Eventually(func(g Gomega) {
			prometheus := &monitoringv1.Prometheus{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault,
				GenerateName: "prometheus-", Annotations: annotations}}
			g.Expect(seed.Create(ctx, prometheus)).To(Succeed())
			g.Expect(prometheus.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.SkipHealthCheck, "true"))
			for key, value := range annotations {
				g.Expect(prometheus.Annotations).To(HaveKeyWithValue(key, value))
			}

			prometheus.Annotations = nil
			g.Expect(seed.Update(ctx, prometheus)).To(Succeed())
			g.Expect(prometheus.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.SkipHealthCheck, "true"),
				"after an update")
		}).WithTimeout(waitForPolicies).Should(Succeed())
	},
		Entry("without annotations", nil),
		Entry("with others", map[string]string{"example.com/key": "value"}),
	)
})
