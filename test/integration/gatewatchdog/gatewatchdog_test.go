// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

const constraint = gardencorev1beta1.ShootReadyForMigration

var _ = Describe("Gate watchdog", Ordered, func() {
	var (
		count int
		key   = client.ObjectKey{Name: gate.PolicyName}
		// intact are the specifications as the API server has stored them for the chart.
		intactPolicy  admissionregistrationv1.ValidatingAdmissionPolicySpec
		intactBinding admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
	)

	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(garden.Client.Get(ctx, key, policy)).To(Succeed())
		Expect(garden.Client.Get(ctx, key, binding)).To(Succeed())
		intactPolicy, intactBinding = policy.Spec, binding.Spec
	})

	restored := func(g Gomega) {
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		g.Expect(garden.Client.Get(ctx, key, policy)).To(Succeed())
		g.Expect(policy.Spec).To(Equal(intactPolicy))
		g.Expect(garden.Client.Get(ctx, key, binding)).To(Succeed())
		g.Expect(binding.Spec).To(Equal(intactBinding))
	}
	// inFlight creates a Shoot whose live migration has begun.
	inFlight := func() *gardencorev1beta1.Shoot {
		GinkgoHelper()
		count++
		shoot := framework.NewShoot(fmt.Sprintf("w%d-%d", GinkgoParallelProcess(), count), source)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
		Expect(garden.Intend(ctx, shoot)).To(Succeed())
		Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
		Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
			Type:   gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin,
			Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
		})).To(Succeed())
		return shoot
	}
	// events returns "type reason" of the events of the watchdog at the Shoot.
	events := func(shoot *gardencorev1beta1.Shoot) func(Gomega) []string {
		return func(g Gomega) []string {
			list := &eventsv1.EventList{}
			g.Expect(garden.Client.List(ctx, list, client.InNamespace(shoot.Namespace))).To(Succeed())
			var out []string
			for _, event := range list.Items {
				if event.Regarding.UID == shoot.UID && event.ReportingController == "livecpm-controller-manager" {
					out = append(out, event.Type+" "+event.Reason)
				}
			}
			return out
		}
	}
	closed := func(shoot *gardencorev1beta1.Shoot) func() error {
		return func() error { return gate.New(garden.Client, garden.Client).Verify(ctx, shoot) }
	}
	// settle waits until the API server knows no more of the damage. It looks at changed policies once in a second, so
	// the gate may seem closed between the damage and that look, and be open after it.
	settle := func(shoot *gardencorev1beta1.Shoot) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Consistently(closed(shoot)).WithTimeout(3 * time.Second).Should(Succeed())
		}).Should(Succeed())
	}
	leads := func(g Gomega) {
		lease := &coordinationv1.Lease{}
		g.Expect(garden.Client.Get(ctx,
			client.ObjectKey{Namespace: "garden", Name: "livecpm-controller-manager-leader-election"}, lease)).
			To(Succeed())
		g.Expect(ptr.Deref(lease.Spec.HolderIdentity, "")).NotTo(BeEmpty())
	}
	// start runs the controller manager as its own identity and returns a function that ends it.
	start := func(restore bool) (stop func()) {
		GinkgoHelper()
		restConfig := rest.CopyConfig(garden.Config)
		restConfig.Impersonate = rest.ImpersonationConfig{UserName: identity}
		config := &configv1alpha1.ControllerManagerConfiguration{}
		configv1alpha1.SetControllerManagerDefaults(config)
		config.Controllers.GateWatchdog.Restore = new(restore)
		config.Controllers.GateWatchdog.ProofPeriod.Duration = 500 * time.Millisecond
		mgr, err := livecpm.NewManagerFor(zap.New(zap.WriteTo(GinkgoWriter)), restConfig,
			config, func(options *manager.Options) {
				options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
				options.Controller.SkipNameValidation = new(true)
			})
		Expect(err).NotTo(HaveOccurred())

		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		Eventually(leads).Should(Succeed())
		return func() {
			GinkgoHelper()
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		}
	}
	changePolicy := func(change func(*admissionregistrationv1.ValidatingAdmissionPolicySpec)) {
		GinkgoHelper()
		Eventually(func() error {
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := garden.Client.Get(ctx, key, policy); err != nil {
				return err
			}
			change(&policy.Spec)
			return garden.Client.Update(ctx, policy)
		}).Should(Succeed())
	}
	remove := func(object client.Object) {
		GinkgoHelper()
		object.SetName(gate.PolicyName)
		Expect(garden.Client.Delete(ctx, object)).To(Succeed())
	}
	removePolicy := func() { remove(&admissionregistrationv1.ValidatingAdmissionPolicy{}) }
	removeBinding := func() { remove(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}) }

	When("it may restore", Ordered, func() {
		BeforeAll(func() { DeferCleanup(start(true)) })

		DescribeTable("should restore what is removed or changed, and tell it at the Shoot in flight",
			func(damage func()) {
				shoot := inFlight()
				Eventually(closed(shoot)).Should(Succeed())
				Consistently(events(shoot)).WithTimeout(time.Second).Should(BeEmpty(), "nothing is wrong yet")

				damage()
				Eventually(restored).Should(Succeed())
				Eventually(closed(shoot)).Should(Succeed())
				Eventually(events(shoot)).Should(ContainElements("Warning GateNotInForce", "Normal GateInForce"))
				settle(shoot)
			},
			Entry("the policy is deleted", removePolicy),
			Entry("the binding is deleted", removeBinding),
			Entry("both are deleted", func() {
				removeBinding()
				removePolicy()
			}),
			Entry("the policy fails open", func() {
				changePolicy(func(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
					spec.FailurePolicy = new(admissionregistrationv1.Ignore)
				})
			}),
			Entry("a rule permits everything", func() {
				changePolicy(func(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
					spec.Validations[0].Expression = "true"
				})
			}),
			Entry("a condition lets everything pass", func() {
				changePolicy(func(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
					spec.MatchConditions = append(spec.MatchConditions,
						admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
				})
			}),
			Entry("the policy does not see the status", func() {
				changePolicy(func(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
					spec.MatchConstraints.ResourceRules[0].Resources = []string{"shoots"}
				})
			}),
			Entry("the binding only warns", func() {
				Eventually(func() error {
					binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
					if err := garden.Client.Get(ctx, key, binding); err != nil {
						return err
					}
					binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{
						admissionregistrationv1.Warn,
					}
					return garden.Client.Update(ctx, binding)
				}).Should(Succeed())
			}),
		)
	})

	It("should restore what was missing before it started, and remove the constraint that was set meanwhile", func() {
		shoot := inFlight()
		Expect(garden.RemovePolicies(ctx)).To(Succeed())
		Expect(garden.SetConstraint(ctx, shoot, constraint, gardencorev1beta1.ConditionTrue)).To(Succeed())

		DeferCleanup(start(true))
		Eventually(restored).Should(Succeed())
		Eventually(closed(shoot)).Should(Succeed())
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
		Expect(shoot.Status.Constraints).NotTo(ContainElement(HaveField("Type", constraint)))
	})

	It("should only report where it may not restore", func() {
		shoot := inFlight()
		DeferCleanup(start(false))
		Eventually(closed(shoot)).Should(Succeed())

		removePolicy()
		Eventually(events(shoot)).Should(ConsistOf("Warning GateNotInForce"))
		Eventually(closed(shoot)).Should(MatchError(ContainSubstring("is not in force")))
		Expect(apierrors.IsNotFound(garden.Client.Get(ctx, key, &admissionregistrationv1.ValidatingAdmissionPolicy{}))).
			To(BeTrue())

		Expect(garden.InstallPolicies(ctx)).To(Succeed())
		Eventually(events(shoot)).Should(ConsistOf("Warning GateNotInForce", "Normal GateInForce"))
	})

	It("should run with a configuration file and a kubeconfig, and serve probes and metrics", func() {
		folder := GinkgoT().TempDir()
		kubeconfig, config := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "config.yaml")
		content, err := garden.Kubeconfig(identity)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
		probes, metrics := freeAddress(), freeAddress()
		Expect(os.WriteFile(config, fmt.Appendf(nil, `apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %s}
server:
  healthProbes: {bindAddress: %s, port: %d}
  metrics: {bindAddress: %s, port: %d}
`, kubeconfig, probes.IP, probes.Port, metrics.IP, metrics.Port), 0o600)).To(Succeed())

		loaded, err := configv1alpha1.LoadControllerManager(config)
		Expect(err).NotTo(HaveOccurred())
		mgr, err := livecpm.NewManager(zap.New(zap.WriteTo(GinkgoWriter)), loaded)
		Expect(err).NotTo(HaveOccurred())
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		DeferCleanup(func() {
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		})
		Eventually(get).WithArguments(probes, "/healthz").Should(Equal("ok"))
		Eventually(get).WithArguments(probes, "/readyz").Should(Equal("ok"))

		remove(&admissionregistrationv1.ValidatingAdmissionPolicy{})
		Eventually(restored).Should(Succeed())
		Eventually(get).WithArguments(metrics, "/metrics").Should(And(
			ContainSubstring(`livecpm_gate_object_intact{kind="ValidatingAdmissionPolicy"} 1`),
			ContainSubstring(`livecpm_gate_restorations_total{cause="Missing",kind="ValidatingAdmissionPolicy"}`),
			ContainSubstring(`livecpm_gate_in_force{namespace="garden-demo",shoot="probe"} 1`),
		))
	})

	It("should have no permission to remove the gate, or to write another policy", func() {
		restConfig := rest.CopyConfig(garden.Config)
		restConfig.Impersonate = rest.ImpersonationConfig{UserName: identity}
		c, err := client.New(restConfig, client.Options{Scheme: kubernetes.GardenScheme})
		Expect(err).NotTo(HaveOccurred())

		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		Expect(c.Get(ctx, key, policy)).To(Succeed())
		Expect(apierrors.IsForbidden(c.Delete(ctx, policy))).To(BeTrue())
		other := policy.DeepCopy()
		other.ObjectMeta.Name, other.ObjectMeta.ResourceVersion = "other", "1"
		Expect(apierrors.IsForbidden(c.Update(ctx, other))).To(BeTrue())
	})
})

// freeAddress returns an address on which nobody listens.
func freeAddress() *net.TCPAddr {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	return listener.Addr().(*net.TCPAddr)
}

func get(address *net.TCPAddr, path string) (string, error) {
	response, err := http.Get("http://" + address.String() + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
