// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	gardencoreinstall "github.com/gardener/gardener/pkg/apis/core/install"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/gardener/operator"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/hack/examples"
	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const (
	folder = "../../examples"
	// installationNamespace is the namespace that a gardenlet makes for a ControllerInstallation.
	installationNamespace = "extension-livecpm-abcde"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	gardencoreinstall.Install(s)
	for _, add := range []func(*runtime.Scheme) error{operatorv1alpha1.AddToScheme, seedmanagementv1alpha1.AddToScheme,
		kubernetesscheme.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// strict refuses fields that the types do not have and fields that occur twice.
var strict = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

func read(path string) []byte {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(folder, path))
	Expect(err).NotTo(HaveOccurred())
	return content
}

// objectsIn decodes the manifests in the example.
func objectsIn(path string) []client.Object {
	GinkgoHelper()
	var out []client.Object
	for document := range strings.SplitSeq(string(read(path)), "\n---\n") {
		var content map[string]any
		Expect(yaml.Unmarshal([]byte(document), &content)).To(Succeed())
		if len(content) == 0 {
			continue
		}
		object, _, err := strict.Decode([]byte(document), nil, nil)
		Expect(err).NotTo(HaveOccurred(), path)
		out = append(out, object.(client.Object))
	}
	Expect(out).NotTo(BeEmpty())
	return out
}

func valuesIn(path string) map[string]any {
	GinkgoHelper()
	values := map[string]any{}
	Expect(yaml.UnmarshalStrict(read(path), &values)).To(Succeed())
	return values
}

func only[T client.Object](objects []client.Object) T {
	GinkgoHelper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	Expect(found).To(HaveLen(1))
	return found[0]
}

// unpack returns the files of a packed chart.
func unpack(archive []byte) map[string]string {
	GinkgoHelper()
	reader, err := gzip.NewReader(bytes.NewReader(archive))
	Expect(err).NotTo(HaveOccurred())
	out, files := map[string]string{}, tar.NewReader(reader)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(files)
		Expect(err).NotTo(HaveOccurred())
		out[header.Name] = string(content)
	}
}

// asGardenlet renders the packed chart with what a gardenlet mixes into the values.
func asGardenlet(archive []byte, values map[string]any) []client.Object {
	GinkgoHelper()
	values = maps.Clone(values)
	values["gardener"] = map[string]any{
		"version": "v1.150.0",
		"garden": map[string]any{"clusterIdentity": "garden",
			"genericKubeconfigSecretName": "generic-garden-kubeconfig-1"},
		"seed": map[string]any{"name": "my-seed", "clusterIdentity": "garden-my-seed", "provider": "local",
			"region": "local", "spec": map[string]any{}},
		"gardenlet": map[string]any{"featureGates": map[string]any{"UpgradeEtcdVersion": true}},
	}
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.3"}).RenderArchive(archive,
		"livecpm", installationNamespace, values)
	Expect(err).NotTo(HaveOccurred())
	var out []client.Object
	for _, manifest := range rendered.Manifests {
		object, _, err := strict.Decode([]byte(manifest.Content), nil, nil)
		Expect(err).NotTo(HaveOccurred(), manifest.Name+"\n"+manifest.Content)
		out = append(out, object.(client.Object))
	}
	return out
}

func helmValues(raw []byte) map[string]any {
	GinkgoHelper()
	values := map[string]any{}
	Expect(json.Unmarshal(raw, &values)).To(Succeed())
	return values
}

