// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joinbench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
)

// What etcd logs at the ends of the parts (3.5: server/etcdserver/api/rafthttp/snapshot_sender.go and http.go,
// server/etcdserver/server.go).
const (
	logSending  = "sending database snapshot"
	logReceived = "received and saved database snapshot"
	logApplying = "applying snapshot"
	logApplied  = "applied snapshot"

	// logTime is how etcd writes times.
	logTime = "2006-01-02T15:04:05.999999Z0700"
	// maxLine is more than etcd logs at once.
	maxLine = 1 << 20
)

// marks are what tells the parts of a join.
type marks struct {
	// begin is when the learner was added, end when it was made a voter.
	begin, end time.Time
	// leader and learner are the files of their logs.
	leader, learner string
	// id is the learner's, as etcd logs it.
	id string
	// syncSeconds is how long the learner has synced its snapshot.
	syncSeconds float64
}

// parts are those of one join, in seconds.
type parts struct {
	begin, transfer, sync, apply, vote, total float64
	leaderCPU, learnerCPU, relaysCPU          float64
}

func (p parts) String() string {
	return fmt.Sprintf("%.2f s (begin %.2f, transfer %.2f, sync %.2f, apply %.2f, vote %.2f), processor: leader %.2f, "+
		"learner %.2f, relays %.2f", p.total, p.begin, p.transfer, p.sync, p.apply, p.vote, p.leaderCPU, p.learnerCPU,
		p.relaysCPU)
}

// entry is a line of etcd's log.
type entry struct {
	Time    string `json:"ts"`
	Message string `json:"msg"`
	Peer    string `json:"remote-peer-id"`
}

// partsOf returns the parts of a join without the processor time.
func partsOf(m marks) (parts, error) {
	sending, err := logged(m.leader, logSending, m.id)
	if err != nil {
		return parts{}, err
	}
	at := map[string]time.Time{}
	for _, message := range []string{logReceived, logApplying, logApplied} {
		if at[message], err = logged(m.learner, message, ""); err != nil {
			return parts{}, err
		}
	}
	// etcd lets a learner become a voter as soon as it has the snapshot, also while it still applies it.
	end := m.end
	if applied := at[logApplied]; applied.After(end) {
		end = applied
	}
	out := parts{
		begin:    sending.Sub(m.begin).Seconds(),
		transfer: at[logReceived].Sub(sending).Seconds() - m.syncSeconds,
		sync:     m.syncSeconds,
		apply:    at[logApplied].Sub(at[logApplying]).Seconds(),
		vote:     end.Sub(at[logApplied]).Seconds() + at[logApplying].Sub(at[logReceived]).Seconds(),
		total:    end.Sub(m.begin).Seconds(),
	}
	return out, nil
}

// logged returns when a message was logged first, of the peer if one is named.
func logged(file, message, peer string) (time.Time, error) {
	log, err := os.Open(file)
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to read the log of an etcd: %w", err)
	}
	defer log.Close()
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var line entry
		if json.Unmarshal(scanner.Bytes(), &line) != nil || line.Message != message || peer != "" && line.Peer != peer {
			continue
		}
		at, err := time.Parse(logTime, line.Time)
		if err != nil {
			return time.Time{}, fmt.Errorf("failed to read when %q was logged: %w", message, err)
		}
		return at, nil
	}
	if err := scanner.Err(); err != nil {
		return time.Time{}, fmt.Errorf("failed to read the log of an etcd: %w", err)
	}
	return time.Time{}, fmt.Errorf("%s has no line %q: the member has not joined by a snapshot", file, message)
}

// summed sums up the parts of several joins.
func summed(all []parts) data.JoinParts {
	spread := func(of func(parts) float64) data.Spread {
		figures := make([]float64, 0, len(all))
		for _, p := range all {
			figures = append(figures, math.Round(of(p)*1000)/1000)
		}
		return data.SpreadOf(figures)
	}
	return data.JoinParts{
		Begin:      spread(func(p parts) float64 { return p.begin }),
		Transfer:   spread(func(p parts) float64 { return p.transfer }),
		Sync:       spread(func(p parts) float64 { return p.sync }),
		Apply:      spread(func(p parts) float64 { return p.apply }),
		Vote:       spread(func(p parts) float64 { return p.vote }),
		Total:      spread(func(p parts) float64 { return p.total }),
		LeaderCPU:  spread(func(p parts) float64 { return p.leaderCPU }),
		LearnerCPU: spread(func(p parts) float64 { return p.learnerCPU }),
		RelaysCPU:  spread(func(p parts) float64 { return p.relaysCPU }),
	}
}
