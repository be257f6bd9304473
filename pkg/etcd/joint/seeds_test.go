// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const namespace = "shoot--demo--live"

// seeds is a tiny simulator: two etcd clusters and the objects of one seed. Scaling a StatefulSet deletes pods, and
// deleting a pod stops its member.
type seeds struct {
	// seed is the one whose objects there are, prefix what the names of the source's members begin with.
	seed     string
	prefix   string
	client   client.Client
	clusters map[string]*fakecluster.Cluster

	lock    sync.Mutex
	voters  map[string][]int
	events  []string
	ended   []deletion
	onEnd   func()            // runs after the code under test has ended a pod
	onEvent func(text string) // runs after something was written down
	// patchErr is what becomes of a patch of a StatefulSet.
	patchErr error
	// lag is how many changes of a ConfigMap etcd-druid's webhook still refuses, because it has not seen the annotation
	// of the Etcd.
	lag int
}

// deletion is a request of the code under test to delete a pod.
type deletion struct {
	Pod   string
	UID   types.UID
	Grace int64
}

func peerURL(role steps.Role, etcdRole string) func(name string) string {
	return func(name string) string {
		return naming.PeerURL(role, namespace, etcdRole, int(name[len(name)-1]-'0'))
	}
}

func memberName(prefix, etcdRole string, ordinal int) string {
	if prefix == "" {
		return naming.PodName(etcdRole, ordinal)
	}
	return prefix + "-" + naming.PodName(etcdRole, ordinal)
}

// prefixOf is what the names of the members in the seed begin with.
func (s *seeds) prefixOf(seed string) string {
	if seed == "seed-a" {
		return s.prefix
	}
	return seed
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("of-" + name),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid"}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// newSeeds returns seeds in which the source's three members run, seen from the source.
func newSeeds() *seeds { return newSeedsOf("seed-a") }

// newSeedsOf returns the same with the objects of the seed: its pods are those that scaling deletes.
func newSeedsOf(seed string) *seeds { return newSeedsWith(seed, "seed-a") }

// newSeedsWith returns the same with a prefix of the names of the source's members that may be empty, as it is if the
// Etcds are older than Gardener's prefix.
func newSeedsWith(seed, prefix string) *seeds {
	s := &seeds{seed: seed, prefix: prefix, clusters: map[string]*fakecluster.Cluster{}, voters: map[string][]int{}}
	builder := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme)
	for _, etcdRole := range naming.EtcdRoles {
		var names []string
		for ordinal := range 3 {
			names = append(names, memberName(prefix, etcdRole, ordinal))
			builder.WithObjects(pod(naming.PodName(etcdRole, ordinal)))
		}
		s.clusters[etcdRole] = fakecluster.New(peerURL(steps.Source, etcdRole), names...)
		s.clusters[etcdRole].OnRemove = func(m etcdclient.Member) { s.event("removed " + m.Name) }
		builder.WithObjects(
			&druidcorev1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)},
			},
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)},
				Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}},
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole) + "-config"},
				Data:       map[string]string{"etcd.conf.yaml": configOf(prefix, etcdRole)},
			},
		)
	}
	s.client = builder.WithInterceptorFuncs(interceptor.Funcs{
		Delete: s.delete,
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if err := s.admit(ctx, c, obj); err != nil {
				return err
			}
			statefulSet, scales := obj.(*appsv1.StatefulSet)
			if scales && s.patchErr != nil {
				return s.patchErr
			}
			if err := c.Patch(ctx, obj, patch, opts...); err != nil || !scales {
				return err
			}
			return s.scaled(ctx, c, statefulSet)
		},
	}).Build()
	return s
}

