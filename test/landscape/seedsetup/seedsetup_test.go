// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/charts"
	gardenletvalidation "github.com/gardener/gardener/pkg/api/config/gardenlet/v1alpha1/validation"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"

	gardenletapp "github.com/livecpm/livecpm/cmd/gardenlet/app"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/pki"
	. "github.com/livecpm/livecpm/test/landscape/seedsetup"
)

var _ = Describe("Setup", func() {
	var gardenlets []*gardenletconfigv1alpha1.GardenletConfiguration

	BeforeEach(func() {
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
		Expect(err).NotTo(HaveOccurred())
		gardenlets = nil
		for _, seed := range cfg.Seeds {
			gardenlet, err := (&Setup{Config: cfg, Seed: seed, GardenCA: ca}).GardenletConfiguration()
			Expect(err).NotTo(HaveOccurred())
			gardenlets = append(gardenlets, gardenlet)
		}
	})

	It("should configure gardenlets that upstream accepts", func() {
		for _, gardenlet := range gardenlets {
			Expect(gardenletvalidation.ValidateGardenletConfiguration(gardenlet, nil)).To(BeEmpty())
		}
	})

	It("should ask for no gateways of single zones, which would need addresses of their own", func() {
		for _, gardenlet := range gardenlets {
			Expect(gardenlet.SeedConfig.Spec.Provider.Zones).To(HaveLen(1))
			Expect(gardenlet.SeedConfig.Spec.Settings.LoadBalancerServices).To(BeNil())
		}
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.SetNodes(3, config.ToleranceZone)).To(Succeed())
		ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
		Expect(err).NotTo(HaveOccurred())
		for _, seed := range cfg.Seeds {
			gardenlet, err := (&Setup{Config: cfg, Seed: seed, GardenCA: ca}).GardenletConfiguration()
			Expect(err).NotTo(HaveOccurred())
			Expect(gardenletvalidation.ValidateGardenletConfiguration(gardenlet, nil)).To(BeEmpty())
			Expect(gardenlet.SeedConfig.Spec.Provider.Zones).To(Equal([]string{"0", "1", "2"}))
			Expect(v1beta1helper.SeedSettingZonalIngressEnabled(gardenlet.SeedConfig.Spec.Settings)).To(BeFalse())
		}
	})

	It("should let machines reach the landscape and each other, unknown to the policies of provider-local", func() {
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		cfg.Shoot = config.ShootWorkers
		manifests, err := (&Setup{Config: cfg, Seed: cfg.Cloud()}).MachinesManifest()
		Expect(err).NotTo(HaveOccurred())
		objects, err := apply.Decode(manifests)
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveLen(2))
		Expect(objects[0].GetName()).To(Equal("infra-shoot--demo--workers"))
		policy := &networkingv1.NetworkPolicy{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[1].Object, policy, true)).
			To(Succeed())
		Expect(policy.Namespace).To(Equal("infra-shoot--demo--workers"))
		Expect(policy.Spec.PodSelector.MatchLabels).To(Equal(map[string]string{"app": "machine"}))
		block := func(cidr string) networkingv1.NetworkPolicyPeer {
			return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
		}
		nodes, pods := block("10.180.0.0/16"), block("10.181.0.0/16")
		Expect(policy.Spec.Egress).To(ConsistOf(networkingv1.NetworkPolicyEgressRule{
			To: []networkingv1.NetworkPolicyPeer{block("192.0.2.0/24"), nodes, pods}}))
		Expect(policy.Spec.Ingress).To(ConsistOf(networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{nodes, pods}}))
	})

	It("should not lose all webhooks for pods with one of several nodes", func() {
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
		Expect(err).NotTo(HaveOccurred())
		Expect((&Setup{Config: cfg, Seed: cfg.Seeds[0], GardenCA: ca}).ResourceManagerReplicas()).
			To(HaveValue(BeEquivalentTo(1)))
		Expect(cfg.SetNodes(3, config.ToleranceNode)).To(Succeed())
		Expect((&Setup{Config: cfg, Seed: cfg.Seeds[0], GardenCA: ca}).ResourceManagerReplicas()).
			To(HaveValue(BeEquivalentTo(2)))
	})

	It("should configure what a live migration between the seeds needs", func() {
		a, b := gardenlets[0].SeedConfig.Spec, gardenlets[1].SeedConfig.Spec
		Expect(a.DNS.Internal).To(Equal(b.DNS.Internal))
		Expect(a.Provider.Type).To(Equal(b.Provider.Type))
		Expect(a.Provider.Region).NotTo(Equal(b.Provider.Region))
		Expect(a.Ingress.Domain).NotTo(Equal(b.Ingress.Domain))
		for _, gardenlet := range gardenlets {
			Expect(gardenlet.ETCDConfig.FeatureGates).To(HaveKeyWithValue("UpgradeEtcdVersion", true))
			Expect(gardenlet.SeedConfig.Spec.Backup).NotTo(BeNil())
		}
	})
})

