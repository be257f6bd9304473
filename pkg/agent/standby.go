// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/program"
)

// Host is the kind of process that an agent runs in.
type Host string

const (
	// HostPod is livecpm-agent, beside the gardenlet.
	HostPod Host = "livecpm-agent"
	// HostGardenlet is the drop-in gardenlet, whose process has the agent's controllers in it.
	HostGardenlet Host = "gardenlet"

	// LabelHost is the label of the lease that tells in which host the leading agent runs.
	LabelHost = "livecpm.gardener.cloud/agent-host"

	// EventPassive is the reason of the event at the lease when a seed has agents in two kinds of hosts.
	EventPassive = "AgentPassive"

	// standbyPeriod is how often an agent that does not lead reads which one does. A free lease is taken much faster.
	standbyPeriod = 15 * time.Second

	// NotServed is the address with which controller-runtime serves nothing.
	NotServed = "0"
)

// ManagerOptions are the options of an agent's manager. All agents of a seed take the same lease, wherever they run, so
// that only one of them acts. Within a gardenlet's process, the gardenlet serves probes and metrics.
func ManagerOptions(log logr.Logger, config *configv1alpha1.AgentConfiguration, host Host) manager.Options {
	options := program.ManagerOptions(log, kubernetes.SeedScheme, config.Server, config.LeaderElection)
	options.MapperProvider = apiutil.NewDynamicRESTMapper
	options.LeaderElectionLabels = map[string]string{LabelHost: string(host)}
	if host == HostGardenlet {
		options.HealthProbeBindAddress, options.Metrics.BindAddress = NotServed, NotServed
	}
	return options
}

// Standby is a runnable of the manager that says, as long as this agent does not lead, that it is passive and who
// leads. Two replicas of one Deployment are intended. An agent in a pod of its own and one in the gardenlet are not:
// the second one stays passive, and an event at the lease says so.
type Standby struct {
	Log      logr.Logger
	Reader   client.Reader
	Recorder events.EventRecorder
	// Lease is the lease that all agents of the seed take.
	Lease client.ObjectKey
	Host  Host
	// Elected is closed when this agent leads.
	Elected <-chan struct{}
	Clock   clock.WithTicker
}

// NewStandby returns the standby of the manager's agent.
func NewStandby(log logr.Logger, mgr manager.Manager, config *configv1alpha1.AgentConfiguration, host Host) *Standby {
	return &Standby{
		Log:      log.WithName("standby"),
		Reader:   mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("livecpm-agent"),
		Lease: client.ObjectKey{Namespace: config.LeaderElection.ResourceNamespace,
			Name: config.LeaderElection.ResourceName},
		Host:    host,
		Elected: mgr.Elected(),
		Clock:   clock.RealClock{},
	}
}

// Start implements manager.Runnable.
func (s *Standby) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(standbyPeriod)
	defer ticker.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Elected:
			return nil
		case <-ticker.C():
			said = s.look(ctx, said)
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: this is for those that do not lead.
func (s *Standby) NeedLeaderElection() bool { return false }

// look says who leads if that is another one than said last, and returns it.
func (s *Standby) look(ctx context.Context, said string) string {
	lease := &coordinationv1.Lease{}
	if err := s.Reader.Get(ctx, s.Lease, lease); err != nil {
		if ctx.Err() == nil {
			s.Log.Error(err, "Stays passive, and failed to read which agent of the seed leads", "lease", s.Lease)
		}
		return said
	}
	holder, host := ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Labels[LabelHost]
	if holder == "" || holder == said {
		return said
	}
	if host == "" || host == string(s.Host) {
		s.Log.Info("Stays passive while another replica leads", "leader", holder, "lease", s.Lease)
		return holder
	}
	s.Log.Info("Stays passive: the agent of this seed runs elsewhere already. Remove one of the two installations",
		"leader", holder, "leaderRunsIn", host, "thisRunsIn", s.Host, "lease", s.Lease)
	s.Recorder.Eventf(lease, nil, corev1.EventTypeWarning, EventPassive, "StayPassive",
		"The agent in %s stays passive, because one in %s (%s) leads: livecpm is installed twice in this seed. "+
			"Remove one of the two.", s.Host, host, holder)
	return holder
}
