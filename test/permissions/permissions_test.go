// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/livecpm/livecpm/test/permissions"
)

var _ = Describe("Uses", func() {
	log := strings.Join([]string{
		`{"verb":"get","user":{"username":"one"},"objectRef":{"resource":"shoots","namespace":"n","name":"live","apiGroup":"core.gardener.cloud"},"responseStatus":{"code":200},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC"}}`,
		`{"verb":"patch","user":{"username":"admin"},"impersonatedUser":{"username":"one"},"objectRef":{"resource":"shoots","subresource":"status","name":"live","apiGroup":"core.gardener.cloud"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}`,
		`{"verb":"watch","user":{"username":"one"},"objectRef":{"resource":"configmaps"},"responseStatus":{"code":200},"annotations":{"authorization.k8s.io/decision":"allow"}}`,
		`{"verb":"delete","user":{"username":"one"},"objectRef":{"resource":"secrets","name":"a"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}`,
		`{"verb":"create","user":{"username":"other"},"objectRef":{"resource":"secrets","name":"a"},"responseStatus":{"code":201},"annotations":{"authorization.k8s.io/decision":"allow"}}`,
		`{"verb":"get","user":{"username":"one"},"requestURI":"/healthz","responseStatus":{"code":200}}`,
	}, "\n")

	var uses permissions.Uses
	BeforeEach(func() {
		var err error
		uses, err = permissions.ReadAudit(strings.NewReader(log), func(user string) bool { return user == "one" })
		Expect(err).NotTo(HaveOccurred())
		Expect(uses).To(HaveLen(3))
	})

	DescribeTable("should tell what was not used", func(rule rbacv1.PolicyRule, unused ...string) {
		Expect(uses.Unused(permissions.Granted(rule)...)).To(HaveExactElements(unused))
	},
		Entry("what was used", rbacv1.PolicyRule{APIGroups: []string{"core.gardener.cloud"},
			Resources: []string{"shoots"}, Verbs: []string{"get"}}),
		Entry("a subresource is another resource",
			rbacv1.PolicyRule{APIGroups: []string{"core.gardener.cloud"},
				Resources: []string{"shoots", "shoots/status"}, Verbs: []string{"patch"}},
			"core.gardener.cloud/shoots patch"),
		Entry("what an admission policy has refused was permitted",
			rbacv1.PolicyRule{APIGroups: []string{"core.gardener.cloud"}, Resources: []string{"shoots/status"},
				Verbs: []string{"patch"}}),
		Entry("a watch needs the list", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"list", "watch", "get"}}, "/configmaps get"),
		Entry("what was denied, and what others did",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"},
				Verbs: []string{"delete", "create"}}, "/secrets delete", "/secrets create"),
		Entry("another object",
			rbacv1.PolicyRule{APIGroups: []string{"core.gardener.cloud"}, Resources: []string{"shoots"},
				ResourceNames: []string{"live", "else"}, Verbs: []string{"get"}},
			"core.gardener.cloud/shoots get else"),
		Entry("another group", rbacv1.PolicyRule{APIGroups: []string{"", "core.gardener.cloud"},
			Resources: []string{"shoots"}, Verbs: []string{"get"}}, "/shoots get"),
	)

	It("should not take a damaged log for one in which nothing was done", func() {
		_, err := permissions.ReadAudit(strings.NewReader("{"), func(string) bool { return true })
		Expect(err).To(MatchError(ContainSubstring("failed to decode")))
	})
})
