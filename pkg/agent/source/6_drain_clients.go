// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"google.golang.org/protobuf/types/known/structpb"
	istioapinetworkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// annotationClientsDrained is on the shoot's namespace in the source from when its ingress gateway was told to
	// drain the connections that clients have kept. Its value is the time (RFC 3339) from which all Envoys count as
	// draining, or clientsNotDrained.
	annotationClientsDrained = "livecpm.gardener.cloud/clients-drained-since"
	// clientsNotDrained is its value where Envoy cannot tell clients to leave, because the kube-apiserver ends TLS; see
	// restartForClients.
	clientsNotDrained = "never"
	// suffixDrained ends the name of the EnvoyFilter that makes Envoy drain; see suffixClosed.
	suffixDrained = "-livecpm-drained"
	// priorityDrained puts the EnvoyFilter behind those of Gardener and before the one that closes the way.
	priorityDrained = 100
	// suffixInner ends the name of Gardener's EnvoyFilter with the listener for clients inside of the shoot
	// (emptyEnvoyFilterAPIServerProxy in pkg/component/kubernetes/apiserverexposure/sni.go).
	suffixInner = "-apiserver-proxy"
	// metadataDrained is the key of the metadata that filter chains get. Nothing reads it.
	metadataDrained = "livecpm.gardener.cloud"
	// lateDrainTimeout bounds what is done for clients while a cluster has six voters.
	lateDrainTimeout = 10 * time.Second
)

// clientDrain is what the shoot's namespace in the source says about the drain of step 6.
type clientDrain struct {
	// asked reports whether the destination has asked for it and the source has done what it could.
	asked bool
	// since is when the Envoys began to drain. It is zero if they cannot drain.
	since time.Time
}

// clientDrainOf reads the annotation. What is malformed counts as missing: the drain then begins once more, or step 7
// waits for clients as if there had been none.
func clientDrainOf(annotations map[string]string) clientDrain {
	value := annotations[annotationClientsDrained]
	if value == clientsNotDrained {
		return clientDrain{asked: true}
	}
	since, err := time.Parse(time.RFC3339, value)
	return clientDrain{asked: err == nil, since: since}
}

// left is for how long Envoy still keeps connections of clients that it drains; zero or less if it keeps none, or if it
// does not drain them.
func (d clientDrain) left(now time.Time, drain time.Duration) time.Duration {
	if d.since.IsZero() {
		return 0
	}
	return d.since.Add(drain).Sub(now)
}

// finished reports whether Envoy has drained the connections of clients.
func (d clientDrain) finished(now time.Time, drain time.Duration) bool {
	return !d.since.IsZero() && d.left(now, drain) <= 0
}

func (s *source) readClientDrain(ctx context.Context, m *migration.Migration) (clientDrain, error) {
	namespace := &corev1.Namespace{}
	name := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	if err := s.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return clientDrain{}, fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	return clientDrainOf(namespace.Annotations), nil
}

