// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// memberTimeout bounds one call to a member.
	memberTimeout = 4 * time.Second
	// defaultClientPort is what etcd-druid takes when an Etcd sets none.
	defaultClientPort = 2379
)

// etcdRoles are the roles of a shoot's etcds.
var etcdRoles = []string{v1beta1constants.ETCDRoleMain, v1beta1constants.ETCDRoleEvents}

// Etcd is one etcd cluster of a shoot.
type Etcd struct {
	// Role is main or events.
	Role string
	// Resources are its Etcd resources by the names of the seeds.
	Resources map[string]*druidcorev1alpha1.Etcd
	// Inspection is what the members say.
	Inspection etcdclient.Inspection
	// Err says why they could not be asked.
	Err error
	// Reached reports that a member was connected to. An etcd that was reached and gives no member list has no quorum;
	// one that was not reached may be in perfect order, and the user lacks permissions.
	Reached bool
}

// Members asks the etcd members of shoots themselves, through the API servers of the seeds that the user has access to.
// It keeps its connections, so that it can ask again and again.
type Members struct {
	seeds access.Seeds
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

// NewMembers returns Members for the seeds.
func NewMembers(seeds access.Seeds) *Members {
	m := &Members{seeds: seeds, clusters: map[string]*opened{}}
	m.open = func(ctx context.Context, reader client.Reader, etcd *druidcorev1alpha1.Etcd,
		places *places) (etcdclient.Reader, error) {
		config, err := etcdclient.TLSFromEtcd(ctx, reader, etcd)
		if err != nil {
			return nil, err
		}
		return etcdclient.NewReader(config, places, memberTimeout, places.dial), nil
	}
	return m
}

// Close closes all connections.
func (m *Members) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cluster := range m.clusters {
		_ = cluster.Close()
	}
	m.clusters = map[string]*opened{}
}

// Ask asks the members of the etcds in the namespace. The seeds without access are left out; an etcd of which no seed
// has a resource as well.
func (m *Members) Ask(ctx context.Context, namespace string, seeds ...string) []Etcd {
	var out []Etcd
	for _, role := range etcdRoles {
		if etcd, found := m.ask(ctx, namespace, role, seeds); found {
			out = append(out, etcd)
		}
	}
	return out
}

func (m *Members) ask(ctx context.Context, namespace, role string, seeds []string) (Etcd, bool) {
	seen := m.find(ctx, namespace, role, seeds)
	out := Etcd{Role: role, Resources: seen.resources}
	cluster, err := m.connect(ctx, namespace, role, seen)
	switch {
	case err != nil:
		out.Err = err
		return out, true
	case cluster == nil:
		return out, false
	}
	out.Inspection, out.Err = etcdclient.Inspect(ctx, cluster, memberTimeout)
	out.Reached = out.Err == nil || m.reached(namespace, role)
	return out, true
}

func (m *Members) reached(namespace, role string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[namespace+"/"+role].places.connected.Load()
}

// Cluster returns a client of the etcd, nil if no seed has a resource of it. Close closes it.
func (m *Members) Cluster(ctx context.Context, namespace, role string, seeds ...string) (etcdclient.Reader, error) {
	return m.connect(ctx, namespace, role, m.find(ctx, namespace, role, seeds))
}

// sighting is what the seeds hold of an etcd.
type sighting struct {
	// resources are its Etcd resources by the names of the seeds.
	resources map[string]*druidcorev1alpha1.Etcd
	// places are where its members run.
	places []place
	// last is the resource in the last seed whose pods could be listed, reader reads in that seed.
	last   *druidcorev1alpha1.Etcd
	reader client.Reader
	// errs say what could not be read.
	errs []error
}

// find looks for the etcd in the seeds that there is access to.
func (m *Members) find(ctx context.Context, namespace, role string, seeds []string) sighting {
	key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(role)}
	out := sighting{resources: map[string]*druidcorev1alpha1.Etcd{}}
	for _, name := range seeds {
		seed, ok := m.seeds[name]
		if !ok {
			continue
		}
		etcd := &druidcorev1alpha1.Etcd{}
		if err := seed.Reader.Get(ctx, key, etcd); err != nil {
			if !apierrors.IsNotFound(err) {
				out.errs = append(out.errs, fmt.Errorf("failed to get Etcd %s in seed %s: %w", key, name, err))
			}
			continue
		}
		out.resources[name] = etcd
		pods := &corev1.PodList{}
		if err := seed.Reader.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			out.errs = append(out.errs,
				fmt.Errorf("failed to list the Pods of Etcd %s in seed %s: %w", key, name, err))
			continue
		}
		out.last, out.reader = etcd, seed.Reader
		for _, pod := range pods.Items {
			if !ownedByStatefulSet(pod, etcd.Name) || pod.Status.Phase != corev1.PodRunning {
				continue
			}
			out.places = append(out.places, place{
				seed: name, pod: pod.Name, member: MemberName(etcd, pod.Name),
				port: int(ptr.Deref(etcd.Spec.Etcd.ClientPort, defaultClientPort)), dialer: seed.Dialer,
			})
		}
	}
	return out
}

// connect returns a client for what was seen of the etcd, the same one at every call; nil if nothing was seen.
func (m *Members) connect(ctx context.Context, namespace, role string, seen sighting) (etcdclient.Reader, error) {
	if seen.last == nil {
		return nil, errors.Join(seen.errs...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := namespace + "/" + role
	known, ok := m.clusters[key]
	if !ok {
		name := naming.EtcdName(role)
		known = &opened{places: &places{
			namespace: namespace, name: name,
			serverName: fmt.Sprintf("%s.%s.svc", naming.ClientServiceName(role), namespace),
		}}
		var err error
		if known.Reader, err = m.open(ctx, seen.reader, seen.last, known.places); err != nil {
			return nil, errors.Join(append(seen.errs, fmt.Errorf("failed to set up a client for %s: %w", name, err))...)
		}
		m.clusters[key] = known
	}
	known.places.set(seen.places)
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
	dialer            access.PodDialer
}

func (p place) address() string { return net.JoinHostPort(p.seed+"/"+p.pod, strconv.Itoa(p.port)) }

// places are where the members of an etcd run now. It implements etcdclient.Locator.
type places struct {
	namespace, name, serverName string

	mu  sync.Mutex
	all []place

	// connected reports whether one of them was connected to.
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
	return nil, fmt.Errorf("pod %s no longer runs",
		strings.TrimSuffix(address, ":"+strconv.Itoa(defaultClientPort)))
}
