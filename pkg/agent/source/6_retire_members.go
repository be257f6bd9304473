// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// retireMembers takes the source's etcd members out of the clusters one by one. The destination asks for it as soon as
// one of the clusters has all of its members; the other one follows when it is ready. The source's kube-apiserver
// continues through the relay, with the destination's members.
func (s *source) retireMembers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timings.JoinTimeout)
	defer cancel()

	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	if err := etcds.Retire(ctx, s.Tunnel.Deployed(m).KeepClientService, m.Report); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to retire the etcd members of the source: %w", err)
	}
	return steps.Waiting(s.Timings.PollInterval, steps.ReasonReadyForSourceMemberRemoval,
		"No etcd member of the source is left"), nil
}
