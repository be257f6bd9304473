// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// getting returns the operation that reads all objects that are written in turn, one after the other. Each operation
// begins with another one of them.
func (p *Probe) getting(c *client) operation {
	next := p.readers
	p.readers++
	return func(ctx context.Context) {
		for range p.objects {
			o := p.objects[next%len(p.objects)]
			next++
			if o.ledger.last(o.name) > 0 {
				p.read(ctx, c, o)
				return
			}
		}
		notSent(ctx)
	}
}

// read gets an object and checks that it is at least as new as what was acknowledged before the request was sent.
func (p *Probe) read(ctx context.Context, c *client, o *object) {
	expected, found := o.ledger.last(o.name), int64(0)
	r := request{verbGet, o.kind, o.name}
	if err := p.timedRead(ctx, r, func(ctx context.Context) (err error) {
		found, _, err = o.read(ctx, c, o.name)
		return err
	}); err != nil {
		p.readFailed(r, err)
		return
	}
	if found < expected {
		p.counters.stale.Add(1)
		p.readFailed(r, fmt.Errorf("it gave write %d after %d was acknowledged", found, expected))
	}
}

// listing returns the operation that reads the next page of a list. Where a list ends the next one begins.
func (p *Probe) listing(c *client) operation {
	token, seen := "", 0
	return func(ctx context.Context) {
		r := request{verbList, kindConfigMap, "pages"}
		var page *corev1.ConfigMapList
		err := p.timedRead(ctx, r, func(ctx context.Context) (err error) {
			page, err = p.page(ctx, c, token)
			return err
		})
		if err != nil {
			p.readFailed(r, err)
			token, seen = "", 0
			return
		}
		token, seen = page.Continue, seen+len(page.Items)
		if token != "" {
			return
		}
		if seen != p.config.ListObjects {
			p.counters.stale.Add(1)
			p.readFailed(r, fmt.Errorf("they had %d objects of %d", seen, p.config.ListObjects))
		}
		seen = 0
	}
}

// metricsAPI is the aggregated API that shoots with workers have. Its requests go through the kube-apiserver to another
// API server.
var metricsAPI = schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}

// discoverAggregated finds out whether the aggregated API is there, and notes it if the load has to do without.
func (p *Probe) discoverAggregated(ctx context.Context) {
	err := p.control.Get().AbsPath("/apis", metricsAPI.Group, metricsAPI.Version).Do(ctx).Error()
	switch {
	case err == nil:
		p.aggregated = true
	case apierrors.IsNotFound(err):
		p.skipped = append(p.skipped, fmt.Sprintf("no aggregated API was read: the shoot has no %s",
			metricsAPI.GroupVersion()))
	default:
		p.skipped = append(p.skipped, fmt.Sprintf("no aggregated API was read: %s did not answer before the load: %v",
			metricsAPI.GroupVersion(), err))
	}
}

// metering returns the operation that lists the metrics of the pods in the probe's namespace, of which there are none:
// it is the way that counts.
func (p *Probe) metering(c *client) operation {
	return func(ctx context.Context) {
		r := request{verbList, kindPodMetrics, ""}
		if err := p.timedRead(ctx, r, func(ctx context.Context) error {
			_, err := c.dynamic.Resource(metricsAPI).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
			return err
		}); err != nil {
			p.readFailed(r, err)
		}
	}
}
