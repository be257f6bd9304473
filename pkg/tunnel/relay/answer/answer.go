// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package answer measures the way between two seeds before any migration takes it. Answerer stands where an etcd member
// would stand, behind the relay of one seed, and says what time it is, sends bytes and takes them. Measure asks it from
// the other seed, through the relays of both. What they say to each other is HTTP in a TLS connection of their own, as
// the relays carry those of etcd.
package answer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

const (
	// MaxBytes is how many bytes an Answerer sends or takes for one question at most.
	MaxBytes = 64 << 20

	pathTime, pathBytes = "/time", "/bytes"
	parameterCount      = "count"

	// maxQuestions is how many questions are answered at once. One probe asks one at a time.
	maxQuestions = 4
	// answerTimeout bounds one answer.
	answerTimeout = time.Minute
	// chunk is how many bytes are sent at once.
	chunk = 64 << 10
)

// Options are what an Answerer needs.
type Options struct {
	// Port is where it is asked, HealthPort where it serves the kubelet's probes.
	Port, HealthPort int32
	// CAFile, CertFile and KeyFile name files in PEM form: the authority of those who may ask, and what it shows.
	CAFile, CertFile, KeyFile string
}

// Answerer answers the questions of Measure.
type Answerer struct {
	log     logr.Logger
	clock   clock.WithTicker
	options Options
	certs   *pod.Certificates
	slots   chan struct{}
}

// New returns an Answerer. It fails unless the files are there and fit together.
func New(options Options, log logr.Logger, clk clock.WithTicker) (*Answerer, error) {
	// Nobody reads metrics of a program that lives for minutes.
	unread := pod.CertificateMetrics{
		Reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reloads"}, []string{"result"}),
		Expiry:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "expiry"}),
	}
	certs, err := pod.LoadCertificates(unread, options.CAFile,
		pod.Pair{CertFile: options.CertFile, KeyFile: options.KeyFile})
	if err != nil {
		return nil, err
	}
	return &Answerer{log: log, clock: clk, options: options, certs: certs, slots: make(chan struct{}, maxQuestions)},
		nil
}

// Start answers until the context ends.
func (a *Answerer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", pod.PortAddress(a.options.Port))
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return pod.ServeHTTP(ctx, a.options.HealthPort, pod.HealthHandler(func() string { return "" }))
	})
	group.Go(func() error { a.certs.Watch(ctx, a.log, a.clock); return nil })
	group.Go(func() error { return a.serve(ctx, listener) })
	a.log.Info("Answering", "port", a.options.Port)
	return group.Wait()
}

func (a *Answerer) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: a.handler(), TLSConfig: a.tls(),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: answerTimeout, MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to answer on %s: %w", listener.Addr(), err)
	}
	return nil
}

// tls lets those ask only whom the authority of the other seed knows. The relay before has asked for the same.
func (a *Answerer) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			current := a.certs.Current()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: current.Certificates,
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: current.Authorities,
			}, nil
		},
		// ServeTLS asks for one; the above decides.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &a.certs.Current().Certificates[0], nil
		},
	}
}

func (a *Answerer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathTime, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, a.clock.Now().UTC().Format(time.RFC3339Nano))
	})
	mux.HandleFunc("GET "+pathBytes, send)
	mux.HandleFunc("POST "+pathBytes, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, MaxBytes)); err != nil {
			http.Error(w, "failed to take the bytes: "+err.Error(), http.StatusBadRequest)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
			mux.ServeHTTP(w, r)
		default:
			http.Error(w, "too many questions at once", http.StatusTooManyRequests)
		}
	})
}

// send sends as many bytes as the question asks for.
func send(w http.ResponseWriter, r *http.Request) {
	count, err := strconv.ParseInt(r.URL.Query().Get(parameterCount), 10, 64)
	if err != nil || count < 0 || count > MaxBytes {
		http.Error(w, fmt.Sprintf("%s must be between 0 and %d", parameterCount, MaxBytes), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(count, 10))
	buffer := make([]byte, chunk)
	for count > 0 {
		n, err := w.Write(buffer[:min(count, chunk)])
		if err != nil {
			return
		}
		count -= int64(n)
	}
}
