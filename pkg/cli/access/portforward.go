// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// upgradeTimeout bounds the upgrade of a connection if the context has no deadline.
const upgradeTimeout = 5 * time.Second

// Forwarder connects to ports of the pods of one cluster through its API server, as kubectl port-forward does. The
// machine need not have a route to the pods.
type Forwarder struct {
	name string
	rest *rest.Config
	kube kubernetes.Interface
}

// NewForwarder returns a Forwarder. The name of the cluster is used in errors.
func NewForwarder(name string, config *rest.Config) (*Forwarder, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create a client for %s: %w", name, err)
	}
	return &Forwarder{name: name, rest: config, kube: kube}, nil
}

// Dial connects to the port of the pod.
func (f *Forwarder) Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	conn, err := f.dial(ctx, namespace, pod, port)
	if err != nil {
		return nil, fmt.Errorf("failed to forward port %d of pod %s/%s in %s: %w", port, namespace, pod, f.name, err)
	}
	return conn, nil
}

func (f *Forwarder) dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	bound := upgradeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, max(time.Until(deadline), time.Millisecond))
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.rest)
	if err != nil {
		return nil, err
	}
	address := f.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).
		SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport, Timeout: bound}, http.MethodPost, address)
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}

	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := connection.CreateStream(headers)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	_ = failure.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}

	conn := &forwarded{connection: connection, data: data}
	// The kubelet writes to the error stream when it cannot reach the port; nothing comes on the data stream then.
	go func() {
		if message, err := io.ReadAll(failure); err != nil || len(message) > 0 {
			_ = conn.Close()
		}
	}()
	return conn, nil
}

// forwarded makes a net.Conn of the streams of a port-forward. Deadlines are not supported; its users close it.
type forwarded struct {
	connection io.Closer
	data       interface {
		io.ReadWriter
		Reset() error
	}
	closed atomic.Bool
}

func (c *forwarded) Read(p []byte) (int, error)  { return c.data.Read(p) }
func (c *forwarded) Write(p []byte) (int, error) { return c.data.Write(p) }

// Close ends the connection. It does not fail: what could is the farewell on a connection that the other side has left
// first, which it may do as soon as the stream is reset.
func (c *forwarded) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	_ = c.data.Reset()
	_ = c.connection.Close()
	return nil
}

func (c *forwarded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *forwarded) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *forwarded) SetDeadline(time.Time) error      { return nil }
func (c *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (c *forwarded) SetWriteDeadline(time.Time) error { return nil }
