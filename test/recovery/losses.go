// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	// lostOrdinal is the member that is lost: neither the first one, which is asked for the list, nor the last one,
	// which leaves and restarts first.
	lostOrdinal = 1
	// rollInterval is how often it is looked whether the moment in the middle of the restart has come: a member takes
	// several seconds to restart.
	rollInterval = 500 * time.Millisecond
	// lateHealTimeout bounds the same where something has to come before: the kubelet hands a changed configuration
	// over within two minutes and starts a container again that has ended a few times after up to three.
	lateHealTimeout = 8 * time.Minute
	// settleTime is how long the members have to be connected over new relays, of which the cluster DNS may keep the
	// former addresses for 30 s, before they are asked. A member that reaches nobody has no leader after seconds.
	settleTime = 45 * time.Second
	// connectTimeout bounds how long members may take after that.
	connectTimeout = 2 * time.Minute
)

// Verdict is what came of one loss.
type Verdict struct {
	Loss Loss
	// Took is how long it took until the loss was got over, or until that was given up.
	Took time.Duration
	// Tried tells that the migration came to the moment of the loss.
	Tried bool
	// Err tells what went wrong; nil if nothing did.
	Err error
}

// String returns a line for whoever reads what the suite prints.
func (v Verdict) String() string {
	switch {
	case !v.Tried:
		return fmt.Sprintf("not tried: %s: %v", v.Loss, v.Err)
	case v.Err != nil:
		return fmt.Sprintf("failed: %s, after %s: %v", v.Loss, v.Took.Round(time.Second), v.Err)
	}
	return fmt.Sprintf("passed: %s, after %s", v.Loss, v.Took.Round(time.Second))
}

// Judge returns an error that names each loss that was not got over, and those that were not tried; nil if all passed.
func Judge(verdicts []Verdict) error {
	var errs []error
	for _, verdict := range verdicts {
		if verdict.Err != nil || !verdict.Tried {
			errs = append(errs, errors.New(verdict.String()))
		}
	}
	return errors.Join(errs...)
}

// suffer lets the losses happen, each with a verdict of its own, and lets the migration continue. A loss that was not
// got over does not keep the next one from being tried, as long as the migration comes so far.
func (r *run) suffer(ctx context.Context) error {
	losses := r.scenario.Losses
	if err := r.Begin(ctx, r.destination, pauseFor(losses)); err != nil {
		return err
	}
	verdicts := make([]Verdict, len(losses))
	var stuck error
	for i, loss := range losses {
		verdicts[i] = Verdict{Loss: loss, Err: stuck}
		if stuck != nil {
			continue
		}
		if stuck = r.await(ctx, loss); stuck != nil {
			verdicts[i].Err = stuck
			continue
		}
		r.say("losing the %s", loss)
		begin := time.Now()
		resume := func() error { return r.Annotate(ctx, steps.AnnotationPauseBefore, string(pauseFor(losses[i+1:]))) }
		err := r.strike(ctx, loss, resume)
		verdicts[i].Tried, verdicts[i].Took, verdicts[i].Err = true, time.Since(begin), err
		r.say("%s", verdicts[i])
		stuck = resume()
	}
	return errors.Join(Judge(verdicts), stuck)
}

// pauseFor is the step before which the migration has to pause for the next of the losses; empty if it need not.
func pauseFor(losses []Loss) gardencorev1beta1.ConditionType {
	if len(losses) == 0 || losses[0].Amid {
		return ""
	}
	return losses[0].Step
}

// await waits for the moment of the loss.
func (r *run) await(ctx context.Context, loss Loss) error {
	if !loss.Amid {
		return r.untilPaused(ctx, loss.Step)
	}
	step, known := steps.Get(loss.Step)
	if !known || !step.HandsOver {
		return fmt.Errorf("no moment in the middle of step %s is known", loss.Step)
	}
	// The restart may have begun in the step before.
	begins, known := steps.Get(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup)
	if !known {
		return fmt.Errorf("no step before %s is known", loss.Step)
	}
	if err := r.Until(ctx, "step "+begins.String(), func(shoot *gardencorev1beta1.Shoot) bool {
		return steps.Begun(steps.Conditions(shoot), begins)
	}); err != nil {
		return err
	}
	var last string
	if err := wait.PollUntilContextTimeout(ctx, rollInterval, stepTimeout, true,
		func(ctx context.Context) (bool, error) {
			list, err := r.members(ctx, steps.Destination, driver.RoleMain)
			if err != nil {
				last = err.Error()
				return false, nil //nolint:nilerr // A member that restarts does not answer; it is told if time is over.
			}
			last = fmt.Sprintf("etcd-main has the peer URLs %v", list.peers)
			return amidRoll(list.peers, r.destination)
		}); err != nil {
		return fmt.Errorf("failed to wait until the first member of etcd-main has restarted: %w; last: %s", err, last)
	}
	return nil
}

