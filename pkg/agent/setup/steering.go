// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/joint"
)

// newSteering returns what steers a front. There is none yet: nothing can be held or drained.
func newSteering([]string, string, *tls.Config) joint.Front { return notSteered{} }

type notSteered struct{}

var errNotSteered = errors.New("fronts cannot be steered yet")

func (notSteered) Hold(context.Context, time.Duration) (func(), error) { return nil, errNotSteered }
func (notSteered) Drain(context.Context, int, time.Duration) error     { return errNotSteered }
func (notSteered) Restore(context.Context, int) error                  { return errNotSteered }
func (notSteered) Close() error                                        { return nil }