var _ = Describe("The folder examples", func() {
	It("should have nothing that is not checked here", func() {
		var paths []string
		Expect(filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				relative, _ := filepath.Rel(folder, path)
				paths = append(paths, relative)
			}
			return err
		})).To(Succeed())
		Expect(paths).To(ConsistOf(
			"README.md",
			"gardener/controllerregistration.yaml",
			"gardener-operator/extension.yaml", "gardener-operator/garden-virtual-values.yaml",
			"gardener-operator/garden-runtime-values.yaml",
			"gardenlet/extension.yaml", "gardenlet/gardenlet.yaml",
			"helm/agent-values.yaml", "helm/garden-values.yaml",
		))
	})

	It("should have the generated files as they are generated (make examples)", func() {
		rawChart := regexp.MustCompile(`rawChart: \S+`)
		files, err := examples.Files()
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for path, content := range files {
			committed := read(path)
			Expect(string(rawChart.ReplaceAll(committed, nil))).To(Equal(string(rawChart.ReplaceAll(content, nil))),
				path)
			Expect(rawChart.FindAll(committed, -1)).To(HaveLen(1))
		}
		// Another version of Go may compress differently. What counts is what is in the archive.
		archive, err := charts.Archive(charts.Agent)
		Expect(err).NotTo(HaveOccurred())
		deployment := only[*gardencorev1.ControllerDeployment](objectsIn(examples.ControllerRegistration))
		Expect(unpack(deployment.Helm.RawChart)).To(Equal(unpack(archive)), "run make examples")
	})
})

