// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package patience says how long integration tests wait for something to happen: long enough for a machine that does much else
// beside. Gomega's own second, and the 20 of envtest, are not.
package patience

import "time"

const (
	// Eventually is how long a spec waits for what it expects, if it does not say so itself.
	Eventually = 3 * time.Minute
	// Start is how long each component of a control plane may take to start.
	Start = 2 * time.Minute
	// Stop is how long each of them may take to end.
	Stop = time.Minute
)
