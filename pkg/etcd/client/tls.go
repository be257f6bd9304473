// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TLSFromSecrets builds the configuration of an etcd client from the secret with the CA bundle of etcd (ca-etcd) and
// the secret with the client certificate (etcd-client). The CA secret may be the bundle or the CA itself.
func TLSFromSecrets(ca, clientCertificate *corev1.Secret) (*tls.Config, error) {
	bundle := ca.Data[secretsutils.DataKeyCertificateBundle]
	if len(bundle) == 0 {
		bundle = ca.Data[secretsutils.DataKeyCertificateCA]
	}
	return newTLS(ca, bundle, clientCertificate)
}

// TLSFromEtcd builds the configuration of an etcd client from the secrets that an Etcd resource refers to.
func TLSFromEtcd(ctx context.Context, reader client.Reader, etcd *druidcorev1alpha1.Etcd) (*tls.Config, error) {
	refs := etcd.Spec.Etcd.ClientUrlTLS
	if refs == nil {
		return nil, fmt.Errorf("etcd %s has no TLS for clients", client.ObjectKeyFromObject(etcd))
	}
	ca, certificate := &corev1.Secret{}, &corev1.Secret{}
	for name, secret := range map[string]*corev1.Secret{refs.TLSCASecretRef.Name: ca,
		refs.ClientTLSSecretRef.Name: certificate} {
		if err := reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, secret); err != nil {
			return nil, fmt.Errorf("failed to get secret %s of etcd %s: %w", name, client.ObjectKeyFromObject(etcd),
				err)
		}
	}
	return newTLS(ca, ca.Data[ptr.Deref(refs.TLSCASecretRef.DataKey, secretsutils.DataKeyCertificateCA)], certificate)
}

func newTLS(ca *corev1.Secret, bundle []byte, clientCertificate *corev1.Secret) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("secret %s holds no CA certificate", client.ObjectKeyFromObject(ca))
	}
	pair, err := tls.X509KeyPair(clientCertificate.Data[secretsutils.DataKeyCertificate],
		clientCertificate.Data[secretsutils.DataKeyPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("failed to read the client certificate in secret %s: %w",
			client.ObjectKeyFromObject(clientCertificate), err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
