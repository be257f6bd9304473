// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/utils/imagevector"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

// configFlag is the gardenlet's flag for its configuration.
const configFlag = "--config="

// ErrNoToken means that the gardenlet has not yet requested the token for the garden.
var ErrNoToken = errors.New("there is no token for the garden yet")

// Content is what the agent shares with the gardenlet.
type Content struct {
	// Configuration is the gardenlet's component configuration.
	Configuration []byte
	// ImageVectorOverwrite and ComponentImageVectorOverwrites are the overwrites that the gardenlet was started with.
	// They are never empty: without overwrites they overwrite nothing.
	ImageVectorOverwrite, ComponentImageVectorOverwrites []byte
	// Kubeconfig leads to the garden. It is either the gardenlet's own, or one that takes its token from a file.
	Kubeconfig []byte
	// Token is the token for that file. Without it the kubeconfig is the gardenlet's own.
	Token []byte
}

// Read reads from the seed what the gardenlet's Deployment refers to. The token's file will be at the given path.
func Read(
	ctx context.Context, seed client.Reader, source *configv1alpha1.GardenletSource, tokenFile string,
) (*Content, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: source.Namespace, Name: source.Deployment}
	if err := seed.Get(ctx, key, deployment); err != nil {
		return nil,
			fmt.Errorf("failed to read Deployment %s of the gardenlet (where the gardenlet does not run in its seed "+
				"as a Deployment, install the agent with gardenlet.adopt=false and name its ConfigMap and Secret): %w",
				key, err)
	}
	p := &pod{reader: seed, namespace: key.Namespace, deployment: key, spec: &deployment.Spec.Template.Spec}
	if err := p.findContainer(); err != nil {
		return nil, err
	}

	content := &Content{
		ImageVectorOverwrite:           []byte("images: []\n"),
		ComponentImageVectorOverwrites: []byte("components: []\n"),
	}
	var err error
	if content.Configuration, err = p.file(ctx, p.configFile); err != nil {
		return nil, err
	}
	for variable, data := range map[string]*[]byte{
		imagevector.OverrideEnv:          &content.ImageVectorOverwrite,
		imagevector.ComponentOverrideEnv: &content.ComponentImageVectorOverwrites,
	} {
		if file := p.variable(variable); file != "" {
			if *data, err = p.file(ctx, file); err != nil {
				return nil, err
			}
		}
	}

	if content.Kubeconfig, err = p.gardenKubeconfig(ctx, content.Configuration); err != nil {
		return nil, err
	}
	if ref := source.GardenAccessSecret; ref != nil {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		if err := seed.Get(ctx, key, secret); err != nil {
			return nil, fmt.Errorf("failed to read Secret %s with the token for the garden (the gardenlet makes it "+
				"if injectGardenKubeconfig is true in the ControllerDeployment): %w", key, err)
		}
		if content.Token = secret.Data[resourcesv1alpha1.DataKeyToken]; len(content.Token) == 0 {
			return nil, fmt.Errorf("failed to read Secret %s: %w", key, ErrNoToken)
		}
		if content.Kubeconfig, err = withToken(content.Kubeconfig, tokenFile); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// pod is the gardenlet's pod, as its Deployment describes it.
type pod struct {
	reader     client.Reader
	namespace  string
	deployment client.ObjectKey
	spec       *corev1.PodSpec
	container  *corev1.Container
	configFile string
}

// findContainer finds the gardenlet among the containers: it is the one that is given a configuration.
func (p *pod) findContainer() error {
	for i := range p.spec.Containers {
		container := &p.spec.Containers[i]
		for _, arg := range append(append([]string{}, container.Command...), container.Args...) {
			if file, ok := strings.CutPrefix(arg, configFlag); ok {
				p.container, p.configFile = container, file
				return nil
			}
		}
	}
	return fmt.Errorf("failed to find a container with the argument %s<file> in Deployment %s", configFlag,
		p.deployment)
}

func (p *pod) variable(name string) string {
	for _, variable := range p.container.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

// file returns the content of the file in the container, which must come from a ConfigMap or a Secret.
func (p *pod) file(ctx context.Context, file string) ([]byte, error) {
	for _, mount := range p.container.VolumeMounts {
		relative, ok := strings.CutPrefix(path.Clean(file), path.Clean(mount.MountPath)+"/")
		if !ok {
			continue
		}
		for _, volume := range p.spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			data, err := p.fromVolume(ctx, volume, path.Join(mount.SubPath, relative))
			if err != nil {
				return nil, fmt.Errorf("failed to read %s as the gardenlet's pods have it: %w", file, err)
			}
			return data, nil
		}
	}
	return nil, fmt.Errorf("failed to find the volume of %s in Deployment %s", file, p.deployment)
}

func (p *pod) fromVolume(ctx context.Context, volume corev1.Volume, relative string) ([]byte, error) {
	switch {
	case volume.ConfigMap != nil:
		return p.fromConfigMap(ctx, volume.ConfigMap.Name, keyOf(volume.ConfigMap.Items, relative))
	case volume.Secret != nil:
		return p.fromSecret(ctx, client.ObjectKey{Namespace: p.namespace, Name: volume.Secret.SecretName},
			keyOf(volume.Secret.Items, relative))
	}
	return nil, fmt.Errorf("the volume %s is neither a ConfigMap nor a Secret", volume.Name)
}

func (p *pod) fromConfigMap(ctx context.Context, name, key string) ([]byte, error) {
	configMap := &corev1.ConfigMap{}
	if err := p.reader.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, configMap); err != nil {
		return nil, fmt.Errorf("failed to read ConfigMap %s/%s: %w", p.namespace, name, err)
	}
	if data := configMap.Data[key]; data != "" {
		return []byte(data), nil
	}
	return nil, fmt.Errorf("failed to find key %q in ConfigMap %s/%s", key, p.namespace, name)
}

