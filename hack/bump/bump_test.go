// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package bump_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/bump"
)

const repository = "../.."

// excluded are versions that a module file does not want.
var excluded = regexp.MustCompile(`(?s)exclude \(.*?\n\)`)

// required returns the version of a module that a module file names first, but for what it excludes.
func required(folder, module string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(repository, folder, "go.mod"))
	Expect(err).NotTo(HaveOccurred())
	match := regexp.MustCompile(`(?m)` + regexp.QuoteMeta(module) + ` (v\S+)`).
		FindSubmatch(excluded.ReplaceAll(content, nil))
	Expect(match).NotTo(BeNil(), module+" in "+folder)
	return string(match[1])
}

var _ = Describe("Places", func() {
	It("should be all that they are said to be, and hold the versions of the module files", func() {
		const gardener, druid = "github.com/gardener/gardener", "github.com/gardener/etcd-druid"
		supported := kubernetesversion.SupportedVersions
		expected := bump.Versions{
			bump.Gardener: required(".", gardener),
			bump.Druid:    required(".", druid+"/api"),
			bump.BackupRestore: required("hack/tools/etcd-backup-restore",
				"github.com/gardener/etcd-backup-restore"),
			bump.OldestKubernetes: supported[0],
			bump.NewestKubernetes: supported[len(supported)-1],
		}
		for folder, modules := range map[string][]string{".": {gardener + "/pkg/apis"},
			"hack/tools/gardener": {gardener, gardener + "/pkg/apis"}} {
			for _, module := range modules {
				Expect(required(folder, module)).To(Equal(expected[bump.Gardener]), "%s in %s", module, folder)
			}
		}
		Expect(required("hack/tools/etcd-druid", "=> "+druid+"/api")).To(Equal(expected[bump.Druid]))
		Expect(required("hack/tools/etcd-druid", druid)).To(Equal(expected[bump.Druid]))
		Expect(required("hack/tools/gardener", druid+"/api")).To(Equal(expected[bump.Druid]))

		found := map[bump.Component]bool{}
		for _, place := range bump.Places {
			content, err := os.ReadFile(filepath.Join(repository, place.File))
			Expect(err).NotTo(HaveOccurred())
			version, err := place.Find(content)
			Expect(err).NotTo(HaveOccurred())
			Expect(version).To(Equal(expected[place.Component]), "%s in %s (hack/bump-gardener moves them all)",
				place.Component, place.File)
			found[place.Component] = true
		}
		Expect(found).To(HaveLen(len(expected)))
	})
})

