// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakeclientmap "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/fake"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/component/extensions/containerruntime"
	"github.com/gardener/gardener/pkg/component/extensions/controlplane"
	"github.com/gardener/gardener/pkg/component/extensions/extension"
	"github.com/gardener/gardener/pkg/component/extensions/infrastructure"
	"github.com/gardener/gardener/pkg/component/extensions/network"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig"
	"github.com/gardener/gardener/pkg/component/extensions/worker"
	kubeapiserver "github.com/gardener/gardener/pkg/component/kubernetes/apiserver"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentcontrolplane "github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
	"github.com/livecpm/livecpm/test/patience"
)

// journal takes down what happens, in its order.
type journal struct {
	lock    sync.Mutex
	entries []string
}

func (j *journal) write(format string, args ...any) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

// at returns the place of the first entry that is the text, and fails if there is none.
func (j *journal) at(text string) int {
	GinkgoHelper()
	Expect(j.entries).To(ContainElement(text))
	return slices.Index(j.entries, text)
}

// last returns the place of the last entry that is the text.
func (j *journal) last(text string) int {
	GinkgoHelper()
	place := -1
	for i, entry := range j.entries {
		if entry == text {
			place = i
		}
	}
	Expect(place).To(BeNumerically(">=", 0), text)
	return place
}

// component writes into the journal instead of doing anything.
type component struct {
	name    string
	journal *journal
	// fail, when set, is returned by the function of the name.
	fail map[string]error
}

func (c component) do(what string) error {
	c.journal.write("%s %s", what, c.name)
	return c.fail[what]
}

func (c component) Deploy(context.Context) error      { return c.do("deploy") }
func (c component) Destroy(context.Context) error     { return c.do("destroy") }
func (c component) Wait(context.Context) error        { return c.do("wait") }
func (c component) WaitCleanup(context.Context) error { return c.do("waitCleanup") }
func (c component) Migrate(context.Context) error     { return c.do("migrate") }
func (c component) WaitMigrate(context.Context) error { return c.do("waitMigrate") }
func (c component) Restore(context.Context, *gardencorev1beta1.ShootState) error {
	return c.do("restore")
}

// What the types of the components have beyond that is one level deeper, and not called.
type (
	restOfInfrastructure struct{ infrastructure.Interface }
	restOfNetwork        struct{ network.Interface }
	restOfExtension      struct{ extension.Interface }
	restOfControlPlane   struct{ controlplane.Interface }
	restOfWorker         struct{ worker.Interface }
	restOfOSC            struct {
		operatingsystemconfig.Interface
	}
	restOfRuntime struct{ containerruntime.Interface }
	restOfMCM     struct {
		machinecontrollermanager.Interface
	}
	restOfAPIServer struct{ kubeapiserver.Interface }
	restOfEtcd      struct{ etcd.Interface }
	fakeNetwork     struct {
		component
		restOfNetwork
	}
	fakeInfrastructure struct {
		component
		restOfInfrastructure
	}
	fakeControlPlane struct {
		component
		restOfControlPlane
	}
	fakeWorker struct {
		component
		restOfWorker
	}
	fakeOSC struct {
		component
		restOfOSC
	}
	fakeRuntime struct {
		component
		restOfRuntime
	}
	fakeMCM struct {
		component
		restOfMCM
	}
	fakeAPIServer struct {
		component
		restOfAPIServer
	}
	fakeEtcd struct {
		component
		restOfEtcd
	}
)

func (fakeAPIServer) SetSNIConfig(kubeapiserver.SNIConfig) {}

// fakeExtension stands for the component of the Extension resources.
type fakeExtension struct {
	restOfExtension
	of component
}

