// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gardener/gardener/imagevector"
	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("compatibility.md", func() {
	// module returns the version that a module file requires.
	module := func(folder, path string) string {
		GinkgoHelper()
		content := regexp.MustCompile(`(?s)exclude \(.*?\n\)`).ReplaceAllString(
			read(filepath.Join("..", folder, "go.mod")), "")
		match := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(path) + ` (v\S+)`).
			FindStringSubmatch(content)
		Expect(match).NotTo(BeNil(), path+" in "+folder)
		return match[1]
	}
	column := map[string]string{}
	table := rows(read("compatibility.md"), "livecpm | Gardener |")

	BeforeEach(func() {
		Expect(table).NotTo(BeEmpty())
		Expect(table[0]).To(HaveLen(6))
		for n, name := range []string{"livecpm", "gardener", "druid", "backup-restore", "kubernetes", "here"} {
			column[name] = table[0][n]
		}
		Expect(column["livecpm"]).To(Equal("this"))
	})

	It("should have the Gardener that livecpm is built from, in all of its modules", func() {
		const gardener = "github.com/gardener/gardener"
		Expect(column["gardener"]).To(And(Equal(module(".", gardener)), Equal(module(".", gardener+"/pkg/apis"))))
		Expect(column["gardener"]).To(Equal(module("hack/tools/gardener", gardener)), "the landscape runs another one")
	})

	It("should have the etcd-druid that this Gardener deploys, and the etcd-backup-restore that the landscape "+
		"runs with it", func() {
		image, err := imagevector.Containers().FindImage(imagevector.ContainerImageNameEtcdDruid)
		Expect(err).NotTo(HaveOccurred())
		Expect(image.Tag).To(HaveValue(Equal(column["druid"])))
		Expect(column["druid"]).To(Equal(module("hack/tools/etcd-druid", "github.com/gardener/etcd-druid")),
			"the landscape runs another one")
		Expect(column["backup-restore"]).
			To(Equal(module("hack/tools/etcd-backup-restore", "github.com/gardener/etcd-backup-restore")))
	})

	It("should have the versions of Kubernetes that this Gardener supports, that of the landscape among them", func() {
		supported := kubernetesversion.SupportedVersions
		Expect(column["kubernetes"]).To(Equal(supported[0] + " to " + supported[len(supported)-1]))
		kubernetes := module("hack/tools/kubernetes", "k8s.io/kubernetes")
		Expect(column["here"]).
			To(Equal("Kubernetes " + kubernetes + ", etcd " +
				module("test/standins/etcdwrapper", "go.etcd.io/etcd/server/v3")))
		Expect(supported).To(
			ContainElement(strings.Join(strings.Split(strings.TrimPrefix(kubernetes, "v"), ".")[:2], ".")))
	})

	It("should leave no feature of a landscape without its state, and no state without what shows it or why", func() {
		features := rows(read("compatibility.md"), "area | feature | state |")
		areas := map[string]int{}
		for _, row := range features {
			Expect(row).To(HaveLen(4))
			Expect(row).NotTo(ContainElement(BeEmpty()), row[1])
			areas[row[0]]++
			reasons := regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(row[3], -1)
			switch row[2] {
			case "works":
				Expect(row[3]).To(MatchRegexp("`[^`]*(make |test/|pkg/|cmd/)[^`]*`"),
					"nothing shows that %s works", row[1])
			case "refused":
				Expect(reasons).NotTo(BeEmpty(), "no reason is named for %s", row[1])
			case "not tested":
				Expect(len(row[3])).To(BeNumerically(">", 20), row[1])
			default:
				Fail(row[1] + " is " + row[2])
			}
			for _, folder := range regexp.MustCompile("`((?:cmd|hack|pkg|test)/[^` ]+)`").
				FindAllStringSubmatch(row[3], -1) {
				Expect(filepath.Join("..", folder[1])).To(BeADirectory(), row[1])
			}
			for _, reason := range reasons {
				Expect(filepath.Join("operations", "reasons", reason[1]+".md")).To(BeAnExistingFile(), row[1])
			}
		}
		for _, area := range []string{"exposure", "extensions", "DNS", "IP families", "cluster DNS", "network plugins",
			"workers", "seed types", "versions", "backup providers"} {
			Expect(areas).To(HaveKey(area))
		}
	})
})
