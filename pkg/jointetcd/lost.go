// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package jointetcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/livecpm/livecpm/pkg/etcdcluster"
	"github.com/livecpm/livecpm/pkg/exposure"
	"github.com/livecpm/livecpm/pkg/steps"
)

// noQuorumError says that an etcd cannot be worked on because its members have no quorum, rather than for want of a way to
// them.
type noQuorumError struct {
	message string
	cause   error
}

// Error returns what the members say, and how they could not be asked.
func (e *noQuorumError) Error() string {
	return fmt.Sprintf("%s: %s: %v", steps.ReasonQuorumLost, e.message, e.cause)
}

// Unwrap returns why there is no list that a quorum stands behind.
func (e *noQuorumError) Unwrap() error { return e.cause }

// waitingForQuorum tells whether an error of Observe means that the quorum is lost, and what to say of it then.
func waitingForQuorum(err error) (Progress, bool) {
	var lost *noQuorumError
	if !errors.As(err, &lost) {
		return Progress{}, false
	}
	return waiting(steps.ReasonQuorumLost, "%s", lost.message), true
}

// whyNoQuorum asks the members one by one, those of the own seed first, for the list that they know, and judges by the first
// answer whether the quorum is lost. It is empty if not, or if nobody answers: from here that looks like a cut.
//
// Such a list may be out of date. Nothing is changed on its strength.
func (j *Joint) whyNoQuorum(ctx context.Context, etcdRole string, cluster etcdcluster.Cluster) string {
	seeds := []string{j.SourceSeed, j.DestinationSeed}
	if j.Role == steps.Destination {
		seeds = []string{j.DestinationSeed, j.SourceSeed}
	}
	for _, seed := range seeds {
		for ordinal := range exposure.Members {
			askCtx, cancel := context.WithTimeout(ctx, statusTimeout)
			list, err := cluster.ListOf(askCtx, etcdcluster.Member{Name: seed + "-" + exposure.PodName(etcdRole, ordinal)})
			cancel()
			if err != nil {
				continue
			}
			if reason, message := j.look(ctx, etcdRole, cluster, list).problem(); reason == steps.ReasonQuorumLost {
				return message
			}
			return ""
		}
	}
	return ""
}
