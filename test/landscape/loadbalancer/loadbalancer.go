// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer puts a load balancer in front of a Service of a seed, as a cloud's controller would.
package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

const (
	// proxyHealthPort is where kube-proxy tells whether a node may have connections to Services whose external traffic
	// policy is Cluster.
	proxyHealthPort = 10256
	// retryPeriod is between two attempts to do what has failed.
	retryPeriod = time.Second
)

// Gateway is the Service of a seed's ingress gateway.
var Gateway = types.NamespacedName{Namespace: "istio-ingress", Name: "istio-ingressgateway"}

// Front is the load balancer.
type Front interface {
	// Set makes it serve the target until the context ends. Without ports it answers nobody.
	Set(ctx context.Context, target loadbalancer.Target) error
}

// Controller serves one seed.
type Controller struct {
	Log    logr.Logger
	Client kubernetes.Interface
	// Service is the one that gets the load balancer.
	Service types.NamespacedName
	// Address is the public address.
	Address netip.Addr
	// Hostname, when set, is what the Service gets to know instead of the address. DNS leads from it there.
	Hostname string
	Front    Front
	// EnsureAddress makes this network namespace answer for the address.
	EnsureAddress func() error
	// Nodes is told the addresses of the seed's nodes, those that get no connections included.
	Nodes func(addresses []netip.Addr)

	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
}

// Run serves until the context ends. The seed's API server may come and go.
func (c *Controller) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already and will see this change too
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	}
	services := informers.NewSharedInformerFactoryWithOptions(c.Client, 0,
		informers.WithNamespace(c.Service.Namespace))
	nodes := informers.NewSharedInformerFactory(c.Client, 0)
	c.services, c.nodes = services.Core().V1().Services().Lister(), nodes.Core().V1().Nodes().Lister()
	for _, informer := range []cache.SharedIndexInformer{
		services.Core().V1().Services().Informer(), nodes.Core().V1().Nodes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("failed to watch: %w", err)
		}
	}
	for _, factory := range []informers.SharedInformerFactory{services, nodes} {
		factory.Start(ctx.Done())
		defer factory.Shutdown()
	}
	for _, factory := range []informers.SharedInformerFactory{services, nodes} {
		factory.WaitForCacheSync(ctx.Done())
	}
	for ctx.Err() == nil {
		if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
			c.Log.Info("Failed to serve the Service, trying again", "reason", err.Error())
			time.AfterFunc(retryPeriod, notify)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// reconcile gives the Service a load balancer if it asks for one.
func (c *Controller) reconcile(ctx context.Context) error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("failed to list nodes: %w", err)
	}
	var all, eligible []netip.Addr
	for _, node := range nodes {
		address, err := addressOf(node)
		if err != nil {
			return err
		}
		all = append(all, address)
		if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; !excluded {
			eligible = append(eligible, address)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	slices.SortFunc(eligible, netip.Addr.Compare)
	c.Nodes(all)
	service, err := c.services.Services(c.Service.Namespace).Get(c.Service.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to get service %s: %w", c.Service, err)
	}
	if err != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.DeletionTimestamp != nil {
		return c.Front.Set(ctx, loadbalancer.Target{})
	}
	target, ready := targetOf(service, eligible)
	if !ready {
		return nil // the API server allocates the ports with the next change
	}
	if err := c.EnsureAddress(); err != nil {
		return err
	}
	if err := c.Front.Set(ctx, target); err != nil {
		return err
	}
	return c.publish(ctx, service)
}

// addressOf returns the address by which a node is reached. A kubelet writes it before the node is of any use.
func addressOf(node *corev1.Node) (netip.Addr, error) {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			ip, err := netip.ParseAddr(address.Address)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("failed to read address of node %s: %w", node.Name, err)
			}
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("node %s has no address yet", node.Name)
}

// targetOf returns where the connections of the Service go, and whether the Service has its node ports.
func targetOf(service *corev1.Service, nodes []netip.Addr) (loadbalancer.Target, bool) {
	target := loadbalancer.Target{Ports: map[int32]int32{}, Nodes: nodes, HealthPort: proxyHealthPort}
	for _, port := range service.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
			continue
		}
		if port.NodePort == 0 {
			return loadbalancer.Target{}, false
		}
		target.Ports[port.Port] = port.NodePort
	}
	if service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		target.HealthPort = service.Spec.HealthCheckNodePort
	}
	return target, target.HealthPort != 0
}

// publish writes the address into the Service's status. Because of the mode Proxy, kube-proxy leaves the address alone:
// what the pods of the seed send there passes the load balancer like everything else.
func (c *Controller) publish(ctx context.Context, service *corev1.Service) error {
	ingress := []corev1.LoadBalancerIngress{{IP: c.Address.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}}
	if c.Hostname != "" {
		ingress = []corev1.LoadBalancerIngress{{Hostname: c.Hostname}}
	}
	if equality.Semantic.DeepEqual(service.Status.LoadBalancer.Ingress, ingress) {
		return nil
	}
	service = service.DeepCopy()
	service.Status.LoadBalancer.Ingress = ingress
	if _, err := c.Client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service,
		metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("failed to set address of service %s: %w", c.Service, err)
	}
	c.Log.Info("Gave the Service its public address", "service", c.Service.String(), "ingress", ingress[0])
	return nil
}
