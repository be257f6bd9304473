// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package incluster

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Lost is a request whose connection broke before the whole answer was there.
type Lost struct {
	// Begin is when it was sent, End when it was known to be lost.
	Begin, End time.Time
	// Local is the client's end of the connection; empty if none was made.
	Local string
}

// broke reports whether the error of a request is about its connection. An answer of whatever status is not, nor is a
// time-out, nor that a server has announced the end of a connection (GOAWAY): no proxy that ends does any of that.
func broke(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) || strings.Contains(err.Error(), "GOAWAY") {
		return false
	}
	return utilnet.IsProbableEOF(err) || utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE)
}

// usedConn is the connection that a request has used last.
type usedConn struct {
	mu      sync.Mutex
	address string
}

type usedConnKey struct{}

// use notes the connection in what the context carries.
func use(ctx context.Context, conn net.Conn) {
	if used, ok := ctx.Value(usedConnKey{}).(*usedConn); ok {
		used.mu.Lock()
		defer used.mu.Unlock()
		used.address = conn.LocalAddr().String()
	}
}

// local returns the client's end of the connection; empty if none was used.
func (u *usedConn) local() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.address
}
