// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package accept is the loop in which the stand-ins that serve connections accept them.
package accept

import (
	"context"
	"fmt"
	"net"
)

// Each hands every connection that the listener accepts to handle, which must not block and has to close it. It returns
// nil when the context ends, with the listener closed, and does not wait for what handle has begun.
func Each(ctx context.Context, listener net.Listener, handle func(conn net.Conn)) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to accept: %w", err)
		}
		handle(conn)
	}
}
