// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

// reloadInterval is how often the certificate files are compared with what is in use. They lie in a Secret volume,
// which the kubelet itself renews only about once a minute.
const reloadInterval = 10 * time.Second

// protocol is negotiated between relays: whoever speaks another one has come to the wrong door.
const protocol = "livecpm-relay/1"

// credentials are what a relay shows and trusts at one time.
type credentials struct {
	content     []byte // of all files, to see changes
	certificate tls.Certificate
	roots       *x509.CertPool
}

// certificates keeps the credentials current.
type certificates struct {
	files   config.TLS
	metrics *metrics
	current atomic.Pointer[credentials]
}

func loadCertificates(files config.TLS, m *metrics) (*certificates, error) {
	c := &certificates{files: files, metrics: m}
	_, err := c.reload()
	return c, err
}

// reload reads the files and takes them into use if they differ and fit together.
func (c *certificates) reload() (changed bool, err error) {
	var contents [][]byte
	for _, file := range []string{c.files.CAFile, c.files.CertFile, c.files.KeyFile} {
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
	next := &credentials{content: all, roots: x509.NewCertPool()}
	if !next.roots.AppendCertsFromPEM(contents[0]) {
		return false, fmt.Errorf("failed to find a certificate in %s", c.files.CAFile)
	}
	if next.certificate, err = tls.X509KeyPair(contents[1], contents[2]); err != nil {
		return false, fmt.Errorf("failed to load certificate %s with its key: %w", c.files.CertFile, err)
	}
	c.current.Store(next)
	c.metrics.certificateExpiry.Set(float64(next.certificate.Leaf.NotAfter.Unix()))
	return true, nil
}

// watch reloads until the context ends. A failure keeps the old credentials in use: while the kubelet swaps a Secret's
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
			log.Info("Reloaded certificates", "notAfter", c.current.Load().certificate.Leaf.NotAfter)
		}
	}
}

// client returns the configuration for dialing the other seed's relay.
func (c *certificates) client(serverName string) *tls.Config {
	current := c.current.Load()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   serverName,
		RootCAs:      current.roots,
		Certificates: []tls.Certificate{current.certificate},
		NextProtos:   []string{protocol},
	}
}

var errUnknownServerName = errors.New("server name is not configured")

// server returns the configuration for being dialed by the other seed's relay. Whoever asks for a name that known does
// not have is turned away before a certificate is shown.
func (c *certificates) server(known func(serverName string) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !known(hello.ServerName) {
				return nil, errUnknownServerName
			}
			if len(hello.SupportedProtos) == 0 {
				return nil, errors.New("peer is not a relay")
			}
			current := c.current.Load()
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{current.certificate},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    current.roots,
				NextProtos:   []string{protocol},
				// A resumed session would outlive the CA that its certificate was verified with.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}
