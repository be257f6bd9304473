// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package importcheck checks which packages of the module import which others. Rules are the whole of it: a direction
// of dependency that matters is a row there, with the reason that a violation prints.
package importcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/livecpm/livecpm"

// Rule forbids imports.
type Rule struct {
	// In are the packages that the rule is for, with everything below them.
	In []string
	// Except are packages in them that the rule is not for, with everything below them.
	Except []string
	// Forbidden are the packages that they must not import, with everything below them.
	Forbidden []string
	// Allowed are packages among the forbidden ones that they may import, with everything below them.
	Allowed []string
	// Indirect also forbids imports by way of other packages.
	Indirect bool
	// Tests also forbids imports by test files. They are always direct.
	Tests bool
	// Why is the reason.
	Why string
}

var own = func(paths ...string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, Module+"/"+path)
	}
	return out
}

// clients are the packages that talk to something over the network.
var clients = []string{
	"sigs.k8s.io/controller-runtime/pkg/client",
	"sigs.k8s.io/controller-runtime/pkg/cluster",
	"sigs.k8s.io/controller-runtime/pkg/manager",
	"k8s.io/client-go",
	"go.etcd.io/etcd/client",
	"github.com/gardener/gardener/pkg/client",
}

// core is what decides without looking: it may import itself and the types of the APIs.
var core = own("pkg/migration", "pkg/etcd/naming", "pkg/etcd/quorum")

// acts is what changes a control plane.
var acts = own("pkg/agent", "pkg/etcd/joint", "pkg/tunnel/exposure")

// roles are the steps, one package for each seed of a migration.
var roles = own("pkg/agent/source", "pkg/agent/destination")

// rooms are what the steps of both roles work with. Each has an own constructor that asks for what it needs.
var rooms = own("pkg/agent/backups", "pkg/agent/shootstate", "pkg/agent/dryrun", "pkg/agent/probe", "pkg/agent/tunnel",
	"pkg/agent/etcds", "pkg/agent/front", "pkg/agent/controlplane")

// base is what all rooms need: Gardener's botanist, Gardener's flows, and the check of constructors.
var base = own("pkg/agent/botanist", "pkg/agent/flows", "pkg/agent/required")

// tools are what operators use.
var tools = own("pkg/cli", "pkg/proof")

