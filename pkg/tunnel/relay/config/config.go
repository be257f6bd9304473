// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package config defines the configuration file of livecpm-relay, for the relay that reads it and for the agent that
// writes it.
package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// Defaults of what a file leaves out.
const (
	DefaultHealthPort       int32 = 8081
	DefaultMetricsPort      int32 = 8082
	DefaultMaxConnections   int32 = 512
	DefaultMaxHandshakes    int32 = 512
	DefaultHandshakeTimeout       = 10 * time.Second
	DefaultDialTimeout            = 3 * time.Second
	DefaultDrainTimeout           = 2 * time.Second
)

// Config is the configuration of one relay. All relays of a shoot in one seed have the same.
type Config struct {
	// Namespace is the namespace of the shoot that the relay works for. Everything else in the file has to belong to
	// it, see ValidateShoot.
	Namespace string `json:"namespace,omitempty"`
	// Near are the listeners for local dialers, one per port.
	Near []Near `json:"near,omitempty"`
	// Far is the listener for the relays of the other seed.
	Far Far `json:"far,omitzero"`
	// TLS names the certificate that the relays of both seeds show each other.
	TLS TLS `json:"tls"`
	// Health is where /healthz and /readyz are served.
	Health Endpoint `json:"health,omitzero"`
	// Metrics is where /metrics is served.
	Metrics Endpoint `json:"metrics,omitzero"`
	Limits  Limits   `json:"limits,omitzero"`
}

// Near is a listener for local dialers.
type Near struct {
	Port   int32       `json:"port"`
	Routes []NearRoute `json:"routes"`
	// Inner is what the local dialers speak. Defaults to TLS.
	Inner Inner `json:"inner,omitempty"`
	// RedialPause is the pause of all routes that have none of their own.
	RedialPause metav1.Duration `json:"redialPause,omitzero"`
}

// Inner is what is spoken inside the connection of two relays. It tells how the name that a connection asks for is
// found.
type Inner string

const (
	// InnerTLS connections begin with a ClientHello. It is the default.
	InnerTLS Inner = "TLS"
	// InnerHTTP connections are plain and begin with a request of HTTP/1, whose host takes the place of the server
	// name. Peers of an etcd with one member speak that: Gardener gives TLS to those of several members only. The
	// relays' own TLS is around it.
	InnerHTTP Inner = "HTTP"
)

// NearRoute leads local connections to the other seed.
type NearRoute struct {
	// InnerSNI are the server names that the local dialer may ask for: names, or "*." and a suffix. Where several
	// routes match, the first one wins.
	InnerSNI []string `json:"innerSNI"`
	Remote   Remote   `json:"remote"`
	// RedialPause is how long connections of the route are no attempts after the other seed could not be reached or has
	// said that nobody listens there: they are kept until it is over, and then refused. It is for dialers that try
	// again at once, and for routes with a single target. Without it, and without one of the listener, every connection
	// is an attempt.
	RedialPause metav1.Duration `json:"redialPause,omitzero"`
}

// Remote is a route of the other seed's relay, as its gateway exposes it.
type Remote struct {
	// Host is dialed: an address or an absolute DNS name, with or without the final dot.
	Host string `json:"host"`
	Port int32  `json:"port"`
	// ServerName is the SNI towards the other seed's gateway and the name in its relay's certificate. Defaults to Host.
	ServerName string `json:"serverName,omitempty"`
}

// Far is the listener for the relays of the other seed.
type Far struct {
	// Port is 0 in a relay that only dials.
	Port   int32      `json:"port,omitempty"`
	Routes []FarRoute `json:"routes,omitempty"`
}

// FarRoute leads connections of the other seed to a local target.
type FarRoute struct {
	// ServerName is the outer SNI that the other relay asks for.
	ServerName string `json:"serverName"`
	// InnerSNI are the server names that the connection inside may ask for, as in NearRoute. The other relay has looked
	// at them already; this one does not rely on it.
	InnerSNI []string `json:"innerSNI"`
	// Inner is what the connection inside speaks. Defaults to TLS.
	Inner Inner `json:"inner,omitempty"`
	// Target is host:port; a fully qualified host with a trailing dot saves the search list.
	Target string `json:"target"`
}

// TLS names files in PEM form. They are read again when they change.
type TLS struct {
	CAFile   string `json:"caFile"`
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
}

// Endpoint is a port for plain HTTP.
type Endpoint struct {
	Port int32 `json:"port,omitempty"`
}

// Limits protect the relay from its peers.
type Limits struct {
	// MaxConnections is the number of connections served at once, of both directions together.
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// MaxHandshakes is the number of connections of one port that have not shown yet who they are. Where there would be
	// more, the oldest of them is reset: a handshake takes a few round trips, and what has waited longest is most
	// likely not going to finish it.
	MaxHandshakes int32 `json:"maxHandshakes,omitempty"`
	// HandshakeTimeout is the time in which a peer must have finished the TLS handshake and sent the ClientHello
	// inside.
	HandshakeTimeout metav1.Duration `json:"handshakeTimeout,omitzero"`
	// DialTimeout is the time in which the next hop must have accepted.
	DialTimeout metav1.Duration `json:"dialTimeout,omitzero"`
	// DrainTimeout is the time that open connections are given when the relay is told to end.
	DrainTimeout metav1.Duration `json:"drainTimeout,omitzero"`
}

// Load reads, defaults and validates a file. Unknown fields are errors: a misspelt limit must not pass as a default.
func Load(file string) (*Config, error) {
	return pod.LoadConfig(file, SetDefaults, func(cfg *Config) field.ErrorList {
		return append(Validate(cfg), ValidateShoot(cfg)...)
	})
}

// SetDefaults fills in what was left out.
func SetDefaults(cfg *Config) {
	for i := range cfg.Near {
		for j := range cfg.Near[i].Routes {
			remote := &cfg.Near[i].Routes[j].Remote
			pod.SetDefault(&remote.ServerName, remote.Host)
		}
	}
	pod.SetDefault(&cfg.Health.Port, DefaultHealthPort)
	pod.SetDefault(&cfg.Metrics.Port, DefaultMetricsPort)
	pod.SetDefault(&cfg.Limits.MaxConnections, DefaultMaxConnections)
	pod.SetDefault(&cfg.Limits.MaxHandshakes, DefaultMaxHandshakes)
	pod.SetDefault(&cfg.Limits.HandshakeTimeout.Duration, DefaultHandshakeTimeout)
	pod.SetDefault(&cfg.Limits.DialTimeout.Duration, DefaultDialTimeout)
	pod.SetDefault(&cfg.Limits.DrainTimeout.Duration, DefaultDrainTimeout)
}
