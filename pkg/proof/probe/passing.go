// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// marking returns the operation that creates a further object each time, which is left alone from then on.
func (p *Probe) marking(c *client, name string) operation {
	number := 0
	return func(ctx context.Context) {
		number++
		name := fmt.Sprintf("%s-%d", name, number)
		if p.timedWrite(ctx, request{verbCreate, kindConfigMap, name}, func(ctx context.Context) error {
			_, err := p.createConfigMap(ctx, c, write{name: name, sequence: 1})
			return err
		}) {
			p.ledger.acknowledge(name, 1)
		}
	}
}

// The writes of an object that passes.
const (
	briefCreated int64 = 1
	briefDeleted int64 = 2
)

// brief is an object that is created and deleted in turns, each time with another name.
type brief struct {
	prefix string
	client *client

	number  int
	present bool
	// inDoubt is set while it is unknown whether the last write was carried out.
	inDoubt bool
}

func (b *brief) name() string { return fmt.Sprintf("%s-%d", b.prefix, b.number) }

// passing returns the operation that creates an object, and deletes it the next time.
func (p *Probe) passing(c *client, name string) operation {
	b := &brief{prefix: name, client: c}
	p.doubtful = append(p.doubtful, func(ctx context.Context) {
		if b.inDoubt {
			p.settleBrief(ctx, b, p.admin)
		}
	})
	return func(ctx context.Context) {
		switch {
		case b.inDoubt:
			p.settleBrief(ctx, b, b.client)
		case b.present:
			p.deleteBrief(ctx, b)
		default:
			p.createBrief(ctx, b)
		}
	}
}

func (p *Probe) createBrief(ctx context.Context, b *brief) {
	b.number++
	if !p.timedWrite(ctx, request{verbCreate, kindConfigMap, b.name()}, func(ctx context.Context) error {
		_, err := p.createConfigMap(ctx, b.client, write{name: b.name(), sequence: briefCreated})
		return err
	}) {
		b.inDoubt = true
		return
	}
	b.present = true
	p.ledger.acknowledge(b.name(), briefCreated)
}

func (p *Probe) deleteBrief(ctx context.Context, b *brief) {
	if !p.timedWrite(ctx, request{verbDelete, kindConfigMap, b.name()}, func(ctx context.Context) error {
		return b.client.core.ConfigMaps(p.namespace).Delete(ctx, b.name(), metav1.DeleteOptions{})
	}) {
		b.inDoubt = true
		return
	}
	b.present = false
	p.ledger.acknowledge(b.name(), briefDeleted)
	p.ledger.gone(b.name())
}

// settleBrief finds out whether the object is there.
func (p *Probe) settleBrief(ctx context.Context, b *brief, c *client) {
	r := request{verbGet, kindConfigMap, b.name()}
	err := p.timedRead(ctx, r, func(ctx context.Context) error {
		_, _, err := p.readConfigMap(ctx, c, b.name())
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		// If its creation was acknowledged, it was the deletion that was in doubt.
		p.ledger.gone(b.name())
		b.present, b.inDoubt = false, false
	case err != nil:
		p.readFailed(r, err)
	default:
		b.present, b.inDoubt = true, false
	}
}
