// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates, keys and kubeconfigs of the landscape's clusters. Files that exist are kept, so
// that a second run changes nothing.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity is long enough to outlive any landscape.
const validity = 10 * 365 * 24 * time.Hour

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
	pair, err := ensurePair(dir, name, func(key *ecdsa.PrivateKey) ([]byte, error) {
		template := newTemplate(name, nil)
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
		return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make certificate authority %q: %w", name, err)
	}
	certificate, err := parseCertificate(pair.Cert)
	if err != nil {
		return nil, fmt.Errorf("failed to read certificate authority %q: %w", name, err)
	}
	key, err := parseKey(pair.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to read key of certificate authority %q: %w", name, err)
	}
	return &CA{dir: dir, certificate: certificate, key: key, CertPEM: pair.Cert}, nil
}

// File returns the path of the authority's certificate.
func (ca *CA) File() string { return filepath.Join(ca.dir, ca.certificate.Subject.CommonName+".crt") }

// Ensure returns the certificate <name> of the authority's folder and makes it if it is not there yet.
func (ca *CA) Ensure(name string, request Request) (*Pair, error) {
	pair, err := ensurePair(ca.dir, name, func(key *ecdsa.PrivateKey) ([]byte, error) {
		template := newTemplate(request.CommonName, request.Organizations)
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		template.DNSNames = request.DNSNames
		for _, address := range request.IPs {
			ip := net.ParseIP(address)
			if ip == nil {
				return nil, fmt.Errorf("%q is not an IP address", address)
			}
			template.IPAddresses = append(template.IPAddresses, ip)
		}
		return x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to make certificate %q: %w", name, err)
	}
	return pair, nil
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
	keyPEM, err := encodeKey(key)
	if err != nil {
		return "", "", err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("failed to encode public key %q: %w", name, err)
	}
	if err := write(publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644); err != nil {
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

func newTemplate(commonName string, organizations []string) *x509.Certificate {
	// 64 random bits are what makes a serial number unique enough; the top bit stays clear so that it is positive.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName, Organization: organizations},
		// One hour back: the clock of a machine may be set back after the start.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(validity),
	}
}

func ensurePair(dir, name string, sign func(*ecdsa.PrivateKey) ([]byte, error)) (*Pair, error) {
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
	der, err := sign(key)
	if err != nil {
		return nil, err
	}
	pair.Cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if pair.Key, err = encodeKey(key); err != nil {
		return nil, err
	}
	// The key is written last: its presence means that the pair is complete.
	if err := write(pair.CertFile, pair.Cert, 0o644); err != nil {
		return nil, err
	}
	return pair, write(pair.KeyFile, pair.Key, 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("failed to encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parseCertificate(content []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(content []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseECPrivateKey(block.Bytes)
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