// Rules are the directions of dependency in this module, from the bottom of the house to its top.
var Rules = []Rule{
	// The pure core.
	{
		In: core, Forbidden: clients, Indirect: true,
		Why: "the pure core decides and does not look",
	},
	{
		In: own("pkg/migration/steps", "pkg/etcd/quorum"), Forbidden: own("pkg", "cmd"),
		Allowed: own("pkg/migration/steps", "pkg/etcd/quorum"), Indirect: true,
		Why: "they are at the bottom: everything may import them, they import nothing of ours",
	},
	{
		In: core, Forbidden: own("pkg", "cmd"), Allowed: core, Indirect: true,
		Why: "the pure core imports nothing of ours but itself",
	},

	// Who asks name servers.
	{
		In: own("pkg/dns"), Forbidden: own("pkg", "cmd"), Allowed: own("pkg/dns"), Indirect: true,
		Why: "agents and the plugin ask name servers alike, for whatever reason",
	},

	// etcd and the tunnel.
	{
		In: own("pkg/etcd/client"), Forbidden: own("pkg", "cmd"), Allowed: own("pkg/etcd/client"), Indirect: true,
		Why: "the client speaks etcd's API and knows nothing of migrations",
	},
	{
		In: own("pkg/etcd"), Forbidden: own("pkg/tunnel"), Indirect: true, Tests: true,
		Why: "members know nothing of how the way between the seeds is made; what both need to know is in naming",
	},
	{
		In:        own("pkg/etcd", "pkg/tunnel"),
		Forbidden: own("pkg/agent", "pkg/garden", "pkg/preflight", "pkg/cli", "pkg/proof"),
		Indirect:  true, Tests: true,
		Why: "joint cluster and tunnel serve the agents, not the other way round",
	},
	{
		In: own("cmd/livecpm-relay", "pkg/tunnel/relay", "pkg/etcd/front"), Forbidden: clients, Indirect: true,
		Why: "relay and front run in the shoots' namespaces and need no access to an API server; to etcd, the front " +
			"brings what clients say, and says nothing itself but the question for the status",
	},
	{
		In: own("cmd/livecpm-relay", "pkg/tunnel/relay"), Forbidden: own("pkg", "cmd"),
		Allowed:  own("cmd/livecpm-relay", "pkg/tunnel/relay", "pkg/etcd/front", "pkg/program/pod"),
		Indirect: true,
		Why:      "the relay forwards and knows nothing of migrations",
	},
	{
		In: own("pkg/tunnel/relay"), Forbidden: own("pkg/etcd"), Indirect: true, Tests: true,
		Why: "relay and front share a program, and what it needs as such (pkg/program/pod)",
	},
	{
		In: own("pkg/etcd/front"), Forbidden: own("pkg", "cmd"),
		Allowed: own("pkg/etcd/front", "pkg/program/pod"), Indirect: true,
		Why: "the front passes requests on and knows nothing of migrations; who steers it does",
	},
	{
		In: own("pkg/program/pod"), Forbidden: append(own("pkg", "cmd"), clients...), Indirect: true,
		Allowed: own("pkg/program/pod"),
		Why:     "it serves programs that know nothing of migrations and need no access to an API server",
	},
	{
		In: own("pkg/preflight"), Forbidden: acts, Indirect: true, Tests: true,
		Why: "a check changes nothing",
	},

	// The agent: frame, actions, assembly.
	{
		In:        own("pkg/agent"),
		Except:    slices.Concat(roles, rooms, base, own("pkg/agent/setup")),
		Forbidden: slices.Concat(roles, rooms, base, own("pkg/agent/setup", "pkg/etcd", "pkg/tunnel")),
		Indirect:  true, Tests: true,
		Why: "the frame does not know what the actions do",
	},
	{
		In:        slices.Concat(roles, rooms, base),
		Forbidden: own("pkg/agent", "pkg/garden"),
		Allowed:   slices.Concat(roles, rooms, base, own("pkg/agent/overlap")),
		Indirect:  true,
		Why:       "actions are called by the frame and do not call it",
	},
	{
		In: own("pkg/agent/source"), Forbidden: own("pkg/agent/destination"), Indirect: true, Tests: true,
		Why: "the roles know each other by the step table only",
	},
	{
		In: own("pkg/agent/destination"), Forbidden: own("pkg/agent/source"), Indirect: true, Tests: true,
		Why: "the roles know each other by the step table only",
	},
	{
		In: slices.Concat(rooms, base), Forbidden: slices.Concat(roles, own("pkg/agent/setup")), Indirect: true,
		Tests: true,
		Why:   "what both roles use knows neither of them",
	},
	{
		In: slices.Concat(rooms, base), Forbidden: rooms, Indirect: true,
		Why: "a room needs the base and knows no other room; a role or the assembly puts them together",
	},
	{
		In: base, Forbidden: own("pkg/agent", "pkg/etcd", "pkg/tunnel"), Allowed: base, Indirect: true,
		Why: "the base is below the rooms and needs none of them",
	},
	{
		In: own("cmd/livecpm-agent", "cmd/gardenlet", "pkg/agent"), Forbidden: tools, Indirect: true,
		Why: "the agents need none of the operator's tools",
	},

	// The garden's controllers and the operator's tools.
	{
		In: own("cmd/livecpm-controller-manager", "pkg/garden"), Forbidden: append(acts, tools...), Indirect: true,
		Tests: true,
		Why:   "the garden's controllers know migrations by their Shoots only",
	},
	{
		In: own("cmd/kubectl-livecpm", "pkg/cli"), Indirect: true, Tests: true,
		Forbidden: own("pkg/agent", "pkg/etcd/joint", "pkg/garden"),
		Why:       "the plugin says what is asked for and shows what is seen; it does no part of the work",
	},
	{
		In: own("pkg/cli/view"), Forbidden: clients, Indirect: true,
		Why: "what is drawn has been read before",
	},
	{
		In: own("pkg/cli/view"), Forbidden: own("pkg", "cmd"), Indirect: true,
		Allowed: append(own("pkg/cli/view", "pkg/cli/exit", "pkg/proof/recording"), core...),
		Why:     "the view is at the bottom of the command line: it draws what others hand to it",
	},
	{
		In: own("pkg/cli/screen"), Forbidden: append(own("pkg", "cmd"), clients...), Indirect: true,
		Allowed: append(own("pkg/cli/screen", "pkg/cli/view", "pkg/cli/exit", "pkg/proof/recording"), core...),
		Why:     "a screen shows what is handed to it, and asks for changes by an interface",
	},
	{
		In: own("pkg/cli/exit"), Forbidden: clients, Indirect: true,
		Why: "a code follows from what is known",
	},
	{
		In: own("pkg/cli/exit"), Forbidden: own("pkg", "cmd"), Indirect: true,
		Allowed: append(own("pkg/cli/exit"), core...),
		Why:     "all of the command line ends by its codes",
	},
	{
		In: own("pkg/cli/document"), Forbidden: own("pkg", "cmd"), Allowed: own("pkg/cli/document"), Indirect: true,
		Tests: true,
		Why:   "how a document is written does not depend on what is in it",
	},
	{
		In: own("pkg/cli/dashboard"), Forbidden: append(own("pkg/cli/access", "pkg/cli/inspect", "pkg/cli/steer"),
			clients...), Indirect: true, Tests: true,
		Why: "the dashboard shows what has been read, and can change nothing",
	},
	{
		In: own("pkg/cli/access"), Forbidden: own("pkg/cli"), Allowed: own("pkg/cli/access"), Indirect: true,
		Tests: true,
		Why:   "the ways in do not know what is done with them",
	},
	{
		In: own("pkg/cli/inspect"), Forbidden: own("pkg/cli/steer"), Indirect: true, Tests: true,
		Why: "who looks changes nothing",
	},
	{
		In: own("pkg/cli/steer"), Forbidden: own("pkg/cli/access", "pkg/cli/inspect"), Indirect: true, Tests: true,
		Why: "what is written depends on the Shoot or the Seed alone; the main judges before it lets steer write",
	},
	{
		In:        own("pkg/proof/probe", "pkg/proof/inventory", "pkg/proof/recording"),
		Forbidden: own("pkg", "cmd"), Indirect: true,
		Allowed: own("pkg/proof/probe", "pkg/proof/inventory", "pkg/proof/recording"),
		Why:     "what measures a migration knows nothing of how it is made",
	},
	{
		In: own("pkg/proof/recording", "pkg/proof/report", "pkg/proof/ticket"), Forbidden: clients, Indirect: true,
		Why: "a report is made of what was recorded",
	},

	// Mains.
	{
		In: own("cmd/gardenlet"), Forbidden: own("cmd"), Allowed: own("cmd/gardenlet"), Indirect: true, Tests: true,
		Why: "no main imports another main",
	},
	{
		In: own("cmd/kubectl-livecpm"), Forbidden: own("cmd"), Allowed: own("cmd/kubectl-livecpm"), Indirect: true,
		Tests: true,
		Why:   "no main imports another main",
	},
	{
		In: own("cmd/livecpm-agent"), Forbidden: own("cmd"), Allowed: own("cmd/livecpm-agent"), Indirect: true,
		Tests: true,
		Why:   "no main imports another main",
	},
	{
		In: own("cmd/livecpm-controller-manager"), Forbidden: own("cmd"),
		Allowed:  own("cmd/livecpm-controller-manager"),
		Indirect: true, Tests: true,
		Why: "no main imports another main",
	},
	{
		In: own("cmd/livecpm-relay"), Forbidden: own("cmd"), Allowed: own("cmd/livecpm-relay"), Indirect: true,
		Tests: true,
		Why:   "no main imports another main",
	},
	{
		In: own("pkg"), Forbidden: own("cmd"), Indirect: true, Tests: true,
		Why: "a main puts packages together; no package needs one",
	},

	// What is not the product.
	{
		In: []string{Module}, Except: own("test"), Forbidden: own("test"),
		// nativetest finds real programs for specs: it stands in for nothing.
		Allowed: own("test/patience", "test/program", "test/graphs", "test/calls", "test/simulation",
			"test/seedlook", "test/seedpods", "test/landscape/native/nativetest"),
		Indirect: true, Tests: true,
		Why: "what is under test/ stands in for real components and must not get into the product",
	},
	{
		In: []string{Module}, Except: own("test"), Indirect: true,
		Forbidden: own("test/patience", "test/program", "test/graphs", "test/calls", "test/simulation",
			"test/seedlook", "test/seedpods"),
		Why: "how long tests wait, and what they simulate, is for test files",
	},
	{
		In:        own("test/driver"),
		Forbidden: own("test/demo", "test/abort", "test/drain", "test/recovery", "test/robustness", "test/bench"),
		Indirect:  true, Tests: true,
		Why: "the driver serves demo, benchmarks and suites, and knows none of them",
	},
	{
		In: own("pkg", "cmd"), Forbidden: own("hack"), Indirect: true,
		Why: "hack/ is for building and checking",
	},
	{
		In: own("pkg", "cmd"), Forbidden: []string{"github.com/onsi", "github.com/gardener/gardener/test"},
		Why: "test libraries belong into test files",
	},
}

