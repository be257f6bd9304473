// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/imagevector"
	imagevectorutils "github.com/gardener/gardener/pkg/utils/imagevector"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/image"
)

const (
	// GardenletImage is the image of the gardenlet, whichever it is.
	GardenletImage = "livecpm.local/gardenlet:landscape"
	nonroot        = "65532:65532"
)

// binary is a program of this repository that a seed runs.
type binary struct {
	// name is the program's file name.
	name string
	// dir is the folder of the program's module or main package, below the repository; empty is the repository's root.
	dir string
	// pkg is the main package, as seen from the folder; empty is the folder's own.
	pkg string
	// stamp puts gardener's version into the program: gardener's own code asks for it.
	stamp bool
}

// binaries are those of the landscape, by its gardenlet and by whether its shoot has workers.
func binaries(cfg *config.Config) []binary {
	programs := []binary{
		{name: "gardenlet", pkg: gardenletPackages[cfg.Gardenlet], stamp: true},
		{name: "standin-etcd-wrapper", dir: "test/standins/etcdwrapper"},
		{name: "standin-chown", dir: "test/standins/chown"},
	}
	if cfg.Gardenlet.SetsUpSeed() {
		programs = append(programs, binary{name: "placeholder", dir: "test/standins/placeholder"})
	}
	if cfg.HasWorkers() {
		programs = append(programs, workerBinaries...)
	}
	return programs
}

// Use tells what images are for.
type Use int

const (
	// ForSeed are the images that a seed is set up with.
	ForSeed Use = iota
	// ForShoot are those that the control planes of shoots need besides.
	ForShoot
)

// forShoot are the names of the images that only shoots need. They are made when a seed has what it is set up with, so
// that this does not wait for them.
var forShoot = []string{
	"kube-apiserver", "kube-controller-manager", "etcd-backup-restore", "standin-etcd-wrapper", "standin-chown",
	"kube-scheduler", "machine-controller-manager", "machine-controller-manager-provider-local",
	"cloud-controller-manager-local",
	"standin-machine", "standin-vpn-server", "envoy-proxy",
}

// useOf tells what an image is for.
func useOf(name string) Use {
	if slices.Contains(forShoot, name) {
		return ForShoot
	}
	return ForSeed
}

// Tarballs builds the programs of this repository that a seed runs and writes the images for a use. What has not
// changed is neither built nor written again.
func Tarballs(ctx context.Context, cfg *config.Config, use Use) ([]image.Tarball, error) {
	gardener, err := garden.Gardener(ctx, cfg.Repo)
	if err != nil {
		return nil, err
	}
	byName, err := images(ctx, cfg, gardener, use)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(byName, func(name string, _ tarball.Image) bool { return useOf(name) != use })
	for _, b := range binaries(cfg) {
		// A program is built for the images that it is in.
		if !slices.ContainsFunc(slices.Collect(maps.Values(byName)), func(i tarball.Image) bool {
			return contains(i, filepath.Join(cfg.Bin(), b.name))
		}) {
			continue
		}
		if err := b.build(ctx, cfg, gardener.Version); err != nil {
			return nil, err
		}
	}
	var tarballs []image.Tarball
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		file, digest, err := tarball.WriteFile(cfg.Images(), name, byName[name])
		if err != nil {
			return nil, fmt.Errorf("failed to make image %s: %w", name, err)
		}
		tarballs = append(tarballs, image.Tarball{Name: name, File: file, Refs: byName[name].Refs, Digest: digest})
	}
	return tarballs, nil
}

func contains(i tarball.Image, source string) bool {
	return slices.ContainsFunc(i.Files, func(file tarball.File) bool { return file.Source == source })
}

func (b binary) build(ctx context.Context, cfg *config.Config, gardenerVersion string) error {
	flags := "-s -w"
	if b.stamp {
		flags += " -X k8s.io/component-base/version.gitVersion=" + gardenerVersion +
			" -X k8s.io/component-base/version.gitTreeState=clean"
	}
	pkg := b.pkg
	if pkg == "" {
		pkg = "."
	}
	// Not every mirror's checksum database knows the releases of the etcd server; the go.sum beside it does.
	return build.Go(ctx, cfg, build.GoCommand{
		Name: b.name, Folder: filepath.Join(cfg.Repo, b.dir), Env: []string{"GONOSUMDB=go.etcd.io/etcd/*"},
		Args: []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o",
			filepath.Join(cfg.Bin(), b.name), pkg},
	})
}

