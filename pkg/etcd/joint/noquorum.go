// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// noQuorumError says that an etcd cannot be worked on because its members have no quorum. That they cannot be
// reached is another error.
type noQuorumError struct {
	message string
	cause   error
	// seen is what the first member that answers knows.
	seen Observation
}

// Error returns what the members say, and how they could not be asked.
func (e *noQuorumError) Error() string {
	return fmt.Sprintf("%s: %s: %v", steps.ReasonQuorumLost, e.message, e.cause)
}

// Unwrap returns why there is no list that a quorum stands behind.
func (e *noQuorumError) Unwrap() error { return e.cause }

// observeForChange takes a look at a cluster whose membership is about to change. What speaks against touching it at
// all is the hold, which is nil if nothing does.
func (j *Joint) observeForChange(ctx context.Context, etcdRole string) (Observation, *Progress, error) {
	seen, err := j.Observe(ctx, etcdRole)
	reason, problem := steps.ReasonQuorumLost, ""
	var lost *noQuorumError
	switch {
	case errors.As(err, &lost):
		problem = lost.message
	case err != nil:
		return Observation{}, nil, err
	default:
		reason, problem = seen.problem()
	}
	if problem == "" {
		return seen, nil, nil
	}
	hold := waiting(reason, "%s", problem)
	return seen, &hold, nil
}

// whyNoQuorum asks the members one by one, those of the own seed first, for the list that they know, and judges by the
// first answer whether the quorum is lost. It is nil if not, or if nobody answers: from here that looks like a cut.
//
// Such a list may be out of date. No membership is changed on its strength.
func (j *Joint) whyNoQuorum(ctx context.Context, etcdRole string, cluster etcdclient.Reader) *noQuorumError {
	seeds := []string{j.SourceSeed, j.DestinationSeed}
	if j.Role == steps.Destination {
		seeds = []string{j.DestinationSeed, j.SourceSeed}
	}
	for _, seed := range seeds {
		for ordinal := range naming.MembersPerSeed {
			askCtx, cancel := context.WithTimeout(ctx, statusTimeout)
			list, err := cluster.ListOf(askCtx,
				etcdclient.Member{Name: naming.MemberName(seed, etcdRole, ordinal)})
			cancel()
			if err != nil {
				continue
			}
			seen := j.look(ctx, etcdRole, cluster, list)
			if reason, message := seen.problem(); reason == steps.ReasonQuorumLost {
				return &noQuorumError{message: message, seen: seen}
			}
			return nil
		}
	}
	return nil
}
