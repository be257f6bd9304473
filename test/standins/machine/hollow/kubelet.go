// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// portForwardProtocol is the protocol in which the kube-apiserver forwards ports.
const portForwardProtocol = "portforward.k8s.io"

// serveKubelet serves the kubelet's port. It asks for a certificate, as the kubelet does, and takes that of any client:
// there is nothing to be protected.
func (n *Node) serveKubelet(ctx context.Context, serving *identity) error {
	pair, err := tls.X509KeyPair(serving.certificate, serving.key)
	if err != nil {
		return fmt.Errorf("failed to read the kubelet's serving certificate: %w", err)
	}
	server := &http.Server{
		Addr:    net.JoinHostPort(n.IP.String(), strconv.Itoa(KubeletPort)),
		Handler: n.kubeletHandler(),
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

// kubeletHandler answers what comes through the VPN: /healthz, the logs of a container (one line that tells where it
// came from) and forwarded ports.
func (n *Node) kubeletHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s/%s on hollow node %s\n", r.PathValue("namespace"), r.PathValue("pod"), n.Name)
	})
	forward := func(w http.ResponseWriter, r *http.Request) { forwardPorts(w, r) }
	mux.HandleFunc("/portForward/{namespace}/{pod}", forward)
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", forward)
	return mux
}

// forwardPorts accepts streams as the kubelet does and tells through the error stream that nothing listens in the pod.
// The one who only wants to know whether the kubelet can be reached, as the gardenlet does, is content with that.
func forwardPorts(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portForwardProtocol}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 8)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w,
		r, func(stream httpstream.Stream, replySent <-chan struct{}) error {
			go func() {
				<-replySent
				streams <- stream
			}()
			return nil
		})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for {
		select {
		case <-conn.CloseChan():
			return
		case stream := <-streams:
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				_, _ = stream.Write([]byte("nothing listens on a hollow node"))
			}
			_ = stream.Close()
		}
	}
}