// Package is what is known of one package.
type Package struct {
	// ImportPath is its path.
	ImportPath string
	// Imports are its direct imports.
	Imports []string
	// TestImports and XTestImports are those of its test files.
	TestImports, XTestImports []string
	// Deps are its direct and indirect imports.
	Deps []string
}

// Violation is an import that a rule forbids.
type Violation struct {
	// Package imports what it must not.
	Package string
	// Import is what it imports.
	Import string
	// How tells in which way: directly, indirectly, or in tests.
	How string
	// Why is the reason of the rule.
	Why string
}

// String returns the violation as one sentence.
func (v Violation) String() string {
	return fmt.Sprintf("%s must not import %s (it does so %s): %s", v.Package, v.Import, v.How, v.Why)
}

// Check returns the violations of the rules.
func Check(packages []Package, rules []Rule) []Violation {
	var out []Violation
	for _, rule := range rules {
		for _, pkg := range packages {
			if !within(pkg.ImportPath, rule.In) || within(pkg.ImportPath, rule.Except) {
				continue
			}
			seen := map[string]bool{}
			look := func(imports []string, how string) {
				for _, imported := range imports {
					if seen[imported] || !within(imported, rule.Forbidden) || within(imported, rule.Allowed) {
						continue
					}
					seen[imported] = true
					out = append(out, Violation{Package: pkg.ImportPath, Import: imported, How: how, Why: rule.Why})
				}
			}
			look(pkg.Imports, "directly")
			if rule.Indirect {
				look(pkg.Deps, "indirectly")
			}
			if rule.Tests {
				look(pkg.TestImports, "in tests")
				look(pkg.XTestImports, "in tests")
			}
		}
	}
	return out
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

// Load returns all packages of the module in the given folder, those for tests included.
func Load(ctx context.Context, repository string) ([]Package, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps",
		"./...")
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("failed to list the packages: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var packages []Package
	for decoder := json.NewDecoder(&stdout); ; {
		var pkg Package
		switch err := decoder.Decode(&pkg); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("failed to read the list of packages: %w", err)
		}
		packages = append(packages, pkg)
	}
}
