// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package importcheck_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/importcheck"
)

var _ = Describe("Check", func() {
	DescribeTable("rules of this module",
		func(pkg importcheck.Package, how string) {
			pkg.ImportPath = importcheck.Module + "/" + pkg.ImportPath
			violations := importcheck.Check([]importcheck.Package{pkg}, importcheck.Rules)
			if how == "" {
				Expect(violations).To(BeEmpty())
				return
			}
			Expect(violations).NotTo(BeEmpty())
			Expect(violations[0].How).To(Equal(how))
			Expect(violations[0].Why).NotTo(BeEmpty())
			Expect(violations[0].String()).To(ContainSubstring("must not import"))
		},
		Entry("source imports destination",
			importcheck.Package{ImportPath: "pkg/agent/source", Imports: own("pkg/agent/destination")}, "directly"),
		Entry("source imports destination by way of another",
			importcheck.Package{ImportPath: "pkg/agent/source", Deps: own("pkg/agent/destination/x")}, "indirectly"),
		Entry("a test of destination imports source", importcheck.Package{ImportPath: "pkg/agent/destination",
			XTestImports: own("pkg/agent/source")}, "in tests"),
		Entry("both import what they share",
			importcheck.Package{ImportPath: "pkg/agent/source",
				Imports: own("pkg/agent/backups", "pkg/agent/botanist", "pkg/migration/steps")}, ""),
		Entry("a name that only begins alike",
			importcheck.Package{ImportPath: "pkg/agent/source", Imports: own("pkg/destinations")}, ""),

		Entry("the core imports a client",
			importcheck.Package{ImportPath: "pkg/etcd/quorum", Deps: []string{"go.etcd.io/etcd/client/v3"}},
			"indirectly"),
		Entry("a test of the core imports a client", importcheck.Package{ImportPath: "pkg/migration/conditions",
			XTestImports: []string{"k8s.io/client-go/kubernetes"}}, ""),
		Entry("the core imports the frame",
			importcheck.Package{ImportPath: "pkg/migration/drain", Imports: own("pkg/agent")}, "directly"),
		Entry("the joint cluster imports a role",
			importcheck.Package{ImportPath: "pkg/etcd/joint", XTestImports: own("pkg/agent/source")}, "in tests"),
		Entry("a check imports what acts",
			importcheck.Package{ImportPath: "pkg/preflight", Deps: own("pkg/etcd/joint")}, "indirectly"),
		Entry("the core imports what is above it",
			importcheck.Package{ImportPath: "pkg/migration/steps", Imports: own("pkg/metrics")}, "directly"),
		Entry("the core imports itself",
			importcheck.Package{ImportPath: "pkg/etcd/quorum", Imports: own("pkg/migration/steps")}, ""),

		Entry("the frame imports a role",
			importcheck.Package{ImportPath: "pkg/agent", Imports: own("pkg/agent/source")}, "directly"),
		Entry("the frame imports what moves etcd",
			importcheck.Package{ImportPath: "pkg/agent", Deps: own("pkg/etcd/joint")}, "indirectly"),
		Entry("the frame's assembly imports both roles",
			importcheck.Package{ImportPath: "pkg/agent/setup",
				Imports: own("pkg/agent/source", "pkg/agent/destination", "pkg/agent")}, ""),
		Entry("an action calls the frame",
			importcheck.Package{ImportPath: "pkg/agent/destination", Imports: own("pkg/agent")}, "directly"),
		Entry("a room of both roles imports a role",
			importcheck.Package{ImportPath: "pkg/agent/backups", Imports: own("pkg/agent/source")}, "directly"),
		Entry("a room imports another room",
			importcheck.Package{ImportPath: "pkg/agent/backups", Imports: own("pkg/agent/shootstate")}, "directly"),
		Entry("a room imports the base",
			importcheck.Package{ImportPath: "pkg/agent/backups", Imports: own("pkg/agent/botanist")}, ""),
		Entry("the base imports a room",
			importcheck.Package{ImportPath: "pkg/agent/botanist", Deps: own("pkg/agent/backups")}, "indirectly"),
		Entry("the base imports what moves etcd",
			importcheck.Package{ImportPath: "pkg/agent/botanist", Deps: own("pkg/etcd/joint")}, "indirectly"),
		Entry("the frame imports a room",
			importcheck.Package{ImportPath: "pkg/agent", Imports: own("pkg/agent/etcds")}, "directly"),
		Entry("a main imports both roles",
			importcheck.Package{ImportPath: "cmd/livecpm-agent",
				Imports: own("pkg/agent/source", "pkg/agent/destination", "pkg/agent")}, ""),
		Entry("a main imports another main",
			importcheck.Package{ImportPath: "cmd/gardenlet/app", Imports: own("cmd/livecpm-agent/app")}, "directly"),
		Entry("a package imports a main",
			importcheck.Package{ImportPath: "pkg/garden", Imports: own("cmd/livecpm-agent/app")}, "directly"),

		Entry("the garden's controllers import the agents' actions",
			importcheck.Package{ImportPath: "pkg/garden/gatewatchdog", Deps: own("pkg/agent/source")}, "indirectly"),
		Entry("the garden's controllers import the step table",
			importcheck.Package{ImportPath: "pkg/garden", Imports: own("pkg/migration/steps", "pkg/preflight/gate")},
			""),

		Entry("the relay imports Kubernetes",
			importcheck.Package{ImportPath: "cmd/livecpm-relay", Deps: []string{"k8s.io/client-go/rest"}},
			"indirectly"),

		Entry("the front imports an etcd client",
			importcheck.Package{ImportPath: "pkg/etcd/front", Deps: []string{"go.etcd.io/etcd/client/v3"}},
			"indirectly"),
		Entry("the front imports etcd's messages",
			importcheck.Package{ImportPath: "pkg/etcd/front", Imports: []string{"go.etcd.io/etcd/api/v3/etcdserverpb"}},
			""),
		Entry("the front imports the joint cluster",
			importcheck.Package{ImportPath: "pkg/etcd/front", Imports: own("pkg/etcd/joint")}, "directly"),
		Entry("the relay's program imports the front",
			importcheck.Package{ImportPath: "cmd/livecpm-relay", Deps: own("pkg/etcd/front/config")}, ""),

		Entry("the product imports a stand-in",
			importcheck.Package{ImportPath: "pkg/tunnel/relay", Imports: own("test/standins/dns")}, "directly"),
		Entry("a test of the product imports a stand-in",
			importcheck.Package{ImportPath: "charts", TestImports: own("test/landscape")}, "in tests"),
		Entry("a stand-in imports a stand-in",
			importcheck.Package{ImportPath: "test/demo", Imports: own("test/landscape")}, ""),

		Entry("the product imports a test library", importcheck.Package{ImportPath: "pkg/preflight/gate",
			Imports: []string{"github.com/onsi/gomega"}}, "directly"),
		Entry("a test imports a test library", importcheck.Package{ImportPath: "pkg/preflight/gate",
			XTestImports: []string{"github.com/onsi/gomega"}}, ""),
		Entry("the product imports from hack",
			importcheck.Package{ImportPath: "cmd/livecpm-agent", Imports: own("hack/images")}, "directly"),
		Entry("the landscape builds images",
			importcheck.Package{ImportPath: "test/landscape", Imports: own("hack/images")}, ""),
	)

	It("should find every rule's packages in rules that can be violated", func() {
		for _, rule := range importcheck.Rules {
			Expect(rule.In).NotTo(BeEmpty())
			Expect(rule.Forbidden).NotTo(BeEmpty())
			Expect(rule.Why).NotTo(BeEmpty())
		}
	})
})

func own(paths ...string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, importcheck.Module+"/"+path)
	}
	return out
}
