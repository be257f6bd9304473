// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/clock"
)

const (
	// samples is how many questions for the time are asked. The fastest answer counts: what the others took longer was
	// spent in queues, not on the way.
	samples = 20
	// transfer is for how long bytes are sent in each direction at most, and transferBytes how many at most. What is
	// slow at first, as TCP is on a long way, has settled by then.
	transfer      = 4 * time.Second
	transferBytes = 32 << 20
	// questionTimeout bounds one question with everything that leads to its answer.
	questionTimeout = 30 * time.Second
)

// Question is whom Measure asks.
type Question struct {
	// Dial connects to the relay of this seed.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS names the Answerer by its ServerName, knows its authority, and has the certificate that it asks for.
	TLS *tls.Config
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Measurement is what Measure has found.
type Measurement struct {
	// RoundTrip is the shortest time between a question and its answer, on a connection that stood already.
	RoundTrip time.Duration
	// Sent and Received are bytes per second to the Answerer and from it.
	Sent, Received int64
	// ClockSkew is how far the clock of the Answerer is ahead, give or take half of RoundTrip; negative if it is
	// behind.
	ClockSkew time.Duration
}

// Measure asks the Answerer. It fails if the way does not lead there, or if one of the answers does not come.
func Measure(ctx context.Context, q Question) (Measurement, error) {
	transport := &http.Transport{
		DialTLSContext:      func(ctx context.Context, _, _ string) (net.Conn, error) { return q.connect(ctx) },
		MaxConnsPerHost:     1,
		DisableCompression:  true,
		TLSHandshakeTimeout: questionTimeout,
	}
	defer transport.CloseIdleConnections()
	m := &measuring{Question: q, client: &http.Client{Transport: transport}}
	if err := m.times(ctx); err != nil {
		return Measurement{}, fmt.Errorf("failed to ask the other seed for the time: %w", err)
	}
	if err := m.receive(ctx); err != nil {
		return Measurement{}, fmt.Errorf("failed to receive bytes from the other seed: %w", err)
	}
	if err := m.send(ctx); err != nil {
		return Measurement{}, fmt.Errorf("failed to send bytes to the other seed: %w", err)
	}
	return m.result, nil
}

func (q Question) connect(ctx context.Context) (net.Conn, error) {
	raw, err := q.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to connect to the relay of this seed: %w", err)
	}
	conn := tls.Client(raw, q.TLS)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("failed to complete the TLS handshake with %s: %w", q.TLS.ServerName, err)
	}
	return conn, nil
}

// measuring is one measurement.
type measuring struct {
	Question
	client *http.Client
	result Measurement
}

// request is one question.
type request struct {
	method, path string
	body         io.Reader
}

// ask asks one question and hands the body of its answer on.
func (m *measuring) ask(ctx context.Context, q request, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	// The host is a name for the protocol only: connect knows the way.
	message, err := http.NewRequestWithContext(ctx, q.method, "https://"+m.TLS.ServerName+q.path, q.body)
	if err != nil {
		return err
	}
	response, err := m.client.Do(message)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return read(response.Body)
}

// times asks for the time. The first question makes the connection, and does not count.
func (m *measuring) times(ctx context.Context) error {
	for i := range samples + 1 {
		var (
			begin = m.Clock.Now()
			there time.Time
		)
		if err := m.ask(ctx, request{method: http.MethodGet, path: pathTime}, func(body io.Reader) error {
			text, err := io.ReadAll(io.LimitReader(body, int64(len(time.RFC3339Nano))))
			if err != nil {
				return err
			}
			there, err = time.Parse(time.RFC3339Nano, string(text))
			return err
		}); err != nil {
			return err
		}
		trip := m.Clock.Now().Sub(begin)
		if i > 0 && trip > 0 && (m.result.RoundTrip == 0 || trip < m.result.RoundTrip) {
			m.result.RoundTrip, m.result.ClockSkew = trip, there.Sub(begin.Add(trip/2))
		}
	}
	if m.result.RoundTrip == 0 {
		return errors.New("no answer took any time by the clock of this seed")
	}
	return nil
}

// receive takes bytes for a while.
func (m *measuring) receive(ctx context.Context) error {
	path := pathBytes + "?" + parameterCount + "=" + strconv.Itoa(transferBytes)
	return m.ask(ctx, request{method: http.MethodGet, path: path}, func(body io.Reader) error {
		begin, count, buffer := m.Clock.Now(), int64(0), make([]byte, chunk)
		for {
			n, err := body.Read(buffer)
			count += int64(n)
			elapsed := m.Clock.Now().Sub(begin)
			switch {
			case errors.Is(err, io.EOF) || err == nil && elapsed >= transfer:
				m.result.Received = rate(count, elapsed)
				return nil
			case err != nil:
				return err
			}
		}
	})
}

// send sends bytes for a while. The answer comes when the last of them has arrived.
func (m *measuring) send(ctx context.Context) error {
	begin := m.Clock.Now()
	body := &supply{clock: m.Clock, until: begin.Add(transfer), left: transferBytes}
	return m.ask(ctx, request{method: http.MethodPost, path: pathBytes, body: body}, func(io.Reader) error {
		m.result.Sent = rate(transferBytes-body.left, m.Clock.Now().Sub(begin))
		return nil
	})
}

func rate(count int64, elapsed time.Duration) int64 {
	return int64(float64(count) / max(elapsed.Seconds(), time.Microsecond.Seconds()))
}

// supply is a body that ends after a while.
type supply struct {
	clock clock.PassiveClock
	until time.Time
	left  int64
}

// Read implements io.Reader.
func (s *supply) Read(p []byte) (int, error) {
	if s.left == 0 || !s.clock.Now().Before(s.until) {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), s.left))
	clear(p[:n])
	s.left -= int64(n)
	return n, nil
}