var _ = Describe("ControllerRegistration", func() {
	It("should demand the agent in every seed", func() {
		objects := objectsIn(examples.ControllerRegistration)
		Expect(objects).To(HaveLen(2))
		registration, deployment := only[*gardencorev1beta1.ControllerRegistration](objects),
			only[*gardencorev1.ControllerDeployment](objects)
		Expect(registration.Spec.Resources).To(BeEmpty())
		Expect(registration.Spec.Deployment.Policy).
			To(HaveValue(Equal(gardencorev1beta1.ControllerDeploymentPolicyAlways)))
		Expect(registration.Spec.Deployment.DeploymentRefs).
			To(ConsistOf(gardencorev1beta1.DeploymentRef{Name: deployment.Name}))
		Expect(deployment.InjectGardenKubeconfig).To(HaveValue(BeTrue()))
	})

	It("should be what gardener-operator makes of the Extension, but for where the chart is", func() {
		objects := objectsIn(examples.ControllerRegistration)
		registration, deployment := only[*gardencorev1beta1.ControllerRegistration](objects),
			only[*gardencorev1.ControllerDeployment](objects)
		extension := only[*operatorv1alpha1.Extension](objectsIn("gardener-operator/extension.yaml"))
		Expect(extension.Spec.Deployment.ExtensionDeployment.Helm.OCIRepository.GetURL()).
			To(HaveSuffix("/livecpm-agent:0.1.0"))

		madeRegistration, madeDeployment := operator.ControllerRegistrationForExtension(extension)
		Expect(madeRegistration.Name).To(Equal(registration.Name))
		Expect(madeRegistration.Spec.Resources).To(BeEmpty())
		Expect(madeRegistration.Spec.Deployment).To(Equal(registration.Spec.Deployment))
		Expect(madeDeployment.Name).To(Equal(deployment.Name))
		Expect(madeDeployment.InjectGardenKubeconfig).To(Equal(deployment.InjectGardenKubeconfig))
		Expect(madeDeployment.Helm.Values.Raw).To(MatchJSON(deployment.Helm.Values.Raw))
	})

	It("should have the name that the garden chart guards and gives permissions to", func() {
		installed := charts.Release{Chart: charts.Garden, Name: "livecpm", Namespace: "garden", Kubernetes: "v1.36.3"}
		manifests, err := installed.Render(valuesIn("gardener-operator/garden-virtual-values.yaml"))
		Expect(err).NotTo(HaveOccurred())
		name := only[*gardencorev1beta1.ControllerRegistration](objectsIn(examples.ControllerRegistration)).Name
		var guarded, permitted bool
		for _, manifest := range manifests {
			guarded = guarded || strings.Contains(manifest.Content, "name: livecpm-removal") &&
				strings.Contains(manifest.Content, "== '"+name+"'")
			permitted = permitted ||
				strings.Contains(manifest.Content, "authorization.gardener.cloud/custom-extensions-permissions") &&
					strings.Contains(manifest.Content,
						`{"matchLabels":{"controllerregistration.core.gardener.cloud/name":"`+name+`"}}`)
		}
		Expect(guarded).To(BeTrue())
		Expect(permitted).To(BeTrue())
	})

	It("should install an agent that finds everything with what the gardenlet mixes in", func() {
		deployment := only[*gardencorev1.ControllerDeployment](objectsIn(examples.ControllerRegistration))
		objects := asGardenlet(deployment.Helm.RawChart, helmValues(deployment.Helm.Values.Raw))

		config, err := configv1alpha1.Decode([]byte(only[*corev1.ConfigMap](objects).Data["config.yaml"]))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Relay.Image).To(Equal("registry.example.com/livecpm/livecpm-relay:v0.1.0"))
		Expect(config.LeaderElection.ResourceNamespace).To(Equal("garden"))
		// The gardenlet makes this Secret, with the token of a service account that the seed authorizer knows.
		access := gardenerutils.NewGardenAccessSecret("extension", installationNamespace).Secret
		Expect(config.Gardenlet.Source).To(Equal(&configv1alpha1.GardenletSource{
			Namespace: "garden", Deployment: "gardenlet",
			GardenAccessSecret: &configv1alpha1.SecretReference{Namespace: access.Namespace, Name: access.Name},
		}))

		workload := only[*appsv1.Deployment](objects)
		Expect(workload.Labels).NotTo(HaveKey("extensions.gardener.cloud/inject-garden-kubeconfig"),
			"the gardenlet would make no token")
		pod := workload.Spec.Template.Spec
		Expect(pod.Containers[0].Image).To(Equal("registry.example.com/livecpm/livecpm-agent:v0.1.0"))
		Expect(pod.InitContainers).To(HaveLen(1))
		adopt := pod.InitContainers[0]
		Expect(adopt.Args).To(ConsistOf("adopt", "--config=/etc/livecpm-agent/config/config.yaml"))
		Expect(adopt.SecurityContext).To(Equal(pod.Containers[0].SecurityContext))

		// What the one writes the other reads, and keeps up to date.
		written := filepath.Dir(config.Gardenlet.ConfigurationFile)
		Expect(filepath.Dir(config.GardenClientConnection.Kubeconfig)).To(Equal(written))
		for _, container := range []corev1.Container{adopt, pod.Containers[0]} {
			Expect(container.VolumeMounts).
				To(ContainElement(corev1.VolumeMount{Name: "gardenlet-config", MountPath: written}))
		}
		Expect(pod.Volumes).
			To(ContainElement(And(HaveField("Name", "gardenlet-config"),
				HaveField("EmptyDir.Medium", corev1.StorageMediumMemory))))
		Expect(pod.Containers[0].Env).To(ContainElements(
			corev1.EnvVar{Name: "IMAGEVECTOR_OVERWRITE", Value: written + "/images_overwrite.yaml"},
			corev1.EnvVar{Name: "IMAGEVECTOR_OVERWRITE_COMPONENTS", Value: written + "/components.yaml"},
		))
		for _, volume := range pod.Volumes {
			Expect(volume.Secret).To(BeNil())
		}
	})

	It("should put everything into the namespace garden, which alone may reach the shoots' etcds", func() {
		deployment := only[*gardencorev1.ControllerDeployment](objectsIn(examples.ControllerRegistration))
		for _, object := range asGardenlet(deployment.Helm.RawChart, helmValues(deployment.Helm.Values.Raw)) {
			switch typed := object.(type) {
			case *rbacv1.ClusterRole:
			case *rbacv1.ClusterRoleBinding:
				Expect(typed.Subjects).To(HaveEach(HaveField("Namespace", "garden")))
			case *rbacv1.RoleBinding:
				Expect(typed.Namespace).To(Equal("garden"))
				Expect(typed.Subjects).To(HaveEach(HaveField("Namespace", "garden")))
			default:
				Expect(object.GetNamespace()).To(Equal("garden"), "%T %s", object, object.GetName())
			}
		}
	})
})

