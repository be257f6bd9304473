// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenershootstate "github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/shootstate"
)

// world is a garden with one ShootState and the seed that the shoot is in.
type world struct {
	garden, seed client.Client
	clock        *testclock.FakeClock
	states       *shootstate.ShootStates
	shoot        *gardencorev1beta1.Shoot
	// patches counts the writes of existing objects in the garden.
	patches int
}

const (
	worldNamespace = "shoot--demo--live"
	lead           = 24 * time.Hour
)

var worldBegin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newWorld() *world {
	GinkgoHelper()
	w := &world{
		clock: testclock.NewFakeClock(worldBegin),
		shoot: &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: worldNamespace}},
		seed: fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithStatusSubresource(&extensionsv1alpha1.Extension{}).Build(),
	}
	w.garden = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build(),
		interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			w.patches++
			return c.Patch(ctx, object, patch, options...)
		}})
	gardenlet := &gardenletconfigv1alpha1.GardenletConfiguration{SeedConfig: &gardenletconfigv1alpha1.SeedConfig{}}
	gardenlet.SeedConfig.Name = "seed-a"
	var err error
	w.states, err = shootstate.New(shootstate.Options{
		GardenClient: w.garden, GardenAPIReader: w.garden, SeedClient: w.seed, GardenletConfig: gardenlet,
		Clock: w.clock, Lead: lead,
	})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"ca", "ca-client", "ca-etcd", "ca-etcd-peer", "kube-apiserver-etcd-encryption-key",
		"service-account-key"} {
		Expect(w.seed.Create(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: worldNamespace, Labels: map[string]string{
				secretsmanager.LabelKeyPersist: secretsmanager.LabelValueTrue,
				secretsmanager.LabelKeyName:    name,
			}},
			Data: map[string][]byte{"key": []byte(name)},
		})).To(Succeed())
	}
	return w
}

func (w *world) read() *gardencorev1beta1.ShootState {
	GinkgoHelper()
	state := &gardencorev1beta1.ShootState{}
	Expect(w.garden.Get(context.Background(), client.ObjectKeyFromObject(w.shoot), state)).To(Succeed())
	return state
}

func (w *world) change(mutate func(*gardencorev1beta1.ShootState)) {
	GinkgoHelper()
	state := w.read()
	mutate(state)
	Expect(w.garden.Update(context.Background(), state)).To(Succeed())
}

// replaceBy is what the ShootState controller of the gardenlet in another seed does when it finds the time up.
func (w *world) replaceBy(other *world) {
	GinkgoHelper()
	Expect(gardenershootstate.Deploy(context.Background(), w.clock, w.garden, other.seed, w.shoot, worldNamespace,
		true)).To(Succeed())
}

// extension puts an Extension with a state into the seed, as its controller leaves it after the operation.
func (w *world) extension(name, state string, operation gardencorev1beta1.LastOperationType) {
	GinkgoHelper()
	object := &extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: worldNamespace}}
	if err := w.seed.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(w.seed.Create(context.Background(), object)).To(Succeed())
	}
	object.Status.State = nil
	if state != "" {
		object.Status.State = &runtime.RawExtension{Raw: []byte(state)}
	}
	object.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: operation,
		State: gardencorev1beta1.LastOperationStateSucceeded}
	Expect(w.seed.Status().Update(context.Background(), object)).To(Succeed())
}

// machines gives the ShootState as many machines.
func machines(count int) func(*gardencorev1beta1.ShootState) {
	GinkgoHelper()
	deployment := &gardenershootstate.MachineDeploymentState{}
	for i := range count {
		deployment.Machines = append(deployment.Machines,
			machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("machine-%d", i)}})
	}
	raw, err := gardenershootstate.MarshalMachineState(&gardenershootstate.MachineState{
		MachineDeployments: map[string]*gardenershootstate.MachineDeploymentState{"pool": deployment}})
	Expect(err).NotTo(HaveOccurred())
	return func(state *gardencorev1beta1.ShootState) {
		kept := state.Spec.Gardener[:0]
		for _, data := range state.Spec.Gardener {
			if data.Type != v1beta1constants.DataTypeMachineState {
				kept = append(kept, data)
			}
		}
		state.Spec.Gardener = append(kept, gardencorev1beta1.GardenerResourceData{
			Name: v1beta1constants.DataTypeMachineState, Type: v1beta1constants.DataTypeMachineState,
			Data: runtime.RawExtension{Raw: raw},
		})
	}
}

