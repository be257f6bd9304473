// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/standins/machine/hollow"
	"github.com/livecpm/livecpm/test/standins/machine/incluster"
)

// StreamReport is what was counted of a stream that is kept open.
type StreamReport = recording.Stream

const (
	// beatInterval is how often something is sent through a stream.
	beatInterval = time.Second
	// reopenAfter is the time from the end of a stream to the attempt to open it again.
	reopenAfter = 500 * time.Millisecond
)

// errSilent ends a stream that was silent for too long.
var errSilent = errors.New("no answer in time")

// Streams keeps a log, a command and a forwarded port open, as users do, each to a pod of the in-cluster client on
// another node, where there are several. What breaks is opened again.
type Streams struct {
	shoot  kubernetes.Interface
	access *rest.Config
	// patience is how long one may be silent, pause the time until it is opened again.
	patience, pause time.Duration
	// pods are pods of the in-cluster client, one on each node.
	pods []string

	mu     sync.Mutex
	counts []StreamReport
}

// NewStreams returns streams to pods of the shoot, of which none is open.
func NewStreams(shoot kubernetes.Interface, access *rest.Config) *Streams {
	return &Streams{shoot: shoot, access: access, patience: askTimeout, pause: reopenAfter}
}

// kinds are the streams in the order of the report. Each one runs until it ends or the context does, and calls the
// function for each answer.
func (s *Streams) kinds() []streamKind {
	return []streamKind{{"logs", s.followLog}, {"exec", s.runCommand}, {"port-forward", s.forwardPort}}
}

type streamKind struct {
	name string
	run  func(ctx context.Context, pod string, answered func()) error
}

// Prepare finds the pods that the streams lead to, and lets WebSockets find the way until the context ends.
func (s *Streams) Prepare(ctx context.Context) (err error) {
	if s.access, err = byProxy(ctx, s.access); err != nil {
		return err
	}
	pods, err := s.shoot.CoreV1().Pods(incluster.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("failed to list pods of the in-cluster client: %w", err)
	}
	for _, pod := range pods.Items {
		s.pods = append(s.pods, pod.Name)
	}
	if len(s.pods) == 0 {
		return errors.New("there are no pods of the in-cluster client")
	}
	return nil
}

// Run keeps all streams open until the context ends. Prepare comes before.
func (s *Streams) Run(ctx context.Context) { s.runKinds(ctx, s.kinds()) }

func (s *Streams) runKinds(ctx context.Context, kinds []streamKind) {
	s.mu.Lock()
	for _, kind := range kinds {
		s.counts = append(s.counts, StreamReport{Kind: kind.name})
	}
	s.mu.Unlock()
	var open sync.WaitGroup
	for i, kind := range kinds {
		open.Go(func() { s.keep(ctx, i, kind, s.pods[i%len(s.pods)]) })
	}
	open.Wait()
}

// keep keeps the stream with the index open until the context ends.
func (s *Streams) keep(ctx context.Context, i int, kind streamKind, pod string) {
	last := time.Now()
	for ctx.Err() == nil {
		opened, err := s.runOnce(ctx, kind, pod, func(first bool) {
			s.count(i, func(count *StreamReport) {
				if first {
					count.Opened++
				}
				now := time.Now()
				count.LongestGapMs = max(count.LongestGapMs, now.Sub(last).Milliseconds())
				last = now
			})
		})
		if ctx.Err() != nil {
			return
		}
		s.count(i, func(count *StreamReport) {
			if opened {
				count.Broken++
				countError(count, pod, "broke", err)
				return
			}
			count.Refused++
			now := time.Now().UTC()
			count.FirstRefused, count.LastRefused = span(count.FirstRefused, count.LastRefused, now, now)
			countError(count, pod, "could not be opened", err)
		})
		_ = wait(ctx, s.pause)
	}
}

// countError keeps what happened to the stream, if it is one of the first.
func countError(count *StreamReport, pod, what string, err error) {
	if len(count.Errors) < maxRequestErrors {
		count.Errors = append(count.Errors, fmt.Sprintf("%s %s to %s %s: %v", time.Now().UTC().Format(time.RFC3339),
			count.Kind, pod, what, err))
	}
}

