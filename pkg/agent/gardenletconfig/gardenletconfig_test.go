// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/utils/imagevector"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/test/calls"
)

const (
	gardenletConfiguration = `apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection:
  kubeconfigSecret: {name: gardenlet-kubeconfig, namespace: garden}
`
	givenConfiguration = `apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection:
  kubeconfig: /etc/gardenlet/kubeconfig-garden/kubeconfig
`
	kubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: g, cluster: {server: "https://garden.example.com", certificate-authority-data: Y2E=}}]
users: [{name: u, user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}}]
contexts: [{name: c, context: {cluster: g, user: u}}]
`
	overwrite  = "images:\n- name: etcd\n  repository: registry.example.com/etcd\n"
	components = "components:\n- name: etcd-druid\n  imageVectorOverwrite: |\n    images: []\n"
)

var _ = Describe("Adoption", func() {
	var (
		ctx = context.Background()
		// gardenlet is the gardenlet as its chart deploys it.
		gardenlet *appsv1.Deployment
		objects   []client.Object
		config    *configv1alpha1.AgentConfiguration
		seed      client.WithWatch
	)

	configMap := func(name, key, content string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name},
			Data: map[string]string{key: content}}
	}
	secret := func(namespace, name, key, content string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data: map[string][]byte{key: []byte(content)}}
	}
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	fromConfigMap := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}
	}

	BeforeEach(func() {
		gardenlet = &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardenlet"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{Name: "sidecar", Args: []string{"--verbose"}},
					{
						Name: "gardenlet",
						Args: []string{"--config=/etc/gardenlet/config/config.yaml"},
						VolumeMounts: []corev1.VolumeMount{
							{Name: "token", MountPath: "/var/run/secrets"},
							{Name: "gardenlet-config", MountPath: "/etc/gardenlet/config"},
						},
					},
				},
				Volumes: []corev1.Volume{
					volume("token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}),
					volume("gardenlet-config", fromConfigMap("gardenlet-configmap-1")),
				},
			}}},
		}
		objects = []client.Object{
			gardenlet,
			configMap("gardenlet-configmap-1", "config.yaml", gardenletConfiguration),
			secret("garden", "gardenlet-kubeconfig", "kubeconfig", kubeconfig),
		}
		folder := filepath.Join(GinkgoT().TempDir(), "gardenlet")
		config = &configv1alpha1.AgentConfiguration{Gardenlet: configv1alpha1.Gardenlet{
			ConfigurationFile: filepath.Join(folder, "config.yaml"), Source: &configv1alpha1.GardenletSource{},
		}}
		config.GardenClientConnection.Kubeconfig = filepath.Join(folder, "kubeconfig")
		configv1alpha1.SetDefaults(config)
	})

	container := func() *corev1.Container { return &gardenlet.Spec.Template.Spec.Containers[1] }
	mount := func(name, path, variable, file string, source corev1.VolumeSource) {
		c := container()
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
		gardenlet.Spec.Template.Spec.Volumes = append(gardenlet.Spec.Template.Spec.Volumes, volume(name, source))
		if variable != "" {
			c.Env = append(c.Env, corev1.EnvVar{Name: variable, Value: path + "/" + file})
		}
	}
	withAccess := func(token string) {
		config.Gardenlet.Source.GardenAccessSecret = &configv1alpha1.SecretReference{Namespace: "extension-livecpm-x",
			Name: "garden-access-extension"}
		objects = append(objects, secret("extension-livecpm-x", "garden-access-extension", "token", token))
	}
	read := func() (*gardenletconfig.Content, error) {
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		return gardenletconfig.Read(ctx, seed, config.Gardenlet.Source, "/run/token")
	}

	Describe("#Read", func() {
		It("should find configuration and kubeconfig of a gardenlet without overwrites", func() {
			content, err := read()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content.Configuration)).To(Equal(gardenletConfiguration))
			Expect(string(content.Kubeconfig)).To(Equal(kubeconfig))
			Expect(content.Token).To(BeEmpty())

			// What stands for no overwrites is valid, and empty.
			images, _, err := imagevector.Read(content.ImageVectorOverwrite)
			Expect(err).NotTo(HaveOccurred())
			Expect(images).To(BeEmpty())
			vectors, err := imagevector.ReadComponentOverwrite(content.ComponentImageVectorOverwrites)
			Expect(err).NotTo(HaveOccurred())
			Expect(vectors).To(BeEmpty())
		})

		It("should find the overwrites that the gardenlet was started with", func() {
			mount("a", "/imagevector_overwrite", imagevector.OverrideEnv, "images_overwrite.yaml",
				fromConfigMap("gardenlet-imagevector-overwrite-1"))
			mount("b", "/imagevector_overwrite_components", imagevector.ComponentOverrideEnv, "components.yaml",
				fromConfigMap("gardenlet-imagevector-overwrite-components-1"))
			objects = append(objects, configMap("gardenlet-imagevector-overwrite-1", "images_overwrite.yaml",
				overwrite), configMap("gardenlet-imagevector-overwrite-components-1", "components.yaml", components))
			content, err := read()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content.ImageVectorOverwrite)).To(Equal(overwrite))
			Expect(string(content.ComponentImageVectorOverwrites)).To(Equal(components))
		})

		It("should find a kubeconfig that the gardenlet was given, whatever its key", func() {
			objects[1] = configMap("gardenlet-configmap-1", "config.yaml", givenConfiguration)
			mount("k", "/etc/gardenlet/kubeconfig-garden", "", "",
				corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: "gardenlet-kubeconfig-garden",
					Items:      []corev1.KeyToPath{{Key: "given", Path: "kubeconfig"}},
				}})
			objects = append(objects, secret("garden", "gardenlet-kubeconfig-garden", "given", kubeconfig))
			content, err := read()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content.Kubeconfig)).To(Equal(kubeconfig))
		})

		It("should make a kubeconfig of the agent's own token and the gardenlet's way to the garden", func() {
			withAccess("abc")
			content, err := read()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content.Token)).To(Equal("abc"))
			made, err := clientcmd.Load(content.Kubeconfig)
			Expect(err).NotTo(HaveOccurred())
			context := made.Contexts[made.CurrentContext]
			Expect(made.Clusters[context.Cluster].Server).To(Equal("https://garden.example.com"))
			Expect(string(made.Clusters[context.Cluster].CertificateAuthorityData)).To(Equal("ca"))
			user := made.AuthInfos[context.AuthInfo]
			Expect(user.TokenFile).To(Equal("/run/token"))
			Expect(user.ClientKeyData).To(BeEmpty(), "the gardenlet's key is not the agent's")
			Expect(made.AuthInfos).To(HaveLen(1))
		})

		DescribeTable("should say what is missing",
			func(change func(), message string) {
				change()
				_, err := read()
				Expect(err).To(MatchError(ContainSubstring(message)))
			},
			Entry("no gardenlet", func() { objects = objects[1:] }, "gardenlet.adopt=false"),
			Entry("no container with a configuration", func() { container().Args = nil },
				"failed to find a container with the argument --config=<file> in Deployment garden/gardenlet"),
			Entry("no volume", func() { container().VolumeMounts = nil },
				"failed to find the volume of /etc/gardenlet/config/config.yaml"),
			Entry("a volume of another kind", func() {
				container().VolumeMounts[0].MountPath = "/etc/gardenlet/config"
			}, "neither a ConfigMap nor a Secret"),
			Entry("no ConfigMap", func() { objects = append(objects[:1:1], objects[2:]...) },
				"failed to read ConfigMap garden/gardenlet-configmap-1"),
			Entry("no key", func() { objects[1] = configMap("gardenlet-configmap-1", "other", "") },
				`failed to find key "config.yaml" in ConfigMap garden/gardenlet-configmap-1`),
			Entry("nothing in the key", func() { objects[1] = configMap("gardenlet-configmap-1", "config.yaml", "") },
				`failed to find key "config.yaml" in ConfigMap garden/gardenlet-configmap-1`),
			Entry("overwrites with nothing in them", func() {
				mount("a", "/imagevector_overwrite", imagevector.OverrideEnv, "images_overwrite.yaml",
					fromConfigMap("empty"))
				objects = append(objects, configMap("empty", "images_overwrite.yaml", ""))
			}, `failed to find key "images_overwrite.yaml" in ConfigMap garden/empty`),
			Entry("nonsense", func() { objects[1] = configMap("gardenlet-configmap-1", "config.yaml", "{") },
				"failed to decode the gardenlet's configuration"),
			Entry("no way to the garden", func() {
				objects[1] = configMap("gardenlet-configmap-1", "config.yaml", "kind: GardenletConfiguration\n")
			}, "gardenClientConnection"),
			Entry("not registered yet", func() { objects = objects[:2] },
				"failed to read Secret garden/gardenlet-kubeconfig"),
			Entry("overwrites that are not there", func() {
				mount("a", "/imagevector_overwrite", imagevector.OverrideEnv, "images_overwrite.yaml",
					fromConfigMap("gone"))
			}, "failed to read ConfigMap garden/gone"),
			Entry("no token yet", func() { withAccess("") }, "there is no token for the garden yet"),
			Entry("no Secret for the token", func() {
				config.Gardenlet.Source.GardenAccessSecret = &configv1alpha1.SecretReference{
					Namespace: "extension-livecpm-x", Name: "garden-access-extension",
				}
			}, "injectGardenKubeconfig"),
		)
	})

	content := func(path string) func() string {
		return func() string {
			data, err := os.ReadFile(path)
			if err != nil {
				return err.Error()
			}
			return string(data)
		}
	}

	Describe("#Adopt", func() {
		It("should write all files as soon as the gardenlet has what it needs", func() {
			withAccess("abc")
			seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
				WithObjects(objects[:len(objects)-1]...).Build()
			clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			ended := make(chan error, 1)
			go func() { ended <- gardenletconfig.NewKeeper(logr.Discard(), seed, config, clock).Adopt(ctx) }()
			Eventually(clock.HasWaiters).Should(BeTrue())
			files := gardenletconfig.FilesOf(config)
			Expect(files.Configuration).NotTo(BeAnExistingFile())

			Expect(seed.Create(ctx, objects[len(objects)-1])).To(Succeed())
			clock.Step(time.Minute)
			Eventually(ended).Should(Receive(BeNil()))
			Expect(content(files.Configuration)()).To(Equal(gardenletConfiguration))
			Expect(content(files.Kubeconfig)()).To(ContainSubstring("tokenFile: " + files.Token))
			Expect(content(files.Token)()).To(Equal("abc"))
			Expect(content(files.ImageVectorOverwrite)()).To(Equal("images: []\n"))
			Expect(content(files.ComponentImageVectorOverwrites)()).To(Equal("components: []\n"))
			for _, file := range []string{files.Kubeconfig, files.Token} {
				info, err := os.Stat(file)
				Expect(err).NotTo(HaveOccurred())
				Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
			}
		})

		It("should give up when it is told to", func() {
			seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
			clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			Expect(gardenletconfig.NewKeeper(logr.Discard(), seed, config, clock).Adopt(ctx)).
				To(MatchError(ContainSubstring("gave up waiting for the gardenlet")))
		})
	})

	Describe("Keeper", func() {
		var (
			clock   *testclock.FakeClock
			ended   chan error
			looks   atomic.Int32
			failing atomic.Bool
			files   gardenletconfig.Files
		)

		BeforeEach(func() {
			withAccess("abc")
			looks.Store(0)
			failing.Store(false)
			seed = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
				WithObjects(objects...).Build(), calls.Before(func(call calls.Call) error {
				if _, ok := call.Object.(*appsv1.Deployment); ok && call.Verb == calls.Get {
					looks.Add(1)
					if failing.Load() {
						return errors.New("no route")
					}
				}
				return nil
			}))
			clock = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			Expect(gardenletconfig.NewKeeper(logr.Discard(), seed, config, clock).Adopt(ctx)).To(Succeed())
			files = gardenletconfig.FilesOf(config)

			keeper := gardenletconfig.NewKeeper(logr.Discard(), seed, config, clock)
			Expect(keeper.NeedLeaderElection()).To(BeFalse())
			ctx, stop := context.WithCancel(ctx)
			ended = make(chan error, 1)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				ended <- keeper.Start(ctx)
			}()
			Eventually(clock.HasWaiters).Should(BeTrue())
			DeferCleanup(func() {
				stop()
				Eventually(stopped).Should(BeClosed())
			})
		})

		look := func() {
			GinkgoHelper()
			before := looks.Load()
			clock.Step(gardenletconfig.CheckPeriod)
			Eventually(looks.Load).Should(Equal(before + 1))
		}
		change := func(object client.Object, mutate func()) {
			GinkgoHelper()
			Expect(seed.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			mutate()
			Expect(seed.Update(ctx, object)).To(Succeed())
		}

		It("should follow a renewed token without ending the agent", func() {
			access := secret("extension-livecpm-x", "garden-access-extension", "", "")
			change(access, func() { access.Data = map[string][]byte{"token": []byte("def")} })
			look()
			Eventually(content(files.Token)).Should(Equal("def"))
			look()
			Expect(ended).To(BeEmpty())
		})

		It("should end the agent with the new files in place when the gardenlet has rolled", func() {
			Expect(seed.Create(ctx, configMap("gardenlet-configmap-2", "config.yaml",
				gardenletConfiguration+"logLevel: debug\n"))).To(Succeed())
			deployment := gardenlet.DeepCopy()
			change(deployment, func() {
				deployment.Spec.Template.Spec.Volumes[1].ConfigMap.Name = "gardenlet-configmap-2"
			})
			look()
			Eventually(ended).Should(Receive(MatchError(gardenletconfig.ErrChanged)))
			Expect(content(files.Configuration)()).To(ContainSubstring("logLevel: debug"))
		})

		It("should not end the agent when it cannot look, or nothing has changed", func() {
			look()
			failing.Store(true)
			look()
			failing.Store(false)
			look()
			Expect(ended).To(BeEmpty())
			Expect(content(files.Configuration)()).To(Equal(gardenletConfiguration))
		})
	})
})
