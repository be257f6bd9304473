// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/program"
)

const (
	innerName = "etcd-main-0.etcd-main-peer.shoot--demo--live.svc"
	outerName = "etcd-main-0--shoot--demo--live.ingress.seed-b.example"
)

var innerNames = []string{innerName, "*.etcd-main-peer.shoot--demo--live.svc.cluster.local"}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(name string) *authority {
	a := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = must(
		x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))))
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *authority) issue(names ...string) (certificate, key []byte) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))})
}

func (a *authority) keyPair(names ...string) tls.Certificate {
	return must(tls.X509KeyPair(a.issue(names...)))
}

// write puts credentials into folder as a Secret volume has them.
func (a *authority) write(folder string, names ...string) config.TLS {
	files := config.TLS{CAFile: filepath.Join(folder, "ca.crt"), CertFile: filepath.Join(folder, "tls.crt"),
		KeyFile: filepath.Join(folder, "tls.key")}
	certificate, key := a.issue(names...)
	for file, content := range map[string][]byte{files.CAFile: a.pem(), files.CertFile: certificate,
		files.KeyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			panic(err)
		}
	}
	return files
}

func freePort() int32 { return int32(program.FreePort()) }

func address(port int32) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// nearConfig is that of a relay which only dials; farConfig of one which is only dialed.
func nearConfig(files config.TLS, remotePort int32) *config.Config {
	return withPorts(&config.Config{TLS: files, Near: []config.Near{{Port: freePort(), Routes: []config.NearRoute{{
		InnerSNI: innerNames,
		Remote:   config.Remote{Host: "127.0.0.1", Port: remotePort, ServerName: outerName},
	}}}}})
}

func farConfig(files config.TLS, target string) *config.Config {
	return withPorts(&config.Config{TLS: files,
		Far: config.Far{Port: freePort(),
			Routes: []config.FarRoute{{ServerName: outerName, InnerSNI: innerNames, Target: target}}}})
}

func withPorts(cfg *config.Config) *config.Config {
	cfg.Health.Port, cfg.Metrics.Port = freePort(), freePort()
	cfg.Limits.HandshakeTimeout = metav1.Duration{Duration: time.Hour}
	cfg.Limits.DrainTimeout = metav1.Duration{Duration: 100 * time.Millisecond}
	config.SetDefaults(cfg)
	if err := config.Validate(cfg).ToAggregate(); err != nil {
		panic(err)
	}
	return cfg
}

// start runs a relay until stop is called; stop returns what Start returned.
func start(cfg *config.Config, clk clock.WithTicker) (stop func() error) {
	return startLogging(cfg, clk, logr.Discard())
}

func startLogging(cfg *config.Config, clk clock.WithTicker, log logr.Logger) (stop func() error) {
	r := must(relay.New(cfg, log, clk))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	// That it is ready says nothing of the port for metrics, which specs read as soon as something is to be counted.
	awaitOK(cfg.Health.Port, "/readyz")
	awaitOK(cfg.Metrics.Port, "/metrics")
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// awaitOK asks until the answer is OK.
func awaitOK(port int32, path string) {
	for {
		response, err := http.Get("http://" + address(port) + path)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// metric returns the value of the first sample whose text starts with prefix, or "".
func metric(cfg *config.Config, prefix string) string {
	response := must(http.Get("http://" + address(cfg.Metrics.Port) + "/metrics"))
	defer response.Body.Close()
	for line := range strings.Lines(string(must(io.ReadAll(response.Body)))) {
		if strings.HasPrefix(line, prefix) {
			fields := strings.Fields(line)
			return fields[len(fields)-1]
		}
	}
	return ""
}

// etcd is a TLS server that sends back what it got.
type etcd struct {
	net.Listener

	accepted atomic.Int32

	mu    sync.Mutex
	names []string
}

// newEtcd returns one that answers once the other side has closed its half.
func newEtcd(a *authority) *etcd {
	return serveEtcd(a, func(conn net.Conn) {
		content, err := io.ReadAll(conn)
		if err == nil {
			_, _ = conn.Write(content)
		}
	})
}

// newStreamingEtcd returns one that echoes at once.
func newStreamingEtcd(a *authority) *etcd {
	return serveEtcd(a, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}

func serveEtcd(a *authority, answer func(net.Conn)) *etcd {
	e := &etcd{}
	e.Listener = must(tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{a.keyPair(innerName)}}))
	go func() {
		for {
			conn, err := e.Accept()
			if err != nil {
				return
			}
			e.accepted.Add(1)
			go func() {
				defer conn.Close()
				tlsConn := conn.(*tls.Conn)
				if tlsConn.Handshake() != nil {
					return
				}
				e.mu.Lock()
				e.names = append(e.names, tlsConn.ConnectionState().ServerName)
				e.mu.Unlock()
				answer(conn)
			}()
		}
	}()
	return e
}

func (e *etcd) serverNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.names...)
}

// dial opens an inner TLS connection by way of a near port.
func dial(a *authority, port int32, serverName string) (*tls.Conn, error) {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: a.pool(), ServerName: serverName}}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Eventually)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// closeWrite ends the sending half of both layers.
func closeWrite(conn *tls.Conn) error {
	return errors.Join(conn.CloseWrite(), conn.NetConn().(*net.TCPConn).CloseWrite())
}

// slowHandshake is the time for a handshake where a test lets it pass. All others of the test must be done in that
// time.
const slowHandshake = 3 * time.Second

// closed reads until the connection ends.
func closed(conn net.Conn) error { return closedWithin(conn, patience.Eventually) }

// closedWithin reads until the connection ends.
func closedWithin(conn net.Conn, limit time.Duration) error {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("connection was not closed")
	}
	return nil
}
