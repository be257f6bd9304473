// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	familyEtcdStop      = "etcd-stop"
	familyAgentStop     = "agent-stop"
	familyRelayStop     = "relay-stop"
	familyAPIServerStop = "apiserver-stop"
	familyGatewayStop   = "gateway-stop"
	familyIstiodStop    = "istiod-stop"
	familyManagerStop   = "resource-manager-stop"

	// stopLasts is longer than leases and elections last, and than a client waits for an answer.
	stopLasts = 30 * time.Second
	// allLasts is for components of which all pods stop: less than their probes bear.
	allLasts = 20 * time.Second
)

// chooser chooses the containers that a fault hits.
type chooser func(ctx context.Context, targets *Targets) ([]container, error)

// stop stops the processes of containers where they stand: nobody gets an answer, connections stay open, and locks and
// leases are not released. Probes may end a container before the fault is over, which counts as missed (InForce). That
// of etcd does not: it only tells whether the member is ready.
type stop struct {
	fault

	choose chooser
	// namespace is where the containers are; the namespace of the shoot if it is empty.
	namespace string
	// container is the name of all containers that choose may return.
	container string

	// pids are the processes that Inject has stopped.
	pids []int
}

// stops returns the faults that stop something for half a minute.
func stops() []Fault {
	course := Course{Lasts: stopLasts}
	faults := []Fault{}
	for _, which := range anyMembers {
		faults = append(faults, &stop{
			fault:  fault{name: familyEtcdStop + "-" + which.name, family: familyEtcdStop, span: whole, course: course},
			choose: which.choose, container: etcdContainer,
		})
	}
	faults = append(faults, &stop{
		fault: fault{name: familyEtcdStop + "-" + twoMembers.name, family: familyEtcdStop, span: fiveVoters,
			course: course},
		choose: twoMembers.choose, container: etcdContainer,
	})
	of := func(family string, role steps.Role, span span, except ...point) fault {
		return fault{name: family + "-" + string(role), family: family, span: span, except: except, course: course}
	}
	for _, role := range sides {
		faults = append(faults, &stop{fault: of(familyAgentStop, role, whole), choose: leadingAgents(role),
			namespace: gardenNamespace, container: agentContainer})
	}
	for _, role := range sides {
		faults = append(faults, &stop{fault: of(familyRelayStop, role, relaySpans[role], relayExcept[role]...),
			choose: firstRelay(role), container: relayContainer})
	}
	for _, role := range sides {
		faults = append(faults, &stop{fault: of(familyAPIServerStop, role, kubeAPIServerSpans[role]),
			choose:    firstOf(role, "", v1beta1constants.DeploymentNameKubeAPIServer, apiServerContainer),
			container: apiServerContainer})
	}
	for _, role := range sides {
		faults = append(faults, &stop{fault: of(familyGatewayStop, role, whole), choose: firstGateway(role),
			namespace: gatewayNamespace, container: gatewayContainer})
	}
	return faults
}

// allStops stop all pods of a component of a seed, so that nobody answers in its place: istiod, and the webhooks of
// gardener-resource-manager. Scaling them down would be no different for those who ask, but the webhooks that are gone
// may then keep what would scale them up again from being written.
func allStops() []Fault {
	faults := []Fault{}
	for _, component := range []struct{ family, namespace, deployment, container string }{
		{familyIstiodStop, "istio-system", "istiod", "discovery"},
		{familyManagerStop, gardenNamespace, v1beta1constants.DeploymentNameGardenerResourceManager,
			v1beta1constants.DeploymentNameGardenerResourceManager},
	} {
		for _, role := range sides {
			faults = append(faults, &stop{
				fault: fault{name: component.family + "-" + string(role), family: component.family, span: whole,
					course: Course{Lasts: allLasts}},
				choose:    allOf(role, component.namespace, component.deployment, component.container),
				namespace: component.namespace, container: component.container,
			})
		}
	}
	return faults
}

// allOf chooses all pods of a Deployment.
func allOf(role steps.Role, namespace, deployment, name string) chooser {
	return func(ctx context.Context, targets *Targets) (chosen []container, err error) {
		err = targets.on([]steps.Role{role}, func(seed Seed) error {
			pods, err := podsOf(ctx, seed, namespace, deployment)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				chosen = append(chosen, container{seed: seed, name: name, pod: client.ObjectKeyFromObject(&pod)})
			}
			return nil
		})
		return chosen, err
	}
}

// firstOf chooses the first pod of a Deployment; in the shoot's namespace if none is given.
func firstOf(role steps.Role, namespace, deployment, name string) chooser {
	return func(ctx context.Context, targets *Targets) (chosen []container, err error) {
		if namespace == "" {
			namespace = targets.Namespace
		}
		err = targets.on([]steps.Role{role}, func(seed Seed) error {
			pods, err := podsOf(ctx, seed, namespace, deployment)
			if err != nil {
				return err
			}
			chosen = append(chosen, container{seed: seed, name: name, pod: client.ObjectKeyFromObject(&pods[0])})
			return nil
		})
		return chosen, err
	}
}

// Inject implements Fault.
func (f *stop) Inject(ctx context.Context, targets *Targets) error {
	f.pids = nil
	chosen, err := f.choose(ctx, targets)
	if err != nil {
		return err
	}
	// All are found before one is stopped, so that they stop at once.
	pids := map[int]container{}
	for _, c := range chosen {
		found, err := targets.processesIn(ctx, c)
		if err != nil {
			return err
		}
		for _, pid := range found {
			f.pids = append(f.pids, pid)
			pids[pid] = c
		}
	}
	for _, pid := range f.pids {
		targets.Log("stopping process %d, %s", pid, pids[pid])
		if err := targets.Signal(pid, unix.SIGSTOP); err != nil {
			return fmt.Errorf("failed to stop process %d of %s: %w", pid, pids[pid], err)
		}
	}
	for _, pid := range f.pids {
		if err := targets.proveStopped(ctx, pid, pids[pid].String()); err != nil {
			return err
		}
	}
	return nil
}

// InForce implements Fleeting: nobody has ended a process or let it continue.
func (f *stop) InForce(_ context.Context, targets *Targets) (bool, error) {
	for _, pid := range f.pids {
		if state, there := targets.processState(pid); !there || state != stateStopped {
			return false, nil
		}
	}
	return true, nil
}

// Heal implements Fault: whatever stands still of what may have been stopped continues.
func (f *stop) Heal(ctx context.Context, targets *Targets) error {
	namespace := f.namespace
	if namespace == "" {
		namespace = targets.Namespace
	}
	var errs []error
	for _, seed := range targets.Seeds {
		errs = append(errs, targets.resume(ctx, seed, namespace, f.container))
	}
	return errors.Join(errs...)
}

// resume lets the stopped processes of all containers of the name in a namespace continue.
func (t *Targets) resume(ctx context.Context, seed Seed, namespace, name string) error {
	pods, err := seed.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("failed to list pods of %s in namespace %s: %w", seed.Name, namespace, err)
	}
	var errs []error
	for _, pod := range pods.Items {
		id := containerID(&pod, name)
		if id == "" {
			continue
		}
		pids, err := processesOf(t.Proc, id)
		errs = append(errs, err)
		for _, pid := range pids {
			if state, there := t.processState(pid); !there || state != stateStopped {
				continue
			}
			t.Log("process %d of container %s of pod %s in %s continues", pid, name, pod.Name, seed.Name)
			if err := t.Signal(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("failed to let process %d of pod %s continue: %w", pid, pod.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}
