// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

const shootNamespace = "shoot--demo--live"

// fakes are targets of fake clients that remember what was done to them.
type fakes struct {
	fault.Targets

	seeds  map[steps.Role]*fake.Clientset
	garden client.Client
	pids   map[string]int
	// containers names the container of each process.
	containers map[string]string
	signals    []string
	etcd       *etcd
	traffic    map[string][]string
	// disturbed is what each load balancer has counted.
	disturbed loadbalancer.Disturbed
	// deaf makes processes continue whatever signal they get.
	deaf bool
	// lastPID is the id of the process that was made last.
	lastPID int
	// gone says that the buckets are hidden, loops how many endless ones there are in each seed.
	gone  bool
	loops map[string]int
	// idle makes endless loops take nothing.
	idle bool
}

type bucketsOf struct{ fakes *fakes }

func (b bucketsOf) Hide() error           { b.fakes.gone = true; return nil }
func (b bucketsOf) Hidden() (bool, error) { return b.fakes.gone, nil }
func (b bucketsOf) Show() error           { b.fakes.gone = false; return nil }

type burdenOf struct {
	fakes *fakes
	seed  string
}

func (b burdenOf) Begin(loops int) error { b.fakes.loops[b.seed] = loops; return nil }
func (b burdenOf) End() error            { delete(b.fakes.loops, b.seed); return nil }

func (b burdenOf) Running() (int, time.Duration, error) {
	if b.fakes.idle {
		return b.fakes.loops[b.seed], 0, nil
	}
	return b.fakes.loops[b.seed], time.Second, nil
}

// etcd is a cluster whose members are its pods.
type etcd struct {
	leader string
	// voters are those beside the first two members.
	voters int
	broken []string
	alarms []string

	mu     sync.Mutex
	closed int
	// meet is called by each question for a status, if it is set.
	meet func()
}

type member struct {
	*etcd

	pod string
}

func id(pod string) uint64 { return uint64(len(pod))*100 + uint64(pod[len(pod)-1]) }

func (m member) Status(context.Context) (uint64, uint64, error) {
	if m.meet != nil {
		m.meet()
	}
	if slices.Contains(m.broken, m.pod) {
		return 0, 0, errors.New("no answer")
	}
	if strings.HasPrefix(m.pod, "etcd-events-") {
		return id(m.pod), id("etcd-events-1"), nil
	}
	return id(m.pod), id(m.leader), nil
}

func (m member) Voters(context.Context) ([]uint64, error) {
	name := m.pod[:strings.LastIndexByte(m.pod, '-')]
	ids := []uint64{id(name + "-0"), id(name + "-1")}
	for i := range m.voters {
		ids = append(ids, uint64(i))
	}
	return ids, nil
}

func (m member) RaiseNoSpace(_ context.Context, member uint64) error {
	m.alarms = append(m.alarms, strconv.FormatUint(member, 10))
	m.etcd.alarms = m.alarms
	return nil
}

func (m member) NoSpace(context.Context) (bool, error) { return len(m.etcd.alarms) > 0, nil }

func (m member) Disarm(context.Context) error {
	m.etcd.alarms = nil
	return nil
}

func (m member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	return nil
}

type loadBalancerOf struct {
	fakes *fakes
	seed  string
}

func (l loadBalancerOf) Add(_ context.Context, change loadbalancer.Fault) error {
	l.fakes.traffic[l.seed] = append(l.fakes.traffic[l.seed], change.SNI+manner(change)+direction(change))
	return nil
}

func manner(change loadbalancer.Fault) string {
	text := fmt.Sprintf(" latency=%s cut=%s", change.Latency.Duration, change.Cut)
	if change.Loss > 0 {
		text += fmt.Sprintf(" loss=%d", change.Loss)
	}
	if change.Every.Duration > 0 {
		text += fmt.Sprintf(" every=%s for=%s", change.Every.Duration, change.For.Duration)
	}
	return text
}

func direction(change loadbalancer.Fault) string {
	if change.Direction == "" {
		return ""
	}
	return " direction=" + string(change.Direction)
}

