// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"context"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Strike lets the fault strike, and returns how it is waited for and how it is ended before its time.
func Strike(ctx context.Context, f fault.Fault) (end func(context.Context) error, cancel func(), err error) {
	t := &trouble{fault: f, targets: &fault.Targets{Log: func(string, ...any) {}}}
	err = t.strike(ctx)
	return t.end, t.cancel, err
}
