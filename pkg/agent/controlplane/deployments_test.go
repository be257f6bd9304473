// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"time"

	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("DeleteDeployments", func() {
	var (
		ctx        = context.Background()
		deployment *appsv1.Deployment
	)

	in := func(c client.Client, timeout time.Duration) *controlplane.ControlPlane {
		return of(fakekubernetes.NewClientSetBuilder().WithClient(c).Build(), timeout)
	}

	BeforeEach(func() {
		deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager", Namespace: "ns"}}
	})

	It("should delete what exists and not mind what does not", func() {
		c := fakeclient.NewClientBuilder().WithObjects(deployment).Build()
		Expect(in(c, patience.Eventually).DeleteDeployments(ctx, "ns", controlplane.Controllers...)).To(Succeed())
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))).To(BeTrue())
	})

	It("should wait for pods that are still there", func() {
		deployment.Finalizers = []string{metav1.FinalizerDeleteDependents}
		c := fakeclient.NewClientBuilder().WithObjects(deployment).Build()
		Expect(in(c, 20*time.Millisecond).DeleteDeployments(ctx, "ns", deployment.Name)).
			To(MatchError(ContainSubstring("deployment ns/kube-controller-manager still has pods")))
	})
})