// images are those that seed prerequisites and shoots run, by a short name: real components under exactly the
// references that gardener's and etcd-druid's manifests use, stand-ins and own programs.
func images(
	ctx context.Context, cfg *config.Config, gardener garden.Module, use Use,
) (map[string]tarball.Image, error) {
	kubernetes, err := garden.Kubernetes(ctx, cfg.Repo)
	if err != nil {
		return nil, err
	}
	druid, err := garden.FindModule(ctx, filepath.Join(cfg.Repo, "hack", "tools", "etcd-druid"),
		"github.com/gardener/etcd-druid")
	if err != nil {
		return nil, err
	}
	druidRefs, err := druidImages(druid)
	if err != nil {
		return nil, err
	}
	programs, err := findPrograms(ctx, cfg, "gardener", "kubernetes", "etcd-druid", "etcd-backup-restore",
		toolIstio)
	if err != nil {
		return nil, err
	}
	target, refs := imagevectorutils.TargetVersion(kubernetes.Version), &gardenerRefs{version: gardener.Version}
	result := map[string]tarball.Image{
		"gardenlet": single(programs.own("gardenlet"), "/gardenlet", nonroot, GardenletImage),
		"gardener-resource-manager": single(programs.upstream("gardener", "gardener-resource-manager"),
			"/gardener-resource-manager", nonroot, refs.find(imagevector.ContainerImageNameGardenerResourceManager)),
		"provider-local": single(programs.upstream("gardener", "gardener-extension-provider-local"),
			"/gardener-extension-provider-local", nonroot, garden.ProviderLocalImage+":"+gardener.Version),
		"kube-apiserver": single(programs.upstream("kubernetes", "kube-apiserver"), "/usr/local/bin/kube-apiserver", "",
			refs.find(imagevector.ContainerImageNameKubeApiserver, target)),
		"kube-controller-manager": single(programs.upstream("kubernetes", "kube-controller-manager"),
			"/usr/local/bin/kube-controller-manager", "",
			refs.find(imagevector.ContainerImageNameKubeControllerManager, target)),
		"etcd-druid": single(programs.upstream("etcd-druid", "etcd-druid"), "/etcd-druid", nonroot,
			refs.find(imagevector.ContainerImageNameEtcdDruid)),
		"etcd-backup-restore": single(programs.upstream("etcd-backup-restore", "etcdbrctl"), "/etcdbrctl", nonroot,
			druidRefs["etcd-backup-restore-next"]),
		"standin-etcd-wrapper": etcdWrapperImage(cfg, programs, druidRefs),
		"standin-chown":        single(programs.own("standin-chown"), "/bin/chown", "", druidRefs["alpine"]),
		istiodName:             istiodImage(programs, refs),
	}
	if use == ForSeed {
		if result[istioProxyName], err = istioProxyImage(ctx, cfg, programs, refs); err != nil {
			return nil, err
		}
	}
	if cfg.Gardenlet.SetsUpSeed() {
		result["placeholder"] = single(programs.own("placeholder"), "/placeholder", nonroot, PlaceholderImage)
	}
	if cfg.HasWorkers() {
		more, err := workerImages(ctx, cfg, kubernetes.Version, refs)
		if err != nil {
			return nil, err
		}
		maps.Copy(result, more)
	}
	return result, refs.err
}

// programs are the files of the programs that go into images.
type programs struct {
	bin     string
	folders map[string]string
}

// findPrograms finds those of the real components, whether or not they are built: those of the other use may not be
// yet.
func findPrograms(ctx context.Context, cfg *config.Config, components ...string) (programs, error) {
	out := programs{bin: cfg.Bin(), folders: map[string]string{}}
	for _, component := range components {
		var err error
		if out.folders[component], err = build.ToolFolder(ctx, cfg, component); err != nil {
			return programs{}, err
		}
	}
	return out, nil
}

// own is a program of this repository, upstream one of a real component.
func (p programs) own(name string) string { return filepath.Join(p.bin, name) }

func (p programs) upstream(component, name string) string {
	return filepath.Join(p.folders[component], name)
}

// gardenerRefs finds references of images in Gardener's image vector, and keeps the last error.
type gardenerRefs struct {
	// version is that of Gardener.
	version string
	err     error
}

func (r *gardenerRefs) find(name string, options ...imagevectorutils.FindOptionFunc) string {
	found, err := imagevector.Containers().FindImage(name, options...)
	if err != nil {
		r.err = fmt.Errorf("failed to find image %q in gardener's image vector: %w", name, err)
		return ""
	}
	// Images of gardener's own components carry no tag; the version of the component is filled in at run time.
	found.WithOptionalTag(r.version)
	return found.String()
}

// single is an image with one program in it, which it starts: the file source, at the path target.
func single(source, target, user, ref string) tarball.Image {
	return tarball.Image{
		Refs:       []string{ref},
		Files:      []tarball.File{{Path: target, Source: source}},
		Entrypoint: []string{target},
		User:       user,
	}
}

// etcdWrapperImage is the image of the stand-in for etcd-wrapper, which stops as the landscape wants it.
func etcdWrapperImage(cfg *config.Config, programs programs, druidRefs map[string]string) tarball.Image {
	out := single(programs.own("standin-etcd-wrapper"), "/etcd-wrapper", nonroot, druidRefs["etcd-wrapper-next"])
	if cfg.Etcd == config.EtcdGraceful {
		out.Env = append(out.Env, "STANDIN_STOP=graceful")
	}
	return out
}

// druidImages reads the references that etcd-druid has compiled in. Those with "next" in their name are for the etcd
// version that the feature gate UpgradeEtcdVersion switches to.
func druidImages(druid garden.Module) (map[string]string, error) {
	file := filepath.Join(druid.Dir, "internal", "images", "images.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read image vector of etcd-druid: %w", err)
	}
	vector := struct {
		Images []struct{ Name, Repository, Tag string }
	}{}
	if err := yaml.Unmarshal(content, &vector); err != nil {
		return nil, fmt.Errorf("failed to decode image vector %q: %w", file, err)
	}
	refs := map[string]string{}
	for _, i := range vector.Images {
		refs[i.Name] = i.Repository + ":" + i.Tag
	}
	for _, name := range []string{"etcd-wrapper-next", "etcd-backup-restore-next", "alpine"} {
		if refs[name] == "" {
			return nil, fmt.Errorf("failed to find image %q in %q", name, file)
		}
	}
	return refs, nil
}
