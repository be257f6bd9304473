// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

const (
	// label marks the objects of the history: a namespace also holds some that others make.
	label     = "livecpm.gardener.cloud/robustness"
	dataValue = "value"
	// watchTimeoutSeconds keeps the server from ending the watch by its own, shorter default within a usual run.
	watchTimeoutSeconds = 3 * 60 * 60
	// causeDecoding is the cause that client-go gives when the stream broke off, rather than that the server ended it.
	causeDecoding metav1.CauseType = "ClientWatchDecoding"
	dialTimeout                    = 5 * time.Second
)

// ConfigMaps is a Store and a Watcher on the ConfigMaps of one namespace, over connections of its own. Requests are
// sent once: client-go's repetition of requests that a server has put off is switched off.
type ConfigMaps struct {
	client    rest.Interface
	namespace string
}

// NewConfigMaps returns the store of the API server that the configuration leads to. Names are resolved by the DNS
// server (host:port) for each new connection, within the time to live of its answers.
func NewConfigMaps(config *rest.Config, dnsServer, namespace string) (*ConfigMaps, error) {
	resolver := probe.NewResolver(dnsServer, clock.RealClock{})
	config = rest.CopyConfig(config)
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, resolver, network, address)
	}
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.UserAgent = "livecpm-robustness"
	config.QPS = -1
	config.RateLimiter = nil
	config.Timeout = 0
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client of the shoot: %w", err)
	}
	return &ConfigMaps{client: clients.CoreV1().RESTClient(), namespace: namespace}, nil
}

func dial(ctx context.Context, resolver *probe.Resolver, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	plain := net.Dialer{Timeout: dialTimeout}
	if _, err := netip.ParseAddr(host); err == nil {
		return plain.DialContext(ctx, network, address)
	}
	addresses, err := resolver.LookupCached(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, ip := range addresses {
		conn, err := plain.DialContext(ctx, network, net.JoinHostPort(ip.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// EnsureNamespace creates the namespace.
func (c *ConfigMaps) EnsureNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace, Labels: map[string]string{label: ""}},
	}
	err := c.client.Post().Resource("namespaces").Body(namespace).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create namespace %s: %w", c.namespace, err)
	}
	return nil
}

// DeleteNamespace asks for the deletion of the namespace.
func (c *ConfigMaps) DeleteNamespace(ctx context.Context) error {
	err := c.client.Delete().Resource("namespaces").Name(c.namespace).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete namespace %s: %w", c.namespace, err)
	}
	return nil
}

// Get implements Store. Without a resource version the API server reads from etcd with quorum.
func (c *ConfigMaps) Get(ctx context.Context, key string) (Object, error) {
	configMap := &corev1.ConfigMap{}
	err := c.client.Get().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").Name(key).Do(ctx).Into(configMap)
	if apierrors.IsNotFound(err) {
		return Object{}, ErrAbsent
	}
	if err != nil {
		return Object{}, err
	}
	return objectOf(configMap)
}

// Create implements Store.
func (c *ConfigMaps) Create(ctx context.Context, key, value string) (uint64, error) {
	return c.written(c.client.Post().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").
		Body(c.configMap(key, value, 0)).Do(ctx), apierrors.IsAlreadyExists)
}

// Update implements Store.
func (c *ConfigMaps) Update(ctx context.Context, key string, expected Object, value string) (uint64, error) {
	return c.written(c.client.Put().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").Name(key).
		Body(c.configMap(key, value, expected.Revision)).Do(ctx), isPreconditionFailure)
}

// Delete implements Store.
func (c *ConfigMaps) Delete(ctx context.Context, key string, expected Object) error {
	preconditions := &metav1.Preconditions{ResourceVersion: ptr.To(strconv.FormatUint(expected.Revision, 10))}
	err := c.client.Delete().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").Name(key).
		Body(&metav1.DeleteOptions{Preconditions: preconditions}).Do(ctx).Error()
	if isPreconditionFailure(err) {
		return ErrRejected
	}
	return err
}

// isPreconditionFailure reports whether the object is not the expected one: another version of it, or none at all.
func isPreconditionFailure(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

func (c *ConfigMaps) written(result rest.Result, rejected func(error) bool) (uint64, error) {
	configMap := &corev1.ConfigMap{}
	if err := result.Into(configMap); err != nil {
		if rejected(err) {
			return 0, ErrRejected
		}
		return 0, err
	}
	object, err := objectOf(configMap)
	return object.Revision, err
}

func (c *ConfigMaps) configMap(key, value string, revision uint64) *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: key, Labels: map[string]string{label: ""}},
		Data:       map[string]string{dataValue: value},
	}
	if revision > 0 {
		configMap.ResourceVersion = strconv.FormatUint(revision, 10)
	}
	return configMap
}

func objectOf(configMap *corev1.ConfigMap) (Object, error) {
	revision, err := strconv.ParseUint(configMap.ResourceVersion, 10, 64)
	if err != nil {
		return Object{}, fmt.Errorf("failed to read the resource version of ConfigMap %s: %w", configMap.Name, err)
	}
	return Object{Value: configMap.Data[dataValue], Revision: revision}, nil
}

// Revision implements Watcher.
func (c *ConfigMaps) Revision(ctx context.Context) (uint64, error) {
	list := &corev1.ConfigMapList{}
	if err := c.client.Get().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").
		VersionedParams(&metav1.ListOptions{LabelSelector: label},
			scheme.ParameterCodec).Do(ctx).Into(list); err != nil {
		return 0, fmt.Errorf("failed to list ConfigMaps in namespace %s: %w", c.namespace, err)
	}
	return strconv.ParseUint(list.ResourceVersion, 10, 64)
}

// Watch implements Watcher.
func (c *ConfigMaps) Watch(ctx context.Context, after uint64, receiver Receiver) error {
	stream, err := c.client.Get().MaxRetries(0).Namespace(c.namespace).Resource("configmaps").
		VersionedParams(&metav1.ListOptions{
			Watch:               true,
			LabelSelector:       label,
			ResourceVersion:     strconv.FormatUint(after, 10),
			AllowWatchBookmarks: true,
			TimeoutSeconds:      ptr.To[int64](watchTimeoutSeconds),
		}, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		return watchError(err)
	}
	defer stream.Stop()
	receiver.Opened()

	for notice := range stream.ResultChan() {
		if notice.Type == watch.Error {
			err := apierrors.FromObject(notice.Object)
			if apierrors.HasStatusCause(err, causeDecoding) {
				return nil // the connection broke off; the next watch continues where this one ended
			}
			return watchError(err)
		}
		configMap, ok := notice.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("watch delivered a %T", notice.Object)
		}
		object, err := objectOf(configMap)
		if err != nil {
			return err
		}
		if notice.Type == watch.Bookmark {
			receiver.Progress(object.Revision)
			continue
		}
		receiver.Deliver(Event{Type: EventType(notice.Type), Key: configMap.Name, Value: object.Value,
			Revision: object.Revision})
	}
	return nil
}

func watchError(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
