// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
)

// serverName is in the certificate of each member.
const serverName = "etcd-main"

// certificates are those between an etcd and its clients. Between only members there is no TLS, as Gardener has it.
type certificates struct {
	// ca, cert and key are the files of a member.
	ca, cert, key string
	client        *tls.Config
}

func newCertificates(folder string) (*certificates, error) {
	authority, err := (&secretsutils.CertificateSecretConfig{Name: "ca-etcd", CommonName: "ca-etcd",
		CertType: secretsutils.CACert}).GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("failed to make a certificate authority: %w", err)
	}
	leaf, err := (&secretsutils.CertificateSecretConfig{Name: serverName, CommonName: serverName,
		CertType: secretsutils.ServerClientCert, SigningCA: authority, DNSNames: []string{serverName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}).GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("failed to make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(leaf.CertificatePEM, leaf.PrivateKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("failed to load the certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority.CertificatePEM) {
		return nil, errors.New("failed to load the certificate authority")
	}
	out := &certificates{ca: filepath.Join(folder, "ca.pem"), cert: filepath.Join(folder, "cert.pem"),
		key: filepath.Join(folder, "key.pem"), client: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool,
			Certificates: []tls.Certificate{pair}, ServerName: serverName}}
	for file, content := range map[string][]byte{out.ca: authority.CertificatePEM, out.cert: leaf.CertificatePEM,
		out.key: leaf.PrivateKeyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, fmt.Errorf("failed to write a certificate: %w", err)
		}
	}
	return out, nil
}