var _ = Describe("Values", func() {
	It("should render both charts", func() {
		names := func(chart, path string) []string {
			GinkgoHelper()
			installed := charts.Release{Chart: chart, Name: "livecpm", Namespace: "garden", Kubernetes: "v1.36.3"}
			manifests, err := installed.Render(valuesIn(path))
			Expect(err).NotTo(HaveOccurred())
			var out []string
			for _, manifest := range manifests {
				object, _, err := strict.Decode([]byte(manifest.Content), nil, nil)
				Expect(err).NotTo(HaveOccurred(), manifest.Content)
				out = append(out, object.GetObjectKind().GroupVersionKind().Kind)
			}
			return out
		}
		virtual, runtimeCluster := names(charts.Garden, "gardener-operator/garden-virtual-values.yaml"),
			names(charts.Garden, "gardener-operator/garden-runtime-values.yaml")
		Expect(virtual).To(ContainElements("ValidatingAdmissionPolicy", "ClusterRole"))
		Expect(virtual).NotTo(ContainElement("Deployment"))
		Expect(runtimeCluster).To(ContainElement("Deployment"))
		Expect(runtimeCluster).NotTo(ContainElements("ValidatingAdmissionPolicy", "ClusterRole"))
		Expect(names(charts.Garden, "helm/garden-values.yaml")).
			To(ContainElements("ValidatingAdmissionPolicy", "ClusterRole", "Deployment"))
		Expect(names(charts.Agent, "helm/agent-values.yaml")).To(ContainElements("ConfigMap", "Deployment"))
	})

	It("should let Helm's agent use the gardenlet's identity", func() {
		installed := charts.Release{Chart: charts.Agent, Name: "livecpm", Namespace: "garden", Kubernetes: "v1.36.3"}
		manifests, err := installed.Render(valuesIn("helm/agent-values.yaml"))
		Expect(err).NotTo(HaveOccurred())
		i := slices.IndexFunc(
			manifests, func(m charts.Manifest) bool { return strings.HasSuffix(m.Name, "/configmap.yaml") })
		object, _, err := strict.Decode([]byte(manifests[i].Content), nil, nil)
		Expect(err).NotTo(HaveOccurred())
		config, err := configv1alpha1.Decode([]byte(object.(*corev1.ConfigMap).Data["config.yaml"]))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Gardenlet.Source).
			To(Equal(&configv1alpha1.GardenletSource{Namespace: "garden", Deployment: "gardenlet"}))
	})
})

var _ = Describe("The drop-in gardenlet", func() {
	It("should be a Gardenlet whose configuration the agent accepts as well", func() {
		gardenletfeatures.RegisterFeatureGates()
		gardenlet := only[*seedmanagementv1alpha1.Gardenlet](objectsIn("gardenlet/gardenlet.yaml"))
		file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
		raw := helmValues(gardenlet.Spec.Config.Raw)
		seedConfig := raw["seedConfig"].(map[string]any)
		Expect(seedConfig).NotTo(HaveKey("metadata"), "gardener-apiserver refuses a name beside that of the Gardenlet")
		// Who deploys the gardenlet fills it in.
		seedConfig["metadata"] = map[string]any{"name": gardenlet.Name}
		content, err := json.Marshal(raw)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
		config, err := gardenletconfig.Load(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.ETCDConfig.FeatureGates).To(HaveKeyWithValue("UpgradeEtcdVersion", true))

		Expect(*gardenlet.Spec.Deployment.Image.Ref).To(ContainSubstring("/livecpm-gardenlet:"))
		Expect(gardenlet.Spec.Deployment.Env).To(ContainElement(HaveField("Name", "LIVECPM_RELAY_IMAGE")))
	})

	It("should come with permissions and nothing else", func() {
		extension := only[*operatorv1alpha1.Extension](objectsIn("gardenlet/extension.yaml"))
		archive, err := charts.Archive(charts.Agent)
		Expect(err).NotTo(HaveOccurred())
		objects := asGardenlet(archive, helmValues(extension.Spec.Deployment.ExtensionDeployment.Values.Raw))
		var kinds []string
		for _, object := range objects {
			kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind)
			switch typed := object.(type) {
			case *rbacv1.ClusterRoleBinding:
				Expect(typed.Subjects).
					To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Name: "gardenlet", Namespace: "garden"}))
			case *rbacv1.RoleBinding:
				Expect(typed.Subjects).
					To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Name: "gardenlet", Namespace: "garden"}))
			}
		}
		Expect(kinds).To(ConsistOf("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"))
	})
})
