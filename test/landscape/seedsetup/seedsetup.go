// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package seedsetup turns a plain cluster into a seed: upstream's custom resource definitions,
// gardener-resource-manager, system resources, etcd-druid and the gardenlet itself, all deployed by upstream's own
// components and charts, and Istio. It does what upstream's Seed reconciler does, less what no shoot here needs. Where
// the gardenlet has that reconciler, it does nothing of it (whole.go).
package seedsetup

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/charts"
	"github.com/gardener/gardener/imagevector"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/autoscaling/pvcautoscaler"
	"github.com/gardener/gardener/pkg/component/autoscaling/vpa"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	extensioncrds "github.com/gardener/gardener/pkg/component/extensions/crds"
	"github.com/gardener/gardener/pkg/component/gardener/resourcemanager"
	"github.com/gardener/gardener/pkg/component/networking/istio"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	"github.com/gardener/gardener/pkg/component/observability/logging/fluentoperator"
	victoriaoperator "github.com/gardener/gardener/pkg/component/observability/logging/victoria/operator"
	"github.com/gardener/gardener/pkg/component/observability/monitoring/persesoperator"
	"github.com/gardener/gardener/pkg/component/observability/monitoring/prometheusoperator"
	oteloperator "github.com/gardener/gardener/pkg/component/observability/opentelemetry/operator"
	seedsystem "github.com/gardener/gardener/pkg/component/seed/system"
	sharedcomponent "github.com/gardener/gardener/pkg/component/shared"
	"github.com/gardener/gardener/pkg/utils/flow"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/retry"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/pki"
)

//go:embed manifests/gardenlet-values.yaml
var gardenletValues string

// Setup makes one seed.
type Setup struct {
	Config *config.Config
	Seed   config.Seed
	// GardenCA signs the gardenlet's client certificate for the garden.
	GardenCA *pki.CA
	// Digests are those of the images, by name. Pods of the landscape's own programs are replaced when theirs changes.
	Digests map[string]string
	// Report tells the user what is awaited.
	Report func(format string, args ...any)

	gardener  garden.Module
	clients   kubernetes.Interface
	client    client.Client
	version   *semver.Version
	gardenlet *gardenletconfigv1alpha1.GardenletConfiguration
	// configuration is the gardenlet's configuration as a file, values are those of its chart.
	configuration []byte
	values        map[string]any
}

// Up installs the prerequisites and the gardenlet. Repeating it changes nothing.
func (s *Setup) Up(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, step := range s.steps() {
		s.Report("%s: %s", s.Seed.Name, step.title)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("failed to set up %s (%s): %w", s.Seed.Name, step.title, err)
		}
	}
	return nil
}

// step is one entry of the list of what Up does.
type step struct {
	title string
	run   func(context.Context) error
}

// steps is what Up does, in this order.
func (s *Setup) steps() []step {
	if s.Config.Gardenlet.SetsUpSeed() {
		return s.stepsBeforeGardenlet()
	}
	return []step{
		{"custom resource definitions", s.deployCRDs},
		{"namespaces", s.deployNamespaces},
		{"what machines need", s.deployCloud},
		{"what makes Etcds older", s.deployOlderEtcds},
		{"gardenlet", s.deployGardenlet},
		{"gardener-resource-manager, system resources and etcd-druid", s.deploySystem},
		{"filters of Istio's own Envoy", s.deployEnvoyFilters},
		{"istiod and the ingress gateway", s.deployIstio},
		{"gardenlet and ingress gateway to become available", func(ctx context.Context) error {
			return s.awaitDeployments(ctx, gardenletKey, ingressKey)
		}},
	}
}

func (s *Setup) prepare(ctx context.Context) error {
	var err error
	if s.gardener, err = garden.Gardener(ctx, s.Config.Repo); err != nil {
		return err
	}
	if s.clients, err = kubernetes.NewClientFromFile("", s.Config.Kubeconfig(s.Seed.Name),
		kubernetes.WithClientOptions(client.Options{Scheme: kubernetes.SeedScheme}),
		kubernetes.WithClientConnectionOptions(componentbaseconfigv1alpha1.ClientConnectionConfiguration{QPS: 200,
			Burst: 400}),
		kubernetes.WithDisabledCachedClient()); err != nil {
		return fmt.Errorf("failed to create client for %s: %w", s.Seed.Name, err)
	}
	s.client = s.clients.Client()
	if s.version, err = semver.NewVersion(s.clients.Version()); err != nil {
		return fmt.Errorf("failed to read version of %s: %w", s.Seed.Name, err)
	}
	return s.readGardenletValues()
}

