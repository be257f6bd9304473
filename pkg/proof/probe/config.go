// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package probe puts load on the API server of a shoot and tells, without sparing anyone, what its clients had to
// endure.
//
// The load is plain client-go without retries: what fails is counted, and what net/http repairs behind the caller's
// back (a lost connection, a request sent a second time) is counted as well. Which of the failed requests client-go
// would have sent again is told beside that. A share of the requests uses kept connections, the others a new connection
// each with a fresh DNS lookup. Every acknowledged write must be seen by each of the long watches and must be there at
// the end.
//
// Requests are due at fixed times. Those that were due and not sent are counted, and what a client waited is counted
// from when its request was due.
//
// The end of a watch is no failure: servers and proxies end watches when they go, and every client resumes them. A
// watch has failed, and counts as a failed read, if
//
//   - it was refused, or its connection ended before there was an answer (client-go makes an empty watch of that),
//   - it delivered neither an event nor a bookmark for longer than the API server leaves between two bookmarks,
//   - it ended, in whatever way, although an event had been due on it for more than a few seconds,
//   - it ended with an error other than a timeout, such as a revision that the server cannot continue from.
//
// How late events came is recorded for each watch, and judged with the rest (recording.MaxWatchLag).
package probe

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// Config says what to put load on and how much of it.
type Config struct {
	// REST holds the address and the credentials of the API server. Dialer, proxy and rate limits in it are replaced.
	REST *rest.Config
	// DNSServer is the address (host:port) of the DNS server that resolves the API server's name. If it is empty, the
	// machine's own resolver does, which neither tells nor honours how long an answer is valid.
	DNSServer string
	// DNSNames are the names watched for moments without a record. They are asked for at DNSServer.
	DNSNames []string
	// DNSInterval is the time between two samples of one name.
	DNSInterval time.Duration

	// WritesPerSecond and ReadsPerSecond are the rates of either kind.
	WritesPerSecond, ReadsPerSecond int
	// EventsPerSecond is the additional rate of Event objects created, which land in etcd-events.
	EventsPerSecond int
	// NewPercent is the share of the reads and writes that use a new connection each; the others use kept ones. It
	// defaults to one half.
	NewPercent *int
	// Watches is the number of long watches.
	Watches int
	// Keys is the number of objects that are written in turn, for kept and new connections each.
	Keys int
	// KeptConnections is the number of connections that the kept half of the reads and writes shares.
	KeptConnections int
	// RequestTimeout bounds every request but watches. A request that takes longer has failed.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long after the last write the watches may still deliver.
	DrainTimeout time.Duration
	// CleanupTimeout bounds the deletion of the probe's namespace.
	CleanupTimeout time.Duration
}

func (c *Config) setDefaults() {
	setDefault(&c.DNSInterval, 100*time.Millisecond)
	setDefault(&c.WritesPerSecond, 16)
	setDefault(&c.ReadsPerSecond, 40)
	setDefault(&c.EventsPerSecond, 2)
	if c.NewPercent == nil {
		c.NewPercent = new(50)
	}
	setDefault(&c.Watches, 10)
	setDefault(&c.Keys, 32)
	setDefault(&c.KeptConnections, 4)
	setDefault(&c.RequestTimeout, 10*time.Second)
	setDefault(&c.DrainTimeout, 30*time.Second)
	setDefault(&c.CleanupTimeout, 2*time.Minute)
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// maxRate keeps a slip of the pen from turning the probe into an attack on a small machine.
const maxRate = 500

func (c *Config) validate() error {
	if c.REST == nil {
		return errors.New("no REST configuration given")
	}
	for name, rate := range map[string]int{"writes": c.WritesPerSecond, "reads": c.ReadsPerSecond,
		"events": c.EventsPerSecond} {
		if rate < 0 || rate > maxRate {
			return fmt.Errorf("%s per second must be between 0 and %d, got %d", name, maxRate, rate)
		}
	}
	if *c.NewPercent < 0 || *c.NewPercent > 100 {
		return fmt.Errorf("the share of new connections must be between 0 and 100 percent, got %d", *c.NewPercent)
	}
	if len(c.DNSNames) > 0 && c.DNSServer == "" {
		return errors.New("names can be watched at a DNS server only, and none is given")
	}
	if c.Watches < 0 || c.Keys < 1 || c.KeptConnections < 1 {
		return errors.New("watches must not be negative, keys and kept connections must be positive")
	}
	return nil
}
