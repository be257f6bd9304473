// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package flows is how both roles run Gardener's flows: with periods that the agent's configuration names, with
// progress in the Shoot's condition, and with repeated tasks whose failures are logged.
package flows

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// reportPeriod keeps a flow of many short tasks from writing the Shoot's status for each of them.
const reportPeriod = 5 * time.Second

// retryInterval is the pause between two attempts of a task.
const retryInterval = 5 * time.Second

// Run runs the graph and publishes its progress with the given reason. The error names the tasks that failed.
func Run(ctx context.Context, m *migration.Migration, reason steps.Reason, graph *flow.Graph) error {
	return RunReporting(ctx, m, graph, func(ctx context.Context, message string) error {
		return m.Report(ctx, reason, message)
	})
}

// RunReporting runs the graph like Run and lets the function publish its progress. It is called beside the tasks.
func RunReporting(
	ctx context.Context, m *migration.Migration, graph *flow.Graph,
	publish func(ctx context.Context, message string) error,
) error {
	report := func(ctx context.Context, stats *flow.Stats) {
		if err := publish(ctx, flow.MakeDescription(stats)); err != nil {
			m.Log.Error(err, "Failed to report progress", "flow", stats.FlowName)
		}
	}

	if err := graph.Compile().Run(logf.IntoContext(ctx, m.Log.WithValues("flow", graph.Name())), flow.Opts{
		Log:              m.Log,
		ProgressReporter: flow.NewDelayingProgressReporter(m.Clock, report, reportPeriod),
	}); err != nil {
		return fmt.Errorf("failed to run %s: %w", graph.Name(), flow.Causes(err))
	}
	return nil
}

// Retry repeats the task every few seconds until it succeeds or the timeout is over. What it repeats for is logged: it
// is the only trace of a failure that continues for minutes.
func Retry(fn flow.TaskFn, timeout time.Duration) flow.TaskFn {
	return func(ctx context.Context) error {
		var last string
		logged := func(ctx context.Context) error {
			err := fn(ctx)
			if err != nil && ctx.Err() == nil && err.Error() != last {
				last = err.Error()
				logf.FromContext(ctx).Info("Task failed and will be repeated", "reason", last)
			}
			return err
		}
		return flow.TaskFn(logged).RetryUntilTimeout(retryInterval, timeout)(ctx)
	}
}