// readGardenletValues fills in the values of the gardenlet's chart. The configuration in it also says how gardener's
// other components in this seed are deployed.
func (s *Setup) readGardenletValues() error {
	kubeconfig, err := garden.GardenletKubeconfig(s.Config, s.GardenCA, s.Seed.Name)
	if err != nil {
		return err
	}
	rendered, err := apply.Render("gardenlet-values.yaml", gardenletValues, map[string]any{
		"Image":            GardenletImage,
		"Digest":           s.Digests["gardenlet"],
		"GardenKubeconfig": indent(string(kubeconfig), 6),
		"Name":             s.Seed.Name,
		"Region":           s.Seed.Region,
		"Zones":            s.Seed.Zones,
		"InternalDomain":   config.InternalDomain,
		"ShootDomain":      config.ShootDomain,
		"IngressDomain":    s.Seed.IngressDomain,

		"DNSEntryTTLSeconds": int(s.Config.Waits.DNSEntryTTL().Seconds()),
		"NodeCIDR":           s.Seed.NodeCIDR,
		"PodCIDR":            s.Seed.PodCIDR,
		"ServiceCIDR":        s.Seed.ServiceCIDR,
		"TLSTermination":     s.Config.TLSTermination,
	})
	if err != nil {
		return err
	}
	s.values = map[string]any{}
	if err := yaml.Unmarshal(rendered, &s.values); err != nil {
		return fmt.Errorf("failed to decode values of the gardenlet's chart: %w", err)
	}
	if err := s.addVariantValues(); err != nil {
		return err
	}
	if s.gardenlet, s.configuration, err = decodeGardenletConfiguration(s.values["config"]); err != nil {
		return err
	}
	return nil
}

func (s *Setup) deployCRDs(ctx context.Context) error {
	var crds []component.DeployWaiter
	for _, create := range []func(client.Client) (component.DeployWaiter, error){
		machinecontrollermanager.NewCRD,
		func(c client.Client) (component.DeployWaiter, error) { return extensioncrds.NewCRD(c, true, true) },
		func(c client.Client) (component.DeployWaiter, error) { return etcd.NewCRD(c, s.version) },
		func(c client.Client) (component.DeployWaiter, error) { return istio.NewCRD(c) },
		func(c client.Client) (component.DeployWaiter, error) { return vpa.NewCRD(c, nil) },
		fluentoperator.NewCRDs,
		prometheusoperator.NewCRDs,
		oteloperator.NewCRDs,
		persesoperator.NewCRDs,
		victoriaoperator.NewCRDs,
		pvcautoscaler.NewCRDs,
	} {
		crd, err := create(s.client)
		if err != nil {
			return err
		}
		crds = append(crds, crd)
	}
	var tasks []flow.TaskFn
	for _, crd := range crds {
		tasks = append(tasks, component.OpWait(crd).Deploy)
	}
	return flow.ParallelN(4, tasks...)(ctx)
}

func (s *Setup) deployNamespaces(ctx context.Context) error {
	if err := gardenerutils.ReconcileGardenNamespace(ctx, s.client, v1beta1constants.GardenNamespace,
		s.Seed.Zones, true, func(namespace *corev1.Namespace) {
			metav1.SetMetaDataLabel(&namespace.ObjectMeta, v1beta1constants.LabelRole, v1beta1constants.GardenNamespace)
		}); err != nil {
		return fmt.Errorf("failed to apply Namespace %q: %w", v1beta1constants.GardenNamespace, err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	patch := client.MergeFrom(system.DeepCopy())
	metav1.SetMetaDataLabel(&system.ObjectMeta, v1beta1constants.LabelRole, metav1.NamespaceSystem)
	return s.client.Patch(ctx, system, patch)
}

// deployGardenlet applies upstream's chart with our image. It comes before everything else because it brings the
// priority class of the other components.
func (s *Setup) deployGardenlet(ctx context.Context) error {
	// The landscape's other programs of this seed share the configuration.
	if err := os.WriteFile(GardenletConfigFile(s.Config, s.Seed.Name), s.configuration, 0o600); err != nil {
		return fmt.Errorf("failed to write gardenlet configuration: %w", err)
	}
	return s.clients.ChartApplier().ApplyFromEmbeddedFS(ctx, charts.ChartGardenlet, charts.ChartPathGardenlet,
		v1beta1constants.GardenNamespace, "gardenlet", kubernetes.Values(s.values))
}

// deploySystem deploys what upstream's Seed reconciler deploys with the same values, and waits until it is healthy.
func (s *Setup) deploySystem(ctx context.Context) error {
	secrets, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, s.client,
		v1beta1constants.SecretManagerIdentityGardenlet,
		secretsmanager.WithCASecretAutoRotation(), secretsmanager.WithNamespaces(v1beta1constants.GardenNamespace))
	if err != nil {
		return fmt.Errorf("failed to create secrets manager: %w", err)
	}
	// Nothing in a landscape lives long enough to see a rotation; upstream's month would only surprise the one that
	// does.
	validity := 5 * 365 * 24 * time.Hour
	if _, err := secrets.Generate(ctx, &secretsutils.CertificateSecretConfig{
		Name: v1beta1constants.SecretNameCASeed, CommonName: "kubernetes", CertType: secretsutils.CACert,
		Validity: &validity,
	}, secretsmanager.Rotate(secretsmanager.KeepOld), secretsmanager.IgnoreOldSecretsAfter(24*time.Hour)); err != nil {
		return fmt.Errorf("failed to generate certificate authority of the seed: %w", err)
	}

	resourceManager, err := s.resourceManager(secrets)
	if err != nil {
		return err
	}
	// The first attempt makes webhooks that are served only once the pod runs, and then trips over them.
	if err := retry.UntilTimeout(ctx, 2*time.Second, 3*time.Minute, func(ctx context.Context) (bool, error) {
		if err := component.OpWait(resourceManager).Deploy(ctx); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	}); err != nil {
		return fmt.Errorf("failed to deploy gardener-resource-manager: %w", err)
	}

	pause, err := imagevector.Containers().FindImage(imagevector.ContainerImageNamePauseContainer)
	if err != nil {
		return fmt.Errorf("failed to find image of the pause container: %w", err)
	}
	system := seedsystem.New(s.client, v1beta1constants.GardenNamespace, seedsystem.Values{
		ManagePriorityClasses: true,
		ReserveExcessCapacity: seedsystem.ReserveExcessCapacityValues{Image: pause.String()},
	})
	if err := component.OpWait(system).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy system resources: %w", err)
	}

	druid, err := sharedcomponent.NewEtcdDruid(s.client, v1beta1constants.GardenNamespace, s.version, nil,
		s.gardenlet.ETCDConfig, secrets,
		v1beta1constants.SecretNameCASeed, v1beta1constants.PriorityClassNameSeedSystem800, false, false)
	if err != nil {
		return fmt.Errorf("failed to create etcd-druid: %w", err)
	}
	if err := component.OpWait(druid).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy etcd-druid: %w", err)
	}
	return nil
}

