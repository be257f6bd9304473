// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package conflict repeats what fails because somebody else has written to an object since it was read.
package conflict

import "k8s.io/client-go/util/retry"

// Retry makes attempts until one succeeds or fails by something else than a conflict, and returns the error of the last
// one. Each attempt reads the object again and decides again. After some attempts, it returns the conflict.
//
// client-go's retry alone takes a request that has timed out, or whose context has ended, for the end of its own
// attempts, and then returns nil: a write that nobody has made would count as done.
func Retry(attempt func() error) error {
	var err error
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err = attempt()
		return err
	})
	return err
}
