// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// tlsMember is a member whose clients use TLS, as those of shoots do. The function stop stops it, as a signal does, and
// its end comes from done. The client is ready to be used.
type tlsMember struct {
	client *clientv3.Client
	http   *http.Client
	// base is where etcd serves clients, and probes where the wrapper serves its own endpoints.
	base, probes string
	stop         context.CancelFunc
	done         chan error
	exit         exitMarker
}

func startTLSMember(t *testing.T) *tlsMember {
	t.Helper()
	folder, port, probes := t.TempDir(), freePort(), freePort()
	info, err := transport.SelfCert(zap.NewNop(), filepath.Join(folder, "tls"), []string{"127.0.0.1:0"}, 1,
		x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	configuration := strings.NewReplacer(fmt.Sprintf("http://127.0.0.1:%d", port),
		fmt.Sprintf("https://127.0.0.1:%d", port)).Replace(etcdConfiguration(folder, port, freePort()))
	configuration += fmt.Sprintf("client-transport-security: {cert-file: %s, key-file: %s, trusted-ca-file: %[1]s, "+
		"client-cert-auth: true}\n", info.CertFile, info.KeyFile)
	opts := options{etcdServerName: "127.0.0.1", etcdClientPort: port, etcdClientCert: info.CertFile,
		etcdClientKey: info.KeyFile, wrapperPort: probes}
	m, err := newMember(slog.New(slog.NewTextHandler(os.Stderr, nil)), opts, folder, configuration)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(stop)
	out := &tlsMember{base: fmt.Sprintf("https://127.0.0.1:%d", port), stop: stop, done: make(chan error, 1),
		probes: fmt.Sprintf("https://127.0.0.1:%d", probes), exit: exitMarker{path: filepath.Join(folder, "exit_code")}}
	go func() { out.done <- m.run(ctx, stop, out.exit) }()

	roots, err := certPool(info.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	out.http = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	out.client, err = clientv3.New(clientv3.Config{Endpoints: []string{out.base}, TLS: config.Clone(),
		Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.client.Close() })
	awaitReady(ctx, t, out.http, out.probes)
	return out
}

func TestServesGRPCAndHTTPOnOneListener(t *testing.T) {
	m := startTLSMember(t)
	if _, err := m.client.Put(t.Context(), "a", "b"); err != nil {
		t.Errorf("the client port must serve gRPC: %v", err)
	}
	response, err := m.http.Get(m.base + "/health")
	if err != nil {
		t.Fatalf("the client port must serve HTTP: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/health answered %s", response.Status)
	}
	m.stop()
	if err := <-m.done; err != nil {
		t.Fatal(err)
	}
}