func (s *Setup) resourceManager(secrets secretsmanager.Interface) (resourcemanager.Interface, error) {
	image, err := imagevector.Containers().FindImage(imagevector.ContainerImageNameGardenerResourceManager)
	if err != nil {
		return nil, fmt.Errorf("failed to find image of gardener-resource-manager: %w", err)
	}
	// Upstream fills in its own version, which this program does not have.
	image.WithOptionalTag(s.gardener.Version)

	// Without its webhooks no pod of a shoot is created. With one node, two would be lost together; with several, the
	// loss or the drain of a node must not take them away.
	replicas := int32(min(2, len(s.Seed.Nodes)))
	tolerations := s.gardenlet.NodeToleration
	return sharedcomponent.NewRuntimeGardenerResourceManager(s.client, v1beta1constants.GardenNamespace, secrets,
		resourcemanager.Values{
			Image:                                image.String(),
			Replicas:                             &replicas,
			DefaultSeccompProfileEnabled:         true,
			HighAvailabilityConfigWebhookEnabled: true,
			DefaultNotReadyToleration:            tolerations.DefaultNotReadyTolerationSeconds,
			DefaultUnreachableToleration:         tolerations.DefaultUnreachableTolerationSeconds,
			LogLevel:                             s.gardenlet.LogLevel,
			LogFormat:                            s.gardenlet.LogFormat,
			PriorityClassName:                    v1beta1constants.PriorityClassNameSeedSystemCritical,
			SecretNameServerCA:                   v1beta1constants.SecretNameCASeed,
			Zones:                                s.Seed.Zones,
			PodKubeAPIServerLoadBalancingWebhook: resourcemanager.PodKubeAPIServerLoadBalancingWebhook{
				Enabled: true,
				Configs: []resourcemanager.PodKubeAPIServerLoadBalancingWebhookConfig{
					{NamespaceSelector: map[string]string{
						v1beta1constants.GardenRole: v1beta1constants.GardenRoleShoot,
					}},
				},
			},
			VPAInPlaceUpdatesEnabled: true,
		})
}

// gardenletKey and ingressKey are the Deployments that are awaited.
var (
	gardenletKey = client.ObjectKey{Namespace: v1beta1constants.GardenNamespace,
		Name: v1beta1constants.DeploymentNameGardenlet}
	ingressKey = client.ObjectKey{Namespace: "istio-ingress", Name: "istio-ingressgateway"}
)

func (s *Setup) awaitDeployments(ctx context.Context, keys ...client.ObjectKey) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, key := range keys {
		for {
			deployment := &appsv1.Deployment{}
			err := s.client.Get(ctx, key, deployment)
			if err == nil && deployment.Status.ObservedGeneration == deployment.Generation &&
				deployment.Status.UpdatedReplicas == deployment.Status.Replicas &&
				deployment.Status.AvailableReplicas > 0 {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("failed to wait for Deployment %q to become available (%d of %d replicas): %v", key,
					deployment.Status.AvailableReplicas, deployment.Status.Replicas, err)
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	return nil
}

// GardenletConfigFile is where the configuration of a seed's gardenlet is kept.
func GardenletConfigFile(cfg *config.Config, seedName string) string {
	return cfg.Dir(seedName, "gardenlet-config.yaml")
}

func indent(text string, columns int) string {
	prefix := strings.Repeat(" ", columns)
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}
