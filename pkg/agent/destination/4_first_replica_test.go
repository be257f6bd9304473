// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/component/apiserver"
	kubeapiserver "github.com/gardener/gardener/pkg/component/kubernetes/apiserver"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/destination"
)

// forAvailability does to the Deployment of a shoot with three replicas of each server what the webhook of the seed's
// gardener-resource-manager does (Gardener's pkg/resourcemanager/webhook/highavailabilityconfig).
func forAvailability(deployment *appsv1.Deployment) {
	var (
		tolerance = new(gardencorev1beta1.FailureToleranceTypeNode)
		kind      = deployment.Labels[resourcesv1alpha1.HighAvailabilityConfigType]
		override  = deployment.Annotations[resourcesv1alpha1.HighAvailabilityConfigReplicas]
		selector  = metav1.LabelSelector{MatchLabels: deployment.Spec.Template.Labels}
		replicas  = *kubernetesutils.GetReplicaCount(tolerance, kind)
	)
	if number, err := strconv.Atoi(override); err == nil {
		replicas = int32(number)
	}
	replicas = max(replicas, *deployment.Spec.Replicas)
	deployment.Spec.Replicas = &replicas
	if constraints := kubernetesutils.GetTopologySpreadConstraints(replicas, 6, selector, 1, true, tolerance,
		false); constraints != nil {
		deployment.Spec.Template.Spec.TopologySpreadConstraints = constraints
	}
	kubernetesutils.MutateMatchLabelKeys(deployment.Spec.Template.Spec.TopologySpreadConstraints)
}

var _ = Describe("The first kube-apiserver", func() {
	var (
		seed   client.Client
		deps   *destination.Deps
		first  *destination.FirstReplica
		dryRun error
	)

	BeforeEach(func() {
		dryRun, first = nil, &destination.FirstReplica{}
		var secrets []client.Object
		for _, name := range []string{"ca", "ca-client", "ca-etcd", "ca-front-proxy", "etcd-client",
			"service-account-key-bundle"} {
			secrets = append(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(secrets...).
			WithStatusSubresource(&appsv1.Deployment{}).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object,
				opts ...client.CreateOption) error {
				if deployment, ok := object.(*appsv1.Deployment); ok {
					if slices.Contains(opts, client.CreateOption(client.DryRunAll)) && dryRun != nil {
						return dryRun
					}
					forAvailability(deployment)
				}
				return c.Create(ctx, object, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				opts ...client.PatchOption) error {
				if err := c.Patch(ctx, object, patch, opts...); err != nil {
					return err
				}
				if deployment, ok := object.(*appsv1.Deployment); ok {
					forAvailability(deployment)
					return c.Update(ctx, deployment)
				}
				return nil
			},
		}).Build()
		deps = newDeps()
		deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		deps.Timings.PollInterval = time.Millisecond
	})

	// deploy lets Gardener's component deploy all that it deploys, and returns the Deployment and whether it is scaled
	// automatically.
	deploy := func() (*appsv1.Deployment, bool) {
		GinkgoHelper()
		version := semver.MustParse("1.36.0")
		component := kubeapiserver.New(first.Seed(deps), namespace, fakesecretsmanager.New(seed, namespace),
			kubeapiserver.Values{
				Values: apiserver.Values{RuntimeVersion: version,
					ETCDEncryption: apiserver.ETCDEncryptionConfig{ResourcesToEncrypt: []string{"secrets"}}},
				Autoscaling: kubeapiserver.AutoscalingConfig{MinReplicas: 3, MaxReplicas: 6,
					Replicas: new(int32(3))},
				IsWorkerless: true, Version: version,
			})
		Expect(component.Deploy(ctx)).To(Succeed())
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-apiserver"}}
		Expect(seed.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		err := seed.Get(ctx, client.ObjectKeyFromObject(deployment), &autoscalingv2.HorizontalPodAutoscaler{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return deployment, !apierrors.IsNotFound(err)
	}
	startsAlone := func() bool {
		GinkgoHelper()
		alone, err := first.StartsAlone(ctx, deps, namespace)
		Expect(err).NotTo(HaveOccurred())
		return alone
	}
	annotations := func(deployment *appsv1.Deployment) map[string]string { return deployment.Annotations }

	It("should start alone, and not be replaced when the others follow", func() {
		Expect(startsAlone()).To(BeTrue())
		alone, scaled := deploy()
		Expect(alone.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		Expect(alone.Spec.Template.Spec.TopologySpreadConstraints).NotTo(BeEmpty())
		Expect(scaled).To(BeFalse(), "the autoscaler would add the others")

		first.OthersFollow()
		complete, scaled := deploy()
		Expect(complete.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		Expect(complete.Spec.Template).To(Equal(alone.Spec.Template), "another template would replace the first one")
		Expect(annotations(complete)).NotTo(HaveKey(resourcesv1alpha1.HighAvailabilityConfigReplicas))
		Expect(scaled).To(BeTrue())

		By("being what Gardener deploys by itself")
		Expect(seed.Delete(ctx, complete)).To(Succeed())
		plain, _ := deploy()
		Expect(plain.Spec).To(Equal(complete.Spec))
	})

	It("should stay alone when the step is tried again before it is ready", func() {
		Expect(startsAlone()).To(BeTrue())
		before, _ := deploy()
		first = &destination.FirstReplica{}
		Expect(startsAlone()).To(BeTrue())
		after, scaled := deploy()
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(scaled).To(BeFalse())
	})

	It("should not be left alone when the others are there", func() {
		Expect(startsAlone()).To(BeTrue())
		deploy()
		first.OthersFollow()
		before, _ := deploy()
		first = &destination.FirstReplica{}
		Expect(startsAlone()).To(BeFalse())
		after, _ := deploy()
		Expect(after.Spec).To(Equal(before.Spec))
	})

	It("should not be left alone when something else has added the others", func() {
		Expect(startsAlone()).To(BeTrue())
		alone, _ := deploy()
		alone.Spec.Replicas = new(int32(3))
		Expect(seed.Update(ctx, alone)).To(Succeed())
		Expect(startsAlone()).To(BeFalse())
		complete, scaled := deploy()
		Expect(complete.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		Expect(complete.Spec.Template).To(Equal(alone.Spec.Template))
		Expect(annotations(complete)).NotTo(HaveKey(resourcesv1alpha1.HighAvailabilityConfigReplicas))
		Expect(scaled).To(BeTrue())
	})

	It("should start with the others when it is not known how three are spread", func() {
		dryRun = errors.New("a webhook does not support dry runs")
		Expect(startsAlone()).To(BeTrue())
		complete, _ := deploy()
		Expect(complete.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		Expect(annotations(complete)).NotTo(HaveKey(resourcesv1alpha1.HighAvailabilityConfigReplicas))

		first.OthersFollow()
		again, scaled := deploy()
		Expect(again.Spec).To(Equal(complete.Spec))
		Expect(scaled).To(BeTrue())
	})

	It("should be waited for until it is ready", func() {
		Expect(startsAlone()).To(BeTrue())
		alone, _ := deploy()
		ended, end := context.WithCancel(ctx)
		end()
		Expect(destination.UntilFirstIsReady(ended, deps, namespace)).To(MatchError(ContainSubstring("not ready yet")))

		alone.Status = appsv1.DeploymentStatus{ObservedGeneration: alone.Generation, Replicas: 1, UpdatedReplicas: 1,
			ReadyReplicas: 1}
		Expect(seed.Status().Update(ctx, alone)).To(Succeed())
		Expect(destination.UntilFirstIsReady(ctx, deps, namespace)).To(Succeed())
	})
})
