// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"crypto/tls"
	"errors"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// protocol is negotiated between relays: whoever speaks another one has come to the wrong door.
const protocol = "livecpm-relay/1"

// clientTLS returns the configuration for dialing the other seed's relay.
func clientTLS(certs *pod.Certificates, serverName string) *tls.Config {
	current := certs.Current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   serverName,
		RootCAs:      current.Authorities,
		Certificates: current.Certificates,
		NextProtos:   []string{protocol},
	}
}

var errUnknownServerName = errors.New("server name is not configured")

// serverTLS returns the configuration for being dialed by the other seed's relay. Whoever asks for a name that known
// does not have is turned away before a certificate is shown.
func serverTLS(certs *pod.Certificates, known func(serverName string) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !known(hello.ServerName) {
				return nil, errUnknownServerName
			}
			if len(hello.SupportedProtos) == 0 {
				return nil, errors.New("peer is not a relay")
			}
			current := certs.Current()
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: current.Certificates,
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    current.Authorities,
				NextProtos:   []string{protocol},
				// A resumed session would outlive the CA that its certificate was verified with.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}
