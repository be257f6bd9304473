// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package incluster is a client inside of a shoot with workers: a pod on each node that asks the kube-apiserver by the
// address of the Service default/kubernetes, as client-go does it by default in a pod. Its pods are made by a DaemonSet
// in the shoot; a hollow node, which runs nothing of its pods, runs this in its place, with the service account, the
// token and the CA of the pod (see package hollow).
package incluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout is how long a request may take; after that it has failed.
	requestTimeout = 10 * time.Second
	// resource is what is read and written.
	resource = "configmaps"
)

// The two ways in which clients have their connections. Both are there all the time: one notices when connections are
// cut, the other when none can be made.
const (
	kept  = "kept"
	fresh = "fresh"
)

// Client writes and reads a ConfigMap, and counts. Nothing is tried again.
type Client struct {
	Log logr.Logger
	// Config leads to the kube-apiserver.
	Config *rest.Config
	// Namespace is where the ConfigMap is, Node its name and the node's, Pod the UID of the pod.
	Namespace, Node, Pod string
	// Interval is the time from one write and read of either way to the next.
	Interval time.Duration
	// Cut, when set, reports whether the node's own apiserver-proxy has closed the connection of a request because its
	// pod ended. It is asked about requests whose connection broke, and about no others.
	Cut func(lost Lost) bool

	once    sync.Once
	counter *counter
}

func (c *Client) count() *counter {
	c.once.Do(func() { c.counter = &counter{counts: Counts{Node: c.Node, Pod: c.Pod}} })
	return c.counter
}

// Counts returns what was counted so far; nothing, if counting has not begun.
func (c *Client) Counts() (Counts, bool) { return c.count().read(time.Now()) }

// Run begins when the ConfigMap is there, which is tried until it succeeds, and counts from then on until the context
// ends.
func (c *Client) Run(ctx context.Context) error {
	clients := map[string]rest.Interface{}
	for _, way := range []string{kept, fresh} {
		client, err := newClient(c.Config, way)
		if err != nil {
			return err
		}
		clients[way] = client.CoreV1().RESTClient()
		if err := c.prepare(ctx, client); err != nil {
			return err
		}
	}
	c.count().begin(time.Now())
	c.Log.Info("Counting", "node", c.Node, "host", c.Config.Host, "interval", c.Interval.String())
	var ways sync.WaitGroup
	defer ways.Wait()
	// In turn, so that gaps show as early as can be.
	for i, way := range []string{kept, fresh} {
		ways.Go(func() {
			if pause(ctx, time.Duration(i)*c.Interval/2) {
				c.repeat(ctx, clients[way], way)
			}
		})
	}
	ways.Wait()
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// newClient returns a client with connections of its own; a new one for each request, if the way is fresh.
func newClient(base *rest.Config, way string) (kubernetes.Interface, error) {
	config := rest.CopyConfig(base)
	config.QPS = -1
	config.Timeout = 0
	config.UserAgent = "livecpm-in-cluster-client"
	// A dialer of its own keeps client-go from sharing connections between clients.
	dialer := &net.Dialer{Timeout: requestTimeout, KeepAlive: 15 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			use(ctx, conn)
		}
		return conn, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, single: way == fresh} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client: %w", err)
	}
	return client, nil
}

type transport struct {
	next   http.RoundTripper
	single bool
}

// RoundTrip has the connection closed after the request, if that is wanted.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	request = request.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { use(ctx, info.Conn) },
	}))
	request.Close = t.single
	return t.next.RoundTrip(request)
}

// prepare creates the ConfigMap.
func (c *Client) prepare(ctx context.Context, client kubernetes.Interface) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := client.CoreV1().ConfigMaps(c.Namespace).Create(attempt,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Node}}, metav1.CreateOptions{})
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		c.Log.Info("Waiting for the kube-apiserver", "host", c.Config.Host, "reason", err.Error())
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// repeat writes and reads again and again. What is due while a request is in flight is left out.
func (c *Client) repeat(ctx context.Context, client rest.Interface, way string) {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	// What was there before is older than all that this one writes.
	next, acknowledged := time.Now().UnixMilli(), int64(0)
	for {
		next++
		if c.ask(ctx, way, write, func(ctx context.Context) error { return c.write(ctx, client, way, next) }) {
			acknowledged = next
		}
		c.ask(ctx, way, read, func(ctx context.Context) error { return c.read(ctx, client, way, acknowledged) })
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask makes a request and counts it. It reports whether the request succeeded.
func (c *Client) ask(ctx context.Context, way string, kind kind, request func(context.Context) error) bool {
	begin, used := time.Now(), &usedConn{}
	attempt, cancel := context.WithTimeout(context.WithValue(ctx, usedConnKey{}, used), requestTimeout)
	err := request(attempt)
	cancel()
	end := time.Now()
	// A request that ends with its client has no result.
	if ctx.Err() != nil {
		return false
	}
	ended := ended{kind: kind, at: end}
	if err != nil {
		var stale staleError
		ended.stale = errors.As(err, &stale)
		ended.cut = c.Cut != nil && broke(err) && c.Cut(Lost{Begin: begin, End: end, Local: used.local()})
		ended.failure = fmt.Sprintf("%s %s, %s connection, after %d ms: %v", end.UTC().Format(time.RFC3339Nano), kind,
			way, end.Sub(begin).Milliseconds(), err)
		if ended.cut {
			ended.failure += " (an apiserver-proxy of the node ended)"
		}
		c.Log.Info("Request failed", "kind", kind, "connection", way, "after", end.Sub(begin).String(), "cutByProxy",
			ended.cut, "reason", err.Error())
	}
	c.count().add(ended)
	return err == nil
}

func (c *Client) write(ctx context.Context, client rest.Interface, way string, value int64) error {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, way, strconv.FormatInt(value, 10))
	return client.Patch(types.MergePatchType).Namespace(c.Namespace).Resource(resource).Name(c.Node).
		Body([]byte(patch)).MaxRetries(0).Do(ctx).Error()
}

// staleError reports a read of less than had been acknowledged.
type staleError string

// Error returns what was read.
func (e staleError) Error() string { return string(e) }

// read fails also if what it reads is older than what was acknowledged.
func (c *Client) read(ctx context.Context, client rest.Interface, way string, acknowledged int64) error {
	configMap := &corev1.ConfigMap{}
	if err := client.Get().Namespace(c.Namespace).Resource(resource).Name(c.Node).MaxRetries(0).Do(ctx).
		Into(configMap); err != nil {
		return err
	}
	if acknowledged == 0 {
		return nil
	}
	value, err := strconv.ParseInt(configMap.Data[way], 10, 64)
	if err != nil || value < acknowledged {
		return staleError(fmt.Sprintf("read %q, which is older than %d, whose write was acknowledged",
			configMap.Data[way], acknowledged))
	}
	return nil
}
