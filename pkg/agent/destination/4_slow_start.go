// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/utils/flow"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/overload"
)

// While it starts, a kube-apiserver makes some hundred requests to etcd one after the other, most of them for the roles
// that every cluster has, and each waits for etcd's leader. The leader is still in the source then. Gardener's liveness
// probe ends a kube-apiserver that is not ready after about 45 seconds, so over a distance none would ever become
// ready. With a startup probe the kubelet waits for the start to end before it runs the liveness probe.
//
// Nodes without processors to spare have the same effect. If members of etcd answer too slowly already, that is known
// before. Otherwise how busy a node will be cannot be measured beforehand, so there the first attempt of the step shows
// it: its kube-apiservers have been restarted.
//
// A shoot whose seeds are near each other gets the kube-apiserver that Gardener deploys, unchanged, because it restarts
// again when the startup probe is removed. That is in the last step, which deploys Gardener's again: the leader is near
// then.
const (
	// distantLeader is the distance to the leader from which on the kube-apiserver gets more time. With answers after
	// 20 ms the start takes some ten seconds longer than it does otherwise.
	distantLeader = 20 * time.Millisecond
	// startupPeriod and startupAttempts give it five minutes, which is how long Gardener waits for it.
	startupPeriod   = 5 * time.Second
	startupAttempts = 60
)

// needsMoreTime measures how far away the leaders are. What a former attempt has decided stays: the kube-apiserver
// would restart otherwise.
func (d *destination) needsMoreTime(ctx context.Context, m *migration.Migration) (bool, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	deployment, err := d.kubeAPIServerDeployment(ctx, namespace)
	if err != nil {
		return false, err
	}
	if container := kubeAPIServerContainer(deployment); container != nil && container.StartupProbe != nil {
		return true, nil
	}
	restarted, err := d.kubeAPIServerRestarted(ctx, namespace)
	if err != nil {
		return false, err
	}
	if restarted {
		m.Log.Info("The kube-apiserver of a former attempt was restarted: giving it more time to start")
		return true, nil
	}

	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.CheckPrompt(ctx); overload.Is(err) {
		m.Log.Info("The members of etcd answer slowly: giving the kube-apiserver more time to start", "reason",
			err.Error())
		return true, nil
	}
	distance, err := etcds.LeaderDistance(ctx)
	if err != nil {
		return false, err
	}
	distant := distance >= distantLeader
	m.Log.Info("Measured how far away the leaders of etcd are", "distance", distance.String(),
		"moreTimeForKubeAPIServer", distant)
	return distant, nil
}

// kubeAPIServerRestarted reports whether the kubelet has ended a kube-apiserver, one of this attempt or of a former
// one.
func (d *destination) kubeAPIServerRestarted(ctx context.Context, namespace string) (bool, error) {
	pods, err := controlplane.KubeAPIServerPods(ctx, d.SeedClientSet.Client(), namespace)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return kubeAPIServerStatus(&pod).RestartCount > 0 }),
		nil
}

// kubeAPIServerStatus returns an empty status if the kubelet has not written one.
func kubeAPIServerStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == v1beta1constants.DeploymentNameKubeAPIServer {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// errRestarted ends an attempt whose kube-apiserver the kubelet keeps ending: the next one gives it more time.
var errRestarted = errors.New(
	"the kubelet has restarted the kube-apiserver before it was ready; the next attempt gives it more time to start")

// restartPollInterval is how often the pods are looked at.
const restartPollInterval = 5 * time.Second

// untilRolledOutOrRestarted waits until the kube-apiserver is rolled out. One without a startup probe that is restarted
// is not waited for any longer: it would be restarted again and again, until the wait ends after minutes.
func (d *destination) untilRolledOutOrRestarted(b *botanist.Botanist) flow.TaskFn {
	return func(ctx context.Context) error {
		return d.waitUnlessRestarted(ctx, b.Shoot.ControlPlaneNamespace, restartPollInterval,
			b.Shoot.Components.ControlPlane.KubeAPIServer.Wait)
	}
}

func (d *destination) waitUnlessRestarted(
	ctx context.Context, namespace string, interval time.Duration, rolledOut func(context.Context) error,
) error {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	go wait.UntilWithContext(waiting, func(ctx context.Context) {
		// What cannot be read now can be read the next time.
		if restarted, err := d.restartedWithoutStartupProbe(ctx, namespace); err == nil && restarted {
			end(errRestarted)
		}
	}, interval)
	err := rolledOut(waiting)
	if err != nil && errors.Is(context.Cause(waiting), errRestarted) {
		return errRestarted
	}
	return err
}

func (d *destination) restartedWithoutStartupProbe(ctx context.Context, namespace string) (bool, error) {
	deployment, err := d.kubeAPIServerDeployment(ctx, namespace)
	if err != nil {
		return false, err
	}
	if container := kubeAPIServerContainer(deployment); container == nil || container.StartupProbe != nil {
		return false, nil
	}
	return d.kubeAPIServerRestarted(ctx, namespace)
}

// kubeAPIServerDeployment returns an empty Deployment if there is none.
func (d *destination) kubeAPIServerDeployment(ctx context.Context, namespace string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameKubeAPIServer}
	if err := d.SeedClientSet.Client().Get(ctx, key, deployment); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to read Deployment %s: %w", key, err)
	}
	return deployment, nil
}

func kubeAPIServerContainer(deployment *appsv1.Deployment) *corev1.Container {
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == v1beta1constants.DeploymentNameKubeAPIServer {
			return &containers[i]
		}
	}
	return nil
}

// withMoreTime returns a client set with which the kube-apiserver gets the time that its start takes.
func withMoreTime(seed kubernetes.Interface) kubernetes.Interface { return slowStartClientSet{seed} }

type slowStartClientSet struct{ kubernetes.Interface }

// Client implements kubernetes.Interface.
func (s slowStartClientSet) Client() client.Client { return slowStartClient{s.Interface.Client()} }

// slowStartClient adds the startup probe to the Deployment of the kube-apiserver, which Gardener's component writes as
// a whole.
type slowStartClient struct{ client.Client }

// Create implements client.Client.
func (s slowStartClient) Create(
	ctx context.Context, object client.Object, opts ...client.CreateOption,
) error {
	addStartupProbe(object)
	return s.Client.Create(ctx, object, opts...)
}

// Patch implements client.Client. Gardener's helpers hand over a patch that they computed before, so it is computed
// again. The object has the version that they read: if there is a newer one by now, the API server refuses.
func (s slowStartClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	if addStartupProbe(object) {
		current := &appsv1.Deployment{}
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
			return fmt.Errorf("failed to read Deployment %s: %w", client.ObjectKeyFromObject(object), err)
		}
		patch = client.MergeFrom(current)
	}
	return s.Client.Patch(ctx, object, patch, opts...)
}

// addStartupProbe returns true if the object is the Deployment of the kube-apiserver.
func addStartupProbe(object client.Object) bool {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok || deployment.Name != v1beta1constants.DeploymentNameKubeAPIServer {
		return false
	}
	container := kubeAPIServerContainer(deployment)
	if container == nil || container.LivenessProbe == nil {
		return false
	}
	probe := container.LivenessProbe.DeepCopy()
	probe.InitialDelaySeconds = 0
	probe.PeriodSeconds = int32(startupPeriod.Seconds())
	probe.FailureThreshold = startupAttempts
	container.StartupProbe = probe
	return true
}