func (f fakeExtension) Destroy(context.Context) error     { return f.of.do("destroy") }
func (f fakeExtension) WaitCleanup(context.Context) error { return f.of.do("waitCleanup") }
func (f fakeExtension) MigrateBeforeKubeAPIServer(context.Context) error {
	return f.of.do("migrateBefore")
}
func (f fakeExtension) WaitMigrateBeforeKubeAPIServer(context.Context) error {
	return f.of.do("waitMigrateBefore")
}
func (f fakeExtension) DestroyBeforeKubeAPIServer(context.Context) error {
	return f.of.do("destroyBefore")
}
func (f fakeExtension) WaitCleanupBeforeKubeAPIServer(context.Context) error {
	return f.of.do("waitCleanupBefore")
}
func (f fakeExtension) MigrateAfterKubeAPIServer(context.Context) error {
	return f.of.do("migrateAfter")
}
func (f fakeExtension) WaitMigrateAfterKubeAPIServer(context.Context) error {
	return f.of.do("waitMigrateAfter")
}

// answering answers webhooks. It does not do so at the first looks, as many as are refused.
type answering struct {
	component
	refused, checked int
	// then, when set, is called at the first look.
	then func()
}

func (a *answering) Check(context.Context) error {
	a.checked++
	if a.then != nil {
		a.then()
	}
	if a.checked <= a.refused {
		return errors.New("not ready")
	}
	return a.do("check")
}

