// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// etcdInterval is how often the members are listed. It bounds the error of the six-member window.
const etcdInterval = 300 * time.Millisecond

// PodReader gives the pods of a StatefulSet that run in a seed now.
type PodReader interface {
	RunningPods(seed, workload string) []string
}

// EtcdObserver lists the members of one etcd cluster through whichever of its pods answers, in either seed.
type EtcdObserver struct {
	// Role is RoleMain or RoleEvents.
	Role      string
	namespace string
	seeds     []*Cluster
	pods      PodReader
	// Timeline takes what is seen.
	Timeline *MemberTimeline

	tls     *tls.Config
	clients map[string]*clientv3.Client

	mu sync.Mutex
	// err is why the last look at the members failed, if it did.
	err error
}

// NewEtcdObserver returns an observer that has seen nothing yet.
func NewEtcdObserver(role, namespace string, seeds []*Cluster, pods PodReader) *EtcdObserver {
	return &EtcdObserver{
		Role:      role,
		namespace: namespace,
		seeds:     seeds,
		pods:      pods,
		Timeline:  &MemberTimeline{},
		clients:   map[string]*clientv3.Client{},
	}
}

// Run lists the members until the context ends.
func (o *EtcdObserver) Run(ctx context.Context) {
	defer func() {
		for key := range o.clients {
			o.drop(key)
		}
	}()
	ticker := time.NewTicker(etcdInterval)
	defer ticker.Stop()
	for {
		err := o.observe(ctx)
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (o *EtcdObserver) observe(ctx context.Context) error {
	errs := []error{}
	for _, seed := range o.seeds {
		for _, pod := range o.pods.RunningPods(seed.Name, "etcd-"+o.Role) {
			err := o.observeVia(ctx, seed, pod)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("no pod of etcd-%s runs", o.Role)
	}
	return errors.Join(errs...)
}

// LastError is why the last look at the members failed, or nil.
func (o *EtcdObserver) LastError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *EtcdObserver) observeVia(ctx context.Context, seed *Cluster, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()

	key := seed.Name + "/" + pod
	etcd, ok := o.clients[key]
	if !ok {
		var err error
		if etcd, err = o.connect(ctx, seed, pod); err != nil {
			return err
		}
		o.clients[key] = etcd
	}
	began := time.Now()
	response, err := etcd.MemberList(ctx)
	if err != nil {
		o.drop(key)
		return fmt.Errorf("failed to list members of etcd-%s through pod %s: %w", o.Role, key, err)
	}

	members := make([]Member, 0, len(response.Members))
	for _, member := range response.Members {
		name := member.Name
		if name == "" {
			// A member that was added and has not started yet has no name.
			name = "unstarted-" + strconv.FormatUint(member.ID, 16)
		}
		members = append(members, Member{Name: name, Learner: member.IsLearner})
	}
	o.Timeline.Observe(recording.Look{Began: began, Ended: time.Now()}, response.Header.ClusterId, members)
	return nil
}

func (o *EtcdObserver) drop(key string) {
	_ = o.clients[key].Close()
	delete(o.clients, key)
}

func (o *EtcdObserver) connect(ctx context.Context, seed *Cluster, pod string) (*clientv3.Client, error) {
	if o.tls == nil {
		config, err := seed.etcdTLS(ctx, o.namespace, o.Role)
		if err != nil {
			return nil, err
		}
		o.tls = config
	}
	return seed.dialEtcd(EtcdPod{Namespace: o.namespace, Role: o.Role, Name: pod}, o.tls)
}
