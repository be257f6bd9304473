// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/cmd/livecpm-controller-manager/app"
	"github.com/livecpm/livecpm/hack/examples"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

// credentialsBinding is with what shoots with workers are created.
const credentialsBinding = "local"

var _ = Describe("Removal", Ordered, func() {
	var (
		shoot      *gardencorev1beta1.Shoot
		kubeconfig []byte
	)

	// installed creates what an operator and gardener-controller-manager create, from the very example.
	installed := func() {
		GinkgoHelper()
		files, err := examples.Files()
		Expect(err).NotTo(HaveOccurred())
		for _, document := range bytes.Split(files[examples.ControllerRegistration], []byte("\n---\n")) {
			var kind metav1.TypeMeta
			Expect(yaml.Unmarshal(document, &kind)).To(Succeed())
			var object client.Object
			switch kind.Kind {
			case "ControllerDeployment":
				object = &gardencorev1.ControllerDeployment{}
			case "ControllerRegistration":
				object = &gardencorev1beta1.ControllerRegistration{}
			default:
				continue
			}
			Expect(yaml.UnmarshalStrict(document, object)).To(Succeed())
			Expect(garden.Client.Create(ctx, object)).To(Succeed())
		}
		for _, seed := range []string{source, destination, elsewhere} {
			Expect(garden.Client.Create(ctx, installation("livecpm", seed))).To(Succeed())
		}
		Expect(garden.Client.Create(ctx, installation("provider-local", source))).To(Succeed())
	}
	// refused reports whether the API server would refuse the deletion. Nothing is deleted.
	refused := func(object client.Object) func() error {
		return func() error { return garden.Client.Delete(ctx, object, client.DryRunAll) }
	}
	registration := func() client.Object {
		return &gardencorev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "livecpm"}}
	}
	deployment := func() client.Object {
		return &gardencorev1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: "livecpm"}}
	}
	forbidden := func(texts ...string) OmegaMatcher {
		matchers := []OmegaMatcher{WithTransform(apierrors.IsForbidden, BeTrue())}
		for _, text := range texts {
			matchers = append(matchers, MatchError(ContainSubstring(text)))
		}
		return And(matchers...)
	}
	// removable runs the command of the hook.
	removable := func() error {
		folder := GinkgoT().TempDir()
		access, config := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "config.yaml")
		Expect(os.WriteFile(access, kubeconfig, 0o600)).To(Succeed())
		Expect(os.WriteFile(config,
			fmt.Appendf(nil, "apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: "+
				"ControllerManagerConfiguration\ngardenClientConnection: {kubeconfig: %s}\n", access), 0o600)).
			To(Succeed())
		cmd := app.NewCommand()
		cmd.SetArgs([]string{"removable", "--config=" + config})
		cmd.SetOut(GinkgoWriter)
		return cmd.ExecuteContext(ctx)
	}

	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
		installed()
		var err error
		kubeconfig, err = garden.Kubeconfig(identity)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should be permitted where no controller manager has said anything", func() {
		Expect(refused(registration())()).To(Succeed())
		Expect(refused(installation("livecpm", source))()).To(Succeed())
	})

	When("the controller manager runs", Ordered, func() {
		BeforeAll(func() {
			restConfig, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
			Expect(err).NotTo(HaveOccurred())
			config := &configv1alpha1.ControllerManagerConfiguration{}
			configv1alpha1.SetControllerManagerDefaults(config)
			config.Controllers.Drain.Enabled = new(false)
			mgr, err := livecpm.NewManagerFor(zap.New(zap.WriteTo(GinkgoWriter)), restConfig,
				config, func(options *manager.Options) {
					options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
					options.Controller.SkipNameValidation = new(true)
				})
			Expect(err).NotTo(HaveOccurred())
			running, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(running) }()
			DeferCleanup(func() {
				cancel()
				Eventually(ended).Should(Receive(BeNil()))
			})
		})

		It("should be permitted while nothing is in flight", func() {
			key := client.ObjectKey{Namespace: "garden", Name: removalguard.ConfigMapName}
			Eventually(func() error { return garden.Client.Get(ctx, key, &corev1.ConfigMap{}) }).Should(Succeed())
			Expect(refused(registration())()).To(Succeed())
			Expect(refused(installation("livecpm", source))()).To(Succeed())
			Expect(removable()).To(Succeed())
		})

		It("should be refused while a live migration is in flight", func() {
			shoot = framework.NewShoot("live", source)
			Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
			Expect(garden.Intend(ctx, shoot)).To(Succeed())
			Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())

			Eventually(refused(registration())).
				Should(forbidden("must not be removed while a live migration is in flight", "livecpm-in-flight"))
			Eventually(refused(deployment())).
				Should(forbidden("must not be removed while a live migration is in flight"))
			for _, seed := range []string{source, destination} {
				Eventually(refused(installation("livecpm", seed))).
					Should(forbidden("the agent of seed "+seed+" must not be removed", "garden-demo/live",
						"abort-live-migration"))
			}
			// Also when many are deleted at once.
			Expect(garden.Client.DeleteAllOf(ctx, &gardencorev1beta1.ControllerRegistration{},
				client.MatchingFields{"metadata.name": "livecpm"}, client.DryRunAll)).
				To(forbidden("must not be removed"))
			Expect(removable()).To(MatchError(ContainSubstring("live migrations are in flight (garden-demo/live)")))
		})

		It("should be refused by the replacement of a gardenlet that has the agent in its process", func() {
			for _, seed := range []string{source, elsewhere} {
				Expect(garden.Client.Create(ctx, dropIn(seed))).To(Succeed())
			}
			ordinary := dropIn(destination)
			ordinary.Spec.Deployment.Env, ordinary.Spec.Deployment.Image = nil, nil
			Expect(garden.Client.Create(ctx, ordinary)).To(Succeed())
			DeferCleanup(func() {
				// Gardener permits no ManagedSeed of the same name beside one.
				for _, seed := range []string{source, destination, elsewhere} {
					Expect(garden.Client.Delete(ctx, dropIn(seed))).To(Succeed())
				}
			})
			// changed reports whether the API server would refuse the change. Nothing is changed.
			changed := func(seed string, change func(*seedmanagementv1alpha1.GardenletDeployment)) func() error {
				return func() error {
					gardenlet := dropIn(seed)
					if err := garden.Client.Get(ctx, client.ObjectKeyFromObject(gardenlet), gardenlet); err != nil {
						return err
					}
					change(&gardenlet.Spec.Deployment.GardenletDeployment)
					return garden.Client.Update(ctx, gardenlet, client.DryRunAll)
				}
			}
			type deployment = seedmanagementv1alpha1.GardenletDeployment
			image := func(ref string) func(*deployment) {
				return func(d *deployment) { d.Image = &seedmanagementv1alpha1.Image{Ref: &ref} }
			}

			// The policy is enforced some moments after it is created.
			Eventually(changed(source, image("registry.example.com/gardener/gardenlet:v1.150.0"))).
				Should(forbidden("the gardenlet of seed seed-a must not be replaced", "garden-demo/live",
					"(registry.example.com/livecpm/livecpm-gardenlet)", "abort-live-migration"))
			for name, change := range map[string]func(*deployment){
				"no image":       func(d *deployment) { d.Image = nil },
				"no environment": func(d *deployment) { d.Env = nil },
				"the repository and tag of another": func(d *deployment) {
					d.Image = &seedmanagementv1alpha1.Image{
						Repository: new("registry.example.com/gardener/gardenlet"), Tag: new("v1.150.0"),
					}
				},
				"another in a registry with a port": image("localhost:5000/gardenlet"),
			} {
				Expect(changed(source, change)()).To(forbidden("must not be replaced"), name)
			}
			for name, change := range map[string]func(*deployment){
				"another tag": image("registry.example.com/livecpm/livecpm-gardenlet:v0.1.1"),
				"another digest": image("registry.example.com/livecpm/livecpm-gardenlet@sha256:" +
					strings.Repeat("0", 64)),
				"the repository, not the reference": func(d *deployment) {
					d.Image = &seedmanagementv1alpha1.Image{
						Repository: new("registry.example.com/livecpm/livecpm-gardenlet"), Tag: new("v0.1.1"),
					}
				},
				"another variable": func(d *deployment) { d.Env = append(d.Env, corev1.EnvVar{Name: "A", Value: "b"}) },
				"more replicas":    func(d *deployment) { d.ReplicaCount = new(int32(3)) },
			} {
				Expect(changed(source, change)()).To(Succeed(), name)
			}
			upstream := image("registry.example.com/gardener/gardenlet:v1.150.1")
			Expect(changed(elsewhere, upstream)()).To(Succeed(), "its seed takes no part in a migration")
			Expect(changed(destination, upstream)()).To(Succeed(), "it has no agent to lose")
		})

		It("should be refused by the replacement of a gardenlet with the agent that a ManagedSeed deploys", func() {
			registering(ctx)
			for _, seed := range []string{source, elsewhere} {
				Expect(garden.CreateShoot(ctx, registrable(seed))).To(Succeed())
				Expect(garden.Client.Create(ctx, managed(seed))).To(Succeed())
			}
			type deployment = seedmanagementv1alpha1.GardenletDeployment
			// changed reports whether the API server would refuse the change. Nothing is changed.
			changed := func(seed string, change func(*deployment)) func() error {
				return func() error {
					managedSeed := managed(seed)
					if err := garden.Client.Get(ctx, client.ObjectKeyFromObject(managedSeed), managedSeed); err != nil {
						return err
					}
					change(managedSeed.Spec.Gardenlet.Deployment)
					return garden.Client.Update(ctx, managedSeed, client.DryRunAll)
				}
			}
			image := func(ref string) func(*deployment) {
				return func(d *deployment) { d.Image = &seedmanagementv1alpha1.Image{Ref: &ref} }
			}
			upstream := image("registry.example.com/gardener/gardenlet:v1.150.1")
			refused := forbidden("the gardenlet of seed seed-a must not be replaced", "garden-demo/live",
				"(registry.example.com/livecpm/livecpm-gardenlet)", "abort-live-migration")
			Eventually(changed(source, upstream)).Should(refused)
			Expect(changed(source, func(d *deployment) { d.Env = nil })()).To(refused)
			Expect(changed(source, func(d *deployment) { d.Image = nil })()).To(refused)
			Expect(changed(source, image("registry.example.com/livecpm/livecpm-gardenlet:v0.1.1"))()).To(Succeed(),
				"another tag")
			Expect(changed(source, func(d *deployment) { d.ReplicaCount = new(int32(3)) })()).To(Succeed(),
				"more replicas")
			Expect(changed(elsewhere, upstream)()).To(Succeed(), "its seed takes no part in a migration")
		})

		It("should be permitted for seeds that take no part in it, and for everything else", func() {
			Expect(refused(installation("livecpm", elsewhere))()).To(Succeed())
			Expect(refused(installation("provider-local", source))()).To(Succeed())
			Expect(refused(&gardencorev1beta1.ControllerRegistration{
				ObjectMeta: metav1.ObjectMeta{Name: "provider-local"},
			})()).To(Succeed())
		})

		It("should be refused again when somebody has changed what the controller manager wrote", func() {
			configMap := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: removalguard.ConfigMapName},
			}
			Expect(garden.Client.Delete(ctx, configMap)).To(Succeed())
			Eventually(refused(registration())).Should(Succeed())
			// Another migration is a reason to look, which otherwise happens every minute.
			another := framework.NewShoot("another", elsewhere)
			Expect(garden.CreateShoot(ctx, another)).To(Succeed())
			Expect(garden.Intend(ctx, another)).To(Succeed())
			Expect(garden.Bind(ctx, another, destination)).To(Succeed())
			Eventually(refused(installation("livecpm", source))).Should(forbidden("garden-demo/live"))
			Eventually(refused(installation("livecpm", elsewhere))).Should(forbidden("garden-demo/another"))
			Eventually(refused(installation("livecpm", destination))).
				Should(forbidden("garden-demo/another, garden-demo/live"))

			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(another), another)).To(Succeed())
			patch := client.MergeFrom(another.DeepCopy())
			delete(another.Annotations, steps.AnnotationIntent)
			Expect(garden.Client.Patch(ctx, another, patch)).To(Succeed())
			Eventually(refused(installation("livecpm", elsewhere))).Should(Succeed())
			Eventually(refused(installation("livecpm", destination))).Should(forbidden("garden-demo/live"))
		})

		It("should be permitted when the migration is aborted", func() {
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
			Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
				Type:   steps.AbortOf(steps.Source).Condition,
				Status: gardencorev1beta1.ConditionFalse, Reason: string(steps.ReasonAborted),
			})).To(Succeed())
			for _, seed := range []string{source, destination} {
				Eventually(refused(installation("livecpm", seed))).Should(Succeed())
			}
			Eventually(refused(deployment())).Should(Succeed())
			Expect(removable()).To(Succeed())
			// Not only as a dry run.
			Expect(garden.Client.Delete(ctx, registration())).To(Succeed())
		})
	})
})

