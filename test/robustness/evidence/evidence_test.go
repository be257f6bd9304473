// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

const repository = "../../.."

var _ = Describe("Sources of the product", Ordered, func() {
	var sources *evidence.Sources

	BeforeAll(func(ctx SpecContext) {
		var err error
		sources, err = evidence.Load(ctx, repository)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should have a package of its role for each step, and not that of the other one unless it does work there",
		func() {
			for _, step := range steps.Table() {
				used, err := sources.UsedBy(step)
				Expect(err).NotTo(HaveOccurred())
				Expect(used).To(ContainElements("pkg/agent/"+string(step.Owner), "pkg/migration/steps", "pkg/agent",
					"pkg/etcd/client", "pkg/tunnel/relay", "pkg/agent/setup"))
				Expect(used).NotTo(ContainElement(HavePrefix("pkg/cli")))
				peer := ContainElement("pkg/agent/" + string(step.Owner.Peer()))
				if len(step.Asks()) == 0 {
					peer = Not(peer)
				}
				Expect(used).To(peer, step.String())
			}
		})

	It("should be fresh for what was made with them", func() {
		for _, step := range steps.Table() {
			Expect(sources.Stale(&evidence.Build{Packages: sources.Digests()}, step)).To(BeEmpty())
		}
	})
})

// tiny is a repository with the packages in which steps begin and a few more, and a landscape.
type tiny struct{ folder string }

func newTiny(ctx context.Context) tiny {
	GinkgoHelper()
	t := tiny{folder: GinkgoT().TempDir()}
	t.write("go.mod", "module github.com/livecpm/livecpm\n\ngo 1.24\n")
	for path, text := range map[string]string{
		"pkg/agent":             "package agent",
		"pkg/agent/setup":       "package setup\n\nimport _ \"github.com/livecpm/livecpm/pkg/agent/source\"",
		"pkg/preflight":         "package preflight",
		"pkg/tunnel/relay":      "package relay",
		"pkg/agent/source":      "package source\n\nimport _ \"github.com/livecpm/livecpm/pkg/etcd\"",
		"pkg/agent/destination": "package destination",
		"pkg/etcd":              "package etcd",
		"pkg/cli":               "package cli",
	} {
		t.write(path+"/code.go", text+"\n")
	}
	t.write(".landscape/bin/agent", "program")
	t.write(".landscape/images/etcd.tar", "image")
	t.write(".gitignore", "/.landscape/\n")
	t.git(ctx, "init", "-q")
	t.git(ctx, "add", ".")
	t.git(ctx, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "Add all")
	return t
}

func (t tiny) write(file, text string) {
	GinkgoHelper()
	path := filepath.Join(t.folder, filepath.FromSlash(file))
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
}

func (t tiny) git(ctx context.Context, args ...string) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, "git", append([]string{"-C", t.folder}, args...)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

func (t tiny) place() evidence.Place {
	return evidence.Place{Repository: t.folder, Binaries: filepath.Join(t.folder, ".landscape", "bin"),
		Images: filepath.Join(t.folder, ".landscape", "images")}
}

var _ = Describe("Build", func() {
	var (
		repo    tiny
		prepare steps.Step
		join    steps.Step
		stale   func(ctx context.Context, build *evidence.Build, step steps.Step) string
	)

	BeforeEach(func(ctx SpecContext) {
		repo = newTiny(ctx)
		prepare, join = steps.Table()[0], steps.Table()[1]
		Expect([]steps.Role{prepare.Owner, join.Owner}).To(Equal([]steps.Role{steps.Source, steps.Destination}))
		stale = func(ctx context.Context, build *evidence.Build, step steps.Step) string {
			GinkgoHelper()
			sources, err := evidence.Load(ctx, repo.folder)
			Expect(err).NotTo(HaveOccurred())
			why, err := sources.Stale(build, step)
			Expect(err).NotTo(HaveOccurred())
			return why
		}
	})

	take := func(ctx context.Context) *evidence.Build {
		GinkgoHelper()
		build, err := evidence.Take(ctx, repo.place())
		Expect(err).NotTo(HaveOccurred())
		return build
	}

	It("should say what it was made with", func(ctx SpecContext) {
		build := take(ctx)
		Expect(build.Commit).To(HaveLen(40))
		Expect(build.Changed).To(BeFalse())
		Expect(build.Binaries).To(HaveKeyWithValue("agent", HaveLen(64)))
		Expect(build.Images).To(HaveKey("etcd.tar"))
		Expect(build.Packages).To(And(HaveLen(8), HaveKey("pkg/etcd")))
	})

	It("should differ by commit, programs and files that are not committed", func(ctx SpecContext) {
		key := func() string {
			GinkgoHelper()
			key, err := take(ctx).Key()
			Expect(err).NotTo(HaveOccurred())
			return key
		}
		first := key()
		Expect(key()).To(Equal(first))
		repo.write(".landscape/bin/agent", "other program")
		second := key()
		repo.write("pkg/etcd/code.go", "package etcd // changed\n")
		Expect(take(ctx).Changed).To(BeTrue())
		Expect([]string{second, key()}).NotTo(ContainElement(first))
		Expect(key()).NotTo(Equal(second))
		Expect(second[:10]).To(Equal(first[:10]))
	})

	It("should be fresh until a package changes that the step uses", func(ctx SpecContext) {
		build := take(ctx)
		Expect(stale(ctx, build, prepare)).To(BeEmpty())
		repo.write("pkg/cli/code.go", "package cli // changed\n")
		repo.write("pkg/etcd/code_test.go", "package etcd\n")
		Expect(stale(ctx, build, prepare)).To(BeEmpty())
		repo.write("pkg/etcd/code.go", "package etcd // changed\n")
		Expect(stale(ctx, build, prepare)).To(Equal("pkg/etcd has changed since"))
		Expect(stale(ctx, build, join)).To(BeEmpty())
		repo.write("pkg/etcd/code.go", "package etcd\n")
		Expect(stale(ctx, build, prepare)).To(BeEmpty())
	})

	It("should be stale when a package is added, and count what has changed", func(ctx SpecContext) {
		build := take(ctx)
		repo.write("pkg/etcd/client/code.go", "package client\n")
		repo.write("pkg/agent/destination/code.go",
			"package destination\n\nimport _ \"github.com/livecpm/livecpm/pkg/etcd/client\"\n")
		Expect(stale(ctx, build, join)).To(Equal("pkg/agent/destination and 1 more packages have changed since"))
	})

	It("should be stale if nobody knows what it was made with", func(ctx SpecContext) {
		Expect(stale(ctx, nil, prepare)).To(Equal("nobody has recorded what it was made with"))
		Expect(stale(ctx, &evidence.Build{Commit: "abc"}, prepare)).NotTo(BeEmpty())
	})

	It("should not take a step for fresh whose package is gone", func(ctx SpecContext) {
		build := take(ctx)
		Expect(os.RemoveAll(filepath.Join(repo.folder, "pkg", "tunnel"))).To(Succeed())
		sources, err := evidence.Load(ctx, repo.folder)
		Expect(err).NotTo(HaveOccurred())
		_, err = sources.Stale(build, prepare)
		Expect(err).To(MatchError(ContainSubstring("pkg/tunnel/relay, which is no package")))
	})

	DescribeTable("should not be made", func(ctx SpecContext, spoil func(evidence.Place) evidence.Place, why string) {
		_, err := evidence.Take(ctx, spoil(repo.place()))
		Expect(err).To(MatchError(ContainSubstring(why)))
	},
		Entry("without a commit", func(p evidence.Place) evidence.Place {
			Expect(os.RemoveAll(filepath.Join(p.Repository, ".git"))).To(Succeed())
			return p
		}, "failed to find out the commit"),
		Entry("without programs", func(p evidence.Place) evidence.Place {
			p.Binaries = filepath.Join(p.Repository, "nowhere")
			return p
		}, "bring the landscape up first"),
		Entry("without images", func(p evidence.Place) evidence.Place {
			p.Images = GinkgoT().TempDir()
			return p
		}, "bring the landscape up first"),
	)
})