// amidRoll reports whether the member of etcd-main that restarts first has its ordinary peer URL, and the others do not
// have theirs. One that is about to restart has that of the migration as well. It is an error if more than that one has
// it: the moment is over.
func amidRoll(peers map[string][]string, seed string) (bool, error) {
	ordinary := func(ordinal int) bool {
		urls := peers[naming.MemberName(seed, driver.RoleMain, ordinal)]
		return len(urls) > 0 && !slices.ContainsFunc(urls, func(url string) bool {
			return !strings.HasSuffix(url, fmt.Sprintf(":%d", naming.PeerPort(steps.Source)))
		})
	}
	first := ordinary(members - 1)
	for ordinal := range members - 1 {
		if ordinary(ordinal) {
			return false, fmt.Errorf("member %d of etcd-main has restarted before the loss", ordinal)
		}
	}
	return first, nil
}

// strike lets the loss happen and returns when it is got over. It may resume the migration meanwhile.
func (r *run) strike(ctx context.Context, loss Loss, resume func() error) error {
	switch loss.Kind {
	case Volume:
		return r.loseVolume(ctx, loss)
	case Node:
		return r.loseNode(ctx, loss, resume)
	case Garden:
		return r.loseGarden(ctx)
	}
	return fmt.Errorf("nothing is known of the loss of a %s", loss.Kind)
}

// loseVolume takes the volume of one member, and waits until it has joined again.
func (r *run) loseVolume(ctx context.Context, loss Loss) error {
	etcds := []string{driver.RoleMain, driver.RoleEvents}
	if loss.Amid {
		etcds = etcds[:1]
	}
	var pods []driver.EtcdPod
	for _, etcd := range etcds {
		pods = append(pods, driver.EtcdPod{Namespace: r.namespace, Role: etcd,
			Name: naming.PodName(etcd, lostOrdinal)})
	}
	former, err := r.memberIDs(ctx, loss.Role, pods)
	if err != nil {
		return err
	}
	for _, etcd := range etcds {
		of := volumes{kube: r.fate[loss.Role], namespace: r.namespace, statefulSet: "etcd-" + etcd}
		if err := of.lose(ctx, []int{lostOrdinal}); err != nil {
			return err
		}
	}
	patience := healTimeout
	if loss.Amid {
		patience = lateHealTimeout
	}
	return r.awaitHealed(ctx, loss.Role, former, patience)
}

// loseNode switches the node of a member off, whose volumes are lost with it. The shoot must serve, and the step must
// begin and end without the member: while the destination has members, one of the source that is down is a reason to
// leave it. Then an empty node takes the place of the lost one, because nothing on it is known to have ended before.
func (r *run) loseNode(ctx context.Context, loss Loss, resume func() error) error {
	seed := r.targets.Seeds[loss.Role]
	node, err := r.onNodeOf(ctx, seed, naming.PodName(driver.RoleMain, lostOrdinal))
	if err != nil {
		return err
	}
	power := r.targets.Power(seed)
	if err := power.PowerOff(node); err != nil {
		return err
	}
	err = r.passWithout(ctx, loss, resume)
	// Whatever has been found, the landscape gets its node back.
	return errors.Join(err, power.Replace(context.WithoutCancel(ctx)))
}

