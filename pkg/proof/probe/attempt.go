// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A request that fails counts as failed, whatever a client might have made of it. Beside that, the probe tells which of
// the failed requests a client with client-go's defaults would have sent again (up to ten times), so that its caller
// might not have noticed. That is a classification of the first try by client-go's own rules (rest.Request, which
// keeps them to itself) and predicates: nothing is sent again, and nobody knows whether a second try would have
// succeeded. What is left over is therefore the least that such a client has seen.

// attempt is what the transport learns of a request.
type attempt struct {
	mu       sync.Mutex
	answered bool
	again    bool
	err      error
}

type attemptKey struct{}

// withAttempt returns a context whose requests are remembered in the attempt; of several requests it is the last one.
func withAttempt(ctx context.Context) (context.Context, *attempt) {
	a := &attempt{}
	return context.WithValue(ctx, attemptKey{}, a), a
}

// learn takes the outcome of a request into the attempt that its context belongs to.
func learn(req *http.Request, resp *http.Response, err error) {
	a, ok := req.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered, a.again, a.err = err == nil, sentAgain(req, resp, err), err
}

// unanswered returns whether the last request got no answer, and the error of its connection, if there is one.
func (a *attempt) unanswered() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.answered, a.err
}

// explain marks the error of a request that client-go would have sent again.
func (a *attempt) explain(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || !a.again {
		return err
	}
	return &retryableError{err}
}

// try sends a request. Its error is marked if client-go would have sent the request again.
func try(ctx context.Context, send func(context.Context) error) error {
	ctx, a := withAttempt(ctx)
	return a.explain(send(ctx))
}

// retryableError is the error of a request that a client with client-go's defaults would have sent again.
type retryableError struct{ error }

// Unwrap returns the error itself.
func (e *retryableError) Unwrap() error { return e.error }

// retryable reports whether client-go would have sent the request of the error again.
func retryable(err error) bool {
	marked := (*retryableError)(nil)
	return errors.As(err, &marked)
}

// sentAgain reports whether a client with client-go's defaults would send the request again: whatever the server
// answers with 429 or 5xx and a time to wait (Retry-After, in seconds), a read whose connection breaks, and a watch
// that cannot begin because its connection breaks or the time for connecting is up.
func sentAgain(req *http.Request, resp *http.Response, err error) bool {
	switch {
	case err == nil:
		if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
			return false
		}
		_, notSeconds := strconv.Atoi(resp.Header.Get("Retry-After"))
		return notSeconds == nil
	case req.Method != http.MethodGet:
		return false
	case isWatch(req):
		return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

func isWatch(req *http.Request) bool {
	watch, err := strconv.ParseBool(req.URL.Query().Get("watch"))
	return err == nil && watch
}

// failed records a request of the kind (write, read or watch) that failed.
func (p *Probe) failed(kind string, err error) {
	again := retryable(err)
	count, retried := &p.counters.readsFailed, &p.counters.readsRetryable
	if kind == kindWrite {
		count, retried = &p.counters.writesFailed, &p.counters.writesRetryable
	}
	count.Add(1)
	if again {
		retried.Add(1)
	}
	p.timeline.failed(time.Now())
	p.remember(Incident{Time: time.Now(), Kind: kind, Error: err.Error(), Retryable: again})
}

// The kinds of requests that fail, as incidents name them.
const (
	kindWrite = "write"
	kindRead  = "read"
	kindWatch = "watch"
)
