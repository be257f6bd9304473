// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	pollInterval   = time.Second
	requestTimeout = time.Minute
	// The sidecar looks up members and learners before it answers /config. While the cluster has no quorum those
	// look-ups run into their own timeouts one after the other. After so many answers that never came, the container
	// ends, and the next one starts over with the data directory.
	configAttempts = 5
)

// sidecar is the HTTP API of etcd-backup-restore.
type sidecar struct {
	log  *slog.Logger
	base string
	http *http.Client
	// interval is the pause between two requests.
	interval time.Duration
}

func newSidecar(log *slog.Logger, opts options) (*sidecar, error) {
	s := &sidecar{
		log: log, base: "http://" + opts.sidecarAddress, interval: pollInterval,
		http: &http.Client{Transport: &http.Transport{}, Timeout: requestTimeout},
	}
	if !opts.sidecarTLS {
		return s, nil
	}
	host, _, err := net.SplitHostPort(opts.sidecarAddress)
	if err != nil {
		return nil, fmt.Errorf("failed to parse --backup-restore-host-port %q: %w", opts.sidecarAddress, err)
	}
	if host == "" {
		host = "localhost"
	}
	roots, err := certPool(opts.sidecarCAFile)
	if err != nil {
		return nil, err
	}
	s.base = "https://" + opts.sidecarAddress
	s.http.Transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12},
	}
	return s, nil
}

// initialize drives the sidecar until the data directory is fit to start etcd on. The sidecar falls back to New after a
// failed attempt, so the loop starts it again for as long as the pod lives: data that cannot be read never ends it.
// The pause comes after the last answer too.
func (s *sidecar) initialize(ctx context.Context, mode func() string) error {
	for last, status := "", ""; status != "Successful"; {
		var err error
		if status, err = s.get(ctx, "/initialization/status"); err != nil {
			status = err.Error()
		}
		if status != last {
			s.log.Info("initialization status", "status", status)
			last = status
		}
		if err == nil && status == "New" {
			m := mode()
			s.log.Info("starting initialization", "mode", m)
			if _, err := s.get(ctx, "/initialization/start?mode="+m); err != nil {
				s.log.Error("failed to start initialization", "error", err)
			}
		}
		if err := sleep(ctx, s.interval); err != nil {
			return err
		}
	}
	return nil
}

// etcdConfiguration fetches the member's etcd configuration as the sidecar tailors it to the present members.
func (s *sidecar) etcdConfiguration(ctx context.Context) (string, error) {
	var err error
	for range configAttempts {
		var configuration string
		if configuration, err = s.get(ctx, "/config"); err == nil {
			return configuration, nil
		}
		s.log.Error("failed to fetch the etcd configuration", "error", err)
		if err := sleep(ctx, s.interval); err != nil {
			return "", err
		}
	}
	return "", err
}

func (s *sidecar) get(ctx context.Context, path string) (string, error) {
	response, err := s.do(ctx, path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	default:
		return "", fmt.Errorf("GET %s answered %s", path, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// do ends the request's context before the body is read, as the real one does: an answer that comes in more than one
// piece is cut off, and asked for again.
func (s *sidecar) do(ctx context.Context, path string) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	return s.http.Do(request)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func certPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read CA bundle: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("failed to find a certificate in CA bundle %s", path)
	}
	return pool, nil
}
