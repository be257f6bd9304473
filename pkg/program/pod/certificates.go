// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// ReloadInterval is how often the certificate files are compared with what is in use. They lie in Secret volumes, which
// the kubelet itself renews only about once a minute.
const ReloadInterval = 10 * time.Second

// Pair names the files of a certificate and of its key, in PEM form.
type Pair struct{ CertFile, KeyFile string }

// Identities are what a program shows and trusts at one time.
type Identities struct {
	// Certificates are in the order of the pairs.
	Certificates []tls.Certificate
	// Authorities are those that it trusts.
	Authorities *x509.CertPool

	content []byte // of all files, to see changes
}

// expiry is when the first of the certificates is not valid any more.
func (i *Identities) expiry() time.Time {
	first := i.Certificates[0].Leaf.NotAfter
	for _, certificate := range i.Certificates[1:] {
		if certificate.Leaf.NotAfter.Before(first) {
			first = certificate.Leaf.NotAfter
		}
	}
	return first
}

// Derive returns a key of 256 bits for the purpose. It is the same for all who have read the same files, and another
// one as soon as any of the files differs. The secret that it is made of are the private keys.
func (i *Identities) Derive(purpose string) ([32]byte, error) {
	key, err := hkdf.Key(sha256.New, i.content, nil, purpose, sha256.Size)
	if err != nil {
		return [32]byte{}, fmt.Errorf("failed to derive a key for %q: %w", purpose, err)
	}
	return [32]byte(key), nil
}

// CertificateMetrics are what is told of the files.
type CertificateMetrics struct {
	// Reloads counts the attempts to take changed files into use, by result.
	Reloads *prometheus.CounterVec
	// Expiry is when the first of the certificates in use is not valid any more, in seconds of Unix time.
	Expiry prometheus.Gauge
}

// Certificates keeps identities current.
type Certificates struct {
	caFile  string
	pairs   []Pair
	metrics CertificateMetrics
	current atomic.Pointer[Identities]
}

// LoadCertificates reads the certificates of authorities and at least one pair. It fails unless all files are there and
// fit together.
func LoadCertificates(metrics CertificateMetrics, caFile string, pairs ...Pair) (*Certificates, error) {
	c := &Certificates{caFile: caFile, pairs: pairs, metrics: metrics}
	_, err := c.reload()
	return c, err
}

// Current returns what is to be used for a new connection.
func (c *Certificates) Current() *Identities { return c.current.Load() }

// reload reads the files and takes them into use if they differ and fit together.
func (c *Certificates) reload() (changed bool, err error) {
	files := []string{c.caFile}
	for _, pair := range c.pairs {
		files = append(files, pair.CertFile, pair.KeyFile)
	}
	var contents [][]byte
	for _, file := range files {
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
	next := &Identities{Authorities: x509.NewCertPool(), content: all}
	if !next.Authorities.AppendCertsFromPEM(contents[0]) {
		return false, fmt.Errorf("failed to find a certificate in %s", c.caFile)
	}
	for i, pair := range c.pairs {
		certificate, err := tls.X509KeyPair(contents[1+2*i], contents[2+2*i])
		if err != nil {
			return false, fmt.Errorf("failed to load certificate %s with its key: %w", pair.CertFile, err)
		}
		next.Certificates = append(next.Certificates, certificate)
	}
	c.current.Store(next)
	c.metrics.Expiry.Set(float64(next.expiry().Unix()))
	return true, nil
}

// Watch reloads until the context ends. A failure keeps the old identities in use: while the kubelet swaps a Secret's
// files, certificate and key may belong to different versions for a moment.
func (c *Certificates) Watch(ctx context.Context, log logr.Logger, clk clock.WithTicker) {
	ticker := clk.NewTicker(ReloadInterval)
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
			c.metrics.Reloads.WithLabelValues("failure").Inc()
			log.Error(err, "Failed to reload certificates, continuing with the previous ones")
		case changed:
			c.metrics.Reloads.WithLabelValues("success").Inc()
			log.Info("Reloaded certificates", "notAfter", c.Current().expiry())
		}
	}
}
