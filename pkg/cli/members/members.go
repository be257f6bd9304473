// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package members asks the etcd members of a shoot themselves, through the API servers of the seeds that the user has
// access to.
package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// timeout bounds one call to a member.
	timeout = 4 * time.Second
	// defaultClientPort is what etcd-druid takes when an Etcd sets none.
	defaultClientPort = 2379
)

// Roles are the roles of a shoot's etcds.
var Roles = []string{v1beta1constants.ETCDRoleMain, v1beta1constants.ETCDRoleEvents}

// Dialer connects to a port of a pod.
type Dialer interface {
	Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
}

// Seed is access to one seed.
type Seed struct {
	// Reader reads objects.
	Reader client.Reader
	// Dialer connects to pods.
	Dialer Dialer
}

// Etcd is one etcd cluster of a shoot.
type Etcd struct {
	// Role is main or events.
	Role string
	// Resources are its Etcd resources by the names of the seeds.
	Resources map[string]*druidcorev1alpha1.Etcd
	// Inspection is what the members say.
	Inspection etcdclient.Inspection
	// Err tells why they could not be asked.
	Err error
	// Reached reports that a member was connected to. An etcd that was reached and gives no member list has no quorum;
	// one that was not reached may be in perfect order, and the user lacks permissions.
	Reached bool
}

// Looker asks the members. It keeps its connections, so that one can look again and again.
type Looker struct {
	seeds map[string]Seed
	// open makes a client of an etcd.
	open func(ctx context.Context, reader client.Reader, etcd *druidcorev1alpha1.Etcd,
		places *places) (etcdclient.Reader, error)

	mu       sync.Mutex
	clusters map[string]*opened
}

type opened struct {
	etcdclient.Reader
	places *places
}

// New returns a Looker for the seeds.
func New(seeds map[string]Seed) *Looker {
	l := &Looker{seeds: seeds, clusters: map[string]*opened{}}
	l.open = func(ctx context.Context, reader client.Reader, etcd *druidcorev1alpha1.Etcd,
		places *places) (etcdclient.Reader, error) {
		config, err := etcdclient.TLSFromEtcd(ctx, reader, etcd)
		if err != nil {
			return nil, err
		}
		return etcdclient.NewReader(config, places, timeout, places.dial), nil
	}
	return l
}

// Close closes all connections.
func (l *Looker) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cluster := range l.clusters {
		_ = cluster.Close()
	}
	l.clusters = map[string]*opened{}
}

// Look asks the members of the etcds in the namespace. The seeds without access are left out; an etcd of which no seed
// has a resource as well.
func (l *Looker) Look(ctx context.Context, namespace string, seeds ...string) []Etcd {
	var out []Etcd
	for _, role := range Roles {
		if etcd, found := l.look(ctx, namespace, role, seeds); found {
			out = append(out, etcd)
		}
	}
	return out
}

func (l *Looker) look(ctx context.Context, namespace, role string, seeds []string) (Etcd, bool) {
	out := Etcd{Role: role, Resources: map[string]*druidcorev1alpha1.Etcd{}}
	cluster, err := l.cluster(ctx, namespace, role, seeds, out.Resources)
	switch {
	case err != nil:
		out.Err = err
		return out, true
	case cluster == nil:
		return out, false
	}
	out.Inspection, out.Err = etcdclient.Inspect(ctx, cluster, timeout)
	out.Reached = out.Err == nil || l.reached(namespace, role)
	return out, true
}

func (l *Looker) reached(namespace, role string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clusters[namespace+"/"+role].places.connected.Load()
}

// Cluster returns a client of the etcd, nil if no seed has a resource of it. Close of the Looker closes it.
func (l *Looker) Cluster(ctx context.Context, namespace, role string, seeds ...string) (etcdclient.Reader, error) {
	return l.cluster(ctx, namespace, role, seeds, map[string]*druidcorev1alpha1.Etcd{})
}

