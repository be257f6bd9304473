// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package joint makes one etcd cluster of the members in two seeds, and one of the members in the destination again.
//
// The destination adds its members to the running cluster of the source: its Etcd resources are created with the
// source's member list and with a peer port of their own. The source retires its members one by one. No decision rests
// on what was done before: every function reads the member list, the members' own status, the StatefulSet and the pods,
// and continues from there. Joint says what little it remembers.
package joint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	defaultPollInterval = 500 * time.Millisecond
	defaultStuckAfter   = 3 * time.Minute
	// statusTimeout bounds the question for the members' status: one that is down must not hold up the look at the
	// others.
	statusTimeout = 2 * time.Second
)

// Config configures a Joint.
type Config struct {
	// Log carries shoot, seed, role and step.
	Log logr.Logger
	// Client is a client of the agent's own seed. It must not be backed by a cache.
	Client client.Client
	// Pods, if set, are the pods of the namespace in the agent's own seed, with the API server behind them. Without
	// them each question to a member gets its pod first.
	Pods Pods
	// Namespace is the shoot's namespace, the same in both seeds.
	Namespace string
	// Role is the role of the agent's own seed.
	Role steps.Role
	// Members is how many members the etcds of the shoot have in one seed. It defaults to naming.MembersPerSeed; the
	// other one that there is, is naming.SingleMember.
	Members int
	// SourceSeed and DestinationSeed are the names of the seeds; Gardener prefixes the names of etcd members with them.
	SourceSeed, DestinationSeed string
	// Clock is used instead of the time package.
	Clock clock.Clock
	// PollInterval is the pause between two looks. It defaults to half a second: the time in which the cluster has six
	// members is made of such pauses.
	PollInterval time.Duration
	// StuckAfter is how long a learner may exist without having started before it is removed, and how long a pod may
	// run without becoming a member before it is deleted. Defaults to three minutes.
	StuckAfter time.Duration
	// FrontPatience is how long a front is asked again that does not do what it is asked for, before the work goes on
	// without it. Defaults to 30 seconds.
	FrontPatience time.Duration
	// SteadyTime is how long a restarted member must have been as it should be before it counts as restarted. Defaults
	// to three seconds.
	SteadyTime time.Duration
	// TLS returns the configuration of a client of the etcd with the role. By default the secrets are those that the
	// Etcd resource refers to.
	TLS func(ctx context.Context, etcdRole string) (*tls.Config, error)
	// NewCluster may be set to use other than real clusters.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
	// Front, if set, returns the front of the etcd with the role, or nil if it has none: in the source, and in the
	// destination before its kube-apiserver starts. Joint asks each time it needs one, and closes it.
	Front func(ctx context.Context, etcdRole string) (Front, error)
	// Refuses may be set to ask other than real hosts whether nobody listens at an address.
	Refuses func(ctx context.Context, address string) bool
	// Clients, if set, returns an overload.Error as long as clients of the shoot wait too long for its kube-apiserver.
	// Leadership does not move to the destination meanwhile, unless there are six voters.
	Clients func(ctx context.Context) error
	// OnVoters, if set, is called with the number of voters whenever they were counted.
	OnVoters func(etcdRole string, voters int)
}

// Joint works on the etcd clusters of one shoot, from one of the two seeds.
//
// It keeps connections, and it remembers since when learners and pods have been stuck. Neither etcd nor Kubernetes tell
// that. An agent that restarts begins to count again: a stuck member then gets up to StuckAfter more before it is
// removed, and nothing is removed too early.
type Joint struct {
	Config

	lock     sync.Mutex
	clusters map[string]etcdclient.Cluster
	// unstarted holds when a learner without a name was seen first, by its ID. etcd does not tell its age.
	unstarted map[uint64]time.Time
	// aside holds since when a pod has run without being a member although it could become one, by role of the etcd.
	// The pod's age does not tell: time counts only while the cluster can take a member in.
	aside map[string]map[types.UID]time.Time
	// steady holds since when a restarted member has been as it should be, by the UID of its pod.
	steady map[types.UID]time.Time
	// led is what the front was asked for last, by member. An agent that restarts asks again.
	led map[ledTo]ledState
	// spells holds since when something has been so.
	spells map[spell]time.Time
	// slow holds which clusters were too slow for a move, by role of the etcd.
	slow map[string]slowness
	// moving has room for one: the cluster whose leadership moves. It need not outlive the process: so does the move.
	moving chan struct{}
}

