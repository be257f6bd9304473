// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/robustness/history"
)

// Options say what is lost.
type Options struct {
	// Landscape is the landscape that the shoot lives in.
	Landscape *config.Config
	// Namespace and Name name the shoot. It has to be at rest on one seed.
	Namespace, Name string
	// Scenario is what happens.
	Scenario Scenario
	// Out takes the progress, and what the commands print.
	Out io.Writer
}

const (
	// stepTimeout bounds each of the waits for the migration.
	stepTimeout = 20 * time.Minute
	// noticeTimeout bounds how long the agents may take to say that the quorum is lost, or to pass a step without a
	// member that nothing depends on.
	noticeTimeout = 3 * time.Minute
	// answerTimeout bounds how long the shoot's API server may take to answer again after the recovery.
	answerTimeout = 5 * time.Minute
	// backupTimeout bounds how long a write may take to get into a backup: delta snapshots are taken every five
	// minutes.
	backupTimeout = 8 * time.Minute
	// healTimeout bounds how long a member may take to join again after it has lost its volume.
	healTimeout = 5 * time.Minute
	// lifePeriod is the pause between two signs of life.
	lifePeriod = 5 * time.Second

	garbageCollector = "generic-garbage-collector"

	agentDeployment = "livecpm-agent"
	agentNamespace  = "garden"
)

type run struct {
	*driver.Shoot
	scenario            Scenario
	source, destination string
	seeds               map[steps.Role]*driver.Cluster
	// fate are clients for what befalls a seed: etcd-druid's admission keeps people from the volumes of its members,
	// and exempts the garbage collector.
	fate      map[steps.Role]kubernetes.Interface
	namespace string
	store     *history.ConfigMaps
	operator  *operator
	targets   *fault.Targets
}

// Run begins a migration and lets the scenario happen. Where a quorum is lost, it is recovered as the page says, and
// where it holds nobody does anything: the migration must then complete. Or the source takes the shoot back. What had
// been written before must be there afterwards.
func Run(ctx context.Context, options Options) (err error) {
	r := &run{scenario: options.Scenario}
	// The client of the garden asks the garden's API at once, which an earlier run may have left stopped.
	r.targets = fault.NewTargets(options.Landscape, func(format string, args ...any) {
		_, _ = fmt.Fprintf(options.Out, format+"\n", args...)
	})
	if err := r.targets.ClearGarden(ctx); err != nil {
		return err
	}
	if r.Shoot, err = driver.Open(driver.Target{Landscape: options.Landscape, Namespace: options.Namespace,
		Name: options.Name, Timeout: stepTimeout, Out: options.Out}); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	shell, err := r.shell(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shell.Close()) }()
	if r.operator, err = r.hire(ctx, shell); err != nil {
		return err
	}

	written, err := r.write(ctx, "before")
	if err != nil {
		return err
	}
	ids, err := r.clusterIDs(ctx, steps.Source)
	if err != nil {
		return err
	}
	switch {
	case len(r.scenario.Losses) > 0:
		if err := r.suffer(ctx); err != nil {
			return err
		}
	case r.scenario.Back != "":
		return r.takeBack(ctx, ids)
	case r.scenario.Alone:
		if err := r.finishAlone(ctx, ids); err != nil {
			return err
		}
	default:
		if err := r.loseAndRecover(ctx, written); err != nil {
			return err
		}
	}
	return r.verify(ctx, ids)
}

// loseAndRecover takes the volumes. The migration continues then, so that the agents notice.
func (r *run) loseAndRecover(ctx context.Context, written uint64) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	if r.scenario.Backup {
		if err := r.awaitBackup(ctx, written); err != nil {
			return err
		}
	}
	if err := r.destroy(ctx); err != nil {
		return err
	}
	if err := r.Annotate(ctx, steps.AnnotationPauseBefore, ""); err != nil {
		return err
	}
	if err := r.awaitNotice(ctx); err != nil {
		return err
	}
	return r.operator.recover(ctx, r.scenario)
}

func (r *run) say(format string, args ...any) { r.Say("recovery: "+format, args...) }

