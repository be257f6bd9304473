// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
)

var _ = Describe("The resource manager in the last step", func() {
	const name = "gardener-resource-manager"

	It("should be ready beside the pods that answer its webhooks until it is", func(ctx SpecContext) {
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
			Status: appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
				Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
						Reason: "NewReplicaSetAvailable"}}},
		}
		objects := []client.Object{deployment}
		for _, pod := range []string{name + "-1", name + "-2", "livecpm-webhooks-1", "livecpm-webhooks-2"} {
			// Their Service has them all.
			objects = append(objects, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace, Labels: map[string]string{"app": name}},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		Expect(destination.UntilResourceManagerReady(bounded, newDeps(objects...), namespace)).To(Succeed())
	})
})
