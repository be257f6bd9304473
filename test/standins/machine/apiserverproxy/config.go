// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserverproxy stands in for the envoy of Gardener's apiserver-proxy on the nodes, whose image is not to be
// had. It does what envoy's configuration says, as Gardener has rendered it: it listens at the address of the
// kube-apiserver inside of the shoot and hands each connection through the ingress gateway of the seed that the shoot's
// name leads to.
//
// What is different from envoy: the name is looked up for each connection, where envoy looks every five seconds; an
// answer of the gateway is waited for with an end; there are no limits, metrics or access logs.
package apiserverproxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"
)

// The names and paths in envoy's configuration.
const (
	filterTCPProxy = "envoy.filters.network.tcp_proxy"
	readyPath      = "/ready"
)

// Config is what of envoy's configuration is acted on.
type Config struct {
	// Listen is where clients connect to.
	Listen string
	// Ready is where envoy tells that it is ready; empty if nowhere.
	Ready string
	// Gateway is host and port of the ingress gateway, Network how its name is looked up.
	Gateway, Network string
	// ConnectTimeout bounds connecting to the gateway.
	ConnectTimeout time.Duration
	// Authority is what the gateway is asked for by CONNECT, Header what tells it where that is.
	Authority string
	Header    http.Header
}

// ReadyPort returns the port of Ready; 0 if there is none.
func (c *Config) ReadyPort() int {
	_, port, err := net.SplitHostPort(c.Ready)
	if err != nil {
		return 0
	}
	number, _ := strconv.Atoi(port)
	return number
}

type envoyConfig struct {
	StaticResources struct {
		Listeners []listener `json:"listeners"`
		Clusters  []cluster  `json:"clusters"`
	} `json:"static_resources"`
}

type address struct {
	SocketAddress struct {
		Address   string `json:"address"`
		PortValue uint16 `json:"port_value"`
	} `json:"socket_address"`
}

func (a address) String() string {
	return net.JoinHostPort(a.SocketAddress.Address, strconv.Itoa(int(a.SocketAddress.PortValue)))
}

type listener struct {
	Address      address `json:"address"`
	FilterChains []struct {
		Filters []struct {
			Name        string      `json:"name"`
			TypedConfig typedConfig `json:"typed_config"`
		} `json:"filters"`
	} `json:"filter_chains"`
}

type typedConfig struct {
	// Of the TCP proxy.
	Cluster         string `json:"cluster"`
	TunnelingConfig struct {
		Hostname     string `json:"hostname"`
		HeadersToAdd []struct {
			Header struct {
				Key   string `json:"key"`
				Value string `json:"value"`
			} `json:"header"`
		} `json:"headers_to_add"`
	} `json:"tunneling_config"`
	// Of the HTTP server.
	RouteConfig struct {
		VirtualHosts []struct {
			Routes []struct {
				Match struct {
					Path string `json:"path"`
				} `json:"match"`
			} `json:"routes"`
		} `json:"virtual_hosts"`
	} `json:"route_config"`
}

func (t typedConfig) servesReady() bool {
	for _, host := range t.RouteConfig.VirtualHosts {
		for _, route := range host.Routes {
			if route.Match.Path == readyPath {
				return true
			}
		}
	}
	return false
}

type cluster struct {
	Name            string `json:"name"`
	ConnectTimeout  string `json:"connect_timeout"`
	DNSLookupFamily string `json:"dns_lookup_family"`
	LoadAssignment  struct {
		Endpoints []struct {
			LBEndpoints []struct {
				Endpoint struct {
					Address address `json:"address"`
				} `json:"endpoint"`
			} `json:"lb_endpoints"`
		} `json:"endpoints"`
	} `json:"load_assignment"`
}

// Parse reads envoy's configuration. One that does not have what the apiserver-proxy has is refused: the stand-in would
// do something else than envoy.
func Parse(content []byte) (*Config, error) {
	in := envoyConfig{}
	if err := yaml.Unmarshal(content, &in); err != nil {
		return nil, fmt.Errorf("failed to decode envoy's configuration: %w", err)
	}
	out := &Config{Header: http.Header{}}
	name := ""
	for _, listener := range in.StaticResources.Listeners {
		for _, chain := range listener.FilterChains {
			for _, filter := range chain.Filters {
				switch {
				case filter.Name == filterTCPProxy && out.Listen != "":
					return nil, errors.New("envoy's configuration has two TCP proxies instead of one")
				case filter.Name == filterTCPProxy:
					out.Listen, name = listener.Address.String(), filter.TypedConfig.Cluster
					out.Authority = filter.TypedConfig.TunnelingConfig.Hostname
					for _, added := range filter.TypedConfig.TunnelingConfig.HeadersToAdd {
						out.Header.Add(added.Header.Key, added.Header.Value)
					}
				case filter.TypedConfig.servesReady():
					out.Ready = listener.Address.String()
				}
			}
		}
	}
	if out.Listen == "" || out.Authority == "" || len(out.Header) == 0 {
		return nil, errors.New("envoy's configuration has no TCP proxy that asks by CONNECT with a header")
	}
	for _, cluster := range in.StaticResources.Clusters {
		if cluster.Name != name {
			continue
		}
		return out, out.setCluster(cluster)
	}
	return nil, fmt.Errorf("envoy's configuration lacks the cluster %q", name)
}

func (c *Config) setCluster(cluster cluster) error {
	endpoints := cluster.LoadAssignment.Endpoints
	if len(endpoints) != 1 || len(endpoints[0].LBEndpoints) != 1 {
		return fmt.Errorf("cluster %q in envoy's configuration does not have one endpoint", cluster.Name)
	}
	c.Gateway = endpoints[0].LBEndpoints[0].Endpoint.Address.String()
	switch cluster.DNSLookupFamily {
	case "V4_ONLY":
		c.Network = "tcp4"
	case "V6_ONLY":
		c.Network = "tcp6"
	default:
		c.Network = "tcp"
	}
	var err error
	if c.ConnectTimeout, err = time.ParseDuration(cluster.ConnectTimeout); err != nil {
		return fmt.Errorf("failed to read the timeout of cluster %q in envoy's configuration: %w", cluster.Name, err)
	}
	return nil
}
