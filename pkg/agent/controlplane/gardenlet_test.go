// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var _ = Describe("The rollout of the gardenlet", func() {
	look := func(objects ...client.Object) (preflight.RolloutView, error) {
		GinkgoHelper()
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		controlPlane, err := controlplane.New(controlplane.Options{
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build(),
			Timings:       flows.DefaultTimings(),
			Clock:         clock.RealClock{},
			DestroyTunnel: func(context.Context, *migration.Migration) error { return nil },
		})
		Expect(err).NotTo(HaveOccurred())
		return controlPlane.GardenletRollout(context.Background())
	}
	deployment := func(image string, change func(*appsv1.Deployment)) *appsv1.Deployment {
		out := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardenlet", Generation: 3},
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "sidecar", Image: "sidecar:v9.9.9"}, {Name: "gardenlet", Image: image},
				}},
			}},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2,
				AvailableReplicas: 2},
		}
		change(out)
		return out
	}

	DescribeTable("is pending until nothing of before is left", func(pending string, change func(*appsv1.Deployment)) {
		view, err := look(deployment("gardenlet:v1.150.0", change))
		Expect(err).NotTo(HaveOccurred())
		Expect(view.Name).To(Equal("garden/gardenlet"))
		Expect(view.Pending).To(Equal(pending))
	},
		Entry("complete", "", func(*appsv1.Deployment) {}),
		Entry("not observed", "its change has not been observed yet",
			func(d *appsv1.Deployment) { d.Generation = 4 }),
		Entry("not updated", "1 of 2 replicas are updated",
			func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }),
		Entry("one of before", "1 replicas of before have not ended",
			func(d *appsv1.Deployment) { d.Status.Replicas = 3 }),
		Entry("not available", "1 of 2 replicas are available",
			func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }),
	)

	DescribeTable("tells the version if the image has it", func(image, version string) {
		view, err := look(deployment(image, func(*appsv1.Deployment) {}))
		Expect(err).NotTo(HaveOccurred())
		Expect(view.Version).To(Equal(version))
	},
		Entry("tag", "registry/gardener/gardenlet:v1.150.1", "v1.150.1"),
		Entry("tag and digest", "registry:5000/gardenlet:v1.150.1@sha256:abc", "v1.150.1"),
		Entry("a build", "gardenlet:v1.151.0-dev", "v1.151.0-dev"),
		Entry("port and no tag", "registry:5000/gardenlet", ""),
		Entry("digest alone", "registry/gardenlet@sha256:abc", ""),
		Entry("no version", "gardenlet:latest", ""),
		Entry("no v", "gardenlet:1.150.1", ""),
	)

	It("should not be taken for complete if it cannot be read", func() {
		_, err := look()
		Expect(err).To(MatchError(ContainSubstring("failed to read Deployment garden/gardenlet")))
	})
})