func (l loadBalancerOf) Lift(_ context.Context, change loadbalancer.Fault) error {
	l.fakes.traffic[l.seed] = slices.DeleteFunc(l.fakes.traffic[l.seed], func(there string) bool {
		what, _, _ := strings.Cut(there, " direction=")
		return strings.HasSuffix(what, manner(change))
	})
	return nil
}

func (l loadBalancerOf) InForce(_ context.Context, change loadbalancer.Fault) (bool, error) {
	return slices.Contains(l.fakes.traffic[l.seed], change.SNI+manner(change)+direction(change)), nil
}

func (l loadBalancerOf) Disturbed(context.Context, string) (loadbalancer.Disturbed, error) {
	return l.fakes.disturbed, nil
}

// obey does what a process does with a signal.
func (targets *fakes) obey(pid int, signal unix.Signal) error {
	folder := filepath.Join(targets.Proc, strconv.Itoa(pid))
	switch {
	case targets.deaf:
		return nil
	case signal == unix.SIGKILL:
		return os.RemoveAll(folder)
	case signal == unix.SIGSTOP:
		return write(filepath.Join(folder, "stat"), fmt.Sprintf("%d (a ) b) T 1", pid))
	case signal == unix.SIGCONT:
		return write(filepath.Join(folder, "stat"), fmt.Sprintf("%d (a ) b) S 1", pid))
	}
	return nil
}

// write writes a file with its folder.
func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

type processes map[string]int

func (p processes) PID(name string) int { return p[name] }

// newFakes makes a source and a destination with everything in them that a fault can hit.
func newFakes() *fakes {
	scheme := runtime.NewScheme()
	Expect(gardencorev1beta1.AddToScheme(scheme)).To(Succeed())
	targets := &fakes{
		seeds: map[steps.Role]*fake.Clientset{},
		pids: map[string]int{"gardener-apiserver": 71, "garden-kube-apiserver": 72, "garden-etcd": 73,
			"garden-dns": 74, "livecpm-controller-manager": 75},
		loops:      map[string]int{},
		containers: map[string]string{},
		etcd:       &etcd{leader: "etcd-main-1"},
		traffic:    map[string][]string{},
		lastPID:    1000,
	}
	var seeds []client.Object
	targets.Targets = fault.Targets{
		Seeds:     map[steps.Role]fault.Seed{},
		Namespace: shootNamespace,
		Processes: processes(targets.pids),
		Proc:      GinkgoT().TempDir(),
		Signal:    targets.signal,
		Etcd: func(_ context.Context, _ fault.Seed, pod string) (fault.Member, error) {
			return member{targets.etcd, pod}, nil
		},
		LoadBalancer: func(seed fault.Seed) fault.LoadBalancer { return loadBalancerOf{targets, seed.Name} },
		Start:        targets.start,
		Buckets:      bucketsOf{targets},
		Processors:   4,
		Burden:       func(seed fault.Seed) fault.Burden { return burdenOf{targets, seed.Name} },
		Log:          func(string, ...any) {},
	}

	for i, role := range []steps.Role{steps.Source, steps.Destination} {
		name := []string{"seed-a", "seed-b"}[i]
		objects := &objects{fakes: targets, seed: name, role: role}
		objects.add("garden", "livecpm-agent", &appsv1.Deployment{}, "agent")
		objects.add("garden", "gardenlet", &appsv1.Deployment{}, "gardenlet")
		objects.add("garden", "etcd-druid", &appsv1.Deployment{}, "etcd-druid")
		objects.add(shootNamespace, "kube-apiserver", &appsv1.Deployment{}, "kube-apiserver")
		objects.add(shootNamespace, "kube-controller-manager", &appsv1.Deployment{}, "kube-controller-manager")
		objects.add("istio-system", "istiod", &appsv1.Deployment{}, "discovery")
		objects.add("garden", "gardener-resource-manager", &appsv1.Deployment{}, "gardener-resource-manager")
		objects.add("istio-ingress", "istio-ingressgateway", &appsv1.Deployment{}, "istio-proxy")
		objects.add(shootNamespace, "etcd-events", &appsv1.StatefulSet{}, "etcd", "backup-restore")
		objects.add(shootNamespace, "etcd-main", &appsv1.StatefulSet{}, "etcd", "backup-restore")
		objects.add(shootNamespace, "livecpm-relay", &appsv1.StatefulSet{}, "relay")
		objects.all = append(objects.all, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent-leader-election"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("livecpm-agent-1_0a1b")},
		})
		targets.seeds[role] = fake.NewClientset(objects.all...)
		targets.Seeds[role] = fault.Seed{Name: name, Kube: targets.seeds[role]}
		seeds = append(seeds, &gardencorev1beta1.Seed{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     gardencorev1beta1.SeedStatus{Gardener: &gardencorev1beta1.Gardener{Version: "v1.150.0"}},
		})
	}
	targets.garden = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(seeds...).
		WithStatusSubresource(seeds...).Build()
	targets.Garden = targets.garden
	return targets
}

