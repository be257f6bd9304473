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
})
