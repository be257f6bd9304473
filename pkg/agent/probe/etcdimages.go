// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// etcd-druid chooses the images of etcd's members: from a vector in its program, by its feature gates, and with an
// overwrite that it gets from the gardenlet's configuration. Nobody but etcd-druid knows the result, so it is asked for
// it, by an Etcd without any member. etcd-druid makes a StatefulSet of it with the images and no pods.

const (
	// etcdImagesName is the name of that Etcd.
	etcdImagesName = "livecpm-images"
	// druidPatience is how long etcd-druid may take. It needs seconds, unless it has just started.
	druidPatience = time.Minute
)

// etcdImages returns the images that etcd-druid gives to etcd's members in this seed.
func (s *stage) etcdImages(ctx context.Context) ([]image, error) {
	etcd := EtcdWithoutMembers(s.values.Namespace)
	if err := s.options.SeedClient.Create(ctx, etcd); err != nil {
		return nil, fmt.Errorf("failed to create Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	var out []image
	if err := s.until(ctx, druidPatience, func(ctx context.Context) error {
		statefulSet := &appsv1.StatefulSet{ObjectMeta: s.meta(etcdImagesName)}
		if err := s.options.SeedClient.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
			return fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
		}
		out = imagesOf(statefulSet.Spec.Template.Spec)
		if len(out) == 0 {
			return errors.New("its StatefulSet has no container")
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("etcd-druid in seed %s has not shown within %s which images etcd's members have there, "+
			"check that it runs: %w", s.options.SeedName, druidPatience, err)
	}
	// etcd-druid removes what it has made while the rest of the probe takes place. What it has not, goes with the
	// namespace.
	if err := client.IgnoreNotFound(s.options.SeedClient.Delete(ctx, etcd)); err != nil {
		return nil, fmt.Errorf("failed to delete Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return out, nil
}

func imagesOf(spec corev1.PodSpec) []image {
	var out []image
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		found := image{of: naming.EtcdName(etcdRole), name: container.Name, ref: container.Image}
		if !slices.ContainsFunc(out, func(other image) bool { return other.ref == found.ref }) {
			out = append(out, found)
		}
	}
	return out
}

// EtcdWithoutMembers returns the Etcd by which etcd-druid is asked for its images. Nothing runs for it, nothing is
// backed up, and it has no volume.
func EtcdWithoutMembers(namespace string) *druidcorev1alpha1.Etcd {
	labels := map[string]string{LabelProbe: etcdImagesName}
	return &druidcorev1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: etcdImagesName,
			Labels: map[string]string{exposure.LabelKey: exposure.LabelValue},
			// A seed's admission webhook requires it before an Etcd may be deleted, also with its namespace.
			Annotations: map[string]string{v1beta1constants.ConfirmationDeletion: "true"}},
		Spec: druidcorev1alpha1.EtcdSpec{
			Labels: labels, Selector: &metav1.LabelSelector{MatchLabels: labels}, Replicas: 0,
		},
	}
}
