// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	// probeLabel marks what the probe writes in turn and its watches see; its value names the run.
	probeLabel = "livecpm.gardener.cloud/probe"

	dataSequence = "sequence"
	dataSentAt   = "sentAt"

	// fieldManager is who owns what is applied.
	fieldManager = "livecpm-probe"
)

// write is a write of an object.
type write struct {
	name string
	// sequence is the number of the write, from 1 on.
	sequence int64
	// revision is the resource version that the write before was acknowledged with; empty if the object is to be
	// created. It makes each write build on the one before: were that one lost, the API server would report a conflict.
	revision string
}

// form says how a kind of objects is written and read.
type form struct {
	kind string
	// ledger takes what was acknowledged.
	ledger *ledger
	// verb is what send does.
	verb func(w write) string
	// send sends a write and returns the resource version of the result.
	send func(ctx context.Context, c *client, w write) (revision string, err error)
	// read returns the number of the last write and the resource version.
	read func(ctx context.Context, c *client, name string) (sequence int64, revision string, err error)
}

// object is an object that is written in turn, by one request at a time.
type object struct {
	*form
	name   string
	client *client

	sequence int64
	revision string
	// inDoubt is set while it is unknown whether the last write was carried out.
	inDoubt bool
}

// writing returns the operation that writes an object of the form.
func (p *Probe) writing(f *form, c *client, name string) operation {
	o := &object{form: f, name: name, client: c}
	p.objects = append(p.objects, o)
	p.doubtful = append(p.doubtful, func(ctx context.Context) {
		if o.inDoubt {
			p.settle(ctx, o, p.admin)
		}
	})
	return func(ctx context.Context) { p.write(ctx, o) }
}

// write carries out the next write of the object, or finds out what became of the one before.
func (p *Probe) write(ctx context.Context, o *object) {
	if o.inDoubt {
		p.settle(ctx, o, o.client)
		return
	}
	next := write{name: o.name, sequence: o.sequence + 1, revision: o.revision}
	revision := ""
	if !p.timedWrite(ctx, request{o.verb(next), o.kind, o.name}, func(ctx context.Context) (err error) {
		revision, err = o.send(ctx, o.client, next)
		return err
	}) {
		o.inDoubt = true
		return
	}
	o.sequence, o.revision = next.sequence, revision
	o.ledger.acknowledge(o.name, o.sequence)
}

// settle reads the object to learn whether a failed write was carried out after all.
func (p *Probe) settle(ctx context.Context, o *object, c *client) {
	r := request{verbGet, o.kind, o.name}
	found, revision := int64(0), ""
	err := p.timedRead(ctx, r, func(ctx context.Context) (err error) {
		found, revision, err = o.read(ctx, c, o.name)
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		// A good answer if the object was just to be created, and a lost write otherwise, which the ledger tells.
		found, revision = 0, ""
	case err != nil:
		p.readFailed(r, err)
		return
	}
	o.ledger.observe(o.name, found)
	o.sequence, o.revision, o.inDoubt = found, revision, false
}

func (p *Probe) newConfigMap(name string, sequence int64) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: p.namespace,
			Labels:    map[string]string{probeLabel: p.run},
		},
		Data: map[string]string{
			dataSequence: strconv.FormatInt(sequence, 10),
			dataSentAt:   strconv.FormatInt(time.Now().UnixNano(), 10),
		},
	}
}

func (p *Probe) createConfigMap(ctx context.Context, c *client, w write) (string, error) {
	return revisionOf(c.core.ConfigMaps(p.namespace).Create(ctx, p.newConfigMap(w.name, w.sequence),
		metav1.CreateOptions{}))
}

func (p *Probe) updateConfigMap(ctx context.Context, c *client, w write) (string, error) {
	next := p.newConfigMap(w.name, w.sequence)
	next.ResourceVersion = w.revision
	return revisionOf(c.core.ConfigMaps(p.namespace).Update(ctx, next, metav1.UpdateOptions{}))
}

