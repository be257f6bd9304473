// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relaybench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/test/bench/data"
)

const (
	namespace = "shoot--bench--relay"
	domain    = "ingress.bench.example"
)

var innerName = naming.MemberHost(namespace, naming.EtcdRoles[0], 0)

// OuterName returns the name by which a relay reaches the other one for the member with the ordinal. The credentials of
// WriteTLS are good for it.
func OuterName(ordinal int) string {
	return fmt.Sprintf("%s--%s.%s", naming.PodName(naming.EtcdRoles[0], ordinal), namespace, domain)
}

// What a connection is for is its first byte.
const (
	// toEcho asks for everything back.
	toEcho byte = 'e'
	// toCount asks for the number of bytes, as soon as the dialer has sent all.
	toCount byte = 'c'
)

// target is a TLS server at the far end.
type target struct {
	net.Listener
}

// newTarget returns a server with a certificate for the name inside, and what trusts it.
func newTarget() (*target, *x509.CertPool, error) {
	authority, err := (&secretsutils.CertificateSecretConfig{Name: "ca-etcd", CommonName: "ca-etcd",
		CertType: secretsutils.CACert}).GenerateCertificate()
	if err != nil {
		return nil, nil, fmt.Errorf("failed to generate the authority of the target: %w", err)
	}
	certificate, err := (&secretsutils.CertificateSecretConfig{
		Name: "etcd", CommonName: "etcd", CertType: secretsutils.ServerCert, SigningCA: authority,
		DNSNames: []string{innerName},
	}).GenerateCertificate()
	if err != nil {
		return nil, nil, fmt.Errorf("failed to generate the certificate of the target: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate.CertificatePEM, certificate.PrivateKeyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to load the certificate of the target: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.CertificatePEM)
	// Without tickets: a client that comes again makes a whole handshake, as etcd's do after a restart.
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true})
	if err != nil {
		return nil, nil, fmt.Errorf("failed to listen: %w", err)
	}
	t := &target{listener}
	go t.serve()
	return t, roots, nil
}

func (t *target) serve() {
	for {
		conn, err := t.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			kind := make([]byte, 1)
			if _, err := io.ReadFull(conn, kind); err != nil {
				return
			}
			buffer := make([]byte, 64<<10)
			switch kind[0] {
			case toEcho:
				_, _ = io.CopyBuffer(onlyWriter{conn}, onlyReader{conn}, buffer)
			case toCount:
				count, err := io.CopyBuffer(io.Discard, onlyReader{conn}, buffer)
				if err == nil {
					_ = binary.Write(conn, binary.BigEndian, count)
				}
			}
		}()
	}
}

// The buffer is used only if the ends do not copy by themselves.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// WriteTLS writes the credentials of the relays into the folder, with the keys that the agents make.
func WriteTLS(folder string) error {
	authority, config := exposure.CertificateConfigs(namespace, domain)
	ca, err := authority.GenerateCertificate()
	if err != nil {
		return fmt.Errorf("failed to generate the authority of the relays: %w", err)
	}
	config.SigningCA = ca
	certificate, err := config.GenerateCertificate()
	if err != nil {
		return fmt.Errorf("failed to generate the certificate of the relays: %w", err)
	}
	for name, content := range map[string][]byte{"ca.crt": ca.CertificatePEM, "tls.crt": certificate.CertificatePEM,
		"tls.key": certificate.PrivateKeyPEM} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return fmt.Errorf("failed to write the credentials of the relays: %w", err)
		}
	}
	return nil
}

// way is a way to the target.
type way struct {
	address string
	roots   *x509.CertPool
}

// dial returns a connection to the target on which the handshake is done.
func (w way) dial(ctx context.Context) (*tls.Conn, error) {
	dialer := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: w.roots, ServerName: innerName}}
	conn, err := dialer.DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, fmt.Errorf("failed to connect by %s: %w", w.address, err)
	}
	return conn.(*tls.Conn), nil
}

// echoing returns a connection that sends everything back.
func (w way) echoing(ctx context.Context) (*tls.Conn, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := exchange(conn, []byte{toEcho, 0}, make([]byte, 1)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// exchange sends a message and reads the answer.
func exchange(conn net.Conn, message, answer []byte) error {
	if _, err := conn.Write(message); err != nil {
		return fmt.Errorf("failed to send: %w", err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("failed to receive: %w", err)
	}
	return nil
}

// transfer sends for a while, and returns how much has arrived and how long that took.
func (w way) transfer(ctx context.Context, lasts time.Duration) (int64, time.Duration, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{toCount}); err != nil {
		return 0, 0, fmt.Errorf("failed to send: %w", err)
	}
	chunk := make([]byte, 64<<10)
	begin := time.Now()
	for time.Since(begin) < lasts {
		if _, err := conn.Write(chunk); err != nil {
			return 0, 0, fmt.Errorf("failed to send: %w", err)
		}
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
	}
	if err := errors.Join(conn.CloseWrite(), conn.NetConn().(*net.TCPConn).CloseWrite()); err != nil {
		return 0, 0, fmt.Errorf("failed to end the transfer: %w", err)
	}
	var count int64
	if err := binary.Read(conn, binary.BigEndian, &count); err != nil {
		return 0, 0, fmt.Errorf("failed to learn what has arrived: %w", err)
	}
	return count, time.Since(begin), nil
}

// latency sums up latencies.
func latency(all []time.Duration) data.Latency {
	if len(all) == 0 {
		return data.Latency{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(share float64) float64 {
		return float64(sorted[min(int(share*float64(len(sorted))), len(sorted)-1)].Nanoseconds()) / 1000
	}
	return data.Latency{P50: at(0.5), P99: at(0.99), Count: len(sorted)}
}
