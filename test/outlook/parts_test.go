// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/outlook"
)

const repository = "../.."

var _ = Describe("Parts", func() {
	DescribeTable("should be named once, have a title and a stage, and come after what they need",
		func(more []string) {
			seen := map[string]bool{}
			for _, part := range outlook.Parts(more...) {
				Expect(seen).NotTo(HaveKey(part.Name))
				Expect(part.Title).NotTo(BeEmpty(), part.Name)
				Expect(outlook.Stages()).To(ContainElement(part.Stage), part.Name)
				Expect(part.First).To(BeNumerically(">=", part.Again), part.Name)
				for _, name := range part.Needs {
					Expect(seen).To(HaveKey(name), "%s needs it", part.Name)
				}
				seen[part.Name] = true
			}
		},
		Entry("without more components", nil),
		Entry("with the components of workers", outlook.WorkerComponents()),
	)

	It("should build the components of hack/build-tools.sh, in its order", func() {
		output, err := exec.Command(filepath.Join(repository, "hack", "build-tools.sh"), "--components").Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Fields(string(output))).To(Equal(outlook.Components()))
		var built []string
		for _, part := range outlook.Parts(outlook.WorkerComponents()...) {
			if part.Component != "" {
				built = append(built, part.Component)
			}
		}
		Expect(built).To(Equal(append(outlook.Components(), outlook.WorkerComponents()...)))
	})

	It("should compile one component after the other, and let the landscape start beside that", func() {
		before := func(name string) []string {
			var names []string
			for _, part := range outlook.Until(outlook.Parts(), name) {
				names = append(names, part.Name)
			}
			return names
		}
		components := outlook.Components()
		for i, component := range components[1:] {
			Expect(before(outlook.Tool(component))).To(ContainElement(outlook.Tool(components[i])))
		}
		Expect(before("garden")).To(ContainElements(outlook.Tool("etcd"), outlook.Tool("kubernetes")))
		Expect(before("garden")).NotTo(ContainElement(outlook.Tool("containerd")))
		Expect(before("prerequisites")).NotTo(ContainElement(outlook.Tool("etcd-backup-restore")))
		// The two longest waits do not wait for each other.
		Expect(before("shoot")).NotTo(ContainElement("livecpm"))
		Expect(before("livecpm")).NotTo(ContainElement("shoot"))
	})

	It("should be those that are needed until the named ones", func() {
		parts := outlook.Until(outlook.Parts(), outlook.Tool("kubernetes"))
		names := []string{}
		for _, part := range parts {
			names = append(names, part.Name)
		}
		Expect(names).
			To(Equal([]string{outlook.PartDemo, "requirements", outlook.Tool("etcd"), outlook.Tool("kubernetes")}))
		Expect(slices.IsSortedFunc(parts, func(a, b outlook.Part) int {
			return slices.Index(names, a.Name) - slices.Index(names, b.Name)
		})).To(BeTrue())
	})
})