func (l *Looker) cluster(
	ctx context.Context, namespace, role string, seeds []string, resources map[string]*druidcorev1alpha1.Etcd,
) (etcdclient.Reader, error) {
	var (
		name  = naming.EtcdName(role)
		found []place
		errs  []error
		last  *druidcorev1alpha1.Etcd
		from  client.Reader
	)
	for _, seedName := range seeds {
		seed, ok := l.seeds[seedName]
		if !ok {
			continue
		}
		etcd := &druidcorev1alpha1.Etcd{}
		key := client.ObjectKey{Namespace: namespace, Name: name}
		if err := seed.Reader.Get(ctx, key, etcd); err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("failed to get Etcd %s in seed %s: %w", key, seedName, err))
			}
			continue
		}
		resources[seedName] = etcd
		pods := &corev1.PodList{}
		if err := seed.Reader.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			errs = append(errs, fmt.Errorf("failed to list the Pods of Etcd %s in seed %s: %w", key, seedName, err))
			continue
		}
		last, from = etcd, seed.Reader
		for _, pod := range pods.Items {
			owner := metav1.GetControllerOf(&pod)
			if owner == nil || owner.Kind != "StatefulSet" || owner.Name != name ||
				pod.Status.Phase != corev1.PodRunning {
				continue
			}
			found = append(found, place{
				seed: seedName, pod: pod.Name, member: MemberName(etcd, pod.Name),
				port: int(ptr.Deref(etcd.Spec.Etcd.ClientPort, defaultClientPort)), dialer: seed.Dialer,
			})
		}
	}
	if last == nil {
		return nil, errors.Join(errs...)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	key := namespace + "/" + role
	known, ok := l.clusters[key]
	if !ok {
		known = &opened{places: &places{
			namespace: namespace, name: name,
			serverName: fmt.Sprintf("%s.%s.svc", naming.ClientServiceName(role), namespace),
		}}
		var err error
		if known.Reader, err = l.open(ctx, from, last, known.places); err != nil {
			return nil, errors.Join(append(errs, fmt.Errorf("failed to set up a client for %s: %w", name, err))...)
		}
		l.clusters[key] = known
	}
	known.places.set(found)
	return known.Reader, nil
}

// MemberName returns the name of the member that runs in the pod.
func MemberName(etcd *druidcorev1alpha1.Etcd, pod string) string {
	if prefix := ptr.Deref(etcd.Spec.MemberNamePrefix, ""); prefix != "" {
		return prefix + "-" + pod
	}
	return pod
}

// place is where a member runs.
type place struct {
	seed, pod, member string
	port              int
	dialer            Dialer
}

func (p place) address() string { return net.JoinHostPort(p.seed+"/"+p.pod, strconv.Itoa(p.port)) }

// places are where the members of an etcd run now. It implements etcdclient.Locator.
type places struct {
	namespace, name, serverName string

	mu  sync.Mutex
	all []place

	// connected tells that one of them was connected to.
	connected atomic.Bool
}

func (p *places) set(all []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = all
}

func (p *places) get() []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// Service implements etcdclient.Locator.
func (p *places) Service(context.Context) ([]etcdclient.Endpoint, error) {
	var out []etcdclient.Endpoint
	for _, place := range p.get() {
		out = append(out, etcdclient.Endpoint{Address: place.address(), ServerName: p.serverName})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no pod of %s runs in a seed that there is access to", p.name)
	}
	return out, nil
}

// Member implements etcdclient.Locator.
func (p *places) Member(_ context.Context, member etcdclient.Member) (etcdclient.Endpoint, error) {
	for _, place := range p.get() {
		if place.member == member.Name {
			return etcdclient.Endpoint{Address: place.address(), ServerName: p.serverName}, nil
		}
	}
	return etcdclient.Endpoint{}, fmt.Errorf("no pod of %s runs in a seed that there is access to", member)
}

func (p *places) dial(ctx context.Context, _, address string) (net.Conn, error) {
	for _, place := range p.get() {
		if place.address() == address {
			conn, err := place.dialer.Dial(ctx, p.namespace, place.pod, place.port)
			if err == nil {
				p.connected.Store(true)
			}
			return conn, err
		}
	}
	return nil, fmt.Errorf("pod %s does not run any more",
		strings.TrimSuffix(address, ":"+strconv.Itoa(defaultClientPort)))
}
