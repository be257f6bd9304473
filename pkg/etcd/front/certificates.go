// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
)

// reloadInterval is how often the certificate files are compared with what is in use. They lie in Secret volumes, which
// the kubelet itself renews only about once a minute.
const reloadInterval = 10 * time.Second

// identities are what a front shows and trusts at one time.
type identities struct {
	content        []byte // of all files, to see changes
	server, client tls.Certificate
	authorities    *x509.CertPool
}

// expiry is when the first of the certificates is not valid any more.
func (i *identities) expiry() time.Time {
	if i.client.Leaf.NotAfter.Before(i.server.Leaf.NotAfter) {
		return i.client.Leaf.NotAfter
	}
	return i.server.Leaf.NotAfter
}

// certificates keeps the identities current.
type certificates struct {
	files   config.TLS
	metrics *metrics
	current atomic.Pointer[identities]
}

func loadCertificates(files config.TLS, m *metrics) (*certificates, error) {
	c := &certificates{files: files, metrics: m}
	_, err := c.reload()
	return c, err
}

// reload reads the files and takes them into use if they differ and fit together.
func (c *certificates) reload() (changed bool, err error) {
	var contents [][]byte
	for _, file := range []string{c.files.CAFile, c.files.ServerCertFile, c.files.ServerKeyFile, c.files.ClientCertFile,
		c.files.ClientKeyFile} {
		content, err := os.ReadFile(file)
		if err != nil {
			return false, fmt.Errorf("failed to read TLS file: %w", err)
		}
		contents = append(contents, content)
	}
	all := bytes.Join(contents, []byte{0})
	if current := c.current.Load(); current != nil && bytes.Equal(current.content, all) {
		return false, nil
	}
	next := &identities{content: all, authorities: x509.NewCertPool()}
	if !next.authorities.AppendCertsFromPEM(contents[0]) {
		return false, fmt.Errorf("failed to find a certificate in %s", c.files.CAFile)
	}
	if next.server, err = tls.X509KeyPair(contents[1], contents[2]); err != nil {
		return false, fmt.Errorf("failed to load certificate %s with its key: %w", c.files.ServerCertFile, err)
	}
	if next.client, err = tls.X509KeyPair(contents[3], contents[4]); err != nil {
		return false, fmt.Errorf("failed to load certificate %s with its key: %w", c.files.ClientCertFile, err)
	}
	c.current.Store(next)
	c.metrics.certificateExpiry.Set(float64(next.expiry().Unix()))
	return true, nil
}

// watch reloads until the context ends. A failure keeps the old identities in use: while the kubelet swaps a Secret's
// files, certificate and key may belong to different versions for a moment.
func (c *certificates) watch(ctx context.Context, log logr.Logger, clk clock.WithTicker) {
	ticker := clk.NewTicker(reloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		changed, err := c.reload()
		switch {
		case err != nil:
			c.metrics.certificateReloads.WithLabelValues("failure").Inc()
			log.Error(err, "Failed to reload certificates, continuing with the previous ones")
		case changed:
			c.metrics.certificateReloads.WithLabelValues("success").Inc()
			log.Info("Reloaded certificates", "notAfter", c.current.Load().expiry())
		}
	}
}

// forClients returns the credentials towards clients of etcd. Who has no certificate of etcd's authority gets no
// further than the handshake.
func (c *certificates) forClients() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			current := c.current.Load()
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				Certificates: []tls.Certificate{current.server},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    current.authorities,
				// A resumed session would outlive the authority that its certificate was verified with.
				SessionTicketsDisabled: true,
			}, nil
		},
	})
}

// forMember returns the credentials towards a member.
func (c *certificates) forMember(serverName string) credentials.TransportCredentials {
	return &memberCredentials{certificates: c, serverName: serverName}
}

// memberCredentials use the identities that are current at each handshake.
type memberCredentials struct {
	certificates *certificates
	serverName   string
}

// ClientHandshake implements credentials.TransportCredentials.
func (m *memberCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	current := m.certificates.current.Load()
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		ServerName:   m.serverName,
		RootCAs:      current.authorities,
		Certificates: []tls.Certificate{current.client},
	}).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials.
func (*memberCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for the connection to a member")
}

// Info implements credentials.TransportCredentials.
func (*memberCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (m *memberCredentials) Clone() credentials.TransportCredentials {
	clone := *m
	return &clone
}

// OverrideServerName implements credentials.TransportCredentials.
func (m *memberCredentials) OverrideServerName(serverName string) error {
	m.serverName = serverName
	return nil
}
