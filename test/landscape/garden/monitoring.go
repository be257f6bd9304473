// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
)

// ensureMonitoringSecret makes the credentials for the dashboards of all seeds. gardener-operator makes them where it
// installs a garden, gardener-controller-manager copies them for the seeds, and a gardenlet does not set up a seed
// without them.
func ensureMonitoringSecret(ctx context.Context, c client.Client) error {
	generated, err := (&secretsutils.BasicAuthSecretConfig{Name: "observability-ingress",
		Format: secretsutils.BasicAuthFormatNormal, Username: "admin", PasswordLength: 32}).Generate()
	if err != nil {
		return fmt.Errorf("failed to generate credentials for monitoring: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1beta1constants.GardenNamespace,
			Name:      "observability-ingress",
			Labels:    map[string]string{v1beta1constants.GardenRole: v1beta1constants.GardenRoleGlobalMonitoring},
		},
		Data: generated.SecretData(),
	}
	// Those of an earlier run stay.
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}