// passWithout makes sure that the shoot serves and that the step passes, while the node is off.
func (r *run) passWithout(ctx context.Context, loss Loss, resume func() error) error {
	if _, err := r.write(ctx, "without-a-node"); err != nil {
		return err
	}
	if err := resume(); err != nil {
		return err
	}
	step, known := steps.Get(loss.Step)
	if !known {
		return fmt.Errorf("no step %s is known", loss.Step)
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	what := "the end of step " + step.String() + " without the node"
	return r.Until(ctx, what, func(shoot *gardencorev1beta1.Shoot) bool {
		return step.Finished(steps.Conditions(shoot))
	})
}

// onNodeOf returns the node of a member's pod.
func (r *run) onNodeOf(ctx context.Context, seed fault.Seed, name string) (string, error) {
	pod, err := seed.Kube.CoreV1().Pods(r.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get a member of etcd in %s: %w", seed.Name, err)
	}
	if pod.Spec.NodeName == "" {
		return "", fmt.Errorf("pod %s in %s is on no node", name, seed.Name)
	}
	return pod.Spec.NodeName, nil
}

// loseGarden stops the garden's API and replaces all relays of both seeds meanwhile, one at a time. The members of both
// seeds must then find each other by what the seeds know.
func (r *run) loseGarden(ctx context.Context) error {
	stop, known := fault.Get("garden-stop-60s")
	if !known {
		return errors.New("there is no fault that stops the garden any more: adapt test/recovery")
	}
	if err := stop.Inject(ctx, r.targets); err != nil {
		return errors.Join(err, stop.Heal(context.WithoutCancel(ctx), r.targets))
	}
	err := r.replaceRelays(ctx)
	if err == nil {
		err = r.awaitConnected(ctx)
	}
	// The next wait asks the garden.
	return errors.Join(err, stop.Heal(context.WithoutCancel(ctx), r.targets))
}

func (r *run) replaceRelays(ctx context.Context) error {
	for _, role := range []steps.Role{steps.Source, steps.Destination} {
		for ordinal := range members {
			if err := replaceRelay(ctx, r.targets.Seeds[role].Kube, r.namespace, ordinal); err != nil {
				return fmt.Errorf("%s: %w", r.operator.seed(role), err)
			}
		}
	}
	return nil
}

// awaitConnected waits until every member of etcd-main says who leads, and all say the same.
func (r *run) awaitConnected(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settleTime):
	}
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 2*time.Second, connectTimeout, true,
		func(ctx context.Context) (bool, error) {
			last = r.connected(ctx)
			return last == nil, nil
		}); err != nil {
		return fmt.Errorf("failed to wait until the members are connected over the new relays: %w; last: %w", err, last)
	}
	return nil
}

func (r *run) connected(ctx context.Context) error {
	leaders := map[uint64][]string{}
	for role, number := range map[steps.Role]int{steps.Source: members, steps.Destination: members - 1} {
		for ordinal := range number {
			pod := naming.PodName(driver.RoleMain, ordinal)
			leader, err := r.leaderOf(ctx, r.targets.Seeds[role], pod)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", pod, r.operator.seed(role), err)
			}
			leaders[leader] = append(leaders[leader], r.operator.seed(role)+"-"+pod)
		}
	}
	if len(leaders) != 1 || leaders[0] != nil {
		return fmt.Errorf("the members do not follow one leader: %v", leaders)
	}
	return nil
}

func (r *run) leaderOf(ctx context.Context, seed fault.Seed, pod string) (uint64, error) {
	member, err := r.targets.Etcd(ctx, seed, pod)
	if err != nil {
		return 0, err
	}
	defer func() { _ = member.Close() }()
	_, leader, err := member.Status(ctx)
	return leader, err
}

// memberIDs returns the identifiers of the members that run in the pods, by their names.
func (r *run) memberIDs(ctx context.Context, role steps.Role, pods []driver.EtcdPod) (map[string]lostMember, error) {
	out := map[string]lostMember{}
	for _, pod := range pods {
		list, err := r.members(ctx, role, pod.Role)
		if err != nil {
			return nil, err
		}
		name := r.operator.seed(role) + "-" + pod.Name
		if list.ids[name] == 0 {
			return nil, fmt.Errorf("etcd-%s has no member %s, but %v", pod.Role, name, list.names)
		}
		out[name] = lostMember{etcd: pod.Role, id: list.ids[name]}
	}
	return out, nil
}

// lostMember is a member that loses its data.
type lostMember struct {
	etcd string
	id   uint64
}

// awaitHealed waits until the members with those names have joined again, as voters with other identifiers.
func (r *run) awaitHealed(
	ctx context.Context, role steps.Role, former map[string]lostMember, patience time.Duration,
) error {
	r.say("waiting until the members have joined again: %v", slices.Sorted(maps.Keys(former)))
	var last string
	if err := wait.PollUntilContextTimeout(ctx, 2*time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			lists := map[string]*membership{}
			for _, lost := range former {
				list, err := r.members(ctx, role, lost.etcd)
				if err != nil {
					last = err.Error()
					return false, nil //nolint:nilerr // It is tried again, and told if the time is over.
				}
				lists[lost.etcd] = list
			}
			last = missing(lists, former)
			return last == "", nil
		}); err != nil {
		return fmt.Errorf("failed to wait until the members have joined again: %w; last: %s", err, last)
	}
	return nil
}

// missing tells which of the members have not joined again; empty if all have.
func missing(lists map[string]*membership, former map[string]lostMember) string {
	for _, name := range slices.Sorted(maps.Keys(former)) {
		list := lists[former[name].etcd]
		if id := list.ids[name]; id == 0 || id == former[name].id || list.learners > 0 {
			return fmt.Sprintf("%s has not joined again: etcd-%s has the members %v, %d of them learners", name,
				former[name].etcd, list.names, list.learners)
		}
	}
	return ""
}
