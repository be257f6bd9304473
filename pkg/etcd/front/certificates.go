// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// The certificates of a front, in the order of its pairs.
const (
	serverPair = iota
	clientPair
)

// credentialsForClients are those towards clients of etcd. Who has no certificate of etcd's authority gets no further
// than the handshake.
func credentialsForClients(certs *pod.Certificates) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			current := certs.Current()
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				Certificates: current.Certificates[serverPair : serverPair+1],
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    current.Authorities,
				// A resumed session would outlive the authority that its certificate was verified with.
				SessionTicketsDisabled: true,
			}, nil
		},
	})
}

// memberCredentials are those towards a member. They use the identities that are current at each handshake.
type memberCredentials struct {
	certificates *pod.Certificates
	serverName   string
}

// ClientHandshake implements credentials.TransportCredentials.
func (m *memberCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	current := m.certificates.Current()
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		ServerName:   m.serverName,
		RootCAs:      current.Authorities,
		Certificates: current.Certificates[clientPair : clientPair+1],
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