// admit is etcd-druid's webhook: without the annotation of the Etcd, nobody but etcd-druid changes its ConfigMap and
// its PodDisruptionBudget.
func (s *seeds) admit(ctx context.Context, c client.Client, obj client.Object) error {
	switch obj.(type) {
	case *corev1.ConfigMap, *policyv1.PodDisruptionBudget:
	default:
		return nil
	}
	etcd := &druidcorev1alpha1.Etcd{}
	key := client.ObjectKey{Namespace: namespace, Name: strings.TrimSuffix(obj.GetName(), "-config")}
	if err := c.Get(ctx, key, etcd); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if druidcorev1alpha1.AreManagedResourcesProtected(etcd.ObjectMeta) || s.lag > 0 {
		s.lag--
		return apierrors.NewForbidden(corev1.Resource("objects"), obj.GetName(),
			errors.New("admission webhook \"etcdcomponents.webhooks.druid.gardener.cloud\" denied the request"))
	}
	s.events = append(s.events, "changed "+obj.GetName())
	return nil
}

// delete records deletions of certain pods, and refuses those of others that have followed them.
func (s *seeds) delete(
	ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption,
) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if _, ok := obj.(*corev1.Pod); !ok || options.Preconditions == nil {
		return c.Delete(ctx, obj, opts...)
	}
	s.lock.Lock()
	s.ended = append(s.ended, deletion{Pod: obj.GetName(), UID: ptr.Deref(options.Preconditions.UID, ""),
		Grace: ptr.Deref(options.GracePeriodSeconds, -1)})
	s.lock.Unlock()
	// The fake client does not look at preconditions, other than an API server.
	there := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), there); err != nil {
		return err
	}
	if uid := options.Preconditions.UID; uid != nil && *uid != there.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), obj.GetName(), errors.New("another UID"))
	}
	if err := c.Delete(ctx, obj, opts...); err != nil || s.onEnd == nil {
		return err
	}
	s.onEnd()
	return nil
}

// scaled lets the pods end that a StatefulSet gives up, and their members with them.
func (s *seeds) scaled(ctx context.Context, c client.Client, statefulSet *appsv1.StatefulSet) error {
	s.event(fmt.Sprintf("scaled %s to %d", statefulSet.Name, *statefulSet.Spec.Replicas))
	for ordinal := int(*statefulSet.Spec.Replicas); ordinal < 3; ordinal++ {
		etcdRole := strings.TrimPrefix(statefulSet.Name, "etcd-")
		if err := client.IgnoreNotFound(c.Delete(ctx, pod(naming.PodName(etcdRole, ordinal)))); err != nil {
			return err
		}
		s.clusters[etcdRole].SetUp(memberName(s.prefixOf(s.seed), etcdRole, ordinal), false)
	}
	return nil
}

func (s *seeds) event(text string) {
	s.lock.Lock()
	s.events = append(s.events, text)
	s.lock.Unlock()
	if s.onEvent != nil {
		s.onEvent(text)
	}
}

func (s *seeds) happened() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]string(nil), s.events...)
}

func (s *seeds) deletions() []deletion {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]deletion(nil), s.ended...)
}

func (s *seeds) sawVoters(etcdRole string) []int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]int(nil), s.voters[etcdRole]...)
}

// joint returns a Joint for the seed with the role.
func (s *seeds) joint(role steps.Role, mutate ...func(*Config)) *Joint {
	config := Config{
		Log: logr.Discard(), Client: s.client, Namespace: namespace, Role: role,
		SourceSeed: "seed-a", DestinationSeed: "seed-b", PollInterval: time.Millisecond,
		SteadyTime: time.Nanosecond,
		NewCluster: func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return s.clusters[etcdRole], nil
		},
		OnVoters: func(etcdRole string, voters int) {
			s.lock.Lock()
			defer s.lock.Unlock()
			if seen := s.voters[etcdRole]; len(seen) == 0 || seen[len(seen)-1] != voters {
				s.voters[etcdRole] = append(seen, voters)
			}
		},
	}
	for _, m := range mutate {
		m(&config)
	}
	return New(config)
}

// addLearner adds a member of the destination as a learner that has not started.
func (s *seeds) addLearner(etcdRole string, ordinal int) uint64 {
	id, err := s.clusters[etcdRole].AddLearner(
		peerURL(steps.Destination, etcdRole)(memberName("seed-b", etcdRole, ordinal)))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return id
}