func (p *pod) fromSecret(ctx context.Context, name client.ObjectKey, key string) ([]byte, error) {
	secret := &corev1.Secret{}
	if err := p.reader.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("failed to read Secret %s: %w", name, err)
	}
	if data := secret.Data[key]; len(data) > 0 {
		return data, nil
	}
	return nil, fmt.Errorf("failed to find key %q in Secret %s", key, name)
}

// keyOf returns the key whose value is at the path in the volume.
func keyOf(items []corev1.KeyToPath, relative string) string {
	for _, item := range items {
		if path.Clean(item.Path) == relative {
			return item.Key
		}
	}
	return relative
}

// gardenKubeconfig returns the kubeconfig with which the gardenlet reaches the garden: the one that it has got when it
// registered, else the one that it was given.
func (p *pod) gardenKubeconfig(ctx context.Context, configuration []byte) ([]byte, error) {
	config, err := decode(configuration)
	if err != nil {
		return nil, err
	}
	connection := config.GardenClientConnection
	if connection == nil {
		return nil,
			errors.New("the gardenlet's configuration does not tell how it reaches the garden (gardenClientConnection)")
	}
	if ref := connection.KubeconfigSecret; ref != nil {
		return p.fromSecret(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, kubernetes.KubeConfig)
	}
	file := connection.Kubeconfig
	if own := p.variable(v1beta1constants.EnvGenericGardenKubeconfig); own != "" {
		file = own
	}
	if file == "" {
		return nil,
			errors.New("the gardenlet's configuration names no kubeconfig for the garden " +
				"(gardenClientConnection.kubeconfigSecret or .kubeconfig)")
	}
	return p.file(ctx, file)
}

// withToken returns a kubeconfig for the same cluster with the token from the file as the user.
func withToken(kubeconfig []byte, tokenFile string) ([]byte, error) {
	const name = "garden"
	given, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to parse the gardenlet's kubeconfig for the garden: %w", err)
	}
	context, ok := given.Contexts[given.CurrentContext]
	if !ok {
		return nil, errors.New("the gardenlet's kubeconfig for the garden has no current context")
	}
	cluster, ok := given.Clusters[context.Cluster]
	if !ok {
		return nil, fmt.Errorf("the gardenlet's kubeconfig for the garden has no cluster %q", context.Cluster)
	}
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {TokenFile: tokenFile}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to write the kubeconfig for the garden: %w", err)
	}
	return out, nil
}

// decode reads the little of the gardenlet's configuration that matters here, without defaults and validation.
func decode(configuration []byte) (*gardenletconfigv1alpha1.GardenletConfiguration, error) {
	config := &gardenletconfigv1alpha1.GardenletConfiguration{}
	if err := yaml.Unmarshal(configuration, config); err != nil {
		return nil, fmt.Errorf("failed to decode the gardenlet's configuration: %w", err)
	}
	return config, nil
}
