// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package probe puts load on the API server of a shoot and tells, without sparing anyone, what its clients had to
// endure.
//
// The load is what real clients do (writeParts and readParts have the shares): they create, get, update, patch, apply
// and delete ConfigMaps, list thousands of objects in pages, write custom resources and their status, renew Leases,
// elect leaders, create Events, read an aggregated API where there is one, watch, and keep informers, which must not
// have to list again.
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
	"math"
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

	// WritesPerSecond and ReadsPerSecond are the rates of either kind. The election of leaders and the requests of
	// informers come on top of them.
	WritesPerSecond, ReadsPerSecond int
	// EventsPerSecond is the additional rate of Event objects created, which land in etcd-events.
	EventsPerSecond int
	// NewPercent is the share of the reads and writes that use a new connection each; the others use kept ones. It
	// defaults to one half.
	NewPercent *int
	// Watches is the number of long watches.
	Watches int
	// Keys is the number of ConfigMaps that are updated in turn, for kept and new connections each. All other kinds of
	// requests have slots in proportion to it. By default there are so many that every request that is due while others
	// wait for their timeout is sent.
	Keys int
	// readKeys is the same for the slots of reads.
	readKeys int
	// ListObjects is the number of objects that lists go through in pages. They are created before the load begins, at
	// a bounded rate. It defaults to 2,000 small ones: several pages of the size that clients ask for, and little
	// beside what the load writes, for the etcd of a shoot that may be on a machine with two processors.
	ListObjects int
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
	setDefault(&c.WritesPerSecond, writeShares)
	setDefault(&c.ReadsPerSecond, readShares)
	setDefault(&c.EventsPerSecond, 2)
	if c.NewPercent == nil {
		c.NewPercent = new(50)
	}
	setDefault(&c.Watches, 10)
	setDefault(&c.ListObjects, 2000)
	setDefault(&c.KeptConnections, 4)
	setDefault(&c.RequestTimeout, 10*time.Second)
	c.readKeys = c.Keys
	setDefault(&c.Keys, c.enoughKeys(c.WritesPerSecond, writeShares))
	setDefault(&c.readKeys, c.enoughKeys(c.ReadsPerSecond, readShares))
	setDefault(&c.DrainTimeout, 30*time.Second)
	setDefault(&c.CleanupTimeout, 4*time.Minute)
}

// heavyWrites is the rate of writes of a heavy load.
const heavyWrites = 100

// Heavy makes the load heavy: 100 writes per second. The other rates stay.
func Heavy(c *Config) { c.WritesPerSecond = heavyWrites }

// fresh is how much of the rate uses a new connection for each request.
func (c *Config) fresh(rate int) int { return rate * *c.NewPercent / 100 }

// enoughKeys returns how many keys it takes that no request waits for a slot before others have timed out. The shares
// are what the parts of such requests add up to.
func (c *Config) enoughKeys(rate, shares int) int {
	fresh := c.fresh(rate)
	busiest := float64(max(fresh, rate-fresh)) * c.RequestTimeout.Seconds()
	return keyShare * max(1, int(math.Ceil(busiest/float64(shares))))
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
	if c.Watches < 0 || c.Keys < 1 || c.KeptConnections < 1 || c.ListObjects < 1 {
		return errors.New("watches must not be negative; keys, kept connections and objects of lists must be positive")
	}
	return nil
}
