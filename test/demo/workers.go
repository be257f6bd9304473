// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/extension/stateful"
)

// WorkersReport is what a migration meant for the nodes of a shoot with workers.
type WorkersReport = recording.Workers

// PoolReport is a worker pool.
type PoolReport = recording.Pool

// MachineReport is a machine.
type MachineReport = recording.Machine

// StateReport is the state that an extension keeps.
type StateReport = recording.State

// RequestsReport is what was counted of requests.
type RequestsReport = recording.Requests

const (
	askInterval      = 500 * time.Millisecond
	askTimeout       = 10 * time.Second
	maxRequestErrors = 10
)

// workersObserver observes machines, nodes, extensions, VPN and webhooks of a shoot with workers.
type workersObserver struct {
	surroundings
	access *rest.Config
	shoot  kubernetes.Interface

	before    WorkersPicture
	inCluster *inClusterObserver
	streams   *Streams

	mu     sync.Mutex
	report WorkersReport
}

// WorkersPicture is what of a shoot with workers must be the same after a migration.
type WorkersPicture struct {
	// Machines tells the node of each machine, MachineUIDs and NodeUIDs who they are in the cloud and in the shoot.
	Machines, MachineUIDs, NodeUIDs map[string]string
	// Pools tells the worker pool of each node.
	Pools map[string]string
	// States are digests of the states that extensions keep, by kind and name of their resource.
	States map[string]string
}

// ComparePools returns the pools with their machines of before and after.
func (p WorkersPicture) ComparePools(after WorkersPicture) []PoolReport {
	pools := map[string][]MachineReport{}
	machines := maps.Clone(p.Machines)
	maps.Copy(machines, after.Machines)
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		machine := MachineReport{Name: name, Before: p.Machines[name], After: after.Machines[name]}
		pool := cmp.Or(p.Pools[machine.Before], after.Pools[machine.After])
		pools[pool] = append(pools[pool], machine)
	}
	out := []PoolReport{}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		out = append(out, PoolReport{Name: name, Machines: pools[name]})
	}
	return out
}

// CompareStates returns the states of extensions of before and after.
func (p WorkersPicture) CompareStates(after WorkersPicture) []StateReport {
	states := maps.Clone(p.States)
	maps.Copy(states, after.States)
	out := []StateReport{}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		out = append(out, StateReport{Resource: name, Before: p.States[name], After: after.States[name]})
	}
	return out
}

// digest stands for a state.
func digest(state any) string {
	if state == nil {
		return "none"
	}
	// Objects are encoded with their keys in order.
	content, err := json.Marshal(state)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d bytes, sha256 %.6x", len(content), sha256.Sum256(content))
}

// Compare returns what is different afterwards.
func (p WorkersPicture) Compare(after WorkersPicture) []string {
	changed := []string{}
	for _, part := range []struct {
		what          string
		before, after map[string]string
	}{
		{"node of machine", p.Machines, after.Machines}, {"UID of machine", p.MachineUIDs, after.MachineUIDs},
		{"UID of node", p.NodeUIDs, after.NodeUIDs}, {"pool of node", p.Pools, after.Pools},
		{"state of", p.States, after.States},
	} {
		names := maps.Clone(part.before)
		maps.Copy(names, part.after)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if before, after := part.before[name], part.after[name]; before != after {
				changed = append(changed, fmt.Sprintf("%s %s: %q -> %q", part.what, name, before, after))
			}
		}
	}
	return changed
}

// surroundings are where the parts of a shoot with workers are.
type surroundings struct {
	// namespace is that of the shoot in the seeds.
	namespace           string
	source, destination *driver.Cluster
	// cloud is where the machines are.
	cloud *driver.Cluster
}

func newWorkersObserver(around surroundings, access *rest.Config) (*workersObserver, error) {
	config := rest.CopyConfig(access)
	config.QPS = -1
	config.Timeout = 0
	shoot, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create client for the shoot: %w", err)
	}
	return &workersObserver{
		surroundings: around, access: config, shoot: shoot,
		inCluster: &inClusterObserver{cloud: around.cloud.Kube, namespace: driver.MachineNamespace(around.namespace),
			shoot: shoot},
		streams: NewStreams(shoot, config),
		report: WorkersReport{MachinesCreated: []string{}, MachinesDeleted: []string{}, NodesCreated: []string{},
			NodesDeleted: []string{}, Misdone: []string{}},
	}, nil
}