// moveEtcd is the source's part in the step that moves the etcds: first its clients leave, then its members.
func (s *source) moveEtcd(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if steps.AskedFor(steps.Conditions(m.Shoot), m.Step, m.Role) == steps.ReasonDrainingClients {
		return s.drainClients(ctx, m)
	}
	wait, err := s.beforeRetirement(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if wait > 0 {
		return steps.Waiting(wait, steps.ReasonReadyForSourceMemberRemoval,
			"The ingress gateway drains the connections of clients until %s; the first etcd member stays until then",
			m.Clock.Now().Add(wait).UTC().Format(time.RFC3339)), nil
	}
	return s.retireMembers(ctx, m)
}

// drainClients lets clients that have kept their connections leave before etcd members of the source stop: etcd answers
// what it has not answered yet with an error when it stops, and no client of a kube-apiserver repeats a write for it.
// DNS leads to the destination by now, so whoever connects again arrives there.
//
// An EnvoyFilter changes the filter chains with the kube-apiserver's names, by metadata that nothing reads. Envoy keeps
// a filter chain over an update only if its whole message is the same. So it takes the changed ones for new ones, uses
// them for new connections, and drains the connections of the former ones: its next response on each has GOAWAY or
// "Connection: close" (pilot-agent starts Envoy with --drain-strategy immediate), and it ends what is left after its
// drain time (45 s by Istio's default). The chains are not removed as in step 7, because the source's own controllers
// come to the kube-apiserver through the gateway, too. They only connect again.
//
// A look from outside cannot tell a new chain from a former one, so istiod is given a stated time to hand the change to
// the Envoys, before the time that they need for draining begins (flows.GatewayPush). Should it be late, the clients of
// that Envoy stay longer and may lose a request, as they would without any of this.
//
// Clients inside of the shoot come through apiserver-proxy and CONNECT to a listener of the shoot's own, and leave in
// the same way (drainInner). Where the kube-apiserver ends TLS, Envoy forwards bytes, and all that it could do is cut
// clients off. There the kube-apiservers themselves tell them (restartForClients).
func (s *source) drainClients(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	drain, err := s.readClientDrain(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if !drain.asked {
		if drain, err = s.beginDrain(ctx, m); err != nil {
			return steps.Outcome{}, err
		}
	}
	if drain.since.IsZero() {
		return s.restartForClients(ctx, m)
	}
	return drainingClients("The ingress gateway drains the connections of clients until %s",
		drain.since.Add(s.Timings.GatewayDrain).UTC().Format(time.RFC3339)), nil
}

// beginDrain makes Envoy drain and records since when. An agent that takes over does not begin again.
func (s *source) beginDrain(ctx context.Context, m *migration.Migration) (clientDrain, error) {
	i, err := s.ingressOf(ctx, m)
	if err != nil {
		return clientDrain{}, err
	}
	value := clientsNotDrained
	drains, err := i.drain(ctx)
	if err != nil {
		return clientDrain{}, err
	}
	if drains {
		value = m.Clock.Now().Add(flows.GatewayPush).UTC().Format(time.RFC3339)
	}
	if err := i.annotate(ctx, annotationClientsDrained, value); err != nil {
		return clientDrain{}, err
	}
	return clientDrainOf(map[string]string{annotationClientsDrained: value}), nil
}

// beforeRetirement sees to it that clients had time to leave before the first member goes, and returns for how long it
// has to stay.
//
// The destination asks for the drain while clusters have five voters, and has waited as long as the drain takes when it
// asks for this. So time is left only if this agent was late, and never more than the drain takes as a whole. If the
// drain has not begun at all (nobody asked, or this agent was away), it begins here, but nothing waits for it: a minute
// with six voters is a worse risk than a lost request. Nor is it recorded, so that nobody waits for it later, neither
// here after a restart nor in step 7, where clients then get their time (drainedAt).
func (s *source) beforeRetirement(ctx context.Context, m *migration.Migration) (time.Duration, error) {
	drain, err := s.readClientDrain(ctx, m)
	if err != nil {
		return 0, err
	}
	left := drain.left(m.Clock.Now(), s.Timings.GatewayDrain)
	if drain.asked && left <= 0 || s.retirementBegun(ctx, m) {
		return 0, nil
	}
	if !drain.asked {
		m.Log.Info("Retiring the etcd members without waiting for clients: nobody has asked to drain their connections")
		if err := s.drainLate(ctx, m); err != nil {
			m.Log.Error(err, "Failed to drain the connections of clients; some may lose a request when a member stops")
		}
		return 0, nil
	}
	return left, nil
}

func (s *source) drainLate(ctx context.Context, m *migration.Migration) error {
	ctx, cancel := context.WithTimeout(ctx, lateDrainTimeout)
	defer cancel()
	i, err := s.ingressOf(ctx, m)
	if err != nil {
		return err
	}
	_, err = i.drain(ctx)
	return err
}

// retirementBegun reports whether a member of the source has left one of the clusters. A cluster that does not answer
// has no say: nothing leaves it meanwhile.
func (s *source) retirementBegun(ctx context.Context, m *migration.Migration) bool {
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	for _, etcdRole := range naming.EtcdRoles {
		seen, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			m.Log.Info("Failed to look whether members have left already", "etcd", naming.EtcdName(etcdRole), "reason",
				err.Error())
			continue
		}
		if len(seen.Members.On(quorum.Source)) < etcds.Members {
			return true
		}
	}
	return false
}

// drain changes the filter chains with the kube-apiserver's names, so that Envoy drains the connections of the former
// ones. It reports false if Envoy cannot drain them, or if the kube-apiserver is not exposed any more.
func (i *ingress) drain(ctx context.Context) (bool, error) {
	door, err := i.readFrontDoor(ctx)
	if err != nil || door == nil || !door.terminated {
		return false, err
	}
	if err := i.changeFilterChains(ctx, door, drained()); err != nil {
		return false, err
	}
	return true, i.drainInner(ctx)
}

// drained returns the change that makes Envoy drain the connections of filter chains and go on with them.
func drained() chainChange {
	return chainChange{suffix: suffixDrained, priority: priorityDrained,
		patch: &istioapinetworkingv1alpha3.EnvoyFilter_Patch{
			Operation: istioapinetworkingv1alpha3.EnvoyFilter_Patch_MERGE,
			Value:     &structpb.Struct{Fields: map[string]*structpb.Value{"metadata": metadataOfDrained()}},
		}}
}

// metadataOfDrained is what makes a filter chain another one.
func metadataOfDrained() *structpb.Value {
	metadata := structpb.NewBoolValue(true)
	for _, key := range []string{"drained", metadataDrained, "filter_metadata"} {
		metadata = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{key: metadata}})
	}
	return metadata
}

