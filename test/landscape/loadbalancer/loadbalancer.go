// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer gives the ingress gateway of a seed its public address, as a cloud's controller would.
package loadbalancer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// Namespace is where the Service is that gets the address.
	Namespace = "istio-ingress"
	// Name is the name of that Service.
	Name = "istio-ingressgateway"
)

// Controller serves one seed.
type Controller struct {
	Log    logr.Logger
	Client kubernetes.Interface
	// IP is the address.
	IP string
	// Hostname, when set, is what the Service gets to know instead of the address. DNS leads from it there.
	Hostname string
	// EnsureAddress makes the seed's node answer for the address.
	EnsureAddress func() error
}

// Run serves until the context ends. The seed's API server may come and go.
func (c *Controller) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.watch(ctx); err != nil && ctx.Err() == nil {
			c.Log.Info("Watching the gateway's Service was interrupted, continuing", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (c *Controller) watch(ctx context.Context) error {
	events, err := c.Client.CoreV1().Services(Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String(),
	})
	if err != nil {
		return fmt.Errorf("failed to watch services: %w", err)
	}
	defer events.Stop()
	defer context.AfterFunc(ctx, events.Stop)()
	for event := range events.ResultChan() {
		service, ok := event.Object.(*corev1.Service)
		if !ok || event.Type == watch.Deleted {
			continue
		}
		if err := c.Reconcile(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// Reconcile gives the address to the Service if it asks for one and has none.
func (c *Controller) Reconcile(ctx context.Context, service *corev1.Service) error {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if err := c.EnsureAddress(); err != nil {
		return err
	}
	wanted := corev1.LoadBalancerIngress{IP: c.IP}
	if c.Hostname != "" {
		wanted = corev1.LoadBalancerIngress{Hostname: c.Hostname}
	}
	if ingress := service.Status.LoadBalancer.Ingress; len(ingress) == 1 && ingress[0].IP == wanted.IP &&
		ingress[0].Hostname == wanted.Hostname {
		return nil
	}
	service = service.DeepCopy()
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{wanted}
	if _, err := c.Client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service,
		metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("failed to set address of service %s/%s: %w", service.Namespace, service.Name, err)
	}
	c.Log.Info("Gave the gateway its address", "ip", c.IP, "hostname", c.Hostname)
	return nil
}