func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.source, r.destination, err = r.Seeds(ctx); err != nil {
		return err
	}
	shoot, err := r.Get(ctx)
	if err != nil {
		return err
	}
	r.namespace = shoot.Status.TechnicalID
	if err := r.targets.Enter(r.Landscape, r.Garden.Client, shoot); err != nil {
		return err
	}
	if err := r.targets.Clear(ctx); err != nil {
		return err
	}
	r.seeds, r.fate = map[steps.Role]*driver.Cluster{}, map[steps.Role]kubernetes.Interface{}
	for role, seed := range map[steps.Role]string{steps.Source: r.source, steps.Destination: r.destination} {
		if r.seeds[role], err = driver.Connect(r.Landscape, seed); err != nil {
			return err
		}
		restConfig := rest.CopyConfig(r.seeds[role].REST)
		restConfig.Impersonate = rest.ImpersonationConfig{
			UserName: serviceaccount.MakeUsername(metav1.NamespaceSystem, garbageCollector),
			Groups:   append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
		}
		if r.fate[role], err = kubernetes.NewForConfig(restConfig); err != nil {
			return fmt.Errorf("failed to create client for %s: %w", seed, err)
		}
	}
	access, err := driver.ShootAccess(ctx, r.Garden.Client, shoot)
	if err != nil {
		return err
	}
	r.store, err = history.NewConfigMaps(access, driver.DNSServer(r.Landscape),
		fmt.Sprintf("livecpm-recovery-%d", time.Now().Unix()))
	if err != nil {
		return err
	}
	return r.store.EnsureNamespace(ctx)
}

// shell starts a shell in which kubectl and etcdctl are found.
func (r *run) shell(ctx context.Context) (*Shell, error) {
	var path []string
	for _, component := range []string{"kubectl", "etcdctl"} {
		folder, err := build.Tool(ctx, r.Landscape, component)
		if err != nil {
			return nil, err
		}
		path = append(path, folder)
	}
	return NewShell(path, r.Out)
}

// hire gives an operator the shell, the pages, and the variables that all pages use.
func (r *run) hire(ctx context.Context, shell *Shell) (*operator, error) {
	pages, err := ReadPages(r.Landscape.Repo)
	if err != nil {
		return nil, err
	}
	o := &operator{runner: shell, pages: pages, source: r.source, destination: r.destination}
	variables := fmt.Sprintf("GARDEN=%s SOURCE=%s DESTINATION=%s PROJECT=%s SHOOT=%s NS=%s\n",
		r.Landscape.Kubeconfig(r.Landscape.Garden.Name), r.Landscape.Kubeconfig(r.source),
		r.Landscape.Kubeconfig(r.destination), r.Key.Namespace, r.Key.Name, r.namespace)
	return o, o.begin(ctx, variables)
}

// write creates an object and returns its revision. An API server that has lost its etcd is given time.
func (r *run) write(ctx context.Context, key string) (uint64, error) {
	var revision uint64
	var last error
	w := &writing{store: r.store, key: key}
	if err := wait.PollUntilContextTimeout(ctx, time.Second, answerTimeout,
		true, func(ctx context.Context) (bool, error) {
			attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			revision, last = w.attempt(attempt)
			return last == nil, nil
		}); err != nil {
		return 0, fmt.Errorf("failed to write to the shoot: %w; last: %w", err, last)
	}
	return revision, nil
}

// reach brings the migration to the step of the scenario.
func (r *run) reach(ctx context.Context) error {
	if err := r.Begin(ctx, r.destination, r.scenario.Step); err != nil {
		return err
	}
	if err := r.untilPaused(ctx, r.scenario.Step); err != nil {
		return err
	}
	if !r.scenario.Six {
		return nil
	}
	if err := r.scaleAgent(ctx, steps.Source, 0); err != nil {
		return err
	}
	stop := r.actAlive(ctx)
	defer stop()
	if err := r.Annotate(ctx, steps.AnnotationPauseBefore, ""); err != nil {
		return err
	}
	// The second etcd follows the first one, so the reason alone is too early.
	reached := reason(r.scenario.Step, steps.ReasonReadyForSourceMemberRemoval)
	return r.Until(ctx, "six members of both etcds", func(shoot *gardencorev1beta1.Shoot) bool {
		return reached(shoot) && strings.Count(driver.Describe(shoot, r.scenario.Step), "6 voters") == 2
	})
}

func (r *run) untilPaused(ctx context.Context, step gardencorev1beta1.ConditionType) error {
	paused := reason(step, steps.ReasonPaused)
	return r.Until(ctx, "the pause before "+string(step), func(shoot *gardencorev1beta1.Shoot) bool {
		// The conditions of an aborted migration stay until the next one begins.
		return !steps.Aborted(steps.Conditions(shoot)) && paused(shoot)
	})
}

