// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// EnvironmentSeeds is the environment variable with kubeconfigs of seeds, as in seed-a=/path,seed-b=/path.
	EnvironmentSeeds = "LIVECPM_SEED_KUBECONFIGS"
	// EnvironmentRuntime is the environment variable with the path of the kubeconfig of the garden's runtime cluster.
	EnvironmentRuntime = "LIVECPM_RUNTIME_KUBECONFIG"
	// EnvironmentConfig is the environment variable with the path of the configuration file.
	EnvironmentConfig = "LIVECPM_CONFIG"
	// configFile is where the configuration is, below the user's folder for configurations.
	configFile = "kubectl-livecpm/config.yaml"

	// seedValidity is how long credentials for a managed seed are asked for: as long as somebody may watch a migration.
	// The garden may issue them for a shorter time.
	seedValidity = 4 * time.Hour
)

// Credentials are what the garden is asked for to get into a seed that is a shoot.
type Credentials string

const (
	// CredentialsNone asks for none.
	CredentialsNone Credentials = "none"
	// CredentialsViewer asks for those of a viewer, who may read everything but secrets.
	CredentialsViewer Credentials = "viewer"
	// CredentialsAdmin asks for those of an administrator, who may also ask etcd members and compare secrets.
	CredentialsAdmin Credentials = "admin"
)

// AllCredentials are all kinds.
var AllCredentials = []string{string(CredentialsNone), string(CredentialsViewer), string(CredentialsAdmin)}

// Config is the user's configuration. It holds paths, no credentials.
type Config struct {
	// SeedAccess is what flag --seed-access would say; empty for its default.
	SeedAccess Credentials `json:"seedAccess,omitempty"`
	// SeedKubeconfigs are paths of kubeconfigs by the names of seeds. A leading ~ is the user's home.
	SeedKubeconfigs map[string]string `json:"seedKubeconfigs,omitempty"`
	// RuntimeKubeconfig is the path of the kubeconfig of the cluster that the garden's own components run in, with
	// livecpm-controller-manager among them. A leading ~ is the user's home.
	RuntimeKubeconfig string `json:"runtimeKubeconfig,omitempty"`
}

// ReadConfig reads the configuration file that the environment names, or the one in the user's folder, if there is one.
func ReadConfig(getenv func(string) string) (Config, error) {
	path, named := getenv(EnvironmentConfig), true
	if path == "" {
		folder, err := os.UserConfigDir()
		if err != nil {
			return Config{}, nil //nolint:nilerr // there is no home, and so no file
		}
		path, named = filepath.Join(folder, filepath.FromSlash(configFile)), false
	}
	content, err := os.ReadFile(path) // #nosec G304 -- the user says which.
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return Config{}, nil
	case err != nil:
		return Config{}, fmt.Errorf("failed to read the configuration file: %w", err)
	}
	var out Config
	if err := yaml.UnmarshalStrict(content, &out); err != nil {
		return Config{}, fmt.Errorf("failed to read the configuration file %s: %w", path, err)
	}
	if out.SeedAccess != "" && !slices.Contains(AllCredentials, string(out.SeedAccess)) {
		return Config{}, fmt.Errorf("the configuration file %s has seedAccess %q; it can be %s", path, out.SeedAccess,
			strings.Join(AllCredentials, ", "))
	}
	return out, nil
}

// SeedFlags returns the kubeconfigs of seeds that the flags, the environment and the configuration name, each as
// NAME=PATH. Flags come before the environment, and the environment before the configuration.
func SeedFlags(flags []string, environment string, config Config) ([]string, error) {
	paths := map[string]string{}
	for name, path := range config.SeedKubeconfigs {
		path, err := atHome(path)
		if err != nil {
			return nil, fmt.Errorf("failed to find the home that the kubeconfig of seed %s is in: %w", name, err)
		}
		paths[name] = path
	}
	for _, entry := range strings.Split(environment, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, path, ok := strings.Cut(entry, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("%s has %q; give names of seeds and paths of their kubeconfigs, as in "+
				"seed-a=/path,seed-b=/path", EnvironmentSeeds, entry)
		}
		paths[name] = path
	}
	out := slices.Clone(flags)
	for _, flag := range flags {
		name, _, _ := strings.Cut(flag, "=")
		delete(paths, name)
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		out = append(out, name+"="+paths[name])
	}
	return out, nil
}