var _ = Describe("Run", func() {
	var (
		ctx     = context.Background()
		out     *bytes.Buffer
		options bump.Options
		// sources are the modules in the cache, calls what the go command was called with besides for them.
		sources map[string]string
		calls   []string
		broken  string
	)

	write := func(folder, file, content string) {
		GinkgoHelper()
		path := filepath.Join(folder, file)
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}

	BeforeEach(func() {
		out, calls, broken = &bytes.Buffer{}, nil, ""
		gardener, apis, druid, druidAPI := GinkgoT().TempDir(), GinkgoT().TempDir(), GinkgoT().TempDir(),
			GinkgoT().TempDir()
		sources = map[string]string{
			"github.com/gardener/gardener@v2.0.0": gardener, "github.com/gardener/gardener/pkg/apis@v2.0.0": apis,
			"github.com/gardener/etcd-druid@v0.99.0":     druid,
			"github.com/gardener/etcd-druid/api@v0.99.0": druidAPI,
		}
		write(apis, "core/v1beta1/types_shoot.go",
			"LiveMigration *LiveMigration `json:\"liveMigration,omitempty\" protobuf:\"bytes,1\"`")
		write(druidAPI, "core/v1alpha1/etcd.go",
			"BootstrapWithExistingCluster *BootstrapWithExistingCluster "+
				"`json:\"bootstrapWithExistingCluster,omitempty\"`")
		write(gardener, "imagevector/containers.yaml",
			"images: [{name: etcd, tag: v1}, {name: etcd-druid, tag: v0.99.0}]")
		write(gardener, "go.mod", "require (\n\tgithub.com/gardener/etcd-druid/api v0.99.0\n)\n")
		write(gardener, "pkg/utils/validation/kubernetesversion/version.go",
			"var SupportedVersions = []string{\n\t\"1.40\",\n\t\"1.41\",\n}\n\nvar other = \"1.1\"")
		write(druid, "internal/images/images.yaml",
			"images: [{name: etcd-backup-restore, tag: v0.1.0}, {name: etcd-backup-restore-next, tag: v0.98.0}]")

		copied := GinkgoT().TempDir()
		for _, place := range bump.Places {
			content, err := os.ReadFile(filepath.Join(repository, place.File))
			Expect(err).NotTo(HaveOccurred())
			write(copied, place.File, string(content))
		}
		options = bump.Options{Repository: copied, Version: "v2.0.0", Out: out,
			Go: func(_ context.Context, dir string, args ...string) (string, error) {
				if strings.Join(args[:min(len(args), 3)], " ") == "mod download -json" {
					source, ok := sources[args[3]]
					if !ok {
						return `{"Error": "403 Forbidden"}`, errors.New("exit status 1")
					}
					content, err := json.Marshal(map[string]string{"Dir": source})
					return string(content), err
				}
				relative, err := filepath.Rel(copied, dir)
				Expect(err).NotTo(HaveOccurred())
				calls = append(calls, relative+": "+strings.Join(args, " "))
				if broken != "" && strings.HasSuffix(calls[len(calls)-1], broken) {
					return "what is wrong", errors.New("exit status 1")
				}
				return "", nil
			}}
	})

	It("should move module files and places to what belongs to the version", func() {
		Expect(bump.Run(ctx, options)).To(Succeed())
		modules := "get github.com/gardener/gardener@v2.0.0 github.com/gardener/gardener/pkg/apis@v2.0.0 " +
			"github.com/gardener/etcd-druid/api@v0.99.0"
		Expect(calls).To(Equal([]string{
			".: " + modules,
			".: mod tidy",
			"hack/tools/gardener: " + modules,
			"hack/tools/gardener: mod tidy",
			"hack/tools/etcd-druid: mod edit " +
				"-replace=github.com/gardener/etcd-druid/api=github.com/gardener/etcd-druid/api@v0.99.0",
			"hack/tools/etcd-druid: get github.com/gardener/etcd-druid@v0.99.0",
			"hack/tools/etcd-druid: mod tidy",
			"hack/tools/etcd-backup-restore: get github.com/gardener/etcd-backup-restore@v0.98.0",
			"hack/tools/etcd-backup-restore: mod tidy",
			".: vet ./...",
		}))
		expected := bump.Versions{bump.Gardener: "v2.0.0", bump.Druid: "v0.99.0", bump.BackupRestore: "v0.98.0",
			bump.OldestKubernetes: "1.40", bump.NewestKubernetes: "1.41"}
		for _, place := range bump.Places {
			content, err := os.ReadFile(filepath.Join(options.Repository, place.File))
			Expect(err).NotTo(HaveOccurred())
			Expect(place.Find(content)).To(Equal(expected[place.Component]), place.File)
			Expect(out.String()).To(ContainSubstring("changed " + place.File))
			before, err := os.ReadFile(filepath.Join(repository, place.File))
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(string(content), "\n")).To(Equal(strings.Count(string(before), "\n")))
		}
		out.Reset()
		Expect(bump.Run(ctx, options)).To(Succeed())
		Expect(out.String()).NotTo(ContainSubstring("changed "), "a second time there is nothing left to change")
	})

	untouched := func() {
		GinkgoHelper()
		Expect(calls).To(BeEmpty())
		for _, place := range bump.Places {
			before, err := os.ReadFile(filepath.Join(repository, place.File))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.ReadFile(filepath.Join(options.Repository, place.File))).To(Equal(before))
		}
	}

	It("should refuse a version without live migrations, and change nothing", func() {
		write(sources["github.com/gardener/gardener/pkg/apis@v2.0.0"], "core/v1beta1/types_shoot.go",
			"package v1beta1 // LiveMigration")
		err := bump.Run(ctx, options)
		Expect(err).To(MatchError(bump.ErrTooOld))
		Expect(err).To(MatchError(ContainSubstring("Gardener v2.0.0 knows no live migration")))
		untouched()
	})

	It("should refuse a version whose etcds cannot join others, and change nothing", func() {
		write(sources["github.com/gardener/etcd-druid/api@v0.99.0"], "core/v1alpha1/etcd.go",
			"MemberNamePrefix *string `json:\"memberNamePrefix,omitempty\"`")
		err := bump.Run(ctx, options)
		Expect(err).To(MatchError(bump.ErrTooOld))
		Expect(err).
			To(MatchError(ContainSubstring(
				"Gardener v2.0.0 deploys etcd-druid v0.99.0, whose etcds cannot join those of another seed")))
		untouched()
	})

	It("should pass on why a module cannot be had, and change nothing", func() {
		delete(sources, "github.com/gardener/etcd-druid@v0.99.0")
		Expect(bump.Run(ctx, options)).
			To(MatchError("failed to get github.com/gardener/etcd-druid v0.99.0: exit status 1: 403 Forbidden"))
		untouched()
	})

	DescribeTable("should say what it does not understand, and change nothing",
		func(change func(), message string) {
			change()
			Expect(bump.Run(ctx, options)).To(MatchError(ContainSubstring(message)))
			untouched()
		},
		Entry("no version", func() { options.Version = "" }, "expected one as in v1.150.0"),
		Entry("a branch", func() { options.Version = "master" }, "expected one as in v1.150.0"),
		Entry("a version that is not there", func() { options.Version = "v3.0.0" },
			"failed to get github.com/gardener/gardener/pkg/apis v3.0.0"),
		Entry("an API of another etcd-druid", func() {
			write(sources["github.com/gardener/gardener@v2.0.0"], "go.mod",
				"require github.com/gardener/etcd-druid/api v0.98.0\n")
		}, "not built with the API of that version"),
		Entry("no versions of Kubernetes", func() {
			write(sources["github.com/gardener/gardener@v2.0.0"], "pkg/utils/validation/kubernetesversion/version.go",
				"package kubernetesversion")
		}, "failed to find the supported versions of Kubernetes"),
		Entry("no image of etcd-backup-restore", func() {
			write(sources["github.com/gardener/etcd-druid@v0.99.0"], "internal/images/images.yaml", "images: []")
		}, "failed to find image etcd-backup-restore-next"),
	)

	It("should name a place that has changed its form", func() {
		write(options.Repository, bump.Places[0].File, "nothing")
		Expect(bump.Run(ctx, options)).
			To(MatchError(And(ContainSubstring(bump.Places[0].File), ContainSubstring("hack/bump/places.go"))))
	})

	It("should pass on what the compiler says, with the rest done", func() {
		broken = "vet ./..."
		Expect(bump.Run(ctx, options)).
			To(MatchError(And(ContainSubstring("does not compile with Gardener v2.0.0"),
				ContainSubstring("what is wrong"))))
		Expect(out.String()).To(ContainSubstring("changed docs/compatibility.md"))
	})

	It("should end with the module file that cannot be moved", func() {
		broken = "hack/tools/gardener: mod tidy"
		Expect(bump.Run(ctx, options)).
			To(MatchError(And(ContainSubstring("hack/tools/gardener"), ContainSubstring("what is wrong"))))
		Expect(out.String()).NotTo(ContainSubstring("changed"))
	})
})