// actAlive gives the signs of life of the source in place of its agent, which is stopped, until the returned function
// is called. Without them the destination would not add the sixth voter. So it looks as if the agent had died in the
// moment after.
func (r *run) actAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := r.showLife(ctx); err != nil && ctx.Err() == nil {
				r.say("trying again to give a sign of life of the source: %v", err)
			}
		}, lifePeriod)
	})
	return func() {
		cancel()
		group.Wait()
	}
}

func (r *run) showLife(ctx context.Context) error {
	shoot, err := r.Get(ctx)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	shown, err := conditions.ShowLife(clock.RealClock{}, steps.Conditions(shoot), steps.Source)
	if err != nil {
		return err
	}
	shoot.Status.LiveMigration.Conditions = shown
	return r.Garden.Client.Status().Patch(ctx, shoot, patch)
}

// reason tells whether the condition of the step shows one of the reasons.
func reason(
	step gardencorev1beta1.ConditionType, reasons ...steps.Reason,
) func(*gardencorev1beta1.Shoot) bool {
	return func(shoot *gardencorev1beta1.Shoot) bool {
		condition := v1beta1helper.GetCondition(steps.Conditions(shoot), step)
		return condition != nil && slices.Contains(reasons, steps.Reason(condition.Reason))
	}
}

func (r *run) scaleAgent(ctx context.Context, role steps.Role, replicas int32) error {
	if _, err := r.scale(ctx, role, agentDeployment, replicas); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err := r.seeds[role].Kube.CoreV1().Pods(agentNamespace).List(ctx,
			metav1.ListOptions{LabelSelector: "app=livecpm,role=agent"})
		return err == nil && len(pods.Items) == int(replicas), nil
	})
}

// scale scales a Deployment beside the agent and returns how many replicas it had.
func (r *run) scale(ctx context.Context, role steps.Role, name string, replicas int32) (int32, error) {
	deployments := r.seeds[role].Kube.AppsV1().Deployments(agentNamespace)
	scale, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("failed to get scale of %s: %w", name, err)
	}
	former := scale.Spec.Replicas
	scale.Spec.Replicas = replicas
	if _, err := deployments.UpdateScale(ctx, name, scale, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("failed to scale %s: %w", name, err)
	}
	return former, nil
}

// awaitBackup waits until the object is in a snapshot of etcd-main. The sidecars keep the last revision of each in
// leases.
func (r *run) awaitBackup(ctx context.Context, revision uint64) error {
	r.say("waiting until revision %d is in a backup", revision)
	return wait.PollUntilContextTimeout(ctx, 2*time.Second, backupTimeout,
		true, func(ctx context.Context) (bool, error) {
			for _, name := range []string{"etcd-main-full-snap", "etcd-main-delta-snap"} {
				lease, err := r.seeds[r.scenario.Side].Kube.CoordinationV1().Leases(r.namespace).Get(ctx, name,
					metav1.GetOptions{})
				if err == nil && holds(lease, revision) {
					return true, nil
				}
			}
			return false, nil
		})
}

func holds(lease *coordinationv1.Lease, revision uint64) bool {
	var last uint64
	_, err := fmt.Sscan(ptr.Deref(lease.Spec.HolderIdentity, ""), &last)
	return err == nil && last >= revision
}

// destroy takes the volumes.
func (r *run) destroy(ctx context.Context) error {
	// Every member has what was acknowledged: which of them survive does not decide what is left.
	time.Sleep(5 * time.Second)
	r.say("losing volumes: %s", r.scenario.Name)
	group, groupCtx := errgroup.WithContext(ctx)
	for _, etcd := range r.scenario.Etcds {
		for role, kube := range r.fate {
			of := volumes{kube: kube, namespace: r.namespace, statefulSet: "etcd-" + etcd}
			group.Go(func() error { return of.lose(groupCtx, r.scenario.lost(role)) })
		}
	}
	return group.Wait()
}

// awaitNotice waits until the agents say that they have stopped because of the quorum.
func (r *run) awaitNotice(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	return r.Until(ctx, "the agents to notice that the quorum is lost", func(shoot *gardencorev1beta1.Shoot) bool {
		return strings.Contains(driver.Describe(shoot, r.scenario.Step), string(steps.ReasonQuorumLost))
	})
}

