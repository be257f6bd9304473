// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/mod/modfile"

	"github.com/livecpm/livecpm/test/conformance"
)

const (
	reads  = "[sig-auth] ServiceAccounts should be read [Conformance]"
	writes = "[sig-network] Services should be written [Conformance]"
	pods   = "[sig-network] Proxy should reach a pod (with ports) [Conformance]"
)

// listText is a list of these three.
const listText = `
kubernetes: v1.2.3
sigs: [sig-auth, sig-network]
run:
- "` + reads + `"
- "` + writes + `"
excluded:
- reason: needs a node that runs pods
  specs:
  - "` + pods + `"
`

func parse(text string) *conformance.List {
	GinkgoHelper()
	list, err := conformance.ParseList([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	return list
}

// required returns the version of k8s.io/kubernetes that a component's module asks for.
func required(component string) string {
	GinkgoHelper()
	file := filepath.Join("..", "..", "hack", "tools", component, "go.mod")
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	module, err := modfile.Parse(file, content, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, require := range module.Require {
		if require.Mod.Path == "k8s.io/kubernetes" {
			return require.Mod.Version
		}
	}
	return ""
}

var _ = Describe("The list of specs", func() {
	It("should be of the Kubernetes that the specs are built from and that the shoot has", func() {
		list, err := conformance.Pinned()
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Kubernetes).NotTo(BeEmpty())
		Expect(required(conformance.Component)).To(Equal(list.Kubernetes))
		Expect(required("kubernetes")).To(Equal(list.Kubernetes))
	})

	It("should choose its specs and no others", func() {
		list, err := conformance.Pinned()
		Expect(err).NotTo(HaveOccurred())
		var named []string
		named = append(named, list.Run...)
		for _, exclusion := range list.Excluded {
			named = append(named, exclusion.Specs...)
		}
		// As Ginkgo does it.
		focus := regexp.MustCompile(strings.Join(list.Focus(), "|"))
		var chosen []string
		for _, name := range named {
			if focus.MatchString("Kubernetes e2e suite " + name) {
				chosen = append(chosen, name)
			}
		}
		Expect(chosen).To(Equal(list.Run))
		Expect(focus.MatchString("Kubernetes e2e suite " + list.Run[0] + " [Slow]")).To(BeFalse())
	})

	It("should say one thing of each conformance spec of its groups", func() {
		list := parse(listText)
		other := "[sig-node] Pods should run [Conformance]"
		unmarked := "[sig-auth] ServiceAccounts should be new"
		Expect(list.Covers([]string{reads, writes, pods, other, unmarked})).To(Succeed())
		added := "[sig-auth] Certificates should be new [Conformance]"
		Expect(list.Covers([]string{reads, writes, pods, added})).
			To(MatchError(ContainSubstring("the list says nothing of %q", added)))
		Expect(list.Covers([]string{reads, pods})).
			To(MatchError(ContainSubstring("version v1.2.3 of Kubernetes has no spec %q", writes)))
		Expect(list.Covers([]string{reads, writes})).To(MatchError(ContainSubstring("has no spec %q", pods)))
	})

	DescribeTable("should refuse what could be misread", func(old, replacement, message string) {
		text := strings.Replace(listText, old, replacement, 1)
		Expect(text).NotTo(Equal(listText))
		_, err := conformance.ParseList([]byte(text))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("an unknown field", "run:", "runs:", "unknown field"),
		Entry("no reason", "needs a node that runs pods", `""`, "needs a reason"),
		Entry("no specs without one", "\n  specs:\n  - \""+pods+"\"", "", "needs a reason and specs"),
		Entry("a spec that runs and does not", `- "`+reads+`"`, `- "`+pods+"\"\n- \""+reads+`"`, "is named twice"),
		Entry("another order", `- "`+reads+`"`, `- "[sig-network] Z [Conformance]"`, "sort the specs"),
		Entry("another group", "[sig-auth, sig-network]", "[sig-auth]", "is no conformance spec of sig-auth"),
		Entry("a spec that is not for conformance", writes, "[sig-network] Services should not",
			"is no conformance spec"),
		Entry("no version", "v1.2.3", `""`, "needs a version"),
	)
})