// loseData empties the volume of a member. Its sidecar removes the member and adds it again, as a learner without a
// name.
func (s *seeds) loseData(role steps.Role, etcdRole string, ordinal int) uint64 {
	seed := map[steps.Role]string{steps.Source: "seed-a", steps.Destination: "seed-b"}[role]
	name := memberName(s.prefixOf(seed), etcdRole, ordinal)
	cluster := s.clusters[etcdRole]
	cluster.SetUp(name, false)
	list, err := cluster.List(context.Background())
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	for _, member := range list.Members {
		if member.Name == name {
			ExpectWithOffset(1, cluster.Remove(context.Background(), member.ID)).To(Succeed())
		}
	}
	id, err := cluster.AddLearner(peerURL(role, etcdRole)(name))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return id
}

// runEtcd lets the etcd container of the pod of etcd-main run.
func (s *seeds) runEtcd(ordinal int) {
	there := &corev1.Pod{}
	ExpectWithOffset(1, s.client.Get(context.Background(),
		client.ObjectKey{Namespace: namespace, Name: naming.PodName("main", ordinal)}, there)).To(Succeed())
	there.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "backup-restore", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	ExpectWithOffset(1, s.client.Status().Update(context.Background(), there)).To(Succeed())
}

// lead gives leadership to the member.
func (s *seeds) lead(etcdRole, name string) {
	cluster := s.clusters[etcdRole]
	list, err := cluster.List(context.Background())
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	byName := map[string]etcdclient.Member{}
	for _, member := range list.Members {
		byName[member.Name] = member
	}
	if leader := cluster.Leader(); leader != name {
		ExpectWithOffset(1, byName).To(HaveKey(name))
		ExpectWithOffset(1, cluster.MoveLeader(context.Background(), byName[leader], byName[name].ID)).To(Succeed())
	}
}

// retireSource makes the members of the source leave the cluster, and the destination lead it, until so many are left.
func (s *seeds) retireSource(etcdRole string, left int) {
	s.joinDestination(etcdRole, 3)
	s.lead(etcdRole, memberName("seed-b", etcdRole, 0))
	s.removeSource(etcdRole, left)
}

// removeSource removes the members of the source, but for so many with the lowest ordinals.
func (s *seeds) removeSource(etcdRole string, left int) {
	cluster := s.clusters[etcdRole]
	list, err := cluster.List(context.Background())
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	for _, member := range list.Members {
		if ordinal := int(member.Name[len(member.Name)-1] - '0'); !strings.HasPrefix(member.Name, "seed-b-") &&
			ordinal >= left {
			cluster.SetUp(member.Name, false)
			ExpectWithOffset(1, cluster.Remove(context.Background(), member.ID)).To(Succeed())
		}
	}
}

// joinDestination makes voters of the given number of the destination's members.
func (s *seeds) joinDestination(etcdRole string, members int) {
	for ordinal := range members {
		id := s.addLearner(etcdRole, ordinal)
		s.clusters[etcdRole].Start(id, memberName("seed-b", etcdRole, ordinal))
		s.clusters[etcdRole].CatchUp(id)
		ExpectWithOffset(1, s.clusters[etcdRole].Promote(context.Background(), id)).To(Succeed())
	}
}

// joinLast makes a voter of the destination's last member.
func (s *seeds) joinLast(etcdRole string) {
	id := s.addLearner(etcdRole, 2)
	s.clusters[etcdRole].Start(id, memberName("seed-b", etcdRole, 2))
	s.clusters[etcdRole].CatchUp(id)
	ExpectWithOffset(1, s.clusters[etcdRole].Promote(context.Background(), id)).To(Succeed())
}

// safely calls the function with every message of a retirement that nothing disturbs, and ends it with an error when it
// finds the quorum at risk: something was done too early then, and it could wait without end.
func safely(look func(message string)) ReportFunc {
	return func(_ context.Context, reason steps.Reason, message string) error {
		if reason == steps.ReasonQuorumAtRisk {
			return fmt.Errorf("the quorum is at risk although all members are healthy: %s", message)
		}
		look(message)
		return nil
	}
}