var _ = Describe("Cleaning up a shoot with workers", func() {
	const (
		machineFinalizer = "machine.sapcloud.io/machine-controller-manager"
		released         = "livecpm.gardener.cloud/machines-released"
		// waitInVain is how long a flow waits for what never comes.
		waitInVain = 2 * time.Second
	)
	var (
		ctx   = context.Background()
		now   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		book  *journal
		fails map[string]map[string]error
		// reportFails is what a report to the garden comes to.
		reportFails error

		objects []client.Object
		state   *gardencorev1beta1.ShootState
		seed    client.Client
		garden  client.Client
		deps    *source.Deps
		m       *migration.Migration
		b       *botanist.Botanist
	)

	machine := func(name string) *machinev1alpha1.Machine {
		return &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Finalizers: []string{machineFinalizer},
			Labels:          map[string]string{"node": "node-" + name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "set"}},
		}}
	}
	savedMachines := func() []string {
		GinkgoHelper()
		current := &gardencorev1beta1.ShootState{}
		Expect(garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), current)).To(Succeed())
		var names []string
		for _, data := range current.Spec.Gardener {
			if data.Type != "machine-state" {
				continue
			}
			saved, err := shootstate.UnmarshalMachineState(data.Data.Raw)
			Expect(err).NotTo(HaveOccurred())
			for _, deployment := range saved.MachineDeployments {
				for _, machine := range deployment.Machines {
					names = append(names, machine.Name+"@"+machine.Labels["node"])
				}
			}
		}
		slices.Sort(names)
		return names
	}

	BeforeEach(func() {
		book, fails, reportFails = &journal{}, map[string]map[string]error{}, nil
		state = &gardencorev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"}}
		objects = []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "deployment", Namespace: namespace,
				Finalizers: []string{machineFinalizer}}, Spec: machinev1alpha1.MachineDeploymentSpec{Replicas: 2}},
			&machinev1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
				Name: "set", Namespace: namespace, Finalizers: []string{machineFinalizer},
				OwnerReferences: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "deployment"}},
			}},
			machine("one"), machine("two"),
			&machinev1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "class", Namespace: namespace,
				Finalizers: []string{machineFinalizer}}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "class", Namespace: namespace,
				Finalizers: []string{machineFinalizer},
				Labels:     map[string]string{"gardener.cloud/purpose": "machineclass"}}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider", Namespace: namespace,
				Finalizers: []string{machineFinalizer},
				Labels:     map[string]string{"gardener.cloud/purpose": "cloudprovider"}}},
		}
		for _, name := range []string{"ca", "ca-client", "ca-etcd", "ca-etcd-peer",
			"kube-apiserver-etcd-encryption-key", "service-account-key"} {
			objects = append(objects, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
					Labels: map[string]string{"name": name, "managed-by": "secrets-manager", "persist": "true"}},
				Data: map[string][]byte{"key": []byte("value")},
			})
		}
		for _, name := range append([]string{"kube-apiserver"}, agentcontrolplane.Controllers...) {
			objects = append(objects,
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
		}
	})

	JustBeforeEach(func() {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).
			WithInterceptorFuncs(calls.Before(func(call calls.Call) error {
				if call.Verb != calls.Delete {
					return nil
				}
				switch o := call.Object.(type) {
				case *appsv1.Deployment:
					book.write("delete Deployment %s", o.Name)
				case *machinev1alpha1.Machine:
					Expect(o.Finalizers).To(BeEmpty())
					book.write("delete Machine")
				case *corev1.Namespace:
					book.write("delete Namespace")
				}
				return nil
			})).Build()
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			state,
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"},
				Spec: gardencorev1beta1.SeedSpec{Ingress: &gardencorev1beta1.Ingress{Domain: "a.example.com"}}},
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"},
				Spec: gardencorev1beta1.SeedSpec{Ingress: &gardencorev1beta1.Ingress{Domain: "b.example.com"}}},
		).WithInterceptorFuncs(calls.Before(func(call calls.Call) error {
			if _, ok := call.Object.(*gardencorev1beta1.ShootState); ok && call.Verb == calls.Patch {
				book.write("save ShootState")
			}
			return nil
		})).Build()

		clientSet := fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		deps = &source.Deps{
			Garden: garden, SeedClientSet: clientSet, Clock: testclock.NewFakeClock(now),
			Timings: flows.DefaultTimings(), NewCluster: destinationClusters(nil),
		}
		deps.Timings.PollInterval, deps.Timings.RolloutTimeout = time.Millisecond, patience.Eventually

		m = &migration.Migration{
			Log: logr.Discard(), Role: steps.Source, SourceSeed: "seed-a", DestinationSeed: "seed-b", Clock: deps.Clock,
			Shoot: &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
				Status:     gardencorev1beta1.ShootStatus{TechnicalID: namespace},
			},
			Report: func(_ context.Context, reason steps.Reason, _ string) error {
				book.write("report %s", reason)
				return reportFails
			},
		}

		of := func(name string) component { return component{name: name, journal: book, fail: fails[name]} }
		shootObject := &shoot.Shoot{ControlPlaneNamespace: namespace, Components: &shoot.Components{
			DependencyWatchdogAccess: of("dependency-watchdog"),
			ControlPlane: &shoot.ControlPlane{
				MachineControllerManager: fakeMCM{component: of("machine-controller-manager")},
				KubeAPIServer:            fakeAPIServer{component: of("kube-apiserver")},
				KubeAPIServerSNI:         of("sni"),
				EtcdMain:                 fakeEtcd{component: of("etcd-main")},
				EtcdEvents:               fakeEtcd{component: of("etcd-events")},
			},
			Extensions: &shoot.Extensions{
				Infrastructure:        fakeInfrastructure{component: of("Infrastructure")},
				ControlPlane:          fakeControlPlane{component: of("ControlPlane")},
				Worker:                fakeWorker{component: of("Worker")},
				OperatingSystemConfig: fakeOSC{component: of("OperatingSystemConfig")},
				ContainerRuntime:      fakeRuntime{component: of("ContainerRuntime")},
				Network:               fakeNetwork{component: of("Network")},
				Extension:             fakeExtension{of: of("Extension")},
			},
		}}
		shootObject.SetInfo(m.Shoot)
		b = &botanist.Botanist{Operation: &gardeneroperation.Operation{
			Logger: logr.Discard(), Shoot: shootObject, Config: gatewayConfig(),
			Seed: seedOf("seed-a"), SeedClientSet: clientSet, GardenClient: garden,
			ShootClientMap: fakeclientmap.NewClientMap(),
		}}
	})

	run := func() error {
		return source.CleanupGraph(ctx, deps, m, b)
	}
	remaining := func(list client.ObjectList) int {
		GinkgoHelper()
		Expect(seed.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		return meta.LenList(list)
	}

	It("should stop who asks for machines, save them, and only then release their objects", func() {
		Expect(run()).To(Succeed())

		order := []int{
			book.at("destroy dependency-watchdog"),
			book.at("delete Deployment cluster-autoscaler"),
			book.at("delete Deployment machine-controller-manager"),
			book.at("migrate Worker"),
			book.at("waitMigrate Worker"),
			book.at("save ShootState"),
			book.at("delete Machine"),
			book.at("destroy Worker"),
			book.at("waitCleanup Worker"),
			book.at("migrate ControlPlane"),
			book.at("waitMigrate ControlPlane"),
			book.at("destroy ControlPlane"),
			book.at("delete Deployment kube-controller-manager"),
			book.at("delete Deployment kube-apiserver"),
			book.at("migrate Infrastructure"),
			book.at("waitMigrate Infrastructure"),
			book.last("save ShootState"),
			book.at("destroy Infrastructure"),
			book.at("waitCleanup Infrastructure"),
			book.at("delete Namespace"),
		}
		Expect(slices.IsSorted(order)).To(BeTrue(), "%v", book.entries)
		for _, name := range []string{"Network", "OperatingSystemConfig", "ContainerRuntime"} {
			Expect(book.at("waitMigrate "+name)).To(BeNumerically("<", book.at("save ShootState")), name)
			Expect(book.at("destroy "+name)).To(BeNumerically(">", book.at("save ShootState")), name)
		}
		Expect(book.at("waitMigrateBefore Extension")).To(BeNumerically("<", book.at("save ShootState")))
		Expect(book.at("destroyBefore Extension")).To(BeNumerically("<", book.at("migrate ControlPlane")))
	})

	It("should tell the destination at once when nothing is left of the controllers", func() {
		Expect(run()).To(Succeed())
		for _, name := range agentcontrolplane.Controllers {
			Expect(book.last("delete Deployment "+name)).To(BeNumerically("<",
				book.at("report SourceControllersStopped")),
				name)
		}
		Expect(slices.IsSorted([]int{
			book.at("report SourceControllersStopped"),
			book.at("delete Deployment kube-apiserver"),
			book.at("report DeletingSourceResources"),
			book.at("migrate Infrastructure"),
		})).To(BeTrue(), "%v", book.entries)
	})

	It("should not tell it while a pod of theirs is left, however its Deployment went", func() {
		Expect(seed.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "gardener-resource-manager-5d-x", Namespace: namespace,
			Labels:          map[string]string{"pod-template-hash": "5d"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "gardener-resource-manager-5d"}},
		}})).To(Succeed())
		deps.Timings.RolloutTimeout = waitInVain
		Expect(run()).To(MatchError(ContainSubstring("pod shoot--demo--live/gardener-resource-manager-5d-x is still " +
			"there, although deployment gardener-resource-manager is gone")))
		Expect(book.entries).NotTo(ContainElement(HavePrefix("report")))
		Expect(book.entries).NotTo(ContainElement("delete Deployment kube-apiserver"))
	})

	Describe("with webhooks to answer", func() {
		It("should let them be answered before the resource manager stops, and until the kube-apiserver does", func() {
			server := &answering{component: component{name: "webhooks", journal: book}, refused: 2}
			deps.Webhooks = server
			Expect(seed.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "livecpm-webhooks",
				Namespace: namespace}})).To(Succeed())
			Expect(run()).To(Succeed())
			Expect(slices.IsSorted([]int{
				book.last("check webhooks"),
				book.at("delete Deployment gardener-resource-manager"),
				book.at("report SourceControllersStopped"),
				book.at("delete Deployment kube-apiserver"),
				book.at("delete Deployment livecpm-webhooks"),
				book.at("delete Namespace"),
			})).To(BeTrue(), "%v", book.entries)
			Expect(server.checked).To(Equal(3))
		})

		It("should keep the namespace as long as a pod that answers them is left", func() {
			Expect(seed.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: "livecpm-webhooks-5d-x", Namespace: namespace,
				Labels:          map[string]string{"pod-template-hash": "5d"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "livecpm-webhooks-5d"}},
			}})).To(Succeed())
			deps.Timings.RolloutTimeout = waitInVain
			Expect(run()).To(MatchError(ContainSubstring("pod shoot--demo--live/livecpm-webhooks-5d-x is still there")))
			Expect(book.entries).To(ContainElement("report SourceControllersStopped"))
			Expect(book.entries).NotTo(ContainElement("delete Namespace"))
		})

		It("should hand the controllers over also if nobody comes to answer them", func() {
			deps.Timings.RolloutTimeout = waitInVain
			deps.Webhooks = &answering{component: component{name: "webhooks", journal: book,
				fail: map[string]error{"deploy": errors.New("no room")}}}
			Expect(run()).To(Succeed())
			Expect(book.last("deploy webhooks")).
				To(BeNumerically("<", book.at("delete Deployment gardener-resource-manager")))
			Expect(book.entries).To(ContainElement("report SourceControllersStopped"))
		})

		It("should stop nothing if it ends while it waits for them", func() {
			ending, end := context.WithCancel(ctx)
			deps.Webhooks = &answering{component: component{name: "webhooks", journal: book}, refused: 1, then: end}
			Expect(source.CleanupGraph(ending, deps, m, b)).To(MatchError(ContainSubstring("context canceled")))
			Expect(book.entries).NotTo(ContainElement("delete Deployment gardener-resource-manager"))
		})
	})

	It("should not wait for a garden that cannot be told", func() {
		reportFails = errors.New("no garden")
		Expect(run()).To(Succeed())
		Expect(book.entries).To(ContainElement("report SourceControllersStopped"))
	})

	It("should save every machine with its node and delete no machine, only its object", func() {
		Expect(run()).To(Succeed())
		Expect(savedMachines()).To(Equal([]string{"one@node-one", "two@node-two"}))
		Expect(remaining(&machinev1alpha1.MachineList{})).To(BeZero())
		Expect(remaining(&machinev1alpha1.MachineSetList{})).To(BeZero())
		Expect(remaining(&machinev1alpha1.MachineDeploymentList{})).To(BeZero())
		Expect(remaining(&machinev1alpha1.MachineClassList{})).To(BeZero())
	})

	It("should not release a machine that the ShootState does not have", func() {
		// It belongs to no MachineDeployment, so Gardener does not save it.
		stray := machine("stray")
		stray.OwnerReferences = nil
		Expect(seed.Create(ctx, stray)).To(Succeed())
		deps.Timings.RolloutTimeout = waitInVain
		Expect(run()).To(MatchError(ContainSubstring("lacks machines stray: none of them is deleted")))
		Expect(remaining(&machinev1alpha1.MachineList{})).To(Equal(3))
		Expect(book.entries).NotTo(ContainElement("destroy Worker"))
		Expect(book.entries).NotTo(ContainElement("delete Deployment kube-apiserver"))
	})

	It("should go no further when a worker cannot be migrated", func() {
		b.Shoot.Components.Extensions.Worker = fakeWorker{component: component{name: "Worker", journal: book,
			fail: map[string]error{"waitMigrate": errors.New("still busy")}}}
		deps.Timings.RolloutTimeout = waitInVain
		Expect(run()).To(MatchError(ContainSubstring("still busy")))
		Expect(remaining(&machinev1alpha1.MachineList{})).To(Equal(2))
		Expect(book.entries).NotTo(ContainElement("save ShootState"))
	})

	When("an agent stopped while it deleted the objects of machines", func() {
		BeforeEach(func() {
			saved, err := shootstate.MarshalMachineState(
				&shootstate.MachineState{MachineDeployments: map[string]*shootstate.MachineDeploymentState{
					"deployment": {Replicas: 2, Machines: []machinev1alpha1.Machine{*machine("one"), *machine("two")}},
				}})
			Expect(err).NotTo(HaveOccurred())
			state.Spec.Gardener = []gardencorev1beta1.GardenerResourceData{
				{Name: "machine-state", Type: "machine-state", Data: runtime.RawExtension{Raw: saved}},
			}
			objects[0].SetAnnotations(map[string]string{released: "2026-11-20T11:59:00Z"})
			objects = slices.DeleteFunc(objects, func(object client.Object) bool {
				_, ok := object.(*machinev1alpha1.Machine)
				return ok && object.GetName() == "one"
			})
		})

		It("should not save what is left of them", func() {
			Expect(run()).To(Succeed())
			Expect(savedMachines()).To(Equal([]string{"one@node-one", "two@node-two"}))
			Expect(remaining(&machinev1alpha1.MachineList{})).To(BeZero())
			Expect(book.at("save ShootState")).To(BeNumerically(">", book.at("waitMigrate ControlPlane")))
		})
	})

	Describe("closing the way of clients at the ingress gateway", func() {
		var (
			clock  *testclock.FakeClock
			looked []string
			filter = &istionetworkingv1alpha3.EnvoyFilter{}
			key    = client.ObjectKey{Namespace: gatewayNamespace, Name: namespace + "-livecpm-closed"}
		)
		// finish runs the cleanup, lets the given periods pass, and looks at the world before the end of each.
		finish := func(run func(context.Context, *source.Deps, *migration.Migration, *botanist.Botanist) error,
			look func(), periods ...time.Duration) {
			GinkgoHelper()
			done := make(chan error, 1)
			go func() { done <- run(ctx, deps, m, b) }()
			for _, period := range periods {
				Eventually(clock.HasWaiters, patience.Eventually).Should(BeTrue())
				look()
				clock.Step(period - time.Second)
				Consistently(done, "50ms").ShouldNot(Receive())
				clock.Step(time.Second)
			}
			Eventually(done, patience.Eventually).Should(Receive(BeNil()))
		}
		serving := func() {
			GinkgoHelper()
			Expect(seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-apiserver"},
				&appsv1.Deployment{})).To(Succeed())
			Expect(seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-controller-manager"},
				&appsv1.Deployment{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			for _, kept := range []client.Object{&istionetworkingv1beta1.Gateway{},
				&istionetworkingv1beta1.VirtualService{}} {
				Expect(seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-apiserver"}, kept)).
					To(Succeed())
			}
			Expect(seed.Get(ctx, key, filter)).To(Succeed())
			Expect(filter.Spec.Priority).To(BeNumerically(">", 100), "after the one of step 6")
			Expect(filter.OwnerReferences).To(ConsistOf(HaveField("Name", namespace)))
			Expect(filter.Spec.WorkloadSelector.Labels).To(Equal(map[string]string{"istio": "ingressgateway"}))
			var names []string
			for _, patch := range filter.Spec.ConfigPatches {
				Expect(patch.Patch.Operation.String()).To(Equal("REMOVE"))
				names = append(names, patch.Match.GetListener().FilterChain.Sni)
			}
			Expect(names).To(ConsistOf(apiHost, "api.live.internal.example"))
		}
		expose := func(end tlsEnd) {
			GinkgoHelper()
			clock, looked = testclock.NewFakeClock(now), nil
			m.Clock = clock
			m.Report = func(context.Context, steps.Reason, string) error { return nil }
			deps.Timings.GatewayDrain = time.Minute
			deps.Look = func(_ context.Context, address, host string) error {
				looked = append(looked, address+" "+host)
				return nil
			}
			for _, object := range exposed(end) {
				Expect(seed.Create(ctx, object)).To(Succeed())
			}
		}

		It("should let Envoy drain the connections before the kube-apiserver stops where Envoy ends TLS", func() {
			expose(atGateway)
			drained := &istionetworkingv1alpha3.EnvoyFilter{
				ObjectMeta: metav1.ObjectMeta{Name: namespace + "-livecpm-drained", Namespace: gatewayNamespace}}
			Expect(seed.Create(ctx, drained)).To(Succeed())
			finish(source.CleanupGraphWorkerless, serving, time.Minute)
			Expect(seed.Get(ctx, client.ObjectKeyFromObject(drained), drained)).
				To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			Expect(looked).To(HaveLen(5))
			Expect(looked).To(HaveEach(gatewayAddress + ":443 " + apiHost))
			Expect(seed.Get(ctx, key, filter)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})

		It("should let Envoy drain those from inside of a shoot with workers afterwards", func() {
			expose(atGateway)
			resource := &resourcesv1alpha1.ManagedResource{
				ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver-sni", Namespace: namespace},
				Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: ptr.To("seed")}}
			Expect(seed.Create(ctx, resource)).To(Succeed())
			var there []bool
			finish(source.CleanupGraph, func() {
				serving()
				there = append(there, seed.Get(ctx, client.ObjectKeyFromObject(resource), resource) == nil)
			}, time.Minute, time.Minute)
			Expect(there).To(Equal([]bool{true, false}))
		})

		It("should stop the kube-apiserver as soon as the way is closed where it ends TLS itself", func() {
			expose(atServer)
			finish(source.CleanupGraph, serving)
			Expect(looked).To(HaveLen(5))
		})

		It("should go on with the drain that an agent before it has begun", func() {
			expose(atGateway)
			ns := &corev1.Namespace{}
			Expect(seed.Get(ctx, client.ObjectKey{Name: namespace}, ns)).To(Succeed())
			ns.Annotations = map[string]string{
				"livecpm.gardener.cloud/gateway-closed": now.Add(-40 * time.Second).Format(time.RFC3339)}
			Expect(seed.Update(ctx, ns)).To(Succeed())
			finish(source.CleanupGraphWorkerless, serving, 20*time.Second)
			Expect(looked).To(BeEmpty())
		})

		It("should not stop the kube-apiserver while the gateway takes clients", func() {
			expose(atGateway)
			deps.Timings.RolloutTimeout = waitInVain
			deps.Look = func(context.Context, string, string) error { return errStillOpen }
			Expect(source.CleanupGraphWorkerless(ctx, deps, m, b)).To(MatchError(ContainSubstring("still open")))
			serving()
		})

		It("should not guess how clients come when half of the exposure is gone", func() {
			expose(atGateway)
			deps.Timings.RolloutTimeout = waitInVain
			Expect(seed.Delete(ctx, &istionetworkingv1beta1.VirtualService{
				ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Namespace: namespace}})).To(Succeed())
			Expect(source.CleanupGraphWorkerless(ctx, deps, m, b)).To(MatchError(ContainSubstring("has only one of")))
			Expect(book.entries).NotTo(ContainElement("delete Deployment kube-apiserver"))
		})
	})

	It("should leave all of that out for a shoot without workers", func() {
		Expect(source.CleanupGraphWorkerless(ctx, deps, m, b)).To(Succeed())
		for _, entry := range book.entries {
			Expect(entry).NotTo(ContainSubstring("Worker"))
			Expect(entry).NotTo(ContainSubstring("Infrastructure"))
			Expect(entry).NotTo(ContainSubstring("ControlPlane"))
			Expect(entry).NotTo(ContainSubstring("dependency-watchdog"))
		}
		book.at("delete Deployment kube-apiserver")
		Expect(apierrors.IsNotFound(seed.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}))).To(BeTrue())
	})
})
