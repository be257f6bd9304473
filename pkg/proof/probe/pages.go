// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// pageLabel marks the objects that lists go through. They do not have probeLabel: they are there before the watches
	// and never change, and what lists the written objects has nothing to do with them.
	pageLabel = "livecpm.gardener.cloud/probe-page"

	// maxPage is the size of pages that client-go and kubectl ask for.
	maxPage = 500
	// minPages is how many pages a list has at least.
	minPages = 4

	// pageRate is how many objects are created per second before the load begins: what is there to be read must not
	// cost more than what is measured. pageWriters is how many at once.
	pageRate    = 200
	pageWriters = 8
)

// pageSize is how many objects a page has.
func (p *Probe) pageSize() int64 {
	return int64(min(maxPage, max(1, p.config.ListObjects/minPages)))
}

// createPages creates the objects that lists go through.
func (p *Probe) createPages(ctx context.Context) error {
	limiter := flowcontrol.NewTokenBucketRateLimiter(pageRate, pageWriters)
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(pageWriters)
	for i := range p.config.ListObjects {
		if limiter.Wait(working) != nil {
			// One of them failed, or nobody waits any more: told below.
			break
		}
		group.Go(func() error {
			configMap := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("page-%05d", i), Namespace: p.namespace,
					Labels: map[string]string{pageLabel: p.run},
				},
				Data: map[string]string{dataSequence: "1"},
			}
			if err := p.control.Post().Namespace(p.namespace).Resource("configmaps").Body(configMap).Do(working).
				Error(); err != nil {
				return fmt.Errorf("failed to create ConfigMap %s: %w", configMap.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// page reads the page that the token stands for, which is the first one if it is empty.
func (p *Probe) page(ctx context.Context, c *client, token string) (*corev1.ConfigMapList, error) {
	return c.core.ConfigMaps(p.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: pageLabel, Limit: p.pageSize(), Continue: token})
}

// missingPages counts the objects that lists go through and that are not there any more.
func (p *Probe) missingPages(ctx context.Context) (int64, error) {
	found, token := 0, ""
	for {
		page, err := p.page(ctx, p.admin, token)
		if err != nil {
			return 0, fmt.Errorf("failed to list the objects of pages: %w", err)
		}
		found += len(page.Items)
		if token = page.Continue; token == "" {
			return int64(max(0, p.config.ListObjects-found)), nil
		}
	}
}
