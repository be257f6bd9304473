// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package incluster

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// Name is the name of all objects of the client in the shoot, and of its namespace.
	Name = "livecpm-in-cluster-client"
	// Container is the name of the container of its pods.
	Container = "client"
	// Image is the image of the pods, by which a hollow node knows them. There is no such image: nothing pulls it.
	Image = "livecpm.example/in-cluster-client"
	// DefaultInterval is an interval that a small machine can bear: each node sends four requests in it.
	DefaultInterval = 2 * time.Second
	// RequestsPerInterval is how many requests a client sends in an interval.
	RequestsPerInterval = 4
	// pollInterval is the time from one look to the next while something is waited for.
	pollInterval = 500 * time.Millisecond
)

// Is reports whether the pod is one of the client.
func Is(pod *corev1.Pod) bool {
	return len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Image == Image
}

// Apply creates the client's objects in the shoot: a DaemonSet, whose service account may read and write ConfigMaps of
// its own namespace and nothing else. A namespace of an earlier run that is on its way out is waited for.
func Apply(ctx context.Context, shoot kubernetes.Interface) error {
	// Gardener's webhook would give the pods the kube-apiserver's name instead of the Service's address.
	labels := map[string]string{"app": Name, resourcesv1alpha1.KubernetesServiceHostInject: "disable"}
	meta := metav1.ObjectMeta{Namespace: Name, Name: Name, Labels: labels}
	for {
		namespace, err := shoot.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			namespace, err = shoot.CoreV1().Namespaces().Get(ctx, Name, metav1.GetOptions{})
		}
		if err == nil && namespace.DeletionTimestamp == nil {
			break
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to create namespace %s in the shoot: %w", Name, err)
		}
		if !pause(ctx, pollInterval) {
			return fmt.Errorf("failed to wait until namespace %s in the shoot is gone: %w", Name, context.Cause(ctx))
		}
	}
	for _, object := range []struct {
		what   string
		create func() error
	}{
		{"service account", func() error {
			_, err := shoot.CoreV1().ServiceAccounts(Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
				metav1.CreateOptions{})
			return err
		}},
		{"role", func() error {
			_, err := shoot.RbacV1().Roles(Name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"create", "get", "patch"},
			}}}, metav1.CreateOptions{})
			return err
		}},
		{"role binding", func() error {
			_, err := shoot.RbacV1().RoleBindings(Name).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: meta,
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: Name},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Name, Name: Name}},
			}, metav1.CreateOptions{})
			return err
		}},
		{"daemon set", func() error {
			_, err := shoot.AppsV1().DaemonSets(Name).Create(ctx, daemonSet(meta), metav1.CreateOptions{})
			return err
		}},
	} {
		if err := object.create(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to create %s %s in the shoot: %w", object.what, Name, err)
		}
	}
	return nil
}

func daemonSet(meta metav1.ObjectMeta) *appsv1.DaemonSet {
	selector := map[string]string{"app": Name}
	return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selector},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: Name,
				Tolerations:        []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: Container, Image: Image,
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		},
	}}
}

// Remove deletes everything of the client from the shoot.
func Remove(ctx context.Context, shoot kubernetes.Interface) error {
	if err := shoot.CoreV1().Namespaces().Delete(ctx, Name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to delete namespace %s from the shoot: %w", Name, err)
	}
	return nil
}
