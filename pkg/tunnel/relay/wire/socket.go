// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"syscall"
	"time"
)

// userTimeout bounds how long sent data may stay unacknowledged: keepalive probes are not sent while there is such
// data.
const userTimeout = 15 * time.Second

// Control sets what a socket needs beyond the standard library's defaults; use it in net.Dialer and net.ListenConfig.
func Control(_, _ string, raw syscall.RawConn) error {
	var setErr error
	if err := raw.Control(func(fd uintptr) { setErr = setUserTimeout(fd) }); err != nil {
		return err
	}
	return setErr
}

func isNotConnected(err error) bool { return errors.Is(err, syscall.ENOTCONN) }
