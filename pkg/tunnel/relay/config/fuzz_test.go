// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"net"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

// FuzzConfig reads anything as a configuration. What passes both validations must hand connections to services of its
// namespace only, and have limits.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte(strings.ReplaceAll(valid, ".ns.", ".kube-system.")))
	f.Add([]byte("far: {port: 1, routes: [{serverName: a--ns.b, innerSNI: [a], target: 'a.ns.svc:1'}]}\nnamespace: " +
		"ns\ntls: {caFile: a, certFile: b, keyFile: c}\n"))
	f.Add([]byte("near: ["))
	f.Fuzz(func(t *testing.T, content []byte) {
		cfg := &config.Config{}
		if yaml.UnmarshalStrict(content, cfg) != nil {
			return
		}
		config.SetDefaults(cfg)
		if len(config.Validate(cfg)) > 0 || len(config.ValidateShoot(cfg)) > 0 {
			return
		}
		if cfg.Limits.MaxConnections <= 0 || cfg.Limits.MaxHandshakes <= 0 ||
			cfg.Limits.HandshakeTimeout.Duration <= 0 || cfg.Limits.DialTimeout.Duration <= 0 {
			t.Errorf("no limits: %+v", cfg.Limits)
		}
		for _, route := range cfg.Far.Routes {
			host, _, err := net.SplitHostPort(route.Target)
			if err != nil {
				t.Errorf("target %q: %v", route.Target, err)
			}
			labels := strings.Split(
				strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), "."), ".cluster.local"), ".")
			if n := len(labels); n < 3 || labels[n-1] != "svc" || labels[n-2] != cfg.Namespace {
				t.Errorf("target %q is outside of namespace %q", route.Target, cfg.Namespace)
			}
		}
	})
}
