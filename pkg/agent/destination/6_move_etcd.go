// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// joiningMembers is how many members join before the kube-apiserver of the destination starts. With two, both seeds
// together have five voters, and neither losing the other seed nor one more member stops the cluster of the source.
const joiningMembers = 2

// joinPeers makes the destination ready for the control plane and joins two etcd members of each cluster.
func (d *destination) joinPeers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := operation.RunFlow(ctx, m, steps.ReasonPreparingDestination,
		d.prepareGraph(m, b, operation.HasBackup(b))); err != nil {
		return steps.Outcome{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, d.deps.Timings.JoinTimeout)
	defer cancel()

	etcds := d.deps.Joint(m, b)
	defer func() { _ = etcds.Close() }()

	if err := m.Report(ctx, steps.ReasonJoiningEtcdMembers, "Creating the etcds of the destination"); err != nil {
		return steps.Outcome{}, err
	}
	if err := operation.ConfigureEtcdBackup(ctx, b); err != nil {
		return steps.Outcome{}, err
	}
	// The clusters are independent of each other: joining them at the same time halves the wait.
	components, err := d.deployJoiningEtcds(ctx, m, b, etcds)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := etcds.Join(ctx, joiningMembers, m.Report); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to join the etcd members of the destination: %w", err)
	}

	if err := m.Report(ctx, steps.ReasonJoiningEtcdMembers,
		"Waiting until etcd-druid reports the etcds of the destination as ready"); err != nil {
		return steps.Outcome{}, err
	}
	var waits []flow.TaskFn
	for _, component := range components {
		waits = append(waits, component.Wait)
	}
	if err := flow.Parallel(waits...)(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to wait until the etcds of the destination are ready: %w", err)
	}
	return steps.Done("%d members of the destination have joined each etcd; both have 5 voters", joiningMembers), nil
}

func (d *destination) deployJoiningEtcds(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, etcds *joint.Joint,
) ([]gardeneretcd.Interface, error) {
	var (
		components []gardeneretcd.Interface
		deploys    []flow.TaskFn
	)
	for etcdRole, upstream := range map[string]gardeneretcd.Interface{
		v1beta1constants.ETCDRoleMain:   b.Shoot.Components.ControlPlane.EtcdMain,
		v1beta1constants.ETCDRoleEvents: b.Shoot.Components.ControlPlane.EtcdEvents,
	} {
		// Once it exists, the Etcd keeps the bootstrap that it was created with. The source's member list is only what
		// it was expected to be before the first member of the destination was added.
		var bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster
		if _, err := upstream.Get(ctx); apierrors.IsNotFound(err) {
			if bootstrap, err = etcds.Bootstrap(ctx, etcdRole); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, fmt.Errorf("failed to read etcd %s: %w", exposure.EtcdName(etcdRole), err)
		}

		component := joint.NewEtcd(m.Log, d.deps.SeedClientSet.Client(), b.Shoot.ControlPlaneNamespace,
			b.SecretsManager, upstream, bootstrap)
		component.SetReplicas(ptr.To[int32](joiningMembers))
		components = append(components, component)
		deploys = append(deploys, func(ctx context.Context) error {
			if err := component.Deploy(ctx); err != nil {
				return fmt.Errorf("failed to deploy etcd %s: %w", exposure.EtcdName(etcdRole), err)
			}
			return nil
		})
	}
	return components, flow.Parallel(deploys...)(ctx)
}

// moveEtcd switches DNS, waits until nobody needs the source's addresses any more, completes the members of the
// destination and asks the source to retire its own.
func (d *destination) moveEtcd(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.deps.Timings.JoinTimeout)
	defer cancel()

	// It remembers in the seed that it is done, and costs nothing from then on.
	if outcome, err := d.switchDNS(ctx, m); err != nil || !outcome.Finished() {
		return outcome, err
	}
	return d.moveMembers(ctx, m)
}

// shrinkEtcd moves the etcd members before the kube-apiserver starts, because an operator has found the seeds to be too
// far apart for it to start otherwise (GEP-0039, "Kube API Server is unhealthy"). The source's kube-apiserver continues
// through the relay, as far as the distance lets it: some downtime is accepted.
func (d *destination) shrinkEtcd(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.deps.Timings.JoinTimeout)
	defer cancel()
	return d.moveMembers(ctx, m)
}