// dropIn returns the Gardenlet of the example, whose gardenlet has the agent in its process, for the seed.
func dropIn(seed string) *seedmanagementv1alpha1.Gardenlet {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "gardenlet", "gardenlet.yaml"))
	Expect(err).NotTo(HaveOccurred())
	gardenlet := &seedmanagementv1alpha1.Gardenlet{}
	Expect(yaml.UnmarshalStrict(bytes.ReplaceAll(content, []byte("my-seed"), []byte(seed)), gardenlet)).To(Succeed())
	return gardenlet
}

// managed returns a ManagedSeed of the name with the same gardenlet, in a shoot of the name.
func managed(name string) *seedmanagementv1alpha1.ManagedSeed {
	GinkgoHelper()
	gardenlet := dropIn(name)
	return &seedmanagementv1alpha1.ManagedSeed{
		ObjectMeta: metav1.ObjectMeta{Namespace: gardenlet.Namespace, Name: name},
		Spec: seedmanagementv1alpha1.ManagedSeedSpec{
			Shoot: &seedmanagementv1alpha1.Shoot{Name: name},
			Gardenlet: seedmanagementv1alpha1.GardenletConfig{
				Deployment: &gardenlet.Spec.Deployment.GardenletDeployment, Config: managedConfig(),
			},
		},
	}
}