// clusterIDs returns the identifier of each etcd cluster, as its first member in the seed tells it.
func (r *run) clusterIDs(ctx context.Context, role steps.Role) (map[string]uint64, error) {
	ids := map[string]uint64{}
	for _, etcd := range []string{driver.RoleMain, driver.RoleEvents} {
		members, err := r.members(ctx, role, etcd)
		if err != nil {
			return nil, err
		}
		ids[etcd] = members.clusterID
	}
	return ids, nil
}

type membership struct {
	clusterID uint64
	ids       map[string]uint64
	peers     map[string][]string
	names     []string
	learners  int
}

func (r *run) members(ctx context.Context, role steps.Role, etcd string) (*membership, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	list, err := r.seeds[role].EtcdMembers(ctx,
		driver.EtcdPod{Namespace: r.namespace, Role: etcd, Name: "etcd-" + etcd + "-0"})
	if err != nil {
		return nil, err
	}
	m := &membership{clusterID: list.Header.ClusterId, ids: map[string]uint64{}, peers: map[string][]string{}}
	for _, member := range list.Members {
		m.ids[member.Name], m.peers[member.Name] = member.ID, member.PeerURLs
		m.names = append(m.names, member.Name)
		if member.IsLearner {
			m.learners++
		}
	}
	return m, nil
}

// verify waits for the end of the migration and looks at what has become of the shoot.
func (r *run) verify(ctx context.Context, ids map[string]uint64) error {
	if _, err := r.write(ctx, "after"); err != nil {
		return err
	}
	if _, err := r.store.Get(ctx, "before"); err != nil {
		return fmt.Errorf("what was written before the loss is not there: %w", err)
	}
	if err := r.UntilReconciled(ctx, r.destination); err != nil {
		return err
	}
	shoot, err := r.Get(ctx)
	if err != nil {
		return err
	}
	if step, unfinished := steps.Current(steps.Conditions(shoot)); steps.Initialized(steps.Conditions(shoot)) &&
		unfinished {
		return fmt.Errorf("the migration is not complete, its current step is %s", step)
	}
	for _, key := range []string{"before", "after"} {
		if _, err := r.store.Get(ctx, key); err != nil {
			return fmt.Errorf("what was written %s the recovery is not there: %w", key, err)
		}
	}
	if err := r.verifyMembers(ctx, steps.Destination, ids); err != nil {
		return err
	}
	left, err := r.leftInSource(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left in %s: %v", r.source, left)
	}
	return r.store.DeleteNamespace(ctx)
}

// verifyMembers makes sure that both etcds consist of the three members of the side, and are the clusters that they
// were unless they were made of a backup.
func (r *run) verifyMembers(ctx context.Context, role steps.Role, ids map[string]uint64) error {
	for etcd, id := range ids {
		now, err := r.members(ctx, role, etcd)
		if err != nil {
			return err
		}
		if len(now.names) != members || now.learners > 0 {
			return fmt.Errorf("etcd-%s has the members %v, %d of them learners; want %d voters", etcd, now.names,
				now.learners, members)
		}
		for _, name := range now.names {
			if !strings.HasPrefix(name, r.operator.seed(role)+"-") {
				return fmt.Errorf("etcd-%s has the member %s, which is not of %s", etcd, name, r.operator.seed(role))
			}
		}
		if !r.scenario.Backup && now.clusterID != id {
			return fmt.Errorf("etcd-%s has the cluster ID %x, it was %x", etcd, now.clusterID, id)
		}
	}
	return nil
}

// leftInSource returns what the source still holds of the shoot.
func (r *run) leftInSource(ctx context.Context) ([]string, error) {
	objects, err := driver.Inventory(ctx, r.seeds[steps.Source], r.namespace)
	return inventory.Names(objects), err
}

// ReadPages reads the pages of the recovery and of the abort, and that with the variables and functions of all pages.
func ReadPages(repo string) (pages map[string]*Page, err error) {
	pages = map[string]*Page{}
	for _, name := range []string{pageOperations, pageRecovery, pageAbort} {
		content, err := os.ReadFile(filepath.Join(repo, name)) // #nosec G304 -- a page of this repository.
		if err != nil {
			return nil, fmt.Errorf("failed to read page: %w", err)
		}
		pages[name] = ParsePage(name, string(content))
	}
	return pages, nil
}