// signal remembers a signal that somebody sends.
func (targets *fakes) signal(pid int, signal unix.Signal) error {
	targets.signals = append(targets.signals, fmt.Sprintf("%d %s", pid, unix.SignalName(signal)))
	return targets.obey(pid, signal)
}

// start starts a daemon again.
func (targets *fakes) start(_ context.Context, daemon string) error {
	targets.pids[daemon] = 76
	return nil
}

// objects are those of a seed.
type objects struct {
	fakes *fakes
	seed  string
	role  steps.Role
	all   []runtime.Object
}

// add adds a workload with two pods, whose containers run.
func (o *objects) add(namespace, name string, workload runtime.Object, containers ...string) {
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	switch workload := workload.(type) {
	case *appsv1.Deployment:
		workload.ObjectMeta, workload.Spec.Selector = meta, selector
	case *appsv1.StatefulSet:
		workload.ObjectMeta, workload.Spec.Selector = meta, selector
	}
	o.all = append(o.all, workload)
	for ordinal := range 2 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, ordinal),
				Labels: labels},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		for _, container := range containers {
			o.run(pod, container)
		}
		o.all = append(o.all, pod)
	}
}

// run makes a process that is in the cgroup of the pod's container.
func (o *objects) run(pod *corev1.Pod, container string) {
	o.fakes.lastPID++
	pid := o.fakes.lastPID
	cgroup := fmt.Sprintf("%sfeedbeef%d", container, pid)
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: container, ContainerID: "containerd://" + cgroup,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
	for _, signal := range []string{"SIGKILL", "SIGSTOP", "SIGCONT"} {
		o.fakes.containers[fmt.Sprintf("%d %s", pid, signal)] = fmt.Sprintf("%s %s %s", o.role, pod.Name, container)
	}
	folder := filepath.Join(o.fakes.Proc, strconv.Itoa(pid))
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "cgroup"),
		[]byte("5:memory:/livecpm-"+o.seed+"/kubepods/pod1/"+cgroup+"\n4:cpu:/x/"+cgroup+"\n"), 0o644)).To(Succeed())
	Expect(write(filepath.Join(folder, "stat"), fmt.Sprintf("%d (%s) S 1", pid, container))).To(Succeed())
}

// deleted lists the pods that were deleted in a seed, with the grace period that they were given.
func (targets *fakes) deleted(role steps.Role) []string {
	names := []string{}
	for _, action := range targets.seeds[role].Actions() {
		if deletion, ok := action.(testing.DeleteActionImpl); ok {
			name := deletion.GetNamespace() + "/" + deletion.GetName()
			if grace := deletion.DeleteOptions.GracePeriodSeconds; grace != nil {
				name += fmt.Sprintf(" grace %d", *grace)
			}
			names = append(names, name)
		}
	}
	return names
}

// killed names the containers whose processes were killed.
func (targets *fakes) killed() []string { return targets.signalled("SIGKILL") }

// signalled names the containers whose processes got the signal.
func (targets *fakes) signalled(name string) []string {
	names := []string{}
	for _, signal := range targets.signals {
		if container, ok := targets.containers[signal]; ok && strings.HasSuffix(signal, name) {
			names = append(names, container)
		}
	}
	return names
}

func (targets *fakes) version(role steps.Role) string {
	seed := &gardencorev1beta1.Seed{}
	key := client.ObjectKey{Name: targets.Seeds[role].Name}
	Expect(targets.garden.Get(context.Background(), key, seed)).To(Succeed())
	return seed.Status.Gardener.Version
}
