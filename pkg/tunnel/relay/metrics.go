// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Directions of a connection, seen from the relay: from a local dialer to the other seed, or the other way round.
const (
	directionNear = "near"
	directionFar  = "far"
)

// Causes of failed handshakes. Each has its own remedy: look at the dialer, at the network, at the configuration, or at
// the certificates.
const (
	causeNotTLS      = "not_tls"
	causeTimeout     = "timeout"
	causeClosed      = "closed"
	causeServerName  = "unknown_server_name"
	causeCertificate = "certificate"
	causeRejected    = "rejected_by_peer"
	causeProtocol    = "protocol"
)

type metrics struct {
	connections        *prometheus.CounterVec
	openConnections    *prometheus.GaugeVec
	bytes              *prometheus.CounterVec
	dialFailures       *prometheus.CounterVec
	handshakes         *prometheus.CounterVec
	handshakeFailures  *prometheus.CounterVec
	refused            prometheus.Counter
	certificateReloads *prometheus.CounterVec
	certificateExpiry  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	route := []string{"direction", "route"}
	return &metrics{
		connections: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_connections_total", Help: "Connections that were joined with their target.",
		}, route),
		openConnections: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "livecpm_relay_open_connections", Help: "Connections that are joined with their target now.",
		}, route),
		bytes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_bytes_total", Help: "Bytes passed on, towards the target (sent) and back (received).",
		}, append([]string{"flow"}, route...)),
		dialFailures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_dial_failures_total",
			Help: "Connections reset because their target could not be reached.",
		}, route),
		handshakes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_handshakes_total",
			Help: "TLS handshakes between the relays that were completed, by whether they resumed a session.",
		}, []string{"direction", "resumed"}),
		handshakeFailures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_handshake_failures_total",
			Help: "Connections dropped because of their ClientHello or TLS handshake, by cause.",
		}, []string{"direction", "cause"}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "livecpm_relay_refused_connections_total",
			Help: "Connections reset because a limit was reached: that of connections, or that of handshakes at once.",
		}),
		certificateReloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "livecpm_relay_certificate_reloads_total",
			Help: "Attempts to take changed certificate files into use, by result.",
		}, []string{"result"}),
		certificateExpiry: factory.NewGauge(prometheus.GaugeOpts{
			Name: "livecpm_relay_certificate_expiry_timestamp_seconds",
			Help: "End of validity of the certificate in use.",
		}),
	}
}

// handshake counts a handshake between the relays that was completed.
func (m *metrics) handshake(direction string, conn *tls.Conn) {
	m.handshakes.WithLabelValues(direction, strconv.FormatBool(conn.ConnectionState().DidResume)).Inc()
}

// cause classifies the error of a handshake.
func cause(err error) string {
	var (
		notTLS       tls.RecordHeaderError
		verification *tls.CertificateVerificationError
		operation    *net.OpError
	)
	switch {
	case errors.Is(err, errUnknownServerName):
		return causeServerName
	case errors.As(err, &notTLS):
		return causeNotTLS
	case errors.As(err, &operation) && operation.Op == "remote error":
		return causeRejected
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return causeTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return causeClosed
	case errors.As(err, &verification), strings.Contains(err.Error(), "certificate"): // a missing one has no error type
		return causeCertificate
	}
	return causeProtocol
}
