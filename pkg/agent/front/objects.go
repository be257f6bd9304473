// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"fmt"
	"maps"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	etcdconstants "github.com/gardener/gardener/pkg/component/etcd/etcd/constants"
	"github.com/gardener/gardener/pkg/utils"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	// app is the label of the pods of all fronts.
	app = "livecpm-front"
	// replicas of a front: one of them serves while the other one moves to another node.
	replicas = 2

	portHealth  = 8081
	portMetrics = 8082

	mountPath  = "/etc/livecpm-front"
	configFile = "config.yaml"

	annotationChecksum = "checksum/config"
	// gracePeriodSeconds is for how long a pod may end what it has begun: requests, and watches that go elsewhere.
	gracePeriodSeconds = 30
)

// objects are all objects of a front.
type objects struct {
	configMap           *corev1.ConfigMap
	deployment          *appsv1.Deployment
	podDisruptionBudget *policyv1.PodDisruptionBudget
	// members lead to one member each.
	members []*corev1.Service
	// policies are by what they are for; see policies.go.
	policies map[string]*networkingv1.NetworkPolicy
}

func (c *component) objects() objects {
	out := objects{
		configMap:           &corev1.ConfigMap{ObjectMeta: c.objectMeta("")},
		deployment:          &appsv1.Deployment{ObjectMeta: c.objectMeta("")},
		podDisruptionBudget: &policyv1.PodDisruptionBudget{ObjectMeta: c.objectMeta("")},
		policies:            map[string]*networkingv1.NetworkPolicy{},
	}
	for ordinal := range c.members {
		out.members = append(out.members, &corev1.Service{ObjectMeta: c.objectMeta(fmt.Sprintf("-%d", ordinal))})
	}
	for _, suffix := range policySuffixes {
		out.policies[suffix] = &networkingv1.NetworkPolicy{ObjectMeta: c.objectMeta(suffix)}
	}
	return out
}

func (c *component) objectMeta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.namespace, Name: naming.FrontName(c.etcdRole) + suffix, Labels: ourLabels()}
}

// ourLabels mark every object of a migration.
func ourLabels() map[string]string { return map[string]string{exposure.LabelKey: exposure.LabelValue} }

// podLabels select the pods of the front.
func (c *component) podLabels() map[string]string {
	return map[string]string{v1beta1constants.LabelApp: app, v1beta1constants.LabelRole: c.etcdRole}
}

// memberLabels are how etcd-druid selects the members for the service for clients.
func memberLabels(etcd *druidcorev1alpha1.Etcd) map[string]string {
	labels := druidcorev1alpha1.GetDefaultLabels(etcd.ObjectMeta)
	labels[druidcorev1alpha1.LabelComponentKey] = "etcd-statefulset"
	return labels
}

func (c *component) mutateConfigMap(configMap *corev1.ConfigMap, config string) {
	configMap.Labels = utils.MergeStringMaps(configMap.Labels, ourLabels())
	configMap.Data = map[string]string{configFile: config}
}

// mutateMember makes the service lead to one member, as soon as it is ready. The member's own host name will not do:
// it leads to the relay as well, the relay's port for metrics is the sidecar's, and cluster DNS remembers the address
// of a pod for a while after it has restarted with another one. Connections to a service without a ready pod are
// refused at once, whereas packets to a pod that is gone are lost.
//
// The service leads to an only member before it is ready. That is a learner until the moment in which requests have to
// go there, and the front is connected to it by then: it asks each member itself whether it votes.
func (c *component) mutateMember(service *corev1.Service, etcd *druidcorev1alpha1.Etcd, ordinal int) {
	service.Labels = utils.MergeStringMaps(service.Labels, ourLabels())
	service.Spec.Type = corev1.ServiceTypeClusterIP
	service.Spec.PublishNotReadyAddresses = c.alone()
	service.Spec.Selector = memberLabels(etcd)
	service.Spec.Selector[appsv1.StatefulSetPodNameLabel] = naming.PodName(c.etcdRole, ordinal)
	service.Spec.Ports = kubernetesutils.ReconcileServicePorts(service.Spec.Ports, []corev1.ServicePort{
		{Name: "client", Protocol: corev1.ProtocolTCP, Port: naming.PortClient,
			TargetPort: intstr.FromInt32(naming.PortClient)},
		{Name: "backuprestore", Protocol: corev1.ProtocolTCP, Port: etcdconstants.PortBackupRestore,
			TargetPort: intstr.FromInt32(etcdconstants.PortBackupRestore)},
	}, corev1.ServiceTypeClusterIP)
}

func (c *component) mutatePodDisruptionBudget(pdb *policyv1.PodDisruptionBudget) {
	pdb.Labels = utils.MergeStringMaps(pdb.Labels, ourLabels())
	pdb.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: c.podLabels()}
	pdb.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
}

func (c *component) mutateDeployment(deployment *appsv1.Deployment, config string, secrets secretNames) {
	deployment.Labels = utils.MergeStringMaps(deployment.Labels, ourLabels())
	deployment.Spec.Replicas = new(int32(replicas))
	deployment.Spec.RevisionHistoryLimit = new(int32(1))
	deployment.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(0)),
			MaxSurge: new(intstr.FromInt32(1))},
	}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: c.podLabels()}
	labels := c.podLabels()
	maps.Copy(labels, ourLabels())
	labels[v1beta1constants.LabelNetworkPolicyToDNS] = v1beta1constants.LabelNetworkPolicyAllowed
	deployment.Spec.Template.ObjectMeta = metav1.ObjectMeta{
		Labels:      labels,
		Annotations: map[string]string{annotationChecksum: utils.ComputeSHA256Hex([]byte(config))},
	}
	deployment.Spec.Template.Spec = c.pod(secrets)
}

func (c *component) pod(secrets secretNames) corev1.PodSpec {
	container, volumes := c.container(), []corev1.Volume{
		exposure.ConfigVolume("config", naming.FrontName(c.etcdRole)), exposure.SecretVolume("ca", secrets.ca),
		exposure.SecretVolume("server", secrets.server), exposure.SecretVolume("client", secrets.client),
	}
	for _, volume := range volumes {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volume.Name, MountPath: mountPath + "/" + volume.Name, ReadOnly: true})
	}
	pod := exposure.Pod(c.podLabels(), gracePeriodSeconds, container, volumes)
	pod.ImagePullSecrets = c.PullSecrets.References()
	return pod
}

func (c *component) container() corev1.Container {
	return corev1.Container{
		Name:  "front",
		Image: c.Image,
		Args:  []string{"front", "--config=" + mountPath + "/config/" + configFile},
		Ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: naming.PortClient, Protocol: corev1.ProtocolTCP},
			{Name: "backuprestore", ContainerPort: etcdconstants.PortBackupRestore, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: portMetrics, Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: portHealth, Protocol: corev1.ProtocolTCP},
		},
		// The request for CPU is what a front has used in a migration under load: 40 to 60m with 28 writes and as many
		// reads per second. On a node that is full, a pod gets by its request, and every request of the
		// kube-apiservers waits for this one. There is no limit, because all of them would wait for the next period.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("60m"),
				corev1.ResourceMemory: resource.MustParse("30Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
	}
}