// moveMembers completes the members of the destination and waits until those of the source are gone.
func (d *destination) moveMembers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	etcds := d.deps.Joint(m, nil)
	defer func() { _ = etcds.Close() }()

	begun, err := d.retirementBegun(ctx, etcds)
	if err != nil {
		return steps.Outcome{}, err
	}
	if begun {
		moved, _, err := etcds.OnlyDestinationLeft(ctx)
		if err != nil {
			return steps.Outcome{}, err
		}
		if moved {
			return steps.Done("Both etcds consist of the 3 members of the destination"), nil
		}
	} else {
		// The source has seen to it in the first step; leadership may have moved since.
		if err := etcds.SpareFirstToLeave(ctx); err != nil {
			return steps.Outcome{}, err
		}
	}

	return d.waitForRetirement(ctx, m, etcds, begun)
}

// lastMemberOrder is the order in which the last members of the clusters join: one begins when the other's is a voter.
// A member that starts takes much from the processors of its node, and a leader of the other cluster may run beside it;
// with both at the same instant leaders have lost their leadership for want of a processor. Events come first, because
// they are what a shoot can rather do without if the first of the two meets a fault.
var lastMemberOrder = []string{v1beta1constants.ETCDRoleEvents, v1beta1constants.ETCDRoleMain}

// joinLastMember asks etcd-druid for the last member of every cluster whose turn it is. joined tells which of the
// clusters have theirs.
func (d *destination) joinLastMember(ctx context.Context, m *migration.Migration, joined map[string]bool) error {
	for _, etcdRole := range lastMemberOrder {
		if err := d.scaleEtcd(ctx, m, etcdRole, exposure.Members); err != nil {
			return err
		}
		if !joined[etcdRole] {
			return nil
		}
	}
	return nil
}

// retirementBegun reports whether a cluster has all members of the destination as voters. The source may have begun to
// retire its own then.
func (d *destination) retirementBegun(ctx context.Context, etcds *joint.Joint) (bool, error) {
	for _, etcdRole := range joint.EtcdRoles {
		world, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			return false, fmt.Errorf("failed to look at %s: %w", exposure.EtcdName(etcdRole), err)
		}
		if len(world.Members.Voters().On(quorum.Destination)) == exposure.Members {
			return true, nil
		}
	}
	return false, nil
}

// scaleEtcd asks etcd-druid for the number of members and leaves the rest of the Etcd as it is.
func (d *destination) scaleEtcd(ctx context.Context, m *migration.Migration, etcdRole string, members int32) error {
	etcd := &druidcorev1alpha1.Etcd{}
	key := client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Name: exposure.EtcdName(etcdRole)}
	if err := d.deps.SeedClientSet.Client().Get(ctx, key, etcd); err != nil {
		return fmt.Errorf("failed to read Etcd %s: %w", key, err)
	}
	if etcd.Spec.Replicas >= members {
		return nil
	}

	if err := joint.AnnounceMembers(ctx, d.deps.SeedClientSet.Client(), etcd, members); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})
	etcd.Spec.Replicas = members
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, v1beta1constants.GardenerOperation,
		v1beta1constants.GardenerOperationReconcile)
	if err := d.deps.SeedClientSet.Client().Patch(ctx, etcd, patch); err != nil {
		return fmt.Errorf("failed to scale Etcd %s to %d: %w", key, members, err)
	}
	return nil
}

