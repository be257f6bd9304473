// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package joint makes one etcd cluster of the members in two seeds, and one of the members in the destination again.
//
// The destination adds its members to the running cluster of the source: its Etcd resources are created with the
// source's member list and with a peer port of their own. The source retires its members one by one. Nothing is
// remembered: every function reads the member list, the members' own status, the StatefulSet and the pods, and
// continues from there.
package joint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	defaultPollInterval = 500 * time.Millisecond
	defaultStuckAfter   = 3 * time.Minute
	// statusTimeout bounds the question for the members' status: one that is down must not hold up the look at the
	// others.
	statusTimeout = 2 * time.Second
)

// ReportFunc publishes what is being waited for.
type ReportFunc func(ctx context.Context, reason steps.Reason, message string) error

// Config configures a Joint.
type Config struct {
	// Log carries shoot, seed, role and step.
	Log logr.Logger
	// Client is a client of the agent's own seed. It must not be backed by a cache.
	Client client.Client
	// Namespace is the shoot's namespace, the same in both seeds.
	Namespace string
	// Role is the role of the agent's own seed.
	Role steps.Role
	// SourceSeed and DestinationSeed are the names of the seeds; Gardener prefixes the names of etcd members with them.
	SourceSeed, DestinationSeed string
	// Clock is used instead of the time package.
	Clock clock.Clock
	// PollInterval is the pause between two looks. It defaults to half a second: the time in which the cluster has six
	// members is made of such pauses.
	PollInterval time.Duration
	// StuckAfter is how long a learner may exist without having started before it is removed, and how long a pod may
	// run without becoming a member before it begins again. Defaults to three minutes.
	StuckAfter time.Duration
	// QuietTimeout is how long to wait for a good moment to transfer leadership. Defaults to 30 seconds.
	QuietTimeout time.Duration
	// TLS returns the configuration of a client of the etcd with the role. By default the secrets are those that the
	// Etcd resource refers to.
	TLS func(ctx context.Context, etcdRole string) (*tls.Config, error)
	// NewCluster may be set to use other than real clusters.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
	// OnVoters, if set, is called with the number of voters whenever they were counted.
	OnVoters func(etcdRole string, voters int)
}

// Joint works on the etcd clusters of one shoot, from one of the two seeds.
type Joint struct {
	Config

	lock     sync.Mutex
	clusters map[string]etcdclient.Cluster
	// unstarted remembers when a learner without a name was seen first; etcd does not tell its age.
	unstarted map[uint64]time.Time
	// aside remembers by role of the etcd since when a pod has run without being a member, although it could become
	// one.
	aside map[string]map[types.UID]time.Time
	// moving is held while leadership of a cluster moves.
	moving sync.Mutex
}

// New returns a Joint. Close it after use.
func New(config Config) *Joint {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.PollInterval == 0 {
		config.PollInterval = defaultPollInterval
	}
	if config.StuckAfter == 0 {
		config.StuckAfter = defaultStuckAfter
	}
	if config.QuietTimeout == 0 {
		config.QuietTimeout = defaultQuietTimeout
	}
	j := &Joint{Config: config, clusters: map[string]etcdclient.Cluster{}, unstarted: map[uint64]time.Time{},
		aside: map[string]map[types.UID]time.Time{}}
	if j.TLS == nil {
		j.TLS = j.tlsFromEtcd
	}
	if j.NewCluster == nil {
		j.NewCluster = j.newCluster
	}
	return j
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

func (j *Joint) getEtcd(ctx context.Context, etcdRole string) (*druidcorev1alpha1.Etcd, error) {
	etcd := &druidcorev1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: naming.EtcdName(etcdRole)},
	}
	if err := j.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd); err != nil {
		return nil, fmt.Errorf("failed to get Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return etcd, nil
}

// World is one look at an etcd cluster.
type World struct {
	// ClusterID identifies the cluster.
	ClusterID uint64
	// Members are the members with what was found out about each.
	Members quorum.Set
	// Raw are the entries of the member list by ID.
	Raw map[uint64]etcdclient.Member
	// Problems say for each unhealthy member, by ID, what is wrong with it.
	Problems map[uint64]string
}

// Observe lists the members and asks every one for its status, in parallel. If nobody answers with a list that a quorum
// stands behind, and a member says that there is no quorum, the error is a noQuorumError.
func (j *Joint) Observe(ctx context.Context, etcdRole string) (World, error) {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return World{}, err
	}
	list, err := cluster.List(ctx)
	if err != nil {
		err = fmt.Errorf("failed to look at %s: %w", naming.EtcdName(etcdRole), err)
		if message := j.whyNoQuorum(ctx, etcdRole, cluster); message != "" {
			err = &noQuorumError{message: message, cause: err}
		}
		return World{}, err
	}
	world := j.look(ctx, etcdRole, cluster, list)
	if j.OnVoters != nil {
		j.OnVoters(etcdRole, len(world.Members.Voters()))
	}
	return world, nil
}

