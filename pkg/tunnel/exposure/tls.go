// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretNameCA is the name of the relay's certificate authority in the secrets manager.
const SecretNameCA = "ca-livecpm-relay" // #nosec G101 -- No credential.

// CertificateConfigs returns the configurations of the relay's certificate authority and of its certificate in the seed
// with the given ingress domain. The certificate serves and dials: the relays of the two seeds know each other by the
// authority, which is made for this one shoot.
func CertificateConfigs(namespace, domain string) (*secretsutils.CertificateSecretConfig, *CertificateConfig) {
	ca := &secretsutils.CertificateSecretConfig{Name: SecretNameCA, CommonName: SecretNameCA,
		CertType: secretsutils.CACert}
	return ca, &CertificateConfig{&secretsutils.CertificateSecretConfig{
		Name:       Name,
		CommonName: Name,
		CertType:   secretsutils.ServerClientCert,
		DNSNames:   hosts(namespace, domain),
	}}
}

// GenerateTLS makes the relay's certificate authority, unless the secrets manager has it already, and its certificate.
// In the source it has to be called before the ShootState is persisted: the authority reaches the destination with it.
func GenerateTLS(
	ctx context.Context, secretsManager secretsmanager.Interface, namespace, domain string,
) (*corev1.Secret, error) {
	ca, certificate := CertificateConfigs(namespace, domain)
	if _, err := secretsManager.Generate(ctx, ca, secretsmanager.Persist(),
		secretsmanager.Rotate(secretsmanager.InPlace)); err != nil {
		return nil, fmt.Errorf("failed to generate the CA of the relay: %w", err)
	}
	secret, err := secretsManager.Generate(ctx, certificate, signedBy(SecretNameCA),
		secretsmanager.Rotate(secretsmanager.InPlace))
	if err != nil {
		return nil, fmt.Errorf("failed to generate the certificate of the relay: %w", err)
	}
	return secret, nil
}

// deleteTLS deletes the certificates of the relay. The gardenlet would do it with its next reconciliation, but until
// then a ShootState would carry an authority that nothing needs, and a migration that was aborted would leave a trace.
func (e *exposure) deleteTLS(ctx context.Context) error {
	secrets := &corev1.SecretList{}
	if err := e.client.List(ctx, secrets, client.InNamespace(e.values.Namespace),
		client.MatchingLabels{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager}); err != nil {
		return fmt.Errorf("failed to list the certificates of the relay: %w", err)
	}
	for _, secret := range secrets.Items {
		switch secret.Labels[secretsmanager.LabelKeyName] {
		case SecretNameCA, SecretNameCA + "-bundle", Name:
			if err := client.IgnoreNotFound(e.client.Delete(ctx, &secret)); err != nil {
				return fmt.Errorf("failed to delete secret %s: %w", client.ObjectKeyFromObject(&secret), err)
			}
		}
	}
	return nil
}