// waitForRetirement helps the last members in and waits until the source's are gone. As soon as the first of the
// clusters has six members the source is asked to retire: it looks at each cluster by itself.
func (d *destination) waitForRetirement(
	ctx context.Context, m *migration.Migration, etcds *joint.Joint, begun bool,
) (steps.Outcome, error) {
	reason := steps.ReasonJoiningLastEtcdMember
	if begun {
		reason = steps.ReasonReadyForSourceMemberRemoval
	}
	joined := map[string]bool{}
	lookedAt := time.Time{}
	if err := d.joinLastMember(ctx, m, joined); err != nil {
		return steps.Outcome{}, err
	}
	for {
		var (
			waits []string
			errs  []error
			fault steps.Reason
		)
		looks, failures := joint.LookAtBoth(ctx, func(ctx context.Context, etcdRole string) (joint.Progress, error) {
			return etcds.Advance(ctx, etcdRole, exposure.Members)
		})
		for i, etcdRole := range joint.EtcdRoles {
			if failures[i] != nil {
				errs = append(errs, fmt.Errorf("%s: %w", exposure.EtcdName(etcdRole), failures[i]))
				continue
			}
			progress := looks[i]
			message := progress.Message
			switch {
			case progress.Done:
				reason = steps.ReasonReadyForSourceMemberRemoval
				if !joined[etcdRole] {
					joined[etcdRole] = true
					if err := d.joinLastMember(ctx, m, joined); err != nil {
						return steps.Outcome{}, err
					}
				}
			case progress.Reason.Fault():
				fault = progress.Reason
				// The condition may have to keep another reason.
				message = string(fault) + ": " + message
			}
			waits = append(waits, exposure.EtcdName(etcdRole)+": "+message)
		}

		left, missing, err := etcds.OnlyDestinationLeft(ctx)
		switch {
		case err != nil:
			errs = append(errs, err)
		case left:
			return steps.Done("Both etcds consist of the 3 members of the destination"), nil
		default:
			m.Log.V(1).Info("Waiting for the source's etcd members to leave", "missing", missing)
		}

		if len(errs) > 0 {
			// A member that restarts or an election in progress shows up as an error; it is looked at again.
			m.Log.Info("Could not look at the etcds", "reason", errors.Join(errs...).Error())
		} else if err := m.Report(ctx, shown(reason, fault), strings.Join(waits, "; ")); err != nil &&
			ctx.Err() == nil {
			return steps.Outcome{}, err
		}

		// Clients are led here, and here they need a kube-apiserver as soon as etcd answers again.
		if fault == "" && len(errs) == 0 && m.Clock.Since(lookedAt) >= backOffInterval {
			lookedAt = m.Clock.Now()
			if err := d.replaceBackedOff(ctx, m); err != nil {
				m.Log.Info("Could not look after the kube-apiserver", "reason", err.Error())
			}
		}

		select {
		case <-ctx.Done():
			// The reason stays: the source acts on it.
			return steps.Waiting(d.deps.Timings.PollInterval, reason, "%s",
				strings.Join(append(waits, errorsOf(errs)...), "; ")), nil
		case <-m.Clock.After(pollEtcd):
		}
	}
}

// shown is the reason in the condition: a fault, if there is one. Once the source has been asked to retire its members
// it reads the reason as its order, and a fault shows in the message only.
func shown(reason, fault steps.Reason) steps.Reason {
	if fault != "" && reason != steps.ReasonReadyForSourceMemberRemoval {
		return fault
	}
	return reason
}

func errorsOf(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// deployPlainEtcds gives both etcds the specification that the gardenlet gives them. It is only right when no member of
// the source is left: their peer URLs then move from the port of the migration to the ordinary one.
func (d *destination) deployPlainEtcds(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	etcds := d.deps.Joint(m, b)
	defer func() { _ = etcds.Close() }()

	for _, etcdRole := range joint.EtcdRoles {
		world, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			return fmt.Errorf("failed to look at %s: %w", exposure.EtcdName(etcdRole), err)
		}
		if others := len(world.Members) - len(world.Members.On(quorum.Destination)); others > 0 {
			return fmt.Errorf("failed to deploy %s: %d members of the source are still in its member list",
				exposure.EtcdName(etcdRole), others)
		}
	}
	if err := etcds.PrepareRoll(ctx); err != nil {
		return err
	}
	// Not by the botanist's own task: in the restore phase it may decide to begin with one member.
	if err := operation.ConfigureEtcdBackup(ctx, b); err != nil {
		return err
	}
	if err := flow.Parallel(b.Shoot.Components.ControlPlane.EtcdMain.Deploy,
		b.Shoot.Components.ControlPlane.EtcdEvents.Deploy)(ctx); err != nil {
		return fmt.Errorf("failed to deploy the etcds: %w", err)
	}
	return nil
}

// waitUntilEtcdsRolled waits until the members have restarted with the specification of deployPlainEtcds, and sees to
// it meanwhile that none of them is stopped while it has leadership.
func (d *destination) waitUntilEtcdsRolled(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	etcds := d.deps.Joint(m, b)
	defer func() { _ = etcds.Close() }()

	ctx, cancel := context.WithTimeout(ctx, d.deps.Timings.RolloutTimeout)
	defer cancel()
	return flow.Parallel(
		func(ctx context.Context) error {
			err := b.WaitUntilEtcdsReady(ctx)
			if err != nil {
				cancel()
			}
			return err
		},
		etcds.AccompanyRoll,
	)(ctx)
}

// pollEtcd is short, because the time with six members is made of it.
const pollEtcd = 500 * time.Millisecond
