// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package bump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	gardenerModule      = "github.com/gardener/gardener"
	apisModule          = gardenerModule + "/pkg/apis"
	druidModule         = "github.com/gardener/etcd-druid"
	druidAPIModule      = druidModule + "/api"
	backupRestoreModule = "github.com/gardener/etcd-backup-restore"
)

// Component is something whose version is that of Gardener or follows from it.
type Component string

const (
	// Gardener is Gardener itself.
	Gardener Component = "Gardener"
	// Druid is the etcd-druid that Gardener deploys.
	Druid Component = "etcd-druid"
	// BackupRestore is the etcd-backup-restore that this etcd-druid deploys with the feature gate UpgradeEtcdVersion.
	BackupRestore Component = "etcd-backup-restore"
	// OldestKubernetes is the lowest minor version that Gardener supports.
	OldestKubernetes Component = "oldest Kubernetes"
	// NewestKubernetes is the highest one.
	NewestKubernetes Component = "newest Kubernetes"
)

// Versions are those of the components.
type Versions map[Component]string

// Go runs the go command in a folder and returns what it prints.
type Go func(ctx context.Context, dir string, args ...string) (string, error)

// What Gardener's and etcd-druid's sources say.
var (
	supported    = regexp.MustCompile(`(?s)SupportedVersions = \[\]string\{(.*?)\}`)
	quoted       = regexp.MustCompile(`"([^"]+)"`)
	druidAPI     = regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(druidAPIModule) + ` (v\S+)`)
	liveMigrator = "liveMigration"
	joiner       = "bootstrapWithExistingCluster"
)

// Resolve finds out what belongs to a version of Gardener, from the sources of Gardener and of the etcd-druid that it
// deploys.
func Resolve(ctx context.Context, run Go, repository, gardener string) (Versions, error) {
	modules := downloader{run: run, repository: repository}
	apis, err := modules.download(ctx, apisModule, gardener)
	if err != nil {
		return nil, err
	}
	// The field is what livecpm is about; without it nothing of livecpm compiles or works.
	types, err := read(apis, "core", "v1beta1", "types_shoot.go")
	if err != nil {
		return nil, err
	}
	if !hasField(types, liveMigrator) {
		//nolint:staticcheck // A name.
		return nil, fmt.Errorf("Gardener %s knows no live migration: its Shoot has no status.%s: %w", gardener,
			liveMigrator, ErrTooOld)
	}

	source, err := modules.download(ctx, gardenerModule, gardener)
	if err != nil {
		return nil, err
	}
	versions := Versions{Gardener: gardener}
	if versions[Druid], err = imageTag(source, "etcd-druid", "imagevector", "containers.yaml"); err != nil {
		return nil, err
	}
	modFile, err := read(source, "go.mod")
	if err != nil {
		return nil, err
	}
	if api := druidAPI.FindSubmatch(modFile); api == nil || string(api[1]) != versions[Druid] {
		//nolint:staticcheck // A name.
		return nil, fmt.Errorf("Gardener %s deploys etcd-druid %s but is not built with the API of that version: "+
			"look at its go.mod", gardener, versions[Druid])
	}
	// The two did not come with the same version: v1.149.0 has the API of live migrations, and an etcd-druid that is
	// too old.
	druidAPIs, err := modules.download(ctx, druidAPIModule, versions[Druid])
	if err != nil {
		return nil, err
	}
	etcd, err := read(druidAPIs, "core", "v1alpha1", "etcd.go")
	if err != nil {
		return nil, err
	}
	if !hasField(etcd, joiner) {
		//nolint:staticcheck // A name.
		return nil,
			fmt.Errorf("Gardener %s deploys etcd-druid %s, whose etcds cannot join those of another seed: its Etcd "+
				"has no spec.etcd.%s: %w", gardener, versions[Druid], joiner, ErrTooOld)
	}
	if versions[OldestKubernetes], versions[NewestKubernetes], err = kubernetes(source); err != nil {
		return nil, err
	}

	druid, err := modules.download(ctx, druidModule, versions[Druid])
	if err != nil {
		return nil, err
	}
	versions[BackupRestore], err = imageTag(druid, "etcd-backup-restore-next", "internal", "images", "images.yaml")
	return versions, err
}

// ErrTooOld means that a version of Gardener lacks what livecpm is built on.
var ErrTooOld = errors.New("the first version with everything that livecpm needs is v1.150.0")

// hasField reports whether Go code has a field that is encoded by that name.
func hasField(code []byte, name string) bool {
	return regexp.MustCompile(`json:"` + name + `\b`).Match(code)
}

// downloader brings modules into the cache.
type downloader struct {
	run        Go
	repository string
}

// download brings a module into the cache and returns where it is.
func (d downloader) download(ctx context.Context, module, version string) (string, error) {
	output, err := d.run(ctx, d.repository, "mod", "download", "-json", module+"@"+version)
	// Why it has failed, the go command says in what it prints.
	var found struct{ Dir, Error string }
	decoded := json.Unmarshal([]byte(output), &found)
	switch {
	case err != nil && decoded == nil && found.Error != "":
		return "", fmt.Errorf("failed to get %s %s: %w: %s", module, version, err, found.Error)
	case err != nil:
		return "", fmt.Errorf("failed to get %s %s: %w: %s", module, version, err, strings.TrimSpace(output))
	case decoded != nil || found.Dir == "":
		return "", fmt.Errorf("failed to find out where %s %s is: %w: %s", module, version,
			errors.Join(decoded, errors.New("no folder is named")), output)
	}
	return found.Dir, nil
}

func read(folder string, path ...string) ([]byte, error) {
	file := filepath.Join(append([]string{folder}, path...)...)
	content, err := os.ReadFile(file) // #nosec G304 -- A file in the module cache.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s any more, look where it has gone: %w", file, err)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the sources: %w", err)
	}
	return content, nil
}

// imageTag returns the tag of an image in an image vector.
func imageTag(folder, name string, path ...string) (string, error) {
	content, err := read(folder, path...)
	if err != nil {
		return "", err
	}
	var vector struct {
		Images []struct{ Name, Tag string }
	}
	if err := yaml.Unmarshal(content, &vector); err != nil {
		return "", fmt.Errorf("failed to decode image vector of %s: %w", folder, err)
	}
	for _, image := range vector.Images {
		if image.Name == name && image.Tag != "" {
			return image.Tag, nil
		}
	}
	return "", fmt.Errorf("failed to find image %s in the image vector of %s", name, folder)
}

// kubernetes returns the oldest and the newest minor version that Gardener supports.
func kubernetes(source string) (oldest, newest string, err error) {
	content, err := read(source, "pkg", "utils", "validation", "kubernetesversion", "version.go")
	if err != nil {
		return "", "", err
	}
	list := supported.FindSubmatch(content)
	if list == nil {
		return "", "", fmt.Errorf("failed to find the supported versions of Kubernetes in %s", source)
	}
	all := quoted.FindAllSubmatch(list[1], -1)
	if len(all) == 0 {
		return "", "", fmt.Errorf("failed to find the supported versions of Kubernetes in %s", source)
	}
	return string(all[0][1]), string(all[len(all)-1][1]), nil
}