// New returns a Joint. Close it after use.
func New(config Config) *Joint {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Members == 0 {
		config.Members = naming.MembersPerSeed
	}
	if config.PollInterval == 0 {
		config.PollInterval = defaultPollInterval
	}
	if config.StuckAfter == 0 {
		config.StuckAfter = defaultStuckAfter
	}
	if config.FrontPatience == 0 {
		config.FrontPatience = defaultFrontPatience
	}
	if config.SteadyTime == 0 {
		config.SteadyTime = defaultSteadyTime
	}
	j := &Joint{Config: config, clusters: map[string]etcdclient.Cluster{}, unstarted: map[uint64]time.Time{},
		aside: map[string]map[types.UID]time.Time{}, steady: map[types.UID]time.Time{}, led: map[ledTo]ledState{},
		spells: map[spell]time.Time{}, slow: map[string]slowness{}, moving: make(chan struct{}, 1)}
	if j.TLS == nil {
		j.TLS = j.tlsFromEtcd
	}
	if j.NewCluster == nil {
		j.NewCluster = j.newCluster
	}
	if j.Refuses == nil {
		j.Refuses = refuses
	}
	return j
}

// spell is a time for which something is so with a cluster, and for which the agent has only limited patience.
type spell struct{ etcdRole, what string }

// lasted says that something is so, and returns for how long it has been.
func (j *Joint) lasted(s spell) time.Duration {
	j.lock.Lock()
	defer j.lock.Unlock()
	if _, known := j.spells[s]; !known {
		j.spells[s] = j.Clock.Now()
	}
	return j.Clock.Since(j.spells[s])
}

// end says that it is not so any more.
func (j *Joint) end(s spell) {
	j.lock.Lock()
	defer j.lock.Unlock()
	delete(j.spells, s)
}

// Close closes the connections to the clusters.
func (j *Joint) Close() error {
	j.lock.Lock()
	defer j.lock.Unlock()
	var errs []error
	for etcdRole, cluster := range j.clusters {
		errs = append(errs, cluster.Close())
		delete(j.clusters, etcdRole)
	}
	return errors.Join(errs...)
}

func (j *Joint) cluster(ctx context.Context, etcdRole string) (etcdclient.Cluster, error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	if cluster, ok := j.clusters[etcdRole]; ok {
		return cluster, nil
	}
	cluster, err := j.NewCluster(ctx, etcdRole)
	if err != nil {
		return nil, fmt.Errorf("failed to set up a client for %s: %w", naming.EtcdName(etcdRole), err)
	}
	j.clusters[etcdRole] = cluster
	return cluster, nil
}

// OpenReader returns access to one of the clusters for a caller that only looks, and that closes it.
func (j *Joint) OpenReader(ctx context.Context, etcdRole string) (etcdclient.Reader, error) {
	cluster, err := j.NewCluster(ctx, etcdRole)
	if err != nil {
		return nil, fmt.Errorf("failed to set up a client for %s: %w", naming.EtcdName(etcdRole), err)
	}
	return cluster, nil
}

func (j *Joint) newCluster(ctx context.Context, etcdRole string) (etcdclient.Cluster, error) {
	tlsConfig, err := j.TLS(ctx, etcdRole)
	if err != nil {
		return nil, err
	}
	return etcdclient.New(tlsConfig, &locator{joint: j, etcdRole: etcdRole}, 0), nil
}

func (j *Joint) tlsFromEtcd(ctx context.Context, etcdRole string) (*tls.Config, error) {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return nil, err
	}
	return etcdclient.TLSFromEtcd(ctx, j.Client, etcd)
}
