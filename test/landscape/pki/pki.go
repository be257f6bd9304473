// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates, keys and kubeconfigs of the landscape's clusters. Files that exist are kept, so
// that a second run changes nothing. The keys are elliptic: Gardener's own package for certificates makes RSA keys
// only, and each handshake with one takes seventy times as long.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// validity is long enough to outlive any landscape.
	validity = 10 * 365 * 24 * time.Hour
	// backdate has certificates hold before they are made: the clock of a machine may be set back after the start.
	backdate = time.Hour
)

// CA is a certificate authority that is kept in a folder as <name>.crt and <name>.key.
type CA struct {
	dir         string
	certificate *x509.Certificate
	key         crypto.Signer
	// CertPEM is the authority's certificate.
	CertPEM []byte
}

// Request says what a certificate is for. A certificate always serves both a server and a client.
type Request struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []string
}

// Pair is a certificate and its key, both PEM, and the files they are kept in.
type Pair struct {
	CertFile, KeyFile string
	Cert, Key         []byte
}

// EnsureCA returns the authority <name> of the folder and makes it if it is not there yet.
func EnsureCA(dir, name string) (*CA, error) {
	pair, err := ensurePair(dir, name, func(key crypto.Signer) (*x509.Certificate, error) {
		return cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: time.Now().Add(-backdate)}, key)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make certificate authority %q: %w", name, err)
	}
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to read certificate authority %q: %w", name, err)
	}
	key, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key of certificate authority %q cannot sign", name)
	}
	return &CA{dir: dir, certificate: loaded.Leaf, key: key, CertPEM: pair.Cert}, nil
}

// File returns the path of the authority's certificate.
func (ca *CA) File() string { return filepath.Join(ca.dir, ca.certificate.Subject.CommonName+".crt") }

// Ensure returns the certificate <name> of the authority's folder and makes it if it is not there yet.
func (ca *CA) Ensure(name string, request Request) (*Pair, error) {
	pair, err := ensurePair(ca.dir, name, func(key crypto.Signer) (*x509.Certificate, error) {
		return ca.sign(request, key.Public())
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make certificate %q: %w", name, err)
	}
	return pair, nil
}

func (ca *CA) sign(request Request, key crypto.PublicKey) (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: request.CommonName, Organization: request.Organizations},
		NotBefore:   time.Now().Add(-backdate),
		NotAfter:    time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    request.DNSNames,
	}
	for _, address := range request.IPs {
		ip := net.ParseIP(address)
		if ip == nil {
			return nil, fmt.Errorf("%q is not an IP address", address)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key, ca.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// EnsureSigningKey makes the key pair <name>.key and <name>.pub that signs and verifies service account tokens.
func EnsureSigningKey(dir, name string) (keyFile, publicFile string, err error) {
	keyFile, publicFile = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if exists(keyFile) && exists(publicFile) {
		return keyFile, publicFile, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("failed to generate signing key %q: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", "", fmt.Errorf("failed to encode signing key %q: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("failed to encode public key %q: %w", name, err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: public})
	if err := write(publicFile, publicPEM, 0o644); err != nil {
		return "", "", err
	}
	return keyFile, publicFile, write(keyFile, keyPEM, 0o600)
}

// EnsureKubeconfig writes a kubeconfig with everything embedded for a client certificate, unless the file has that
// content already.
func EnsureKubeconfig(file, server string, ca *CA, client *Pair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["landscape"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.CertPEM}
	config.AuthInfos["landscape"] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert,
		ClientKeyData: client.Key}
	config.Contexts["landscape"] = &clientcmdapi.Context{Cluster: "landscape", AuthInfo: "landscape"}
	config.CurrentContext = "landscape"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("failed to encode kubeconfig %q: %w", file, err)
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == string(content) {
		return nil
	}
	return write(file, content, 0o600)
}

func ensurePair(dir, name string, sign func(crypto.Signer) (*x509.Certificate, error)) (*Pair, error) {
	pair := &Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	if exists(pair.CertFile) && exists(pair.KeyFile) {
		var err error
		if pair.Cert, err = os.ReadFile(pair.CertFile); err != nil {
			return nil, err
		}
		pair.Key, err = os.ReadFile(pair.KeyFile)
		return pair, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := sign(key)
	if err != nil {
		return nil, err
	}
	if pair.Cert, err = cert.EncodeCertificates(certificate); err != nil {
		return nil, err
	}
	if pair.Key, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, err
	}
	// The key is written last: its presence means that the pair is complete.
	if err := write(pair.CertFile, pair.Cert, 0o644); err != nil {
		return nil, err
	}
	return pair, write(pair.KeyFile, pair.Key, 0o600)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// write replaces the file in one step, so that a crash leaves the old content or the new one.
func write(file string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("failed to make folder of %q: %w", file, err)
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return fmt.Errorf("failed to write %q: %w", file, err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("failed to write %q: %w", file, err)
	}
	return nil
}
