// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package bump_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/mod/modfile"
)

// requirements returns the versions that a module file asks for, without what it replaces.
func requirements(folder string) map[string]string {
	GinkgoHelper()
	name := filepath.Join(repository, folder, "go.mod")
	content, err := os.ReadFile(name)
	Expect(err).NotTo(HaveOccurred())
	file, err := modfile.Parse(name, content, nil)
	Expect(err).NotTo(HaveOccurred())
	versions := map[string]string{}
	for _, require := range file.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range file.Replace {
		versions[replace.Old.Path] = replace.New.Version
	}
	return versions
}

var _ = Describe("Modules of the components that share most with this repository", func() {
	// Of another version, hundreds of packages are compiled twice (docs/development/landscape.md). etcd and
	// etcd-backup-restore are not among them on purpose: theirs are as their releases have them.
	DescribeTable("should have its versions of what they share", func(folder string) {
		ours := requirements(".")
		shared := 0
		for path, version := range requirements(folder) {
			// A folder in place of a module has no version.
			if ours[path] == "" || version == "" {
				continue
			}
			shared++
			Expect(version).To(Equal(ours[path]), "run: go get -C %s %s@%s && go mod tidy -C %s", folder, path,
				ours[path], folder)
		}
		Expect(shared).To(BeNumerically(">", 20), "modules must be found")
	},
		Entry(nil, "hack/tools/kubernetes"),
		Entry(nil, "hack/tools/kubernetes-e2e"),
		Entry(nil, "hack/tools/coredns"),
		Entry(nil, "hack/tools/gardener"),
		Entry(nil, "hack/tools/etcd-druid"),
	)
})