var _ = Describe("What was taken into a ShootState", func() {
	var (
		ctx = context.Background()
		w   *world
	)

	BeforeEach(func() {
		w = newWorld()
		w.extension("audit", `{"key":"hidden","generation":1}`, gardencorev1beta1.LastOperationTypeMigrate)
		w.extension("stateless", "", gardencorev1beta1.LastOperationTypeMigrate)
		Expect(w.states.Replace(ctx, w.shoot)).To(Succeed())
		w.change(machines(3))
		// A merge takes what it finds in the ShootState for taken.
		Expect(w.states.Merge(ctx, w.shoot)).To(Succeed())
	})

	It("should be recorded without its content", func() {
		value := w.read().Annotations[shootstate.AnnotationTaken]
		Expect(value).NotTo(ContainSubstring("hidden"))
		record := struct {
			Machines int
			States   map[string]string
		}{}
		Expect(json.Unmarshal([]byte(value), &record)).To(Succeed())
		Expect(record.Machines).To(Equal(3))
		Expect(record.States).To(HaveKey("Extension/audit"))
		Expect(record.States).NotTo(HaveKey("Extension/stateless"))
	})

	DescribeTable("should be compared", func(mutate func(*gardencorev1beta1.ShootState), details string) {
		w.change(mutate)
		err := w.states.Compare(ctx, w.shoot)
		if details == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(details)))
		Expect(err).To(MatchError(ContainSubstring("livecpm.gardener.cloud/taken=accepted")), "the way out")
		Expect(err).NotTo(MatchError(ContainSubstring("hidden")))
		Expect(shootstate.IsDifference(fmt.Errorf("in a task: %w", err))).To(BeTrue())
	},
		Entry("nothing changed", func(*gardencorev1beta1.ShootState) {}, ""),
		Entry("a machine less", machines(2), "it has 2 machines instead of 3"),
		Entry("a machine more", machines(4), "it has 4 machines instead of 3"),
		Entry("an older state", func(state *gardencorev1beta1.ShootState) {
			state.Spec.Extensions[0].State.Raw = []byte(`{"key":"hidden","generation":0}`)
		}, "it has another state of Extension/audit"),
		Entry("the same state in other words", func(state *gardencorev1beta1.ShootState) {
			state.Spec.Extensions[0].State.Raw = []byte(`{"generation": 1, "key": "hidden"}`)
		}, ""),
		Entry("a state that is lost", func(state *gardencorev1beta1.ShootState) { state.Spec.Extensions = nil },
			"it lacks Extension/audit"),
		Entry("a secret that is lost", func(state *gardencorev1beta1.ShootState) {
			state.Spec.Gardener = state.Spec.Gardener[1:]
		}, "it lacks secret ca"),
		Entry("a state that nobody has taken", func(state *gardencorev1beta1.ShootState) {
			state.Spec.Extensions = append(state.Spec.Extensions, gardencorev1beta1.ExtensionResourceState{
				Kind: "Network", Name: ptr.To("live"), State: &runtime.RawExtension{Raw: []byte(`{}`)}})
		}, ""),
		Entry("no record", func(state *gardencorev1beta1.ShootState) {
			delete(state.Annotations, shootstate.AnnotationTaken)
		}, "nobody has recorded what was taken"),
		Entry("a record that cannot be read", func(state *gardencorev1beta1.ShootState) {
			state.Annotations[shootstate.AnnotationTaken] = "yes"
		}, "its annotation livecpm.gardener.cloud/taken cannot be read"),
		Entry("everything lost, and an operator who accepts that", func(state *gardencorev1beta1.ShootState) {
			state.Spec = gardencorev1beta1.ShootStateSpec{}
			state.Annotations[shootstate.AnnotationTaken] = shootstate.TakenAccepted
		}, ""),
	)

	It("should not be compared with a ShootState that cannot be read", func() {
		Expect(w.garden.Delete(ctx, w.read())).To(Succeed())
		err := w.states.Compare(ctx, w.shoot)
		Expect(err).To(MatchError(ContainSubstring("failed to read ShootState garden-demo/live")))
		Expect(shootstate.IsDifference(err)).To(BeFalse())
	})

	It("should show when a gardenlet in the other seed has replaced it", func() {
		w.replaceBy(newWorld())
		Expect(w.states.Compare(ctx, w.shoot)).To(MatchError(And(
			ContainSubstring("it has 0 machines instead of 3"),
			ContainSubstring("it lacks Extension/audit"))))
	})

	It("should not be forgotten by a later write of what is left in the seed", func() {
		Expect(w.seed.Delete(ctx, &extensionsv1alpha1.Extension{
			ObjectMeta: metav1.ObjectMeta{Name: "audit", Namespace: worldNamespace}})).To(Succeed())
		Expect(w.states.Merge(ctx, w.shoot)).To(Succeed())
		w.replaceBy(newWorld())
		Expect(w.states.Merge(ctx, w.shoot)).To(MatchError(And(
			ContainSubstring("it has 0 machines instead of 3"),
			ContainSubstring("it lacks Extension/audit"))))
		Expect(w.states.Compare(ctx, w.shoot)).NotTo(Succeed())
	})

	It("should follow what the source takes later", func() {
		w.extension("audit", `{"generation":2}`, gardencorev1beta1.LastOperationTypeMigrate)
		Expect(w.states.Merge(ctx, w.shoot)).To(Succeed())
		Expect(w.states.Compare(ctx, w.shoot)).To(Succeed())
	})
})
