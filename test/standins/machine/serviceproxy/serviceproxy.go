// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceproxy stands in for kube-proxy on the nodes, and for what it makes of the kernel, for one Service:
// default/kubernetes. The Service's address is on an interface of the node, and a forwarder in place of rules leads
// each connection to one of the endpoints, at random. As with kube-proxy, a connection stays where it was led to when
// the endpoints change (there it is the kernel's connection tracking that sees to it), and the forwarder continues with
// what it knows when nobody tells it of changes.
//
// What is different: a connection is accepted before the endpoint is known to answer. A client whose endpoint refuses
// it is disconnected at once instead of being refused.
package serviceproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
	"github.com/livecpm/livecpm/test/standins/accept"
)

const (
	// service is the name of the Service, portName that of its port.
	service  = "kubernetes"
	portName = "https"
	// dialTimeout is how long an endpoint may take to accept a connection.
	dialTimeout = 10 * time.Second
)

// Forwarder passes connections on to endpoints.
type Forwarder struct {
	Log logr.Logger
	// Choose returns a number below n; at random if it is nil.
	Choose func(n int) int

	mu        sync.Mutex
	endpoints []string
	led       map[string]led
}

// led is where a connection was led to.
type led struct {
	endpoint string
	// ended is when it ended; zero before.
	ended time.Time
}

// ledKept is for how long it is remembered where a connection was led to after its end.
const ledKept = time.Minute

// LedTo returns the endpoint that the connection of the client with the address was led to, whether that answered or
// not; empty if that is not known. It is known until a while after the end of the connection.
func (f *Forwarder) LedTo(client string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.led[client].endpoint
}

// lead notes where the connection is led to, and forgets those that ended long ago.
func (f *Forwarder) lead(client, endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.led, func(_ string, former led) bool {
		return !former.ended.IsZero() && time.Since(former.ended) > ledKept
	})
	if f.led == nil {
		f.led = map[string]led{}
	}
	f.led[client] = led{endpoint: endpoint}
}

// ended notes the end of the connection.
func (f *Forwarder) ended(client string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if former, known := f.led[client]; known {
		former.ended = time.Now()
		f.led[client] = former
	}
}

// Set replaces the endpoints that new connections are led to.
func (f *Forwarder) Set(endpoints []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.endpoints, endpoints) {
		f.Log.Info("Endpoints changed", "service", service, "before", f.endpoints, "now", endpoints)
	}
	f.endpoints = slices.Clone(endpoints)
}

func (f *Forwarder) endpoint() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	choose := f.Choose
	if choose == nil {
		choose = rand.IntN
	}
	if len(f.endpoints) == 0 {
		return "", errors.New("the Service has no endpoints")
	}
	return f.endpoints[choose(len(f.endpoints))], nil
}

// Serve forwards what the listener accepts until the context ends.
func (f *Forwarder) Serve(ctx context.Context, listener net.Listener) error {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	return accept.Each(ctx, listener, func(conn net.Conn) {
		handlers.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if err := f.forward(ctx, conn.(*net.TCPConn)); err != nil && ctx.Err() == nil {
				f.Log.Info("Could not connect", "service", service, "reason", err.Error())
				wire.Reset(conn)
			}
		})
	})
}

func (f *Forwarder) forward(ctx context.Context, client *net.TCPConn) error {
	from := client.RemoteAddr().String()
	address, err := f.endpoint()
	if err != nil {
		return err
	}
	f.lead(from, address)
	defer f.ended(from)
	endpoint, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to dial endpoint: %w", err)
	}
	defer func() { _ = endpoint.Close() }()
	defer context.AfterFunc(ctx, func() { _ = endpoint.Close() })()
	// It resets either side when the other one fails, and an end that was orderly stays so.
	_ = wire.Join(client, endpoint.(*net.TCPConn), nil, nil)
	return nil
}

// Address returns the address of the Service. It lists, because kube-proxy may list Services and not get them.
func Address(ctx context.Context, client kubernetes.Interface) (netip.AddrPort, error) {
	services, err := client.CoreV1().Services(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", service).String()})
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("failed to list Service default/%s: %w", service, err)
	}
	for _, found := range services.Items {
		if found.Name != service {
			continue
		}
		address, err := netip.ParseAddr(found.Spec.ClusterIP)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("failed to read the address of Service default/%s: %w", service, err)
		}
		i := slices.IndexFunc(found.Spec.Ports, func(port corev1.ServicePort) bool { return port.Name == portName })
		if i < 0 {
			return netip.AddrPort{}, fmt.Errorf("the Service default/%s has no port %s", service, portName)
		}
		return netip.AddrPortFrom(address, uint16(found.Spec.Ports[i].Port)), nil // #nosec G115 -- It is a port.
	}
	return netip.AddrPort{}, fmt.Errorf("there is no Service default/%s", service)
}

// Follow tells the endpoints of the Service, and all their changes, until the context ends.
func Follow(ctx context.Context, client kubernetes.Interface, set func(endpoints []string)) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(metav1.NamespaceDefault),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = discoveryv1.LabelServiceName + "=" + service
		}))
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	// One after the other, and always the whole: an older list must not come after a newer one.
	var telling sync.Mutex
	tell := func() {
		telling.Lock()
		defer telling.Unlock()
		if informer.HasSynced() {
			set(Endpoints(informer.GetStore().List()))
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(_, _ any) { tell() }, DeleteFunc: func(any) { tell() },
	}); err != nil {
		return fmt.Errorf("failed to follow the endpoints of Service default/%s: %w", service, err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	tell()
	<-ctx.Done()
	return ctx.Err()
}

// Endpoints returns addresses and ports in the EndpointSlices of the Service, sorted, without those that are not ready.
func Endpoints(objects []any) []string {
	var out []string
	for _, object := range objects {
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, port := range slice.Ports {
			if ptr.Deref(port.Name, "") != portName || port.Port == nil {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if !ptr.Deref(endpoint.Conditions.Ready, true) {
					continue
				}
				// Clients take the first one, and others are not permitted any more.
				for _, address := range endpoint.Addresses[:min(1, len(endpoint.Addresses))] {
					out = append(out, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
