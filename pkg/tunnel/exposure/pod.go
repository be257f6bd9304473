// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pod returns the pod of a program that runs in the shoot's namespace during a migration, a relay or the front of an
// etcd: with the least that it may do, and away from the other pods that the labels select. What differs between the
// programs is in the container and the volumes. The container's ports must have one named "health".
func Pod(
	labels map[string]string, gracePeriodSeconds int64, container corev1.Container, volumes []corev1.Volume,
) corev1.PodSpec {
	container.ImagePullPolicy = corev1.PullIfNotPresent
	container.LivenessProbe, container.ReadinessProbe = probe(container, "/healthz", 10), probe(container, "/readyz", 2)
	// Without it the collector would let the heap grow to twice of what is in use before it runs.
	container.Env = []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "900MiB"}}
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		PriorityClassName:             v1beta1constants.PriorityClassNameShootControlPlane500,
		TerminationGracePeriodSeconds: &gracePeriodSeconds,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(userNonRoot)),
			RunAsGroup:     new(int64(userNonRoot)),
			FSGroup:        new(int64(userNonRoot)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew:           1,
			TopologyKey:       corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: labels},
		}},
		Containers: []corev1.Container{container},
		Volumes:    volumes,
	}
}

// ConfigVolume is a volume with the ConfigMap.
func ConfigVolume(name, configMap string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
	}}}
}

// SecretVolume is a volume with the Secret, which only the program's own group may read.
func SecretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: new(int32(0o440)),
	}}}
}

func probe(container corev1.Container, path string, period int32) *corev1.Probe {
	var port int32
	for _, p := range container.Ports {
		if p.Name == "health" {
			port = p.ContainerPort
		}
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds:    period,
		TimeoutSeconds:   2,
		SuccessThreshold: 1,
		FailureThreshold: 3,
	}
}