// look asks every member of the list for its status.
func (j *Joint) look(
	ctx context.Context, etcdRole string, cluster etcdclient.Reader, list etcdclient.Membership,
) World {
	look := etcdclient.Inspection{ClusterID: list.ClusterID,
		Members: make([]etcdclient.MemberInspection, len(list.Members))}
	var group sync.WaitGroup
	statusCtx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for i, member := range list.Members {
		view := &look.Members[i]
		view.Member = member
		if member.Name == "" {
			view.StatusError = etcdclient.ErrNotStarted
			continue
		}
		group.Go(func() { view.Status, view.StatusError = cluster.Status(statusCtx, member) })
	}
	group.Wait()

	world := World{ClusterID: list.ClusterID, Raw: map[uint64]etcdclient.Member{}, Problems: map[uint64]string{}}
	leader := look.Leader()
	for _, member := range look.Members {
		world.Raw[member.ID] = member.Member
		side, ordinal := j.classify(etcdRole, member.Member)
		problem := problemOf(list.ClusterID, leader, member)
		if problem != "" {
			world.Problems[member.ID] = problem
		}
		world.Members = append(world.Members, quorum.Member{
			ID:      member.ID,
			Name:    member.Name,
			Side:    side,
			Ordinal: ordinal,
			Learner: member.Learner,
			Healthy: problem == "",
			Leader:  member.ID == leader,
		})
	}
	return world
}

func problemOf(clusterID, leader uint64, member etcdclient.MemberInspection) string {
	if problem := member.Problem(clusterID, leader); problem != "" {
		return problem
	}
	// Every member reports the alarm NOSPACE of any. It refuses writes of clients and keeps nobody from voting, so it
	// must not stop a change of the membership; the guards hold the steps that must not begin with it.
	errs := slices.DeleteFunc(
		slices.Clone(member.Status.Errors), func(text string) bool { return strings.Contains(text, "alarm:NOSPACE") })
	if len(errs) > 0 {
		return fmt.Sprintf("it reports %v", errs)
	}
	return ""
}

// classify tells the side and the ordinal of a member: by its name once it has started, by its peer URL before.
func (j *Joint) classify(etcdRole string, member etcdclient.Member) (quorum.Side, int) {
	for ordinal := range naming.MembersPerSeed {
		switch member.Name {
		case naming.MemberName(j.DestinationSeed, etcdRole, ordinal):
			return quorum.Destination, ordinal
		case naming.MemberName(j.SourceSeed, etcdRole, ordinal):
			return quorum.Source, ordinal
		case "":
			switch {
			case slices.Contains(member.PeerURLs, naming.PeerURL(steps.Destination, j.Namespace, etcdRole, ordinal)):
				return quorum.Destination, ordinal
			case slices.Contains(member.PeerURLs, naming.PeerURL(steps.Source, j.Namespace, etcdRole, ordinal)):
				return quorum.Source, ordinal
			}
		}
	}
	return quorum.Foreign, -1
}

