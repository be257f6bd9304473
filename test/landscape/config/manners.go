// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// EnvDNS names the environment variable with the manners of the DNS provider, with commas: alias, lag=2m,
	// silence=30s (see DNS), or one of the words plain, which is none of them, and production, which is all of them.
	// Without it, it is what the landscape that is up has, and plain if none is.
	EnvDNS = "LIVECPM_DNS"
	// EnvWaits names the environment variable with the waits that Gardener and livecpm have by configuration: short,
	// or production, which is what both have without any. Without it, it is what the landscape that is up has, and
	// short if none is.
	EnvWaits = "LIVECPM_WAITS"

	// balancerDomain is where the host names of load balancers are, like those that clouds give.
	balancerDomain = "lb." + Domain
	// productionLag and productionSilence are those of the word production. Route 53 says that it takes up to 60 s.
	productionLag, productionSilence = time.Minute, 30 * time.Second

	dnsPlain, dnsProduction              = "plain", "production"
	mannerAlias, mannerLag, mannerSilent = "alias", "lag", "silence"
)

// DNS is how the DNS provider behaves.
type DNS struct {
	// Aliases has the seeds' gateways have host names instead of addresses, and the provider keep aliases to them: it
	// answers with the addresses of the host name, and knows no CNAME.
	Aliases bool
	// Lag is how long the slowest of three name servers takes to know of a change; another one takes half of it. With
	// neither Lag nor Silence there is one name server only.
	Lag time.Duration
	// Silence is for how long the slowest name server answers nothing after each change.
	Silence time.Duration
}

// String is what gives the same DNS as a value of EnvDNS.
func (d DNS) String() string {
	var words []string
	if d.Aliases {
		words = append(words, mannerAlias)
	}
	if d.Lag > 0 {
		words = append(words, mannerLag+"="+d.Lag.String())
	}
	if d.Silence > 0 {
		words = append(words, mannerSilent+"="+d.Silence.String())
	}
	return cmp.Or(strings.Join(words, ","), dnsPlain)
}

// ProductionDNS is what the word production stands for.
func ProductionDNS() DNS { return DNS{Aliases: true, Lag: productionLag, Silence: productionSilence} }

// parseDNS reads a value of EnvDNS.
func parseDNS(value string) (DNS, error) {
	switch value {
	case dnsPlain:
		return DNS{}, nil
	case dnsProduction:
		return ProductionDNS(), nil
	}
	var d DNS
	for word := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(word, "=")
		var err error
		switch {
		case name == mannerLag:
			d.Lag, err = time.ParseDuration(text)
		case name == mannerSilent:
			d.Silence, err = time.ParseDuration(text)
		case word == mannerAlias:
			d.Aliases = true
		default:
			err = errors.New("no such manner")
		}
		if err != nil || d.Lag < 0 || d.Silence < 0 {
			return DNS{}, fmt.Errorf("%s is %q, and %q is none of %s, %s, or with commas %s, %s=2m, %s=30s (%w)",
				EnvDNS,
				value, word, dnsPlain, dnsProduction, mannerAlias, mannerLag, mannerSilent,
				cmp.Or(err, errors.New("negative")))
		}
	}
	return d, nil
}

// Waits says which waits the gardenlets and the agents have.
type Waits string

const (
	// WaitsShort are short enough for a demonstration: they flatter how long a migration takes.
	WaitsShort Waits = "short"
	// WaitsProduction are those that Gardener and livecpm have without configuration.
	WaitsProduction Waits = "production"
)

// DNSEntryTTL is the gardenlets' controllers.shoot.dnsEntryTTLSeconds.
func (w Waits) DNSEntryTTL() time.Duration {
	if w == WaitsProduction {
		return 120 * time.Second
	}
	return 30 * time.Second
}

// ShortTTL is the agents' dns.shortTTL.
func (w Waits) ShortTTL() time.Duration {
	if w == WaitsProduction {
		return 30 * time.Second
	}
	return 10 * time.Second
}

// DrainTimeout is the agents' flows.drainTimeout.
func (w Waits) DrainTimeout() time.Duration {
	if w == WaitsProduction {
		return time.Minute
	}
	return 20 * time.Second
}

func parseWaits(value string) (Waits, error) {
	if waits := Waits(value); waits == WaitsShort || waits == WaitsProduction {
		return waits, nil
	}
	return "", fmt.Errorf("%s is %q; give %s or %s", EnvWaits, value, WaitsShort, WaitsProduction)
}

// readManners sets DNS and Waits as the environment asks for, or else as they are recorded.
func (c *Config) readManners() error {
	dns, err := c.orRecorded(EnvDNS, c.dnsRecord(), dnsPlain)
	if err != nil {
		return err
	}
	waits, err := c.orRecorded(EnvWaits, c.waitsRecord(), string(WaitsShort))
	if err != nil {
		return err
	}
	var errs [2]error
	c.DNS, errs[0] = parseDNS(dns)
	c.Waits, errs[1] = parseWaits(waits)
	return errors.Join(errs[:]...)
}

// orRecorded returns the value of the variable, or what the file has, or the default.
func (c *Config) orRecorded(variable, file, otherwise string) (string, error) {
	if value := os.Getenv(variable); value != "" {
		return value, nil
	}
	content, err := readRecord(file, "what the landscape has in place of "+variable)
	return cmp.Or(strings.TrimSpace(content), otherwise), err
}

// RecordManners keeps DNS and Waits until the landscape is taken down. Gateways do not change between addresses and
// host names: the provider would keep the records of the other kind.
func (c *Config) RecordManners() error {
	recorded, err := os.ReadFile(c.dnsRecord())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to read which DNS the landscape has: %w", err)
	}
	if err == nil {
		before, err := parseDNS(strings.TrimSpace(string(recorded)))
		if err != nil {
			return err
		}
		if before.Aliases != c.DNS.Aliases {
			return fmt.Errorf("the landscape is up with %s=%s, and gateways do not change between addresses and host "+
				"names: take it down first (make landscape-down)", EnvDNS, before)
		}
	}
	for file, value := range map[string]string{c.dnsRecord(): c.DNS.String(), c.waitsRecord(): string(c.Waits)} {
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			return fmt.Errorf("failed to record the landscape's DNS and waits: %w", err)
		}
	}
	return nil
}

func (c *Config) dnsRecord() string   { return c.Dir("dns-variant") }
func (c *Config) waitsRecord() string { return c.Dir("waits-variant") }

// NameServers are the addresses of the provider's name servers. The first one takes up changes at once, the last one
// last.
func (c *Config) NameServers() []string {
	servers := []string{c.Garden.IP}
	if c.DNS.Lag == 0 && c.DNS.Silence == 0 {
		return servers
	}
	network := strings.TrimSuffix(c.Garden.IP, "10")
	return append(servers, network+"53", network+"54")
}

// BalancerName is the host name of the seed's load balancer, or empty if it has an address only.
func (c *Config) BalancerName(seed Seed) string {
	if !c.DNS.Aliases {
		return ""
	}
	return seed.Name + "." + balancerDomain
}
