// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// gardenctl sets KUBECONFIG to whatever is targeted: a garden, a seed, or a shoot. The plugin needs the garden, so it
// looks up which one that belongs to. The names of variables and files are those of gardenctl-v2 of August 2026
// (internal/util/factory.go, pkg/cmd/cmd.go, pkg/config/config.go, pkg/target/target.go).
const (
	gardenctlSession, terminalSession = "GCTL_SESSION_ID", "TERM_SESSION_ID"
	gardenctlHome, gardenctlName      = "GCTL_HOME", "GCTL_CONFIG_NAME"
	// gardenctlConfig is the name of its configuration, without the ending.
	gardenctlConfig = "gardenctl-v2"
)

var (
	sessionID    = regexp.MustCompile(`^[\w-]{1,128}$`)
	terminalUUID = regexp.MustCompile(`[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[89ab][a-f0-9]{3}-[a-f0-9]{12}`)
)

// Target is what gardenctl has targeted in this session of a terminal.
type Target struct {
	// Garden is the identity or the name of the garden.
	Garden string `json:"garden,omitempty"`
	// Project is the name of the project; empty if none is targeted.
	Project string `json:"project,omitempty"`

	kubeconfig, context string
}

// gardenctlGardens is what is needed of gardenctl's configuration.
type gardenctlGardens struct {
	Gardens []struct {
		Identity   string `json:"identity"`
		Name       string `json:"name,omitempty"`
		Kubeconfig string `json:"kubeconfig"`
		Context    string `json:"context,omitempty"`
	} `json:"gardens"`
}

// ReadTarget returns what gardenctl has targeted, and nil if KUBECONFIG is not gardenctl's, or names a file besides.
// A target whose garden cannot be found is an error: KUBECONFIG may be that of a shoot or of a seed.
func ReadTarget(getenv func(string) string) (*Target, error) {
	folder := sessionFolder(getenv)
	if folder == "" {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(folder, "target.yaml")) // #nosec G304 -- it is the user's own.
	if err != nil {
		return nil, fmt.Errorf("failed to read what gardenctl has targeted; name the garden by --kubeconfig: %w", err)
	}
	target := &Target{}
	if err := yaml.Unmarshal(content, target); err != nil {
		return nil, fmt.Errorf("failed to read what gardenctl has targeted in %s; name the garden by --kubeconfig: %w",
			folder, err)
	}
	if target.Garden == "" {
		return nil, errors.New("gardenctl has targeted no garden; target one (gardenctl target --garden NAME), or " +
			"name it by --kubeconfig")
	}
	return target, target.find(getenv)
}

// sessionFolder returns the folder of the session if KUBECONFIG is in it.
func sessionFolder(getenv func(string) string) string {
	id := getenv(gardenctlSession)
	if id == "" {
		id = terminalUUID.FindString(strings.ToLower(getenv(terminalSession)))
	}
	kubeconfig := getenv(clientcmd.RecommendedConfigPathEnvVar)
	if !sessionID.MatchString(id) || kubeconfig == "" {
		return ""
	}
	folder := filepath.Dir(kubeconfig)
	for _, known := range []string{
		filepath.Join(os.TempDir(), "garden", "sessions", id),
		filepath.Join(os.TempDir(), "garden", id),
	} {
		if folder == known {
			return folder
		}
	}
	return ""
}

// find looks the garden up in gardenctl's configuration.
func (t *Target) find(getenv func(string) string) error {
	path, content, err := readGardenctlConfig(getenv)
	if err != nil {
		return fmt.Errorf("failed to find the garden %s that gardenctl has targeted; name it by --kubeconfig: %w",
			t.Garden, err)
	}
	var config gardenctlGardens
	if err := yaml.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("failed to read gardenctl's configuration %s; name the garden by --kubeconfig: %w", path, err)
	}
	for _, garden := range config.Gardens {
		if garden.Identity != t.Garden && garden.Name != t.Garden {
			continue
		}
		if t.kubeconfig, err = atHome(garden.Kubeconfig); err != nil {
			return fmt.Errorf("failed to find the home that the kubeconfig of garden %s is in: %w", t.Garden, err)
		}
		t.context = garden.Context
		return nil
	}
	return fmt.Errorf("gardenctl has targeted garden %s, which is not in its configuration %s; name the garden by "+
		"--kubeconfig", t.Garden, path)
}

// readGardenctlConfig reads gardenctl's configuration, from the folder that the environment names or from the home.
func readGardenctlConfig(getenv func(string) string) (path string, content []byte, err error) {
	name := gardenctlConfig
	if named := getenv(gardenctlName); named != "" {
		name = named
	}
	var folders []string
	if named := getenv(gardenctlHome); named != "" {
		folders = append(folders, named)
	}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".garden"))
	}
	for _, folder := range folders {
		path := filepath.Join(folder, name+".yaml")
		content, err := os.ReadFile(path) // #nosec G304 -- it is the user's own.
		if !errors.Is(err, fs.ErrNotExist) {
			return path, content, err
		}
	}
	return "", nil, fmt.Errorf("there is no %s.yaml in %s", name, strings.Join(folders, " or "))
}

// Namespace returns the namespace of the project that is targeted, and an empty one without a project.
func (t *Target) Namespace(ctx context.Context, garden client.Reader) (string, error) {
	if t.Project == "" {
		return "", nil
	}
	project := &gardencorev1beta1.Project{}
	if err := garden.Get(ctx, client.ObjectKey{Name: t.Project}, project); err != nil {
		return "", fmt.Errorf("failed to get Project %s, which gardenctl has targeted; name its namespace by -n: %w",
			t.Project, err)
	}
	namespace := ptr.Deref(project.Spec.Namespace, "")
	if namespace == "" {
		return "", fmt.Errorf("failed to find the namespace of Project %s, which gardenctl has targeted: it has none; "+
			"name one by -n", t.Project)
	}
	return namespace, nil
}