var _ = Describe("Gardenlets that set up their seed", func() {
	setup := func(gardenlet config.Gardenlet) *Setup {
		GinkgoHelper()
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		cfg.Gardenlet = gardenlet
		ca, err := pki.EnsureCA(cfg.PKI(cfg.Garden.Name), "ca")
		Expect(err).NotTo(HaveOccurred())
		return &Setup{Config: cfg, Seed: cfg.Seeds[0], GardenCA: ca}
	}

	// pod renders upstream's chart as the landscape applies it.
	pod := func(s *Setup) corev1.PodTemplateSpec {
		GinkgoHelper()
		values, err := s.ChartValues()
		Expect(err).NotTo(HaveOccurred())
		chart, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderEmbeddedFS(
			charts.ChartGardenlet, charts.ChartPathGardenlet, "gardenlet", "garden", values)
		Expect(err).NotTo(HaveOccurred())
		deployment := &appsv1.Deployment{}
		Expect(yaml.Unmarshal([]byte(chart.FileContent("deployment.yaml")), deployment)).To(Succeed())
		Expect(deployment.Spec.Template.Spec.Containers).To(HaveLen(1))
		return deployment.Spec.Template
	}
	environment := func(template corev1.PodTemplateSpec) map[string]string {
		out := map[string]string{}
		for _, variable := range template.Spec.Containers[0].Env {
			out[variable.Name] = variable.Value
		}
		return out
	}

	It("should not be what the composed one is", func() {
		Expect(environment(pod(setup(config.GardenletComposed)))).NotTo(HaveKey("IMAGEVECTOR_OVERWRITE"))
	})

	It("should have the images of the landscape", func() {
		for _, gardenlet := range []config.Gardenlet{config.GardenletUpstream, config.GardenletDropIn} {
			s := setup(gardenlet)
			Expect(environment(pod(s))).To(HaveKey("IMAGEVECTOR_OVERWRITE"))
			values, err := s.ChartValues()
			Expect(err).NotTo(HaveOccurred())
			Expect(values["imageVectorOverwrite"]).To(ContainSubstring(PlaceholderImage))
		}
	})

	It("should know nothing of the agent where they are upstream's", func() {
		Expect(environment(pod(setup(config.GardenletUpstream)))).NotTo(HaveKey(gardenletapp.EnvRelayImage))
	})

	It("should have the agent's configuration where they are the drop-in", func() {
		s := setup(config.GardenletDropIn)
		template := pod(s)
		variables := environment(template)
		file := variables[gardenletapp.EnvConfig]
		Expect(template.Spec.Containers[0].VolumeMounts).
			To(ContainElement(And(HaveField("Name", "livecpm-agent"), HaveField("MountPath", filepath.Dir(file)))))
		Expect(template.Spec.Volumes).
			To(ContainElement(And(HaveField("Name", "livecpm-agent"),
				HaveField("VolumeSource.ConfigMap.Name", "landscape-livecpm-agent"))))
		Expect(template.Annotations).To(HaveKey("landscape.livecpm.dev/agent-configuration"))
		Expect(template.Annotations).To(HaveKey("landscape.livecpm.dev/image"), "those of all gardenlets stay")

		for _, service := range []string{"livecpm-relay-tcp-22379", "etcd-main-client-tcp-2379",
			"etcd-events-client-tcp-2379", "etcd-main-client-tcp-8080", "etcd-events-client-tcp-8080"} {
			Expect(template.Labels).To(HaveKeyWithValue(
				"networking.resources.gardener.cloud/to-all-shoots-"+service, "allowed"),
				"what the agent asks in the namespaces of shoots")
		}

		content, err := s.AgentConfiguration()
		Expect(err).NotTo(HaveOccurred())
		mounted := filepath.Join(GinkgoT().TempDir(), filepath.Base(file))
		Expect(os.WriteFile(mounted, content, 0o600)).To(Succeed())
		gardenletConfig, err := s.GardenletConfiguration()
		Expect(err).NotTo(HaveOccurred())
		agent, err := gardenletapp.Configuration(gardenletConfig, "gardenlet.yaml", func(name string) string {
			if name == gardenletapp.EnvConfig {
				return mounted
			}
			return variables[name]
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(agent.Relay.Image).To(Equal("livecpm.local/livecpm-relay:landscape"))
		Expect(agent.DNS.Resolvers).To(ConsistOf(s.Config.Garden.IP + ":53"))
		Expect(agent.Flows.DrainTimeout.Duration.String()).To(Equal("20s"))
		Expect(agent.Controllers.LiveMigration.Workers).To(HaveValue(BeTrue()))
	})
})

var _ = Describe("druidImages", func() {
	write := func(content string) string {
		dir := GinkgoT().TempDir()
		Expect(os.MkdirAll(filepath.Join(dir, "internal", "images"), 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "internal", "images", "images.yaml"), []byte(content), 0o600)).
			To(Succeed())
		return dir
	}

	It("should read references", func() {
		Expect(DruidImages(write(`images:
- {name: etcd-wrapper-next, repository: example/wrapper, tag: v2}
- {name: etcd-backup-restore-next, repository: example/restore, tag: v3}
- {name: alpine, repository: example/alpine, tag: "4"}
`))).To(Equal(map[string]string{"etcd-wrapper-next": "example/wrapper:v2",
			"etcd-backup-restore-next": "example/restore:v3", "alpine": "example/alpine:4"}))
	})

	It("should say which image a new version of etcd-druid has no more", func() {
		_, err := DruidImages(write("images: []"))
		Expect(err).To(MatchError(ContainSubstring(`"etcd-wrapper-next"`)))
	})
})