// runOnce opens the stream once, and returns when it has ended or was silent for too long. It reports whether there was
// any answer.
func (s *Streams) runOnce(
	ctx context.Context, kind streamKind, pod string, answered func(first bool),
) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		over bool
	)
	watchdog := time.AfterFunc(s.patience, func() { cancel(errSilent) })
	defer watchdog.Stop()
	err = kind.run(ctx, pod, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return // what had been on its way when the stream ended
		}
		watchdog.Reset(s.patience)
		answered(!opened)
		opened = true
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return opened, err
}

func (s *Streams) count(i int, change func(*StreamReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts[i])
}

// Report returns what was counted, in the order of their kinds.
func (s *Streams) Report() []StreamReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]StreamReport{}, s.counts...)
}

// podRequest returns a request for what the typed client has no method for.
func (s *Streams) podRequest(pod, subresource string) *rest.Request {
	return s.shoot.CoreV1().RESTClient().Get().Namespace(incluster.Name).Resource("pods").Name(pod).
		SubResource(subresource)
}

// followLog follows the log of the pod's container.
func (s *Streams) followLog(ctx context.Context, pod string, answered func()) error {
	log, err := s.shoot.CoreV1().Pods(incluster.Name).GetLogs(pod, &corev1.PodLogOptions{
		Container: incluster.Container, Follow: true}).MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		answered()
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// runCommand has a command run in the pod's container that answers with what it gets.
func (s *Streams) runCommand(ctx context.Context, pod string, answered func()) error {
	target := s.podRequest(pod, "exec").VersionedParams(&corev1.PodExecOptions{Container: incluster.Container,
		Stdin: true, Stdout: true, Command: []string{"cat"}}, scheme.ParameterCodec).URL()
	command, err := remotecommand.NewWebSocketExecutor(s.access, http.MethodGet, target.String())
	if err != nil {
		return err
	}
	in, typed := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = in.Close() }()
	go beat(ctx, typed)
	if err := command.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in,
		Stdout: writerFunc(answered)}); err != nil {
		return err
	}
	return io.EOF
}

// forwardPort forwards the pod's echo port.
func (s *Streams) forwardPort(ctx context.Context, pod string, answered func()) error {
	dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(s.podRequest(pod, "portforward").URL(), s.access)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, dialer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(hollow.EchoPort))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	if _, err := conn.CreateStream(header); err != nil {
		return fmt.Errorf("failed to create the error stream: %w", err)
	}
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return fmt.Errorf("failed to create the data stream: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go beat(ctx, data)
	if _, err := io.Copy(writerFunc(answered), data); err != nil {
		return err
	}
	return io.EOF
}

// dial returns when the context ends: the dialer knows none.
func dial(ctx context.Context, dialer httpstream.Dialer) (httpstream.Connection, error) {
	type result struct {
		conn httpstream.Connection
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		dialed <- result{conn, err}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if late := <-dialed; late.err == nil {
				_ = late.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// beat writes something at each interval until the context ends or it cannot.
func beat(ctx context.Context, to io.Writer) {
	for {
		if _, err := io.WriteString(to, "x\n"); err != nil || wait(ctx, beatInterval) != nil {
			return
		}
	}
}

// writerFunc is called for each write.
type writerFunc func()

// Write calls the function.
func (f writerFunc) Write(content []byte) (int, error) {
	f()
	return len(content), nil
}

// byProxy returns the access for clients that open WebSockets: these take a proxy from it, but no dialer. So there is a
// proxy that dials as the access does, until the context ends.
func byProxy(ctx context.Context, access *rest.Config) (*rest.Config, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("failed to listen for WebSockets: %w", err)
	}
	dial := access.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	proxy := &http.Server{Handler: connectTo(dial), ReadHeaderTimeout: askTimeout}
	context.AfterFunc(ctx, func() { _ = proxy.Close() })
	go func() { _ = proxy.Serve(listener) }()
	config := rest.CopyConfig(access)
	address := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	config.Dial = nil
	config.Proxy = func(*http.Request) (*url.URL, error) { return address, nil }
	return config, nil
}

// connectTo serves requests with the method CONNECT: it dials, and copies both ways.
func connectTo(dial func(ctx context.Context, network, address string) (net.Conn, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		upstream, err := dial(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = upstream.Close() }()
		downstream, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = downstream.Close() }()
		if _, err := io.WriteString(downstream, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		go func() {
			defer func() { _ = upstream.Close(); _ = downstream.Close() }()
			_, _ = io.Copy(downstream, upstream)
		}()
		_, _ = io.Copy(upstream, buffered)
	})
}