// drainInner lets clients inside of the shoot leave as well. An EnvoyFilter of Gardener adds the listener that they
// come to. istiod makes all changes of filter chains before it adds listeners (patchListeners in
// pilot/pkg/networking/core/envoyfilter/listener_patch.go), so no other EnvoyFilter reaches the chain of that one.
// Therefore Gardener's own is changed. The resource manager applies it again every twelve hours only (SyncPeriod in
// pkg/component/gardener/resourcemanager), and whenever it does, Envoy drains once more, which harms nobody. In step 7
// the object goes with its ManagedResource. A shoot without workers has none.
func (i *ingress) drainInner(ctx context.Context) error {
	filter := i.emptyFilter(i.botanist.IstioNamespace(), suffixInner)
	key := client.ObjectKeyFromObject(filter)
	found, err := controlplane.Exists(ctx, i.SeedClientSet.APIReader(), key, filter)
	if err != nil || !found {
		return err
	}
	patch := client.MergeFromWithOptions(filter.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if changed := drainListeners(filter); changed == 0 {
		i.migration.Log.Info("Clients inside of the shoot are not told to leave, some may lose a request when an etcd "+
			"member stops: no filter chain to change", "envoyFilter", key)
		return nil
	}
	if err := i.SeedClientSet.Client().Patch(ctx, filter, patch); err != nil {
		return fmt.Errorf("failed to change EnvoyFilter %s: %w", key, err)
	}
	return nil
}

// drainListeners changes the filter chains of the listeners that the EnvoyFilter adds, in memory, and returns how many
// these are.
func drainListeners(filter *istionetworkingv1alpha3.EnvoyFilter) int {
	chains := 0
	for _, patch := range filter.Spec.ConfigPatches {
		if patch.GetApplyTo() != istioapinetworkingv1alpha3.EnvoyFilter_LISTENER {
			continue
		}
		for _, chain := range patch.GetPatch().GetValue().GetFields()["filter_chains"].GetListValue().GetValues() {
			if fields := chain.GetStructValue().GetFields(); fields != nil {
				fields["metadata"] = metadataOfDrained()
				chains++
			}
		}
	}
	return chains
}
