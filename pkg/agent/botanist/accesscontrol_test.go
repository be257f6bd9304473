// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist_test

import (
	"context"
	"errors"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakeclientmap "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/fake"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/gardener/gardener/pkg/component/extensions/extension"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Extensions for access control", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx  context.Context
		seed client.Client
	)
	// ofShoot returns a botanist with Gardener's own component for the extensions "acl", "early" and "other". All of
	// them are registered with what is the default, but for "early".
	ofShoot := func() *botanist.Botanist {
		all := map[string]extension.Extension{}
		for _, extensionType := range []string{"acl", "early", "other"} {
			wanted := extension.Extension{Lifecycle: &gardencorev1beta1.ControllerResourceLifecycle{
				Reconcile: new(gardencorev1beta1.AfterKubeAPIServer),
				Migrate:   new(gardencorev1beta1.BeforeKubeAPIServer),
				Delete:    new(gardencorev1beta1.BeforeKubeAPIServer),
			}}
			wanted.Name, wanted.Namespace, wanted.Spec.Type = extensionType, namespace, extensionType
			all[extensionType] = wanted
		}
		all["early"].Lifecycle.Reconcile = new(gardencorev1beta1.BeforeKubeAPIServer)
		component := extension.New(logr.Discard(), seed, &extension.Values{Namespace: namespace, Extensions: all},
			extension.DefaultInterval, extension.DefaultSevereThreshold, extension.DefaultTimeout)
		return &botanist.Botanist{Operation: &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{
			Components: &shootpkg.Components{Extensions: &shootpkg.Extensions{Extension: component}},
		}}}
	}
	requested := func() map[string]string {
		GinkgoHelper()
		list := &extensionsv1alpha1.ExtensionList{}
		Expect(seed.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		out := map[string]string{}
		for _, item := range list.Items {
			out[item.Name] = item.Annotations["gardener.cloud/operation"]
		}
		return out
	}
	present := func() {
		GinkgoHelper()
		for _, extensionType := range []string{"acl", "early", "other"} {
			object := &extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: extensionType,
				Namespace: namespace}}
			object.Spec.Type = extensionType
			Expect(seed.Create(ctx, object)).To(Succeed())
		}
	}

	BeforeEach(func() {
		ctx = context.Background()
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	})

	It("should be restored in the destination before the kube-apiserver starts, with the early ones", func() {
		b := ofShoot()
		Expect(botanist.KeepAccessControl(b, &migration.Migration{Role: steps.Destination}, "acl", "firewall")).
			To(Equal([]string{"acl"}))
		extensions := b.Shoot.Components.Extensions.Extension
		Expect(extensions.RestoreBeforeKubeAPIServer(ctx, &gardencorev1beta1.ShootState{})).To(Succeed())
		Expect(requested()).To(Equal(map[string]string{"acl": "restore", "early": "restore"}))
		Expect(extensions.RestoreAfterKubeAPIServer(ctx, &gardencorev1beta1.ShootState{})).To(Succeed())
		Expect(requested()).To(HaveKey("other"))
	})

	It("should stay in force in the source until its kube-apiserver has stopped", func() {
		present()
		b := ofShoot()
		Expect(botanist.KeepAccessControl(b, &migration.Migration{Role: steps.Source}, "acl")).
			To(Equal([]string{"acl"}))
		extensions := b.Shoot.Components.Extensions.Extension
		Expect(extensions.Extensions()["acl"].Lifecycle.Reconcile).To(HaveValue(Equal(
			gardencorev1beta1.AfterKubeAPIServer)), "step 3 migrates what is to be restored before")
		Expect(extensions.MigrateBeforeKubeAPIServer(ctx)).To(Succeed())
		Expect(extensions.DestroyBeforeKubeAPIServer(ctx)).To(Succeed())
		Expect(requested()).To(Equal(map[string]string{"acl": ""}))
		Expect(extensions.MigrateAfterKubeAPIServer(ctx)).To(Succeed())
		Expect(requested()).To(Equal(map[string]string{"acl": "migrate"}))
	})

	It("should stay in the source also if they are registered as early ones", func() {
		b := ofShoot()
		botanist.KeepAccessControl(b, &migration.Migration{Role: steps.Source}, "early")
		Expect(b.Shoot.Components.Extensions.Extension.Extensions()["early"].Lifecycle.Reconcile).
			To(HaveValue(Equal(gardencorev1beta1.AfterKubeAPIServer)))
	})

	It("should not be any that the agent does not take for such ones", func() {
		b := ofShoot()
		Expect(botanist.KeepAccessControl(b, &migration.Migration{Role: steps.Destination})).To(BeEmpty())
		Expect(b.Shoot.Components.Extensions.Extension.RestoreBeforeKubeAPIServer(ctx,
			&gardencorev1beta1.ShootState{})).To(Succeed())
		Expect(requested()).To(Equal(map[string]string{"early": "restore"}))
	})

	It("should be found among those of the shoot and those that are enabled for all", func() {
		registration := func(name string, autoEnable ...gardencorev1beta1.ClusterType) client.Object {
			return &gardencorev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: gardencorev1beta1.ControllerRegistrationSpec{Resources: []gardencorev1beta1.ControllerResource{
					{Kind: "Extension", Type: name, AutoEnable: autoEnable, WorkerlessSupported: new(true)},
				}}}
		}
		failing := false
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(registration("acl"),
			registration("everywhere", gardencorev1beta1.ClusterTypeShoot), registration("unused"),
			registration("disabled", gardencorev1beta1.ClusterTypeShoot)).
			WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
				list client.ObjectList, options ...client.ListOption) error {
				if failing {
					return errors.New("forbidden")
				}
				return c.List(ctx, list, options...)
			}}).Build()
		gardenlet := &gardenletconfigv1alpha1.GardenletConfiguration{SeedConfig: &gardenletconfigv1alpha1.SeedConfig{}}
		factory, err := botanist.NewFactory(botanist.Options{
			GardenClient: garden, GardenAPIReader: garden,
			SeedClientSet:  fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build(),
			ShootClientMap: fakeclientmap.NewClientMap(), GardenletConfig: gardenlet,
			Identity: &gardencorev1beta1.Gardener{Version: "v1.150.0"}, GardenClusterIdentity: "garden",
			AccessControl: []string{},
		})
		Expect(err).NotTo(HaveOccurred())
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "live", Namespace: "garden-demo"}}
		shoot.Status.TechnicalID = namespace
		shoot.Spec.Extensions = []gardencorev1beta1.Extension{{Type: "acl"}, {Type: "disabled", Disabled: new(true)}}
		Expect(factory.Extensions(ctx, shoot)).To(Equal([]string{"acl", "everywhere"}))

		failing = true
		_, err = factory.Extensions(ctx, shoot)
		Expect(err).To(MatchError("failed to find out which extensions shoot garden-demo/live has: forbidden"))
	})
})
