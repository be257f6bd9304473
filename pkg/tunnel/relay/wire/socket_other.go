// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wire

import (
	"fmt"
	"runtime"
)

// Relays run on Linux. The package is built for other systems only because the kubectl plugin knows the relay's
// configuration.
func setUserTimeout(uintptr) error {
	return fmt.Errorf("failed to bound how long data may stay unacknowledged for %s: relays run on Linux only",
		runtime.GOOS)
}
