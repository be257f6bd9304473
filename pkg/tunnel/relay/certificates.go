// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// protocol is negotiated between relays: whoever speaks another one has come to the wrong door.
const protocol = "livecpm-relay/1"

// ticketPurpose is what the key of session tickets is derived for.
const ticketPurpose = protocol + " session tickets"

// maxSessions is how many sessions with other relays are kept: one for each route, of which there are 14.
const maxSessions = 64

// outerTLS makes the configurations of the outer connections, with the certificates that are in use.
//
// Relays resume sessions: etcd and the kube-apiservers connect thousands of times in a migration, and a full handshake
// signs and verifies on both sides. Who resumes shows no certificate again, so these rules keep it as strict:
//
//   - The certificate of the full handshake is verified again, as if it had been shown now: with the authorities that
//     are in use, the time, and the name that is dialed. VerifyPeerCertificate is not called for resumed sessions, and
//     what crypto/tls checks by itself has changed between versions of Go.
//   - Sessions and keys belong to the files. When any of them changes, the key of the tickets changes, and the sessions
//     of before are forgotten: the next handshake is a full one. It does not fail for a ticket that nobody accepts.
//   - The key exchange is a fresh one each time (crypto/tls resumes with psk_dhe_ke only), so that a key that leaks
//     later discloses nothing.
//
// The key of the tickets is derived from the files, the private key among them: the gateway chooses any of a seed's
// relays, and all of them have the same files. Whoever has that key could show the certificate itself.
type outerTLS struct {
	certs *pod.Certificates
	// known reports whether a server name may be asked for.
	known func(serverName string) bool

	lock sync.Mutex
	made *outer
}

// outer are the configurations for one set of certificates.
type outer struct {
	of             *pod.Identities
	client, server *tls.Config
}

func newOuterTLS(certs *pod.Certificates, known func(serverName string) bool) *outerTLS {
	return &outerTLS{certs: certs, known: known}
}

// current returns the configurations for the certificates that are in use.
func (o *outerTLS) current() (*outer, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	identities := o.certs.Current()
	if o.made != nil && o.made.of == identities {
		return o.made, nil
	}
	key, err := identities.Derive(ticketPurpose)
	if err != nil {
		return nil, fmt.Errorf("failed to derive the key of session tickets: %w", err)
	}
	made := &outer{of: identities,
		client: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			RootCAs:            identities.Authorities,
			Certificates:       identities.Certificates,
			NextProtos:         []string{protocol},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxSessions),
		},
		server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: identities.Certificates,
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    identities.Authorities,
			NextProtos:   []string{protocol},
			VerifyConnection: verifyAgain(x509.VerifyOptions{Roots: identities.Authorities,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}),
		},
	}
	made.server.SetSessionTicketKeys([][32]byte{key})
	o.made = made
	return made, nil
}

// dialing returns the configuration for dialing the other seed's relay.
func (o *outerTLS) dialing(serverName string) (*tls.Config, error) {
	current, err := o.current()
	if err != nil {
		return nil, err
	}
	config := current.client.Clone()
	config.ServerName = serverName
	config.VerifyConnection = verifyAgain(x509.VerifyOptions{Roots: config.RootCAs, DNSName: serverName,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return config, nil
}

// forget keeps a session from being resumed again with which a handshake has failed.
func forget(config *tls.Config) { config.ClientSessionCache.Put(config.ServerName, nil) }

var errUnknownServerName = errors.New("server name is not configured")

// dialed returns the configuration for being dialed by the other seed's relay. Whoever asks for a name that is not
// known is turned away before a certificate is shown, with a session or without.
func (o *outerTLS) dialed() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !o.known(hello.ServerName) {
				return nil, errUnknownServerName
			}
			if len(hello.SupportedProtos) == 0 {
				return nil, errors.New("peer is not a relay")
			}
			current, err := o.current()
			if err != nil {
				return nil, err
			}
			return current.server, nil
		},
	}
}

// verifyAgain verifies the certificate behind a resumed session. A full handshake has done it already.
func verifyAgain(options x509.VerifyOptions) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if !state.DidResume {
			return nil
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("the resumed session has no certificate")
		}
		options := options
		options.Intermediates = x509.NewCertPool()
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		if _, err := state.PeerCertificates[0].Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}