func (p *Probe) patchConfigMap(ctx context.Context, c *client, w write) (string, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.revision},
		"data":     p.newConfigMap(w.name, w.sequence).Data,
	})
	if err != nil {
		return "", err
	}
	return revisionOf(c.core.ConfigMaps(p.namespace).Patch(ctx, w.name, types.MergePatchType, patch,
		metav1.PatchOptions{}))
}

// applyConfigMap creates the object as well if it is not there.
func (p *Probe) applyConfigMap(ctx context.Context, c *client, w write) (string, error) {
	next := p.newConfigMap(w.name, w.sequence)
	configuration := applycorev1.ConfigMap(w.name, p.namespace).WithLabels(next.Labels).WithData(next.Data)
	if w.revision != "" {
		configuration = configuration.WithResourceVersion(w.revision)
	}
	return revisionOf(c.core.ConfigMaps(p.namespace).Apply(ctx, configuration,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true}))
}

func (p *Probe) readConfigMap(ctx context.Context, c *client, name string) (int64, string, error) {
	current, err := c.core.ConfigMaps(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, "", err
	}
	return sequenceOf(current), current.ResourceVersion, nil
}

// configMapForm is that of ConfigMaps that are created at first, and written by the given verb from then on.
func (p *Probe) configMapForm(
	verb string, send func(context.Context, *client, write) (string, error),
) *form {
	return &form{
		kind: kindConfigMap, ledger: p.ledger, read: p.readConfigMap,
		verb: func(w write) string {
			if w.revision == "" {
				return verbCreate
			}
			return verb
		},
		send: func(ctx context.Context, c *client, w write) (string, error) {
			if w.revision == "" {
				return p.createConfigMap(ctx, c, w)
			}
			return send(ctx, c, w)
		},
	}
}

func (p *Probe) applyForm() *form {
	return &form{
		kind: kindConfigMap, ledger: p.ledger, read: p.readConfigMap, send: p.applyConfigMap,
		verb: func(write) string { return verbApply },
	}
}

// heartbeatSeconds is how long a heartbeat is good for, as with the Leases of nodes.
const heartbeatSeconds = 40

// leaseForm is that of Leases that are renewed as a kubelet renews that of its node. The number of the write is that of
// the transitions.
func (p *Probe) leaseForm() *form {
	return &form{
		kind: kindLease, ledger: p.leases,
		verb: func(w write) string {
			if w.revision == "" {
				return verbCreate
			}
			return verbUpdate
		},
		send: func(ctx context.Context, c *client, w write) (string, error) {
			// A run makes fewer writes than an int32 can count.
			transitions := int32(w.sequence) //nolint:gosec // See above.
			next := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{
					Name: w.name, Namespace: p.namespace, ResourceVersion: w.revision,
					Labels: map[string]string{probeLabel: p.run},
				},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new(w.name), LeaseDurationSeconds: new(int32(heartbeatSeconds)),
					LeaseTransitions: &transitions, RenewTime: new(metav1.NowMicro()),
				},
			}
			leases := c.leases.Leases(p.namespace)
			if w.revision == "" {
				return revisionOf(leases.Create(ctx, next, metav1.CreateOptions{}))
			}
			return revisionOf(leases.Update(ctx, next, metav1.UpdateOptions{}))
		},
		read: func(ctx context.Context, c *client, name string) (int64, string, error) {
			current, err := c.leases.Leases(p.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return 0, "", err
			}
			return transitionsOf(current), current.ResourceVersion, nil
		},
	}
}

func transitionsOf(lease *coordinationv1.Lease) int64 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return int64(*lease.Spec.LeaseTransitions)
}

// revisionOf returns the resource version of the answer to a write.
func revisionOf(answer metav1.Object, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if answer.GetResourceVersion() == "" {
		return "", errors.New("the answer has no resource version")
	}
	return answer.GetResourceVersion(), nil
}