// Summary describes the members in a sentence for humans.
func (w World) Summary() string {
	voters := w.Members.Voters()
	text := fmt.Sprintf("%d voters (%d in the source, %d in the destination), %d healthy",
		len(voters), len(voters.On(quorum.Source)), len(voters.On(quorum.Destination)), len(voters.Healthy()))
	if learners := w.Members.Learners(); len(learners) > 0 {
		text += fmt.Sprintf(", %d learner", len(learners))
	}
	for _, member := range w.Members.Unhealthy() {
		text += fmt.Sprintf("; %s: %s", member, w.Problems[member.ID])
	}
	return text
}

// problem returns what speaks against touching the membership at all, as reason and message.
func (w World) problem() (steps.Reason, string) {
	if foreign := w.Members.On(quorum.Foreign); len(foreign) > 0 {
		return steps.ReasonForeignEtcdMember, fmt.Sprintf("members of neither seed: %s", foreign)
	}
	if _, ok := w.Members.Leader(); !ok {
		return steps.ReasonQuorumLost, "no leader is known: " + w.Summary()
	}
	if !w.Members.HasQuorum() {
		return steps.ReasonQuorumLost, "too few voters are healthy: " + w.Summary()
	}
	return "", ""
}

// Progress is what one look and at most one change came to.
type Progress struct {
	// Done reports that nothing is left to do.
	Done bool
	// Reason is what is being waited for.
	Reason steps.Reason
	// Message says the same to humans.
	Message string
}

func waiting(reason steps.Reason, format string, args ...any) Progress {
	return Progress{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// each repeats the attempt for both etcd clusters in parallel until it is done for each. Errors of single attempts are
// logged and the attempt is repeated: what does not pass is ended by the context, and the last error is returned then.
func (j *Joint) each(
	ctx context.Context, report ReportFunc, attempt func(ctx context.Context, etcdRole string) (Progress, error),
) error {
	var (
		group    sync.WaitGroup
		lock     sync.Mutex
		progress = map[string]Progress{}
		errs     = make([]error, len(naming.EtcdRoles))
	)
	publish := func(etcdRole string, p Progress) error {
		lock.Lock()
		defer lock.Unlock()
		if progress[etcdRole] == p {
			return nil
		}
		progress[etcdRole] = p
		if report == nil {
			return nil
		}
		reason, message := merge(progress)
		if reason == "" {
			return nil
		}
		return report(ctx, reason, message)
	}

	for i, etcdRole := range naming.EtcdRoles {
		group.Go(func() {
			log := j.Log.WithValues("etcd", naming.EtcdName(etcdRole))
			for {
				p, err := attempt(ctx, etcdRole)
				if err != nil {
					if ctx.Err() == nil {
						log.Error(err, "Attempt failed, will be repeated")
						errs[i] = err
						p = waiting(steps.ReasonActionFailed, "%s", err)
					}
				} else {
					errs[i] = nil
				}
				if publishErr := publish(etcdRole, p); publishErr != nil && ctx.Err() == nil {
					errs[i] = fmt.Errorf("failed to publish the progress: %w", publishErr)
					return
				}
				if p.Done {
					return
				}
				select {
				case <-ctx.Done():
					if errs[i] == nil {
						errs[i] = fmt.Errorf("%s: %s: %w", naming.EtcdName(etcdRole), p.Message, ctx.Err())
					}
					return
				case <-j.Clock.After(j.PollInterval):
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// merge puts the progress of the clusters into one reason and message. The first cluster that waits gives the reason.
func merge(progress map[string]Progress) (steps.Reason, string) {
	var (
		reason  steps.Reason
		message string
	)
	for _, etcdRole := range naming.EtcdRoles {
		p, ok := progress[etcdRole]
		if !ok || p.Message == "" {
			continue
		}
		if message != "" {
			message += "; "
		}
		message += naming.EtcdName(etcdRole) + ": " + p.Message
		if reason == "" && !p.Done {
			reason = p.Reason
		}
	}
	return reason, message
}
