// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"strings"

	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PullSecrets are the Secrets in the seed with the credentials for the registry of the relay's image. Gardener has none
// for the pods of a control plane: their images come from a registry that asks for none, or that the nodes have the
// credentials of. Where that is not so for the image of the relay, these Secrets are copied into the shoot's namespace
// as long as there are pods with the image.
type PullSecrets []client.ObjectKey

// pullSecretPrefix begins the names of the copies.
const pullSecretPrefix = Name + "-pull-"

// References returns how pods in the shoot's namespace refer to the copies.
func (p PullSecrets) References() []corev1.LocalObjectReference {
	var out []corev1.LocalObjectReference
	for _, key := range p {
		out = append(out, corev1.LocalObjectReference{Name: pullSecretPrefix + key.Name})
	}
	return out
}

// copyPullSecrets makes the copies.
func (e *exposure) copyPullSecrets(ctx context.Context) error {
	for _, key := range e.values.PullSecrets {
		if err := e.copyPullSecret(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// refreshPullSecrets brings the copies up to date, because credentials may be short-lived. A copy whose original is
// gone stays as it is.
func (e *exposure) refreshPullSecrets(ctx context.Context) error {
	for _, key := range e.values.PullSecrets {
		if err := client.IgnoreNotFound(e.copyPullSecret(ctx, key)); err != nil {
			return err
		}
	}
	return nil
}

func (e *exposure) copyPullSecret(ctx context.Context, key client.ObjectKey) error {
	original := &corev1.Secret{}
	if err := e.client.Get(ctx, key, original); err != nil {
		return fmt.Errorf("failed to read Secret %s, with which the relay's image is pulled (relay.imagePullSecrets "+
			"in the agent's configuration): %w", key, err)
	}
	// Whatever else somebody names by mistake does not get into the namespaces of shoots.
	if original.Type != corev1.SecretTypeDockerConfigJson && original.Type != corev1.SecretTypeDockercfg {
		return fmt.Errorf("secret %s (relay.imagePullSecrets in the agent's configuration) is of type %q: name one of "+
			"type %s", key, original.Type, corev1.SecretTypeDockerConfigJson)
	}
	secret := &corev1.Secret{ObjectMeta: e.objectMeta(pullSecretPrefix + key.Name)}
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, secret, func() error {
		secret.Labels = utils.MergeStringMaps(secret.Labels, ourLabels())
		secret.Type, secret.Data = original.Type, original.Data
		return nil
	}, controllerutils.SkipEmptyPatch{}); err != nil {
		return fmt.Errorf("failed to copy Secret %s to %s: %w", key, client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// deletePullSecrets deletes all copies, also those of Secrets that are not configured any more.
func (e *exposure) deletePullSecrets(ctx context.Context) error {
	list := &corev1.SecretList{}
	if err := e.client.List(ctx, list, client.InNamespace(e.values.Namespace),
		client.MatchingLabels(ourLabels())); err != nil {
		return fmt.Errorf("failed to list the Secrets with which the relay's image is pulled: %w", err)
	}
	for _, secret := range list.Items {
		if !strings.HasPrefix(secret.Name, pullSecretPrefix) {
			continue
		}
		if err := client.IgnoreNotFound(e.client.Delete(ctx, &secret)); err != nil {
			return fmt.Errorf("failed to delete Secret %s: %w", client.ObjectKeyFromObject(&secret), err)
		}
	}
	return nil
}
