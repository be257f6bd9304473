// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ReportFunc publishes what is being waited for.
type ReportFunc func(ctx context.Context, reason steps.Reason, message string) error

// Progress is what one look and at most one change came to.
type Progress struct {
	// Done reports that nothing is left to do.
	Done bool
	// Reason is what is being waited for.
	Reason steps.Reason
	// Message says the same to humans.
	Message string
}

func waiting(reason steps.Reason, format string, args ...any) Progress {
	return Progress{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// each repeats the attempt for both etcd clusters in parallel until it is done for each. Errors of single attempts are
// logged and the attempt is repeated: what does not pass is ended by the context, and the last error is returned then.
func (j *Joint) each(
	ctx context.Context, report ReportFunc, attempt func(ctx context.Context, etcdRole string) (Progress, error),
) error {
	ctx, end := j.FollowPods(ctx)
	defer end()
	var (
		group    sync.WaitGroup
		lock     sync.Mutex
		progress = map[string]Progress{}
		errs     = make([]error, len(naming.EtcdRoles))
	)
	publish := func(etcdRole string, p Progress) error {
		lock.Lock()
		defer lock.Unlock()
		same := progress[etcdRole] == p
		progress[etcdRole] = p
		if same || report == nil {
			return nil
		}
		reason, message := merge(progress)
		if reason == "" {
			return nil
		}
		return report(ctx, reason, message)
	}

	for i, etcdRole := range naming.EtcdRoles {
		group.Go(func() {
			log := j.Log.WithValues("etcd", naming.EtcdName(etcdRole))
			for {
				began := j.Clock.Now()
				p, err := attempt(ctx, etcdRole)
				if err == nil {
					errs[i] = nil
				} else if ctx.Err() == nil {
					errs[i] = err
					if _, putOff := migration.PutOff(err); !putOff {
						log.Error(err, "Attempt failed, retrying")
					}
					p = waiting(reasonOf(err), "%s", err)
				}
				if publishErr := publish(etcdRole, p); publishErr != nil && ctx.Err() == nil {
					errs[i] = fmt.Errorf("failed to publish the progress: %w", publishErr)
					return
				}
				if p.Done {
					return
				}
				select {
				case <-ctx.Done():
					if errs[i] == nil {
						errs[i] = fmt.Errorf("%s: %s: %w", naming.EtcdName(etcdRole), p.Message, ctx.Err())
					}
					return
				case <-j.Clock.After(Pause(j.PollInterval, j.Clock.Since(began))):
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// maxPause is the longest pause between two looks. With six voters, each look may be the one that ends that moment.
const maxPause = 2 * time.Second

// Pause returns the pause before the next look at a cluster, after one that has taken so long: as long as the look if
// that is longer than the interval, and two seconds at most. Members that answer slowly have too much to do already,
// and each look is more of it.
func Pause(interval, took time.Duration) time.Duration {
	return max(interval, min(took, maxPause))
}

// reasonOf returns what to show while an attempt that failed is repeated.
func reasonOf(err error) steps.Reason {
	if reason, putOff := migration.PutOff(err); putOff {
		return reason
	}
	return steps.ReasonActionFailed
}

// merge puts the progress of the clusters into one reason and message. The first cluster that waits gives the reason.
func merge(progress map[string]Progress) (steps.Reason, string) {
	var (
		reason  steps.Reason
		message string
	)
	for _, etcdRole := range naming.EtcdRoles {
		p, ok := progress[etcdRole]
		if !ok || p.Message == "" {
			continue
		}
		if message != "" {
			message += "; "
		}
		message += naming.EtcdName(etcdRole) + ": " + p.Message
		if reason == "" && !p.Done {
			reason = p.Reason
		}
	}
	return reason, message
}

// LookAtBoth looks at both clusters at once and returns what was found, and what went wrong, in the order of
// naming.EtcdRoles. A look waits for members that do not answer, and while members change there often is one: it must
// not hold up the look at the other cluster.
func LookAtBoth[T any](ctx context.Context, look func(ctx context.Context, etcdRole string) (T, error)) ([]T, []error) {
	var (
		group sync.WaitGroup
		found = make([]T, len(naming.EtcdRoles))
		errs  = make([]error, len(naming.EtcdRoles))
	)
	for i, etcdRole := range naming.EtcdRoles {
		group.Go(func() { found[i], errs[i] = look(ctx, etcdRole) })
	}
	group.Wait()
	return found, errs
}

// sideBySide does the same for both clusters at once. What fails for one of them does not end it for the other.
func sideBySide(ctx context.Context, do func(ctx context.Context, etcdRole string) error) error {
	_, errs := LookAtBoth(
		ctx, func(ctx context.Context, etcdRole string) (struct{}, error) { return struct{}{}, do(ctx, etcdRole) })
	return errors.Join(errs...)
}

// both makes a check of both clusters. It reports whether nothing is missing in either, and says what is.
func (j *Joint) both(
	ctx context.Context, check func(ctx context.Context, etcdRole string) (string, error),
) (bool, string, error) {
	messages, errs := LookAtBoth(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		message, err := check(ctx, etcdRole)
		if err != nil {
			return "", fmt.Errorf("failed to check %s: %w", naming.EtcdName(etcdRole), err)
		}
		if message == "" {
			return "", nil
		}
		return naming.EtcdName(etcdRole) + ": " + message, nil
	})
	if err := errors.Join(errs...); err != nil {
		return false, "", err
	}
	missing := slices.DeleteFunc(messages, func(message string) bool { return message == "" })
	return len(missing) == 0, strings.Join(missing, "; "), nil
}
