// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// signingTimeout is how long approval and signing of a certificate may take before it is asked for again.
const signingTimeout = 3 * time.Minute

// identity is a certificate with its key, in PEM.
type identity struct{ certificate, key []byte }

// request describes the certificate that is asked for.
type request struct {
	name   string // of the files
	signer string
	usages []certificatesv1.KeyUsage
	common string
	group  string
	dns    []string
	ips    []net.IP
}

// The three certificates of a node: gardener-node-agent's and the kubelet's for the kube-apiserver, and the kubelet's
// for its server.
func nodeAgentRequest(machineName string) request {
	return request{
		name: "node-agent", signer: certificatesv1.KubeAPIServerClientSignerName, usages: clientUsages,
		common: v1beta1constants.NodeAgentUserNamePrefix + machineName, group: v1beta1constants.NodeAgentsGroup,
	}
}

func kubeletRequest(nodeName string) request {
	return request{
		name: "kubelet", signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usages: clientUsages,
		common: "system:node:" + nodeName, group: user.NodesGroup,
	}
}

func servingRequest(nodeName string, ip net.IP) request {
	return request{
		name: "serving", signer: certificatesv1.KubeletServingSignerName,
		usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		common: "system:node:" + nodeName, group: user.NodesGroup, dns: []string{nodeName}, ips: []net.IP{ip},
	}
}

var clientUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// obtain returns the certificate that an earlier run has kept in the folder, or asks the cluster for one.
func obtain(ctx context.Context, config *rest.Config, folder string, r request) (*identity, error) {
	certFile, keyFile := filepath.Join(folder, r.name+".crt"), filepath.Join(folder, r.name+".key")
	certificate, err := os.ReadFile(certFile)
	if err == nil {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("failed to read the key of a certificate: %w", err)
		}
		return &identity{certificate, key}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to read a certificate: %w", err)
	}

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to generate a key: %w", err)
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(private)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: r.common, Organization: []string{r.group}}, DNSNames: r.dns, IPAddresses: r.ips,
	}, private)
	if err != nil {
		return nil, fmt.Errorf("failed to make a certificate signing request: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, signingTimeout)
	defer cancel()
	name, uid, err := csr.RequestCertificateWithContext(ctx, client,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "", r.signer, nil, r.usages, private)
	if err != nil {
		return nil, fmt.Errorf("failed to request a certificate for %s of %s: %w", r.common, r.signer, err)
	}
	if certificate, err = csr.WaitForCertificate(ctx, client, name, uid); err != nil {
		return nil, fmt.Errorf("failed to wait for the certificate of %s (CertificateSigningRequest %s): %w", r.common,
			name, err)
	}
	// The key first: with the certificate both are complete.
	if err := errors.Join(os.WriteFile(keyFile, key, 0o600), os.WriteFile(certFile, certificate, 0o600)); err != nil {
		return nil, fmt.Errorf("failed to keep a certificate: %w", err)
	}
	return &identity{certificate, key}, nil
}

// config is how the identity talks to the kube-apiserver.
func (i *identity) config(data *UserData) *rest.Config {
	return &rest.Config{
		Host:            data.Server,
		TLSClientConfig: rest.TLSClientConfig{CAData: data.CA, CertData: i.certificate, KeyData: i.key},
		QPS:             -1,
	}
}

// bootstrapConfig is how a new machine talks to the kube-apiserver.
func bootstrapConfig(data *UserData) *rest.Config {
	return &rest.Config{Host: data.Server, TLSClientConfig: rest.TLSClientConfig{CAData: data.CA},
		BearerToken: data.Token, QPS: -1}
}
