// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data

// Joins has the parts of a member's join for each size of the database, without a landscape: real etcds and real relays
// on one machine, with nothing else to do.
type Joins struct {
	Runs []JoinRun `json:"runs"`
}

// JoinRun are the joins with so much data.
type JoinRun struct {
	Environment Environment `json:"environment"`
	// MiB is the size of the values that were written, DatabaseMiB that of the database file then.
	MiB         int     `json:"mib"`
	DatabaseMiB float64 `json:"databaseMiB"`
	// ReadMBPerSecond is how fast the database file is read, WriteMBPerSecond how fast as much is written to the same
	// file system and synced, and ClientMBPerSecond how fast a client takes a snapshot of the same etcd, as the
	// etcd-backup-restore beside it does. All of it is without a relay.
	ReadMBPerSecond   float64 `json:"readMBPerSecond"`
	WriteMBPerSecond  float64 `json:"writeMBPerSecond"`
	ClientMBPerSecond float64 `json:"clientMBPerSecond"`
	// Direct are the joins of a member that the leader reaches directly, Relayed of one behind two relays.
	Direct  JoinParts `json:"direct"`
	Relayed JoinParts `json:"relayed"`
}

// JoinParts are the parts of a join in their order, in seconds, and the processor time that it took.
type JoinParts struct {
	// Begin is from the addition of the learner until the leader begins to send its snapshot: the learner starts.
	Begin Spread `json:"begin"`
	// Transfer is until the learner has written all of the snapshot, Sync how long it syncs the file to the disk then.
	Transfer Spread `json:"transfer"`
	Sync     Spread `json:"sync"`
	// Apply is how long the learner opens the database and builds its index.
	Apply Spread `json:"apply"`
	// Vote is the rest: it persists what raft says of the snapshot, catches up with what was written meanwhile, and
	// becomes a voter. That may be before it has applied the snapshot.
	Vote Spread `json:"vote"`
	// Total is all of it, until it votes and has applied the snapshot.
	Total Spread `json:"total"`
	// LeaderCPU, LearnerCPU and RelaysCPU are the processor seconds of the leader, of the learner, and of both relays.
	LeaderCPU  Spread `json:"leaderCPU"`
	LearnerCPU Spread `json:"learnerCPU"`
	RelaysCPU  Spread `json:"relaysCPU"`
}

// Record takes in a run, in place of a former one with as much data.
func (j *Joins) Record(run JoinRun) {
	j.Runs = record(j.Runs, run, func(r JoinRun) int { return r.MiB })
}

// MBPerSecond is how fast the snapshot of a run comes through the relays, with the sync at the end.
func (r JoinRun) MBPerSecond() float64 {
	return ratio(r.DatabaseMiB*bytesPerMiB/bytesPerMB, r.Relayed.Transfer.Median+r.Relayed.Sync.Median)
}

// JoinModel is what a join through the relays takes as a linear function of the size of the database.
type JoinModel struct {
	// FixedSeconds is what it takes with any size, SecondsPerGiB what each GiB adds.
	FixedSeconds, SecondsPerGiB float64
}

// Seconds is how long a join takes with a database of so many GiB.
func (m JoinModel) Seconds(gib float64) float64 { return m.FixedSeconds + m.SecondsPerGiB*gib }

// Model fits a line through the medians of the runs by least squares. It returns false with fewer than two sizes.
func (j *Joins) Model() (JoinModel, bool) {
	const mibPerGiB = 1 << 10
	n := float64(len(j.Runs))
	var sumX, sumY float64
	for _, run := range j.Runs {
		sumX += run.DatabaseMiB / mibPerGiB
		sumY += run.Relayed.Total.Median
	}
	var covariance, variance float64
	for _, run := range j.Runs {
		fromMean := run.DatabaseMiB/mibPerGiB - sumX/n
		covariance += fromMean * (run.Relayed.Total.Median - sumY/n)
		variance += fromMean * fromMean
	}
	if variance == 0 {
		return JoinModel{}, false
	}
	slope := covariance / variance
	return JoinModel{FixedSeconds: (sumY - slope*sumX) / n, SecondsPerGiB: slope}, true
}
