// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
)

// maxRequestHead is how many bytes are read to find the end of a request's head. Those of etcd's peers have a few
// hundred.
const maxRequestHead = 16 << 10

// RequestError says that a connection does not begin with a request that can be routed.
type RequestError struct{ problem string }

// Error implements error.
func (e *RequestError) Error() string { return e.problem }

// ReadRequest does for a connection without TLS what ReadHello does for one with it: it reads the head of the first
// request of HTTP/1, whose host is the server name, and maybe some of what follows. etcd's peers speak nothing else
// where they have no TLS, and take the host from the peer URL. Later requests of the connection are not looked at: they
// have the same target. The caller sets the deadline. On error the Hello has what was read until then.
func ReadRequest(r io.Reader) (Hello, error) {
	var raw bytes.Buffer
	reader := bufio.NewReader(io.TeeReader(io.LimitReader(r, maxRequestHead), &raw))
	// Somebody who speaks TLS here waits for an answer, and the parser for the end of a line.
	if first, err := reader.Peek(1); err == nil && (first[0] < 'A' || first[0] > 'Z') {
		return Hello{Raw: raw.Bytes()}, &RequestError{"the connection does not begin with a request"}
	}
	// The library's own parser is used, which is also that of the target.
	request, err := http.ReadRequest(reader)
	hello := Hello{Raw: raw.Bytes()}
	switch {
	case err != nil && raw.Len() >= maxRequestHead:
		return hello, &RequestError{fmt.Sprintf("the head of the request is longer than %d bytes", maxRequestHead)}
	case err != nil:
		return hello, fmt.Errorf("failed to read a request: %w", err)
	case request.ProtoMajor != 1:
		return hello, &RequestError{"the request is of " + request.Proto}
	}
	host := request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	hello.ServerName = Canonical(host)
	return hello, nil
}
