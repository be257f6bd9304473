// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// EchoPort is the port on which every pod answers with what it gets, if the kube-apiserver forwards it: that of the
	// Echo Protocol (RFC 862). Nothing listens on others.
	EchoPort = 7

	// portForwardProtocol and execProtocol are the protocols in which the kube-apiserver forwards ports and has
	// commands run.
	portForwardProtocol, execProtocol = "portforward.k8s.io", "v4.channel.k8s.io"
	// logInterval is the time from one line of a log that is followed to the next.
	logInterval = time.Second
	// streamsPatience is how long the streams of a command may take to come, as with the kubelet
	// (DefaultStreamCreationTimeout of k8s.io/cri-streaming).
	streamsPatience = 30 * time.Second
)

// serveKubelet serves the kubelet's port. It asks for a certificate, as the kubelet does, and takes that of any client:
// there is nothing to be protected.
func (n *Node) serveKubelet(ctx context.Context, serving *identity) error {
	pair, err := tls.X509KeyPair(serving.certificate, serving.key)
	if err != nil {
		return fmt.Errorf("failed to read the kubelet's serving certificate: %w", err)
	}
	server := &http.Server{
		Addr:    net.JoinHostPort(n.IP.String(), strconv.Itoa(KubeletPort)),
		Handler: n.KubeletHandler(),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
			ClientAuth: tls.RequireAnyClientCert},
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	n.Log.Info("Serving the kubelet's port", "address", server.Addr)
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve the kubelet's port: %w", err)
	}
	return ctx.Err()
}

// KubeletHandler answers what comes through the VPN: /healthz, the logs of a container (lines that tell where they come
// from, one per second if they are followed), commands in it, and forwarded ports.
func (n *Node) KubeletHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	for _, uid := range []string{"", "/{uid}"} {
		mux.HandleFunc("/portForward/{namespace}/{pod}"+uid, forwardPorts)
		mux.HandleFunc("/exec/{namespace}/{pod}"+uid+"/{container}", runEcho)
	}
	return mux
}

func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	line := fmt.Sprintf("%s/%s on hollow node %s\n", r.PathValue("namespace"), r.PathValue("pod"), n.Name)
	follow, _ := strconv.ParseBool(r.URL.Query().Get("follow"))
	ticker := time.NewTicker(logInterval)
	defer ticker.Stop()
	for {
		if _, err := io.WriteString(w, line); err != nil || !follow {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// streamsOf turns the request into a connection with streams of the protocol. Without one, the client has an answer.
func streamsOf(
	w http.ResponseWriter, r *http.Request, protocol string,
) (conn httpstream.Connection, streams chan httpstream.Stream) {
	if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
		return nil, nil
	}
	streams = make(chan httpstream.Stream, 8)
	conn = spdy.NewResponseUpgrader().UpgradeResponse(w, r,
		func(stream httpstream.Stream, replySent <-chan struct{}) error {
			go func() {
				<-replySent
				streams <- stream
			}()
			return nil
		})
	return conn, streams
}

// forwardPorts accepts streams as the kubelet does. It answers with what it gets on the echo port, and tells through
// the error stream that nothing listens on all others. The one who only wants to know whether the kubelet can be
// reached, as the gardenlet does, is content with that.
func forwardPorts(w http.ResponseWriter, r *http.Request) {
	conn, streams := streamsOf(w, r, portForwardProtocol)
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for {
		select {
		case <-conn.CloseChan():
			return
		case stream := <-streams:
			isError := stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError
			switch echo := stream.Headers().Get(corev1.PortHeader) == strconv.Itoa(EchoPort); {
			case echo && !isError:
				go func() {
					_, _ = io.Copy(stream, stream)
					_ = stream.Close()
				}()
				continue
			case echo:
				// It stays open while the other one is: its end tells the client that all went well.
				continue
			case isError:
				_, _ = stream.Write([]byte("nothing listens on a hollow node"))
			}
			_ = stream.Close()
		}
	}
}

// runEcho answers with what it gets from standard input, whatever the command is: nothing runs on a hollow node.
func runEcho(w http.ResponseWriter, r *http.Request) {
	conn, streams := streamsOf(w, r, execProtocol)
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	of := map[string]httpstream.Stream{}
	timeout := time.After(streamsPatience)
	for of[corev1.StreamTypeStdin] == nil || of[corev1.StreamTypeStdout] == nil || of[corev1.StreamTypeError] == nil {
		select {
		case <-conn.CloseChan():
			return
		case <-timeout:
			return
		case stream := <-streams:
			of[stream.Headers().Get(corev1.StreamType)] = stream
		}
	}
	_, _ = io.Copy(of[corev1.StreamTypeStdout], of[corev1.StreamTypeStdin])
	_, _ = io.WriteString(of[corev1.StreamTypeError], `{"metadata":{},"status":"Success"}`)
}