// registrable returns a shoot that gardener-apiserver lets become a seed.
func registrable(name string) *gardencorev1beta1.Shoot {
	shoot := framework.NewShoot(name, elsewhere)
	shoot.Namespace = v1beta1constants.GardenNamespace
	shoot.Spec.ControlPlane = nil
	shoot.Spec.CredentialsBindingName = new(credentialsBinding)
	shoot.Spec.Kubernetes.VerticalPodAutoscaler = &gardencorev1beta1.VerticalPodAutoscaler{Enabled: true}
	shoot.Spec.Networking = &gardencorev1beta1.Networking{Type: new(framework.ProviderType), Nodes: new("10.0.0.0/16")}
	shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{
		Name: "worker", Minimum: 1, Maximum: 1, Machine: gardencorev1beta1.Machine{Type: "local"},
	}}
	return shoot
}

// managedConfig returns the configuration of a gardenlet. What it leaves out, gardener-apiserver takes from the shoot.
func managedConfig() runtime.RawExtension {
	GinkgoHelper()
	credentials := map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "credentials", "namespace": "garden"}
	content, err := json.Marshal(map[string]any{
		"apiVersion": gardenletconfigv1alpha1.SchemeGroupVersion.String(), "kind": "GardenletConfiguration",
		"seedConfig": map[string]any{
			"apiVersion": gardencorev1beta1.SchemeGroupVersion.String(), "kind": "Seed",
			"spec": map[string]any{"dns": map[string]any{
				"provider": map[string]any{"type": framework.ProviderType, "credentialsRef": credentials},
				"internal": map[string]any{"type": framework.ProviderType, "domain": framework.InternalDomain,
					"credentialsRef": credentials},
			}},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: content}
}

// registering creates what a shoot in the namespace garden needs that is to become a seed.
func registering(ctx context.Context) {
	GinkgoHelper()
	project := &gardencorev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "garden"},
		Spec: gardencorev1beta1.ProjectSpec{Namespace: new(v1beta1constants.GardenNamespace)}}
	Expect(garden.Client.Create(ctx, project)).To(Succeed())
	project.Status.Phase = gardencorev1beta1.ProjectReady
	Expect(garden.Client.Status().Update(ctx, project)).To(Succeed())
	Expect(garden.Client.Create(ctx, &gardencorev1beta1.ControllerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "of-workers"},
		Spec: gardencorev1beta1.ControllerRegistrationSpec{Resources: []gardencorev1beta1.ControllerResource{
			{Kind: "Network", Type: framework.ProviderType},
			{Kind: "OperatingSystemConfig", Type: framework.ProviderType},
		}},
	})).To(Succeed())
	Expect(garden.Client.Create(ctx, &securityv1alpha1.CredentialsBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta1constants.GardenNamespace, Name: credentialsBinding},
		Provider:   securityv1alpha1.CredentialsBindingProvider{Type: framework.ProviderType},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "credentials",
			Namespace: v1beta1constants.GardenNamespace},
	})).To(Succeed())
}

// installation returns the ControllerInstallation of a registration in a seed.
func installation(registration, seed string) *gardencorev1beta1.ControllerInstallation {
	return &gardencorev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: registration + "-" + seed},
		Spec: gardencorev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration},
			SeedRef:         &corev1.ObjectReference{Name: seed},
		},
	}
}
