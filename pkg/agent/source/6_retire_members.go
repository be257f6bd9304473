// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"

	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// retireMembers takes the source's etcd members out of the clusters one by one. The destination asks for it as soon as
// one of the clusters has all of its members; the other one follows when it is ready. The source's kube-apiserver
// continues through the relay, with the destination's members. Where the etcds have one member each, the destination
// removes the member while it works, and its pod is taken away then.
func (s *source) retireMembers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := s.retire(ctx, m, m.Report); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to retire the etcd members of the source: %w", err)
	}
	return steps.Waiting(s.Timings.PollInterval, steps.ReasonReadyForSourceMemberRemoval,
		"No etcd member of the source is left"), nil
}

// finishRetirement does in the step of the source what is left of retireMembers where the etcds have one member each.
// The step before ends when the members are out of the lists, which the destination sees; that the pods are gone, and
// that clients of the source are led to the destination, it does not see.
func (s *source) finishRetirement(ctx context.Context, m *migration.Migration, stage steps.Reason) error {
	report := func(ctx context.Context, _ steps.Reason, message string) error { return m.Report(ctx, stage, message) }
	if err := s.retire(ctx, m, report); err != nil {
		return fmt.Errorf("failed to take the etcd members of the source away: %w", err)
	}
	return nil
}

// retire takes the members of the source, or the pods of its only ones, away.
func (s *source) retire(ctx context.Context, m *migration.Migration, report joint.ReportFunc) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timings.JoinTimeout)
	defer cancel()

	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	retire := etcds.Retire
	if steps.WithGap(m.Shoot) {
		retire = etcds.RetireOnly
	}
	return retire(ctx, s.Tunnel.Deployed(m).KeepClientService, report)
}
