// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package config defines the configuration file of a front, for the front that reads it and for the agent that writes
// it.
package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// Defaults of what a file leaves out. The metrics are not at 8080: that is where the members' backup sidecars serve,
// and a front serves it for them.
const (
	DefaultPort            int32 = 2379
	DefaultHealthPort      int32 = 8081
	DefaultMetricsPort     int32 = 9090
	DefaultMaxHold               = 2 * time.Second
	DefaultMaxDrain              = 15 * time.Minute
	DefaultMemberWait            = time.Second
	DefaultShutdownDelay         = 5 * time.Second
	DefaultShutdownTimeout       = 10 * time.Second
	DefaultMaxForwards     int32 = 256
)

// Config is the configuration of a front. All replicas of a front have the same.
type Config struct {
	// Etcd is the role of the etcd cluster, for logs and messages.
	Etcd string `json:"etcd"`
	// Port is where etcd's clients are served, and those who steer the front.
	Port int32 `json:"port,omitempty"`
	// Members are the members that requests are passed on to.
	Members []Member `json:"members"`
	// TLS names the files of the certificates.
	TLS TLS `json:"tls"`
	// Forwards are further ports of the members. What arrives there is passed on as it is.
	Forwards []Forward `json:"forwards,omitempty"`
	// Health is where /healthz and /readyz are served.
	Health Endpoint `json:"health,omitzero"`
	// Metrics is where /metrics is served.
	Metrics Endpoint `json:"metrics,omitzero"`
	Limits  Limits   `json:"limits,omitzero"`
}

// Member is a member of etcd.
type Member struct {
	// Ordinal is that of the member's pod. Whoever steers the front names members by it.
	Ordinal int `json:"ordinal"`
	// Address is the host:port at which the member serves clients. A fully qualified host with a trailing dot saves the
	// search list. Where the host has several addresses, the first one that accepts is taken.
	Address string `json:"address"`
	// ServerName is a name in the member's certificate. Defaults to the host of the address without its trailing dot.
	ServerName string `json:"serverName,omitempty"`
	// OnlyRequests says that the address leads to the member by this port only, so that nothing of Forwards is passed
	// on to it: it is in another seed.
	OnlyRequests bool `json:"onlyRequests,omitempty"`
}

// TLS names files in PEM form. They are read again when they change.
type TLS struct {
	// CAFile has the certificates of the authorities that the members' certificates and those of clients are from.
	CAFile string `json:"caFile"`
	// ServerCertFile and ServerKeyFile are what is shown to clients.
	ServerCertFile string `json:"serverCertFile"`
	ServerKeyFile  string `json:"serverKeyFile"`
	// ClientCertFile and ClientKeyFile are what is shown to members.
	ClientCertFile string `json:"clientCertFile"`
	ClientKeyFile  string `json:"clientKeyFile"`
}

// Forward is a port whose connections are passed on to a port of a member that is eligible.
type Forward struct {
	Port int32 `json:"port"`
	// MemberPort is the port of the members. Defaults to Port.
	MemberPort int32 `json:"memberPort,omitempty"`
}

// Endpoint is a port for plain HTTP.
type Endpoint struct {
	Port int32 `json:"port,omitempty"`
}

// Limits bound what may be asked of a front.
type Limits struct {
	// MaxHold is the longest time that requests may be held.
	MaxHold metav1.Duration `json:"maxHold,omitzero"`
	// MaxDrain is the longest time that a member may be drained, if it is not asked for again.
	MaxDrain metav1.Duration `json:"maxDrain,omitzero"`
	// MemberWait is how long a request waits for a member that is eligible before it is refused.
	MemberWait metav1.Duration `json:"memberWait,omitzero"`
	// ShutdownDelay is how long a front that is told to end still serves, while it is not ready any more: endpoints and
	// the proxies of the nodes need that time to forget it.
	ShutdownDelay metav1.Duration `json:"shutdownDelay,omitzero"`
	// ShutdownTimeout is how long requests that are under way may take after ShutdownDelay.
	ShutdownTimeout metav1.Duration `json:"shutdownTimeout,omitzero"`
	// MaxForwards is the number of connections that are passed on at once at each port of Forwards. Further ones are
	// reset.
	MaxForwards int32 `json:"maxForwards,omitempty"`
}

// Load reads, defaults and validates a file. Unknown fields are errors: a misspelt limit must not pass as a default.
func Load(file string) (*Config, error) {
	return pod.LoadConfig(file, SetDefaults, Validate)
}

// SetDefaults fills in what was left out.
func SetDefaults(cfg *Config) {
	pod.SetDefault(&cfg.Port, DefaultPort)
	for i := range cfg.Members {
		member := &cfg.Members[i]
		if host, err := hostOf(member.Address); err == nil {
			pod.SetDefault(&member.ServerName, host)
		}
	}
	for i := range cfg.Forwards {
		pod.SetDefault(&cfg.Forwards[i].MemberPort, cfg.Forwards[i].Port)
	}
	pod.SetDefault(&cfg.Health.Port, DefaultHealthPort)
	pod.SetDefault(&cfg.Metrics.Port, DefaultMetricsPort)
	pod.SetDefault(&cfg.Limits.MaxHold.Duration, DefaultMaxHold)
	pod.SetDefault(&cfg.Limits.MaxDrain.Duration, DefaultMaxDrain)
	pod.SetDefault(&cfg.Limits.MemberWait.Duration, DefaultMemberWait)
	pod.SetDefault(&cfg.Limits.ShutdownDelay.Duration, DefaultShutdownDelay)
	pod.SetDefault(&cfg.Limits.ShutdownTimeout.Duration, DefaultShutdownTimeout)
	pod.SetDefault(&cfg.Limits.MaxForwards, DefaultMaxForwards)
}