// OpenRuntime opens the cluster that the garden's own components run in. The flag comes before the environment, and the
// environment before the configuration. It returns nil if none of them names a kubeconfig.
func OpenRuntime(flag, environment string, config Config) (*Seed, error) {
	path := cmp.Or(flag, environment)
	if path == "" {
		var err error
		if path, err = atHome(config.RuntimeKubeconfig); err != nil {
			return nil, fmt.Errorf("failed to find the home that runtimeKubeconfig is in: %w", err)
		}
	}
	if path == "" {
		return nil, nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig of the garden's runtime cluster: %w", err)
	}
	runtime, err := open("runtime cluster of the garden", restConfig)
	if err != nil {
		return nil, err
	}
	return &runtime, nil
}

// atHome returns the path with the user's home for a leading ~.
func atHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

// ErrNotManaged says that a seed is no shoot of the garden, so that the garden issues no credentials for it.
var ErrNotManaged = errors.New("the seed is not a ManagedSeed")

// ManagedSeed returns access to a seed that is a shoot, with credentials that the garden issues. It fails with
// ErrNotManaged if the seed is none, or if the user may not know.
func ManagedSeed(ctx context.Context, garden client.Client, name string, kind Credentials) (Seed, error) {
	managed := &seedmanagementv1alpha1.ManagedSeed{}
	key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: name}
	switch err := garden.Get(ctx, key, managed); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return Seed{}, ErrNotManaged
	case err != nil:
		return Seed{}, fmt.Errorf("failed to get ManagedSeed %s: %w", key, err)
	case managed.Spec.Shoot == nil:
		return Seed{}, ErrNotManaged
	}
	shoot := &gardencorev1beta1.Shoot{}
	if err := garden.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: managed.Spec.Shoot.Name},
		shoot); err != nil {
		return Seed{}, fmt.Errorf("failed to get the Shoot of ManagedSeed %s: %w", key, err)
	}
	request := adminKubeconfig
	if kind == CredentialsViewer {
		request = viewerKubeconfig
	}
	config, _, err := credentials(ctx, garden, shoot, request(seedValidity))
	if err != nil {
		return Seed{}, err
	}
	return openSeed(name, config)
}

// kubeconfigRequest asks for a kubeconfig of a shoot.
type kubeconfigRequest struct {
	subresource string
	object      client.Object
	// answer returns what has come back.
	answer func() (kubeconfig []byte, expires time.Time)
}

func adminKubeconfig(validity time.Duration) kubeconfigRequest {
	seconds := int64(validity.Seconds())
	object := &authenticationv1alpha1.AdminKubeconfigRequest{
		Spec: authenticationv1alpha1.AdminKubeconfigRequestSpec{ExpirationSeconds: &seconds}}
	return kubeconfigRequest{"adminkubeconfig", object, func() ([]byte, time.Time) {
		return object.Status.Kubeconfig, object.Status.ExpirationTimestamp.Time
	}}
}

func viewerKubeconfig(validity time.Duration) kubeconfigRequest {
	seconds := int64(validity.Seconds())
	object := &authenticationv1alpha1.ViewerKubeconfigRequest{
		Spec: authenticationv1alpha1.ViewerKubeconfigRequestSpec{ExpirationSeconds: &seconds}}
	return kubeconfigRequest{"viewerkubeconfig", object, func() ([]byte, time.Time) {
		return object.Status.Kubeconfig, object.Status.ExpirationTimestamp.Time
	}}
}
