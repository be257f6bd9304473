// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	kubeapiserver "github.com/gardener/gardener/pkg/component/kubernetes/apiserver"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

// A kube-apiserver takes all processors that it can get while it starts. Three of them at once, beside everything else
// that a migration starts, take so much from each other on a busy seed that the kubelet ends all of them before any is
// ready, and they take it from the members of etcd that clients wait for. So the first one starts alone, and the others
// when it is ready.
//
// Gardener's component knows no such order, and two others see to it that there are three: the
// HorizontalPodAutoscaler, and the seed's webhook for high availability. So for the first one
//
//   - the HorizontalPodAutoscaler is not created yet,
//   - the Deployment has one replica and the annotation that makes the webhook accept that,
//   - the Deployment has the topology spread constraints that the webhook gives to three. With one replica it would
//     give none, and the others would change the pod template, which replaces the first one. A dry run tells them.
//
// Then the component deploys everything as it does elsewhere, and the annotation goes.

// annotationReplicas is what the seed's webhook reads the number of replicas from.
const annotationReplicas = resourcesv1alpha1.HighAvailabilityConfigReplicas

// firstReplica says whether the first kube-apiserver starts alone, in one attempt of the step.
type firstReplica struct {
	// alone holds from its deployment on until the others follow.
	alone atomic.Bool
}

// startsAlone reports whether the first kube-apiserver is to start alone: there is none, or that is what a former
// attempt has begun with. It reads the world each time.
func (d *destination) startsAlone(ctx context.Context, namespace string) (bool, error) {
	deployment, err := d.kubeAPIServerDeployment(ctx, namespace)
	if err != nil {
		return false, err
	}
	return deployment.ResourceVersion == "" || isAlone(deployment), nil
}

func isAlone(deployment *appsv1.Deployment) bool {
	return metav1.HasAnnotation(deployment.ObjectMeta, annotationReplicas) &&
		ptr.Deref(deployment.Spec.Replicas, 1) <= 1
}

// addFirstKubeAPIServer adds the tasks for the first one and returns that after which the others may start.
func (d *destination) addFirstKubeAPIServer(
	g *flow.Graph, b *botanist.Botanist, rollout kubeAPIServerRollout, dependencies flow.TaskIDs,
) flow.TaskID {
	deploy := g.Add(flow.Task{
		Name: "Deploying the first kube-apiserver",
		Fn: d.deployingKubeAPIServer(b, rollout, func(ctx context.Context) (bool, error) {
			alone, err := d.startsAlone(ctx, b.Shoot.ControlPlaneNamespace)
			if err != nil {
				return false, err
			}
			rollout.first.alone.Store(alone)
			if alone {
				// Otherwise the component takes the one replica of a former attempt for what is wanted.
				component := b.Shoot.Components.ControlPlane.KubeAPIServer
				component.SetAutoscalingReplicas(new(component.GetValues().Autoscaling.MinReplicas))
			}
			return alone, nil
		}),
		Dependencies: dependencies,
	})
	return g.Add(flow.Task{
		Name: "Waiting until the first kube-apiserver is ready",
		Fn: func(ctx context.Context) error {
			if !rollout.first.alone.Load() {
				return nil
			}
			namespace := b.Shoot.ControlPlaneNamespace
			return d.waitUnlessRestarted(ctx, namespace, restartPollInterval, func(ctx context.Context) error {
				return d.untilFirstIsReady(ctx, namespace)
			})
		},
		Dependencies: flow.NewTaskIDs(deploy),
	})
}

// untilFirstIsReady waits as long as Gardener waits for a rollout.
func (d *destination) untilFirstIsReady(ctx context.Context, namespace string) error {
	return retry.UntilTimeout(ctx, d.Timings.PollInterval, kubeapiserver.TimeoutWaitForDeployment,
		func(ctx context.Context) (bool, error) {
			deployment, err := d.kubeAPIServerDeployment(ctx, namespace)
			if err != nil {
				return retry.MinorError(err)
			}
			if status := deployment.Status; status.ObservedGeneration < deployment.Generation ||
				status.ReadyReplicas < 1 {
				return retry.MinorError(errors.New("the first kube-apiserver is not ready yet"))
			}
			return retry.Ok()
		})
}

// clientSet returns a client set with which Gardener's component deploys the first kube-apiserver alone, as long as it
// is alone.
func (f *firstReplica) clientSet(seed kubernetes.Interface) kubernetes.Interface {
	return firstReplicaClientSet{seed, f}
}

type firstReplicaClientSet struct {
	kubernetes.Interface

	first *firstReplica
}

// Client implements kubernetes.Interface.
func (s firstReplicaClientSet) Client() client.Client {
	return firstReplicaClient{s.Interface.Client(), s.first}
}

type firstReplicaClient struct {
	client.Client

	first *firstReplica
}

// Create implements client.Client.
func (s firstReplicaClient) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	if object.GetName() != v1beta1constants.DeploymentNameKubeAPIServer || !s.first.alone.Load() {
		return s.Client.Create(ctx, object, opts...)
	}
	switch object := object.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return nil
	case *appsv1.Deployment:
		complete := object.DeepCopy()
		if err := s.Client.Create(ctx, complete, append(opts, client.DryRunAll)...); err != nil {
			if ctx.Err() != nil {
				return err
			}
			// Some webhook makes no difference between a dry run and an ordinary request, and refuses both.
			logf.FromContext(ctx).Info("All replicas of the kube-apiserver start at once: "+
				"it is not known how three are spread", "reason", err.Error())
			s.first.alone.Store(false)
			return s.Client.Create(ctx, object, opts...)
		}
		makeAlone(object, complete)
	}
	return s.Client.Create(ctx, object, opts...)
}

// Patch implements client.Client. As Gardener's helpers hand over a patch that they computed before, it is computed
// again. The object has the version that they read: if there is a newer one by now, the API server refuses.
func (s firstReplicaClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok || deployment.Name != v1beta1constants.DeploymentNameKubeAPIServer ||
		!metav1.HasAnnotation(deployment.ObjectMeta, annotationReplicas) {
		return s.Client.Patch(ctx, object, patch, opts...)
	}
	current := &appsv1.Deployment{}
	if err := s.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
		return fmt.Errorf("failed to read Deployment %s: %w", client.ObjectKeyFromObject(object), err)
	}
	if s.first.alone.Load() && isAlone(current) {
		makeAlone(deployment, current)
	} else {
		delete(deployment.Annotations, annotationReplicas)
	}
	return s.Client.Patch(ctx, object, client.MergeFrom(current), opts...)
}

// makeAlone gives the Deployment one replica, and the topology spread constraints of the other one.
func makeAlone(deployment, complete *appsv1.Deployment) {
	deployment.Spec.Replicas = new(int32(1))
	metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, annotationReplicas, "1")
	deployment.Spec.Template.Spec.TopologySpreadConstraints = complete.Spec.Template.Spec.TopologySpreadConstraints
}