// start takes the picture of before and begins to watch who comes and goes.
func (o *workersObserver) start(ctx context.Context) error {
	var err error
	if o.before, err = o.picture(ctx, o.source); err != nil {
		return err
	}
	machines := informers.NewSharedInformerFactoryWithOptions(o.cloud.Kube, 0,
		informers.WithNamespace(driver.MachineNamespace(o.namespace)))
	nodes := informers.NewSharedInformerFactory(o.shoot, 0)
	var synced []cache.InformerSynced
	for _, watched := range []struct {
		informer         cache.SharedIndexInformer
		created, deleted *[]string
	}{
		{machines.Core().V1().Pods().Informer(), &o.report.MachinesCreated, &o.report.MachinesDeleted},
		{nodes.Core().V1().Nodes().Informer(), &o.report.NodesCreated, &o.report.NodesDeleted},
	} {
		if _, err := watched.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, initial bool) {
				if !initial {
					o.note(watched.created, object)
				}
			},
			DeleteFunc: func(object any) { o.note(watched.deleted, object) },
		}); err != nil {
			return fmt.Errorf("failed to watch machines and nodes: %w", err)
		}
		synced = append(synced, watched.informer.HasSynced)
	}
	machines.Start(ctx.Done())
	nodes.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("failed to list machines and nodes: %w", ctx.Err())
	}
	return nil
}

// startClients has clients run on all nodes of the shoot. A machine in the cloud has the name of its node.
func (o *workersObserver) startClients(ctx context.Context) error {
	return o.inCluster.start(ctx, slices.Sorted(maps.Keys(o.before.NodeUIDs)))
}

func (o *workersObserver) note(list *[]string, object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	if named, ok := object.(metav1.Object); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		*list = append(*list, named.GetName())
	}
}

// askKubelets sends a request through the VPN twice per second until the context ends: the kube-apiserver asks the
// kubelets of all nodes in turn.
func (o *workersObserver) askKubelets(ctx context.Context) {
	nodes := slices.Sorted(maps.Keys(o.before.NodeUIDs))
	if len(nodes) == 0 {
		return
	}
	o.repeat(ctx, &o.report.VPN, func(ctx context.Context, i int) (string, error) {
		node := nodes[i%len(nodes)]
		return node, o.askKubelet(ctx, node)
	})
}

// repeat asks twice per second until the context ends, one request after the other, and counts.
func (o *workersObserver) repeat(
	ctx context.Context, requests *RequestsReport, ask func(ctx context.Context, i int) (whom string, err error),
) {
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		requestCtx, cancel := context.WithTimeout(ctx, askTimeout)
		whom, err := ask(requestCtx, i)
		cancel()
		if ctx.Err() != nil {
			return
		}
		o.count(requests, whom, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// askWebhooks has the kube-apiserver ask the resource manager's webhooks twice per second until the context ends, by
// pods that are created for the sake of the answer only.
func (o *workersObserver) askWebhooks(ctx context.Context) {
	o.repeat(ctx, &o.report.Webhooks, func(ctx context.Context, _ int) (string, error) {
		return "a pod in " + metav1.NamespaceSystem, o.askWebhook(ctx)
	})
}

// askWebhook creates such a pod. The resource manager's webhook has each pod of Gardener's system components select
// their nodes, and its failure policy refuses the pod if nobody answers (NewSystemComponentsConfigMutatingWebhook in
// gardener's pkg/component/gardener/resourcemanager).
func (o *workersObserver) askWebhook(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "livecpm-demo-", Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{resourcesv1alpha1.ManagedBy: resourcesv1alpha1.GardenerManager}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none.invalid/none"}}},
	}
	created := &corev1.Pod{}
	err := o.shoot.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
		VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, scheme.ParameterCodec).
		Body(pod).MaxRetries(0).Do(ctx).Into(created)
	if err != nil {
		return err
	}
	if created.Spec.NodeSelector[v1beta1constants.LabelWorkerPoolSystemComponents] != "true" {
		return fmt.Errorf("no webhook has been asked: the pod has the node selector %v", created.Spec.NodeSelector)
	}
	return nil
}

func (o *workersObserver) askKubelet(ctx context.Context, node string) error {
	code := 0
	result := o.shoot.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("healthz").
		MaxRetries(0).Do(ctx).StatusCode(&code)
	body, err := result.Raw()
	if err != nil {
		return fmt.Errorf("%w: %.200s", err, body)
	}
	if code != http.StatusOK || string(body) != "ok" {
		return fmt.Errorf("status %d: %s", code, body)
	}
	return nil
}

func (o *workersObserver) count(requests *RequestsReport, whom string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests.Requests++
	if err == nil {
		return
	}
	requests.Failed++
	now := time.Now().UTC()
	requests.FirstFailed, requests.LastFailed = span(requests.FirstFailed, requests.LastFailed, now, now)
	if len(requests.Errors) < maxRequestErrors {
		requests.Errors = append(requests.Errors,
			fmt.Sprintf("%s %s: %v", now.Format(time.RFC3339), whom, err))
	}
}

