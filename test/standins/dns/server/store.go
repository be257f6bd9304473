// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"
)

// Change is one line of the change log: what became of a record set by one update message. Old or New is empty when the
// set did not exist before or does not exist afterwards.
type Change struct {
	Time time.Time `json:"time"`
	Name string    `json:"name"`
	Type string    `json:"type"`
	Old  []string  `json:"old"`
	New  []string  `json:"new"`
	// TTL is that of the new set, or of the old one when it was deleted.
	TTL uint32 `json:"ttl"`
}

// setKey identifies a record set; the name is canonical (lower case, fully qualified).
type setKey struct {
	name   string
	rrtype uint16
}

type recordSets map[setKey][]dns.RR

// state is the content of the state file; records are in presentation format, which a reader can understand and dig
// prints.
type state struct {
	Serial  uint32   `json:"serial"`
	Records []string `json:"records"`
}

// store holds the records. Readers see either all of an update or nothing of it.
type store struct {
	clock     clock.PassiveClock
	stateFile string
	changeLog *os.File // nil: changes are not logged

	// keep is for how long replicas answer with what was.
	keep time.Duration

	mu sync.RWMutex
	// history is what was known, and from when on; the last entry is what is.
	history []snapshot
}

func openStore(stateFile, changeLog string, clk clock.PassiveClock) (*store, error) {
	s := &store{clock: clk, stateFile: stateFile, history: []snapshot{{serial: 1, sets: recordSets{}}}}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("failed to load state file %s: %w", stateFile, err)
	}
	if changeLog != "" {
		file, err := os.OpenFile(changeLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("failed to open change log: %w", err)
		}
		s.changeLog = file
	}
	return s, nil
}

func (s *store) close() error {
	if s.changeLog == nil {
		return nil
	}
	return s.changeLog.Close()
}

func (s *store) load() error {
	if s.stateFile == "" {
		return nil
	}
	content, err := os.ReadFile(s.stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var st state
	if err := json.Unmarshal(content, &st); err != nil {
		return err
	}
	s.history[0].serial = st.Serial
	for _, line := range st.Records {
		rr, err := dns.NewRR(line)
		if err != nil {
			return fmt.Errorf("failed to parse record %q: %w", line, err)
		}
		key := keyOf(rr)
		s.history[0].sets[key] = append(s.history[0].sets[key], rr)
	}
	return nil
}

// save replaces the state file in one step: a crash leaves the old or the new one.
func (s *store) save(serial uint32, sets recordSets) error {
	if s.stateFile == "" {
		return nil
	}
	st := state{Serial: serial, Records: []string{}}
	for _, rrs := range sets {
		for _, rr := range rrs {
			st.Records = append(st.Records, rr.String())
		}
	}
	slices.Sort(st.Records)
	content, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(s.stateFile), filepath.Base(s.stateFile)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.Write(content); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), s.stateFile)
}

// update runs modify on a copy of the records and, unless it returns a failure code, makes the copy the truth: first on
// disk, then for readers, then in the change log.
func (s *store) update(modify func(recordSets) int) (rcode int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.history[len(s.history)-1]
	next := maps.Clone(latest.sets) // modify replaces slices and never writes into them
	if rcode := modify(next); rcode != dns.RcodeSuccess {
		return rcode, nil
	}
	changes := diff(latest.sets, next)
	if len(changes) == 0 {
		return dns.RcodeSuccess, nil
	}
	if err := s.save(latest.serial+1, next); err != nil {
		return dns.RcodeServerFailure, fmt.Errorf("failed to save state file: %w", err)
	}
	s.remember(snapshot{since: s.clock.Now(), serial: latest.serial + 1, sets: next})
	return dns.RcodeSuccess, s.log(changes)
}

func (s *store) log(changes []Change) error {
	if s.changeLog == nil {
		return nil
	}
	now := s.clock.Now().UTC()
	var lines []byte
	for _, change := range changes {
		change.Time = now
		line, err := json.Marshal(change)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := s.changeLog.Write(lines); err != nil {
		return fmt.Errorf("failed to write change log: %w", err)
	}
	return nil
}

func diff(before, after recordSets) []Change {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var changes []Change
	for key := range keys {
		was, is := values(before[key]), values(after[key])
		ttl := ttlOf(after[key], ttlOf(before[key], 0))
		if slices.Equal(was, is) && (len(is) == 0 || ttl == ttlOf(before[key], 0)) {
			continue
		}
		changes = append(changes,
			Change{Name: key.name, Type: dns.TypeToString[key.rrtype], Old: was, New: is, TTL: ttl})
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name+" "+a.Type, b.Name+" "+b.Type) })
	return changes
}

func ttlOf(rrs []dns.RR, otherwise uint32) uint32 {
	if len(rrs) == 0 {
		return otherwise
	}
	return rrs[0].Header().Ttl
}

// values are the data parts of a set, sorted.
func values(rrs []dns.RR) []string {
	data := make([]string, 0, len(rrs))
	for _, rr := range rrs {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return data
}

func keyOf(rr dns.RR) setKey {
	return setKey{name: dns.CanonicalName(rr.Header().Name), rrtype: rr.Header().Rrtype}
}

// exists reports whether the name has records of any type.
func (r recordSets) exists(name string) bool {
	for key := range r {
		if key.name == name {
			return true
		}
	}
	return false
}

// existsAtOrBelow also counts names that only lead to others, as RFC 4592 demands before a wildcard may be used.
func (r recordSets) existsAtOrBelow(name string) bool {
	for key := range r {
		if key.name == name || strings.HasSuffix(key.name, "."+name) {
			return true
		}
	}
	return false
}
