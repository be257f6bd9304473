// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/gardener/gardener/pkg/utils"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
)

// CertificateConfig configures the certificate of the relays as Gardener configures one, but its key is on the curve
// P-256. Both relays sign in each handshake between them, and etcd and the kube-apiservers connect thousands of times
// in a migration: a signature with a 3072-bit RSA key, as Gardener's certificates have, takes 2.9 ms, and one on P-256
// takes 0.04 ms (docs/development/dependencies.md). Its authority keeps an RSA key, because Gardener's secrets manager
// persists and restores it; it signs once.
type CertificateConfig struct {
	*secretsutils.CertificateSecretConfig
}

// Generate implements secretsutils.ConfigInterface.
func (c *CertificateConfig) Generate() (secretsutils.DataInterface, error) {
	return c.GenerateCertificate()
}

// GenerateCertificate returns a new certificate that SigningCA has signed, with a new key. It has no PrivateKey, which
// can only be an RSA key, but its PrivateKeyPEM (PKCS #8). It fails without a SigningCA.
func (c *CertificateConfig) GenerateCertificate() (*secretsutils.Certificate, error) {
	if c.SigningCA == nil {
		return nil, errors.New("the certificate of the relay has no authority that signs it")
	}
	// Subject, names, usages and validity are Gardener's.
	certificate, err := c.CertificateSecretConfig.GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("failed to generate the certificate of the relay: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to generate the key of the relay: %w", err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, certificate.Certificate, c.SigningCA.Certificate, key.Public(),
		c.SigningCA.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("failed to sign the certificate of the relay: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the key of the relay: %w", err)
	}
	certificate.PrivateKey = nil
	certificate.PrivateKeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	certificate.CertificatePEM = utils.EncodeCertificate(signed)
	return certificate, nil
}

// signedBy is secretsmanager.SignedByCA with the current authority of the name, for the configuration of a relay.
func signedBy(authority string) secretsmanager.GenerateOption {
	sign := secretsmanager.SignedByCA(authority, secretsmanager.UseCurrentCA)
	return func(
		manager secretsmanager.Interface, config secretsutils.ConfigInterface, options *secretsmanager.GenerateOptions,
	) error {
		relay, ok := config.(*CertificateConfig)
		if !ok {
			return fmt.Errorf("the option is for the certificate of a relay, not for %T", config)
		}
		return sign(manager, relay.CertificateSecretConfig, options)
	}
}