// finish returns the report. The shoot is in the seed.
func (o *workersObserver) finish(ctx context.Context, seed *driver.Cluster, since time.Time) (*WorkersReport, error) {
	inCluster := o.inCluster.finish(ctx)
	after, err := o.picture(ctx, seed)
	operations, operationsErr := o.operations(ctx, since)
	o.mu.Lock()
	defer o.mu.Unlock()
	report := o.report
	report.Machines = after.Machines
	report.Pools = o.before.ComparePools(after)
	report.States = o.before.CompareStates(after)
	report.Changed = o.before.Compare(after)
	report.InCluster = inCluster
	report.Streams = o.streams.Report()
	report.Operations = len(operations)
	report.Misdone = Misdone(operations)
	return &report, errors.Join(err, operationsErr)
}

// operations reads what the test extension has done for the shoot in both seeds.
func (o *workersObserver) operations(ctx context.Context, since time.Time) ([]stateful.Operation, error) {
	var out []stateful.Operation
	for _, seed := range []*driver.Cluster{o.source, o.destination} {
		operations, err := stateful.Read(ctx, seed.Client)
		if err != nil {
			return nil, fmt.Errorf("failed to read the operations of the test extension in %s: %w", seed.Name, err)
		}
		for _, operation := range operations {
			if operation.Namespace == o.namespace && !operation.Begin.Before(since) {
				out = append(out, operation)
			}
		}
	}
	return out, nil
}

// Misdone returns the operations that failed, and those that two seeds did on the same resource at the same time.
func Misdone(operations []stateful.Operation) []string {
	out := []string{}
	name := func(operation stateful.Operation) string {
		return fmt.Sprintf("%s %s of %s %s", operation.Seed, operation.Operation, operation.Kind, operation.Name)
	}
	for i, one := range operations {
		if one.Error != "" {
			out = append(out, name(one)+": "+one.Error)
		}
		for _, other := range operations[:i] {
			if one.Seed != other.Seed && one.Kind == other.Kind && one.Namespace == other.Namespace &&
				one.Name == other.Name &&
				one.Begin.Before(other.End) && other.Begin.Before(one.End) {
				out = append(out, name(other)+" and "+name(one)+" at the same time")
			}
		}
	}
	return out
}

// picture reads what must not change.
func (o *workersObserver) picture(ctx context.Context, seed *driver.Cluster) (WorkersPicture, error) {
	picture := WorkersPicture{Machines: map[string]string{}, MachineUIDs: map[string]string{},
		NodeUIDs: map[string]string{}, Pools: map[string]string{}, States: map[string]string{}}
	machines, err := listKind(ctx, seed,
		schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "MachineList"}, o.namespace)
	if err != nil {
		return picture, err
	}
	for _, machine := range machines {
		picture.Machines[machine.GetName()] = machine.GetLabels()["node"]
	}
	pods := &corev1.PodList{}
	if err := o.cloud.Client.List(ctx, pods, client.InNamespace(driver.MachineNamespace(o.namespace))); err != nil {
		return picture, fmt.Errorf("failed to list machines in the cloud: %w", err)
	}
	for _, pod := range pods.Items {
		picture.MachineUIDs[pod.Name] = string(pod.UID)
	}
	nodes, err := o.shoot.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return picture, fmt.Errorf("failed to list nodes of the shoot: %w", err)
	}
	for _, node := range nodes.Items {
		picture.NodeUIDs[node.Name] = string(node.UID)
		picture.Pools[node.Name] = node.Labels[v1beta1constants.LabelWorkerPool]
	}
	// A Worker's state is its machines, which are compared by themselves.
	for _, kind := range []string{extensionsv1alpha1.ExtensionResource, extensionsv1alpha1.NetworkResource,
		extensionsv1alpha1.InfrastructureResource, extensionsv1alpha1.ControlPlaneResource,
		extensionsv1alpha1.ContainerRuntimeResource} {
		objects, err := listKind(ctx, seed, extensionsv1alpha1.SchemeGroupVersion.WithKind(kind+"List"), o.namespace)
		if err != nil {
			return picture, err
		}
		for _, object := range objects {
			state, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "state")
			picture.States[kind+" "+object.GetName()] = digest(state)
		}
	}
	return picture, nil
}

func listKind(
	ctx context.Context, seed *driver.Cluster, kind schema.GroupVersionKind, namespace string,
) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := seed.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list %s in %s: %w", kind.Kind, seed.Name, err)
	}
	return list.Items, nil
}
